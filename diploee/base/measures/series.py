"""The contract of a measure, power as quanta of 1/64 W, and sums over intervals.

Sums of float64 depend on where a block begins; sums of integers do not. Differences of
running sums stay right even where the running sum itself has wrapped around (two's
complement).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from diploee.base.clock import SteadySpan, WallClock
from diploee.base.errors import Brief
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import W_PER_MW

QUANTA_PER_W = 64.0
QUANTA_PER_MW = QUANTA_PER_W * W_PER_MW

MAX_POWER_W = 1e12
"""Largest power that an hour of 0.1 s values can sum without overflow, with a margin
[W]."""

MAX_DAY_POWER_W = 1e11
"""The same for a day of 0.1 s values [W]."""

_SUMMED = 1 << 20
"""Values that are summed at a time: as many of the largest power fit an integer."""


def to_quanta(power_w: Float64Array, largest_w: float = MAX_POWER_W) -> Int64Array:
    """Return power in quanta of 1/64 W, rounded.

    Parameters
    ----------
    power_w : numpy.ndarray
        Power [W].
    largest_w : float
        Largest magnitude that is allowed [W].

    Raises
    ------
    ValueError
        For no number, or one beyond the largest.
    """
    if power_w.size and not np.abs(power_w).max() <= largest_w:
        raise ValueError(f"power must be finite and within {largest_w:g} W")
    quanta = power_w * QUANTA_PER_W
    np.rint(quanta, out=quanta)
    return quanta.astype(np.int64)


def to_mw(quanta: float, n_summed: int = 1) -> float:
    """Return a sum of values in quanta as their mean [MW].

    Parameters
    ----------
    quanta : float
        Sum [1/64 W].
    n_summed : int
        Number of values in it.
    """
    return float(quanta) / (QUANTA_PER_MW * n_summed)


def sum_quanta(power_w: Float64Array) -> tuple[int, int]:
    """Return the sum of power in quanta, and that of what is above 0.

    Each value as `to_quanta`.
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

    # Power in quanta, int64 (or in W, float64): `h` earlier values, then the new ones
    values: Any
    n_new: int  # number of new values
    end_ms: int  # end of the last value [ms since the start]
    step_ms: int  # interval of the values [ms]
    reactive: Int64Array | None = None  # reactive power of the new values [quanta]

    def windows_of(self, n_window: int) -> Chunk:
        """Return the values that windows of `n_window` ending in the new part need."""
        n_needed = min(self.values.size, self.n_new + n_window - 1)
        needed = self.values[self.values.size - n_needed :]
        return Chunk(needed, self.n_new, self.end_ms, self.step_ms)

    @property
    def begin_ms(self) -> int:
        """Start of the first value [ms since the start]."""
        return self.end_ms - int(self.values.size) * self.step_ms

    @property
    def new(self) -> Any:
        """The new values."""
        return self.values[self.values.size - self.n_new :]

    @property
    def new_ms(self) -> int:
        """Start of the new values [ms since the start]."""
        return self.end_ms - self.n_new * self.step_ms


class SignalChunk(NamedTuple):
    """Measure of a signal over a stretch, the first at `first_ms`.

    From edge to edge if given.
    """

    values: Any
    first_ms: int
    edges_ms: Int64Array | None = None


Signal = Callable[[Chunk], SignalChunk | None]
"""Gives the values that end in the new part of a stretch, such as its ramps."""


def power(stretch: Chunk) -> SignalChunk:
    """Return the signal of the power itself [quanta]."""
    return SignalChunk(stretch.new, stretch.new_ms)


class Measure(Protocol):
    """Takes a series stretch by stretch.

    Where it is cut changes nothing of the result.
    """

    @property
    def n_window(self) -> int:
        """Values that one of its own reaches back over, the last one included."""

    def add(self, stretch: Chunk) -> None:
        """Take in what ends in the new part of the next stretch."""

    def result(self) -> Any:
        """Return what was measured of all that was added."""


class MeasureRunner:
    """Passes a series that comes in pieces to measures."""

    def __init__(self, step_ms: int, measures: Iterable[Measure]) -> None:
        self._step_ms, self._measures = step_ms, list(measures)
        self._n_kept = (
            max((measure.n_window for measure in self._measures), default=1) - 1
        )
        self._kept, self._end_ms = np.empty(0, dtype=np.int64), 0

    def add(
        self, begin_ms: int, quanta: Int64Array, since_ms: int = 0, reactive: Any = None
    ) -> int:
        """Add a piece from `begin_ms` on, less what is before `since_ms`.

        Return how many are left. One that does not follow on the last is measured as a
        series of its own.
        """
        n_out = min(max(-((begin_ms - since_ms) // self._step_ms), 0), quanta.size)
        new, end_ms = quanta[n_out:], begin_ms + quanta.size * self._step_ms
        if not new.size:
            return 0
        if self._end_ms != begin_ms + n_out * self._step_ms:
            self._kept = new[:0]
        values, self._end_ms = np.concatenate([self._kept, new]), end_ms
        reactive = None if reactive is None else reactive[n_out:]
        for measure in self._measures:
            measure.add(Chunk(values, new.size, end_ms, self._step_ms, reactive))
        self._kept = values[max(values.size - self._n_kept, 0) :].copy()
        return int(new.size)


class Intervals(NamedTuple):
    """Clock intervals: starts [ms from the run's start], sums [quanta], values."""

    starts_ms: Int64Array
    sums: Any
    counts: Int64Array

    @property
    def mean_mw(self) -> Float64Array:
        """Their means [MW]."""
        means: Float64Array = self.sums / (QUANTA_PER_MW * self.counts)
        return means


class ClockSums:
    """Sums of a series, or of the `reactive` power, over clock intervals.

    Where the clock is changed, an interval that holds the change is as long as it
    takes: a day has 23 or 25 hours. One that is no longer than the hour put back is
    counted both times. Whole ones need `WallClock.why_not_aligned` to be empty.
    """

    n_window = 1

    def __init__(
        self, clock: WallClock, interval_ms: int, reactive: bool = False
    ) -> None:
        self.clock, self.interval_ms, self._reactive = clock, interval_ms, reactive
        self._last, self._index = SteadySpan(0, 0, 0), -1
        self._parts: list[tuple[Int64Array, Any]] = []

    def add(self, stretch: Chunk) -> None:
        """Add the new values of a stretch."""
        values = stretch.reactive if self._reactive else stretch.new
        assert values is not None
        t0_ms, step_ms, length_ms = stretch.new_ms, stretch.step_ms, self.interval_ms
        for span in self.clock.steady_spans(t0_ms, stretch.end_ms):
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
            self._append(np.stack([starts_ms, counts, whole]), sums, span, local_ms)
            self._index, self._last = int(last), span

    def _append(
        self, part: Int64Array, sums: Any, span: SteadySpan, local_ms: int
    ) -> None:
        """Join what follows on the last interval.

        `part` has starts, counts and whole counts.
        """
        step_ms = self.clock.step_ms
        offset, n = local_ms // step_ms, self.interval_ms // step_ms
        goes_on = self._index == local_ms // self.interval_ms
        # The clock was changed
        if self._parts and self._last.shift_ms != span.shift_ms:
            put_back_ms, before = (
                self._last.shift_ms - span.shift_ms,
                self._parts[-1][0],
            )
            goes_on &= self.interval_ms > put_back_ms
            if goes_on:
                before[2, -1] += put_back_ms // step_ms
            else:
                before[2, -1] -= -(offset + put_back_ms // step_ms) % n
                part[0, 0] += offset % n * step_ms
                part[2, 0] -= offset % n
        if self._parts and goes_on:
            self._parts[-1][0][1, -1] += part[1, 0]
            self._parts[-1][1][-1] += sums[0]
            part, sums = part[:, 1:], sums[1:]
        if sums.size:
            self._parts.append((part.copy(), sums.copy()))
        if len(self._parts) > 1024:
            self._parts = [self._joined()]

    def _joined(self) -> tuple[Int64Array, Any]:
        if not self._parts:
            return np.empty((3, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        parts, sums = zip(*self._parts, strict=True)
        return np.concatenate(parts, axis=1), np.concatenate(sums)

    def result(self) -> Intervals:
        """Return the whole intervals."""
        (starts_ms, counts, n_whole), sums = self._joined()
        whole = counts == n_whole
        return Intervals(starts_ms[whole], sums[whole], counts[whole])
