"""Tables of the demand: peak, maximum demand, load factors, headroom, coincidence, months."""

from __future__ import annotations

from collections.abc import Sequence

from diploee.report.aggregate import by_month
from diploee.report.charts import Table
from diploee.report.grid_data import Block, GridView
from diploee.report.words import NONE, listed, moment, number
from diploee.units import W_PER_MW

_Row = tuple[str, ...]


def demand_table(view: GridView) -> Table:
    """Return mean, peak, maximum demand, load factors, headroom and coincidence."""
    block, unit, means = view.block, view.unit.power, f"{view.resolution} means"
    peak = block["peak"]
    rows: list[_Row] = [
        (f"Mean power [{unit}]", *view.cells([block["mean_mw"]]), means, NONE),
        (f"Peak [{unit}]", *view.cells([peak["max_mw"]]), means, view.when(peak["time"])),
    ]
    demands = block["maximum_demand"]["intervals"]
    for demand in demands:
        over = _minutes(demand)
        label = f"Maximum demand over {over} [{unit}]"
        found = view.cells([demand["max_mw"]])
        rows.append((label, *found, f"{over} of {means}", moment(demand["time"])))
    rows.append(("Load factor [1]", number(block["load_factor"], "{:.3f}"), means, NONE))
    for demand in demands:
        over = _minutes(demand)
        factor = number(demand["load_factor"], "{:.3f}")
        rows.append((f"Load factor, {over} demand [1]", factor, f"{over} of {means}", NONE))
    rows += _headroom(view, means) + _coincidence(view, means)
    return Table(
        "Demand",
        ("", "Value", "Resolution", "When"),
        tuple(rows),
        "Maximum demand: the highest mean over a whole clock interval, by local time. Load factor: "
        f"mean power over the peak, or over the maximum demand.{_coincidence_words(block)}",
        n_texts=2,
    )


def _minutes(demand: Block) -> str:
    return f"{demand['interval_min']} min"


def _headroom(view: GridView, means: str) -> list[_Row]:
    headroom, unit = view.block["headroom"], view.unit.power
    if not headroom:
        return []
    rated = f"{view.in_unit([headroom['rated_mw']])[0]:,.4g} {unit}"
    share = number(headroom["fraction"], "{:.1f}", 100)
    return [
        (f"Headroom below the rated {rated} [{unit}]", *view.cells([headroom["mw"]]), means, NONE),
        ("Headroom, of the rated power [%]", share, means, NONE),
    ]


def _coincidence(view: GridView, means: str) -> list[_Row]:
    found = view.block["coincidence"]
    if not found:
        return []
    factor = number(found["factor"], "{:.3f}")
    return [("Coincidence factor of the pools [1]", factor, means, NONE)]


def _coincidence_words(block: Block) -> str:
    found = block["coincidence"]
    if not found:
        return ""
    if len(found["pools"]) == 1:
        return " Coincidence factor: with one pool it is always 1."
    return (
        " Coincidence factor: the peak of the pools together over the sum of their own peaks "
        f"({listed(list(found['pools']))})."
    )


def months_table(view: GridView) -> Table | None:
    """Return maximum demand and load factors by month; None for a run within one month."""
    run, block = view.run, view.block
    peaks = block["monthly_peaks"]
    if len(peaks) < 2:
        return None
    months = by_month(run.local_ms, run.power_w, run.step_ms)
    names = [str(month) for month in months.month]
    means_mw = [float(mean_w) / W_PER_MW for mean_w in months.mean_w]
    columns: list[list[str]] = [
        view.cells(means_mw),
        view.cells([(peaks.get(name) or {}).get("max_mw") for name in names]),
    ]
    header = ["Month", f"Mean [{view.unit.power}]", f"Peak, {view.resolution} [{view.unit.power}]"]
    for demand in block["maximum_demand"]["intervals"]:
        largest = [(demand["monthly"].get(name) or {}).get("max_mw") for name in names]
        factors = monthly_load_factors(means_mw, largest)
        columns += [view.cells(largest), [number(factor, "{:.3f}") for factor in factors]]
        header += [f"{_minutes(demand)} [{view.unit.power}]", f"{_minutes(demand)} load factor [1]"]
    partial = [name for name, whole in zip(names, months.complete, strict=True) if not whole]
    note = f" {listed(partial)}: only what the run covers." if partial else ""
    return Table(
        "Maximum demand and load factor by month",
        tuple(header),
        tuple((name, *row) for name, row in zip(names, zip(*columns, strict=True), strict=True)),
        f"All of {view.resolution} means. Load factor of a month: its mean power over its maximum "
        f"demand.{note}",
    )


def monthly_load_factors(
    means_mw: Sequence[float], largest_mw: Sequence[float | None]
) -> list[float | None]:
    """Return mean over maximum demand of each month; None where there is no demand."""
    return [
        mean / largest if largest else None
        for mean, largest in zip(means_mw, largest_mw, strict=True)
    ]
