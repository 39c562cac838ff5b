"""Streaming measures of a series, fixed-point power (1/64 W), and clock-interval sums.

Power is an integer number of quanta of 1/64 W, because sums of integers do not depend
on how a series is cut into blocks, whereas sums of float64 do. Differences of
cumulative sums stay correct even if the sum itself overflows (two's complement).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from diploee.base.clock import ConstantOffsetSpan, WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import W_PER_MW

QUANTA_PER_W = 64.0
QUANTA_PER_MW = QUANTA_PER_W * W_PER_MW

MAX_POWER_W = 1e12
"""Maximum power [W]: an hour of 0.1 s values sums without overflow, with a margin."""

MAX_DAY_POWER_W = 1e11
"""Maximum power [W] for which a day of 0.1 s values sums without overflow."""

_SUMMED = 1 << 20
"""Number of values per partial sum; the sum fits an integer at the maximum power."""


def to_quanta(power_w: Float64Array, largest_w: float = MAX_POWER_W) -> Int64Array:
    """Return power as integer quanta of 1/64 W, rounded to the nearest.

    Parameters
    ----------
    power_w : numpy.ndarray
        Power [W].
    largest_w : float
        Maximum allowed magnitude [W].

    Raises
    ------
    InputError
        If a value is NaN or its magnitude exceeds the maximum.
    """
    if power_w.size and not np.abs(power_w).max() <= largest_w:
        raise InputError(
            f"power must be finite and within {largest_w:g} W; check the sizes of "
            "loads and stages"
        )
    quanta = power_w * QUANTA_PER_W
    np.rint(quanta, out=quanta)
    return quanta.astype(np.int64)


def to_mw(quanta: float, n_summed: int = 1) -> float:
    """Convert a sum of `n_summed` powers in quanta to their mean [MW].

    Parameters
    ----------
    quanta : float
        Sum [1/64 W].
    n_summed : int
        Number of summed values.
    """
    return float(quanta) / (QUANTA_PER_MW * n_summed)


def sum_quanta(power_w: Float64Array) -> tuple[int, int]:
    """Return the sum of power and the sum of its positive values, both in quanta.

    Each value is rounded as by `to_quanta`.
    """
    total = positive = 0
    for begin in range(0, power_w.size, _SUMMED):
        quanta = to_quanta(power_w[begin : begin + _SUMMED], MAX_DAY_POWER_W)
        total, positive = (
            total + int(quanta.sum()),
            positive + int(quanta[quanta > 0].sum()),
        )
    return total, positive


@dataclass(frozen=True, eq=False)
class Chunk(Brief):
    """Consecutive values of a series, of which the last `n_new` are new."""

    # Power in quanta, int64 (or in W, float64): earlier values, then the new ones
    values: Any
    n_new: int  # number of new values
    end_ms: int  # end of the last value [ms since the start]
    step_ms: int  # interval of the values [ms]
    reactive: Int64Array | None = None  # reactive power of the new values [quanta]

    def windows_of(self, n_window: int) -> Chunk:
        """Return the chunk without the values that no window of new values needs."""
        n_needed = min(self.values.size, self.n_new + n_window - 1)
        needed = self.values[self.values.size - n_needed :]
        return Chunk(needed, self.n_new, self.end_ms, self.step_ms)

    @property
    def begin_ms(self) -> int:
        """Start of the first value [ms since the start]."""
        return self.end_ms - int(self.values.size) * self.step_ms

    @property
    def new(self) -> Any:
        """New values of the chunk, without those kept for windows."""
        return self.values[self.values.size - self.n_new :]

    @property
    def new_ms(self) -> int:
        """Start of the new values [ms since the start]."""
        return self.end_ms - self.n_new * self.step_ms


class SignalChunk(NamedTuple):
    """Values of a signal over a chunk, the first at `first_ms`.

    If `edges_ms` is set, value k covers the time from edge k to edge k + 1; otherwise
    each value covers one step.
    """

    values: Any
    first_ms: int
    edges_ms: Int64Array | None = None


Signal = Callable[[Chunk], SignalChunk | None]
"""Function that returns a signal's values, such as ramps, that end in the new part."""


def power(chunk: Chunk) -> SignalChunk:
    """Return the power itself as a signal: the new values of a chunk [quanta]."""
    return SignalChunk(chunk.new, chunk.new_ms)


class Measure(Protocol):
    """A statistic of a series that is added chunk by chunk.

    The result does not depend on the boundaries of the chunks.
    """

    @property
    def n_window(self) -> int:
        """Number of latest values that the measure needs, the new one included."""

    def add(self, chunk: Chunk) -> None:
        """Add the values that end in the new part of the next chunk."""

    def result(self) -> Any:
        """Return the statistic of all values added so far."""


class MeasureRunner:
    """Passes consecutive blocks of a series to measures, with the history they need."""

    def __init__(self, step_ms: int, measures: Iterable[Measure]) -> None:
        self._step_ms, self._measures = step_ms, list(measures)
        self._n_history = (
            max((measure.n_window for measure in self._measures), default=1) - 1
        )
        self._history, self._end_ms = np.empty(0, dtype=np.int64), 0

    def add(
        self, begin_ms: int, quanta: Int64Array, since_ms: int = 0, reactive: Any = None
    ) -> int:
        """Add the values of a block from `since_ms` on; the block starts at `begin_ms`.

        Returns the number of values added. A block that does not follow the previous
        one directly is measured as a new series.
        """
        n_skipped = min(max(-((begin_ms - since_ms) // self._step_ms), 0), quanta.size)
        new, end_ms = quanta[n_skipped:], begin_ms + quanta.size * self._step_ms
        if not new.size:
            return 0
        if self._end_ms != begin_ms + n_skipped * self._step_ms:
            self._history = new[:0]
        values, self._end_ms = np.concatenate([self._history, new]), end_ms
        reactive = None if reactive is None else reactive[n_skipped:]
        for measure in self._measures:
            measure.add(Chunk(values, new.size, end_ms, self._step_ms, reactive))
        self._history = values[max(values.size - self._n_history, 0) :].copy()
        return int(new.size)


class Intervals(NamedTuple):
    """Clock intervals: starts [ms since the run's start], sums [quanta], counts."""

    starts_ms: Int64Array
    sums: Any
    counts: Int64Array

    @property
    def mean_mw(self) -> Float64Array:
        """Mean power of each interval [MW]."""
        means: Float64Array = self.sums / (QUANTA_PER_MW * self.counts)
        return means


class ClockSums:
    """Sums of active or reactive power by local clock interval.

    On a daylight-saving change an interval is longer or shorter: a day has 23 or 25
    hours. An interval no longer than the clock shift occurs twice. Only complete
    intervals are in the result; `WallClock.alignment_problem` must be empty.
    """

    n_window = 1

    def __init__(
        self, clock: WallClock, interval_ms: int, reactive: bool = False
    ) -> None:
        self.clock, self.interval_ms, self._reactive = clock, interval_ms, reactive
        self._last, self._index = ConstantOffsetSpan(0, 0, 0), -1
        self._parts: list[tuple[Int64Array, Any]] = []

    def add(self, chunk: Chunk) -> None:
        """Add the new values of a chunk."""
        values = chunk.reactive if self._reactive else chunk.new
        assert values is not None
        t0_ms, step_ms, length_ms = chunk.new_ms, chunk.step_ms, self.interval_ms
        for span in self.clock.constant_offset_spans(t0_ms, chunk.end_ms):
            rows = slice(
                *(-(-(t - t0_ms) // step_ms) for t in (span.begin_ms, span.end_ms))
            )
            n = rows.stop - rows.start
            if not n:
                continue
            local_ms = t0_ms + rows.start * step_ms + span.shift_ms
            first, last = (
                local_ms // length_ms,
                (local_ms + (n - 1) * step_ms) // length_ms,
            )
            edges = -((local_ms - np.arange(first, last + 1) * length_ms) // step_ms)
            starts_ms = t0_ms + (rows.start + edges) * step_ms
            edges[0] = 0
            counts = np.diff(edges, append=n)
            whole = np.full(counts.size, length_ms // step_ms)
            sums = np.add.reduceat(values[rows], edges)
            self._append_part(
                np.stack([starts_ms, counts, whole]), sums, span, local_ms
            )
            self._index, self._last = int(last), span

    def _append_part(
        self, part: Int64Array, sums: Any, span: ConstantOffsetSpan, local_ms: int
    ) -> None:
        """Append the intervals of a part; its first interval may continue the last one.

        The rows of `part` (3 × n) are the starts [ms], the counts of values, and the
        counts of complete intervals.
        """
        step_ms = self.clock.step_ms
        offset, n = local_ms // step_ms, self.interval_ms // step_ms
        is_continued = self._index == local_ms // self.interval_ms
        # The UTC offset changed
        if self._parts and self._last.shift_ms != span.shift_ms:
            put_back_ms, previous = (
                self._last.shift_ms - span.shift_ms,
                self._parts[-1][0],
            )
            is_continued &= self.interval_ms > put_back_ms
            if is_continued:
                previous[2, -1] += put_back_ms // step_ms
            else:
                previous[2, -1] -= -(offset + put_back_ms // step_ms) % n
                part[0, 0] += offset % n * step_ms
                part[2, 0] -= offset % n
        if self._parts and is_continued:
            self._parts[-1][0][1, -1] += part[1, 0]
            self._parts[-1][1][-1] += sums[0]
            part, sums = part[:, 1:], sums[1:]
        if sums.size:
            self._parts.append((part.copy(), sums.copy()))
        if len(self._parts) > 1024:
            self._parts = [self._concatenate_parts()]

    def _concatenate_parts(self) -> tuple[Int64Array, Any]:
        """Return all parts and their sums concatenated."""
        if not self._parts:
            return np.empty((3, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        parts, sums = zip(*self._parts, strict=True)
        return np.concatenate(parts, axis=1), np.concatenate(sums)

    def result(self) -> Intervals:
        """Return the starts, sums and counts of the complete clock intervals."""
        (starts_ms, counts, n_whole), sums = self._concatenate_parts()
        whole = counts == n_whole
        return Intervals(starts_ms[whole], sums[whole], counts[whole])
