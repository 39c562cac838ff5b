"""Reader of files with the intervals of a power system's coincident peaks."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np

from diploee.base.clock import NamedSpan
from diploee.base.errors import LogFormatError, one_of
from diploee.importers.text.delimited_tables import ReadTable, read_header_table
from diploee.importers.text.numbers_and_labels import (
    Number,
    fail_values,
    numbers,
    texts,
)
from diploee.importers.text.timestamps import (
    Timestamps,
    parse_timestamps_of_one_clock,
    to_datetime,
)

MAX_INTERVALS = 1_000
_DURATION = Number(above=0, largest=366 * 24 * 60, may_be_missing=False, of="minutes")
_EXPECTED = (
    "a header of start and end, or of start and duration_min, and a row for each "
    "interval"
)


def read_peak_intervals(path: Path | str) -> list[NamedSpan]:
    """Read the intervals of a power system's peaks from a CSV or Parquet file.

    Each row has a start and an end, or a start and a duration [min]. Intervals must not
    overlap.
    """
    sheet = read_header_table(path, _EXPECTED)
    columns = ("start", "end", "duration_min", "name")
    names = ["start", *(name for name in columns[1:] if sheet.has(name))]
    if ("end" in names) == ("duration_min" in names):
        raise LogFormatError(
            f"{sheet.header}: found {one_of(sheet.names)}, expected one of 'end' and "
            f"'duration_min': {_EXPECTED}"
        )
    table = sheet.read(names, _EXPECTED)
    if not 0 < len(table) <= MAX_INTERVALS:
        raise LogFormatError(
            f"{path}: {len(table):,} intervals, expected 1 to {MAX_INTERVALS:,}; give "
            "the system's peaks alone"
        )
    start = _stamps(table, "start")
    if "end" in names:
        end = _stamps(table, "end")
        is_alike = end.is_aware == start.is_aware
        fail_values(
            table, "end", is_alike, "an offset from UTC as the start has, or none"
        )
        end_us = end.us
    else:
        end_us = start.us + np.rint(
            numbers(table, "duration_min", _DURATION) * 60e6
        ).astype(np.int64)
    titles = texts(table, "name") if "name" in names else [""] * len(table)
    fail_values(table, "start", start.us < end_us, "a time before the interval's end")
    order = np.argsort(start.us, kind="stable")
    previous_us = np.empty_like(end_us)
    previous_us[order] = np.append(start.us.min(), end_us[order[:-1]])
    expected = "a time after the interval before, as each is counted once"
    fail_values(table, "start", start.us >= previous_us, expected)
    zone = start.zone()
    return [
        NamedSpan(
            to_datetime(int(begin), zone),
            to_datetime(int(end), zone),
            title,
            Path(path),
            table.where(row),
            None if "end" in names else timedelta(microseconds=int(end - begin)),
        )
        for row, (begin, end, title) in enumerate(
            zip(start.us, end_us, titles, strict=True)
        )
    ]


def _stamps(table: ReadTable, key: str) -> Timestamps:
    result = parse_timestamps_of_one_clock(table, key)
    fail_values(table, key, result.is_present, "a time")
    return result
