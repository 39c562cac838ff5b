"""Charts of power: carpet plot, extreme weeks, duration curve and months."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diploee.base.units import MS_PER_MIN, MS_PER_S, MS_PER_WEEK, W_PER_MW, PowerUnit
from diploee.reports.aggregate import (
    day_grid,
    duration_curve,
    statistics_by_date,
    time_of_week_ms,
)
from diploee.reports.chart_elements import (
    MAX_TOGETHER,
    MIN_SPAN,
    WEEK_AXIS,
    days_axis,
    padded_range,
    power_axis,
    run_colour,
    step_text,
    with_parts,
)
from diploee.reports.data import RunData
from diploee.reports.drawing.charts import (
    Axis,
    Bars,
    Carpet,
    Chart,
    Line,
    Panel,
    dash,
    since_monday,
)
from diploee.reports.run_sections import worst_weeks
from diploee.runs.formatting import interval, listed

MAX_WEEK_POINTS = 24_000
"""Maximum number of points in all peak weeks; more are drawn as maxima of up to a
minute."""


def carpet_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the carpet plot: days from left to right, time of day upwards.

    Pools have separate colour scales, as they differ more in size than runs of a
    facility.
    """
    is_part, many = runs[0].is_part, len(runs) > 1
    minutes = (
        15
        if len(runs) <= 3 and not is_part
        else 30
        if len(runs) <= 6 and not is_part
        else 60
    )
    cell_ms = max(minutes * MS_PER_MIN, *(run.step_ms for run in runs))
    grids = [day_grid(run.local_ms, run.power_w / unit.watts, cell_ms) for run in runs]
    scales = [(float(np.nanmin(z)), float(np.nanmax(z))) for _, z in grids]
    lows, highs = zip(*scales, strict=True)
    panels = []
    for run, (days, z), (low, high) in zip(runs, grids, scales, strict=True):
        low, high = (low, high) if is_part else (min(lows), max(highs))
        low = min(low, (1 - MIN_SPAN) * high)  # constant load has one colour
        times = since_monday(np.arange(len(z)) * cell_ms)
        carpet = Carpet(days, times, z, unit.power, low, high, f"Power [{unit.power}]")
        day_axis = days_axis(days[0], days[-1] + np.timedelta64(1, "D"), 0)
        axis, title = Axis("Time of day [h]", "time of day"), run.label if many else ""
        panels.append(
            Panel(day_axis, axis, (carpet,), title, len(runs) <= MAX_TOGETHER)
        )
    note = (
        f" {'Each panel has its own' if is_part else 'All panels share one'} colour "
        "scale."
    )
    return Chart(
        "carpet-pools" if is_part else "carpet",
        f"The whole period {runs[0].parts_text if is_part else 'at a glance'}",
        (
            "Each column is a day, midnight at the bottom; colour is the facility's "
            f"power. Cells are means of {interval(cell_ms)}, so short peaks look lower "
            "here than in the figures below. Times are local, of the site's wall "
            f"clock.{note if many else ''}"
        ),
        tuple(panels),
    )


def peak_week_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return a chart of the calendar week of the highest peak, at full resolution.

    All runs share a week if they all cover it; else each run has its own week. Pools
    are drawn in the peak week of their facility.
    """
    highest = max(runs, key=lambda run: float(run.power_w.max()))
    # The peak of the tables, which leave out the warm-up
    time = (highest.metrics.get("grid") or {}).get("peak", {}).get("time")
    shared_ms = _monday(_local_ms(time) if time else _peak_ms(highest))
    if len(runs) > 1 and not all(_covers(run, shared_ms) for run in runs):
        shared_ms = None
    drawn_runs, block, layers, mondays = (
        with_parts(runs),
        _steps_per_point(runs),
        [],
        dict[str, None](),
    )
    for k, run in enumerate(drawn_runs):
        monday_ms = _monday(_peak_ms(run)) if shared_ms is None else shared_ms
        mondays[
            f"{'' if shared_ms is not None else f'{run.label}: '}{_date(monday_ms)}"
        ] = None
        layers.append(_week_line(run, monday_ms, block, unit, k, len(drawn_runs) > 1))
    title = f"From Monday, {'; '.join(mondays)}"
    return Chart(
        "peak-week",
        "The week of the highest peak",
        (
            f"The calendar week with the highest {step_text(runs)} "
            f"mean{'' if len(runs) == 1 else ' of all runs' if shared_ms is not None else ' of each run'}, as simulated{_thinned_words(block)}."  # noqa: E501
        ),
        (
            Panel(
                _week_axis(layers),
                power_axis(drawn_runs, unit),
                tuple(layers),
                title,
                wide=True,
            ),
        ),
    )


def worst_weeks_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return a chart of the weeks with the worst ramps, except the peak week.

    Return None if there are no such weeks.
    """
    axis, block, panels = power_axis([run], unit), _steps_per_point([run]), []
    for names, time in worst_weeks(run.metrics):
        monday_ms = _monday(_local_ms(time))
        line = _week_line(run, monday_ms, block, unit, 0, legend=False)
        title = f"{listed(names)}: from Monday, {_date(monday_ms)}"
        panels.append(Panel(WEEK_AXIS, axis, (line,), title, wide=True, small=True))
    caption = (
        f"The calendar weeks of the worst ramps, as simulated{_thinned_words(block)}."
    )
    title = "The weeks of the worst ramps"
    return Chart("worst-weeks", title, caption, tuple(panels)) if panels else None


def _week_axis(lines: Sequence[Line]) -> Axis:
    """Return the axis of a week; it ends early for a run shorter than half a week."""
    ends = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    is_short = ends[1] - ends[0] < np.timedelta64(MS_PER_WEEK // 2, "ms")
    return replace(WEEK_AXIS, range=ends) if is_short else WEEK_AXIS


def _covers(run: RunData, monday_ms: int) -> bool:
    end_ms = monday_ms + MS_PER_WEEK
    return bool(
        run.local_ms[0] <= monday_ms and run.local_ms[-1] + run.step_ms >= end_ms
    )


def _local_ms(time: str) -> int:
    """Return a timestamp of the metrics as local time [ms]."""
    return int(np.datetime64(time[:19], "ms").astype(np.int64))


def _peak_ms(run: RunData) -> int:
    return int(run.local_ms[int(np.argmax(run.power_w))])


def _monday(local_ms: int) -> Any:
    return local_ms - time_of_week_ms(local_ms)


def _date(local_ms: int) -> str:
    day: Any = np.datetime64(local_ms, "ms").item()
    return f"{day.day} {day:%B %Y}"


def _week_line(
    run: RunData, monday_ms: int, block: int, unit: PowerUnit, index: int, legend: bool
) -> Line:
    """Return the line of a week; its points are maxima of blocks of steps."""
    start, stop = np.searchsorted(run.local_ms, [monday_ms, monday_ms + MS_PER_WEEK])
    first = np.arange(start, stop, block)
    y = np.maximum.reduceat(run.power_w[:stop], first) / unit.watts
    return Line(
        since_monday(run.local_ms[first] - monday_ms),
        y,
        run.label,
        run_colour(index, run),
        unit.power,
        3,
        width=1.1,
        legend=legend,
    )


def _steps_per_point(runs: Sequence[RunData]) -> int:
    """Return the number of steps per point; points are at most a minute long."""
    step_ms, n_lines = min(run.step_ms for run in runs), len(with_parts(runs))
    n_values = min(MS_PER_WEEK // step_ms, max(run.local_ms.size for run in runs))
    block = -(-n_values * n_lines // MAX_WEEK_POINTS)
    return max(1, min(block, MS_PER_MIN // step_ms))


def _thinned_words(block: int) -> str:
    thinned = f"; each point is the highest of {block} neighbours, so no peak is lost"
    return thinned if block > 1 else ""


TOP_PERCENT = 1.0
"""Fraction of time in the second panel of the duration curve [%]."""


def duration_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart:
    """Return the load duration curves of runs."""
    drawn_runs, lines, ends, steps_ms = with_parts(runs), [], [], set()
    for k, run in enumerate(drawn_runs):
        curve = (run.metrics.get("grid") or {}).get("load_duration_curve")
        # The metrics have the curve of a run that was averaged on reading, but none of
        # its pools
        if run.step_ms != run.resolution_ms and curve and not run.is_part:
            percent, steps = np.array(curve["percent_of_time"]), run.resolution_ms
            values_w = np.array(curve["exceeded_mw"]) * W_PER_MW
        else:
            share, values_w = duration_curve(run.power_w)
            percent, steps = share * 100, run.step_ms
            values_w[0], values_w[-1] = run.max_w, run.min_w
        x, y = percent, (values_w / unit.watts)
        steps_ms.add(steps)
        ends += y[x <= TOP_PERCENT].tolist()
        lines.append(
            Line(
                x,
                y,
                run.label,
                run_colour(k, run),
                unit.power,
                3,
                dash=dash(k),
                legend=len(drawn_runs) > 1,
            )
        )
    # The right panel shows these points and the next one
    top = [
        int(np.searchsorted(line.x, TOP_PERCENT, side="right")) + 1 for line in lines
    ]
    tops = [
        replace(line, x=line.x[:n], y=line.y[:n])
        for line, n in zip(lines, top, strict=True)
    ]
    # Pools are far below their facility, so the axis starts at zero
    whole, by_pool = (
        power_axis(drawn_runs, unit),
        any(run.is_part for run in drawn_runs),
    )
    near = (
        whole
        if by_pool
        else Axis(whole.label, range=padded_range(min(ends), max(ends)))
    )
    cut = "" if by_pool else "; its power axis does not start at zero"
    time = "Share of the time [%]"
    return Chart(
        "duration",
        "Load duration curve",
        (
            "Power that is reached or exceeded for a share of the time, from "
            f"{listed([interval(ms) for ms in sorted(steps_ms)])} means; on its own "
            f"the highest {TOP_PERCENT:g} % of the time{cut}. Drawn through "
            "quantiles, denser there; both ends are the exact maximum and minimum."
        ),
        (
            Panel(Axis(time, range=(0, 100)), whole, tuple(lines), "The whole time"),
            Panel(
                Axis(time, range=(0, TOP_PERCENT)),
                near,
                tuple(tops),
                f"The highest {TOP_PERCENT:g} %",
            ),
        ),
    )


def months_chart(runs: Sequence[RunData], unit: PowerUnit) -> Chart | None:
    """Return energy and peak by month; None for runs within one month."""
    import pandas as pd

    energy, peaks, partial, drawn_runs = [], list[Line](), False, with_parts(runs)
    months_by_run = [
        statistics_by_date(run.local_ms, run.power_w, "M") for run in drawn_runs
    ]
    names = [pd.DatetimeIndex(months.index) for months in months_by_run]
    years = {month.year for run_months in names for month in run_months}
    if all(len(months) < 2 for months in months_by_run):
        return None
    label, form = (
        (f"Month of {years.pop()}", "%b") if len(years) == 1 else ("Month", "%b %Y")
    )
    for k, (run, months, dates) in enumerate(
        zip(drawn_runs, months_by_run, names, strict=True)
    ):
        step_s, x = run.step_ms / MS_PER_S, dates.strftime(form).to_numpy(str)
        whole_s = dates.days_in_month.to_numpy() * 86_400
        partial = partial or bool((months["count"] * step_s < whole_s - 3_600).any())
        joules = (months["count"] * months["mean"] * step_s / unit.joules).to_numpy(
            np.float32
        )
        mean, peak = (months[["mean", "max"]].to_numpy() / unit.watts).T
        main, many = run_colour(k, run), len(drawn_runs) > 1
        energy.append(Bars(x, joules, run.label, main, unit.energy, 0))
        peak_name, mean_name = (
            (run.label, f"{run.label}, mean") if many else ("peak", "mean")
        )
        peaks.append(Line(x, peak, peak_name, main, unit.power, markers=True))
        peaks.append(
            Line(
                x,
                mean,
                mean_name,
                main,
                unit.power,
                dash="dot",
                markers=True,
                legend=not many,
            )
        )
    axis, cut = (
        Axis(label, "category"),
        "Months that the run covers in part are shown as they are.",
    )
    return Chart(
        "months",
        "Energy and peaks by month",
        (
            f"Energy of each calendar month; its highest {step_text(runs)} mean "
            f"(solid) and its mean power (dotted).{f' {cut}' if partial else ''}"
        ),
        (
            Panel(
                axis,
                Axis(f"Energy [{unit.energy}]", from_zero=True),
                tuple(energy),
                "Energy",
            ),
            Panel(axis, power_axis(drawn_runs, unit), tuple(peaks), "Peak and mean"),
        ),
    )
