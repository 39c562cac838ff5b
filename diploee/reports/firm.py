"""Table, chart and recommendation of a study of firm demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diploee.base.units import MS_PER_H
from diploee.grid.firm.baselines import MAX_BATTERY_H
from diploee.grid.firm.calls import ALL, APART_H
from diploee.grid.firm.study import FirmResult
from diploee.reports.drawing.charts import Axis, Chart, Line, Panel, colour
from diploee.runs.formatting import MIN_RUNS, interval, number_format
from diploee.runs.sections import Section, SectionTable, Statistic

HELD, LATE = 0.02, 0.05
"""ASSUMPTION: a firm level is recommended if, in all calls, the load exceeds it by at
most 2 % of the level, and at most 5 % of the jobs are late."""

NUMBERS = (
    ("above", "h", "hours_above"),
    ("energy above", "MWh", "above_mwh"),
    ("relief", "MWh", "relief_mwh"),
    ("most left", "MW", "largest_left_mw"),
    ("delayed", "GPU h", "delayed_gpu_h"),
    ("repeated", "GPU h", "repeated_gpu_h"),
    ("late jobs", "", "jobs_late"),
    ("slowed requests", "%", "requests_slowed"),
    ("rejected", "%", "requests_rejected"),
    ("battery", "MW", "largest_above_mw"),
    ("usable", "MWh", "battery_mwh"),
    ("high 5 of 10", "MWh", "high_5_of_10_error_mwh"),
    ("same weekday", "MWh", "weekday_error_mwh"),
)
"""Columns of the table: quantity, unit and field of a result."""


def _headline_results(results: Sequence[FirmResult]) -> list[FirmResult]:
    """Return the results of the notice nearest to an hour."""
    notices = {each.notice_ms for each in results}
    notice_ms = min(notices, key=lambda ms: abs(ms - MS_PER_H))
    return [each for each in results if each.notice_ms == notice_ms]


def _by_level(results: Sequence[FirmResult]) -> Iterator[list[FirmResult]]:
    """Yield the results of each level, the highest first."""
    for level in sorted({each.level_mw for each in results}, reverse=True):
        yield [each for each in results if each.level_mw == level]


def _is_held(result: FirmResult) -> bool:
    is_late = result.jobs_late > LATE * result.n_jobs
    return result.largest_left_mw <= HELD * result.level_mw and not is_late


def _lowest_held(results: Sequence[FirmResult]) -> float | None:
    """Return the lowest level that is held together with all levels above it [MW]."""
    lowest = None
    for level_results in _by_level(results):
        if not all(map(_is_held, level_results)):
            break
        lowest = level_results[0].level_mw
    return lowest


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return float(np.median(present)) if len(present) == len(values) else None


def _band(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Return P5 and P95 over seeds, or minimum and maximum if the seeds are few."""
    present = [value for value in values if value is not None]
    if len(present) < len(values) or len(present) < 2:
        return None
    ends = (5, 95) if len(present) >= MIN_RUNS else (0, 100)
    low, high = np.percentile(present, ends).tolist()
    return low, high


def recommendation(
    results: Sequence[FirmResult], bounds_mw: tuple[float, float]
) -> str:
    """Return one sentence: the recommended firm level, with its range over seeds."""
    notice_results = [each for each in _headline_results(results) if each.calls == ALL]
    peak_mw = bounds_mw[1]
    pattern = number_format([peak_mw])
    mw = pattern.format
    below = [each for each in notice_results if each.level_mw < peak_mw * (1 - 1e-9)]
    seeds = sorted({each.seed for each in below})
    lowest = [_lowest_held([r for r in below if r.seed == seed]) for seed in seeds]
    seed_levels = [peak_mw if level is None else level for level in lowest]
    level_mw = max(seed_levels, default=peak_mw)
    notice = f"a notice of {interval(notice_results[0].notice_ms)}"
    low_mw, n_seeds = min(seed_levels, default=peak_mw), len(seeds)
    band = f" (in {n_seeds} seeds {mw(low_mw)} to {mw(level_mw)} MW)" * (n_seeds > 1)
    if level_mw >= peak_mw:
        text = f"Sign all {mw(peak_mw)} MW as firm{band}"
        if not below:
            return f"{text}: no level below the peak was tried."
        next_mw = max(each.level_mw for each in below)
        rows = [each for each in below if each.level_mw == next_mw]
        return (
            f"{text}: with {notice}, {mw(next_mw)} MW is not held "
            f"({_shortfall(rows)}); it would take {_replacement(rows)}."
        )
    rows = [each for each in below if each.level_mw == level_mw]
    hours, relief, gpu_h = (
        _three_digits(float(np.median([getattr(each, field) for each in rows])))
        for field in ("hours_above", "relief_mwh", "delayed_gpu_h")
    )
    slowed = max(each.requests_slowed / max(each.n_requests, 1) for each in rows)
    requests = f", slows {slowed:.0%} of requests" if slowed else ""
    late = max(each.jobs_late / max(each.n_jobs, 1) for each in rows)
    return (
        f"Sign {mw(level_mw)} MW as firm and {mw(peak_mw - level_mw)} MW as "
        f"non-firm{band}: called with {notice} in all {hours} h above it, the load "
        f"gives up {relief} MWh, delays {gpu_h} GPU h{requests} and has {late:.1%} of "
        f"its jobs late, which {_replacement(rows)} would spare it."
    )


def _shortfall(rows: Sequence[FirmResult]) -> str:
    """Return the reason why a level is not held, from the worst of its results."""
    left_mw = max(each.largest_left_mw for each in rows)
    if left_mw > HELD * rows[0].level_mw:
        return f"{_three_digits(left_mw)} MW above it remains, {HELD:.0%} is allowed"
    late = max(each.jobs_late / max(each.n_jobs, 1) for each in rows)
    return f"{late:.1%} of the jobs are late, {LATE:.0%} is allowed"


def _replacement(rows: Sequence[FirmResult]) -> str:
    """Return text: the battery or generator that holds a level with rigid load."""
    power_mw = max(each.largest_above_mw for each in rows)
    energy = [each.battery_mwh for each in rows]
    present = [mwh for mwh in energy if mwh is not None]
    generator = f"a generator of {_three_digits(power_mw)} MW"
    if len(present) < len(energy):
        return generator
    size = f"{_three_digits(power_mw)} MW and {_three_digits(max(present))} MWh"
    return f"a battery of {size} or {generator}"


def _three_digits(value: float) -> str:
    """Format a number with three significant digits."""
    return number_format([value], 3).format(float(f"{value:.3g}"))


def firm_sections(
    name: str,
    results: Sequence[FirmResult],
    bounds_mw: tuple[float, float],
    days: float,
    step_ms: int,
    can_wait: bool,
) -> list[Section]:
    """Return the table of levels with its recommendation and notes."""
    headline = _headline_results(results)
    cells, peak_mw = list[Statistic](), bounds_mw[1]
    pattern = number_format([peak_mw])
    serves = any(each.requests_slowed for each in results)
    for level_results in _by_level(headline):
        level_mw = level_results[0].level_mw
        item = pattern.format(level_mw)
        rows = [each for each in level_results if each.calls == ALL]
        non_firm = max(peak_mw - level_mw, 0.0)
        cells.append(Statistic(item, non_firm, "MW", quantity="non-firm"))
        for quantity, unit, field in NUMBERS:
            values = [getattr(each, field) for each in rows]
            if unit == "%":
                if not serves:
                    continue
                values = [100 * getattr(r, field) / r.n_requests for r in rows]
            cells.append(
                Statistic(
                    item,
                    _median(values),
                    unit,
                    quantity=quantity,
                    band=_band(values),
                    pattern="" if unit else "{:,.0f}",
                )
            )
        kept_percent = [100 * part for each in level_results for part in each.kept]
        ends = np.percentile(kept_percent, (5, 95)) if kept_percent else (None, None)
        for quantity, end in zip(("kept, P5", "kept, P95"), ends, strict=True):
            percent = None if end is None else float(end)
            cells.append(
                Statistic(item, percent, "%", quantity=quantity, pattern="{:,.0f}")
            )
    n_seeds = len({each.seed for each in results})
    sets = list(dict.fromkeys(each.calls for each in results))
    rigid = (
        "No job and no service tolerates a call, so relief is 0: give a stream "
        "flexibility: {tier: 1} or more, or a service flexibility: "
        "{power_limit: 0.75}."
    )
    notes = [
        *([] if can_wait else [rigid]),
        f"{recommendation(results, bounds_mw)} Powers are means over "
        f"{interval(step_ms)}.",
        (
            f"Simulated: the undisturbed {name} over {days:.3g} days in means over "
            f"{interval(step_ms)}, seeds: {n_seeds}; medians over seeds, 'above' to "
            "'same weekday' with calls in all hours above the level and "
            f"{interval(headline[0].notice_ms)} of notice. Dispatched on it, job by "
            "job: what jobs do under a level, by "
            "their mean power, with the order of their undisturbed starts in place of "
            "the pool's scheduler."
        ),
        (
            f"kept: part of what a call needs that the load gives, over seeds and the "
            f"calls of all sets ({', '.join(sets)}; blocks start each {APART_H} h)."
        ),
        (
            "battery: power and usable energy that hold the level without the load; a "
            "generator needs the same power and the energy above. high 5 of 10 and "
            "same weekday: error of the relief by these baselines, against the "
            "undisturbed twin. No energy: no battery of up to "
            f"{MAX_BATTERY_H:g} h at its power holds the level."
        ),
    ]
    table = SectionTable(f"Firm levels of {name}", tuple(cells), first="firm [MW]")
    return [
        Section("firm", "Firm and non-firm demand", tables=(table,), notes=tuple(notes))
    ]


def firm_chart(name: str, results: Sequence[FirmResult]) -> Chart:
    """Return the chart of mean relief and delayed work, a line per set of calls."""
    headline, lines = _headline_results(results), list[Line]()
    for k, calls in enumerate(dict.fromkeys(each.calls for each in headline)):
        set_results = [
            each for each in headline if each.calls == calls and each.hours_called
        ]
        levels = list(_by_level(set_results))
        relief_mw, gpu_h = (
            [[getattr(r, field) / r.hours_called for r in rows] for rows in levels]
            for field in ("relief_mwh", "delayed_gpu_h")
        )
        limits = (
            np.array([min(values) for values in gpu_h]),
            np.array([max(values) for values in gpu_h]),
        )
        lines.append(
            Line(
                np.array([_median(values) for values in relief_mw]),
                np.array([_median(values) for values in gpu_h]),
                calls,
                colour(k),
                "GPU h/h",
                digits=0,
                markers=True,
                texts=tuple(f"{rows[0].level_mw:.4g} MW firm" for rows in levels),
                limits=limits,
            )
        )
    notice = interval(headline[0].notice_ms)
    return Chart(
        "firm",
        f"Relief and its cost by firm level, {name}",
        f"Means over called hours, {notice} of notice; a point is a firm level, the "
        "lowest at the end of a line, and bars span the seeds.",
        (
            Panel(
                Axis("Relief [MW]", from_zero=True),
                Axis("Work delayed [GPU h per called hour]", from_zero=True),
                tuple(lines),
            ),
        ),
    )
