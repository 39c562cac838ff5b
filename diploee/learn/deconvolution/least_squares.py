"""Rates of submission whose load is nearest to an observed one, none of them negative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from diploee.learn.deconvolution.kernel import Kernel, edge_shares
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK, MONTHS_PER_YEAR

RIDGE = 1e-10
"""Keeps the equations solvable where the load of two hours can't be distinguished."""

MOST_BLOCKS = 52
MAX_ROUNDS = 50
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Observation:
    """The load of each hour, and what it is explained by."""

    kernel: Kernel
    slot: Int64Array  # hour of the week
    month: Int64Array  # 0 in January
    load: Float64Array  # above that of an idle facility, in the kernel's unit
    used: BoolArray  # hours that are explained; those before may hold jobs from before
    share: Float64Array  # nodes that stand in the pool over their mean

    def rates(self, months: bool) -> tuple[Float64Array, Float64Array]:
        """Fit the hours of the week and the months in turn, each with the other fixed.

        The load is linear in the rates but for which of two hours sets the rate at their edge; that
        is taken from the rates of the turn before.
        """
        of_month, even = np.ones(MONTHS_PER_YEAR), np.ones(self.slot.size)
        of_week = self._fitted(self.slot, self.share, HOURS_PER_WEEK, even)
        for _ in range(MAX_ROUNDS):
            before, rate = of_week, of_week[self.slot] * of_month[self.month]
            if months:
                of_week_h = of_week[self.slot] * self.share
                of_month = self._fitted(self.month, of_week_h, MONTHS_PER_YEAR, rate)
            of_month_h = of_month[self.month] * self.share
            of_week = self._fitted(self.slot, of_month_h, HOURS_PER_WEEK, rate)
            if np.abs(of_week - before).max() <= TOLERANCE * of_week.max():
                break
        return of_week, of_month

    def without_blocks(
        self, group: Int64Array, factor: Float64Array, n_groups: int, rate: Float64Array
    ) -> Float64Array:
        """Return the rates of each group of hours without one block of weeks after the other."""
        design, seen = self._design(group, factor, n_groups, rate), self.load[self.used]
        n_weeks = -(-seen.size // HOURS_PER_WEEK)
        block = np.arange(seen.size) // (HOURS_PER_WEEK * -(-n_weeks // MOST_BLOCKS))
        squares, products = design.T @ design, design.T @ seen
        without = []
        for k in range(int(block[-1]) + 1):
            own = block == k
            left = squares - design[own].T @ design[own], products - design[own].T @ seen[own]
            without.append(_solved(*left, self._ridge))
        return np.stack(without)

    def _fitted(
        self, group: Int64Array, factor: Float64Array, n_groups: int, rate: Float64Array
    ) -> Float64Array:
        """Return the rate of each group of hours, all 0 or more, that explains the load best."""
        design = self._design(group, factor, n_groups, rate)
        return _solved(design.T @ design, design.T @ self.load[self.used], self._ridge)

    @property
    def _ridge(self) -> float:
        return RIDGE * float(np.sum(self.kernel.hourly)) ** 2

    def _design(
        self, group: Int64Array, factor: Float64Array, n_groups: int, rate: Float64Array
    ) -> Float64Array:
        """Return the load of each group's rate in the hours that are used, shape (n, n_groups).

        Of lines whose edges go by the hours that they go by at a rate of every hour.
        """
        n_hours = group.size
        design = np.zeros((n_hours, n_groups))
        before, after = edge_shares(rate)
        # load[h] = sum over lags k of kernel[k] factor[h - k] rate[group[h - k]], a convolution; so
        # of the edges, of which each hour has shares in that before it and that after it.
        for of_lags, first, share in (
            (self.kernel.middle, 0, factor),
            (self.kernel.edge, -1, factor * after[:-1]),
            (self.kernel.edge, 0, factor * before[1:]),
        ):
            for lag, value in enumerate(of_lags[:n_hours], first):
                submitted = np.arange(max(0, -lag), n_hours - max(0, lag))
                design[submitted + lag, group[submitted]] += value * share[submitted]
        return design[self.used]


def _solved(squares: Float64Array, products: Float64Array, ridge: float) -> Float64Array:
    """Return the non-negative x of least squares of A^T A and A^T b."""
    # The normal equations, 168 by 168, have the same solution and are quicker.
    # With A^T A = L L^T, |A x - b|^2 = |L^T x - L^-1 A^T b|^2 + what x does not change.
    lower = np.linalg.cholesky(squares + ridge * np.eye(products.size))
    right = solve_triangular(lower, products, lower=True)
    found: Float64Array = solve_triangular(lower.T, right)
    if (found < 0).any():
        found = nnls(lower.T, right)[0]
    return found
