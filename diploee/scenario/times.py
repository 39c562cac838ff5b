"""Times as users write them.

Lengths such as ``0.1 s`` and ``1 year``, dates, and the calendar. A calendar says how
the rate of jobs or requests varies over the week and the year.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from difflib import get_close_matches
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

from diploee.base.errors import InputError, did_you_mean, one_of, shown
from diploee.base.metric import is_plain_number
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
        raise ValueError(
            f"must be a number up to {MAX_NUMBER:,} and a unit, found {shown(text)}"
        )
    return number, match[2]


def parse_resolution_ms(text: object) -> int:
    """Return a resolution such as ``"60 s"`` in milliseconds."""
    number, unit = _split(text, ("ms", "s", "min", "h"), "60 s")
    span_ms = round(number * _FIXED_MS[unit], 6)
    if (
        span_ms % MIN_RESOLUTION_MS
        or not MIN_RESOLUTION_MS <= span_ms <= MAX_RESOLUTION_MS
    ):
        raise ValueError(
            f"must be a multiple of 0.1 s from 0.1 s to 1 h, found {shown(text)}"
        )
    return int(span_ms)


def parse_step_ms(text: str) -> int:
    """Return a step such as ``"15 min"`` in milliseconds."""
    try:
        return parse_resolution_ms(text)
    except ValueError as error:
        raise InputError(f"--step: {error}") from None


def steps_ms(resolution_ms: int) -> Iterator[int]:
    """Yield the steps of which a resolution is made, from the coarsest on."""
    units = resolution_ms // PROFILE_STEP_MS
    yield from (resolution_ms // n for n in range(1, units + 1) if units % n == 0)


def _parse_span_ms(text: object) -> int:
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
    # A float has 15 exact digits; fewer would change a long span, an exponent would not
    # be read.
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
    return (
        _split(duration, (*_FIXED_MS, *_CALENDAR_MONTHS), "1 year")[1]
        in _CALENDAR_MONTHS
    )


def end_of(start: datetime, duration: str, sign: int = 1) -> datetime:
    """Return the end of a span that starts at a date.

    Months and years follow the calendar. A start on a day that the last month does not
    have ends on that month's last day. With a sign of -1 the span lies before the date.
    """
    number, unit = _split(duration, (*_FIXED_MS, *_CALENDAR_MONTHS), "1 year")
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


def _refuse_number_as_date(value: object) -> object:
    """Refuse a number where a date is expected."""
    # pydantic would read a bare year such as 2018 as seconds since 1970.
    if isinstance(value, int | float):
        raise ValueError(f"expected an ISO date such as 2018-01-01, found {value!r}")
    return value


def _check_moment(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise ValueError(
            "must be local time without a zone; set facility.time_zone instead"
        )
    if value.microsecond % 1000:
        raise ValueError("must be a whole number of milliseconds")
    return value


LocalTime = Annotated[datetime, BeforeValidator(_refuse_number_as_date)]
"""A date or time as users write it; a zone is for its field to refuse."""
Moment = Annotated[LocalTime, AfterValidator(_check_moment)]
"""A local time in whole milliseconds."""


def _check_country(text: str) -> str:
    """Return a country such as ``US``, or a subdivision such as ``DE-BY``."""
    country, _, part = text.partition("-")
    known: dict[str, list[str]] = _package().list_supported_countries()
    if country not in known:
        raise ValueError(
            f"unknown country {shown(country)}, expected a code such as 'US' or 'DE-BY'"
            f"{_nearest(country)}"
        )
    if "-" in text and part not in known[country]:
        raise ValueError(
            f"{country} has no subdivision {shown(part)} (has: "
            f"{one_of(known[country])}){did_you_mean(part, known[country])}"
        )
    return text


@lru_cache(maxsize=64)
def holidays_of(text: str, first_year: int, last_year: int) -> Int64Array:
    """Return the years' public holidays as days since 1970-01-01, if known."""
    country, _, part = text.partition("-")
    years = range(first_year, last_year + 1)
    found = _package().country_holidays(country, subdiv=part or None, years=years)
    return np.array(sorted(found), dtype="datetime64[D]").astype(np.int64)


def _nearest(word: str) -> str:
    """Return the codes of the countries whose names or codes are nearest, as a hint."""
    from holidays.registry import COUNTRIES

    code_of = {key.replace("_", " "): names[1] for key, names in COUNTRIES.items()}
    near = get_close_matches(word.lower(), code_of)
    near += get_close_matches(word.upper(), code_of.values())[: 3 - len(near)]
    names = {code: key.title() for key, code in code_of.items()}
    hints = [
        f"'{code}' ({names[code]})"
        for code in dict.fromkeys(code_of.get(n, n) for n in near)
    ]
    return f"; the nearest are {', '.join(hints)}" if hints else ""


def _package() -> ModuleType:
    try:
        import holidays
    except ImportError:
        raise ValueError(
            "holidays need the package of that name; pip install 'diploee[holidays]'"
        ) from None
    return holidays


MAX_WEIGHT = 1_000_000_000
"""Only ratios matter; products of weights of any size would overflow."""


def _is_weight(value: object) -> bool:
    return is_plain_number(value) and 0 <= value <= MAX_WEIGHT


def _weights(n_weights: int, meaning: str) -> Callable[[object], tuple[float, ...]]:
    def check(values: object) -> tuple[float, ...]:
        if not isinstance(values, list | tuple):
            raise ValueError(
                f"must be a list of {n_weights} weights ({meaning}), found "
                f"{shown(values)}"
            )
        if len(values) != n_weights:
            raise ValueError(
                f"must have {n_weights} weights ({meaning}), found {len(values)}"
            )
        bad = [index for index, value in enumerate(values) if not _is_weight(value)]
        if bad:
            others = f" ({len(bad)} such weights)" if len(bad) > 1 else ""
            raise ValueError(
                f"weight {bad[0] + 1} of {n_weights} must be a number from 0 to "
                f"{MAX_WEIGHT:,}, found {shown(values[bad[0]])}{others}"
            )
        if not any(values):
            raise ValueError("all weights are zero; at least one must be positive")
        return tuple(map(float, values))

    return check


def _schema(n_weights: int) -> WithJsonSchema:
    number = {"type": "number", "minimum": 0}
    return WithJsonSchema(
        {"type": "array", "items": number, "minItems": n_weights, "maxItems": n_weights}
    )


HourOfWeekWeights = Annotated[
    tuple[float, ...],
    BeforeValidator(
        _weights(HOURS_PER_WEEK, "one per hour of the week, Monday 00:00 first")
    ),
    _schema(HOURS_PER_WEEK),
]
HourOfDayWeights = Annotated[
    tuple[float, ...],
    BeforeValidator(_weights(HOURS_PER_DAY, "one per hour of the day, 00:00 first")),
    _schema(HOURS_PER_DAY),
]
DayOfWeekWeights = Annotated[
    tuple[float, ...],
    BeforeValidator(_weights(DAYS_PER_WEEK, "one per day of the week, Monday first")),
    _schema(DAYS_PER_WEEK),
]
MonthWeights = Annotated[
    tuple[float, ...],
    BeforeValidator(_weights(MONTHS_PER_YEAR, "one per month, January first")),
    _schema(MONTHS_PER_YEAR),
]


Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]

MAX_CORRELATION_WEEKS = 52

MAX_WEEKS_RELATIVE_STD = 2


class WeekToWeek(Model):
    """How weeks differ: a random factor on the rate, of mean 1 over each year.

    It is drawn for each calendar week, at its middle, and linear between. The same
    weeks have the same factors however long the run is.
    """

    relative_std: Annotated[float, Field(ge=0, le=MAX_WEEKS_RELATIVE_STD)] = Field(
        description="Relative standard deviation of weekly means about the calendar, before "  # noqa: E501
        "the mean of their year is taken out."
    )
    correlation_weeks: Annotated[float, Field(ge=0, le=MAX_CORRELATION_WEEKS)] = (
        default(
            0,
            (
                "Time in which the correlation of the weeks' factors falls to 1/e "
                "[weeks]; 0 draws each by itself."
            ),
        )
    )


class Calendar(Model):
    """Relative rates by hour of the week and by month, in the facility's local time.

    Rates go in a line without a jump; each hour has the mean that its weight says. Only
    ratios matter: the weights are normalised so that their mean over the run is 1, or
    over warm-up and run where the run is shorter than the day, week or year in which
    they repeat. The factor of `week_to_week` is not, but over a calendar year; a target
    utilization is met.
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
    month: MonthWeights | None = unset(
        "12 weights, one per month; each multiplies every day of it."
    )

    holidays: Annotated[str, AfterValidator(_check_country)] | None = optional(
        "Country such as US, or with a subdivision such as DE-BY, whose public "
        "holidays have the hours of holiday_as; needs the package holidays."
    )
    holiday_as: Weekday = default(
        "sunday",
        "Day of the week whose weights hold on holidays.",
        exclude_if=lambda value: value == "sunday",
    )
    week_to_week: WeekToWeek | None = optional(
        "How weeks differ at random; not if absent."
    )

    @model_validator(mode="after")
    def _week_is_given_once(self) -> Calendar:
        if self.hour_of_week is not None and (self.hour_of_day or self.day_of_week):
            raise ValueError(
                "give either hour_of_week or hour_of_day and day_of_week, not both"
            )
        if self.holiday_as != "sunday" and self.holidays is None:
            raise ValueError(
                "holiday_as needs holidays, a country such as US; give both"
            )
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
        """Day of the week whose weights hold on holidays, 0 for Monday."""
        return get_args(Weekday).index(self.holiday_as)

    def month_weights(self) -> tuple[float, ...]:
        """Return the 12 weights of the months, January first."""
        return tuple(self.month or (1.0,) * MONTHS_PER_YEAR)
