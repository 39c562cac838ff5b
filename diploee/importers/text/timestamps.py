"""Timestamps of text columns in microseconds since 1970, with or without zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.clock import MISSING, Zone
from diploee.base.errors import InputError, option
from diploee.base.tables import BoolArray, Int64Array, arrow_numbers
from diploee.importers.text.delimited_tables import ReadTable
from diploee.importers.text.numbers_and_labels import (
    CORRECT_LINE,
    NO_TEXT,
    fail_values,
    without_missing,
)

STAMP = "a time such as 2023-05-17T11:00:58 or 2023-05-17 11:00:58+08:00"

YEARS_US = tuple(int(np.datetime64(y, "us").astype(np.int64)) for y in ("1900", "2200"))
"""Range of plausible times of a measurement [us since 1970]."""

_AWARE = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"
_BEFORE_OFFSET = r"^.*:\d\d(\.\d+)?(Z|[+-])"
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?$")
_AS_ARROW_READS_IT = (
    (r"^(\d{4})/(\d{2})/(\d{2})", r"\1-\2-\3"),
    (r"(\.\d{6})\d+", r"\1"),  # microseconds are kept, finer digits cut
    (r"\s*(?:[zZ]|UTC|GMT)$", "Z"),
    (r"\s+([+-]\d\d(?::?\d\d)?)$", r"\1"),
)
_LOCAL, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass(frozen=True, eq=False)
class Timestamps:
    """A column of timestamps in microseconds since 1970, with or without offsets."""

    # Microseconds since 1970: UTC for timestamps with an offset, else local time;
    # `MISSING` for rows without a timestamp
    us: Int64Array
    is_aware: BoolArray  # mask of timestamps with an offset
    column: Any  # timestamps as text

    @property
    def is_present(self) -> BoolArray:
        """Mask of rows with a time."""
        return np.asarray(self.us != MISSING)

    def utc_us(self, zone: Zone | None) -> Int64Array:
        """Return times in UTC [us since 1970].

        Times without an offset are local times of `zone`, or UTC without a zone.
        """
        local = self.is_present & ~self.is_aware
        if zone is None or not local.any():
            return self.us
        ms, rest_us = np.divmod(self.us, 1000)
        utc_ms = zone.utc_ms(np.where(local, ms, MISSING))
        return np.where(local, utc_ms * 1000 + rest_us, self.us)

    @cached_property
    def counts_by_offset_min(self) -> dict[int, int]:
        """Numbers of timestamps by their offset from UTC [min]."""
        aware = pc.filter(self.column, arrow_numbers(self.is_aware))
        texts = pc.replace_substring_regex(
            aware, pattern=_BEFORE_OFFSET, replacement=r"\2"
        )
        result: dict[int, int] = {}
        for row in pc.value_counts(texts).to_pylist():
            minutes = _minutes(row["values"])
            result[minutes] = result.get(minutes, 0) + row["counts"]
        return result

    def zone(self) -> timezone | None:
        """Return the offset of the first timestamp; None if it has no offset."""
        first = int(np.argmax(self.is_present)) if self.is_present.any() else -1
        if first < 0 or not self.is_aware[first]:
            return None
        return timezone(timedelta(minutes=_minutes(self.column[first].as_py().strip())))


def to_datetime(us: int, zone: timezone | None) -> datetime:
    """Return a time [us since 1970] as a datetime, in a zone or without one."""
    if zone is None:
        return datetime(1970, 1, 1) + timedelta(microseconds=us)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).astimezone(
        zone
    )


def parse_timestamps(
    table: ReadTable,
    key: str,
    time_format: str | None = None,
    remedy: str = CORRECT_LINE,
) -> Timestamps:
    """Parse a column of timestamps in ISO 8601, or in a ``strptime`` format."""
    local = np.zeros(len(table), dtype=bool)
    if key not in table:
        return Timestamps(np.full(len(table), MISSING), local, None)
    column = table.columns[key]
    if time_format is not None:
        return _formatted(table, key, without_missing(column), time_format)
    kind = (
        _UTC if len(column) and re.search(_AWARE, column[0].as_py() or "") else _LOCAL
    )
    try:  # the fast way, for columns with no missing values and one form
        return Timestamps(_us(pc.cast(column, kind)), local | (kind is _UTC), column)
    except pa.ArrowException:
        pass
    tidy = without_missing(column)
    for pattern, replacement in _AS_ARROW_READS_IT:
        tidy = pc.replace_substring_regex(
            tidy, pattern=pattern, replacement=replacement
        )
    aware = pc.fill_null(pc.match_substring_regex(tidy, _AWARE), False)
    utc_us = _cast(table, key, pc.if_else(aware, tidy, NO_TEXT), _UTC, remedy)
    local_us = _cast(table, key, pc.if_else(aware, NO_TEXT, tidy), _LOCAL, remedy)
    is_aware = np.asarray(aware, dtype=bool)
    return Timestamps(np.where(is_aware, utc_us, local_us), is_aware, tidy)


def parse_timestamps_of_one_clock(table: ReadTable, key: str) -> Timestamps:
    """Parse timestamps of the years 1900 to 2199; all or none must have offsets."""
    result = parse_timestamps(table, key)
    there = result.is_present
    if there.any():
        first = bool(result.is_aware[np.argmax(there)])
        preposition = "with" if first else "without"
        expected = f"{STAMP}, {preposition} an offset from UTC like the first"
        fail_values(table, key, ~there | (result.is_aware == first), expected)
    plausible = (result.us >= YEARS_US[0]) & (result.us < YEARS_US[1])
    fail_values(table, key, ~there | plausible, "a year from 1900 to 2199")
    return result


def _us(values: Any) -> Int64Array:
    return np.asarray(
        pc.fill_null(pc.cast(values, pa.int64()), MISSING), dtype=np.int64
    )


def _formatted(table: ReadTable, key: str, words: Any, time_format: str) -> Timestamps:
    import pandas as pd

    try:
        parsed = pd.to_datetime(
            words.to_pandas(), format=time_format, errors="coerce", utc=True
        )
    except ValueError as error:
        raise InputError(
            f"{table.path}: time_format is no format of strptime ({error}); correct it"
        ) from error
    good = np.asarray(parsed.notna() | pc.is_null(words).to_pandas(), dtype=bool)
    remedy = f"{CORRECT_LINE}, or time_format{option('--time-format')}"
    if "%Z" in time_format:
        remedy += (
            "; for zones by other names than UTC write the name itself in place of %Z "
            f"and give utc_offset{option('--utc-offset')}"
        )
    fail_values(table, key, good, f"a time as {time_format!r}", remedy)
    us = _us(pa.chunked_array([pa.array(parsed)]).cast(_UTC))
    is_aware = re.search("%[zZ]", time_format) is not None
    return Timestamps(us, (us != MISSING) & is_aware, words)


def _cast(
    table: ReadTable, key: str, column: Any, kind: pa.DataType, remedy: str
) -> Int64Array:
    """Return a column cast to times [us since 1970], or fail at the first bad row."""
    try:
        return _us(pc.cast(column, kind))
    except pa.ArrowException:
        # The rows before `low` cast, those before `high` do not
        low, high = 0, len(column)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                pc.cast(column.slice(low, middle - low), kind)
                low = middle
            except pa.ArrowException:
                high = middle
    good = np.ones(len(column), dtype=bool)
    good[low] = False
    fail_values(table, key, good, STAMP, remedy)
    raise AssertionError  # never reached


def _minutes(offset: str) -> int:
    match = _OFFSET.search(offset)
    if match is None:  # Z
        return 0
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return -minutes if match[1] == "-" else minutes
