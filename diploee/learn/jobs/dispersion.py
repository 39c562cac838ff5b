"""How hourly counts scatter about their calendar: as Poisson, or more, by the hour and by the day.

The rate of an hour is taken as calendar x factor of the hour x factor of the day (x factor of the
week), gamma distributed with mean 1 and variances d. Then n (n - 1) has the expectation
(1 + d_hour) (1 + d_day) (1 + d_week) m**2, the product of two hours of one day (1 + d_day)
(1 + d_week) m m', of two days of one week (1 + d_week) m m', and of two weeks m m'. Ratios of sums
of such products give each variance by itself. Of jobs that come several at a time, n (n - 1) is
n**2 less the squares of their numbers: only products of jobs of different submissions count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from diploee.tables import Float64Array, Int64Array
from diploee.units import DAYS_PER_WEEK

MAX_DISPERSION = 1_000.0
"""The limit of scenarios."""

MIN_DAYS = 3
MIN_WEEK_BLOCKS = 8
"""Weeks from which on weeks, not days, are left out in turn for the limits."""

_EPOCH_DAY = 3  # 1970-01-01 was a Thursday


@dataclass(frozen=True)
class DispersionFit:
    """Scatter of hourly counts about their calendar.

    Limits leave out each week (or day, of short spans) in turn (jackknife, Efron and Stein 1981).
    """

    # Variance over mean of the hourly counts given the weights, with its limits; 1 for Poisson,
    # below 1 for submissions more regular than that
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
    counts: Int64Array,
    expected: Float64Array,
    day: Int64Array,
    n_parameters: int,
    n_day_parameters: int = 1,
    confidence: float = 0.95,
    *,
    weeks_differ: bool = False,
    own_squares: Float64Array | None = None,
) -> DispersionFit | None:
    """Estimate the dispersion of hours and of days, and test whether counts are Poisson."""
    n, m = counts.astype(np.float64), expected
    used = m > 0
    freedom = int(used.sum()) - n_parameters
    days, of_day = np.unique(day, return_inverse=True)
    if freedom < 1 or days.size < MIN_DAYS:
        return None
    # Fitted expectations scatter themselves: their squares are too large by as much.
    off = n_parameters / freedom
    off_day = n_day_parameters / max(1, days.size - n_day_parameters)

    alone = n if own_squares is None else own_squares

    def by_day(x: Float64Array) -> Float64Array:
        return np.asarray(np.bincount(of_day, x), dtype=np.float64)

    in_day, of_m = by_day(n), by_day(m)
    squares = by_day(n**2), by_day(m**2 - off * (n - m) ** 2)
    of_square = in_day**2, of_m**2 - off_day * (in_day - of_m) ** 2
    week = (days + _EPOCH_DAY) // DAYS_PER_WEEK
    by_week = weeks_differ or np.unique(week).size >= MIN_WEEK_BLOCKS
    block = week if by_week else days
    _, block = np.unique(block, return_inverse=True)

    def left_out(x: Float64Array) -> Float64Array:
        """Return the sum over all days, and those without each block in turn."""
        return np.asarray(x.sum() - np.append(0.0, np.bincount(block, x)))

    pairs: list[tuple[Float64Array, ...]] = []
    for x, square, day_square, own in (
        (in_day, squares[0], of_square[0], squares[0] - by_day(alone)),
        (of_m, squares[1], of_square[1], squares[1]),
    ):
        of_days = left_out(x**2)
        in_week = np.asarray(np.bincount(week - week[0], x), dtype=np.float64)
        in_weeks = left_out(in_week[week - week[0]] * x) - of_days
        across = left_out(x) ** 2 - of_days
        pairs.append((left_out(own), left_out(day_square - square), in_weeks, across))
    with np.errstate(divide="ignore", invalid="ignore"):
        hours, same_day, in_weeks, across = (a / b for a, b in zip(*pairs, strict=True))
        of_hour, of_day_ratio = hours / same_day, same_day / (in_weeks if weeks_differ else across)
        total = hours / across
    if not np.isfinite(total[0]):
        return None
    # Pearson: sum of (n - m)^2 / m, on average its degrees of freedom if counts are Poisson.
    chi_square = float(((n - m)[used] ** 2 / m[used]).sum())
    # The squared residual over m has the variance 2 + 1 / m if the count is Poisson.
    spread = float(np.sqrt((2 + 1 / m[used]).sum()))
    z = float(stats.t.isf((1 - confidence) / 2, total.size - 2))
    mean = float(m.mean())
    half = z * _jackknife(total) * mean
    index = 1 + (float(total[0]) - 1) * mean
    return DispersionFit(
        index,
        max(0.0, index - half),
        index + half,
        *_with_limits(of_hour, z),
        *_with_limits(of_day_ratio, z),
        chi_square=chi_square,
        freedom=freedom,
        poisson_p_value=float(stats.norm.sf((chi_square - freedom) / spread)),
    )


def _jackknife(values: Float64Array) -> float:
    """Return the standard error of the first value from those without each block."""
    parts = values[1:]
    if not np.isfinite(parts).all():
        return float("inf")
    return float(np.sqrt((parts.size - 1) / parts.size * ((parts - parts.mean()) ** 2).sum()))


def _with_limits(ratio: Float64Array, z: float) -> tuple[float, float, float]:
    """Return the variance that a ratio of products tells, and its limits, on a log scale."""
    if not (np.isfinite(ratio).all() and (ratio > 0).all()):
        return 0.0, 0.0, float("inf")
    half = z * _jackknife(np.log(ratio))
    value, low, high = (float(ratio[0] * np.exp(x)) - 1 for x in (0, -half, half))
    return max(0.0, value), max(0.0, low), max(0.0, high)
