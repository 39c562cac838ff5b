"""Rates of submission whose load is nearest to an observed one, none of them negative."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK, MONTHS_PER_YEAR

RIDGE = 1e-10
"""Keeps the equations solvable where the load of two hours can't be told apart."""

MOST_BLOCKS = 52
MAX_ROUNDS = 50
TOLERANCE = 1e-6


def alternate(
    kernel: Float64Array,
    slot: Int64Array,
    month: Int64Array,
    load: Float64Array,
    used: BoolArray,
    months: bool,
    share: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Fit the hours of the week and the months in turn, each with the other fixed.

    Parameters
    ----------
    kernel : numpy.ndarray, shape (K,), float64
        Load of one job in the hour of its submission and those after.
    slot, month : numpy.ndarray, shape (H,), int64
        Hour of the week, 0-167, and month, 0-11, of every hour.
    load : numpy.ndarray, shape (H,), float64
        Observed load above that of an idle facility, in the kernel's unit.
    used : numpy.ndarray, shape (H,), bool
        Hours whose load is to be explained.
    months : bool
        Fit the months; else their weights are 1.
    share : numpy.ndarray, shape (H,), float64
        What the rates are multiplied by in each hour: the nodes that stand, of their mean.

    Returns
    -------
    of_week : numpy.ndarray, shape (168,), float64
        Jobs per hour, in a month of weight 1 and at a share of 1.
    of_month : numpy.ndarray, shape (12,), float64
        Weights of the months, on no fixed scale.
    """
    of_month = np.ones(MONTHS_PER_YEAR)
    of_week = _fit_rates(kernel, slot, of_month[month] * share, HOURS_PER_WEEK, load, used)
    for _ in range(MAX_ROUNDS if months else 0):
        before = of_week
        of_month = _fit_rates(kernel, month, of_week[slot] * share, MONTHS_PER_YEAR, load, used)
        of_week = _fit_rates(kernel, slot, of_month[month] * share, HOURS_PER_WEEK, load, used)
        if np.abs(of_week - before).max() <= TOLERANCE * of_week.max():
            break
    return of_week, of_month


def spread(
    kernel: Float64Array,
    group: Int64Array,
    factor: Float64Array,
    n_groups: int,
    load: Float64Array,
    used: BoolArray,
) -> Float64Array:
    """Return the rates of each group of hours without one block of weeks after the other.

    Parameters
    ----------
    kernel, load, used
        As of `alternate`.
    group : numpy.ndarray, shape (H,), int64
        Group of each hour, below `n_groups`.
    factor : numpy.ndarray, shape (H,), float64
        What the rate of its group is multiplied by in each hour; held.
    n_groups : int
        Number of groups.

    Returns
    -------
    numpy.ndarray, shape (B, n_groups), float64
        For a jackknife; blocks are whole weeks, `MOST_BLOCKS` at most.
    """
    design = _design(kernel, group, factor, n_groups, used)
    seen = load[used]
    n_weeks = -(-seen.size // HOURS_PER_WEEK)
    block = np.arange(seen.size) // (HOURS_PER_WEEK * -(-n_weeks // MOST_BLOCKS))
    ridge = RIDGE * float(np.sum(kernel)) ** 2
    squares, products = design.T @ design, design.T @ seen
    without = []
    for k in range(int(block[-1]) + 1):
        own = block == k
        left = squares - design[own].T @ design[own], products - design[own].T @ seen[own]
        without.append(_solved(*left, ridge))
    return np.stack(without)


def _fit_rates(
    kernel: Float64Array,
    group: Int64Array,
    factor: Float64Array,
    n_groups: int,
    load: Float64Array,
    used: BoolArray,
) -> Float64Array:
    """Return the rate of each group of hours, all 0 or more, that explains the load best."""
    design = _design(kernel, group, factor, n_groups, used)
    ridge = RIDGE * float(np.sum(kernel)) ** 2
    return _solved(design.T @ design, design.T @ load[used], ridge)


def _design(
    kernel: Float64Array,
    group: Int64Array,
    factor: Float64Array,
    n_groups: int,
    used: BoolArray,
) -> Float64Array:
    """Return the load of each group's rate in the hours that are used, shape (n, n_groups)."""
    n_hours = group.size
    design = np.zeros((n_hours, n_groups))
    rows = np.arange(n_hours)
    # load[h] = sum over lags k of kernel[k] factor[h - k] rate[group[h - k]], a convolution.
    for lag, value in enumerate(kernel[:n_hours]):
        submitted = rows[: n_hours - lag]
        design[submitted + lag, group[submitted]] += value * factor[submitted]
    return design[used]


def _solved(squares: Float64Array, products: Float64Array, ridge: float) -> Float64Array:
    """Return the non-negative x of least squares of A^T A and A^T b."""
    # The normal equations, 168 by 168, have the same solution and are quicker.
    # With A^T A = L L^T, |A x - b|^2 = |L^T x - L^-1 A^T b|^2 + what x does not change.
    lower = np.linalg.cholesky(squares + ridge * np.eye(products.size))
    found: Float64Array = nnls(lower.T, solve_triangular(lower, products, lower=True))[0]
    return found
