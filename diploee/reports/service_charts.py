"""Charts of inference services: request rates, unserved requests, model instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diploee.drawing.charts import Array, Axis, Chart, Line, Panel, colour, dash, since_monday
from diploee.reports.aggregate import by_day, means_by_time
from diploee.reports.common import (
    BIN_MS,
    FEW_DAYS,
    WEEK_AXIS,
    by_run,
    by_run_words,
    days_axis,
    days_of,
    one_scale,
)
from diploee.reports.data import RunData
from diploee.units import MS_PER_WEEK

RATE = "Requests per second [1/s]"


def _named(runs: Sequence[RunData], kind: str) -> Iterator[tuple[int, str, RunData, Array]]:
    """Yield index, name, run and values of every service of every run that has the column."""
    index = 0
    for run in runs:
        for service, columns in run.services.items():
            if kind in columns:
                name = f"{run.label}: {service}" if len(runs) > 1 else service
                yield index, name, run, columns[kind]
            index += 1


def rates_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the request rates by time of week; None of runs without services."""
    runs = [run for run in runs if run.services]

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        kinds = (("incoming_rps", "Incoming"), ("served_rps", "Served"))
        of_kinds = ((title, tuple(_weekly_lines(drawn, kind, "1/s"))) for kind, title in kinds)
        return [
            Panel(WEEK_AXIS, Axis(RATE, from_zero=True), lines, title)
            for title, lines in of_kinds
            if lines
        ]

    found = by_run(runs, panels)
    if not found:
        return None
    return Chart(
        "request-rates",
        "Request rates by service",
        "Mean rate by time of week, in bins of a quarter-hour over all weeks of the period."
        f"{by_run_words(runs)}",
        one_scale(found),
    )


def _weekly_lines(runs: Sequence[RunData], kind: str, unit: str) -> Iterator[Line]:
    for index, name, run, values in _named(runs, kind):
        bin_ms = max(BIN_MS, run.step_ms)
        y = means_by_time(run.local_ms, values, MS_PER_WEEK, bin_ms).astype(np.float32)
        x = since_monday(np.arange(y.size) * bin_ms)
        yield Line(x, y, name, colour(index), unit, 1, dash(index))


def unserved_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the requests that are not served; None where all are."""
    runs = [run for run in runs if run.services]
    found = [values for _, _, _, values in _named(runs, "unserved_rps")]
    if not sum(float(values.sum(dtype=np.float64)) for values in found):
        return None
    day_axis = days_axis(*days_of(runs), 24)

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        weekly = tuple(_weekly_lines(drawn, "unserved_rps", "1/s"))
        daily = []
        for index, name, run, values in _named(drawn, "unserved_rps"):
            days = by_day(run.local_ms, values)
            y = (days.mean * 86_400 / 1e6).astype(np.float32)
            few = days.day.size <= FEW_DAYS
            daily.append(
                Line(days.day, y, name, colour(index), "million", 3, dash(index), 1.4, markers=few)
            )
        per_day = Axis("Unserved requests per day [million]", from_zero=True)
        return [
            Panel(WEEK_AXIS, Axis(RATE, from_zero=True), weekly, "By time of week"),
            Panel(day_axis, per_day, tuple(daily), "By day"),
        ]

    shares = "; ".join(_unserved_share(runs))
    return Chart(
        "unserved",
        "Unserved requests",
        "Requests above the capacity of the running instances. By time of week: mean rate, in bins "
        f"of a quarter-hour. By day: the sum of each. Share of all requests: {shares}."
        f"{by_run_words(runs)}",
        by_run(runs, panels),
    )


def _unserved_share(runs: Sequence[RunData]) -> Iterator[str]:
    incoming = {name: values for _, name, _, values in _named(runs, "incoming_rps")}
    for _, name, _, values in _named(runs, "unserved_rps"):
        offered = float(incoming[name].sum(dtype=np.float64)) if name in incoming else 0.0
        if offered:
            yield f"{name} {float(values.sum(dtype=np.float64)) / offered * 100:.2f} %"


def instances_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the instances in use by time of week; None of runs without services."""
    runs = [run for run in runs if run.services]

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        lines = tuple(_weekly_lines(drawn, "n_instances", "instances"))
        axis = Axis("Instances in use", from_zero=True)
        return [Panel(WEEK_AXIS, axis, lines)] if lines else []

    found = by_run(runs, panels)
    if not found:
        return None
    return Chart(
        "instances",
        "Model instances by service",
        "Mean number of instances in use by time of week, in bins of a quarter-hour."
        f"{by_run_words(runs)}",
        found,
    )
