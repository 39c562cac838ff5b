"""Calendar weights of counts: seasonal factors of the week and of months.

The expected count of a step is rate x weight of its hour of the week x weight of its
month x exposure. Cross-validation selects the detail of the week
(`diploee.fits.week_shape`). Months are kept if they differ by more than chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
from scipy import stats

from diploee.base.errors import WorkloadError
from diploee.base.model import Choices, InnerShare, default, unset
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
)
from diploee.fits.binned_counts import BinnedCounts, sum_by_index
from diploee.fits.confidence_limits import negative_binomial_limits, poisson_limits
from diploee.fits.overdispersion import compute_dispersion
from diploee.fits.week_shape import (
    DETAIL_NAMES,
    CalendarChoice,
    Detail,
    WeekShape,
    fit_week_shape,
)
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK, month_factors
from diploee.scenario.times import Calendar

MIN_SIGHTINGS = 2
"""Minimum number of observations of each hour of the week (or day) with a weight."""

MIN_SEEN_H = 0.5
"""Minimum observed time of each hour of the week (or day) [h], for request traces that
are too short to hold out weeks."""

MIN_DAYS_OF_MONTH = 27
"""Minimum number of observed days of each calendar month to fit month weights."""

MONTHS_BELOW = 0.01
"""p-value of the test of months below which months are kept."""

ROUNDING = 1e-6
"""Rounding error of a sum of fractions of hours [h]."""

DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


class FitChoices(Choices):
    """Options of fits: time span, calendar, and confidence level."""

    start: datetime | None = unset("Start of the evaluated period, local time.")
    end: datetime | None = unset("End of the evaluated period, local time.")
    calendar: CalendarChoice = default(
        "auto",
        "Weights of the week; auto selects those that predict held-out weeks best.",
    )
    months: bool | None = unset(
        "Weights of the months; by default if the data cover all twelve months."
    )
    confidence: InnerShare = default(0.95, "Confidence level of the limits.")


@dataclass(frozen=True)
class MonthTest:
    """Result of an analysis of variance between months."""

    ratio: float  # F: mean square between months over mean square within
    freedom: tuple[int, int]  # degrees of freedom, between and within
    # Probability of this or a larger ratio if months are equal
    p_value: float
    # Reference: weeks within months, or years if each month was seen in two
    within: str

    @property
    def is_significant(self) -> bool:
        """True if months differ by more than chance."""
        return self.p_value < MONTHS_BELOW


@dataclass(frozen=True, eq=False)
class CalendarFit:
    """Fitted calendar weights, with the counts that they were fitted to."""

    steps: BinnedCounts
    # Covered hours of each step, or 1 if rates are per step
    exposure: Float64Array
    # Rates of the hours of the week per unit of exposure, and their selection
    shape: WeekShape
    has_months: bool  # groups of the shape are months; else there is one group
    months: MonthTest | None  # test of months; None if it was not requested

    @property
    def detail(self) -> Detail:
        """Level of detail of the weekly weights."""
        return self.shape.detail

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        return self.shape.n_parameters

    @property
    def n_day_parameters(self) -> int:
        """Number of parameters of a day's total: days of the week, and months."""
        of_week = (
            DAYS_PER_WEEK if self.detail in ("day_and_hour", "hour_of_week") else 1
        )
        return of_week + (MONTHS_PER_YEAR - 1 if self.has_months else 0)

    @property
    def week_weight(self) -> Float64Array:
        """Weights of the hours of the week from Monday 00:00, mean 1, shape (168,)."""
        return self.shape.rate / float(self.shape.rate.mean())

    @property
    def month_weight(self) -> Float64Array | None:
        """Weights of the months, shape (12,); None if not fitted.

        Their mean is 1 over the days of a year of 365 days.
        """
        return (
            self.shape.of_group / self._mean_group_factor if self.has_months else None
        )

    @property
    def mean_rate(self) -> float:
        """Mean rate over a week and a year, per unit of exposure."""
        return self._mean_group_factor * float(self.shape.rate.mean())

    @property
    def _mean_group_factor(self) -> float:
        """Mean of the group factors over a year."""
        of_group = self.shape.of_group
        if not self.has_months:
            return float(of_group[0])
        return float(of_group @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())

    @property
    def month_factor(self) -> Float64Array:
        """Factor of each step's group: of its month, if months are fitted."""
        group = (
            self.steps.month if self.has_months else np.zeros_like(self.steps.start_ms)
        )
        return self.shape.of_group[group]

    @cached_property
    def expected(self) -> Float64Array:
        """Expected count of each step."""
        return (
            self.shape.rate[self.steps.hour_of_week] * self.month_factor * self.exposure
        )

    def smooth_month_ratio(self) -> Float64Array:
        """Return the ratio of a scenario's smooth month factors to the fitted steps.

        A scenario interpolates month factors over time; the fit has one factor per
        month.
        """
        ones = np.ones(self.steps.counts.size)
        if self.month_weight is None:
            return ones
        calendar = Calendar(
            hour_of_week=tuple(self.week_weight), month=tuple(self.month_weight)
        )
        hours, of_hour = np.unique(self.steps.hour, return_inverse=True)
        smooth = month_factors(calendar, hours)[of_hour]
        stepped = self.month_weight[self.steps.month]
        return np.divide(smooth, stepped, out=ones, where=stepped > 0)


def fit_calendar(
    hours: BinnedCounts, months: bool | None = None, choice: CalendarChoice = "auto"
) -> CalendarFit:
    """Fit calendar weights to counts of jobs by clock hour."""
    has_months = should_fit_months(hours.month, hours.coverage, months)
    allowed = _observed_details(hours, MIN_SIGHTINGS - ROUNDING)
    # If the span is too short to hold out weeks, days are held out
    length = HOURS_PER_WEEK if "day_and_hour" in allowed else HOURS_PER_DAY
    block = (hours.hour + EPOCH_HOUR_OF_WEEK) // length
    weights = _fit_weights(
        hours, hours.coverage, block, allowed, has_months, months is None, choice
    )
    return CalendarFit(hours, hours.coverage, *weights)


def fit_step_calendar(
    steps: BinnedCounts,
    has_dates: bool,
    months: bool | None = None,
    choice: CalendarChoice = "auto",
) -> CalendarFit:
    """Fit calendar weights to counts of requests in steps of an hour or less.

    Rates are per step.
    """
    hours = steps.hourly()
    has_months = should_fit_months(
        hours.month, hours.coverage, months if has_dates else False
    )
    allowed = _observed_details(hours, MIN_SIGHTINGS - ROUNDING)
    block = (hours.hour + EPOCH_HOUR_OF_WEEK) // HOURS_PER_WEEK
    # No week can be held out: take the finest detail that was observed
    if len(allowed) < len(DETAIL_NAMES):
        allowed, block = _observed_details(hours, MIN_SEEN_H), np.zeros_like(block)
    n_steps = np.rint(hours.coverage * (hours.step_ms / steps.step_ms))
    weights = _fit_weights(
        hours, n_steps, block, allowed, has_months, months is None, choice
    )
    return CalendarFit(steps, np.ones(steps.counts.size), *weights)


def _fit_weights(
    hours: BinnedCounts,
    exposure: Float64Array,
    block: Int64Array,
    allowed: tuple[Detail, ...],
    has_months: bool,
    are_tested: bool,
    choice: CalendarChoice,
) -> tuple[WeekShape, bool, MonthTest | None]:
    """Fit the weights of the week, and of months if requested and significant."""
    counts, slot = hours.counts, hours.hour_of_week

    def fit_shape(group: Int64Array) -> WeekShape:
        return fit_week_shape(counts, exposure, slot, group, block, allowed, choice)

    test, shape = None, fit_shape(np.zeros_like(slot))
    if has_months and are_tested:
        test = _test_months(
            counts, shape.rate[slot] * exposure, hours.month, hours.hour
        )
        has_months = test.is_significant
    if has_months:
        shape = fit_shape(hours.month)
    return shape, has_months, test


def _observed_details(hours: BinnedCounts, least_h: float) -> tuple[Detail, ...]:
    """Return the levels of detail all of whose hours were observed long enough.

    The coarsest is first.
    """
    details: tuple[Detail, ...] = tuple(DETAIL_NAMES)
    slot = hours.hour_of_week
    if np.bincount(slot, hours.coverage, HOURS_PER_WEEK).min() >= least_h:
        return details
    of_day = np.bincount(slot % HOURS_PER_DAY, hours.coverage, HOURS_PER_DAY)
    return details[: 2 if of_day.min() >= least_h else 1]


def should_fit_months(
    month: Int64Array, coverage: Float64Array, months: bool | None
) -> bool:
    """Return True if weights of months are to be fitted.

    The default, None, fits months if the span covers all twelve.
    """
    if months and (
        missing := sorted(set(range(MONTHS_PER_YEAR)) - set(month.tolist()))
    ):
        raise WorkloadError(
            f"weights of the months: the span does not hold month {missing[0] + 1} "
            f"({len(missing)} of 12 are missing); give a longer span, or leave the "
            "months out"
        )
    return covers_months(month, coverage) if months is None else months


def covers_months(month: Int64Array, coverage: Float64Array) -> bool:
    """Return True if each month was observed for `MIN_DAYS_OF_MONTH` days."""
    seen = np.bincount(month, coverage, MONTHS_PER_YEAR)
    return bool(seen.min() >= MIN_DAYS_OF_MONTH * HOURS_PER_DAY - ROUNDING)


def _test_months(
    counts: Float64Array, expected: Float64Array, month: Int64Array, hour: Int64Array
) -> MonthTest:
    """Test for a difference between months by weighted analysis of variance.

    The tested variable is the ratio of counts to those expected from a calendar without
    months (Fisher 1925). The variance between months is compared with that between the
    same month of several years or, if no month occurs twice, with that between the
    weeks of a month. If weeks of a month are compared, correlation of weeks can be
    mistaken for a difference between months.
    """
    year = (
        np.cumsum(np.diff(month, prepend=month[0]) != 0) + month[0]
    ) // MONTHS_PER_YEAR
    year_months = np.unique(year * MONTHS_PER_YEAR + month)
    within = (
        "years" if np.bincount(year_months % MONTHS_PER_YEAR).min() > 1 else "weeks"
    )
    unit = year if within == "years" else (hour + EPOCH_HOUR_OF_WEEK) // HOURS_PER_WEEK
    cells, of_cell = np.unique(unit * MONTHS_PER_YEAR + month, return_inverse=True)
    mean, seen = (np.bincount(of_cell.ravel(), x) for x in (expected, counts))
    used = mean > 0
    mean, ratio, month = (
        mean[used],
        seen[used] / mean[used],
        cells[used] % MONTHS_PER_YEAR,
    )
    of_month = np.bincount(month, mean * ratio) / np.maximum(
        np.bincount(month, mean), 1e-300
    )
    off = ratio - of_month[month]
    freedom = np.unique(month).size - 1, ratio.size - np.unique(month).size
    between = float(
        (mean * (of_month[month] - np.average(ratio, weights=mean)) ** 2).sum()
    )
    inside = float((mean * off**2).sum())
    if min(freedom) < 1:
        return MonthTest(float("nan"), freedom, 1.0, within)
    f = between / freedom[0] / max(inside / freedom[1], 1e-12 * between, 1e-300)
    return MonthTest(f, freedom, float(stats.f.sf(f, *freedom)), within)


def week_limits(
    fit: CalendarFit,
    confidence: float,
    dispersion: float = 0.0,
    day_dispersion: float = 0.0,
    factor: float = 1.0,
) -> tuple[Float64Array, Float64Array]:
    """Return lower and upper confidence limits of the weekly weights, shape (168,).

    Each weight is estimated from a total count. This is Poisson distributed, or with
    dispersion negative binomial with the shape (number of hours) / dispersion; the
    limits are exact (Garwood 1936; Clopper and Pearson 1934). Without dispersion, the
    variance is `factor` times the mean. If weights are products of day and hour
    factors, the relative variances of both are added. The bias of smoothing and the
    much smaller uncertainty of the overall rate are not included.
    """
    steps = fit.steps
    # Expected count of each step for a weight of 1, seasons included
    of_month = 1.0 if fit.month_weight is None else fit.month_weight[steps.month]
    unit = fit.mean_rate * of_month * fit.exposure
    of_slot, seen, in_slot = (
        np.bincount(steps.hour_of_week, x, HOURS_PER_WEEK).reshape(
            DAYS_PER_WEEK, HOURS_PER_DAY
        )
        for x in (unit, steps.coverage, steps.counts)
    )

    def totals(
        axes: tuple[int, ...], together: int = 1
    ) -> tuple[Float64Array, Float64Array]:
        """Return sums of counts over days or hours, and the dispersion of each."""
        of_hour = dispersion + (1 + dispersion) * day_dispersion * together
        sightings = np.maximum(seen.sum(axis=axes, keepdims=True), ROUNDING)
        total = np.broadcast_to(in_slot.sum(axis=axes, keepdims=True), in_slot.shape)
        return total.astype(np.float64), np.broadcast_to(
            of_hour / sightings, in_slot.shape
        )

    axes: dict[Detail, tuple[int, ...]] = {"uniform": (0, 1), "hour_of_day": (0,)}
    total, spread = totals(axes.get(fit.detail, ()))
    if fit.detail == "day_and_hour":
        (total, spread), (of_day, of_days) = totals((0,)), totals((1,), HOURS_PER_DAY)
        both = (total > 0) & (of_day > 0)
        total = both / (1 / np.maximum(total, 1.0) + 1 / np.maximum(of_day, 1.0))
        spread = spread + of_days
    weight = fit.week_weight.reshape(total.shape)
    if spread.any():
        low, high = negative_binomial_limits(total, 1 / spread, confidence)
    else:
        low, high = poisson_limits(total, factor, confidence)
    # The limit of a weight without counts is one expected count
    least = np.maximum(of_slot, ROUNDING)
    per_count = np.where(total > 0, weight / np.maximum(total, ROUNDING), 1 / least)
    return (low * per_count).ravel(), (high * per_count).ravel()


def month_limits(
    fit: CalendarFit, confidence: float, factor: float | None = None
) -> tuple[Float64Array | None, Float64Array | None]:
    """Return lower and upper confidence limits of the month weights, shape (12,) each.

    The variance of counts is `factor` times the mean; by default the factor is the
    dispersion of daily counts. Both are None if months are not fitted.
    """
    if not fit.has_months:
        return None, None
    steps = fit.steps
    total = sum_by_index(steps.month, steps.counts, MONTHS_PER_YEAR)
    factor = max(_daily_dispersion(fit), 1.0) if factor is None else factor
    low, high = poisson_limits(total, factor, confidence)
    of_week = fit.mean_rate * fit.week_weight[steps.hour_of_week] * fit.exposure
    unit = np.bincount(steps.month, of_week, MONTHS_PER_YEAR)
    return low / unit, high / unit


def _daily_dispersion(fit: CalendarFit) -> float:
    """Return the dispersion of daily counts: variance about the calendar over mean."""
    counts = fit.steps.counts
    whole = counts.size // HOURS_PER_DAY * HOURS_PER_DAY
    seen, expected = (
        x[:whole].reshape(-1, HOURS_PER_DAY).sum(axis=1) for x in (counts, fit.expected)
    )
    n_weights = fit.n_parameters * seen.size / counts.size
    index = compute_dispersion(seen, expected, n_weights, 0.5).index
    return 1.0 if np.isnan(index) else index
