"""Ramps, ranges and swings: how a series changes.

Closed swings are counted by the four-point rule (Amzallag et al. 1994): of four
successive turning points A, B, C, D the swing B-C is closed where it lies within both
A-B and C-D; it is counted and taken out. What never closes is the residue: half-cycles
in ASTM E1049-85 (5.4.4). Closed swings plus the residue as halves give the ASTM count.
Taking smaller swings out first leaves larger ones as they are, so counting only those
of a threshold or more equals a hysteresis filter before.

Own code instead of the `rainflow` package (which tests compare with): that one is a
Python generator, a hundred times too slow for 0.1 s. Here the open points are the
state, so blocks of any size count the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from diploee.base.jit import njit
from diploee.base.measures.distribution import SignedHistogram
from diploee.base.measures.series import QUANTA_PER_W, Chunk, Signal, SignalChunk
from diploee.base.tables import Float64Array, Int64Array

_CHUNK = 1 << 15  # values per pass, so that the passes stay in cache

_CHUNK_OF_CHANGES = 1 << 12

Array = TypeVar("Array", Int64Array, Float64Array)
_Pick = Callable[[Int64Array, Int64Array], Int64Array]


def ramp_sums(values: Array, n: int) -> Array:
    """Return `n` times all differences of adjacent means of `n` values.

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
    """Return the signal of `ramp_sums`.

    The time is the start of the earlier interval.
    """

    def of(stretch: Chunk) -> SignalChunk:
        part = stretch.windows_of(2 * n)
        return SignalChunk(ramp_sums(part.values, n), part.begin_ms)

    return of


def differences(n: int) -> Signal:
    """Return the signal of each value less the one `n` before.

    The time is the earlier one's.
    """

    def of(stretch: Chunk) -> SignalChunk:
        part = stretch.windows_of(n + 1)
        return SignalChunk(part.values[n:] - part.values[:-n], part.begin_ms)

    return of


def ranges(n: int) -> Signal:
    """Return the signal of `rolling_ranges` over `n` values.

    The time is the window's start.
    """

    def of(stretch: Chunk) -> SignalChunk:
        result = rolling_ranges(stretch, [n])[0]
        return SignalChunk(
            result, stretch.end_ms - (result.size + n - 1) * stretch.step_ms
        )

    return of


def rolling_ranges(stretch: Chunk, sizes: list[int]) -> list[Int64Array]:
    """Return the largest range of the windows that end in the new part, by size.

    Minima and maxima over w values come from those over powers of two (two overlapping
    ones cover any window), a handful of vector passes for all windows together;
    `scipy.ndimage.maximum_filter1d` takes several times as long at 0.1 s. Sizes are
    ascending.
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
    """Return rolling minima or maxima by ascending window size, n - size + 1 each."""
    result, level, width = [], values, 1
    for size in sizes:
        # level[i] is the extreme of values[i : i + width]; any size up to 2 width is
        # covered by two of them, which may overlap.
        while 2 * width <= size:
            level = pick(level[:-width], level[width:])
            width *= 2
        gap = size - width
        result.append(pick(level[: level.size - gap], level[gap:]) if gap else level)
    return result


class Magnitudes:
    """The sizes of what a signal gives at every step, such as ramps."""

    def __init__(self, signal: Signal, n_window: int) -> None:
        self.n_window, self._signal, self._seen = n_window, signal, SignedHistogram()

    def add(self, stretch: Chunk) -> None:
        """Count the values that end in the new part of a stretch."""
        if (result := self._signal(stretch)) is not None:
            self._seen.add(result.values, result.first_ms, stretch.step_ms)

    def result(self) -> SignedHistogram:
        """Return their histogram, and the times of the extremes [ms]."""
        return self._seen


class RollingRanges:
    """The ranges within windows of several lengths, in values and ascending."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes, self.n_window = sizes, max(sizes, default=1)
        self._seen = [SignedHistogram() for _ in sizes]
        self._extremes_ms = [(0, 0)] * len(sizes)

    def add(self, stretch: Chunk) -> None:
        """Add the windows that end in the new part of a stretch."""
        if not self._sizes:
            return
        result, step_ms = rolling_ranges(stretch, self._sizes), stretch.step_ms
        for k, (size, seen) in enumerate(zip(self._sizes, self._seen, strict=True)):
            of_size = result[k]
            largest = max(seen.max, 0)  # the last range ends with the stretch
            seen.add(
                of_size, stretch.end_ms - (of_size.size + size - 1) * step_ms, step_ms
            )
            if seen.max > largest:
                first = (seen.max_at - stretch.begin_ms) // step_ms
                window = stretch.values[first : first + size]
                at = sorted((int(window.argmin()), int(window.argmax())))
                first_ms, last_ms = (seen.max_at + place * step_ms for place in at)
                self._extremes_ms[k] = first_ms, last_ms

    def result(self) -> list[tuple[SignedHistogram, tuple[int, int]]]:
        """Return each length's histogram, and the times of its largest range [ms]."""
        return list(zip(self._seen, self._extremes_ms, strict=True))


BothWays = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Size, and the times [ms] of the earlier and the later value, of a rise and of a fall."""  # noqa: E501


class LargestChanges:
    """The largest rise and fall between any two values at most `n` apart.

    A result holds size, and the times of the earlier and the later value [ms], of equal
    ones the first; the size is 0 where the series does not rise, or fall, and -1
    without values.
    """

    def __init__(self, n: int) -> None:
        self.n_window, self._n = n + 1, n
        self._largest: BothWays = ((-1, 0, 0), (-1, 0, 0))

    def add(self, stretch: Chunk) -> None:
        """Add the changes that end in the new part of a stretch."""
        part = stretch.windows_of(self.n_window)
        (size_up, *_), (size_down, *_) = self._largest
        result = _largest_changes(
            part.values, part.values.size - part.n_new, self._n, size_up, size_down
        ).tolist()
        times = [
            (size, *(part.begin_ms + k * part.step_ms for k in rows))
            for size, *rows in result
        ]
        pairs = zip(self._largest, times, strict=True)
        up, down = (max(old, new, key=lambda of: of[0]) for old, new in pairs)
        self._largest = up, down

    def result(self) -> BothWays:
        """Return the largest rise and the largest fall."""
        return self._largest


@njit()
def _largest_changes(
    values: Int64Array, first: int, n: int, size_up: int, size_down: int
) -> Int64Array:
    """Return the largest rise and fall that end from `first` on.

    Size, and the two indices. Those up to the given sizes are left out. Of a chunk
    whose extremes, with those of the n values before, allow no larger one, nothing else
    is looked at; in others a monotonic queue has the least of the last n + 1 values at
    its head (Lemire 2006).
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
"""Lower edges of the classes of swings, as multiples of the threshold; the last is
open."""

_AT_ONCE = 4096
"""Closed swings that are given at a time."""


class Rainflow:
    """Counts the closed swings of at least a threshold [W], the hysteresis.

    `classes` counts them by `CLASS_FACTORS`, `largest_ms` are the two turning points of
    the largest, of equal ones the earliest; half-cycles of the residue of `points` are
    no events.
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

    def add(self, stretch: Chunk) -> None:
        """Add the new values of a stretch."""
        for closed in self.points.add(stretch.new, stretch.new_ms, stretch.step_ms):
            if closed.shape[1]:
                self._count(closed)

    def _count(self, closed: Int64Array) -> None:
        ranges = closed[0]
        at = np.lexsort((closed[1], -ranges))[0]
        from_to_ms = (int(closed[1, at]), int(closed[2, at]))
        largest = self._swings.max if self._swings.count else 0
        if (-int(ranges[at]), from_to_ms) < (-largest, self.largest_ms):
            self.largest_ms = from_to_ms
        self._swings.add(np.ascontiguousarray(ranges), 0, 0)
        edges = self.threshold * np.array(CLASS_FACTORS)
        in_class = np.searchsorted(edges, ranges, side="right") - 1
        self.classes += np.bincount(in_class, minlength=edges.size)

    def result(self) -> SignedHistogram:
        """Return the histogram of the closed swings."""
        return self._swings


class TurningPoints:
    """The turning points of a series that no closed swing has taken out yet.

    Swings below the threshold are taken out, but not given.
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
        closed = np.empty((3, _AT_ONCE), dtype=np.int64)
        begin = n_open
        while begin < points.size:
            # The stack lies at the front of `points`; it never overtakes what is still
            # to be read.
            n_open, begin, n_closed = _close(
                points, points_ms, n_open, begin, self._threshold, closed
            )
            yield closed[:, :n_closed]
        self._open, self._open_ms = points[:n_open].copy(), points_ms[:n_open].copy()

    @property
    def residue(self) -> Int64Array:
        """The open turning points, with the last value."""
        return self._open


@njit()
def _close(
    points: Int64Array,
    points_ms: Int64Array,
    n_open: int,
    begin: int,
    threshold: int,
    closed: Int64Array,
) -> tuple[int, int, int]:
    """Read points from `begin`, keep open ones in front, and list closed swings.

    Stops when `closed` may not hold the swings of one more point. Returns the number of
    open points, where to go on, and the number of closed swings.
    """
    n_closed = 0
    capacity = closed.shape[1]
    for k in range(begin, points.size):
        value, at_ms = points[k], points_ms[k]
        if n_open and points[n_open - 1] == value:
            continue
        if n_open > 1 and (points[n_open - 1] > points[n_open - 2]) == (
            value > points[n_open - 1]
        ):
            # The last point was no turning point: the series goes on the same way
            n_open -= 1
        while n_open > 2:
            # A, B, C are the last open points, D the value: B-C is closed, and leaves
            # with its points, where |B - C| <= |A - B| and |B - C| <= |C - D|.
            inner = abs(points[n_open - 1] - points[n_open - 2])
            if inner > abs(points[n_open - 2] - points[n_open - 3]):
                break
            if inner > abs(value - points[n_open - 1]):
                break
            if inner >= threshold:
                if n_closed == capacity:
                    return n_open, k, n_closed
                closed[0, n_closed] = inner
                closed[1, n_closed] = points_ms[n_open - 2]
                closed[2, n_closed] = points_ms[n_open - 1]
                n_closed += 1
            n_open -= 2
        points[n_open], points_ms[n_open] = value, at_ms
        n_open += 1
    return n_open, points.size, n_closed
