"""How large a battery must be to hold ramps: the smallest by bisection, and at least.

`least_battery` lets the battery know the load beforehand, a linear programme: no control can do
with less, at the prices of power and energy that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diploee.errors import InputError
from diploee.facility.battery import Hold
from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, W_PER_MW

MOST_INTERVALS = 20_000
"""Intervals of a linear programme at most: some seconds, some hundred megabytes."""

ACCURACY = 1e-3
"""The bisection ends where the size is known so well, relatively."""

COVERED = 1e-9
"""A size holds a load where it misses no more than this part of the load's range."""


if TYPE_CHECKING:
    from scipy.sparse import coo_array

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BatterySize:
    """A battery's power [W] and usable energy, between least and most state of charge [J]."""

    power_w: float
    energy_j: float

    @property
    def power_mw(self) -> float:
        """Power [MW]."""
        return self.power_w / W_PER_MW

    @property
    def energy_mwh(self) -> float:
        """Usable energy [MWh]."""
        return self.energy_j / J_PER_MWH


def smallest(enough: Callable[[float], bool], most: float, accuracy: float = ACCURACY) -> float:
    """Return the smallest value that is enough, within an accuracy; the largest one is."""
    low, high = 0.0, most
    while high - low > accuracy * high and high > most * 1e-9:
        # In proportion, as sizes lie decades below the most.
        middle = (low * high) ** 0.5 if low > 0 else high / 16
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def least_battery(
    load_w: Float64Array,
    dt_s: float,
    asked: Hold,
    charge: float = 1.0,
    discharge: float = 1.0,
    price_per_w: float = 1.0,
    price_per_j: float = 1.0 / 3600,
) -> tuple[BatterySize, Float64Array]:
    """Return the battery that any control needs at least to hold the ramps of a known load.

    Also returns the supply that it then gives [W], shape (n,).

    Minimise ``price_per_w P + price_per_j E`` over supply g, charge c, discharge d and stored e:
    ``g = load + c - d``, ``e' = e + eta_c c dt - d dt / eta_d``, ``0 <= e <= E``, ``c, d <= P``,
    ``-down dt <= g' - g <= up dt``, and as much stored at the end as at the start.
    """
    from scipy.optimize import linprog  # slow to import, and every kind of stage is looked at
    from scipy.sparse import vstack

    n = load_w.size
    if n > MOST_INTERVALS:
        raise InputError(
            f"{n:,} intervals, a linear programme takes up to {MOST_INTERVALS:,}; give a coarser "
            "step, or a part of the run"
        )
    # In units of the load's range, so that the solver's tolerances mean something.
    unit_w = float(np.ptp(load_w)) or 1.0
    load = load_w / unit_w
    # Columns: c (n), d (n), e (n + 1), P, E; the stored energy in units of power times interval.
    c, d, e, most_p, most_e = 0, n, 2 * n, 3 * n + 1, 3 * n + 2
    k = np.arange(n)
    one = np.ones(n)
    equal = _matrix(
        3 * n + 3,
        (k, e + k + 1, one), (k, e + k, -one), (k, c + k, -charge * one),
        (k, d + k, one / discharge),
        (np.array([n, n]), np.array([e, e + n]), np.array([1.0, -1.0])),
    )  # fmt: skip
    rows = [
        _matrix(3 * n + 3, (k, c + k, one), (k, most_p + 0 * k, -one)),
        _matrix(3 * n + 3, (k, d + k, one), (k, most_p + 0 * k, -one)),
        _matrix(3 * n + 3, (np.arange(n + 1), e + np.arange(n + 1), np.ones(n + 1)),
                (np.arange(n + 1), most_e + 0 * np.arange(n + 1), -np.ones(n + 1))),
    ]  # fmt: skip
    bounds = [np.zeros(n), np.zeros(n), np.zeros(n + 1)]
    step, j = np.diff(load), np.arange(n - 1)
    for sign, rate in ((1.0, asked.up_w_per_s), (-1.0, asked.down_w_per_s)):
        if np.isfinite(rate):
            s = sign * np.ones(n - 1)
            rows.append(_matrix(
                3 * n + 3, (j, c + j + 1, s), (j, c + j, -s), (j, d + j + 1, -s), (j, d + j, s),
            ))  # fmt: skip
            bounds.append(rate * dt_s / unit_w - sign * step)
    prices = np.zeros(3 * n + 3)
    prices[most_p], prices[most_e] = price_per_w, price_per_j * dt_s
    found = linprog(
        prices / max(prices[most_p], prices[most_e]),
        A_ub=vstack(rows),
        b_ub=np.concatenate(bounds),
        A_eq=equal,
        b_eq=np.zeros(n + 1),
        method="highs",
    )
    if found.x is None:
        raise InputError(f"the linear programme of the battery has no solution: {found.message}")
    size = BatterySize(float(found.x[most_p]) * unit_w, float(found.x[most_e]) * unit_w * dt_s)
    return size, load_w + (found.x[c:d] - found.x[d:e]) * unit_w


def _matrix(n_columns: int, *entries: tuple[Array, Array, Array]) -> coo_array:
    """Return a matrix from groups of rows, columns and values."""
    from scipy.sparse import coo_array

    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    return coo_array((value, (row, column)), shape=(int(row.max()) + 1, n_columns))
