"""Fluctuation of a trace's request rate, and the part that all services share.

Results are the size of the fluctuation, its correlation time, and the fraction of its
variance that all services share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from math import exp, log, sqrt

import numpy as np
from scipy import special

from diploee.base.tables import BoolArray, Float64Array
from diploee.fits.confidence_limits import jackknife_error

MAX_LAGS = 60
"""Longest lag of the correlation [min]; at most a quarter of the trace is used."""

BLOCKS = 10
"""Number of blocks of the delete-a-block jackknife."""

MIN_MINUTES = 30
TIMES_S = np.geomspace(5, 6 * 3600, 200)
"""Candidate correlation times [s]."""


@dataclass(frozen=True)
class Estimate:
    """Value with its confidence limits."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FluctuationFit:
    """Fluctuation of requests about the calendar, as a scenario's `fluctuation` key."""

    # Relative standard deviation of one-minute means, without the Poisson variance; 0
    # if not significant
    relative_std: Estimate
    # Time in which the correlation falls to 1/e [s]; None if minutes are uncorrelated
    correlation_time_s: Estimate | None
    # Fraction of the variance that all services share; None for one service
    common_share: Estimate | None
    rate_rps: float  # mean rate of the trace [1/s]


def fit_fluctuation(
    counts: Float64Array, expected: Float64Array, freedom: float, confidence: float
) -> FluctuationFit | None:
    """Fit the fluctuation of requests per minute.

    `counts` and `expected` have shape (services, minutes); `freedom` is the ratio of
    degrees of freedom to minutes.

    The variance of a minute's relative deviation from its expectation is that of the
    fluctuation plus ``1 / expected`` from Poisson counts. Poisson counts of different
    minutes are uncorrelated, so covariances between minutes are due to the fluctuation
    alone. With the variance ``s**2`` of all services' sum and the common fraction c,
    the mean covariance of two services is ``c s**2``. Return None if fewer than
    `MIN_MINUTES` minutes have expected requests.
    """
    total, total_expected = counts.sum(axis=0), expected.sum(axis=0)
    has_expected = total_expected > 0
    n_seen = int(np.count_nonzero(has_expected))
    if n_seen < MIN_MINUTES or not freedom > 0:
        return None
    deviation = (
        np.divide(total, total_expected, out=np.ones_like(total), where=has_expected)
        - 1
    )
    poisson = np.divide(
        1.0, total_expected, out=np.zeros_like(total), where=has_expected
    )
    z = float(special.ndtri((1 + confidence) / 2))

    def variance(is_kept: BoolArray) -> float:
        used = is_kept & has_expected
        weight = total_expected[used]
        # Weighted by expected requests, as minutes with few have large errors
        mean_square = np.average(deviation[used] ** 2, weights=weight) / freedom
        return float(mean_square - np.average(poisson[used], weights=weight))

    n_lags = max(1, min(MAX_LAGS, deviation.size // 4))

    def log_time(is_kept: BoolArray) -> float:
        both = is_kept & has_expected
        pairs = [both[:-k] & both[k:] for k in range(1, n_lags + 1)]
        covariance = np.array(
            [
                (deviation[:-k][pair] * deviation[k:][pair]).mean()
                if pair.any()
                else 0.0
                for k, pair in enumerate(pairs, 1)
            ]
        )
        return log(_fit_correlation_time_s(covariance))

    all_minutes = np.ones(deviation.size, dtype=bool)
    variance_estimate = _jackknife_estimate(variance, all_minutes, z)
    if not variance_estimate.low > 0:
        std = Estimate(0.0, 0.0, sqrt(max(variance_estimate.high, 0.0)))
        return FluctuationFit(std, None, None, float(total.sum()) / total.size / 60)
    std = Estimate(*(sqrt(max(v, 0.0)) for v in astuple(variance_estimate)))
    time = None
    next_minute = has_expected[1:] & has_expected[:-1]
    products = (deviation[1:] * deviation[:-1])[next_minute]
    if products.mean() > z * products.std() / sqrt(products.size):
        time = Estimate(
            *(exp(v) for v in astuple(_jackknife_estimate(log_time, all_minutes, z)))
        )
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
    """Return the part of the variance that all services share; None for one service."""
    n = counts.shape[0]
    if n < 2:
        return None
    deviation = (
        np.divide(counts, expected, out=np.ones_like(counts), where=expected > 0) - 1
    )

    def common_fraction(is_kept: BoolArray) -> float:
        covariance = np.cov(deviation[:, is_kept], bias=True)[
            np.triu_indices(n, 1)
        ].mean()
        return float(covariance / max(variance(is_kept), 1e-12))

    result = _jackknife_estimate(
        common_fraction, np.ones(counts.shape[1], dtype=bool), z
    )
    return Estimate(*(min(max(v, 0.0), 1.0) for v in astuple(result)))


def _fit_correlation_time_s(covariance: Float64Array) -> float:
    """Return the correlation time tau [s] that best fits covariances of minutes.

    The model of minutes ``k`` apart is ``A exp(-(k - 1) a)`` with ``a`` = 60 s / tau.
    """
    lags = np.arange(covariance.size)
    shape = np.exp(-lags * (60 / TIMES_S[:, None]))
    size = np.maximum(shape @ covariance, 0.0) / (shape**2).sum(axis=1)
    misfit = ((covariance - size[:, None] * shape) ** 2).sum(axis=1)
    return float(TIMES_S[int(np.argmin(misfit))])


def _jackknife_estimate(
    value: Callable[[BoolArray], float], all_minutes: BoolArray, z: float
) -> Estimate:
    """Return a value with limits from a delete-a-block jackknife."""
    result = value(all_minutes)
    without = []
    for block in np.array_split(np.arange(all_minutes.size), BLOCKS):
        is_kept = all_minutes.copy()
        is_kept[block] = False
        without.append(value(is_kept))
    half = z * float(jackknife_error(np.array(without)))
    return Estimate(result, result - half, result + half)
