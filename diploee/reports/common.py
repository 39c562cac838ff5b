"""Shared by several charts: axes, bins, and histograms as layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from diploee.drawing.charts import (
    INK,
    MONDAY,
    Array,
    Axis,
    Bars,
    Line,
    Panel,
    colour,
    dash,
    since_monday,
)
from diploee.outputs.words import interval, listed
from diploee.reports.aggregate import Months, histogram
from diploee.reports.data import RunData
from diploee.units import MS_PER_DAY, MS_PER_MIN, MS_PER_WEEK, PowerUnit

BIN_MS = 15 * MS_PER_MIN

DAY_AXIS = Axis("Time of day [h]", "time of day", (MONDAY, since_monday(MS_PER_DAY)))

WEEK_AXIS = Axis("Time of week", "time of week", (MONDAY, since_monday(MS_PER_WEEK)))


MAX_TOGETHER = 3
"""Runs whose lines share a panel; of more each has one of its own."""

FEW_DAYS = 3
"""Up to this number of days have an axis of their own, with a tick for each."""


def with_pools(runs: Sequence[RunData]) -> Sequence[RunData]:
    """Return the facility and its parts where a single run has such, else the runs."""
    if len(runs) == 1 and runs[0].parts:
        return [replace(runs[0], label="facility", colour=INK, parts=()), *runs[0].parts]
    return runs


def by_run(
    runs: Sequence[RunData], panels_of: Callable[[Sequence[RunData]], Sequence[Panel]]
) -> tuple[Panel, ...]:
    """Return the panels of runs together, or of many those of each run, all of one scale."""
    if len(runs) <= MAX_TOGETHER:
        return tuple(panels_of(runs))
    of_kinds: dict[str, list[Panel]] = {}
    for run in runs:
        for panel in panels_of([run]):
            title = ": ".join(filter(None, (run.label, panel.title)))
            of_kinds.setdefault(panel.title, []).append(
                replace(panel, title=title, wide=False, small=True)
            )
    return one_scale([panel for panels in of_kinds.values() for panel in panels])


def by_run_words(runs: Sequence[RunData]) -> str:
    """Return what a caption says of panels as `by_run` returns them."""
    return " A panel for each run, all of one scale." if len(runs) > MAX_TOGETHER else ""


def with_zero(low: float, high: float) -> tuple[float, float]:
    """Return the range of an axis with zero and a little more than all values in it."""
    return min(low, 0.0) * 1.05, max(high, 0.0) * 1.05 or 1


def one_scale(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Give panels of one quantity one y range, where theirs is not fixed."""
    ranges: dict[str, tuple[float, float]] = {}
    for panel in panels:
        drawn = [x.y for x in panel.layers if isinstance(x, Line | Bars)]
        ends = (float(most(y)) for y in drawn for most in (np.nanmin, np.nanmax))
        found = (*ranges.get(panel.y.label, (0.0, 0.0)), *ends)
        ranges[panel.y.label] = min(found), max(found)
    return tuple(
        panel
        if panel.y.range is not None
        else replace(panel, y=Axis(panel.y.label, range=with_zero(*ranges[panel.y.label])))
        for panel in panels
    )


def colour_of(index: int, run: RunData) -> str:
    """Return the colour of a run, or of a part of one."""
    return run.colour or colour(index)


def days_axis(first: int, last: int, spare_h: int) -> Axis:
    """Return the axis of calendar days since 1970; of a few, with hours to spare on both sides."""
    if last - first >= FEW_DAYS:
        return Axis("Day", "date")
    days, spare = np.array([first, last], dtype="datetime64[D]"), np.timedelta64(spare_h, "h")
    return Axis("Day", "date", (days[0] - spare, days[1] + spare))


def days_of(runs: Sequence[RunData]) -> tuple[int, int]:
    """Return the first and the last calendar day of all runs, since 1970."""
    first = min(int(run.local_ms[0]) for run in runs) // MS_PER_DAY
    last = max(int(run.local_ms[-1]) for run in runs) // MS_PER_DAY
    return first, last


def month_axis(of_runs: Sequence[Months]) -> tuple[Axis, list[Array]]:
    """Return an axis of months, and the names of those of each run on it."""
    years = {f"{month.item():%Y}" for months in of_runs for month in months.month}
    label, pattern = (f"Month of {years.pop()}", "%b") if len(years) == 1 else ("Month", "%b %Y")
    names = [np.array([f"{m.item():{pattern}}" for m in months.month]) for months in of_runs]
    return Axis(label, "category"), names


def power_axis(runs: Sequence[RunData], unit: PowerUnit, label: str = "Facility power") -> Axis:
    """Return the power axis, with zero and the highest peak; of parts just "Power"."""
    label = "Power" if any(run.is_part for run in runs) else label
    low, high = min(run.min_w for run in runs), max(run.max_w for run in runs)
    return Axis(f"{label} [{unit.power}]", range=with_zero(low / unit.watts, high / unit.watts))


LEAST_SPAN = 0.1
"""Least span of an axis that does not start at zero, as a part of its largest value: half a percent
is then a twentieth of its height at most, and no cliff."""


def near_range(low: float, high: float) -> tuple[float, float]:
    """Return a range about two values that does not start at zero, of `LEAST_SPAN` at least."""
    span = high - low
    margin = max(0.05 * span, (LEAST_SPAN * max(abs(low), abs(high)) - span) / 2) or 1.0
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def histogram_layers(
    samples: Sequence[tuple[int, str, Array]], edges: Array, unit: str, main: str = ""
) -> tuple[Bars | Line, ...]:
    """Return bars for one sample, and step lines for several; heights in percent.

    Each sample is the index of its colour, its name and its values; `main` is the colour of one.
    """
    if len(samples) == 1:
        index, name, values = samples[0]
        middle = (edges[1:] + edges[:-1]) / 2
        height = histogram(values, edges) * 100
        main = main or colour(index)
        return (Bars(middle, height.astype(np.float32), name, main, unit, touching=True),)
    layers = []
    for index, name, values in samples:
        height = np.append(histogram(values, edges) * 100, 0).astype(np.float32)
        layers.append(Line(edges, height, name, colour(index), unit, dash=dash(index), steps=True))
    return tuple(layers)


def interval_of(runs: Sequence[RunData]) -> str:
    """Return the intervals of the runs in words, such as ``1 min``."""
    return listed(sorted({interval(run.step_ms) for run in runs}))


def have_a_week(runs: Sequence[RunData]) -> bool:
    """Tell whether every run covers a week, so that a typical week can be drawn."""
    return all(run.local_ms.size * run.step_ms >= MS_PER_WEEK for run in runs)
