"""Differences between weeks: standard deviation and correlation time of week factors.

The ratio of a week's count to its expected count is modelled as a mean plus two normal
terms. One is the week's deviation, with the standard deviation and correlation time of
the key `week_to_week`. The other is noise, whose variance follows from the scatter of
days within weeks. Standard deviation and correlation time are restricted maximum
likelihood estimates (Patterson and Thompson 1971), which allow for the mean being
estimated. Differences explained by fitted month weights are excluded.
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
"""Minimum number of weeks of an estimate."""

MAX_WEEKS = 156
"""Maximum number of weeks that are used, from the first, to limit the run time."""

_EPOCH_DAY = EPOCH_HOUR_OF_WEEK // HOURS_PER_DAY
_STDS = np.append(0.0, np.geomspace(1e-3, MAX_WEEKS_RELATIVE_STD, 160))
_CORRELATIONS = np.append(0.0, np.geomspace(0.4, MAX_CORRELATION_WEEKS, 13))
_MIN_NOISE = 1e-10

_DEAD_WEEK = 20
"""Expected count of a week without counts from which the week is a gap of the log.

ASSUMPTION (judgement). The month's weight includes the gap already; a factor of 0 would
give the other weeks of the month any variance.
"""

_SPAN_OVER_CORRELATION = 4
"""Ratio of the span to the longest correlation time that is estimated.

ASSUMPTION (judgement). For longer times, variance and correlation time grow together
without limit, and generated years differ from the log by any factor.
"""


@dataclass(frozen=True, eq=False)
class WeekFit:
    """Fitted standard deviation and correlation time of differences between weeks."""

    n_weeks: int  # complete calendar weeks, Monday to Sunday
    # Relative standard deviation of weekly means, reduced by its uncertainty, with
    # limits
    relative_std: float
    low: float
    high: float
    # Time in which the correlation falls to 1/e [weeks], with limits
    correlation_weeks: float
    correlation_low: float
    correlation_high: float
    # Ratio of count to expectation of each step's week; 1 in incomplete weeks
    factor: Float64Array
    # Weeks without counts, which are gaps of the log
    n_dead: int

    @property
    def is_significant(self) -> bool:
        """True if weeks differ by more than noise."""
        return self.low > 0

    @property
    def entry(self) -> dict[str, float]:
        """Key `week_to_week` of a scenario's calendar."""
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
    """Estimate the size and correlation of differences between complete weeks.

    `counts` and `expected` are per step. Returns None for fewer than `MIN_WEEKS` weeks.
    """
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
    is_inside = (day >= first * DAYS_PER_WEEK) & (day < end * DAYS_PER_WEEK)
    day_index = day[is_inside] - first * DAYS_PER_WEEK
    counts_by_day, expected_by_day = (
        np.bincount(day_index, x[is_inside], n_weeks * DAYS_PER_WEEK).reshape(
            n_weeks, DAYS_PER_WEEK
        )
        for x in (counts, expected)
    )
    total = expected_by_day.sum(axis=1)
    n_dead = int(((counts_by_day.sum(axis=1) == 0) & (total >= _DEAD_WEEK)).sum())
    used = (total > 0) & ((total < _DEAD_WEEK) | (counts_by_day.sum(axis=1) > 0))
    ratio = counts_by_day.sum(axis=1)[used] / total[used]
    if ratio.size < MIN_WEEKS or not ratio.any():
        return None

    # Noise of a week's ratio: variance over mean of days about their week, for all days
    mean = expected_by_day[used] * ratio[:, None]
    seen = mean > 0
    squares = ((counts_by_day[used] - mean) ** 2).sum()
    freedom = (seen.sum() - seen.any(axis=1).sum()) * (1 - 1 / ratio.size)
    index = squares / mean.sum() * seen.sum() / freedom if freedom > 0 else 1.0
    noise = np.maximum(index / total[used], _MIN_NOISE)

    week = np.flatnonzero(used)
    candidates = _CORRELATIONS[n_weeks / _SPAN_OVER_CORRELATION >= _CORRELATIONS]
    likely = np.array([_likelihood(ratio, week, noise, tau) for tau in candidates])
    threshold = likely.max() - special.chdtri(1, 1 - confidence) / 2
    best = np.unravel_index(int(np.argmax(likely)), likely.shape)
    stds = np.flatnonzero((likely >= threshold).any(axis=0))
    taus = np.flatnonzero((likely >= threshold).any(axis=1))
    factor = np.ones(start_ms.size)
    ratio_by_week = np.ones(n_weeks)
    ratio_by_week[used] = ratio
    factor[is_inside] = ratio_by_week[day_index // DAYS_PER_WEEK]
    std, low, high = (
        float(_STDS[k])
        for k in (best[1], max(stds[0] - 1, 0), min(stds[-1] + 1, _STDS.size - 1))
    )
    if low > 0:  # without its own uncertainty
        relative_error = np.log(high / low) / (2 * special.ndtri((1 + confidence) / 2))
        std /= float(np.sqrt(1 + relative_error**2))
    return WeekFit(
        n_weeks,
        std,
        low,
        high,
        float(_CORRELATIONS[best[0]]),
        float(_CORRELATIONS[max(taus[0] - 1, 0)]),
        float(_CORRELATIONS[min(taus[-1] + 1, candidates.size - 1)]),
        factor,
        n_dead,
    )


def _likelihood(
    ratio: Float64Array, week: Int64Array, noise: Float64Array, correlation_weeks: float
) -> Float64Array:
    """Return the restricted log-likelihood for each standard deviation of `_STDS`.

    The covariance is V = s**2 R + D, with standard deviation s, correlation R and noise
    D. In the basis of the eigenvectors of D**-1/2 R D**-1/2, V is diagonal for every s.
    """
    rho = week_correlation(correlation_weeks)
    lag = np.abs(week[:, None] - week[None, :])
    # Weekly means are 1/8, 3/4 and 1/8 of three levels: products by lag are 38/64,
    # 12/64 and 1/64
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
    explained = (weight @ (r * x)) ** 2 / information
    likely = (
        np.log(weight).sum(axis=1) - np.log(information) - weight @ r**2 + explained
    )
    return np.asarray(likely / 2)
