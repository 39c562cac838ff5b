"""Requests of a block as arrays, from any format, and the rules by which they are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, NoReturn

import numpy as np

from diploee.clock import MISSING, Zone
from diploee.errors import LogFormatError
from diploee.tables import Float64Array, Int64Array
from diploee.textio.stamps import stamps
from diploee.textio.tables import Layout, ReadTable, read_columns
from diploee.textio.text import Text
from diploee.textio.values import Number, labels, numbers

TimeUnit = Literal["stamp", "s", "ms"]

US_PER_UNIT = {"s": 1e6, "ms": 1e3}
LARGEST_TIME_US = 10**18
"""Some 31,000 years."""

LARGEST_TOKENS = 2**31 - 1
TOKENS = Number(LARGEST_TOKENS, whole=True, of="tokens")
_UNIT_WORDS = {"s": "seconds", "ms": "milliseconds"}


@dataclass(frozen=True)
class TraceOptions:
    """The user's options for reading a trace; see `diploee.importers.read_request_trace`."""

    step_ms: int
    services: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    zone: Zone | None = None
    requests: bool = False  # whether each request is kept, too


@dataclass(frozen=True)
class Rules:
    """How a format is to be understood."""

    is_relative: bool  # times count from the trace's own origin; then they can't be negative
    zero_output_fails: bool = False  # a request without response tokens failed and is left out
    # Stamps are so fine that two equal rows one after the other are one request, written twice
    exact_stamps: bool = False


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


def csv_rows(
    blocks: Iterable[Text],
    layout: Layout,
    columns: Mapping[str, str],
    unit: TimeUnit,
    zone: Zone | None = None,
) -> Iterator[RequestRows]:
    """Read blocks of a CSV file."""
    for block in blocks:
        if block.data.isspace():
            continue
        table = read_columns(block, layout, columns, may_be_cut=True)
        rows = _times(table, unit, zone)
        lengths = {
            f"{side}_tokens": whole(numbers(table, side, TOKENS))
            for side in ("input", "output")
            if side in table
        }
        service, names = labels(table, "service")
        if "service" in table:
            rows = replace(rows, service=service.astype(np.int64), service_names=names)
        yield replace(rows, **lengths, n_headers=table.n_headers, n_cut=table.n_cut)  # type: ignore[arg-type]


def us_of(times: Float64Array, unit: str) -> Int64Array:
    """Return times in a unit as whole microseconds, `MISSING` where they are NaN."""
    return whole(np.rint(times * US_PER_UNIT[unit]))


def time_of(unit: str) -> Number:
    """Return what numbers a column of times in a unit may hold."""
    return Number(LARGEST_TIME_US / US_PER_UNIT[unit], of=_UNIT_WORDS[unit])


def _times(table: ReadTable, unit: TimeUnit, zone: Zone | None) -> RequestRows:
    """Return rows with their times alone."""
    if unit != "stamp":
        time_us = us_of(numbers(table, "time", time_of(unit)), unit)
        return RequestRows(table.where, time_us, None, None)
    found = stamps(table, "time")
    time_us, local = found.us, found.there & ~found.is_aware
    if zone is not None and local.any():
        in_utc = zone.utc_ms(np.where(local, time_us // 1000, MISSING)) * 1000 + time_us % 1000
        time_us = np.where(local, in_utc, time_us)
    named = found.zone()
    offset_min = 0 if named is None else named.utcoffset(None) // timedelta(minutes=1)
    return RequestRows(
        *(table.where, time_us, None, None),
        n_naive=int(np.count_nonzero(local)) if zone is None else 0,
        zone=None if named is None else Zone("", offset_min),
    )


def whole(values: Float64Array) -> Int64Array:
    """Return whole numbers, `MISSING` where they are NaN."""
    missing = np.isnan(values)
    return np.where(missing, MISSING, np.where(missing, 0, values).astype(np.int64))
