"""Request counts of a trace by service, time step and token length.

Token lengths up to 128 have a bin each; bins of longer ones are 1 % wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.base.tables import Float64Array, Int64Array, arrow_numbers, as_numpy
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.importers.request_traces.request_rows import MAX_TOKENS, RequestRows
from diploee.loads.import_counts import ImportCounts
from diploee.loads.services.request_trace import TokenLengths

MAX_SERVICES = 1_000
ALL_SERVICES = "all"
UNKNOWN_SERVICE = "unknown"
MAX_CELLS = 2**25
"""Maximum steps times services: a year of seconds for one service."""
MAX_SPAN_MS = 20 * 366 * MS_PER_DAY
"""Maximum plausible period of a trace [ms]."""
_SERVICES = 1 << 10  # numbers of services are below
_MANY = 1 << 22

N_SINGLE = 128
BINS_PER_OCTAVE = 64


def _edges() -> Int64Array:
    n_octaves = int(np.log2((MAX_TOKENS + 1) / N_SINGLE))
    growth = 2.0 ** (np.arange(n_octaves * BINS_PER_OCTAVE + 1) / BINS_PER_OCTAVE)
    wide = np.rint(N_SINGLE * growth).astype(np.int64)
    return np.unique(np.concatenate((np.arange(N_SINGLE, dtype=np.int64), wide)))


EDGES: Int64Array = _edges()
"""Bin edges [tokens], from 0 to 2^31."""


def bin_indices(tokens: Int64Array) -> Int64Array:
    """Return the bin index of each token length, from 0 to `MAX_TOKENS` tokens."""
    return np.asarray(np.searchsorted(EDGES, tokens, side="right") - 1, dtype=np.int64)


class RequestCounts:
    """Counter of whole numbers (steps or token lengths) by service."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, numbers: Int64Array, service: Int64Array) -> None:
        """Count numbers by service; both arrays have a value per row."""
        result = pc.value_counts(arrow_numbers(numbers * _SERVICES + service))
        self._parts.append(pa.Table.from_arrays(result.flatten(), ["key", "n"]))
        if sum(map(len, self._parts[1:])) > max(_MANY, len(self._parts[0])):
            self._merge()

    def _merge(self) -> None:
        table = pa.concat_tables(self._parts).group_by("key").aggregate([("n", "sum")])
        self._parts = [table.select(["key", "n_sum"]).rename_columns(["key", "n"])]

    def result(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return number, service and count of each combination that occurs."""
        if not self._parts:
            return (np.zeros(0, dtype=np.int64),) * 3
        self._merge()
        key, n = (as_numpy(column, np.int64) for column in self._parts[0].columns)
        return key // _SERVICES, key % _SERVICES, n

    def lengths(self, n_services: int) -> tuple[TokenLengths, ...]:
        """Return the counts as token length distributions by service."""
        tokens, service, n = self.result()
        n_requests = np.zeros((n_services, EDGES.size - 1), dtype=np.int64)
        np.add.at(n_requests, (service, bin_indices(tokens)), n)
        totals = np.zeros(n_services, dtype=np.int64)
        np.add.at(totals, service, n * tokens)
        return tuple(
            TokenLengths(EDGES, counts, total)
            for counts, total in zip(n_requests, totals.tolist(), strict=True)
        )

    def steps(
        self, path: Path, n_services: int, step_ms: int
    ) -> tuple[int, Float64Array]:
        """Return the first step, and requests per step, shape (n_services, n_steps)."""
        step, service, n = self.result()
        first = int(step.min())
        n_steps = int(step.max()) - first + 1
        check_span(path, n_steps, n_services, step_ms)
        result = np.zeros((n_services, n_steps))
        result[service, step - first] = n
        return first, result


def check_span(path: Path, n_steps: int, n_services: int, step_ms: int) -> None:
    """Raise `LogFormatError` if a trace has too many steps, or spans too many years."""
    if n_steps * n_services > MAX_CELLS or n_steps * step_ms > MAX_SPAN_MS:
        years = n_steps * step_ms / 365.25 / MS_PER_DAY
        raise LogFormatError(
            f"{path}: the requests reach over {years:,.1f} years, {n_steps:,} steps of "
            f"{step_ms / MS_PER_S:g} s of {n_services:,} services, expected 20 years "
            f"and {MAX_CELLS:,} in all at most; correct the times that are wrong, or "
            "take longer steps"
        )


def check_any_row_kept(path: Path, counts: ImportCounts) -> None:
    """Raise `LogFormatError` with the causes if all rows were dropped."""
    if not counts.n_kept:
        raise LogFormatError(
            f"{path}:1: no row is left ({'; '.join(counts.lines())}); give a complete "
            "trace"
        )


class ServiceNames:
    """Numbers from 0 for the requested services of a trace, or for all.

    A trace without service names has one service.
    """

    def __init__(self, path: Path, wanted: Sequence[str] | None) -> None:
        self._path = path
        self._wanted = wanted
        self._seen: set[str] = set()
        self._number = {name: k for k, name in enumerate(dict.fromkeys(wanted or ()))}

    @property
    def names(self) -> tuple[str, ...]:
        """Service names in the order of their numbers."""
        return tuple(self._number)

    def numbers(self, rows: RequestRows) -> Int64Array:
        """Return the service number of each row, -1 for services not requested."""
        named = [name or UNKNOWN_SERVICE for name in rows.service_names]
        if rows.service is None and self._wanted is not None:
            if len(self._number) != 1:
                raise InputError(
                    f"{self._path}: the trace does not name services, so that "
                    f"{one_of(self._number)} can't be distinguished; give one name "
                    "for all its requests"
                )
            named = list(self._number)
        named = named or [ALL_SERVICES]
        self._seen.update(named)
        if self._wanted is None:
            for name in named:
                self._number.setdefault(name, len(self._number))
        if len(self._number) > MAX_SERVICES:
            rows.fail(
                0,
                f"found more than {MAX_SERVICES:,} services by here; map another "
                "column to 'service', or none",
            )
        numbers = np.array([self._number.get(name, -1) for name in named])
        return numbers[0 if rows.service is None else rows.service] + np.zeros(
            len(rows), dtype=np.int64
        )

    def check_requested(self) -> None:
        """Raise an `InputError` if a requested service is not in the trace."""
        for name in self._wanted or ():
            if name not in self._seen:
                raise InputError(
                    f"{self._path}: no request of service '{name}' (have: "
                    f"{one_of(sorted(self._seen))}){did_you_mean(name, self._seen)}"
                )
