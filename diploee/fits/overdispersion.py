"""Overdispersion of job counts: variance beyond Poisson by hour, day and week.

Jobs by the hour and by the day: the rate of an hour is taken as calendar x factor of
the hour x factor of the day (x factor of the week), gamma distributed with mean 1 and
variances d. Then n (n - 1) has the expectation (1 + d_hour) (1 + d_day) (1 + d_week)
m**2, the product of two hours of one day (1 + d_day) (1 + d_week) m m', of two days of
one week (1 + d_week) m m', and of two weeks m m'. Ratios of sums of such products give
each variance by itself. Of jobs that come several at a time, n (n - 1) is n**2 less the
squares of their numbers: only products of jobs of different submissions count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import DAYS_PER_WEEK, HOURS_PER_DAY
from diploee.fits.binned_counts import sums
from diploee.fits.confidence_limits import jackknife_error
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK

MAX_DISPERSION = 1_000.0
"""The limit of scenarios."""

MIN_DAYS = 3
MIN_WEEK_BLOCKS = 8
"""Weeks from which on weeks, not days, are left out in turn for the limits."""

FEWEST = 10
"""Counts beyond the fitted weights from which their scatter has limits."""


@dataclass(frozen=True)
class Dispersion:
    """Dispersion of independent counts about their expectation."""

    # Variance over mean given the weights (Pearson's chi-square over its degrees of
    # freedom), 1 for Poisson, and its confidence limits, by the scatter of its own
    # terms. NaN where there are no more counts than weights; limits are 0 and infinity
    # where there are no more than `FEWEST` beyond them.
    index: float
    low: float
    high: float
    freedom: float  # counts less fitted weights
    # Probability of as large an index if the counts were Poisson
    poisson_p_value: float
    # Relative standard deviation of the rate, that of Poisson counts taken off
    relative_std: float


def dispersion_of(
    counts: Float64Array, expected: Float64Array, n_weights: float, confidence: float
) -> Dispersion:
    """Compute the dispersion of counts about their fitted expectations."""
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
        low=max(index - half, 0.0) if freedom > FEWEST else 0.0,
        high=index + half if freedom > FEWEST else float("inf"),
        freedom=freedom,
        poisson_p_value=_poisson_p_value(index * freedom, freedom, expected),
        relative_std=float(np.sqrt(max(excess, 0.0) / (expected**2).sum())),
    )


def _poisson_p_value(
    chi_square: float, freedom: float, expected: Float64Array
) -> float:
    """Return the probability of such a chi-square if counts were Poisson."""
    # The squared residual over m has the variance 2 + 1 / m if the count is Poisson.
    spread = float(np.sqrt((2 + 1 / expected).sum()))
    return float(special.ndtr((freedom - chi_square) / spread))


@dataclass(frozen=True)
class DispersionFit:
    """Dispersion of hourly counts about their calendar.

    Limits leave out each week (or day, of short spans) in turn (jackknife, Efron and
    Stein 1981).
    """

    # Variance over mean of the hourly counts given the weights, with its limits; 1 for
    # Poisson, below 1 for submissions more regular than that
    index: float
    index_low: float
    index_high: float
    # Variance of the hours' random factor, with its limits
    dispersion: float
    low: float
    high: float
    # Variance of the days' random factor, with its limits
    day: float
    day_low: float
    day_high: float
    chi_square: float  # pearson's chi-square of the hourly counts against the weights
    freedom: int  # its degrees of freedom
    # Probability of a chi-square as large or larger if the counts were Poisson
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
    """Estimate dispersion of hours and days, and test if counts are Poisson."""
    n, m = counts, expected
    used = m > 0
    freedom = int(used.sum()) - n_parameters
    days, of_day = np.unique(day, return_inverse=True)
    if freedom < 1 or days.size < MIN_DAYS:
        return None
    # Fitted expectations scatter themselves: their squares are too large by as much.
    off = n_parameters / freedom
    off_day = n_day_parameters / max(1, days.size - n_day_parameters)

    alone = n if own_squares is None else own_squares
    of_days = (n, m, n**2, m**2 - off * (n - m) ** 2, alone)
    in_day, of_m, square, square_of_m, of_alone = (sums(of_day, x) for x in of_days)
    of_square = in_day**2, of_m**2 - off_day * (in_day - of_m) ** 2
    week = (days + EPOCH_HOUR_OF_WEEK // HOURS_PER_DAY) // DAYS_PER_WEEK
    by_week = weeks_differ or np.unique(week).size >= MIN_WEEK_BLOCKS
    block = week if by_week else days
    _, block = np.unique(block, return_inverse=True)

    def left_out(x: Float64Array) -> Float64Array:
        """Return the sum over all days, and those without each block in turn."""
        return np.asarray(x.sum() - np.append(0.0, np.bincount(block, x)))

    pairs: list[tuple[Float64Array, ...]] = []
    for x, of_hours, day_square, own in (
        (in_day, square, of_square[0], square - of_alone),
        (of_m, square_of_m, of_square[1], square_of_m),
    ):
        same_day = left_out(x**2)
        in_week = sums(week - week[0], x)[week - week[0]]
        in_weeks, across = left_out(in_week * x) - same_day, left_out(x) ** 2 - same_day
        pairs.append((left_out(own), left_out(day_square - of_hours), in_weeks, across))
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
        *_with_limits(of_hour, z),
        *_with_limits(of_day_ratio, z),
        chi_square=chi_square,
        freedom=freedom,
        poisson_p_value=_poisson_p_value(chi_square, freedom, m[used]),
    )


def _with_limits(ratio: Float64Array, z: float) -> tuple[float, float, float]:
    """Return the variance in a ratio of products, and its limits, on a log scale."""
    if not (np.isfinite(ratio).all() and (ratio > 0).all()):
        return 0.0, 0.0, float("inf")
    half = z * float(jackknife_error(np.log(ratio)[1:]))
    value, low, high = (float(ratio[0] * np.exp(x)) - 1 for x in (0, -half, half))
    return max(0.0, value), max(0.0, low), max(0.0, high)
