"""Counts of the requests of a trace by service, step and token length.

Every length up to 128 has a bin of its own, longer ones bins that are 1 % wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diploee.base.errors import InputError, did_you_mean, one_of
from diploee.base.tables import Float64Array, Int64Array
from diploee.importers.request_traces.rows import LARGEST_TOKENS, RequestRows
from diploee.loads.services.request_trace import TokenLengths

MAX_SERVICES = 1_000
ALL_SERVICES = "all"
UNKNOWN_SERVICE = "unknown"
MAX_CELLS = 2**25
"""Steps times services: a year of seconds for one service, of minutes for sixty."""
_SPARSE = 4

N_SINGLE = 128
BINS_PER_OCTAVE = 64
_TABLE_SIZE = 2**16


def _edges() -> Int64Array:
    n_octaves = int(np.log2((LARGEST_TOKENS + 1) / N_SINGLE))
    growth = 2.0 ** (np.arange(n_octaves * BINS_PER_OCTAVE + 1) / BINS_PER_OCTAVE)
    wide = np.rint(N_SINGLE * growth).astype(np.int64)
    return np.unique(np.concatenate((np.arange(N_SINGLE, dtype=np.int64), wide)))


EDGES: Int64Array = _edges()
"""Bin edges [tokens], from 0 to 2^31."""

_BIN_OF = (np.searchsorted(EDGES, np.arange(_TABLE_SIZE), side="right") - 1).astype(
    np.int64
)


def bins_of(tokens: Int64Array) -> Int64Array:
    """Return the bin of each length; lengths are from 0 to `LARGEST_TOKENS`."""
    if tokens.max(initial=0) < _TABLE_SIZE:
        return np.asarray(_BIN_OF[tokens], dtype=np.int64)
    return np.asarray(np.searchsorted(EDGES, tokens, side="right") - 1, dtype=np.int64)


class TokenCounts:
    """Growing histograms of the lengths of several services."""

    def __init__(self) -> None:
        self._n_requests = np.zeros((0, EDGES.size - 1), dtype=np.int64)
        self._total_tokens = np.zeros(0, dtype=np.int64)

    def add(self, tokens: Int64Array, service: Int64Array, n_services: int) -> None:
        """Add lengths."""
        self._widen(n_services)
        n_bins = EDGES.size - 1
        found = np.bincount(
            bins_of(tokens) + service * n_bins, minlength=n_services * n_bins
        )
        self._n_requests += found.reshape(n_services, n_bins)
        # Exact: a block's sums stay far below 2^53.
        sums = np.bincount(service, weights=tokens, minlength=n_services)
        self._total_tokens += sums.astype(np.int64)

    def lengths(self, n_services: int) -> tuple[TokenLengths, ...]:
        """Return the lengths of each service."""
        self._widen(n_services)
        return tuple(
            TokenLengths(EDGES, n_requests, int(total))
            for n_requests, total in zip(
                self._n_requests, self._total_tokens, strict=True
            )
        )

    def _widen(self, n_services: int) -> None:
        more = n_services - self._total_tokens.size
        if more > 0:
            self._n_requests = np.pad(self._n_requests, ((0, more), (0, 0)))
            self._total_tokens = np.pad(self._total_tokens, (0, more))


class StepCounts:
    """Counts of requests in steps numbered from any origin, in any order."""

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
            # Few requests over a long span, as in an unsorted trace: touch their cells
            # alone.
            used, n = np.unique(cell, return_counts=True)
            self._counts[used // width, used % width + low - self._origin] += n
            return
        found = np.bincount(cell, minlength=width * n_services).reshape(
            n_services, width
        )
        self._counts[:, low - self._origin : high - self._origin + 1] += found

    def result(self, n_services: int) -> tuple[int, Float64Array]:
        """Return the first step and requests in each, (n_services, n_steps)."""
        self._make_room(self._first, self._last, n_services)
        begin = self._first - self._origin
        n_steps = self._last - self._first + 1
        return self._first, self._counts[:, begin : begin + n_steps].astype(np.float64)

    def _make_room(self, first: int, last: int, n_services: int) -> None:
        rows, columns = self._counts.shape
        if not columns:
            self._origin = first
        n_steps = last - first + 1
        # A trace that grew on one side may do so again.
        spare = min(n_steps // 2, max(MAX_CELLS // n_services - n_steps, 0))
        sides = (self._origin - first, last + 1 - self._origin - columns)
        before, after = (lacking + spare if lacking > 0 else 0 for lacking in sides)
        if before or after or n_services > rows:
            grown = ((0, max(n_services - rows, 0)), (before, after))
            self._counts = np.pad(self._counts, grown)
            self._origin -= before
        self._first, self._last = first, last


class ServiceNames:
    """Numbers services from 0: those wanted, or one for all where a trace has none."""

    def __init__(self, path: Path, wanted: Sequence[str] | None) -> None:
        self._path = path
        self._wanted = wanted
        self._number: dict[str, int] = {}
        self._seen: set[str] = set()
        for name in wanted or ():
            self._number.setdefault(name, len(self._number))

    @property
    def names(self) -> tuple[str, ...]:
        """The services by number."""
        return tuple(self._number)

    def numbers(self, rows: RequestRows) -> Int64Array:
        """Return the service of each row; -1 where it is not wanted."""
        if rows.service is None:
            self._one_for_all()
            return np.broadcast_to(np.int64(0), len(rows))
        self._seen.update(name or UNKNOWN_SERVICE for name in rows.service_names)
        numbers = np.array(
            [self._number_of(name or UNKNOWN_SERVICE) for name in rows.service_names],
            dtype=np.int64,
        )
        if len(self._number) > MAX_SERVICES:
            rows.fail(
                0,
                (
                    f"found more than {MAX_SERVICES:,} services by here; map another "
                    "column to 'service', or none"
                ),
            )
        return numbers[rows.service]

    def check_wanted(self) -> None:
        """Raise an `InputError` if a wanted service did not occur."""
        for name in self._wanted or ():
            if self._seen and name not in self._seen:
                raise InputError(
                    f"{self._path}: no request of service '{name}' (have: "
                    f"{one_of(sorted(self._seen))}){did_you_mean(name, self._seen)}"
                )

    def _number_of(self, name: str) -> int:
        if self._wanted is None:
            return self._number.setdefault(name, len(self._number))
        return self._number.get(name, -1)

    def _one_for_all(self) -> None:
        if self._wanted is None:
            self._number.setdefault(ALL_SERVICES, 0)
        elif len(self._number) != 1:
            raise InputError(
                f"{self._path}: the trace does not name services, so that "
                f"{one_of(self._number)} can't be distinguished; give one name for "
                "all its requests"
            )
