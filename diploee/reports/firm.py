"""Table, chart and recommendation of a study of firm demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from diploee.base.units import MS_PER_H
from diploee.grid.firm.baselines import MAX_BATTERY_H
from diploee.grid.firm.calls import ALL, APART_H, PEAKS
from diploee.grid.firm.study import FirmResult
from diploee.reports.drawing.charts import Axis, Chart, Line, Panel, colour
from diploee.runs.formatting import MIN_RUNS, interval, number_format
from diploee.runs.sections import Section, SectionTable, Statistic
from diploee.scenario.flexibility import TOLERATED_LOSS

HELD, LATE = 0.02, 0.05
"""ASSUMPTION: a firm level is recommended if, in all calls, the load exceeds it by at
most 2 % of the level, and at most 5 % of the jobs are late."""

NUMBERS = (
    ("above", "h", "hours_above", ""),
    ("energy above", "MWh", "above_mwh", ""),
    ("relief", "MWh", "relief_mwh", ""),
    ("most left", "MW", "largest_left_mw", ""),
    ("delayed", "GPU h", "delayed_gpu_h", ""),
    ("repeated", "GPU h", "repeated_gpu_h", ""),
    ("late jobs", "", "jobs_late", ""),
    ("late", "% of jobs", "jobs_late", "n_jobs"),
    ("slowed requests", "%", "requests_slowed", "n_requests"),
    ("rejected", "%", "requests_rejected", "n_requests"),
    ("battery", "MW", "largest_above_mw", ""),
    ("usable", "MWh", "battery_mwh", ""),
    ("high 5 of 10", "MWh", "high_5_of_10_error_mwh", ""),
    ("same weekday", "MWh", "weekday_error_mwh", ""),
)
"""Columns of the table: quantity, unit, field of a result, and of what it is a part."""

PANELS = {
    "Hours above the level [h]": {"hours": "hours_above"},
    "Energy above the level [MWh]": {
        "of the undisturbed load": "above_mwh",
        "given up by jobs and services": "relief_mwh",
    },
    "Battery instead, usable [MWh]": {"battery": "battery_mwh"},
    "Work delayed [GPU h]": {"work": "delayed_gpu_h"},
}
"""Lines of each panel by the label of its y axis: name and field of a result."""


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


def _to_sign(
    results: Sequence[FirmResult], peak_mw: float
) -> tuple[list[FirmResult], list[float]]:
    """Return the results below the peak, and the level to sign of each seed [MW]."""
    of_calls = [each for each in _headline_results(results) if each.calls == ALL]
    below = [each for each in of_calls if each.level_mw < peak_mw * (1 - 1e-9)]
    seeds = sorted({each.seed for each in below})
    lowest = [_lowest_held([r for r in below if r.seed == seed]) for seed in seeds]
    return below, [peak_mw if level is None else level for level in lowest]


def recommendation(
    results: Sequence[FirmResult], bounds_mw: tuple[float, float]
) -> str:
    """Return the level to sign in one sentence, with its band over seeds."""
    peak_mw, mw = bounds_mw[1], number_format([bounds_mw[1]]).format
    below, of_seeds = _to_sign(results, peak_mw)
    level_mw, n_seeds = max(of_seeds, default=peak_mw), len(of_seeds)
    notice = f"a notice of {interval(_headline_results(results)[0].notice_ms)}"
    low_mw = min(of_seeds, default=peak_mw)
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


def _cells(
    results: Sequence[FirmResult], calls: str, peak_mw: float
) -> Iterator[Statistic]:
    """Yield a table's cells, with what is kept of the calls of all results."""
    for of_level in _by_level(results):
        level_mw = of_level[0].level_mw
        item = number_format([peak_mw]).format(level_mw)
        rows = [each for each in of_level if each.calls == calls]
        non_firm = max(peak_mw - level_mw, 0.0)
        yield Statistic(item, non_firm, "MW", quantity="non-firm")
        for quantity, unit, field, whole in NUMBERS:
            values = [getattr(each, field) for each in rows]
            pattern = "" if unit else "{:,.0f}"
            if whole:
                if not any(getattr(each, whole) for each in results):
                    continue
                wholes = [max(getattr(each, whole), 1) for each in rows]
                values = (100 * np.divide(values, wholes)).tolist()
                pattern = "{:,.1f}"
            middle, band = _median(values), _band(values)
            yield Statistic(
                item, middle, unit, quantity=quantity, band=band, pattern=pattern
            )
        kept = [100 * part for each in of_level for part in each.kept]
        ends = np.percentile(kept, (5, 95)) if kept else (None, None)
        for quantity, end in zip(("kept, P5", "kept, P95"), ends, strict=True):
            percent = None if end is None else float(end)
            yield Statistic(item, percent, "%", quantity=quantity, pattern="{:,.0f}")


def firm_sections(
    name: str,
    results: Sequence[FirmResult],
    bounds_mw: tuple[float, float],
    days: float,
    step_ms: int,
    can_wait: bool,
) -> list[Section]:
    """Return the table of levels with its recommendation and notes."""
    headline, peak_mw = _headline_results(results), bounds_mw[1]
    sets = list(dict.fromkeys(each.calls for each in headline))
    step, pattern = interval(step_ms), number_format([peak_mw])
    mw = pattern.format
    n_seeds, first = len({each.seed for each in results}), "firm [MW]"
    cells = tuple(_cells(headline, ALL, peak_mw))
    tables = [SectionTable(f"Firm levels of {name}", cells, first=first)]
    if PEAKS in sets:
        of_file = [each for each in headline if each.calls == PEAKS]
        cells = tuple(_cells(of_file, PEAKS, peak_mw))
        note = f"the hours of the file, widened to whole steps of {step}"
        tables.append(SectionTable("Called in peak hours", cells, note, first))
    rigid = (
        "no work is declared flexible, so relief is 0: give a stream flexibility: "
        "{tier: 1} or more, or a service flexibility: {power_limit: 0.75}"
    )
    longer = ", ".join(f"{part / (1 - part):.0%}" for part in TOLERATED_LOSS[1:])
    notes = [
        *(
            f"Nothing is above {mw(of[0].level_mw)} MW: the peak is {mw(peak_mw)} MW."
            for of in _by_level(headline)
            if of[0].level_mw > peak_mw and not any(each.above_mwh for each in of)
        ),
        f"{recommendation(results, bounds_mw)} Powers are means over {step}.",
        (
            f"Simulated: the undisturbed {name} over {days:.3g} days in means over "
            f"{step}, seeds: {n_seeds}; medians over seeds, 'above' to "
            "'same weekday' with calls in all hours above the level and "
            f"{interval(headline[0].notice_ms)} of notice. Dispatched on it, job by "
            "job: what jobs do under a level, by "
            "their mean power, with the order of their undisturbed starts in place of "
            "the pool's scheduler."
        ),
        (
            "late: jobs that end later than their slack or deadline allows, or without "
            "these by more than their tier's loss of throughput adds to their time "
            f"(tiers 1 to 3: {longer}), {step} at least; of all jobs in pools where "
            f"some tolerate a call. {LATE:.0%} may be late at the level to sign "
            "(assumed)."
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
    title = "Firm and non-firm demand"
    firm_mw = max(_to_sign(results, peak_mw)[1], default=peak_mw)
    note = "" if can_wait else rigid
    figures = (Statistic("Firm demand to sign", firm_mw, "MW", note, pattern=pattern),)
    return [Section("firm", title, figures, tuple(tables), notes=tuple(notes))]


def firm_chart(name: str, results: Sequence[FirmResult]) -> Chart:
    """Return the chart of need, relief, battery and delayed work over the level."""
    headline = _headline_results(results)
    rows = list(_by_level([each for each in headline if each.calls == ALL]))
    level_mw = np.array([of_level[0].level_mw for of_level in rows])

    def line(title: str, field: str, k: int) -> Line:
        values = [[getattr(each, field) for each in of_level] for of_level in rows]
        y = np.array(values, dtype=float)  # None is nan
        limits = y.min(axis=1), y.max(axis=1)
        middle, look = np.median(y, axis=1), colour(k)
        return Line(level_mw, middle, title, look, markers=True, limits=limits)

    panels = tuple(
        Panel(
            Axis("Firm level [MW]"),
            Axis(label, from_zero=True),
            tuple(line(*of, k) for k, of in enumerate(fields.items())),
        )
        for label, fields in PANELS.items()
    )
    notice = interval(headline[0].notice_ms)
    return Chart(
        "firm",
        f"What is above each firm level, and what it takes to hold it, {name}",
        f"Called in all hours above the level, {notice} of notice; a point is a firm "
        "level, and bars span the seeds. No point: no battery of up to "
        f"{MAX_BATTERY_H:g} h holds it.",
        panels,
    )
