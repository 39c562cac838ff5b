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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, inline="always")
def suffice(n_instances: int, rate_rps: float, completion_rate_rps: float) -> bool:
    """Return whether instances complete a rate, with the rounding that `whole_instances` forgives.

    The same expression, so that instances scaled by a rate complete it.
    """
    return bool(rate_rps / completion_rate_rps * (1 - ROUNDING) <= n_instances)


@njit(cache=True, nogil=True)
def rolling_max(
    values: Int64Array, t: int, n_before: int, places: Int64Array, ends: Int64Array
) -> int:
    """Return the largest of ``values[t - n_before : t + 1]``, for one `t` after the other.

    Amortised constant time: kept are the places of the values that can still become the largest,
    in falling order of value.

    Parameters
    ----------
    values : numpy.ndarray, shape (T,), int64
        Values; those up to `t` are read.
    t : int
        0 at the first call, then one more at each.
    n_before : int
        Earlier values that count.
    places : numpy.ndarray, shape (T,), int64
        Scratch: the places kept.
    ends : numpy.ndarray, shape (2,), int64
        Scratch, zeros at first: where the kept places begin and end in `places`.

    Returns
    -------
    int
        The largest.
    """
    begin, end = ends[0], ends[1]
    while end > begin and values[places[end - 1]] <= values[t]:
        end -= 1
    places[end] = t
    end += 1
    while places[begin] < t - n_before:
        begin += 1
    ends[0], ends[1] = begin, end
    return int(values[places[begin]])
