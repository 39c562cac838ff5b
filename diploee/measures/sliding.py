"""Ramps and ranges: what is measured at every step of a series, over windows that slide by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from diploee.measures.histogram import SignedHistogram
from diploee.measures.series import Signal, Stretch, Values
from diploee.tables import Float64Array, Int64Array

_CHUNK = 1 << 15  # values per pass, so that the passes stay in cache

Array = TypeVar("Array", Int64Array, Float64Array)
_Pick = Callable[[Int64Array, Int64Array], Int64Array]


def ramp_sums(values: Array, n: int) -> Array:
    """Return `n` times all differences of the means of two adjacent intervals of `n` values.

    With C the cumulative sum: (C[k + 2n] - C[k + n]) - (C[k + n] - C[k]).
    """
    total = np.empty(values.size + 1, dtype=values.dtype)
    total[0] = 0
    np.cumsum(values, out=total[1:])
    if total.size <= 2 * n:
        return total[:0]
    sums = total[n:] - total[:-n]
    return sums[n:] - sums[:-n]


def ramps(n: int) -> Signal:
    """Return the signal of `ramp_sums`; the time is the start of the earlier interval."""

    def of(stretch: Stretch) -> Values:
        part = stretch.windows_of(2 * n)
        return Values(ramp_sums(part.values, n), part.begin_ms)

    return of


def differences(n: int) -> Signal:
    """Return the signal of each value less the one `n` before; the time is the earlier one's."""

    def of(stretch: Stretch) -> Values:
        part = stretch.windows_of(n + 1)
        return Values(part.values[n:] - part.values[:-n], part.begin_ms)

    return of


def ranges(n: int) -> Signal:
    """Return the signal of `rolling_ranges` over `n` values; the time is the window's start."""

    def of(stretch: Stretch) -> Values:
        found = rolling_ranges(stretch, [n])[0]
        return Values(found, stretch.end_ms - (found.size + n - 1) * stretch.step_ms)

    return of


def rolling_ranges(stretch: Stretch, sizes: list[int]) -> list[Int64Array]:
    """Return largest less smallest value of all windows that end in the new part, for each size.

    Minima and maxima over w values come from those over powers of two (two overlapping ones cover
    any window), a handful of vector passes for all windows together;
    `scipy.ndimage.maximum_filter1d` takes several times as long at 0.1 s. Sizes are ascending.
    """
    values = stretch.values
    parts: list[list[Int64Array]] = [[] for _ in sizes]
    for begin in range(values.size - stretch.n_new, values.size, _CHUNK):
        end = min(begin + _CHUNK, values.size)
        piece = values[max(begin - sizes[-1] + 1, 0) : end]
        fitting = [size for size in sizes if size <= piece.size]
        lowest = _rolling(piece, fitting, np.minimum)
        highest = _rolling(piece, fitting, np.maximum)
        for of_size, low, high in zip(parts, lowest, highest, strict=False):
            of_size.append((high - low)[-(end - begin) :])
    empty = np.empty(0, dtype=np.int64)
    return [np.concatenate(of_size) if of_size else empty for of_size in parts]


def _rolling(values: Int64Array, sizes: list[int], pick: _Pick) -> list[Int64Array]:
    """Return the rolling minima or maxima over ascending window sizes, each of n - size + 1."""
    found, level, width = [], values, 1
    for size in sizes:
        # level[i] is the extreme of values[i : i + width]; any size up to 2 width is covered by two
        # of them, which may overlap.
        while 2 * width <= size:
            level = pick(level[:-width], level[width:])
            width *= 2
        gap = size - width
        found.append(pick(level[: level.size - gap], level[gap:]) if gap else level)
    return found


class Sizes:
    """The sizes of what a signal gives at every step, such as of all ramps of one length."""

    def __init__(self, signal: Signal, n_window: int) -> None:
        self.n_window, self._signal, self._seen = n_window, signal, SignedHistogram()

    def add(self, stretch: Stretch) -> None:
        """Count the values that end in the new part of a stretch."""
        if (found := self._signal(stretch)) is not None:
            self._seen.add(found.values, found.first_ms, stretch.step_ms)

    def result(self) -> SignedHistogram:
        """Return their histogram, and the times of the extremes [ms]."""
        return self._seen


class RollingRanges:
    """The ranges within windows of several lengths, in values and ascending."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes, self.n_window = sizes, max(sizes, default=1)
        self._seen = [SignedHistogram() for _ in sizes]
        self._extremes_ms = [(0, 0)] * len(sizes)

    def add(self, stretch: Stretch) -> None:
        """Add the windows that end in the new part of a stretch."""
        if not self._sizes:
            return
        found, step_ms = rolling_ranges(stretch, self._sizes), stretch.step_ms
        for k, (size, seen) in enumerate(zip(self._sizes, self._seen, strict=True)):
            of_size = found[k]
            largest = max(seen.max, 0)  # the last range ends with the stretch
            seen.add(of_size, stretch.end_ms - (of_size.size + size - 1) * step_ms, step_ms)
            if seen.max > largest:
                first = (seen.max_at - stretch.begin_ms) // step_ms
                window = stretch.values[first : first + size]
                at = sorted((int(window.argmin()), int(window.argmax())))
                first_ms, last_ms = (seen.max_at + place * step_ms for place in at)
                self._extremes_ms[k] = first_ms, last_ms

    def result(self) -> list[tuple[SignedHistogram, tuple[int, int]]]:
        """Return each length's histogram, and when the extremes of its largest range are [ms]."""
        return list(zip(self._seen, self._extremes_ms, strict=True))
