"""Times as users write them: lengths such as ``0.1 s`` and ``1 year``, dates, offsets."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from diploee.errors import shown
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S, MS_PER_WEEK

_FIXED_MS = {
    "ms": 1,
    "s": MS_PER_S,
    "min": MS_PER_MIN,
    "h": MS_PER_H,
    "d": MS_PER_DAY,
    "day": MS_PER_DAY,
    "days": MS_PER_DAY,
    "week": MS_PER_WEEK,
    "weeks": MS_PER_WEEK,
}
_CALENDAR_MONTHS = {"month": 1, "months": 1, "year": 12, "years": 12}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

MAX_NUMBER = 10**12
MIN_RESOLUTION_MS = 100
MAX_RESOLUTION_MS = MS_PER_H


def _split(text: object, units: tuple[str, ...], example: str) -> tuple[float, str]:
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] not in units:
        raise ValueError(
            f"expected a number and a unit ({', '.join(units)}), such as '{example}', "
            f"found {shown(text)}"
        )
    number = float(match[1])
    if number > MAX_NUMBER:
        raise ValueError(f"must be a number up to {MAX_NUMBER:,} and a unit, found {shown(text)}")
    return number, match[2]


def parse_resolution_ms(text: object) -> int:
    """Return a resolution such as ``"60 s"`` in milliseconds."""
    number, unit = _split(text, ("ms", "s", "min", "h"), "60 s")
    span_ms = round(number * _FIXED_MS[unit], 6)
    if span_ms % MIN_RESOLUTION_MS or not MIN_RESOLUTION_MS <= span_ms <= MAX_RESOLUTION_MS:
        raise ValueError(f"must be a multiple of 0.1 s from 0.1 s to 1 h, found {shown(text)}")
    return int(span_ms)


def parse_span_ms(text: object) -> int:
    """Return a span of fixed length such as ``"30 min"`` in milliseconds."""
    number, unit = _split(text, tuple(_FIXED_MS), "30 min")
    span_ms = round(number * _FIXED_MS[unit], 6)
    if span_ms % 1 or span_ms <= 0:
        raise ValueError(f"must be a whole number of ms from 1 up, found {shown(text)}")
    return int(span_ms)


def _check_duration(text: object) -> str:
    number, unit = _split(text, (*_FIXED_MS, *_CALENDAR_MONTHS), "1 year")
    if unit in _CALENDAR_MONTHS and number != int(number):
        raise ValueError(f"months and years must be whole numbers, found {shown(text)}")
    if number <= 0:
        raise ValueError(f"must be longer than 0, found {shown(text)}")
    # A float has 15 exact digits; fewer would change a long span, an exponent would not be read.
    return f"{number:.15g} {unit}"


def _check_fixed_span(text: object) -> str:
    number, unit = _split(text, (*_FIXED_MS,), "15 min")
    return f"{number:.15g} {unit}"


def span_ms(text: str) -> int:
    """Return the length of a span of a fixed unit, such as ``"15 min"`` [ms]."""
    number, unit = _split(text, (*_FIXED_MS,), "15 min")
    return round(number * _FIXED_MS[unit])


def is_calendar_span(duration: str) -> bool:
    """Tell whether a span is of months or years, whose length follows the calendar."""
    return _split(duration, (*_FIXED_MS, *_CALENDAR_MONTHS), "1 year")[1] in _CALENDAR_MONTHS


def end_of(start: datetime, duration: str, sign: int = 1) -> datetime:
    """Return the end of a span that starts at a date; months and years follow the calendar.

    A start on a day that the last month does not have ends on that month's last day. With a sign of
    -1 the span lies before the date.
    """
    number, unit = _split(duration, (*_FIXED_MS, *_CALENDAR_MONTHS), "1 year")
    if unit in _FIXED_MS:
        return start + sign * timedelta(milliseconds=number * _FIXED_MS[unit])
    years, month = divmod(start.month - 1 + sign * int(number) * _CALENDAR_MONTHS[unit], 12)
    for day in range(start.day, start.day - 4, -1):
        try:
            return start.replace(year=start.year + years, month=month + 1, day=day)
        except ValueError:
            continue
    raise ValueError(f"no end for {start} plus {duration}")


def _format_resolution(resolution_ms: int) -> str:
    return f"{resolution_ms / MS_PER_S:.15g} s"


ResolutionMs = Annotated[
    int,
    BeforeValidator(parse_resolution_ms),
    PlainSerializer(_format_resolution, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["0.1 s", "60 s", "1 h"]}),
]
SpanMs = Annotated[
    int,
    BeforeValidator(parse_span_ms),
    PlainSerializer(_format_resolution, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30 min", "4 h"]}),
]
Duration = Annotated[
    str,
    BeforeValidator(_check_duration),
    AfterValidator(str),
    WithJsonSchema({"type": "string", "examples": ["7 d", "1 year"]}),
]
FixedSpan = Annotated[
    str,
    BeforeValidator(_check_fixed_span),
    AfterValidator(str),
    WithJsonSchema({"type": "string", "examples": ["15 min", "3 h"]}),
]
"""A length of time that is the same on every day; may be 0."""


def _refuse_number_as_date(value: object) -> object:
    """Refuse a number where a date is expected."""
    # pydantic would read a bare year such as 2018 as seconds since 1970.
    if isinstance(value, int | float):
        raise ValueError(f"expected an ISO date such as 2018-01-01, found {value!r}")
    return value


def _check_moment(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise ValueError("must be local time without a zone; set facility.time_zone instead")
    if value.microsecond % 1000:
        raise ValueError("must be a whole number of milliseconds")
    return value


LocalTime = Annotated[datetime, BeforeValidator(_refuse_number_as_date)]
"""A date or time as users write it; a zone is for its field to refuse."""
Moment = Annotated[LocalTime, AfterValidator(_check_moment)]
"""A local time in whole milliseconds."""
