"""Where a sequence of values is beyond a limit: events, their duration, the worst of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from diploee.tables import Float64Array, Int64Array

N_WORST = 5

ROUNDING = 1e-9
"""A value just at the limit keeps it, whatever the last digit of a quotient."""


@dataclass(frozen=True)
class Excess:
    """One unbroken stretch of values beyond the limit, its largest value and when that is first."""

    begin_ms: int
    end_ms: int
    worst: float
    worst_ms: int

    def joined(self, later: Excess) -> Excess:
        """Return this event and the one that goes on where it ends as one."""
        worst = max((self, later), key=lambda event: (event.worst, -event.worst_ms))
        return Excess(self.begin_ms, later.end_ms, worst.worst, worst.worst_ms)


class Exceedance:
    """Counts events in values that come in consecutive blocks, one every `stride_ms`.

    A value above the limit by more than rounding is a violation, and counts for one stride.
    """

    def __init__(self, limit: float, stride_ms: int) -> None:
        self.limit = limit
        self._beyond = limit + abs(limit) * ROUNDING
        self.stride_ms = stride_ms
        self._open: Excess | None = None
        self._worst: list[tuple[float, int, Excess]] = []
        self._n_closed = 0
        self.n_values = 0
        self.n_beyond = 0
        self.largest, self.largest_ms = -np.inf, 0

    def add(self, values: Float64Array, first_ms: int, edges_ms: Int64Array | None = None) -> None:
        """Add values, the first at `first_ms`; from edge to edge where they are not one stride."""
        self.n_values += values.size
        if values.size and (largest := float(values.max())) > self.largest:
            at = int(values.argmax())
            self.largest = largest
            self.largest_ms = first_ms + at * self.stride_ms
            if edges_ms is not None:
                self.largest_ms = int(edges_ms[at])
        beyond = values > self._beyond
        n_beyond = int(np.count_nonzero(beyond))
        self.n_beyond += n_beyond
        if (
            self._open is not None
            and values.size
            and (not beyond[0] or self._open.end_ms != first_ms)
        ):
            self._close()
        if not n_beyond:
            return
        if edges_ms is None:
            edges_ms = first_ms + np.arange(values.size + 1) * self.stride_ms
        spans = np.flatnonzero(np.diff(beyond, prepend=False, append=False)).reshape(-1, 2)
        # The first may go on an open event, the last stays open; of the rest the worst matter.
        self._see(self._event(values, edges_ms, spans[0]))
        inner = spans[1:-1]
        if len(inner):
            self._close()
            self._n_closed += len(inner)
            worst = np.maximum.reduceat(values, inner.ravel())[::2]
            for k in np.lexsort((inner[:, 0], -worst))[:N_WORST]:
                self._note(self._event(values, edges_ms, inner[k]))
        if len(spans) > 1:
            self._see(self._event(values, edges_ms, spans[-1]))

    def _event(self, values: Float64Array, edges_ms: Int64Array, span: Int64Array) -> Excess:
        begin, end = span
        worst = int(begin + np.argmax(values[begin:end]))
        begin_ms, end_ms, worst_ms = (int(edges_ms[k]) for k in (begin, end, worst))
        return Excess(begin_ms, end_ms, float(values[worst]), worst_ms)

    def _see(self, event: Excess) -> None:
        if self._open is not None and self._open.end_ms == event.begin_ms:
            self._open = self._open.joined(event)
            return
        self._close()
        self._open = event

    def _close(self) -> None:
        if self._open is None:
            return
        event, self._open = self._open, None
        self._n_closed += 1
        self._note(event)

    def _note(self, event: Excess) -> None:
        """Keep a closed event if it is among the worst."""
        heapq.heappush(self._worst, (event.worst, -event.begin_ms, event))
        if len(self._worst) > N_WORST:
            heapq.heappop(self._worst)

    @property
    def n_events(self) -> int:
        """Number of events."""
        return self._n_closed + (self._open is not None)

    @property
    def duration_ms(self) -> int:
        """Total time beyond the limit [ms]."""
        return self.n_beyond * self.stride_ms

    def worst(self) -> list[Excess]:
        """Return the worst events, the worst first."""
        events = [event for _, _, event in self._worst]
        if self._open is not None:
            events.append(self._open)
        return sorted(events, key=lambda event: (-event.worst, event.begin_ms))[:N_WORST]
