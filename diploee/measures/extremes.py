"""Largest values, energies, and for how long values are above a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, MS_PER_H, MS_PER_S


class Largest:
    """The largest value of a series, the first of equals, and what is beside it at that time."""

    def __init__(self) -> None:
        self.value, self.at_ms = -np.inf, 0
        self.beside: tuple[float, ...] = ()

    def add(self, values: Float64Array, t0_ms: int, step_ms: int, *beside: Float64Array) -> None:
        """Add consecutive values, the first at `t0_ms`, and others of the same times."""
        if not values.size:
            return
        k = int(np.argmax(values))
        if values[k] > self.value:
            self.value, self.at_ms = float(values[k]), t0_ms + k * step_ms
            self.beside = tuple(float(of[k]) for of in beside)

    def result(self) -> tuple[Any, ...]:
        """Return value, time [ms], and what is beside it."""
        return self.value, self.at_ms, *self.beside


class Energy:
    """The energy of a power [MWh]."""

    def __init__(self) -> None:
        self._energy_j = 0.0

    def add(self, power_w: Float64Array, dt_ms: int) -> None:
        """Add mean powers [W] over intervals of a length."""
        self._energy_j += float(power_w.sum(dtype="float64")) * dt_ms / MS_PER_S

    def result(self) -> float:
        """Return the energy [MWh]."""
        return self._energy_j / J_PER_MWH


class Most:
    """The largest of values and of a first one, in another unit."""

    def __init__(self, first: float = 0.0, per: float = 1.0) -> None:
        self._most, self._per = first, per

    def add(self, values: Float64Array, dt_ms: int) -> None:  # noqa: ARG002
        """Add values."""
        self._most = max(self._most, float(values.max(initial=-np.inf)))

    def result(self) -> float:
        """Return the largest."""
        return self._most / self._per


class CountAbove:
    """The number of values above a bound."""

    def __init__(self, bound: float) -> None:
        self._bound, self._n, self._above_ms = bound, 0, 0

    def add(self, values: Float64Array, dt_ms: int) -> None:
        """Add values of intervals of a length."""
        n = int(np.count_nonzero(values > self._bound))
        self._n, self._above_ms = self._n + n, self._above_ms + n * dt_ms

    def result(self) -> float:
        """Return the number."""
        return self._n


class HoursAbove(CountAbove):
    """The time in which values are above a bound [h]."""

    def result(self) -> float:
        """Return the time [h]."""
        return self._above_ms / MS_PER_H
