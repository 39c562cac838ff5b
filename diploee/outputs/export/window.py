"""Which step and which rows an export takes: a window, or the 8,760 hours of a calendar year.

Some tools know years of 365 days only.
"""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from diploee.errors import InputError, one_of
from diploee.outputs.export.base import YEAR_STEPS_MS, LeapDay, Options
from diploee.outputs.series import Rows, RunSeries
from diploee.scenario.times import parse_resolution_ms
from diploee.units import MS_PER_MIN, MS_PER_S


def parse_step_ms(text: str) -> int:
    """Return a step such as ``"15 min"`` in milliseconds."""
    try:
        return parse_resolution_ms(text)
    except ValueError as error:
        raise InputError(f"--step: {error}") from None


def check_step(source: RunSeries, step_ms: int) -> None:
    """Refuse a step that the source can't be averaged to."""
    folder, step_s = source.run.folder, step_ms / MS_PER_S
    if step_ms < source.step_ms:
        raise InputError(
            f"{folder}: a step of {step_s:g} s is finer than the {source.name}'s "
            f"{source.step_s:g} s, which holds no more detail; run again with "
            f'--set "resolution={step_s:g} s"{_or_event_window(source)}'
        )
    if step_ms % source.step_ms:
        raise InputError(
            f"{folder}: a step of {step_s:g} s is no multiple of the {source.name}'s "
            f"{source.step_s:g} s; choose a --step that is"
        )


def _or_event_window(source: RunSeries) -> str:
    names = source.run.event_windows
    return (
        f", or export one of its worst windows with --event-window {one_of(names)}" if names else ""
    )


def rows_between(
    source: RunSeries, first: datetime | None, until: datetime | None, step_ms: int
) -> Rows:
    """Return the rows of a part of the source, the whole by default."""
    a = 0 if first is None else source.row_at(first, "--from")
    b = source.n_rows if until is None else source.row_at(until, "--to", is_end=True)
    if a >= b:
        raise InputError(f"--from must be before --to, found {first} and {until or 'the end'}")
    rows_per_step = step_ms // source.step_ms
    if (b - a) % rows_per_step:
        seconds = (b - a) * source.step_s
        raise InputError(
            f"{source.run.folder}: {seconds:g} s are no whole number of steps of "
            f"{step_ms / MS_PER_S:g} s; choose another --step, or a part with --from and --to"
        )
    return a, b


@dataclass(frozen=True)
class YearSpans:
    """A calendar year's rows without its leap day."""

    year: int  # the calendar year, in the facility's local time
    spans: tuple[Rows, ...]  # rows of the run
    leap_rule: str  # what became of the leap day, for the sidecar


def year_spans(source: RunSeries, options: Options, step_ms: int, format_name: str) -> YearSpans:
    """Return the rows of the calendar year that a run holds, 8,760 hours."""
    if step_ms not in YEAR_STEPS_MS:
        steps = ", ".join(f"{ms // MS_PER_MIN} min" for ms in YEAR_STEPS_MS)
        raise InputError(
            f"'{format_name}' takes a --step of {steps}, found {step_ms / MS_PER_S:g} s"
        )
    year = _choose(source, options, format_name)
    start = datetime(year, 1, 1)
    if not isleap(year):
        spans, rule = [(start, datetime(year + 1, 1, 1))], "the year has no 29 February"
    elif options.leap_day is None:
        raise InputError(
            f"{source.run.folder}: {year} is a leap year and '{format_name}' takes 365 days; "
            f"choose what it loses with --leap-day {' or --leap-day '.join(get_args(LeapDay))}"
        )
    elif options.leap_day == "drop-last-day":
        spans, rule = [(start, datetime(year, 12, 31))], "drop-last-day: 31 December is left out"
    else:
        spans = [(start, datetime(year, 2, 29)), (datetime(year, 3, 1), datetime(year + 1, 1, 1))]
        rule = "drop-feb29: 29 February is left out; later days are one weekday off the calendar"
    where = f"'{format_name}', year {year}"
    rows = tuple((source.row_at(a, where), source.row_at(b, where)) for a, b in spans)
    return YearSpans(year, rows, rule)


def _choose(source: RunSeries, options: Options, format_name: str) -> int:
    whole = _whole_years(source, options.leap_day)
    if options.year is not None:
        if options.year not in whole:
            raise _no_year(source, f"the whole of {options.year}", format_name)
        return options.year
    if not whole:
        raise _no_year(source, "a whole calendar year", format_name)
    if len(whole) > 1:
        raise InputError(
            f"{source.run.folder}: holds the years {', '.join(map(str, whole))}; choose one with "
            "--year"
        )
    return whole[0]


def _no_year(source: RunSeries, wanted: str, format_name: str) -> InputError:
    return InputError(
        f"{source.run.folder}: '{format_name}' needs {wanted}, from 1 January 00:00 for 8,760 "
        f'hours, and the run covers {source.covered}; run again with --set "duration=1 year" and '
        "such a start, or export 'csv'"
    )


def _whole_years(source: RunSeries, leap_day: LeapDay | None) -> list[int]:
    start, end = (moment.replace(tzinfo=None) for moment in (source.start, source.end))
    return [
        year
        for year in range(start.year, end.year + 1)
        if start <= datetime(year, 1, 1) and end >= _end_of(year, leap_day)
    ]


def _end_of(year: int, leap_day: LeapDay | None) -> datetime:
    if isleap(year) and leap_day == "drop-last-day":
        return datetime(year, 12, 31)
    return datetime(year + 1, 1, 1)
