"""Largest values with their times, and for how long values are beyond a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.tables import Float64Array


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
