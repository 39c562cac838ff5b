"""Quantiles of very many signed integers: a log-linear histogram that needs no range beforehand.

Every octave of magnitude has 512 bins, so a quantile is off by at most 1/1024 of itself, whatever
the range (Masson, Rim and Lee 2019, DDSketch; HdrHistogram). Counts are integers: the result does
not depend on blocks or order. Numba rather than NumPy, because
six passes of `searchsorted` or `bincount` over 315 million values would dominate.
"""

from __future__ import annotations

import numpy as np

from diploee.jit import njit
from diploee.tables import Int64Array

_MANTISSA_BITS = 9
_SHIFT = 52 - _MANTISSA_BITS
_BASE = 1023 << _MANTISSA_BITS  # bits of 1.0 after the shift
N_BINS = (63 << _MANTISSA_BITS) + 2

RELATIVE_ERROR = 2.0 ** -(_MANTISSA_BITS + 1)
"""Largest error of a quantile, relative to it."""


class SignedHistogram:
    """Counts signed integers; keeps the extremes exactly, with the place of the first of each."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, N_BINS), dtype=np.int64)
        self._extremes = np.array([np.iinfo(np.int64).max, -1, np.iinfo(np.int64).min, -1])
        self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()
        self.count = 0

    def add(self, values: Int64Array, first: int, stride: int = 1) -> None:
        """Add values; the k-th stands at position ``first + k * stride``."""
        if values.size:
            _count(values, first, stride, self._counts, self._extremes)
            self.count += values.size
            self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()

    def percentile(self, percent: float) -> float:
        """Return a percentile: the value of rank ``ceil(percent/100 * n)``, within its bin."""
        ordered = np.concatenate([self._counts[0, ::-1], self._counts[1]])
        rank = max(int(np.ceil(percent / 100 * self.count)), 1)
        at = int(np.searchsorted(np.cumsum(ordered), rank))
        value = -_middle(N_BINS - 1 - at) if at < N_BINS else _middle(at - N_BINS)
        return float(min(max(value, self.min), self.max))


def _middle(bin_: int) -> float:
    """Return the middle of a bin; bin 0 holds the zeros."""
    if bin_ == 0:
        return 0.0
    edges = (np.array([bin_ - 1, bin_], dtype=np.int64) + _BASE) << _SHIFT
    low, high = edges.view(np.float64)
    return float(np.floor((low + high) / 2)) if high - low > 1 else float(np.ceil(low))


@njit()
def _count(
    values: Int64Array, first: int, stride: int, counts: Int64Array, extremes: Int64Array
) -> None:
    lowest, lowest_at = extremes[0], extremes[1]
    highest, highest_at = extremes[2], extremes[3]
    for k in range(values.size):
        value = values[k]
        if value < lowest:
            lowest, lowest_at = value, first + k * stride
        if value > highest:
            highest, highest_at = value, first + k * stride
        # A double holds the exponent, then the mantissa: its leading bits count octaves, each in
        # equal parts.
        bin_ = int(np.float64(abs(value)).view(np.int64) >> _SHIFT) - _BASE + 1
        counts[int(value >= 0), max(bin_, 0)] += 1
    extremes[0], extremes[1], extremes[2], extremes[3] = lowest, lowest_at, highest, highest_at
