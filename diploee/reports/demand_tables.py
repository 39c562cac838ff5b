"""Tables of the demand: peak, maximum demand, load factors, headroom, coincidence, months."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from diploee.metric import Metric, find_metric, flatten, number
from diploee.metrics.demand import DEMAND_METRICS
from diploee.reports.aggregate import Months, by_month
from diploee.reports.content import PageTable
from diploee.reports.grid_data import Entry, GridView
from diploee.reports.words import listed, moment
from diploee.units import W_PER_MW


def demand_table(view: GridView) -> PageTable:
    """Return mean, peak, maximum demand, load factors, headroom and coincidence."""
    values = dict(flatten({"grid": view.block}))
    rows = [
        _row(view, metric.sized(view.unit), values)
        for declared in DEMAND_METRICS
        for metric in (find_metric(key, [declared]) for key in values)
        if metric is not None
    ]
    return PageTable(
        "Demand",
        ("", "Value", "Resolution", "When"),
        tuple(rows),
        "Maximum demand: the highest mean over a whole clock interval, by local time. Load factor: "
        "mean power over the peak, or over the maximum demand. Headroom: rated power less the "
        f"peak.{_coincidence_words(view.block)}",
        n_texts=2,
    )


def _row(view: GridView, metric: Metric, values: dict[str, Any]) -> tuple[str, ...]:
    """Return a metric with the means that it is of, and when it was."""
    means, time = f"{view.resolution} means", None
    group, _, name = metric.key.rpartition(".")
    if name == "max_mw":
        time = values.get(f"{group}.time")
    if over := re.search(r"\.(\d+)min\.", metric.key):
        means, when = f"{over[1]} min of {means}", moment(time)
    else:
        when = view.when(time)
    return metric.heading, metric.show(values[metric.key]), means, when


def _coincidence_words(block: Entry) -> str:
    found = block["coincidence"]
    if not found:
        return ""
    if len(found["pools"]) == 1:
        return " Coincidence factor: with one pool it is always 1."
    return (
        " Coincidence factor: the peak of the pools together over the sum of their own peaks "
        f"({listed(list(found['pools']))})."
    )


@dataclass(frozen=True)
class _DemandMonths:
    """Mean and peak by calendar month [MW]; by demand its minutes, largest [MW] and load factors.

    None where a month has no value.
    """

    months: Months
    mean_mw: list[float]
    peak_mw: list[float | None]
    demands: list[tuple[int, list[float | None], list[float | None]]]


def demand_months(view: GridView) -> _DemandMonths | None:
    """Return the demand by month; None for a run within one month."""
    run, block = view.run, view.block
    if len(block["monthly_peaks"]) < 2:
        return None
    months = by_month(run.local_ms, run.power_w, run.step_ms)
    mean_mw = (months.mean_w / W_PER_MW).tolist()

    def largest(by_name: Entry) -> list[float | None]:
        return [(by_name.get(str(month)) or {}).get("max_mw") for month in months.month]

    demands = []
    for demand in block["maximum_demand"]["intervals"]:
        largest_mw = largest(demand["monthly"])
        factors = [m / most if most else None for m, most in zip(mean_mw, largest_mw, strict=True)]
        demands.append((demand["interval_min"], largest_mw, factors))
    return _DemandMonths(months, mean_mw, largest(block["monthly_peaks"]), demands)


def months_table(view: GridView) -> PageTable | None:
    """Return maximum demand and load factors by month; None for a run within one month."""
    found, unit = demand_months(view), view.unit.power
    if found is None:
        return None
    names = [str(month) for month in found.months.month]
    columns = [names, view.cells(found.mean_mw), view.cells(found.peak_mw)]
    header = ["Month", f"Mean [{unit}]", f"Peak, {view.resolution} [{unit}]"]
    for minutes, largest_mw, factors in found.demands:
        columns += [view.cells(largest_mw), [number(factor, "{:.3f}") for factor in factors]]
        header += [f"{minutes} min [{unit}]", f"{minutes} min load factor"]
    partial = [name for name, whole in zip(names, found.months.complete, strict=True) if not whole]
    note = f" {listed(partial)}: only what the run covers." if partial else ""
    return PageTable(
        "Maximum demand and load factor by month",
        tuple(header),
        tuple(zip(*columns, strict=True)),
        f"All of {view.resolution} means. Load factor of a month: its mean power over its maximum "
        f"demand.{note}",
    )
