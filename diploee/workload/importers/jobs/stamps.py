"""Columns of date and time as milliseconds since 1970 UTC, and the local time of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.tables import Int64Array
from diploee.workload.importers.jobs.clock import Zone
from diploee.workload.importers.jobs.text_table import TextTable
from diploee.workload.importers.jobs.values import cast_column, without_missing
from diploee.workload.job_log import MISSING_MS

_AWARE = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"
_AS_ARROW_READS_IT = (
    (r"(\.\d{3})\d+", r"\1"),  # milliseconds are kept, finer digits cut
    (r"\s*(?:[zZ]|UTC|GMT)$", "Z"),
    (r"\s+([+-]\d\d(?::?\d\d)?)$", r"\1"),
)
_STAMP = pa.timestamp("ms")
_UTC_STAMP = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, eq=False)
class Stamps:
    """Columns of date and time.

    Parameters
    ----------
    ms : dict of str to numpy.ndarray, shape (n,), int64
        The columns as milliseconds since 1970 UTC, `MISSING_MS` where the log has none.
    utc_offset_min : int
        Offset of the log's local time from UTC [min].
    noted : dict of str to int
        What the user should know of, by cause.
    """

    ms: dict[str, Int64Array]
    utc_offset_min: int
    noted: dict[str, int] = field(default_factory=dict)


def stamps(
    table: TextTable, names: Iterable[str], zone: Zone | None, time_format: str | None = None
) -> Stamps:
    """Return columns of ISO 8601 stamps, with or without a zone of their own.

    A stamp with an offset is taken by it, one without is in the local time of `zone`, or where that
    is not given is in UTC, which is noted. The local time of the log is that of `zone`, or the
    offset that most stamps have.

    Parameters
    ----------
    table : TextTable
        Holds the columns; one that is not there is missing in every row.
    names : iterable of str
        The columns.
    zone : Zone, optional
        Zone of the log.
    time_format : str, optional
        The stamps' format as for ``strptime`` instead of ISO 8601.

    Raises
    ------
    LogFormatError
        If a stamp does not parse.
    """
    found: dict[str, Int64Array] = {}
    offsets: dict[str, int] = {}
    n_naive = 0
    for name in names:
        if name not in table:
            found[name] = np.full(len(table), MISSING_MS)
            continue
        ms, is_aware, texts = _stamp_column(table, name, time_format)
        n_naive = max(n_naive, int((~is_aware & (ms != MISSING_MS)).sum()))
        if not is_aware.all():
            ms = np.where(is_aware, ms, (zone or Zone()).utc_ms(ms))
        found[name] = ms
        for text, n in texts.items():
            offsets[text] = offsets.get(text, 0) + n
    known = [ms[ms != MISSING_MS][:1] for ms in found.values()]
    first = next((int(ms[0]) for ms in known if ms.size), 0)
    if zone is not None:
        return Stamps(found, zone.offset_min(first))
    most = max(offsets, key=lambda text: offsets[text], default="Z")
    noted = {"time stamps without a zone, taken as UTC": n_naive} if n_naive else {}
    return Stamps(found, _offset_min(most), noted)


def _stamp_column(
    table: TextTable, name: str, time_format: str | None
) -> tuple[Int64Array, Any, Mapping[str, int]]:
    """Return stamps [ms], which of them have an offset, and how often each offset is there."""
    column = table.columns[name]
    none = np.zeros(len(column), dtype=bool)
    if time_format is not None:
        column = without_missing(column)
        expected = f"a time as {time_format!r}"
        return cast_column(table, name, column, _formatted(time_format), expected), none, {}
    try:
        return _milliseconds(pc.cast(column, _STAMP)), none, {}
    except pa.ArrowException:
        column = without_missing(column)
    for pattern, replacement in _AS_ARROW_READS_IT:
        column = pc.replace_substring_regex(column, pattern=pattern, replacement=replacement)
    aware = pc.fill_null(pc.match_substring_regex(column, _AWARE), False)
    is_aware = np.asarray(aware, dtype=bool)
    expected = "a time such as 2023-05-17T11:00:58 or 2023-05-17 11:00:58+08:00"
    nothing = pa.scalar(None, pa.string())

    def utc(part: Any) -> Int64Array:
        return _milliseconds(pc.cast(part, _UTC_STAMP))

    def local(part: Any) -> Int64Array:
        return _milliseconds(pc.cast(part, _STAMP))

    utc_ms = cast_column(table, name, pc.if_else(aware, column, nothing), utc, expected)
    local_ms = cast_column(table, name, pc.if_else(aware, nothing, column), local, expected)
    return np.where(is_aware, utc_ms, local_ms), is_aware, _offset_counts(column, aware)


def _milliseconds(values: Any) -> Int64Array:
    return np.asarray(pc.fill_null(pc.cast(values, pa.int64()), MISSING_MS), dtype=np.int64)


def _formatted(time_format: str) -> Callable[[Any], Int64Array]:
    def parse(column: Any) -> Int64Array:
        parsed = pc.strptime(column, format=time_format, unit="ms", error_is_null=True)
        if parsed.null_count > column.null_count:
            raise pa.ArrowInvalid("a value does not have the format")
        return _milliseconds(parsed)

    return parse


def _offset_counts(column: Any, aware: Any) -> dict[str, int]:
    texts = pc.replace_substring_regex(
        pc.filter(column, aware), pattern=r"^.*:\d\d(\.\d+)?(Z|[+-])", replacement=r"\2"
    )
    return {row["values"]: row["counts"] for row in pc.value_counts(texts).to_pylist()}


def _offset_min(text: str) -> int:
    digits = text[1:].replace(":", "").ljust(4, "0")
    if text == "Z" or not digits.isdigit():
        return 0
    minutes = int(digits[:2]) * 60 + int(digits[2:4])
    return -minutes if text[0] == "-" else minutes
