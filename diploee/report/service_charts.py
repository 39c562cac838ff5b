"""Charts of inference services: request rates, unserved requests, model instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diploee.drawing.charts import Array, Axis, Bars, Chart, Line, Panel, colour, dash, since_monday
from diploee.report.aggregate import by_day, means_by_time
from diploee.report.common import BIN_MS, FEW_DAYS, WEEK_AXIS, days_axis
from diploee.report.data import RunData
from diploee.units import MS_PER_WEEK

RATE = "Requests per second [1/s]"


def services_charts(runs: Sequence[RunData]) -> list[Chart]:
    """Return the charts of the services; none for runs without inference."""
    serving = [run for run in runs if run.services]
    if not serving:
        return []
    charts = [_rates_chart(serving), _unserved_chart(serving), _instances_chart(serving)]
    return [chart for chart in charts if chart is not None]


def _named(runs: Sequence[RunData], kind: str) -> Iterator[tuple[int, str, RunData, Array]]:
    """Yield index, name, run and values of every service of every run that has the column."""
    index = 0
    for run in runs:
        for service, columns in run.services.items():
            if kind in columns:
                name = f"{run.label}: {service}" if len(runs) > 1 else service
                yield index, name, run, columns[kind]
            index += 1


def _rates_chart(runs: Sequence[RunData]) -> Chart | None:
    panels = []
    for kind, title in (("incoming_rps", "Incoming"), ("served_rps", "Served")):
        lines = tuple(_weekly_lines(runs, kind, "1/s"))
        if lines:
            panels.append(Panel(WEEK_AXIS, Axis(RATE, from_zero=True), lines, title))
    if not panels:
        return None
    return Chart(
        "request-rates",
        "Request rates by service",
        "Mean rate by time of week, in bins of a quarter-hour over all weeks of the period.",
        _one_scale(panels),
    )


def _one_scale(panels: list[Panel]) -> tuple[Panel, ...]:
    """Give all panels the y range of the highest, so that they can be compared."""
    tops = [np.nanmax(lay.y) for p in panels for lay in p.layers if isinstance(lay, Line)]
    y = Axis(panels[0].y.label, range=(0, float(max(tops)) * 1.05 or 1))
    return tuple(Panel(p.x, y, p.layers, p.title, p.wide) for p in panels)


def _weekly_lines(runs: Sequence[RunData], kind: str, unit: str) -> Iterator[Line]:
    for index, name, run, values in _named(runs, kind):
        bin_ms = max(BIN_MS, run.step_ms)
        y = means_by_time(run.local_ms, values, MS_PER_WEEK, bin_ms).astype(np.float32)
        x = since_monday(np.arange(y.size) * bin_ms)
        yield Line(x, y, name, colour(index), unit, 1, dash(index))


def _unserved_chart(runs: Sequence[RunData]) -> Chart | None:
    found = list(_named(runs, "unserved_rps"))
    if not found:
        return None
    title = "Unserved requests"
    total = sum(float(values.sum(dtype=np.float64)) for _, _, _, values in found)
    if total == 0:
        return None
    weekly = tuple(_weekly_lines(runs, "unserved_rps", "1/s"))
    daily: list[Bars | Line] = []
    for index, name, run, values in found:
        days = by_day(run.local_ms, values)
        y = (days.mean * 86_400 / 1e6).astype(np.float32)
        few = days.day.size <= FEW_DAYS
        daily.append(
            Line(days.day, y, name, colour(index), "million", 3, dash(index), 1.4, markers=few)
        )
    drawn = np.concatenate([line.x for line in daily]).astype(np.int64)
    shares = "; ".join(_unserved_share(runs))
    return Chart(
        "unserved",
        title,
        "Requests above the capacity of the running instances. Left: mean rate by time of week, in "
        f"bins of a quarter-hour. Right: sum of each day. Share of all requests: {shares}.",
        (
            Panel(WEEK_AXIS, Axis(RATE, from_zero=True), weekly, "By time of week"),
            Panel(
                days_axis(int(drawn.min()), int(drawn.max()), 24),
                Axis("Unserved requests per day [million]", from_zero=True),
                tuple(daily),
                "By day",
            ),
        ),
    )


def _unserved_share(runs: Sequence[RunData]) -> Iterator[str]:
    incoming = {name: values for _, name, _, values in _named(runs, "incoming_rps")}
    for _, name, _, values in _named(runs, "unserved_rps"):
        offered = float(incoming[name].sum(dtype=np.float64)) if name in incoming else 0.0
        if offered:
            yield f"{name} {float(values.sum(dtype=np.float64)) / offered * 100:.2f} %"


def _instances_chart(runs: Sequence[RunData]) -> Chart | None:
    lines = tuple(_weekly_lines(runs, "n_instances", "instances"))
    if not lines:
        return None
    return Chart(
        "instances",
        "Model instances by service",
        "Mean number of instances in use by time of week, in bins of a quarter-hour.",
        (Panel(WEEK_AXIS, Axis("Instances in use", from_zero=True), lines),),
    )
