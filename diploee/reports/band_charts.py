"""Percentile bands by time of day and of week, of power and of node occupancy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diploee.drawing.charts import PEAK, Axis, Band, Chart, Line, Panel, colour, dash, since_monday
from diploee.reports.aggregate import by_day, percentiles_by_time
from diploee.reports.common import (
    BIN_MS,
    DAY_AXIS,
    FEW_DAYS,
    MAX_TOGETHER,
    WEEK_AXIS,
    by_run,
    by_run_words,
    colour_of,
    days_axis,
    days_of,
    have_a_week,
    interval_of,
    power_axis,
)
from diploee.reports.data import RunData
from diploee.units import MS_PER_DAY, MS_PER_WEEK, PowerUnit

PERCENTILES = (5.0, 25.0, 50.0, 75.0, 95.0, 100.0)


def bands_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the percentile bands by time of day and by time of week."""
    periods = [(DAY_AXIS, MS_PER_DAY, "By time of day")]
    if have_a_week(runs):
        periods.append((WEEK_AXIS, MS_PER_WEEK, "By time of week"))
    parts = runs[0].parts if len(runs) == 1 else ()

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        axis = power_axis(drawn if drawn is parts else runs, unit)
        return [
            Panel(
                x,
                axis,
                _band_layers(drawn, "power_w", period_ms, unit.watts, unit.power),
                f"{title}{', by pool' if drawn is parts else ''}",
            )
            for x, period_ms, title in periods
        ]

    by_pool = " By pool: medians, and bands from the 25th to the 75th percentile." if parts else ""
    return Chart(
        "bands",
        "Typical day and typical week",
        f"{_band_words(runs)}{by_pool} Percentiles are taken over all {interval_of(runs)} means "
        "that fall in the same quarter-hour, over the whole period; nothing is averaged first. "
        f"Half of them lie below the median line.{by_run_words(runs)}",
        (*by_run(runs, panels), *(panels(parts) if parts else ())),
    )


def occupancy_chart(runs: Sequence[RunData]) -> Chart:
    """Return the node occupancy: by time of week, by day of the period and its distribution."""
    percent = Axis("Node occupancy [%]", range=(0, 102))
    weekly, (first, last) = have_a_week(runs), days_of(runs)

    def panels(drawn: Sequence[RunData]) -> Iterator[Panel]:
        if weekly:
            layers = _band_layers(drawn, "utilization", MS_PER_WEEK, 0.01, "%")
            yield Panel(WEEK_AXIS, percent, layers, "By time of week")
        if first == last:
            layers = _band_layers(drawn, "utilization", MS_PER_DAY, 0.01, "%")
            yield Panel(DAY_AXIS, percent, layers, "By time of day")
        else:
            axis = days_axis(first, last, 24)
            yield Panel(axis, percent, _daily_layers(drawn), "By day")

    return Chart(
        "occupancy",
        "Node occupancy",
        "Busy nodes over all nodes (the paper's utilization, Eq. 1); it says nothing on how hard "
        f"the GPUs work. {_band_words(runs) if first == last else _occupancy_words(runs, weekly)}"
        f"{by_run_words(runs)}",
        by_run(runs, lambda drawn: [*panels(drawn)]),
    )


def _band_layers(
    runs: Sequence[RunData], field: str, period_ms: int, divisor: float, unit: str
) -> tuple[Band | Line, ...]:
    """Return median and bands of a field of each run, over a day or a week."""
    layers: list[Band | Line] = []
    for index, run in enumerate(runs):
        bin_ms = max(BIN_MS, run.step_ms)
        values = percentiles_by_time(
            run.local_ms, getattr(run, field), period_ms, bin_ms, PERCENTILES
        )
        seen = np.isfinite(values[0])  # a run of less than a day has no value for some times
        seen[-1] &= seen[-2]  # and no circle to close
        p5, p25, p50, p75, p95, top = (values[:, seen] / divisor).astype(np.float32)
        x = since_monday(np.flatnonzero(seen) * bin_ms)
        main, median = colour_of(index, run), run.label if len(runs) > 1 else "median"
        if len(runs) == 1:
            layers.append(Line(x, top, "maximum", PEAK, unit, width=1.2))
            layers.append(Band(x, p5, p95, "5 to 95 %", main, 0.16, unit, 2, "5 %", "95 %"))
            layers.append(Band(x, p25, p75, "25 to 75 %", main, 0.34, unit, 2, "25 %", "75 %"))
        else:
            layers.append(Band(x, p25, p75, run.label, main, 0.16, legend=False))
        layers.append(Line(x, p50, median, main, unit, dash=dash(index), width=2.2))
    return tuple(layers)


def _band_words(runs: Sequence[RunData]) -> str:
    if len(runs) == 1 or len(runs) > MAX_TOGETHER:
        return (
            "Line: median. Dark band: 25th to 75th percentile. Light band: 5th to 95th. "
            "Thin grey line: the highest value."
        )
    return "Lines: medians. Bands: 25th to 75th percentile."


def _daily_layers(runs: Sequence[RunData]) -> tuple[Band | Line, ...]:
    layers: list[Band | Line] = []
    for index, run in enumerate(runs):
        days = by_day(run.local_ms, run.utilization)
        mean, low, high = ((v * 100).astype(np.float32) for v in (days.mean, days.low, days.high))
        name = run.label if len(runs) > 1 else "daily mean"
        if len(runs) == 1:
            layers.append(
                Band(days.day, low, high, "lowest to highest", colour(0), 0.16, "%", 1,
                     "lowest", "highest")
            )  # fmt: skip
        few = days.day.size <= FEW_DAYS
        layers.append(
            Line(days.day, mean, name, colour(index), "%", 1, dash(index), 1.6, markers=few)
        )
    return tuple(layers)


def _occupancy_words(runs: Sequence[RunData], weekly: bool) -> str:
    words = f"By week: {_band_words(runs)[0].lower()}{_band_words(runs)[1:]} " if weekly else ""
    if len(runs) == 1 or len(runs) > MAX_TOGETHER:
        return f"{words}By day: the mean, and the range from the lowest to the highest value."
    return f"{words}By day: the daily means."
