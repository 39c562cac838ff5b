"""Totals of Poisson counts: the factors that explain them, and their confidence limits."""

from __future__ import annotations

import numpy as np
from scipy import special

from diploee.tables import Float64Array

MAX_ROUNDS = 500
TOLERANCE = 1e-12


def proportional_fit(total: Float64Array, exposure: Float64Array) -> tuple[Float64Array, ...]:
    """Find the factors of each axis whose products match the totals along it."""
    # Most likely for Poisson counts of mean (product of factors) * exposure: each factor is its
    # total over what the others give it, in turn (iterative proportional fitting, Deming and
    # Stephan 1940).
    axes = range(total.ndim)
    factors = [np.ones(n) for n in total.shape]

    def fitted(axis: int) -> Float64Array:
        others = exposure
        for other in reversed(axes):
            if other != axis:
                others = np.tensordot(others, factors[other], (other, 0))
        return _ratio(total.sum(axis=tuple(k for k in axes if k != axis)), others)

    for _ in range(MAX_ROUNDS):
        before = factors[-1]
        for axis in axes:
            factors[axis] = fitted(axis)
        if float(np.abs(factors[-1] - before).max()) <= TOLERANCE * float(factors[-1].max()):
            break
    factors[0] = fitted(0)
    return tuple(factors)


def _ratio(numerator: Float64Array, denominator: Float64Array) -> Float64Array:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def poisson_limits(
    total: Float64Array, factor: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return confidence limits of the expectation of totals whose variance is factor x mean.

    Divided by the factor they are taken as Poisson, whose limits are exact (Garwood 1936).
    """
    # chi2(tail; 2 n) / 2 to chi2(1 - tail; 2 n + 2) / 2, as inverse incomplete gamma functions.
    tail, n = (1 - confidence) / 2, total / factor
    low = np.where(n > 0, special.gammaincinv(np.maximum(n, 1e-9), tail), 0.0)
    return low * factor, special.gammainccinv(n + 1, tail) * factor
