"""Requests of a block as arrays, with missing values marked."""

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
from diploee.importers.text.delimited_tables import ReadTable
from diploee.importers.text.numbers_and_labels import (
    CORRECT_LINE,
    Number,
    labels,
    numbers,
)
from diploee.importers.text.time_units import TimeScale
from diploee.importers.text.timestamps import parse_timestamps

MAX_TIME_US = 10**18
"""Maximum time of a request [us], about 31,000 years."""

MAX_TOKENS = 2**31 - 1
TOKENS = Number(MAX_TOKENS, whole=True, of="tokens")


@dataclass(frozen=True)
class TraceOptions:
    """Options for reading a trace; see `diploee.importers.read_request_trace`."""

    step_ms: int
    services: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    zone: Zone | None = None
    time_unit: TimeUnit | None = None
    requests: bool = False  # True to keep each request, too


@dataclass(frozen=True, eq=False)
class RequestRows:
    """Requests of one block of a trace, as arrays with one value per row."""

    where: Callable[[int], str]  # file and line by row index
    # Arrival [us], since 1970 UTC or since the trace's own origin, or `MISSING`
    time_us: Int64Array
    # Lengths [tokens], or `MISSING`; None if the trace has no such column
    input_tokens: Int64Array | None
    output_tokens: Int64Array | None
    # Index into `service_names`; None if the trace has no services
    service: Int64Array | None = None
    # Distinct service names in this block; ``""`` for an empty field
    service_names: tuple[str, ...] = ()
    n_headers: int = 0  # headers repeated between the rows, as in concatenated files
    n_cut: int = 0  # 1 if the last line of the file was truncated and dropped, else 0
    n_naive: int = 0  # timestamps without a zone, if the user specifies none either
    zone: Zone | None = None  # offset of the first timestamp, if any

    def __len__(self) -> int:
        return int(self.time_us.size)

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row, with file and line."""
        raise LogFormatError(f"{self.where(row)}: {problem}")


def request_rows(
    table: ReadTable, time_scale: TimeScale | None, zone: Zone | None
) -> RequestRows:
    """Return the requests of a table, with times in the unit of `time_scale`."""
    rows = _times(table, time_scale, zone)
    lengths = {
        f"{side}_tokens": to_integers(numbers(table, side, TOKENS))
        for side in ("input", "output")
        if side in table
    }
    service, names = labels(table, "service")
    if "service" in table:
        rows = replace(rows, service=service.astype(np.int64), service_names=names)
    return replace(rows, **lengths, n_headers=table.n_headers, n_cut=table.n_cut)  # type: ignore[arg-type]


def _times(
    table: ReadTable, time_scale: TimeScale | None, zone: Zone | None
) -> RequestRows:
    """Return the requests of a table with only their times set."""
    if time_scale is not None:
        unit_us = US_PER_UNIT[time_scale.unit]
        kind = Number(MAX_TIME_US / unit_us, of=time_scale.unit)
        time_us = to_integers(np.rint(numbers(table, "time", kind) * unit_us))
        return RequestRows(table.where, time_us, None, None)
    result = parse_timestamps(
        table, "time", remedy=f"{CORRECT_LINE}, or write all times so"
    )
    n_local = int(np.count_nonzero(result.is_present & ~result.is_aware))
    named = result.zone()
    offset_min = 0 if named is None else named.utcoffset(None) // timedelta(minutes=1)
    return RequestRows(
        *(table.where, result.utc_us(zone), None, None),
        n_naive=n_local if zone is None else 0,
        zone=None if named is None else Zone("", offset_min),
    )


def to_integers(values: Float64Array) -> Int64Array:
    """Return values as whole numbers, with `MISSING` for NaN."""
    missing = np.isnan(values)
    return np.where(missing, MISSING, np.where(missing, 0, values).astype(np.int64))
