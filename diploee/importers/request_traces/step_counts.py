"""Requests counted per step and service, in an array that grows at both ends."""

from __future__ import annotations

import numpy as np

from diploee.tables import Float64Array, Int64Array

MAX_CELLS = 2**25
"""Steps times services: a year of seconds for one service, of minutes for sixty."""

_SPARSE = 4


class StepCounts:
    """Counts of requests; steps are numbered from any origin, earlier ones may come later."""

    def __init__(self) -> None:
        self._first = 0
        self._last = -1
        self._origin = 0
        self._counts = np.zeros((0, 0), dtype=np.int64)

    def span_with(self, steps: Int64Array) -> tuple[int, int]:
        """Return the first and last step if these steps were added."""
        first, last = int(steps.min()), int(steps.max())
        if self._last < self._first:
            return first, last
        return min(first, self._first), max(last, self._last)

    def add(self, steps: Int64Array, service: Int64Array, n_services: int) -> None:
        """Count requests."""
        self._make_room(*self.span_with(steps), n_services)
        low, high = int(steps.min()), int(steps.max())
        width = high - low + 1
        cell = steps - low
        if n_services > 1:
            cell += service * width
        if width * n_services > _SPARSE * cell.size:
            # Few requests over a long span, as in an unsorted trace: touch their cells alone.
            used, n = np.unique(cell, return_counts=True)
            self._counts[used // width, used % width + low - self._origin] += n
            return
        found = np.bincount(cell, minlength=width * n_services).reshape(n_services, width)
        self._counts[:, low - self._origin : high - self._origin + 1] += found

    def result(self, n_services: int) -> tuple[int, Float64Array]:
        """Return the first step and the requests in each, shape (n_services, n_steps)."""
        self._make_room(self._first, self._last, n_services)
        begin = self._first - self._origin
        n_steps = self._last - self._first + 1
        return self._first, self._counts[:, begin : begin + n_steps].astype(np.float64)

    def _make_room(self, first: int, last: int, n_services: int) -> None:
        rows, columns = self._counts.shape
        fits = columns and self._origin <= first and last < self._origin + columns
        if not fits or n_services > rows:
            n_steps = last - first + 1
            spare = min(n_steps // 2, max(MAX_CELLS // n_services - n_steps, 0))
            # A trace grows at its end; one that grew at its front may do so again.
            before = spare if columns and first < self._first else 0
            grown = np.zeros((n_services, n_steps + spare), dtype=np.int64)
            if columns:
                begin = self._first - (first - before)
                used = self._counts[:, self._first - self._origin :][:, : self._width()]
                grown[:rows, begin : begin + used.shape[1]] = used
            self._counts, self._origin = grown, first - before
        self._first, self._last = first, last

    def _width(self) -> int:
        return self._last - self._first + 1
