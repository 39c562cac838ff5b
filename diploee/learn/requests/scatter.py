"""How counts scatter around what was expected of them: Poisson or more, and limits that tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from diploee.tables import Float64Array

FEWEST = 10
"""Counts beyond the fitted weights from which their scatter has limits."""


@dataclass(frozen=True)
class Dispersion:
    """Scatter of counts around their expectation."""

    # Variance over mean given the weights (Pearson's chi-square over its degrees of freedom), 1 for
    # Poisson, and its confidence limits, by the scatter of its own terms; the counts are taken as
    # independent. NaN where there are no more counts than weights; limits are 0 and infinity where
    # there are no more than `FEWEST` beyond them.
    index: float
    low: float
    high: float
    freedom: int  # counts less fitted weights
    poisson_p_value: float  # probability of as large an index if the counts were Poisson
    relative_std: float  # relative standard deviation of the rate, that of Poisson counts taken off


def dispersion_of(
    counts: Float64Array, expected: Float64Array, n_weights: int, confidence: float
) -> Dispersion:
    """Return how counts scatter around expectations that were fitted to them."""
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
    # Under Poisson a term has variance 2 + 1 / expected.
    spread = float(np.sqrt((2 + 1 / expected).sum()))
    excess = squares.sum() * counts.size / freedom - expected.sum()
    return Dispersion(
        index=index,
        low=max(index - half, 0.0) if freedom > FEWEST else 0.0,
        high=index + half if freedom > FEWEST else float("inf"),
        freedom=freedom,
        poisson_p_value=float(special.ndtr((freedom - index * freedom) / spread)),
        relative_std=float(np.sqrt(max(excess, 0.0) / (expected**2).sum())),
    )
