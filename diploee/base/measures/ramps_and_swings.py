"""Ramps, ranges and swings of a series.

Closed swings are counted by the four-point rule (Amzallag et al. 1994): of four
successive turning points A, B, C, D the swing B-C is closed if it lies within both A-B
and C-D; it is counted and removed. Points that never close form the residue, whose
half-cycles are those of ASTM E1049-85 (5.4.4). Closed swings plus half-cycles of the
residue give the ASTM count. Removing smaller swings first does not change larger ones,
so counting only swings above a threshold equals prior hysteresis filtering.

The `rainflow` package (with which tests compare) is pure Python and a hundred times too
slow for 0.1 s values. Here the turning points that belong to no closed swing yet are
kept from block to block, so the count does not depend on how a series is cut into
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from diploee.base.jit import njit
from diploee.base.measures.distribution import SignedHistogram
from diploee.base.measures.streaming import QUANTA_PER_W, Chunk, Signal, SignalChunk
from diploee.base.tables import Float64Array, Int64Array

_CHUNK = 1 << 15  # values per pass, so that the passes stay in cache

_CHUNK_OF_CHANGES = 1 << 12

Array = TypeVar("Array", Int64Array, Float64Array)
_Extreme = Callable[[Int64Array, Int64Array], Int64Array]


def ramp_sums(values: Array, n: int) -> Array:
    """Return `n` times the differences of adjacent means of `n` values.

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
    """Return a signal: `ramp_sums` at the start of the earlier interval."""

    def signal(chunk: Chunk) -> SignalChunk:
        part = chunk.windows_of(2 * n)
        return SignalChunk(ramp_sums(part.values, n), part.begin_ms)

    return signal


def differences_over(n: int) -> Signal:
    """Return a signal: differences of values `n` steps apart.

    The time of a difference is that of the earlier value.
    """

    def signal(chunk: Chunk) -> SignalChunk:
        part = chunk.windows_of(n + 1)
        return SignalChunk(part.values[n:] - part.values[:-n], part.begin_ms)

    return signal


def ranges(n: int) -> Signal:
    """Return a signal: ranges over `n` values, at the start of each window."""

    def signal(chunk: Chunk) -> SignalChunk:
        result = rolling_ranges(chunk, [n])[0]
        return SignalChunk(result, chunk.end_ms - (result.size + n - 1) * chunk.step_ms)

    return signal


def rolling_ranges(chunk: Chunk, sizes: list[int]) -> list[Int64Array]:
    """Return the ranges of all windows that end in the new values, by window length.

    `sizes` are window lengths [values] in ascending order. The extreme of a window is
    that of two overlapping windows whose length is a power of two.
    """
    values = chunk.values
    parts: list[list[Int64Array]] = [[] for _ in sizes]
    for begin in range(values.size - chunk.n_new, values.size, _CHUNK):
        end = min(begin + _CHUNK, values.size)
        segment = values[max(begin - sizes[-1] + 1, 0) : end]
        usable_sizes = [size for size in sizes if size <= segment.size]
        lowest = _rolling(segment, usable_sizes, np.minimum)
        highest = _rolling(segment, usable_sizes, np.maximum)
        for part, low, high in zip(parts, lowest, highest, strict=False):
            part.append((high - low)[-(end - begin) :])
    empty = np.empty(0, dtype=np.int64)
    return [np.concatenate(part) if part else empty for part in parts]


def _rolling(
    values: Int64Array, sizes: list[int], extreme: _Extreme
) -> list[Int64Array]:
    """Return rolling minima or maxima for ascending window lengths.

    A window of length w over n values gives n - w + 1 extremes.
    """
    result, level, width = [], values, 1
    for size in sizes:
        # level[i] is the extreme of values[i : i + width]; any size up to 2 width is
        # covered by two of them, which may overlap.
        while 2 * width <= size:
            level = extreme(level[:-width], level[width:])
            width *= 2
        gap = size - width
        result.append(extreme(level[: level.size - gap], level[gap:]) if gap else level)
    return result


class SignalHistogram:
    """The histogram of a signal's values, such as ramps."""

    def __init__(self, signal: Signal, n_window: int) -> None:
        self.n_window, self._signal, self._histogram = (
            n_window,
            signal,
            SignedHistogram(),
        )

    def add(self, chunk: Chunk) -> None:
        """Count the signal's values that end in the new part of a chunk."""
        if (result := self._signal(chunk)) is not None:
            self._histogram.add(result.values, result.first_ms, chunk.step_ms)

    def result(self) -> SignedHistogram:
        """Return the histogram of the values, with the times of its extremes [ms]."""
        return self._histogram


class RollingRanges:
    """The ranges within rolling windows of several lengths (in values, ascending)."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes, self.n_window = sizes, max(sizes, default=1)
        self._histograms = [SignedHistogram() for _ in sizes]
        self._extremes_ms = [(0, 0)] * len(sizes)

    def add(self, chunk: Chunk) -> None:
        """Count the ranges of windows that end in the new part of a chunk."""
        if not self._sizes:
            return
        result, step_ms = rolling_ranges(chunk, self._sizes), chunk.step_ms
        for k, (size, histogram) in enumerate(
            zip(self._sizes, self._histograms, strict=True)
        ):
            values = result[k]
            largest = max(histogram.max, 0)  # the last range ends with the stretch
            histogram.add(
                values, chunk.end_ms - (values.size + size - 1) * step_ms, step_ms
            )
            if histogram.max > largest:
                first = (histogram.max_at - chunk.begin_ms) // step_ms
                window = chunk.values[first : first + size]
                indices = sorted((int(window.argmin()), int(window.argmax())))
                first_ms, last_ms = (
                    histogram.max_at + index * step_ms for index in indices
                )
                self._extremes_ms[k] = first_ms, last_ms

    def result(self) -> list[tuple[SignedHistogram, tuple[int, int]]]:
        """Return each length's histogram, and both times of its largest range [ms]."""
        return list(zip(self._histograms, self._extremes_ms, strict=True))


BothWays = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Largest rise and largest fall: size, and times of the two values [ms]."""


class LargestChanges:
    """The largest rise and fall between any two values at most `n` steps apart.

    A result has the size of the change, and the times of its earlier and later value
    [ms]. Of several equal changes it is the first. The size is 0 if the series never
    rises (or falls), and -1 if it has no values.
    """

    def __init__(self, n: int) -> None:
        self.n_window, self._n = n + 1, n
        self._largest: BothWays = ((-1, 0, 0), (-1, 0, 0))

    def add(self, chunk: Chunk) -> None:
        """Add the changes that end in the new part of a chunk."""
        part = chunk.windows_of(self.n_window)
        (size_up, *_), (size_down, *_) = self._largest
        result = _largest_changes(
            part.values, part.values.size - part.n_new, self._n, size_up, size_down
        ).tolist()
        times = [
            (size, *(part.begin_ms + k * part.step_ms for k in rows))
            for size, *rows in result
        ]
        pairs = zip(self._largest, times, strict=True)
        up, down = (max(old, new, key=lambda change: change[0]) for old, new in pairs)
        self._largest = up, down

    def result(self) -> BothWays:
        """Return the largest rise and the largest fall."""
        return self._largest


@njit()
def _largest_changes(
    values: Int64Array, first: int, n: int, size_up: int, size_down: int
) -> Int64Array:
    """Return the largest rise and fall that end at or after index `first`.

    Each change is a size and two indices. Only changes larger than `size_up` and
    `size_down` are returned. A monotonic queue keeps the minimum of the last n + 1
    values at its head (Lemire 2006).
    """
    result = np.zeros((2, 3), dtype=np.int64)
    n_chunks = -(-values.size // _CHUNK_OF_CHANGES)
    lows = np.empty((2, n_chunks), dtype=np.int64)
    for chunk in range(n_chunks):
        low = high = values[chunk * _CHUNK_OF_CHANGES]
        for value in values[
            chunk * _CHUNK_OF_CHANGES : (chunk + 1) * _CHUNK_OF_CHANGES
        ]:
            low, high = min(low, value), max(high, value)
        lows[0, chunk], lows[1, chunk] = low, -high
    queue = np.empty(min(values.size, _CHUNK_OF_CHANGES + n), dtype=np.int64)
    for way, sign in enumerate((1, -1)):
        largest = max(size_up if way == 0 else size_down, 0)
        for chunk in range(first // _CHUNK_OF_CHANGES, n_chunks):
            begin = max(chunk * _CHUNK_OF_CHANGES - n, 0)
            low = lows[way, begin // _CHUNK_OF_CHANGES : chunk + 1].min()
            if -lows[1 - way, chunk] - low <= largest:
                continue
            head = tail = 0
            for k in range(begin, min((chunk + 1) * _CHUNK_OF_CHANGES, values.size)):
                value = sign * values[k]
                while tail > head and sign * values[queue[tail - 1]] >= value:
                    tail -= 1
                queue[tail] = k
                tail += 1
                if queue[head] < k - n:
                    head += 1
                size = value - sign * values[queue[head]]
                if k >= max(first, chunk * _CHUNK_OF_CHANGES) and size > largest:
                    largest = size
                    result[way, 0], result[way, 1], result[way, 2] = (
                        size,
                        queue[head],
                        k,
                    )
    return result


CLASS_FACTORS = (1, 2, 5, 10, 20, 50, 100)
"""Lower edges of the size classes of swings, in multiples of the threshold."""

_BATCH_SIZE = 4096
"""Maximum number of closed swings per batch."""


class Rainflow:
    """Rainflow counts of the closed swings of at least a threshold [W].

    `classes` are counts by `CLASS_FACTORS`; `largest_ms` are the times of both turning
    points of the largest swing, of equal swings the earliest. Half-cycles of the
    residue are not counted.
    """

    n_window = 1

    def __init__(self, threshold_w: float) -> None:
        if not threshold_w > 0:
            raise ValueError(
                f"the hysteresis threshold must be more than 0 W, found {threshold_w}"
            )
        self.threshold = max(int(np.ceil(threshold_w * QUANTA_PER_W)), 1)
        self.points, self._swings = TurningPoints(self.threshold), SignedHistogram()
        self.classes = np.zeros(len(CLASS_FACTORS), dtype=np.int64)
        self.largest_ms = (0, 0)

    def add(self, chunk: Chunk) -> None:
        """Add the new values of a chunk."""
        for closed_swings in self.points.add(chunk.new, chunk.new_ms, chunk.step_ms):
            if closed_swings.shape[1]:
                self._count(closed_swings)

    def _count(self, closed_swings: Int64Array) -> None:
        """Count closed swings, an array of range and both times (3 × n)."""
        ranges = closed_swings[0]
        row = np.lexsort((closed_swings[1], -ranges))[0]
        from_to_ms = (int(closed_swings[1, row]), int(closed_swings[2, row]))
        largest = self._swings.max if self._swings.count else 0
        if (-int(ranges[row]), from_to_ms) < (-largest, self.largest_ms):
            self.largest_ms = from_to_ms
        self._swings.add(np.ascontiguousarray(ranges), 0, 0)
        edges = self.threshold * np.array(CLASS_FACTORS)
        in_class = np.searchsorted(edges, ranges, side="right") - 1
        self.classes += np.bincount(in_class, minlength=edges.size)

    def result(self) -> SignedHistogram:
        """Return the histogram of the closed swings."""
        return self._swings


class TurningPoints:
    """The open turning points of a series: those that no closed swing contains yet.

    Closed swings below the threshold are removed, but not reported.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._open = np.empty(0, dtype=np.int64)
        self._open_ms = np.empty(0, dtype=np.int64)

    def add(
        self, values: Int64Array, first_ms: int, step_ms: int
    ) -> Iterator[Int64Array]:
        """Add consecutive values from `first_ms` on, and yield the closed swings."""
        times_ms = first_ms + np.arange(values.size, dtype=np.int64) * step_ms
        n_open = self._open.size
        points = np.concatenate([self._open, values])
        points_ms = np.concatenate([self._open_ms, times_ms])
        closed_swings = np.empty((3, _BATCH_SIZE), dtype=np.int64)
        begin = n_open
        while begin < points.size:
            # The stack of open points is at the front of `points`; it never reaches
            # the unread values.
            n_open, begin, n_closed = _close_swings(
                points, points_ms, n_open, begin, self._threshold, closed_swings
            )
            yield closed_swings[:, :n_closed]
        self._open, self._open_ms = points[:n_open].copy(), points_ms[:n_open].copy()

    @property
    def residue(self) -> Int64Array:
        """Open turning points, the last value included."""
        return self._open


@njit()
def _close_swings(
    points: Int64Array,
    points_ms: Int64Array,
    n_open: int,
    begin: int,
    threshold: int,
    closed_swings: Int64Array,
) -> tuple[int, int, int]:
    """List the swings that later points close; move open points to the front.

    The later points are those from index `begin` on.

    The function stops when `closed_swings` might not have space for the swings of one
    more point. It returns the number of open points, the next point to read, and the
    number of closed swings.
    """
    n_closed = 0
    capacity = closed_swings.shape[1]
    for k in range(begin, points.size):
        value, at_ms = points[k], points_ms[k]
        if n_open and points[n_open - 1] == value:
            continue
        if n_open > 1 and (points[n_open - 1] > points[n_open - 2]) == (
            value > points[n_open - 1]
        ):
            # The last point is no turning point: the series continues its direction
            n_open -= 1
        while n_open > 2:
            # A, B, C are the last open points, D is the value: B-C is closed, and its
            # points are removed, if |B - C| <= |A - B| and |B - C| <= |C - D|.
            inner = abs(points[n_open - 1] - points[n_open - 2])
            if inner > abs(points[n_open - 2] - points[n_open - 3]):
                break
            if inner > abs(value - points[n_open - 1]):
                break
            if inner >= threshold:
                if n_closed == capacity:
                    return n_open, k, n_closed
                closed_swings[0, n_closed] = inner
                closed_swings[1, n_closed] = points_ms[n_open - 2]
                closed_swings[2, n_closed] = points_ms[n_open - 1]
                n_closed += 1
            n_open -= 2
        points[n_open], points_ms[n_open] = value, at_ms
        n_open += 1
    return n_open, points.size, n_closed
