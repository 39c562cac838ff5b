"""Requests of a block as arrays, and the rules that select valid rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NoReturn

import numpy as np

from diploee.base.clock import MISSING, Zone
from diploee.base.errors import LogFormatError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import US_PER_UNIT, TimeUnit
from diploee.importers.text.tables import ReadTable
from diploee.importers.text.time_units import Counting
from diploee.importers.text.timestamps import stamps
from diploee.importers.text.values import CORRECT_LINE, Number, labels, numbers

MAX_TIME_US = 10**18
"""Some 31,000 years."""

MAX_TOKENS = 2**31 - 1
TOKENS = Number(MAX_TOKENS, whole=True, of="tokens")


@dataclass(frozen=True)
class TraceOptions:
    """The user's options for reading a trace.

    See `diploee.importers.read_request_trace`.
    """

    step_ms: int
    services: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    zone: Zone | None = None
    time_unit: TimeUnit | None = None
    requests: bool = False  # whether each request is kept, too


@dataclass(frozen=True, eq=False)
class RequestRows:
    """Rows of one block."""

    where: Callable[[int], str]  # file and line of a row, of its index
    # Arrival [us], since 1970 UTC or since the trace's own origin, or `MISSING`
    time_us: Int64Array
    # Lengths [tokens], or `MISSING`; None where the trace has no such column
    input_tokens: Int64Array | None
    output_tokens: Int64Array | None
    # Index into `service_names`; None where the trace does not tell
    service: Int64Array | None = None
    # Names that occur in this block; ``""`` where the field is empty
    service_names: tuple[str, ...] = ()
    n_headers: int = 0  # headers repeated between the rows, as in concatenated files
    n_cut: int = 0  # 1 if the last line of the file was cut short and left out, else 0
    n_naive: int = 0  # stamps that name no zone, where the user names none either
    zone: Zone | None = None  # offset that the first stamp names, if any

    def __len__(self) -> int:
        return int(self.time_us.size)

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row."""
        raise LogFormatError(f"{self.where(row)}: {problem}")


def rows_of(
    table: ReadTable, counting: Counting | None, zone: Zone | None
) -> RequestRows:
    """Return the requests of a table, whose times count as given."""
    rows = _times(table, counting, zone)
    lengths = {
        f"{side}_tokens": whole(numbers(table, side, TOKENS))
        for side in ("input", "output")
        if side in table
    }
    service, names = labels(table, "service")
    if "service" in table:
        rows = replace(rows, service=service.astype(np.int64), service_names=names)
    return replace(rows, **lengths, n_headers=table.n_headers, n_cut=table.n_cut)  # type: ignore[arg-type]


def _times(
    table: ReadTable, counting: Counting | None, zone: Zone | None
) -> RequestRows:
    """Return rows with their times alone."""
    if counting is not None:
        unit_us = US_PER_UNIT[counting.unit]
        kind = Number(MAX_TIME_US / unit_us, of=counting.unit)
        time_us = whole(np.rint(numbers(table, "time", kind) * unit_us))
        return RequestRows(table.where, time_us, None, None)
    result = stamps(table, "time", remedy=f"{CORRECT_LINE}, or write all times so")
    n_local = int(np.count_nonzero(result.there & ~result.is_aware))
    named = result.zone()
    offset_min = 0 if named is None else named.utcoffset(None) // timedelta(minutes=1)
    return RequestRows(
        *(table.where, result.utc_us(zone), None, None),
        n_naive=n_local if zone is None else 0,
        zone=None if named is None else Zone("", offset_min),
    )


def whole(values: Float64Array) -> Int64Array:
    """Return whole numbers, `MISSING` where they are NaN."""
    missing = np.isnan(values)
    return np.where(missing, MISSING, np.where(missing, 0, values).astype(np.int64))
