"""Totals of Poisson counts: the factors that explain them, and their confidence limits."""

from __future__ import annotations

import numpy as np
from scipy import special

from diploee.tables import Float64Array

MAX_ROUNDS = 500
TOLERANCE = 1e-12


def proportional_fit(
    total: Float64Array, exposure: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Find the factors of rows and columns whose products match the totals of both.

    Parameters
    ----------
    total, exposure : numpy.ndarray, shape (r, c), float64
        Counts of each row and column, and what a rate of 1 would have brought.

    Returns
    -------
    of_row, of_column : numpy.ndarray, shapes (r,) and (c,)
        Factors; 0 where nothing was seen.
    """
    # Most likely for Poisson counts of mean of_row * of_column * exposure: each factor is its total
    # over what the others give it, in turn (iterative proportional fitting, Deming and Stephan
    # 1940).
    of_column = np.ones(total.shape[1])
    for _ in range(MAX_ROUNDS):
        of_row = _ratio(total.sum(axis=1), exposure @ of_column)
        new = _ratio(total.sum(axis=0), of_row @ exposure)
        change = float(np.abs(new - of_column).max())
        of_column = new
        if change <= TOLERANCE * float(new.max()):
            break
    return _ratio(total.sum(axis=1), exposure @ of_column), of_column


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
