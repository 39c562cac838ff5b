"""Overdispersion of job counts: variance beyond Poisson by hour, day and week.

The rate of an hour is modelled as calendar x hour factor x day factor (x week factor).
The factors are gamma distributed with mean 1 and the variances d_hour, d_day and
d_week. With the count n and its expectation m from the calendar (n' and m' in another
period), the expected products of counts are:

- n (n - 1) in one hour: (1 + d_hour) (1 + d_day) (1 + d_week) m**2
- n n' of two hours of a day: (1 + d_day) (1 + d_week) m m'
- n n' of two days of a week: (1 + d_week) m m'
- n n' of two weeks: m m'

Ratios of sums of such products estimate each variance separately. With job arrays, n (n
- 1) is replaced by n**2 minus the sum of the squared array sizes, so that only pairs of
jobs from different submissions count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import DAYS_PER_WEEK, HOURS_PER_DAY
from diploee.fits.binned_counts import sum_by_index
from diploee.fits.confidence_limits import jackknife_error
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK

MAX_DISPERSION = 1_000.0
"""Largest dispersion that a scenario accepts [1]."""

MIN_DAYS = 3
MIN_WEEK_BLOCKS = 8
"""Minimum number of weeks for a jackknife over weeks, not days."""

MIN_FREEDOM = 10
"""Minimum degrees of freedom of a dispersion with finite limits."""


@dataclass(frozen=True)
class Dispersion:
    """Dispersion of independent counts about their expectation."""

    # Variance over mean about the expectation (Pearson's chi-square over its degrees of
    # freedom), 1 for Poisson, with limits from the variance of its terms. NaN without
    # degrees of freedom; limits are 0 and infinity up to `MIN_FREEDOM` of these.
    index: float
    low: float
    high: float
    freedom: float  # number of counts minus fitted weights
    # Probability of this or a larger index if counts are Poisson
    poisson_p_value: float
    # Relative standard deviation of the rate, without the Poisson variance
    relative_std: float


def compute_dispersion(
    counts: Float64Array, expected: Float64Array, n_weights: float, confidence: float
) -> Dispersion:
    """Return the dispersion of counts about their fitted expectations."""
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = counts.size - n_weights
    nan = float("nan")
    if freedom < 1:
        return Dispersion(nan, nan, nan, max(freedom, 0), nan, nan)
    squares = (counts - expected) ** 2
    terms = squares / expected
    index = float(terms.sum()) / freedom
    z = float(special.ndtri((1 + confidence) / 2))
    half = z * float(np.sqrt(((terms - terms.mean()) ** 2).sum())) / freedom
    excess = squares.sum() * counts.size / freedom - expected.sum()
    return Dispersion(
        index=index,
        low=max(index - half, 0.0) if freedom > MIN_FREEDOM else 0.0,
        high=index + half if freedom > MIN_FREEDOM else float("inf"),
        freedom=freedom,
        poisson_p_value=_poisson_p_value(index * freedom, freedom, expected),
        relative_std=float(np.sqrt(max(excess, 0.0) / (expected**2).sum())),
    )


def _poisson_p_value(
    chi_square: float, freedom: float, expected: Float64Array
) -> float:
    """Return the probability of this or a larger chi-square if counts are Poisson."""
    # The squared residual over m has the variance 2 + 1 / m if the count is Poisson.
    spread = float(np.sqrt((2 + 1 / expected).sum()))
    return float(special.ndtr((freedom - chi_square) / spread))


@dataclass(frozen=True)
class DispersionFit:
    """Fitted dispersion of hourly counts about their calendar.

    Limits are jackknife limits over weeks, or over days in short spans (Efron and Stein
    1981).
    """

    # Variance over mean of hourly counts about the calendar, with limits: 1 if Poisson,
    # less for more regular submissions
    index: float
    index_low: float
    index_high: float
    # Variance of the random factor of hours, with limits
    dispersion: float
    low: float
    high: float
    # Variance of the random factor of days, with limits
    day: float
    day_low: float
    day_high: float
    chi_square: float  # Pearson's chi-square of hourly counts about the calendar
    freedom: int  # its degrees of freedom
    # Probability of this or a larger chi-square if counts are Poisson
    poisson_p_value: float


def fit_dispersion(
    counts: Float64Array,
    expected: Float64Array,
    day: Int64Array,
    n_parameters: int,
    n_day_parameters: int = 1,
    confidence: float = 0.95,
    *,
    weeks_differ: bool = False,
    own_squares: Float64Array | None = None,
) -> DispersionFit | None:
    """Estimate the overdispersion of hours and days, and test if counts are Poisson.

    `day` is the day of each hour. With `weeks_differ`, the days' variance excludes
    differences between weeks. `own_squares` are sums of squared array sizes by hour.
    Return None if the log is too short.
    """
    n, m = counts, expected
    used = m > 0
    freedom = int(used.sum()) - n_parameters
    days, of_day = np.unique(day, return_inverse=True)
    if freedom < 1 or days.size < MIN_DAYS:
        return None
    # Fitted expectations have errors, which make their squares too large
    hour_correction = n_parameters / freedom
    day_correction = n_day_parameters / max(1, days.size - n_day_parameters)

    array_squares = n if own_squares is None else own_squares
    of_days = (n, m, n**2, m**2 - hour_correction * (n - m) ** 2, array_squares)
    in_day, of_m, square, square_of_m, of_alone = (
        sum_by_index(of_day, x) for x in of_days
    )
    of_square = in_day**2, of_m**2 - day_correction * (in_day - of_m) ** 2
    week = (days + EPOCH_HOUR_OF_WEEK // HOURS_PER_DAY) // DAYS_PER_WEEK
    by_week = weeks_differ or np.unique(week).size >= MIN_WEEK_BLOCKS
    block = week if by_week else days
    _, block = np.unique(block, return_inverse=True)

    def jackknife_sums(x: Float64Array) -> Float64Array:
        """Return the sum over all days, then the sums without each block."""
        return np.asarray(x.sum() - np.append(0.0, np.bincount(block, x)))

    pairs: list[tuple[Float64Array, ...]] = []
    for x, of_hours, day_square, own in (
        (in_day, square, of_square[0], square - of_alone),
        (of_m, square_of_m, of_square[1], square_of_m),
    ):
        same_day = jackknife_sums(x**2)
        in_week = sum_by_index(week - week[0], x)[week - week[0]]
        in_weeks, across = (
            jackknife_sums(in_week * x) - same_day,
            jackknife_sums(x) ** 2 - same_day,
        )
        pairs.append(
            (
                jackknife_sums(own),
                jackknife_sums(day_square - of_hours),
                in_weeks,
                across,
            )
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        hours, same_day, in_weeks, across = (a / b for a, b in zip(*pairs, strict=True))
        of_hour, of_day_ratio = (
            hours / same_day,
            same_day / (in_weeks if weeks_differ else across),
        )
        total = hours / across
    if not np.isfinite(total[0]):
        return None
    # Pearson: sum of (n - m)^2 / m, on average its degrees of freedom if counts are
    # Poisson.
    chi_square = float(((n - m)[used] ** 2 / m[used]).sum())
    z = float(stats.t.isf((1 - confidence) / 2, total.size - 2))
    mean = float(m.mean())
    half = z * float(jackknife_error(total[1:])) * mean
    index = 1 + (float(total[0]) - 1) * mean
    return DispersionFit(
        index,
        max(0.0, index - half),
        index + half,
        *_variance_with_limits(of_hour, z),
        *_variance_with_limits(of_day_ratio, z),
        chi_square=chi_square,
        freedom=freedom,
        poisson_p_value=_poisson_p_value(chi_square, freedom, m[used]),
    )


def _variance_with_limits(ratio: Float64Array, z: float) -> tuple[float, float, float]:
    """Return a variance (ratio minus 1) and its limits, from a jackknife of logs."""
    if not (np.isfinite(ratio).all() and (ratio > 0).all()):
        return 0.0, 0.0, float("inf")
    half = z * float(jackknife_error(np.log(ratio)[1:]))
    value, low, high = (float(ratio[0] * np.exp(x)) - 1 for x in (0, -half, half))
    return max(0.0, value), max(0.0, low), max(0.0, high)
