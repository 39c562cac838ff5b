"""Which 8,760 hours of a run a tool gets that knows years of 365 days only."""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import datetime

from diploee.errors import InputError
from diploee.outputs.export.base import LEAP_DAYS, YEAR_STEPS_MS, LeapDay, Options
from diploee.outputs.export.series import Span
from diploee.outputs.export.source import Source
from diploee.outputs.export.window import row_at
from diploee.units import MS_PER_MIN, MS_PER_S


@dataclass(frozen=True)
class YearSpans:
    """A calendar year's rows without its leap day.

    Parameters
    ----------
    year : int
        The calendar year, in the facility's fixed UTC offset.
    spans : tuple of (int, int)
        Rows of the run.
    leap_rule : str
        What became of the leap day, for the sidecar.
    """

    year: int
    spans: tuple[Span, ...]
    leap_rule: str


def year_spans(source: Source, options: Options, step_ms: int, format_name: str) -> YearSpans:
    """Return the rows of the calendar year that a run holds, 8,760 hours.

    Raises
    ------
    InputError
        If the run holds no whole calendar year, or several and none is chosen; if the year is a
        leap year and no rule is chosen; if the step is not 60, 30 or 15 minutes.
    """
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
            f"choose what it loses with --leap-day {' or --leap-day '.join(LEAP_DAYS)}"
        )
    elif options.leap_day == "drop-last-day":
        spans, rule = [(start, datetime(year, 12, 31))], "drop-last-day: 31 December is left out"
    else:
        spans = [(start, datetime(year, 2, 29)), (datetime(year, 3, 1), datetime(year + 1, 1, 1))]
        rule = "drop-feb29: 29 February is left out; later days are one weekday off the calendar"
    where = f"'{format_name}', year {year}"
    rows = tuple((row_at(source, a, where), row_at(source, b, where)) for a, b in spans)
    return YearSpans(year, rows, rule)


def _choose(source: Source, options: Options, format_name: str) -> int:
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


def _no_year(source: Source, wanted: str, format_name: str) -> InputError:
    return InputError(
        f"{source.run.folder}: '{format_name}' needs {wanted}, from 1 January 00:00 for 8,760 "
        f'hours, and the run covers {source.covered}; run again with --set "duration=1 year" and '
        "such a start, or export 'csv'"
    )


def _whole_years(source: Source, leap_day: LeapDay | None) -> list[int]:
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
