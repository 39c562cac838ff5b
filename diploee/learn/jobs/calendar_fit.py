"""Calendar weights from hourly counts: how the rate varies over the week and the months.

The expected count of an hour is a product, rate x weight of its hour of the week x weight of its
month; which weights the week has is chosen by what predicts (`diploee.learn.week_shape`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from diploee.errors import WorkloadError
from diploee.learn.jobs.hours import HourCounts
from diploee.learn.poisson import poisson_limits
from diploee.learn.seasons import MonthTest, months_differ
from diploee.learn.week_shape import IN_WORDS, CalendarChoice, Detail, WeekShape, fit_week_shape
from diploee.tables import Float64Array, Int64Array
from diploee.units import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_DAY,
    MS_PER_H,
)

MIN_SIGHTINGS = 2
"""Times that an hour of the week (or of the day) must have been observed to get its own weight."""

MIN_DAYS_OF_MONTH = 27
"""Days of every calendar month that must have been observed to fit weights of months."""

EPOCH_DAY = 3
"""1970-01-01 was a Thursday."""

ROUNDING = 1e-6
"""Parts of hours that add up to a whole one may miss it by so much."""


@dataclass(frozen=True, eq=False)
class CalendarFit:
    """Fitted calendar weights and the counts that they expect."""

    shape: WeekShape  # which weights the week has, and why
    week_weight: Float64Array  # weights of the hours of the week, Monday 00:00 first, mean 1
    # Weights of the months, January first, mean 1 over the days of a year of 365; None where the
    # span does not cover every month
    month_weight: Float64Array | None
    jobs_per_hour: float  # mean rate over a week and a year
    expected: Float64Array  # expected count of every hour of the span
    n_parameters: int  # free parameters that counts above zero determined
    months: MonthTest | None = None  # whether months differ; None where that was not asked

    @property
    def detail(self) -> Detail:
        """Which weights the week has."""
        return self.shape.detail

    @property
    def n_day_parameters(self) -> int:
        """Parameters that tell days apart."""
        of_week = DAYS_PER_WEEK if self.detail in ("day_and_hour", "hour_of_week") else 1
        return of_week + (0 if self.month_weight is None else MONTHS_PER_YEAR - 1)


DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def fit_calendar(
    hours: HourCounts, months: bool | None = None, choice: CalendarChoice = "auto"
) -> CalendarFit:
    """Fit calendar weights to hourly counts."""
    slot, month = hours.hour_of_week, hours.month
    fits_months = wants_months(hours, months)
    allowed = allowed_details(slot, hours.coverage)
    # Of a span too short for weeks, days are held out.
    day = hours.start_ms // MS_PER_DAY
    block = (day + EPOCH_DAY) // DAYS_PER_WEEK if "day_and_hour" in allowed else day
    counts = hours.counts.astype(np.float64)

    def shape_of(group: Int64Array) -> WeekShape:
        return fit_week_shape(counts, hours.coverage, slot, group, block, allowed, choice)

    test, group = None, np.zeros_like(month)
    shape = shape_of(group)
    if fits_months and months is None:
        flat = shape.rate[slot] * hours.coverage
        test = months_differ(counts, flat, month, hours.start_ms // MS_PER_H)
        fits_months = test.differ
    if fits_months:
        group = month
        shape = shape_of(group)
    expected = shape.rate[slot] * shape.of_group[group] * hours.coverage

    month_weight = None
    scale = float(shape.of_group[0])
    if fits_months:
        scale = float(shape.of_group @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())
        month_weight = shape.of_group / scale
    mean = float(shape.rate.mean())
    return CalendarFit(
        shape, shape.rate / mean, month_weight, scale * mean, expected, shape.n_parameters, test
    )


def allowed_details(slot: Int64Array, coverage: Float64Array) -> tuple[Detail, ...]:
    """Return the details of the week that a span allows, the coarsest first.

    Every hour of the week (or of the day) must have been seen `MIN_SIGHTINGS` times.
    """
    details = tuple(IN_WORDS)
    enough = MIN_SIGHTINGS - ROUNDING
    if np.bincount(slot, coverage, HOURS_PER_WEEK).min() >= enough:
        return details
    if np.bincount(slot % HOURS_PER_DAY, coverage, HOURS_PER_DAY).min() >= enough:
        return details[:2]
    return details[:1]


def wants_months(hours: HourCounts, months: bool | None) -> bool:
    """Return whether to fit weights of the months: as asked, or where the span covers them."""
    if months and (missing := sorted(set(range(MONTHS_PER_YEAR)) - set(hours.month.tolist()))):
        raise WorkloadError(
            f"weights of the months: the span does not hold month {missing[0] + 1} "
            f"({len(missing)} of 12 are missing); give a longer span, or leave the months out"
        )
    return covers_all_months(hours) if months is None else months


def covers_all_months(hours: HourCounts) -> bool:
    """Return whether every calendar month was observed for `MIN_DAYS_OF_MONTH` days."""
    return covers_months(hours.month, hours.coverage)


def covers_months(month: Int64Array, coverage: Float64Array) -> bool:
    """Return the same of months of hours and how far each hour was seen."""
    seen = np.bincount(month, coverage, MONTHS_PER_YEAR)
    return bool(seen.min() >= MIN_DAYS_OF_MONTH * HOURS_PER_DAY - ROUNDING)


def week_limits(
    hours: HourCounts,
    fit: CalendarFit,
    dispersion: float,
    confidence: float,
    day_dispersion: float = 0.0,
) -> tuple[Float64Array, Float64Array]:
    """Return the confidence limits of the weights of the hours of the week.

    The total that a weight comes from is Poisson, or negative binomial with a shape of (number of
    its hours) / dispersion; the limits are exact, as Garwood's (1936) and as Clopper and Pearson's
    (1934). A product of days and hours has the relative variances of both. The uncertainty of the
    overall rate, far smaller, is left out, and so is the bias of smoothed weights.
    """
    # What a weight of 1 would have brought in each hour, seasons included.
    unit = fit.jobs_per_hour * month_factor(hours, fit) * hours.coverage
    of_slot, seen, in_slot = (
        np.bincount(hours.hour_of_week, x, HOURS_PER_WEEK).reshape(DAYS_PER_WEEK, HOURS_PER_DAY)
        for x in (unit, hours.coverage, hours.counts)
    )

    def totals(axes: tuple[int, ...], together: int = 1) -> tuple[Float64Array, Float64Array]:
        """Return sums of counts over days or hours, and the dispersion of each."""
        of_hour = dispersion + (1 + dispersion) * day_dispersion * together
        sightings = np.maximum(seen.sum(axis=axes, keepdims=True), ROUNDING)
        total = np.broadcast_to(in_slot.sum(axis=axes, keepdims=True), in_slot.shape)
        return total.astype(np.float64), np.broadcast_to(of_hour / sightings, in_slot.shape)

    axes: dict[Detail, tuple[int, ...]] = {"uniform": (0, 1), "hour_of_day": (0,)}
    total, spread = totals(axes.get(fit.detail, ()))
    if fit.detail == "day_and_hour":
        (total, spread), (of_day, of_days) = totals((0,)), totals((1,), HOURS_PER_DAY)
        both = (total > 0) & (of_day > 0)
        total = both / (1 / np.maximum(total, 1.0) + 1 / np.maximum(of_day, 1.0))
        spread = spread + of_days
    weight = fit.week_weight.reshape(total.shape)
    if spread.any():
        low, high = _negative_binomial_limits(total, 1 / spread, confidence)
    else:
        low, high = poisson_limits(total, 1.0, confidence)
    # A weight without a count is bounded by what would have been seen.
    least = np.maximum(of_slot, ROUNDING)
    per_count = np.where(total > 0, weight / np.maximum(total, ROUNDING), 1 / least)
    return (low * per_count).ravel(), (high * per_count).ravel()


def month_limits(
    hours: HourCounts, fit: CalendarFit, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return the confidence limits of the months' weights, from the scatter of daily counts."""
    assert fit.month_weight is not None
    total = np.bincount(hours.month, hours.counts, MONTHS_PER_YEAR).astype(np.float64)
    factor = max(daily_scatter(hours, fit), 1.0)
    low, high = poisson_limits(total, factor, confidence)
    unit = np.bincount(
        hours.month,
        fit.jobs_per_hour * fit.week_weight[hours.hour_of_week] * hours.coverage,
        MONTHS_PER_YEAR,
    )
    return low / unit, high / unit


def daily_scatter(hours: HourCounts, fit: CalendarFit) -> float:
    """Return the variance of daily counts about the calendar over their mean; 1 for Poisson."""
    n_days = hours.n_hours // HOURS_PER_DAY
    if n_days < 2:
        return 1.0
    whole = n_days * HOURS_PER_DAY
    seen = hours.counts[:whole].reshape(n_days, -1).sum(axis=1)
    expected = fit.expected[:whole].reshape(n_days, -1).sum(axis=1)
    busy = expected > 0
    freedom = max(1.0, busy.sum() * (1 - fit.n_parameters / hours.n_hours))
    return float(((seen - expected)[busy] ** 2 / expected[busy]).sum() / freedom)


def month_factor(hours: HourCounts, fit: CalendarFit) -> Float64Array:
    """Return the weight of the month of every hour; 1 where months have none."""
    return np.ones(hours.n_hours) if fit.month_weight is None else fit.month_weight[hours.month]


def _negative_binomial_limits(
    total: Float64Array, shape: Float64Array, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return limits of the mean; the distribution's tails are incomplete beta functions."""
    tail = (1 - confidence) / 2
    chance = stats.beta.isf(tail, shape, np.maximum(total, 1e-9))
    low = np.where(total > 0, shape * (1 - chance) / chance, 0.0)
    chance = stats.beta.ppf(tail, shape, total + 1)
    with np.errstate(divide="ignore"):
        return low, shape * (1 - chance) / chance
