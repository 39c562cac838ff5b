"""Power as whole quanta of 1/64 W, so that sums over any window, block or order are exact.

Sums of float64 depend on where a block begins; sums of integers do not. Differences of running sums
stay right even where the running sum itself has wrapped around (two's complement). A `Stretch` is a
part of a series that sliding windows are taken from: a block with what lies before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.jit import njit
from diploee.tables import Float64Array, Int64Array
from diploee.units import W_PER_MW

QUANTA_PER_W = 64.0
"""Resolution of grid metrics: values are rounded to 1/64 W."""

QUANTA_PER_MW = QUANTA_PER_W * W_PER_MW

MAX_POWER_W = 1e12
"""Largest power that an hour of 0.1 s values can sum without overflow, with a margin [W]."""

MAX_DAY_POWER_W = 1e11
"""The same for a day of 0.1 s values [W]."""


_SUMMED = 1 << 20
"""Values that are summed at a time: as many of the largest power fit an integer."""


def to_quanta(power_w: Float64Array, largest_w: float = MAX_POWER_W) -> Int64Array:
    """Return power [W] in quanta, rounded.

    Raises
    ------
    ValueError
        If a value is not finite or beyond the largest.
    """
    if power_w.size and not np.abs(power_w).max() <= largest_w:
        raise ValueError(f"power must be finite and within {largest_w:g} W")
    quanta = power_w * QUANTA_PER_W
    np.rint(quanta, out=quanta)
    return quanta.astype(np.int64)


def sum_quanta(power_w: Float64Array) -> tuple[int, int]:
    """Return the sum of power in quanta, and that of what is above 0; each value as `to_quanta`.

    Raises
    ------
    ValueError
        If a value is not finite or beyond `MAX_DAY_POWER_W`.
    """
    total = positive = 0
    for begin in range(0, power_w.size, _SUMMED):
        of, above, bounded = _sums(power_w[begin : begin + _SUMMED])
        if not bounded:
            raise ValueError(f"power must be finite and within {MAX_DAY_POWER_W:g} W")
        total, positive = total + int(of), positive + int(above)
    return total, positive


@njit()
def _sums(power_w: Float64Array) -> tuple[np.int64, np.int64, bool]:
    total, positive, bounded = np.int64(0), np.int64(0), True
    for value_w in power_w:
        quanta = np.int64(np.rint(value_w * QUANTA_PER_W))
        total += quanta
        if quanta > 0:
            positive += quanta
        bounded &= abs(value_w) <= MAX_DAY_POWER_W  # which is false of what is no number
    return total, positive, bounded


def to_mw(quanta: float, n_summed: int = 1) -> float:
    """Return a sum of `n_summed` values in quanta as their mean [MW]."""
    return float(quanta) / (QUANTA_PER_MW * n_summed)


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive values of a series, of which the last `n_new` were not seen before.

    Parameters
    ----------
    values : numpy.ndarray, shape (h + n_new,), int64
        Power in quanta: `h` earlier values, then the new ones.
    n_new : int
        Number of new values.
    end_ms : int
        End of the last value [ms since the start].
    step_ms : int
        Interval of the values [ms].
    """

    values: Int64Array
    n_new: int
    end_ms: int
    step_ms: int

    def windows_of(self, n_window: int) -> Stretch:
        """Return the part that the windows of `n_window` values which end in the new part need."""
        keep = min(self.values.size, self.n_new + n_window - 1)
        return Stretch(
            self.values[self.values.size - keep :], self.n_new, self.end_ms, self.step_ms
        )

    @property
    def begin_ms(self) -> int:
        """Start of the first value [ms since the start]."""
        return self.end_ms - self.values.size * self.step_ms

    @property
    def new(self) -> Int64Array:
        """The new values."""
        return self.values[self.values.size - self.n_new :]
