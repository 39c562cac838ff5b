"""Percentile bands by time of day and of week, of power and of node occupancy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.drawing.charts import PEAK, Axis, Band, Chart, Line, Panel, colour, dash, since_monday
from diploee.report.aggregate import by_day, percentiles_by_time
from diploee.report.common import (
    BIN_MS,
    DAY_AXIS,
    FEW_DAYS,
    WEEK_AXIS,
    colour_of,
    days_axis,
    have_a_week,
    interval_of,
    power_axis,
)
from diploee.report.data import RunData
from diploee.units import MS_PER_DAY, MS_PER_WEEK, PowerUnit

PERCENTILES = (5.0, 25.0, 50.0, 75.0, 95.0, 100.0)

MAX_BANDS = 4
"""Of more runs only the medians are drawn."""


def bands_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the percentile bands by time of day and by time of week."""
    periods = [(DAY_AXIS, MS_PER_DAY, "By time of day")]
    if have_a_week(runs):
        periods.append((WEEK_AXIS, MS_PER_WEEK, "By time of week"))
    parts = runs[0].parts if len(runs) == 1 else ()
    panels = [
        Panel(
            x,
            power_axis(drawn, unit),
            band_layers(drawn, "power_w", period_ms, unit.watts, unit.power),
            f"{title}{', by pool' if drawn is parts else ''}",
        )
        for drawn in filter(None, (runs, parts))
        for x, period_ms, title in periods
    ]
    by_pool = f" By pool: {_band_words(parts)[0].lower()}{_band_words(parts)[1:]}" if parts else ""
    return Chart(
        "bands",
        "Typical day and typical week",
        f"{_band_words(runs)}{by_pool} Percentiles are taken over all {interval_of(runs)} means "
        "that fall in the same quarter-hour, over the whole period; nothing is averaged first. "
        "Half of them lie below the median line.",
        tuple(panels),
    )


def occupancy_chart(runs: Sequence[RunData]) -> Chart:
    """Return the node occupancy: by time of week, by day of the period and its distribution."""
    percent = Axis("Node occupancy [%]", range=(0, 102))
    panels = []
    weekly = have_a_week(runs)
    if weekly:
        layers = band_layers(runs, "utilization", MS_PER_WEEK, 0.01, "%")
        panels.append(Panel(WEEK_AXIS, percent, layers, "By time of week"))
    first, last = _days_of(runs)
    if first == last:
        layers = band_layers(runs, "utilization", MS_PER_DAY, 0.01, "%")
        panels.append(Panel(DAY_AXIS, percent, layers, "By time of day"))
    else:
        axis = days_axis(first, last, 24)
        panels.append(Panel(axis, percent, _daily_layers(runs), "By day"))
    return Chart(
        "occupancy",
        "Node occupancy",
        "Busy nodes over all nodes (the paper's utilization, Eq. 1); it says nothing on how hard "
        f"the GPUs work. {_band_words(runs) if first == last else _occupancy_words(runs, weekly)}",
        tuple(panels),
    )


def band_layers(
    runs: Sequence[RunData], field: str, period_ms: int, divisor: float, unit: str
) -> tuple[Band | Line, ...]:
    """Return median and bands of a field of each run, over a day or a week.

    Parameters
    ----------
    runs : sequence of RunData
        Of one run all bands are drawn, of up to `MAX_BANDS` the inner one, of more none.
    field : {"power_w", "utilization"}
        What is drawn.
    period_ms : int
        A day or a week [ms].
    divisor : float
        Size of the unit.
    unit : str
        Its name.
    """
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
        elif len(runs) <= MAX_BANDS:
            layers.append(Band(x, p25, p75, run.label, main, 0.16, legend=False))
        layers.append(Line(x, p50, median, main, unit, dash=dash(index), width=2.2))
    return tuple(layers)


def _band_words(runs: Sequence[RunData]) -> str:
    if len(runs) == 1:
        return (
            "Line: median. Dark band: 25th to 75th percentile. Light band: 5th to 95th. "
            "Thin grey line: the highest value."
        )
    if len(runs) <= MAX_BANDS:
        return "Lines: medians. Bands: 25th to 75th percentile."
    return "Lines: medians."


def _days_of(runs: Sequence[RunData]) -> tuple[int, int]:
    """Return the first and the last calendar day of all runs, since 1970."""
    first = min(int(run.local_ms[0]) for run in runs) // MS_PER_DAY
    last = max(int(run.local_ms[-1]) for run in runs) // MS_PER_DAY
    return first, last


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
    if len(runs) == 1:
        return f"{words}By day: the mean, and the range from the lowest to the highest value."
    return f"{words}By day: the daily means."
