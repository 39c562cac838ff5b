"""How many instances a service runs (Eq. 4), with start-up, cool-down and a minimum."""

from __future__ import annotations

from math import ceil

import numpy as np
from numba import njit

from diploee.tables import Float64Array, Int64Array

ROUNDING = 1e-12
"""Relative rounding error that does not call for another instance."""


@njit(cache=True, nogil=True, inline="always")
def whole_instances(rate_rps: float, max_rate_rps: float, n_max: int) -> int:
    """Return ``K = min(ceil(R / R_max), N_max)`` (Eq. 4, whole and rounded up).

    A rate of exactly ``k R_max``, but for rounding, gives ``k``.
    """
    quotient = rate_rps / max_rate_rps * (1 - ROUNDING)
    return n_max if quotient >= n_max else ceil(quotient)


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
    for_each(rate_rps, max_rate_rps, n_max, needed)
    return needed


@njit(cache=True, nogil=True)
def for_each(rate_rps: Float64Array, max_rate_rps: float, n_max: int, needed: Int64Array) -> None:
    """Fill `needed` with `whole_instances` of each rate."""
    for t in range(rate_rps.size):
        needed[t] = whole_instances(rate_rps[t], max_rate_rps, n_max)


@njit(cache=True, nogil=True)
def occupied_at(needed: Int64Array, t: int, cooldown_steps: int) -> int:
    """Return the instances that are up in step `t`: the most that were needed lately."""
    occupied = needed[t]
    for s in range(max(0, t - cooldown_steps), t):
        occupied = max(occupied, needed[s])
    return int(occupied)


@njit(cache=True, nogil=True)
def serving_at(occupied: Int64Array, t: int, startup_steps: int) -> int:
    """Return the instances that serve in step `t`: those up for the whole start-up time.

    ASSUMPTION: what the first step needs is up at the start of the run.
    """
    serving = occupied[t]
    for s in range(max(0, t - startup_steps), t):
        serving = min(serving, occupied[s])
    return int(serving)
