"""How many instances a request rate needs (Eq. 4)."""

from __future__ import annotations

from math import ceil

import numpy as np

from diploee.jit import njit
from diploee.tables import Float64Array, Int64Array

ROUNDING = 1e-12
"""Relative rounding error that does not call for another instance."""


@njit(inline="always")
def whole_instances(rate_rps: float, max_rate_rps: float, n_max: int) -> int:
    """Return ``K = min(ceil(R / R_max), N_max)`` (Eq. 4, whole and rounded up).

    A rate of exactly ``k R_max``, but for rounding, gives ``k``.
    """
    quotient = rate_rps / max_rate_rps * (1 - ROUNDING)
    return n_max if quotient >= n_max else ceil(quotient)


@njit()
def instances_needed(rate_rps: Float64Array, max_rate_rps: float, n_max: int) -> Int64Array:
    """Return the instances for request rates (Eq. 4).

    Parameters
    ----------
    rate_rps : numpy.ndarray, shape (T,), float64
        Request rate of the service, R_i,t [1/s].
    max_rate_rps : float
        Highest rate of one instance, R_i,max [1/s].
    n_max : int
        Instances that fit the reserved nodes.

    Returns
    -------
    numpy.ndarray, shape (T,), int64
        K_i,t.
    """
    needed = np.empty(rate_rps.size, dtype=np.int64)
    for t in range(rate_rps.size):
        needed[t] = whole_instances(rate_rps[t], max_rate_rps, n_max)
    return needed


@njit(inline="always")
def suffice(n_instances: int, rate_rps: float, completion_rate_rps: float) -> bool:
    """Return whether instances complete a rate, with the rounding that `whole_instances` forgives.

    The same expression, so that instances scaled by a rate complete it.
    """
    return bool(rate_rps / completion_rate_rps * (1 - ROUNDING) <= n_instances)
