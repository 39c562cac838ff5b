"""Fluctuation of the requests of a trace: size, correlation, common part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from math import exp, log, sqrt

import numpy as np
from scipy import special

from diploee.base.tables import BoolArray, Float64Array
from diploee.fits.confidence_limits import jackknife_error

MAX_LAGS = 60
"""Minutes up to which the correlation is looked at, and at most a quarter of the trace."""  # noqa: E501

BLOCKS = 10
"""Parts of the trace that the limits leave out in turn (delete-a-block jackknife)."""

MIN_MINUTES = 30
TIMES_S = np.geomspace(5, 6 * 3600, 200)
"""Correlation times that are tried [s]."""


@dataclass(frozen=True)
class Estimate:
    """Value with its confidence limits."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FluctuationFit:
    """Fluctuation of a trace about its calendar, as in a scenario's `fluctuation`."""

    # Relative standard deviation of one-minute means, that of Poisson counts taken off;
    # 0 where that may be all
    relative_std: Estimate
    # Time in which the correlation falls to 1/e [s]; None where minutes are
    # uncorrelated
    correlation_time_s: Estimate | None
    # Share of the variance that all services have in common; None with one service
    common_share: Estimate | None
    rate_rps: float  # mean rate at which this was seen [1/s]


def fit_fluctuation(
    counts: Float64Array, expected: Float64Array, freedom: float, confidence: float
) -> FluctuationFit | None:
    """Fit the fluctuation of counted requests.

    The relative deviation of a minute has the variance of the process, plus
    ``1 / expected`` of the Poisson counts, which are white: from one minute to the next
    the covariance is the process' own. Services with probabilities p_i share the
    variance ``c s**2``, so that the mean covariance of two of them is that; `s` is that
    of their sum.
    """
    total, of_total = counts.sum(axis=0), expected.sum(axis=0)
    seen = of_total > 0
    n_seen = int(np.count_nonzero(seen))
    if n_seen < MIN_MINUTES or not freedom > 0:
        return None
    deviation = np.divide(total, of_total, out=np.ones_like(total), where=seen) - 1
    poisson = np.divide(1.0, of_total, out=np.zeros_like(total), where=seen)
    z = float(special.ndtri((1 + confidence) / 2))

    def variance(kept: BoolArray) -> float:
        inside = kept & seen
        weight = of_total[inside]
        # Weighted by the requests: a minute with few of them tells little.
        of_counts = np.average(deviation[inside] ** 2, weights=weight) / freedom
        return float(of_counts - np.average(poisson[inside], weights=weight))

    n_lags = max(1, min(MAX_LAGS, deviation.size // 4))

    def log_time(kept: BoolArray) -> float:
        both = kept & seen
        pairs = [both[:-k] & both[k:] for k in range(1, n_lags + 1)]
        covariance = np.array(
            [
                (deviation[:-k][pair] * deviation[k:][pair]).mean()
                if pair.any()
                else 0.0
                for k, pair in enumerate(pairs, 1)
            ]
        )
        return log(_nearest_time_s(covariance))

    whole = np.ones(deviation.size, dtype=bool)
    of_variance = _jackknifed(variance, whole, z)
    if not of_variance.low > 0:
        std = Estimate(0.0, 0.0, sqrt(max(of_variance.high, 0.0)))
        return FluctuationFit(std, None, None, float(total.sum()) / total.size / 60)
    std = Estimate(*(sqrt(max(v, 0.0)) for v in astuple(of_variance)))
    time = None
    next_minute = seen[1:] & seen[:-1]
    products = (deviation[1:] * deviation[:-1])[next_minute]
    if products.mean() > z * products.std() / sqrt(products.size):
        time = Estimate(*(exp(v) for v in astuple(_jackknifed(log_time, whole, z))))
    return FluctuationFit(
        std,
        time,
        _common_share(counts, expected, variance, z),
        float(total.mean()) / 60,
    )


def _common_share(
    counts: Float64Array,
    expected: Float64Array,
    variance: Callable[[BoolArray], float],
    z: float,
) -> Estimate | None:
    n = counts.shape[0]
    if n < 2:
        return None
    of = np.divide(counts, expected, out=np.ones_like(counts), where=expected > 0) - 1

    def share(kept: BoolArray) -> float:
        among = np.cov(of[:, kept], bias=True)[np.triu_indices(n, 1)].mean()
        return float(among / max(variance(kept), 1e-12))

    result = _jackknifed(share, np.ones(counts.shape[1], dtype=bool), z)
    return Estimate(*(min(max(v, 0.0), 1.0) for v in astuple(result)))


def _nearest_time_s(covariance: Float64Array) -> float:
    """Return the correlation time [s] that best fits covariances of minutes.

    Of minutes ``k`` apart: ``A exp(-(k - 1) a)`` with ``a`` = 60 s / tau.
    """
    lags = np.arange(covariance.size)
    shape = np.exp(-lags * (60 / TIMES_S[:, None]))
    size = np.maximum(shape @ covariance, 0.0) / (shape**2).sum(axis=1)
    misfit = ((covariance - size[:, None] * shape) ** 2).sum(axis=1)
    return float(TIMES_S[int(np.argmin(misfit))])


def _jackknifed(
    value: Callable[[BoolArray], float], whole: BoolArray, z: float
) -> Estimate:
    """Return a value with limits from leaving out one block of time at a time."""
    result = value(whole)
    without = []
    for block in np.array_split(np.arange(whole.size), BLOCKS):
        kept = whole.copy()
        kept[block] = False
        without.append(value(kept))
    half = z * float(jackknife_error(np.array(without)))
    return Estimate(result, result - half, result + half)
