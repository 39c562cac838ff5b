"""Charts of power over time: the whole period as a carpet, and the week of the peak."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np

from diploee.report.aggregate import day_grid, peak_week, week_ms
from diploee.report.charts import MONDAY, Array, Axis, Carpet, Chart, Line, Panel
from diploee.report.common import WEEK_AXIS, days_axis, interval_of, power_axis
from diploee.report.data import RunData
from diploee.report.labels import PowerUnit
from diploee.report.style import colour
from diploee.report.words import interval
from diploee.units import MS_PER_MIN, MS_PER_WEEK

MAX_WEEK_POINTS = 24_000
"""Points of all peak weeks together: more are drawn as the highest of neighbours."""


def carpet_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the carpet: days from left to right, time of day from bottom to top."""
    minutes = 15 if len(runs) <= 3 else 30 if len(runs) <= 6 else 60
    cell_ms = max(minutes * MS_PER_MIN, max(run.step_ms for run in runs))
    grids = [day_grid(run.local_ms, run.power_w, cell_ms) for run in runs]
    low = min(float(np.nanmin(grid.means)) for grid in grids) / unit.watts
    high = max(float(np.nanmax(grid.means)) for grid in grids) / unit.watts
    panels = []
    for run, grid in zip(runs, grids, strict=True):
        days = grid.first_day + np.arange(grid.means.shape[1])
        times = MONDAY + np.arange(grid.means.shape[0]) * cell_ms
        z = (grid.means / unit.watts).astype(np.float32)
        carpet = Carpet(days, times, z, unit.power, low, high, f"Power [{unit.power}]")
        title = run.label if len(runs) > 1 else ""
        first = int(grid.first_day.astype(np.int64))
        day_axis = days_axis(first, first + days.size - 1, 12)  # half a column beside each end
        panels.append(
            Panel(day_axis, Axis("Time of day [h]", "time of day"), (carpet,), title, True)
        )
    scale = " All panels share one colour scale." if len(runs) > 1 else ""
    return Chart(
        "carpet",
        "The whole period at a glance",
        "Each column is a day, midnight at the bottom; colour is the facility's power. "
        f"Cells are means of {interval(cell_ms)}, so short peaks look lower here than in the "
        f"figures below. Times are local, in the facility's fixed UTC offset.{scale}",
        tuple(panels),
    )


def peak_week_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the calendar week of each run's highest peak, interval by interval."""
    layers = []
    weeks = []
    for index, run in enumerate(runs):
        rows = peak_week(run.local_ms, run.power_w)
        x, values = _not_more_than(
            MONDAY + week_ms(run.local_ms[rows]), run.power_w[rows], len(runs)
        )
        y = (values / unit.watts).astype(np.float32)
        layers.append(
            Line(x, y, run.label, colour(index), unit.power, 3, width=1.1, legend=len(runs) > 1)
        )
        weeks.append((run.label, _monday(run.local_ms[rows.start])))
    means = f"highest {interval_of(runs)} mean"
    if len(runs) == 1:
        words = f"The calendar week with the {means}, as simulated{_thinned_words(runs)}."
        words += f" It starts on Monday, {weeks[0][1]}."
    else:
        words = f"Each run's own calendar week with its {means}{_thinned_words(runs)}."
        words += f" Mondays: {'; '.join(f'{label}: {monday}' for label, monday in weeks)}."
    return Chart(
        "peak-week",
        "The week of the highest peak",
        words,
        (Panel(WEEK_AXIS, power_axis(runs, unit), tuple(layers), wide=True),),
    )


def _monday(local_ms: np.int64) -> str:
    """Return the date of the Monday before a time, such as ``14 May 2018``."""
    monday_ms = local_ms - week_ms(np.array([local_ms]))[0]
    day: date = monday_ms.astype("datetime64[ms]").astype("datetime64[D]").item()
    return f"{day.day} {day:%B %Y}"


def _thinning(n: int, n_runs: int) -> int:
    return -(-n * n_runs // MAX_WEEK_POINTS)


def _not_more_than(x: Array, values: Array, n_runs: int) -> tuple[Array, Array]:
    block = _thinning(values.size, n_runs)
    if block <= 1:
        return x, values
    first = np.arange(0, values.size, block)
    return x[first], np.maximum.reduceat(values, first)


def _thinned_words(runs: Sequence[RunData]) -> str:
    block = max(_thinning(MS_PER_WEEK // run.step_ms, len(runs)) for run in runs)
    if block <= 1:
        return ""
    return f"; each point is the highest of {block} neighbours, so no peak is lost"
