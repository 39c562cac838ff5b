"""Charts of power: the whole period, the week of the peak, duration curve, distribution, months."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import numpy as np

from diploee.drawing.charts import (
    Axis,
    Bars,
    Carpet,
    Chart,
    Line,
    Panel,
    dash,
    since_monday,
)
from diploee.outputs.ranked import worst_weeks
from diploee.outputs.words import interval, listed
from diploee.reports.aggregate import (
    by_month,
    day_grid,
    duration_curve,
    peak_week,
    week_ms,
)
from diploee.reports.common import (
    LEAST_SPAN,
    MAX_TOGETHER,
    WEEK_AXIS,
    by_run,
    by_run_words,
    colour_of,
    days_axis,
    interval_of,
    month_axis,
    near_range,
    power_axis,
    with_pools,
)
from diploee.reports.data import RunData
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN, MS_PER_WEEK, W_PER_MW, PowerUnit

MAX_WEEK_POINTS = 24_000
"""Of more points of all peak weeks together, up to a minute's are drawn as their highest."""


POOL_MINUTES = 60
"""Cells of a pool's carpet [min]: a page of many pools stays small."""


def carpet_charts(runs: Sequence[RunData], unit: PowerUnit) -> list[Chart]:
    """Return the carpet of the runs, and another of the pools of a single one."""
    carpets = [carpet_chart(runs, unit)]
    if len(runs) == 1 and runs[0].parts:
        pools = carpet_chart(runs[0].parts, unit, own=True)
        carpets.append(replace(pools, id="carpet-pools", title="The whole period by pool"))
    return carpets


def carpet_chart(runs: Sequence[RunData], unit: PowerUnit, own: bool = False) -> Chart:
    """Return the carpet: days from left to right, time of day from bottom to top.

    Pools differ in size by far more than runs of one facility: each has a colour scale of its own.
    """
    minutes = 15 if len(runs) <= 3 else 30 if len(runs) <= 6 else 60
    cells_ms = [
        max((POOL_MINUTES if run.is_part else minutes) * MS_PER_MIN, max(r.step_ms for r in runs))
        for run in runs
    ]
    grids = [
        day_grid(run.local_ms, run.power_w, cell_ms)
        for run, cell_ms in zip(runs, cells_ms, strict=True)
    ]
    scales = [(float(np.nanmin(grid.means)), float(np.nanmax(grid.means))) for grid in grids]
    shared = min(low for low, _ in scales), max(high for _, high in scales)
    panels = []
    for run, cell_ms, grid, scale in zip(runs, cells_ms, grids, scales, strict=True):
        low, high = (power_w / unit.watts for power_w in (scale if own else shared))
        low = min(low, (1 - LEAST_SPAN) * high)  # even load is of one colour
        days = grid.first_day + np.arange(grid.means.shape[1], dtype="timedelta64[D]")
        times = since_monday(np.arange(grid.means.shape[0]) * cell_ms)
        z = (grid.means / unit.watts).astype(np.float32)
        carpet = Carpet(days, times, z, unit.power, low, high, f"Power [{unit.power}]")
        title = run.label if len(runs) > 1 else ""
        first = int(grid.first_day.astype(np.int64))
        day_axis = days_axis(first, first + days.size, 0)
        panels.append(
            Panel(
                day_axis,
                Axis("Time of day [h]", "time of day"),
                (carpet,),
                title,
                len(runs) <= MAX_TOGETHER,
            )
        )
    words = ""
    if len(runs) > 1:
        words = f" {'Each panel has its own' if own else 'All panels share one'} colour scale."
    cells = listed(list(dict.fromkeys(map(interval, cells_ms))))
    return Chart(
        "carpet",
        "The whole period at a glance",
        "Each column is a day, midnight at the bottom; colour is the facility's power. "
        f"Cells are means of {cells}, so short peaks look lower here than in the figures below. "
        f"Times are local, of the site's wall clock.{words}",
        tuple(panels),
    )


def peak_week_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the calendar week of the highest peak, interval by interval.

    It is one week for all runs where all cover it; else each run has its own. Pools are drawn in
    the week of their facility's peak.
    """
    single, shown = len(runs) == 1, with_pools(runs)
    block = _thinning(shown)
    shared_ms = None if single else _shared_peak_week(runs)

    def rows_of(run: RunData) -> slice:
        if shared_ms is not None:
            return _week_from(run, shared_ms)
        # That of the tables, which leave out the time in which a run fills up.
        if single and (time := (run.metrics.get("grid") or {}).get("peak", {}).get("time")):
            return _week_from(run, _monday_of(time))
        return peak_week(run.local_ms, runs[0].power_w if single else run.power_w)

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        layers = []
        for index, run in enumerate(drawn):
            rows = rows_of(run)
            layers.append(_week_line(run, rows, block, unit, index, len(drawn) > 1))
        return [Panel(WEEK_AXIS, power_axis(shown, unit), tuple(layers), wide=True)]

    weeks = [(run.label, _monday(run.local_ms[rows_of(run).start])) for run in shown]
    means = f"highest {interval_of(runs)} mean"
    if single:
        words = f"The calendar week with the {means}, as simulated{_thinned_words(block)}."
        words += f" It starts on Monday, {weeks[0][1]}."
    elif shared_ms is not None:
        words = f"The calendar week with the {means} of all runs{_thinned_words(block)}."
        words += f" It starts on Monday, {weeks[0][1]}, for each of them."
    else:
        words = f"Each run's own calendar week with its {means}{_thinned_words(block)}."
        words += f" Mondays: {'; '.join(f'{label}: {monday}' for label, monday in weeks)}."
    return Chart(
        "peak-week",
        "The week of the highest peak",
        words + by_run_words(runs),
        tuple(panels(shown)) if single else by_run(runs, panels),
    )


def _shared_peak_week(runs: Sequence[RunData]) -> int | None:
    """Return the Monday [local ms since 1970] before the highest peak in a week that all cover."""
    for run in sorted(runs, key=lambda run: float(run.power_w.max()), reverse=True):
        first_ms = int(run.local_ms[peak_week(run.local_ms, run.power_w).start])
        monday_ms = first_ms - int(week_ms(np.array([first_ms]))[0])
        end_ms = monday_ms + MS_PER_WEEK
        if all(r.local_ms[0] <= monday_ms and r.local_ms[-1] + r.step_ms >= end_ms for r in runs):
            return monday_ms
    return None


def worst_weeks_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return the weeks of the worst ramps beside that of the peak; None where there are none."""
    axis, block, panels = power_axis([run], unit), _thinning([run]), []
    for names, time in worst_weeks(run.metrics):
        rows = _week_from(run, _monday_of(time))
        line = _week_line(run, rows, block, unit, 0, legend=False)
        title = f"{listed(names)}: from Monday, {_monday(run.local_ms[rows.start])}"
        panels.append(Panel(WEEK_AXIS, axis, (line,), title, wide=True, small=True))
    words = f"The calendar weeks of the worst ramps, as simulated{_thinned_words(block)}."
    title = "The weeks of the worst ramps"
    return Chart("worst-weeks", title, words, tuple(panels)) if panels else None


def _week_from(run: RunData, monday_ms: int) -> slice:
    """Return the rows of the week from a local time on [ms]."""
    return slice(*np.searchsorted(run.local_ms, [monday_ms, monday_ms + MS_PER_WEEK]).tolist())


def _monday_of(time: str) -> int:
    """Return the Monday before a time as in the metrics [local ms]."""
    at_ms = np.datetime64(time[:19], "ms").astype(np.int64)
    return int(at_ms - week_ms(np.array([at_ms]))[0])


def _monday(local_ms: np.int64) -> str:
    """Return the date of the Monday before a time, such as ``14 May 2018``."""
    monday_ms = local_ms - week_ms(np.array([local_ms]))[0]
    day: date = monday_ms.astype("datetime64[ms]").astype("datetime64[D]").item()
    return f"{day.day} {day:%B %Y}"


def _week_line(
    run: RunData, rows: slice, block: int, unit: PowerUnit, index: int, legend: bool
) -> Line:
    """Return the line of a week, each point the highest of a block of neighbours."""
    first = np.arange(rows.start, rows.stop, block)
    y = np.maximum.reduceat(run.power_w[: rows.stop], first) / unit.watts
    return Line(
        since_monday(week_ms(run.local_ms[first])), y.astype(np.float32), run.label,
        colour_of(index, run), unit.power, 3, width=1.1, legend=legend,
    )  # fmt: skip


def _thinning(runs: Sequence[RunData]) -> int:
    """Return how many neighbours are a point: minutes stay."""
    step_ms, n_weeks = min(run.step_ms for run in runs), len(runs)
    n_values = min(MS_PER_WEEK // step_ms, max(run.local_ms.size for run in runs))
    block = -(-n_values * n_weeks // MAX_WEEK_POINTS)
    return max(1, min(block, MS_PER_MIN // step_ms))


def _thinned_words(block: int) -> str:
    thinned = f"; each point is the highest of {block} neighbours, so no peak is lost"
    return thinned if block > 1 else ""


TOP_PERCENT = 1.0
"""Part of the time that the duration curve shows on its own [%]."""

TIME_SHARE = Axis("Share of the time [%]", range=(0, 100))


def duration_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the load duration curves."""
    layers, steps_ms, top = [], set(), []
    runs = with_pools(runs)
    for index, run in enumerate(runs):
        share, values, step_ms = _duration(run)
        y = (values / unit.watts).astype(np.float32)
        x = (share * 100).astype(np.float32)
        steps_ms.add(step_ms)
        top += y[x <= TOP_PERCENT].tolist()
        layers.append(
            Line(
                x, y, run.label, colour_of(index, run), unit.power, 3, dash=dash(index),
                legend=len(runs) > 1,
            )
        )  # fmt: skip
    # Pools lie far below their facility: what is drawn of both starts at zero.
    by_pool = any(run.is_part for run in runs)
    whole = power_axis(runs, unit)
    near = whole if by_pool else Axis(whole.label, range=near_range(min(top), max(top)))
    cut = "" if by_pool else "; its power axis does not start at zero"
    means = listed([interval(step_ms) for step_ms in sorted(steps_ms)])
    return Chart(
        "duration",
        "Load duration curve",
        f"Power that is reached or exceeded for a share of the time, from {means} means; on its "
        f"own the highest {TOP_PERCENT:g} % of the time{cut}. Drawn "
        "through quantiles, denser there; both ends are the exact maximum and minimum.",
        (
            Panel(TIME_SHARE, whole, tuple(layers), "The whole time"),
            Panel(
                Axis("Share of the time [%]", range=(0, TOP_PERCENT)),
                near,
                tuple(_top_of(line) for line in layers),
                f"The highest {TOP_PERCENT:g} %",
            ),
        ),
    )


def _top_of(line: Line) -> Line:
    """Return the points of a duration curve that its right panel shows, and the next."""
    n_shown = int(np.searchsorted(line.x, TOP_PERCENT, side="right")) + 1
    return replace(line, x=line.x[:n_shown], y=line.y[:n_shown])


def _duration(run: RunData) -> tuple[Float64Array, Float64Array, int]:
    """Return shares (0-1), values reached [W] and the interval of the means behind them [ms].

    A run that was averaged on reading has its curve in the metrics, of its own intervals.
    """
    curve = (run.metrics.get("grid") or {}).get("load_duration_curve")
    # The metrics hold the facility's curve alone; that of a pool is of the means read.
    if run.step_ms != run.resolution_ms and curve and not run.is_part:
        share = np.array(curve["percent_of_time"]) / 100
        return share, np.array(curve["exceeded_mw"]) * W_PER_MW, run.resolution_ms
    share, values = duration_curve(run.power_w)
    values[0], values[-1] = run.max_w, run.min_w
    return share, values, run.step_ms


def months_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart | None:
    """Return energy and peak by month; None where no run reaches into a second one."""
    energy, peaks = [], []
    partial, runs = False, with_pools(runs)
    of_runs = [by_month(run.local_ms, run.power_w, run.step_ms) for run in runs]
    if all(months.month.size < 2 for months in of_runs):
        return None
    label, names = month_axis(of_runs)
    for index, (run, months, x) in enumerate(zip(runs, of_runs, names, strict=True)):
        partial = partial or not months.complete.all()
        joules = (months.energy_j / unit.joules).astype(np.float32)
        peak = (months.max_w / unit.watts).astype(np.float32)
        mean = (months.mean_w / unit.watts).astype(np.float32)
        main = colour_of(index, run)
        energy.append(Bars(x, joules, run.label, main, unit.energy, 0))
        many = len(runs) > 1
        peak_name, mean_name = (run.label, f"{run.label}, mean") if many else ("peak", "mean")
        peaks.append(Line(x, peak, peak_name, main, unit.power, markers=True))
        peaks.append(
            Line(x, mean, mean_name, main, unit.power, dash="dot", markers=True,
                 legend=not many)
        )  # fmt: skip
    cut = " Months that the run covers in part are shown as they are." if partial else ""
    return Chart(
        "months",
        "Energy and peaks by month",
        "Energy of each calendar month; its highest "
        f"{interval_of(runs)} mean (solid) and its mean power (dotted).{cut}",
        (
            Panel(label, Axis(f"Energy [{unit.energy}]", from_zero=True), tuple(energy), "Energy"),
            Panel(label, power_axis(runs, unit), tuple(peaks), "Peak and mean"),
        ),
    )
