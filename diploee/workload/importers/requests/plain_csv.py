"""Any CSV trace with one request a row, by a mapping of its columns to their meaning.

The meaning of the time column tells its unit: `time_s` and `time_ms` are numbers from the trace's
own origin, `unix_s` and `unix_ms` count from 1970 UTC, `timestamp` is ISO text, UTC where it names
no zone.
"""

from __future__ import annotations

from collections.abc import Mapping

from diploee.errors import InputError, did_you_mean, one_of
from diploee.workload.importers.requests.csv_header import Header
from diploee.workload.importers.requests.csv_lines import CsvColumns
from diploee.workload.importers.requests.rows import TimeUnit
from diploee.workload.importers.requests.totals import Rules

NAME = "csv"

_TIMES: dict[str, tuple[TimeUnit, bool]] = {
    "timestamp": ("stamp", False),
    "unix_s": ("s", False),
    "unix_ms": ("ms", False),
    "time_s": ("s", True),
    "time_ms": ("ms", True),
}
_OTHERS = ("input_tokens", "output_tokens", "service")
MEANINGS = (*_TIMES, *_OTHERS)
"""What a column can mean."""


def is_header(header: Header) -> bool:
    """Return whether a file with this header names its time column by its meaning."""
    return any(header.has(meaning) for meaning in _TIMES)


def columns(header: Header, mapping: Mapping[str, str] | None = None) -> tuple[CsvColumns, Rules]:
    """Return the columns to read and how to understand them.

    Parameters
    ----------
    header : Header
        Of the file.
    mapping : mapping of str to str, optional
        Column by meaning (`MEANINGS`), such as ``{"unix_s": "arrived", "output_tokens": "out"}``;
        where absent, columns are taken by their meaning's name.

    Raises
    ------
    InputError
        If a meaning is unknown, not exactly one names the time, or two share a column.
    LogFormatError
        If a column is missing.
    """
    if mapping is None:
        mapping = {meaning: meaning for meaning in MEANINGS if header.has(meaning)}
    for meaning in mapping:
        if meaning not in MEANINGS:
            raise InputError(
                f"columns: unknown meaning '{meaning}', expected {one_of(MEANINGS)}"
                f"{did_you_mean(meaning, MEANINGS)}"
            )
    times = [meaning for meaning in mapping if meaning in _TIMES]
    if len(times) != 1:
        raise InputError(
            f"{header.path}:{header.line}: expected one time column, found {one_of(times)}; "
            f"map one column to one of {one_of(_TIMES)}"
        )
    place = {meaning: header.place(name) for meaning, name in mapping.items()}
    if len(set(place.values())) < len(place):
        raise InputError(
            f"{header.path}:{header.line}: two of {one_of(place)} are mapped to one column; "
            "give each its own"
        )
    unit, is_relative = _TIMES[times[0]]
    found = CsvColumns(
        header.names,
        time=place[times[0]],
        time_unit=unit,
        input_tokens=place.get("input_tokens"),
        output_tokens=place.get("output_tokens"),
        service=place.get("service"),
    )
    return found, Rules(is_relative)
