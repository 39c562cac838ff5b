"""Times of a table as microseconds: text in the manner of ISO 8601, or a Parquet file's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import LogFormatError
from diploee.profiles.importers.table_file import TableFile, is_text
from diploee.tables import BoolArray, Int64Array

STAMPS = "a time such as '2018-01-01 00:00:00' or '2018-01-01T00:00:00+01:00'"

_ZONE = re.compile(r"[T ]\d\d.*?(Z|([+-])(\d\d):?(\d\d)?)$")
_SLASHES = r"^(\d{4})/(\d{2})/(\d{2})"
_LONG_FRACTION = r"(\.\d{6})\d+"
EARLIEST_US = -2_208_988_800_000_000
LATEST_US = 7_258_118_400_000_000
"""The years 1900 and 2200, between which a measurement is believed to lie [us since 1970]."""


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times.

    Parameters
    ----------
    t_us : numpy.ndarray, shape (n,), int64
        Microseconds since 1970: UTC where the times have a zone, else naive local time. 0 where
        the row has none.
    there : numpy.ndarray, shape (n,), bool
        Whether the row has a time.
    zone : datetime.timezone or None
        Offset of the first time from UTC; None where the times have no zone.
    """

    t_us: Int64Array
    there: BoolArray
    zone: timezone | None

    def moment(self, t_us: int) -> datetime:
        """Return a time [us] as a date, in the first time's offset or naive."""
        if self.zone is None:
            return datetime(1970, 1, 1) + timedelta(microseconds=int(t_us))
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(t_us))).astimezone(
            self.zone
        )


def read_times(table: TableFile, name: str, column: pa.Array) -> Times:
    """Return a column of a table as times.

    Parameters
    ----------
    table : TableFile
        Its file, for errors.
    name : str
        The column.
    column : pyarrow.Array
        Times or dates of a Parquet file, or text: ``2018-01-01``, with ``T`` or a blank before the
        time of day, dashes or slashes, any number of decimals, and an offset or none.

    Raises
    ------
    LogFormatError
        If a value is no time, or some have an offset and some not.
    """
    zone: timezone | None = None
    if is_text(column):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        zone = _offset(_first(column))
        parsed = _parsed(table, name, column, zone is not None)
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        if getattr(column.type, "tz", None) is not None:
            first = _first(column)
            offset = first.utcoffset() if isinstance(first, datetime) else None
            zone = timezone(offset or timedelta(0))
        parsed = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False)
    else:
        raise LogFormatError(
            f"{table.row(0)}: '{name}' is of type {column.type}, expected {STAMPS}; "
            "name a column of seconds 't_s'"
        )
    there: BoolArray = ~parsed.is_null().to_numpy(zero_copy_only=False)
    t_us = parsed.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    _check_range(table, name, column, t_us)
    return Times(np.asarray(t_us, dtype=np.int64), there, zone)


def _parsed(table: TableFile, name: str, column: pa.Array, zoned: bool) -> pa.Array:
    kind = pa.timestamp("us", "UTC" if zoned else None)
    tidy = pc.replace_substring_regex(column, _SLASHES, r"\1-\2-\3")
    tidy = pc.replace_substring_regex(tidy, _LONG_FRACTION, r"\1")
    try:
        return pc.cast(tidy, kind)
    except pa.ArrowException as error:
        row = _first_bad(tidy, kind)
        text = str(column[row])
        other = (_offset(text) is not None) != zoned
        remedy = (
            f"; the first time has {'an' if zoned else 'no'} offset from UTC, so all must"
            if other
            else "; correct this row"
        )
        raise LogFormatError(
            f"{table.row(row)}: '{name}' is {text[:40]!r}, expected {STAMPS}{remedy}"
        ) from error


def _first_bad(column: pa.Array, kind: pa.DataType) -> int:
    """Return the first row that does not parse, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(column[low:middle], kind)
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _first(column: pa.Array) -> object:
    for value in column:
        if value.is_valid:
            try:
                return value.as_py()
            except (ValueError, OverflowError, KeyError):  # a year, a zone that Python lacks
                return None
    return None


def _offset(text: object) -> timezone | None:
    match = _ZONE.search(text) if isinstance(text, str) else None
    if match is None:
        return None
    if match[1] == "Z":
        return UTC
    minutes = int(match[3]) * 60 + int(match[4] or 0)
    if minutes >= 24 * 60:
        return None
    return timezone(timedelta(minutes=-minutes if match[2] == "-" else minutes))


def _check_range(table: TableFile, name: str, column: pa.Array, t_us: Int64Array) -> None:
    outside = (t_us < EARLIEST_US) | (t_us >= LATEST_US)
    if outside.any():
        row = int(np.argmax(outside))
        raise LogFormatError(
            f"{table.row(row)}: '{name}' is {str(column[row])[:40]!r}, expected a year from 1900 "
            "to 2200; correct this row"
        )
