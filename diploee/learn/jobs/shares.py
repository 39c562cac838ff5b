"""Shares of jobs with confidence limits that know that jobs come in batches."""

from __future__ import annotations

import numpy as np
from scipy import stats

from diploee.tables import Float64Array, Int64Array

MIN_BATCHES = 8
"""Days (or weeks) from which on their scatter tells the limits."""


def share_limits(
    kind: Int64Array, day: Int64Array, n_kinds: int, confidence: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the shares of kinds among jobs, and their confidence limits.

    Users submit many jobs of a kind at once, so that shares scatter more than independent draws.
    Their variance is taken from day to day, as of a ratio of totals (Cochran 1977, section 6.3),
    but never below that of independent draws; the limits are Wilson's (1927) with as many draws as
    have that variance.
    """
    n_days = int(day.max()) + 1
    counts = np.zeros((n_days, n_kinds))
    np.add.at(counts, (day, kind), 1.0)
    total = counts.sum()
    share = counts.sum(axis=0) / total
    independent = share * (1 - share) / total
    variance = independent
    if n_days >= MIN_BATCHES:
        off = counts - counts.sum(axis=1, keepdims=True) * share
        between = (off**2).sum(axis=0) * n_days / (n_days - 1) / total**2
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
    """Return factors on a total that bound it, from the scatter of batches such as weeks."""
    total, n = float(seen.sum()), seen.size
    if n > 1:
        error = float(np.sqrt(((seen - expected) ** 2).sum() * n / (n - 1))) / total
        half = float(stats.t.isf((1 - confidence) / 2, n - 1)) * error
    else:
        half = float(stats.norm.isf((1 - confidence) / 2)) / float(np.sqrt(total))
    return max(0.0, 1 - half), 1 + half
