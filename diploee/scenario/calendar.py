"""Calendar weights: how the rate of jobs or requests varies over the week and the year."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from types import ModuleType
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from diploee.errors import did_you_mean, one_of, shown
from diploee.model import Model, optional
from diploee.tables import Int64Array
from diploee.units import DAYS_PER_WEEK, HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR


def check_country(text: str) -> str:
    """Return a country such as ``US``, or one with its subdivision such as ``DE-BY``."""
    country, _, part = text.partition("-")
    known: dict[str, list[str]] = _package().list_supported_countries()
    if country not in known:
        raise ValueError(
            f"unknown country {shown(country)}, expected a code such as 'US' or 'DE-BY'"
            f"{_nearest(country)}"
        )
    if "-" in text and part not in known[country]:
        raise ValueError(
            f"{country} has no subdivision {shown(part)} (has: {one_of(known[country])})"
            f"{did_you_mean(part, known[country])}"
        )
    return text


@lru_cache(maxsize=64)
def holidays_of(text: str, first_year: int, last_year: int) -> Int64Array:
    """Return the public holidays of the years as days since 1970-01-01, as far as known."""
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
    hints = [f"'{code}' ({names[code]})" for code in dict.fromkeys(code_of.get(n, n) for n in near)]
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
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= MAX_WEIGHT  # type: ignore[operator]  # it is a number


def _weights(n_weights: int, meaning: str) -> Callable[[object], tuple[float, ...]]:
    def check(values: object) -> tuple[float, ...]:
        if not isinstance(values, list | tuple):
            raise ValueError(
                f"must be a list of {n_weights} weights ({meaning}), found {shown(values)}"
            )
        if len(values) != n_weights:
            raise ValueError(f"must have {n_weights} weights ({meaning}), found {len(values)}")
        bad = [index for index, value in enumerate(values) if not _is_weight(value)]
        if bad:
            others = f" ({len(bad)} such weights)" if len(bad) > 1 else ""
            raise ValueError(
                f"weight {bad[0] + 1} of {n_weights} must be a number from 0 to {MAX_WEIGHT:,}, "
                f"found {shown(values[bad[0]])}{others}"
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
    BeforeValidator(_weights(HOURS_PER_WEEK, "one per hour of the week, Monday 00:00 first")),
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


Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

MAX_CORRELATION_WEEKS = 52

MAX_WEEKS_RELATIVE_STD = 2


class WeekToWeek(Model):
    """How weeks differ: a random factor on the rate, positive, with mean 1 over each calendar year.

    It is drawn for each calendar week, at its middle, and linear between. The same weeks have the
    same factors however long the run is.
    """

    relative_std: Annotated[float, Field(ge=0, le=MAX_WEEKS_RELATIVE_STD)] = Field(
        description="Relative standard deviation of weekly means about the calendar, before "
        "the mean of their year is taken out."
    )
    correlation_weeks: Annotated[float, Field(ge=0, le=MAX_CORRELATION_WEEKS)] = Field(
        default=0,
        description="Time in which the correlation of the weeks' factors falls to 1/e [weeks]; 0 "
        "draws each by itself.",
    )


class Calendar(Model):
    """Relative rates by hour of the week and by month, in the facility's local time.

    Rates go in a line without a jump; each hour has the mean that its weight says.
    Only ratios matter: the weights are normalised so that their mean over the simulated span is 1.
    The factor of `week_to_week` is not, but over a calendar year; a target utilization is met.
    """

    hour_of_week: HourOfWeekWeights | None = Field(
        default=None, description="168 weights, Monday 00:00-01:00 first."
    )
    hour_of_day: HourOfDayWeights | None = Field(
        default=None, description="24 weights; multiplied by day_of_week."
    )
    day_of_week: DayOfWeekWeights | None = Field(
        default=None, description="7 weights, Monday first; multiplied by hour_of_day."
    )
    month: MonthWeights | None = Field(
        default=None, description="12 weights, one per month; each multiplies every day of it."
    )

    holidays: Annotated[str, AfterValidator(check_country)] | None = optional(
        "Country such as US, or with a subdivision such as DE-BY, whose public holidays have the "
        "hours of holiday_as; needs the package holidays."
    )
    holiday_as: Weekday = Field(
        default="sunday",
        description="Day of the week whose weights hold on holidays.",
        exclude_if=lambda value: value == "sunday",
    )
    week_to_week: WeekToWeek | None = optional("How weeks differ at random; not if absent.")

    @model_validator(mode="after")
    def _week_is_given_once(self) -> Calendar:
        if self.hour_of_week is not None and (self.hour_of_day or self.day_of_week):
            raise ValueError("give either hour_of_week or hour_of_day and day_of_week, not both")
        if self.holiday_as != "sunday" and self.holidays is None:
            raise ValueError("holiday_as needs holidays, a country such as US; give both")
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
