"""Times in users' notation: durations, dates, and the calendar of rates.

Examples of durations are ``0.1 s`` and ``1 year``. A calendar has the relative rate of
jobs or requests over the week and the year.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from types import ModuleType
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from diploee.base.errors import InputError, one_of
from diploee.base.model import Model, default, optional, unset
from diploee.base.tables import Int64Array
from diploee.base.units import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    MS_PER_WEEK,
    PROFILE_STEP_MS,
)
from diploee.base.validation import as_yaml, must_be

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
_UNITS = (*_FIXED_MS, *_CALENDAR_MONTHS)
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

MAX_NUMBER = 10**12
MIN_RESOLUTION_MS = 100
MAX_RESOLUTION_MS = MS_PER_H


def _split_number_unit(
    text: object, units: Iterable[str], example: str
) -> tuple[float, str]:
    text = as_yaml(text)
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] not in units or float(match[1]) > MAX_NUMBER:
        raise must_be(
            f"a number and a unit ({', '.join(units)}), such as '{example}'", text
        )
    return float(match[1]), match[2]


def parse_resolution_ms(text: object) -> int:
    """Convert a resolution such as ``"60 s"`` to milliseconds."""
    number, unit = _split_number_unit(text, ("ms", "s", "min", "h"), "60 s")
    span_ms = round(number * _FIXED_MS[unit], 6)
    if (
        span_ms % MIN_RESOLUTION_MS
        or not MIN_RESOLUTION_MS <= span_ms <= MAX_RESOLUTION_MS
    ):
        raise must_be("a multiple of 0.1 s from 0.1 s to 1 h", text)
    return int(span_ms)


def parse_step_ms(text: str) -> int:
    """Convert a step such as ``"15 min"`` to milliseconds."""
    try:
        return parse_resolution_ms(text)
    except ValueError as error:
        raise InputError(f"--step: {error}") from None


def steps_ms(resolution_ms: int) -> Iterator[int]:
    """Yield the allowed steps that divide a resolution, the coarsest first [ms]."""
    units = resolution_ms // PROFILE_STEP_MS
    yield from (resolution_ms // n for n in range(1, units + 1) if units % n == 0)


def _parse_span_ms(text: object) -> int:
    """Convert a span of fixed length such as ``"30 min"`` to milliseconds."""
    number, unit = _split_number_unit(text, _FIXED_MS, "30 min")
    span_ms = round(number * _FIXED_MS[unit], 6)
    if span_ms % 1 or span_ms <= 0:
        raise must_be("a whole number of ms from 1 up", text)
    return int(span_ms)


def _check_duration(text: object) -> str:
    number, unit = _split_number_unit(text, _UNITS, "1 year")
    if number <= 0 or (unit in _CALENDAR_MONTHS and number % 1):
        raise must_be("longer than 0, and of whole months or years", text)
    # All 15 exact digits of a float: fewer would change a long span, and an exponent
    # could not be read
    return f"{number:.15g} {unit}"


def _check_fixed_span(text: object) -> str:
    number, unit = _split_number_unit(text, _FIXED_MS, "15 min")
    return f"{number:.15g} {unit}"


def span_ms(text: str) -> int:
    """Return the length of a span of a fixed unit, such as ``"15 min"`` [ms]."""
    number, unit = _split_number_unit(text, _FIXED_MS, "15 min")
    return round(number * _FIXED_MS[unit])


def is_calendar_span(duration: str) -> bool:
    """Return True if a span is in months or years, of variable length."""
    return _split_number_unit(duration, _UNITS, "1 year")[1] in _CALENDAR_MONTHS


def end_date(start: datetime, duration: str, sign: int = 1) -> datetime:
    """Return the end of a span that starts at a date.

    Months and years follow the calendar. If the last month does not have the day of the
    start, the span ends on that month's last day. With a sign of -1 the span is before
    the date.
    """
    number, unit = _split_number_unit(duration, _UNITS, "1 year")
    if unit in _FIXED_MS:
        return start + sign * timedelta(milliseconds=number * _FIXED_MS[unit])
    years, month = divmod(
        start.month - 1 + sign * int(number) * _CALENDAR_MONTHS[unit], 12
    )
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
    BeforeValidator(_parse_span_ms),
    PlainSerializer(_format_resolution, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30 min", "4 h"]}),
]
Duration = Annotated[
    str,
    BeforeValidator(_check_duration),
    WithJsonSchema({"type": "string", "examples": ["7 d", "1 year"]}),
]
FixedSpan = Annotated[
    str,
    BeforeValidator(_check_fixed_span),
    WithJsonSchema({"type": "string", "examples": ["15 min", "3 h"]}),
]
"""A length of time that is the same on every day; may be 0."""


def _check_moment(value: datetime) -> datetime:
    if value.tzinfo is not None or value.microsecond % 1000:
        raise must_be("local time in whole milliseconds, without a zone", value)
    return value


Moment = Annotated[datetime, AfterValidator(_check_moment)]
"""A local time in whole milliseconds."""


def _check_country(text: str) -> str:
    """Return a checked country such as ``US``, or subdivision such as ``DE-BY``."""
    country, dash, part = text.partition("-")
    known: dict[str, list[str]] = _holidays_package().list_supported_countries()
    if country not in known:
        raise must_be("a country such as 'US', or part of one such as 'DE-BY'", text)
    if dash and part not in known[country]:
        raise must_be(f"a subdivision of {country} ({one_of(known[country])})", part)
    return text


@lru_cache(maxsize=64)
def public_holidays(text: str, first_year: int, last_year: int) -> Int64Array:
    """Return public holidays of a country or its part, as days since 1970-01-01."""
    country, _, part = text.partition("-")
    years = range(first_year, last_year + 1)
    result = _holidays_package().country_holidays(
        country, subdiv=part or None, years=years
    )
    return np.array(sorted(result), dtype="datetime64[D]").astype(np.int64)


def _holidays_package() -> ModuleType:
    try:
        import holidays
    except ImportError:
        raise ValueError(
            "holidays need the package of that name; pip install 'diploee[holidays]'"
        ) from None
    return holidays


MAX_WEIGHT = 1_000_000_000
"""Maximum weight; only ratios matter, and products of larger weights would overflow."""


Weight = Annotated[float, Field(ge=0, le=MAX_WEIGHT)]


def _check_weights(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not any(weights):
        raise must_be("weights of which one or more are above 0", weights)
    return weights


_SOME = AfterValidator(_check_weights)
HourOfWeekWeights = Annotated[
    tuple[Weight, ...],
    Field(min_length=HOURS_PER_WEEK, max_length=HOURS_PER_WEEK),
    _SOME,
]
HourOfDayWeights = Annotated[
    tuple[Weight, ...], Field(min_length=HOURS_PER_DAY, max_length=HOURS_PER_DAY), _SOME
]
DayOfWeekWeights = Annotated[
    tuple[Weight, ...], Field(min_length=DAYS_PER_WEEK, max_length=DAYS_PER_WEEK), _SOME
]
MonthWeights = Annotated[
    tuple[Weight, ...],
    Field(min_length=MONTHS_PER_YEAR, max_length=MONTHS_PER_YEAR),
    _SOME,
]


Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]

MAX_CORRELATION_WEEKS = 52

MAX_WEEKS_RELATIVE_STD = 2


class WeekToWeek(Model):
    """Random variation between weeks: a factor on the rate, of mean 1 over each year.

    The factor is sampled for the middle of each calendar week and interpolated
    linearly. The same weeks have the same factors for any length of the run.
    """

    relative_std: Annotated[float, Field(ge=0, le=MAX_WEEKS_RELATIVE_STD)] = Field(
        description="Relative standard deviation of weekly means around the "
        "calendar, before normalisation to the mean of each year."
    )
    correlation_weeks: Annotated[float, Field(ge=0, le=MAX_CORRELATION_WEEKS)] = (
        default(
            0,
            (
                "Correlation time of the weeks' factors, to 1/e [weeks]; 0 for "
                "independent weeks."
            ),
        )
    )


class Calendar(Model):
    """Relative rates by hour of the week and by month, in the facility's local time.

    Rates are piecewise linear without jumps, and the mean of each hour equals its
    weight. The weights are scaled so that their mean is 1 over the run, or over warm-up
    and run if the run is shorter than the day, week or year in which they repeat. The
    random factors of `week_to_week` have a mean of 1 over each calendar year instead. A
    target utilization is met nevertheless.
    """

    hour_of_week: HourOfWeekWeights | None = unset(
        "168 weights, Monday 00:00-01:00 first."
    )
    hour_of_day: HourOfDayWeights | None = unset(
        "24 weights; multiplied by day_of_week."
    )
    day_of_week: DayOfWeekWeights | None = unset(
        "7 weights, Monday first; multiplied by hour_of_day."
    )
    month: MonthWeights | None = unset("12 weights, one per month.")

    holidays: Annotated[str, AfterValidator(_check_country)] | None = optional(
        "Country such as US, or with a subdivision such as DE-BY, whose public "
        "holidays have the hours of holiday_as; needs the package holidays."
    )
    holiday_as: Weekday = default(
        "sunday",
        "Day of the week whose weights apply on holidays.",
        exclude_if=lambda value: value == "sunday",
    )
    week_to_week: WeekToWeek | None = optional(
        "Random variation between weeks; none if absent."
    )

    @model_validator(mode="after")
    def _week_is_given_once(self) -> Calendar:
        self._refuse("hour_of_week", "hour_of_day", "day_of_week")
        self._need("holiday_as", "holidays")
        return self

    def week_weights(self) -> tuple[float, ...]:
        """Return the 168 weights of the hours of the week, Monday 00:00 first."""
        if self.hour_of_week is not None:
            return tuple(self.hour_of_week)
        hours = self.hour_of_day or (1.0,) * HOURS_PER_DAY
        days = self.day_of_week or (1.0,) * DAYS_PER_WEEK
        return tuple(day * hour for day in days for hour in hours)

    @property
    def holiday_weekday(self) -> int:
        """Weekday whose weights apply on holidays, 0 for Monday."""
        return get_args(Weekday).index(self.holiday_as)

    def month_weights(self) -> tuple[float, ...]:
        """Return the 12 weights of the months, January first."""
        return tuple(self.month or (1.0,) * MONTHS_PER_YEAR)
