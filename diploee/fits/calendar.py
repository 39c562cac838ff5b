"""Calendar weights of counts: variation of the rate over week and months.

The expected count of a step is a product, rate x weight of its hour of the week x
weight of its month; which weights the week has is chosen by what predicts
(`diploee.fits.week_shape`), and months are kept where they differ by more than chance.
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
from diploee.fits.binned_counts import Counts, sums
from diploee.fits.confidence_limits import negative_binomial_limits, poisson_limits
from diploee.fits.overdispersion import dispersion_of
from diploee.fits.week_shape import (
    IN_WORDS,
    CalendarChoice,
    Detail,
    WeekShape,
    fit_week_shape,
)
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK, month_factors
from diploee.scenario.times import Calendar

MIN_SIGHTINGS = 2
"""Times that an hour of the week (or of the day) must have been observed to get its own
weight."""

MIN_SEEN_H = 0.5
"""Least observed time of each hour of the week (or of the day) in a request trace too
short to hold out weeks [h]."""

MIN_DAYS_OF_MONTH = 27
"""Days of every calendar month that must have been observed to fit weights of months."""  # noqa: E501

MONTHS_BELOW = 0.01
"""Probability that months differ so by chance below which they are kept."""

ROUNDING = 1e-6
"""Parts of hours that add up to a whole one may miss it by so much."""

DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


class FitChoices(Choices):
    """Options of fits: time span, calendar, and level of the confidence limits."""

    start: datetime | None = unset("Start of the evaluated time, local.")
    end: datetime | None = unset("End of the evaluated time, local.")
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
    """Analysis of variance that tests for a difference between months."""

    ratio: float  # mean square between months over that within them (F)
    freedom: tuple[int, int]  # degrees of freedom of both
    # Probability of such a ratio or a larger one where months do not differ
    p_value: float
    # Reference of the months: the weeks within them, or, where each was seen in two
    # years, the same month of other years
    within: str

    @property
    def differ(self) -> bool:
        """Whether months differ by more than chance."""
        return self.p_value < MONTHS_BELOW


@dataclass(frozen=True, eq=False)
class CalendarFit:
    """Fitted calendar weights of counted steps."""

    steps: Counts
    # Of each step: hours that the span covers, or 1 where rates are by step
    exposure: Float64Array
    # Rates of the hours of the week per unit of exposure, and why these
    shape: WeekShape
    has_months: bool  # whether the groups of the shape are months; else there is one
    months: MonthTest | None  # whether months differ; None where that was not asked

    @property
    def detail(self) -> Detail:
        """Level of detail of the weekly weights."""
        return self.shape.detail

    @property
    def n_parameters(self) -> int:
        """Free parameters that counts above zero determined."""
        return self.shape.n_parameters

    @property
    def n_day_parameters(self) -> int:
        """Parameters of a day's total: days of the week, and months."""
        of_week = (
            DAYS_PER_WEEK if self.detail in ("day_and_hour", "hour_of_week") else 1
        )
        return of_week + (MONTHS_PER_YEAR - 1 if self.has_months else 0)

    @property
    def week_weight(self) -> Float64Array:
        """Weights of the hours of the week, Monday 00:00 first, mean 1."""
        return self.shape.rate / float(self.shape.rate.mean())

    @property
    def month_weight(self) -> Float64Array | None:
        """Weights of the months, mean 1 over the days of a year of 365.

        None where not fitted.
        """
        return self.shape.of_group / self._of_year if self.has_months else None

    @property
    def mean_rate(self) -> float:
        """Mean rate over a week and a year, per unit of exposure."""
        return self._of_year * float(self.shape.rate.mean())

    @property
    def _of_year(self) -> float:
        of_group = self.shape.of_group
        if not self.has_months:
            return float(of_group[0])
        return float(of_group @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())

    @property
    def of_month(self) -> Float64Array:
        """Factor of each step's group: its month, if months are fitted."""
        group = (
            self.steps.month if self.has_months else np.zeros_like(self.steps.start_ms)
        )
        return self.shape.of_group[group]

    @cached_property
    def expected(self) -> Float64Array:
        """Expected count of every step of the span."""
        return self.shape.rate[self.steps.hour_of_week] * self.of_month * self.exposure

    def laid(self) -> Float64Array:
        """Return what months as a scenario lays them, smoothly, have over those of the fit."""  # noqa: E501
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
    hours: Counts, months: bool | None = None, choice: CalendarChoice = "auto"
) -> CalendarFit:
    """Fit calendar weights to the jobs of clock hours."""
    wanted = wants_months(hours.month, hours.coverage, months)
    allowed = _observed_details(hours, MIN_SIGHTINGS - ROUNDING)
    # Of a span too short for weeks, days are held out.
    length = HOURS_PER_WEEK if "day_and_hour" in allowed else HOURS_PER_DAY
    block = (hours.hour + EPOCH_HOUR_OF_WEEK) // length
    fitted = _fitted(
        hours, hours.coverage, block, allowed, wanted, months is None, choice
    )
    return CalendarFit(hours, hours.coverage, *fitted)


def fit_step_calendar(
    steps: Counts,
    has_dates: bool,
    months: bool | None = None,
    choice: CalendarChoice = "auto",
) -> CalendarFit:
    """Fit calendar weights to the requests of steps of an hour or less.

    Rates are per step.
    """
    hours = steps.hourly()
    wanted = wants_months(hours.month, hours.coverage, months if has_dates else False)
    allowed = _observed_details(hours, MIN_SIGHTINGS - ROUNDING)
    block = (hours.hour + EPOCH_HOUR_OF_WEEK) // HOURS_PER_WEEK
    # No week can be held out: the finest that was seen
    if len(allowed) < len(IN_WORDS):
        allowed, block = _observed_details(hours, MIN_SEEN_H), np.zeros_like(block)
    n_steps = np.rint(hours.coverage * (hours.step_ms / steps.step_ms))
    fitted = _fitted(hours, n_steps, block, allowed, wanted, months is None, choice)
    return CalendarFit(steps, np.ones(steps.counts.size), *fitted)


def _fitted(
    hours: Counts,
    exposure: Float64Array,
    block: Int64Array,
    allowed: tuple[Detail, ...],
    has_months: bool,
    are_tested: bool,
    choice: CalendarChoice,
) -> tuple[WeekShape, bool, MonthTest | None]:
    """Fit the weights of the week, and of months if requested and different."""
    counts, slot = hours.counts, hours.hour_of_week

    def shape_of(group: Int64Array) -> WeekShape:
        return fit_week_shape(counts, exposure, slot, group, block, allowed, choice)

    test, shape = None, shape_of(np.zeros_like(slot))
    if has_months and are_tested:
        test = _months_differ(
            counts, shape.rate[slot] * exposure, hours.month, hours.hour
        )
        has_months = test.differ
    if has_months:
        shape = shape_of(hours.month)
    return shape, has_months, test


def _observed_details(hours: Counts, least_h: float) -> tuple[Detail, ...]:
    """Return the details whose hours of the week (or day) were all observed.

    Coarsest first.
    """
    details: tuple[Detail, ...] = tuple(IN_WORDS)
    slot = hours.hour_of_week
    if np.bincount(slot, hours.coverage, HOURS_PER_WEEK).min() >= least_h:
        return details
    of_day = np.bincount(slot % HOURS_PER_DAY, hours.coverage, HOURS_PER_DAY)
    return details[: 2 if of_day.min() >= least_h else 1]


def wants_months(
    month: Int64Array, coverage: Float64Array, months: bool | None
) -> bool:
    """Return True if weights of the months are to be fitted.

    As asked, or where the span covers them.
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


def _months_differ(
    counts: Float64Array, expected: Float64Array, month: Int64Array, hour: Int64Array
) -> MonthTest:
    """Compare months with the weeks within them, or with those of other years.

    Weighted analysis of variance (Fisher 1925) of counts over what a calendar without
    months expects. Correlated weeks can look like months: only several years can
    separate the two.
    """
    year = (
        np.cumsum(np.diff(month, prepend=month[0]) != 0) + month[0]
    ) // MONTHS_PER_YEAR
    of_year = np.unique(year * MONTHS_PER_YEAR + month)
    within = "years" if np.bincount(of_year % MONTHS_PER_YEAR).min() > 1 else "weeks"
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
    """Compute confidence limits of the weights of the hours of the week.

    The total that a weight comes from is Poisson, or negative binomial with a shape of
    (number of its hours) / dispersion; the limits are exact, as Garwood's (1936) and as
    Clopper and Pearson's (1934). Where there is no dispersion its variance is `factor`
    times that of Poisson counts. A product of days and hours has the relative variances
    of both. The uncertainty of the overall rate, far smaller, is left out, and so is
    the bias of smoothed weights.
    """
    steps = fit.steps
    # What a weight of 1 would have brought in each step, seasons included.
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
    # A weight without a count is bounded by what would have been seen.
    least = np.maximum(of_slot, ROUNDING)
    per_count = np.where(total > 0, weight / np.maximum(total, ROUNDING), 1 / least)
    return (low * per_count).ravel(), (high * per_count).ravel()


def month_limits(
    fit: CalendarFit, confidence: float, factor: float | None = None
) -> tuple[Float64Array | None, Float64Array | None]:
    """Compute confidence limits of the months' weights.

    The variance of counts is `factor` times that of Poisson counts, by default that of
    daily ones.
    """
    if not fit.has_months:
        return None, None
    steps = fit.steps
    total = sums(steps.month, steps.counts, MONTHS_PER_YEAR)
    factor = max(_daily_scatter(fit), 1.0) if factor is None else factor
    low, high = poisson_limits(total, factor, confidence)
    of_week = fit.mean_rate * fit.week_weight[steps.hour_of_week] * fit.exposure
    unit = np.bincount(steps.month, of_week, MONTHS_PER_YEAR)
    return low / unit, high / unit


def _daily_scatter(fit: CalendarFit) -> float:
    """Return the variance of daily counts about the calendar, over their mean.

    1 for Poisson.
    """
    counts = fit.steps.counts
    whole = counts.size // HOURS_PER_DAY * HOURS_PER_DAY
    seen, expected = (
        x[:whole].reshape(-1, HOURS_PER_DAY).sum(axis=1) for x in (counts, fit.expected)
    )
    n_weights = fit.n_parameters * seen.size / counts.size
    index = dispersion_of(seen, expected, n_weights, 0.5).index
    return 1.0 if np.isnan(index) else index
