"""Confidence limits of counts and fractions, and jackknife errors over time blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from diploee.base.tables import Float64Array, Int64Array

MIN_BATCHES = 8
"""Minimum number of days (or weeks) whose variance gives limits."""


def jackknife_error(without: Float64Array) -> Float64Array:
    """Return the jackknife standard error of statistics.

    `without` has shape (n, ...): the statistics with each of n blocks left out (Efron
    and Stein 1981). The error is infinite if any statistic is not finite.
    """
    n = len(without)
    if not n or not np.isfinite(without).all():
        return np.full(without.shape[1:], np.inf)
    about = without - without.mean(axis=0)
    return np.asarray(np.sqrt((n - 1) / n * (about**2).sum(axis=0)))


def poisson_limits(
    total: Float64Array, factor: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return confidence limits of totals whose variance is factor x mean.

    Totals divided by the factor count as Poisson, with exact limits (Garwood 1936).
    """
    # chi2(tail; 2 n) / 2 to chi2(1 - tail; 2 n + 2) / 2, as inverse incomplete gamma
    # functions.
    tail, n = (1 - confidence) / 2, total / factor
    low = np.where(n > 0, special.gammaincinv(np.maximum(n, 1e-9), tail), 0.0)
    return low * factor, special.gammainccinv(n + 1, tail) * factor


def negative_binomial_limits(
    total: Float64Array, shape: Float64Array, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return confidence limits of negative binomial means, from totals and shapes.

    The tails of the distribution are incomplete beta functions.
    """
    tail = (1 - confidence) / 2
    chance = stats.beta.isf(tail, shape, np.maximum(total, 1e-9))
    low = np.where(total > 0, shape * (1 - chance) / chance, 0.0)
    chance = stats.beta.ppf(tail, shape, total + 1)
    with np.errstate(divide="ignore"):
        return low, shape * (1 - chance) / chance


def share_limits(
    kind: Int64Array, day: Int64Array, n_kinds: int, confidence: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the fractions of kinds among jobs, with lower and upper confidence limits.

    Users submit many jobs of a kind at once, so fractions vary more than with
    independent jobs. Their variance is estimated from the differences between days, as
    for a ratio of totals (Cochran 1977, section 6.3), and is at least the variance for
    independent jobs. The limits are Wilson's (1927), with the number of independent
    jobs that would give this variance.
    """
    n_days = int(day.max()) + 1
    counts = np.zeros((n_days, n_kinds))
    np.add.at(counts, (day, kind), 1.0)
    total = counts.sum()
    share = counts.sum(axis=0) / total
    independent = share * (1 - share) / total
    variance = independent
    if n_days >= MIN_BATCHES:
        residuals = counts - counts.sum(axis=1, keepdims=True) * share
        between = (residuals**2).sum(axis=0) * n_days / (n_days - 1) / total**2
        variance = np.maximum(independent, between)
    with np.errstate(divide="ignore", invalid="ignore"):
        n_draws = np.where(variance > 0, share * (1 - share) / variance, total)
    z2 = float(stats.norm.isf((1 - confidence) / 2)) ** 2
    centre = (share + z2 / (2 * n_draws)) / (1 + z2 / n_draws)
    half = (
        np.sqrt(z2)
        * np.sqrt(share * (1 - share) / n_draws + z2 / (4 * n_draws**2))
        / (1 + z2 / n_draws)
    )
    return share, np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def total_limits(
    seen: Float64Array, expected: Float64Array, confidence: float
) -> tuple[float, float]:
    """Return confidence limits of a total, as factors of it.

    They are based on the dispersion of counts about their expectations.
    """
    total, n = float(seen.sum()), seen.size
    if n > 1:
        error = float(np.sqrt(((seen - expected) ** 2).sum() * n / (n - 1))) / total
        half = float(stats.t.isf((1 - confidence) / 2, n - 1)) * error
    else:
        half = float(stats.norm.isf((1 - confidence) / 2)) / float(np.sqrt(total))
    return max(0.0, 1 - half), 1 + half


def round_shares(shares: Sequence[float] | Float64Array, digits: int) -> list[float]:
    """Return rounded fractions that sum to 1.

    The largest fraction absorbs the rounding error.
    """
    rounded = np.round(np.asarray(shares), digits)
    rounded[np.argmax(rounded)] += 1 - rounded.sum()
    return [round(float(share), digits) for share in rounded]
