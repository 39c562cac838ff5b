"""Sums over clock intervals in the facility's local time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from diploee.clock import SteadySpan, WallClock
from diploee.measures.series import QUANTA_PER_MW, Stretch
from diploee.tables import Float64Array, Int64Array


class Intervals(NamedTuple):
    """Clock intervals: their starts [ms since the run's start], sums [quanta] and values."""

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

    Where the clock is changed, an interval that holds the change is as long as it takes: a day has
    23 or 25 hours. One that is no longer than the hour put back is counted both times. Whole ones
    need `WallClock.why_not_aligned` to be empty.
    """

    n_window = 1

    def __init__(self, clock: WallClock, interval_ms: int, reactive: bool = False) -> None:
        self.clock, self.interval_ms, self._reactive = clock, interval_ms, reactive
        self._last, self._index = SteadySpan(0, 0, 0), -1
        self._parts: list[tuple[Int64Array, Any]] = []

    def add(self, stretch: Stretch) -> None:
        """Add the new values of a stretch."""
        values = stretch.reactive if self._reactive else stretch.new
        assert values is not None
        t0_ms, step_ms, length_ms = stretch.new_ms, stretch.step_ms, self.interval_ms
        for span in self.clock.steady_spans(t0_ms, stretch.end_ms):
            rows = slice(*(-(-(t - t0_ms) // step_ms) for t in (span.begin_ms, span.end_ms)))
            n = rows.stop - rows.start
            if not n:
                continue
            local_ms = t0_ms + rows.start * step_ms + span.shift_ms
            first, last = local_ms // length_ms, (local_ms + (n - 1) * step_ms) // length_ms
            edges = -((local_ms - np.arange(first, last + 1) * length_ms) // step_ms)
            starts_ms = t0_ms + (rows.start + edges) * step_ms
            edges[0] = 0
            counts = np.diff(edges, append=n)
            whole = np.full(counts.size, length_ms // step_ms)
            sums = np.add.reduceat(values[rows], edges)
            self._append(np.stack([starts_ms, counts, whole]), sums, span, local_ms)
            self._index, self._last = int(last), span

    def _append(self, part: Int64Array, sums: Any, span: SteadySpan, local_ms: int) -> None:
        """Join what follows on the last interval; `part` has starts, counts and whole counts."""
        step_ms = self.clock.step_ms
        offset, n = local_ms // step_ms, self.interval_ms // step_ms
        goes_on = self._index == local_ms // self.interval_ms
        if self._parts and self._last.shift_ms != span.shift_ms:  # the clock was changed
            put_back_ms, before = self._last.shift_ms - span.shift_ms, self._parts[-1][0]
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

    def seen(self) -> Intervals:
        """Return all intervals, those that were seen in part among them."""
        (starts_ms, counts, _), sums = self._joined()
        return Intervals(starts_ms, sums, counts)

    def result(self) -> Intervals:
        """Return the whole intervals."""
        (starts_ms, counts, n_whole), sums = self._joined()
        whole = counts == n_whole
        return Intervals(starts_ms[whole], sums[whole], counts[whole])
