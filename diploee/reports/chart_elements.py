"""Axes, bins and histogram layers shared by several charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diploee.base.units import MS_PER_DAY, MS_PER_WEEK, PowerUnit
from diploee.reports.aggregate import histogram
from diploee.reports.data import RunData
from diploee.reports.drawing.axis_extents import y_range
from diploee.reports.drawing.charts import (
    INK,
    MONDAY,
    Array,
    Axis,
    Bars,
    Chart,
    Line,
    Panel,
    colour,
    dash,
    since_monday,
)
from diploee.runs.formatting import interval, listed

DAY_AXIS = Axis("Time of day [h]", "time of day", (MONDAY, since_monday(MS_PER_DAY)))

WEEK_AXIS = Axis("Time of week", "time of week", (MONDAY, since_monday(MS_PER_WEEK)))

MAX_TOGETHER = 3
"""Maximum number of runs that share a panel; more have separate panels."""

FEW_DAYS = 3
"""Maximum number of days on a short axis, which has a tick for each day."""


def with_parts(runs: Sequence[RunData]) -> Sequence[RunData]:
    """Return a single run followed by its pools or loads, or several runs unchanged."""
    if len(runs) == 1 and runs[0].parts:
        return [
            replace(runs[0], label="facility", colour=INK, layers=()),
            *runs[0].parts,
        ]
    return runs


def join_charts(charts_by_run: Sequence[tuple[str, Chart]]) -> Chart:
    """Join the charts of many runs to one chart of small panels with equal scales."""
    charts = [chart for _, chart in charts_by_run]
    panels = [
        replace(
            chart.panels[k],
            title=": ".join(filter(None, (name, chart.panels[k].title))),
            wide=False,
            small=True,
        )
        for k in range(max(len(chart.panels) for chart in charts))
        for name, chart in charts_by_run
        if k < len(chart.panels)
    ]
    caption = f"{charts[0].caption} A panel for each run, all of one scale."
    return replace(charts[0], caption=caption, panels=equalize_scales(panels))


def equalize_scales(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Return panels in which equal quantities have equal y ranges."""
    ends: dict[str, list[float]] = {}
    for panel in panels:
        ends.setdefault(panel.y.label, []).extend(y_range(panel))
    ranges = {label: (min(result), max(result)) for label, result in ends.items()}
    return tuple(replace(p, y=replace(p.y, range=ranges[p.y.label])) for p in panels)


def range_with_zero(low: float, high: float) -> tuple[float, float]:
    """Return an axis range that includes zero, with a margin."""
    return min(low, 0.0) * 1.05, max(high, 0.0) * 1.05 or 1


def run_colour(index: int, run: RunData) -> str:
    """Return the colour of a run, or of a pool or load of a run."""
    return run.colour or colour(index)


def days_axis(first: np.datetime64, last: np.datetime64, spare_h: int = 24) -> Axis:
    """Return a calendar axis.

    An axis of a few days has a margin of `spare_h` hours at both ends.
    """
    if last - first >= np.timedelta64(FEW_DAYS, "D"):
        return Axis("Day", "date")
    spare = np.timedelta64(spare_h, "h")
    return Axis("Day", "date", (first - spare, last + spare))


def power_axis(runs: Sequence[RunData], unit: PowerUnit) -> Axis:
    """Return the power axis of runs, from zero to the highest peak."""
    label = "Power" if any(run.is_part for run in runs) else "Facility power"
    low, high = min(run.min_w for run in runs), max(run.max_w for run in runs)
    return Axis(
        f"{label} [{unit.power}]",
        range=range_with_zero(low / unit.watts, high / unit.watts),
    )


MIN_SPAN = 0.1
"""Minimum length of an axis that does not start at zero, as a fraction of its largest
value: a difference of 0.5 % takes at most a twentieth of the height."""


def padded_range(low: float, high: float) -> tuple[float, float]:
    """Return an axis range around two values, at least `MIN_SPAN` wide."""
    span = high - low
    margin = max(0.05 * span, (MIN_SPAN * max(abs(low), abs(high)) - span) / 2) or 1.0
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def histogram_layers(
    samples: Sequence[tuple[int, str, Array]], edges: Array, unit: str
) -> tuple[Bars | Line, ...]:
    """Return bars for one sample, and step lines for several; heights in percent.

    Each sample is a colour index, a name and the values.
    """
    heights = [histogram(values, edges) * 100 for *_, values in samples]
    if len(samples) == 1:
        (index, name, _), middle = samples[0], (edges[1:] + edges[:-1]) / 2
        return (Bars(middle, heights[0], name, colour(index), unit, touching=True),)
    return tuple(
        Line(edges, np.append(y, 0), name, colour(k), unit, dash=dash(k), steps=True)
        for (k, name, _), y in zip(samples, heights, strict=True)
    )


def step_text(runs: Sequence[RunData]) -> str:
    """Return the steps of runs as text, such as ``1 min``."""
    return listed(sorted({interval(run.step_ms) for run in runs}))
