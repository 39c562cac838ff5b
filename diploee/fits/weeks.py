"""Differences between weeks: size and correlation of weekly means.

A week's count over its expectation is taken as normal: a mean, the week's own factor
with the variance and correlation of `WeekToWeek`, and noise as large as the days within
a week scatter. Both parameters are those of restricted maximum likelihood (Patterson
and Thompson 1971), which allows for the mean. Months are taken as they were fitted:
what they took from the weeks is in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import DAYS_PER_WEEK, HOURS_PER_DAY, MS_PER_DAY
from diploee.loads.jobs.rates import (
    EPOCH_HOUR_OF_WEEK,
    week_correlation,
    weekly_variance_ratio,
)
from diploee.scenario.times import MAX_CORRELATION_WEEKS, MAX_WEEKS_RELATIVE_STD

MIN_WEEKS = 6
"""Weeks from which they tell how weeks differ."""

MAX_WEEKS = 156
"""Weeks that are looked at, from the first on: it stays quick."""

_EPOCH_DAY = EPOCH_HOUR_OF_WEEK // HOURS_PER_DAY
_STDS = np.append(0.0, np.geomspace(1e-3, MAX_WEEKS_RELATIVE_STD, 160))
_CORRELATIONS = np.append(0.0, np.geomspace(0.4, MAX_CORRELATION_WEEKS, 13))
_MIN_NOISE = 1e-10

_DEAD_WEEK = 20
"""ASSUMPTION: a week of no count where as many or more are expected is a gap of the log
[J]. The month has it already; as a factor of 0 it would make the weeks of that month
scatter by any size."""

_SPAN_OVER_CORRELATION = 4
"""ASSUMPTION: a span tells a correlation time of a quarter of it at most [J]. Beyond,
variance and time grow together without limit, and years come out that differ from the
log by any factor."""


@dataclass(frozen=True, eq=False)
class WeekFit:
    """Fitted size and correlation of the differences between weeks."""

    n_weeks: int  # whole calendar weeks, Monday to Sunday, that were seen
    # Relative standard deviation of weekly means, less for its uncertainty, and its
    # limits
    relative_std: float
    low: float
    high: float
    # Time in which the correlation falls to 1/e [weeks], and its limits
    correlation_weeks: float
    correlation_low: float
    correlation_high: float
    # Count over expectation of the week of every step; 1 in weeks seen in part
    factor: Float64Array
    # Weeks without a count that are taken as gaps of the log, not as weeks that differ
    n_dead: int

    @property
    def is_significant(self) -> bool:
        """Whether weeks differ by more than noise would make them."""
        return self.low > 0

    @property
    def entry(self) -> dict[str, float]:
        """The key `week_to_week` of a calendar."""
        return {
            "relative_std": float(f"{self.relative_std:.3g}"),
            "correlation_weeks": float(f"{self.correlation_weeks:.3g}"),
        }


def fit_weeks(
    start_ms: Int64Array,
    step_ms: int,
    counts: Float64Array,
    expected: Float64Array,
    confidence: float,
) -> WeekFit | None:
    """Estimate the size and correlation of the differences between weeks."""
    day = start_ms // MS_PER_DAY + _EPOCH_DAY
    begin_ms, end_ms = int(start_ms[0]), int(start_ms[-1]) + step_ms
    first = -(
        -(begin_ms // MS_PER_DAY + _EPOCH_DAY + (begin_ms % MS_PER_DAY > 0))
        // DAYS_PER_WEEK
    )
    end = min((end_ms // MS_PER_DAY + _EPOCH_DAY) // DAYS_PER_WEEK, first + MAX_WEEKS)
    n_weeks = end - first
    if n_weeks < MIN_WEEKS:
        return None
    inside = (day >= first * DAYS_PER_WEEK) & (day < end * DAYS_PER_WEEK)
    day_of = day[inside] - first * DAYS_PER_WEEK
    of_day, expected_of_day = (
        np.bincount(day_of, x[inside], n_weeks * DAYS_PER_WEEK).reshape(
            n_weeks, DAYS_PER_WEEK
        )
        for x in (counts, expected)
    )
    total = expected_of_day.sum(axis=1)
    n_dead = int(((of_day.sum(axis=1) == 0) & (total >= _DEAD_WEEK)).sum())
    used = (total > 0) & ((total < _DEAD_WEEK) | (of_day.sum(axis=1) > 0))
    ratio = of_day.sum(axis=1)[used] / total[used]
    if ratio.size < MIN_WEEKS or not ratio.any():
        return None

    # Variance over mean of the days about their week, all days together, as it grows
    # with their mean: what a week's ratio scatters by itself.
    mean = expected_of_day[used] * ratio[:, None]
    seen = mean > 0
    squares = ((of_day[used] - mean) ** 2).sum()
    freedom = (seen.sum() - seen.any(axis=1).sum()) * (1 - 1 / ratio.size)
    index = squares / mean.sum() * seen.sum() / freedom if freedom > 0 else 1.0
    noise = np.maximum(index / total[used], _MIN_NOISE)

    week = np.flatnonzero(used)
    tellable = _CORRELATIONS[n_weeks / _SPAN_OVER_CORRELATION >= _CORRELATIONS]
    likely = np.array([_likelihood(ratio, week, noise, tau) for tau in tellable])
    enough = likely.max() - special.chdtri(1, 1 - confidence) / 2
    best = np.unravel_index(int(np.argmax(likely)), likely.shape)
    stds = np.flatnonzero((likely >= enough).any(axis=0))
    taus = np.flatnonzero((likely >= enough).any(axis=1))
    factor = np.ones(start_ms.size)
    of_week = np.ones(n_weeks)
    of_week[used] = ratio
    factor[inside] = of_week[day_of // DAYS_PER_WEEK]
    std, low, high = (
        float(_STDS[k])
        for k in (best[1], max(stds[0] - 1, 0), min(stds[-1] + 1, _STDS.size - 1))
    )
    if low > 0:  # the part of its square that is not its own uncertainty
        relative_error = np.log(high / low) / (2 * special.ndtri((1 + confidence) / 2))
        std /= float(np.sqrt(1 + relative_error**2))
    return WeekFit(
        n_weeks,
        std,
        low,
        high,
        float(_CORRELATIONS[best[0]]),
        float(_CORRELATIONS[max(taus[0] - 1, 0)]),
        float(_CORRELATIONS[min(taus[-1] + 1, tellable.size - 1)]),
        factor,
        n_dead,
    )


def _likelihood(
    ratio: Float64Array, week: Int64Array, noise: Float64Array, correlation_weeks: float
) -> Float64Array:
    """Return the restricted log-likelihood for every standard deviation of `_STDS`.

    With V = s**2 R + D and the eigenvectors of D**-1/2 R D**-1/2, V is diagonal for
    every s.
    """
    rho = week_correlation(correlation_weeks)
    lag = np.abs(week[:, None] - week[None, :])
    # Weekly means hold 1/8, 3/4 and 1/8 of three levels: their products by lag are 38,
    # 12 and 1/64.
    shared = sum(
        part * rho ** np.abs(lag + shift) / 64
        for shift, part in ((-2, 1), (-1, 12), (0, 38), (1, 12), (2, 1))
    )
    scale = 1 / np.sqrt(noise)
    values, vectors = linalg.eigh(
        shared / weekly_variance_ratio(correlation_weeks) * np.outer(scale, scale)
    )
    r, x = vectors.T @ (scale * ratio), vectors.T @ scale
    weight = 1 / (_STDS[:, None] ** 2 * np.maximum(values, 0.0) + 1)
    information = weight @ x**2
    fitted = (weight @ (r * x)) ** 2 / information
    likely = np.log(weight).sum(axis=1) - np.log(information) - weight @ r**2 + fitted
    return np.asarray(likely / 2)
