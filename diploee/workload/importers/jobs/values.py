"""Columns of text as numbers, times and labels, with missing values told apart from wrong ones.

Missing are -1, an empty field, and the words of `MISSING_WORDS` in any case. Anything else that
does not parse is an error with its line: a value is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import shown
from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array
from diploee.units import MS_PER_S
from diploee.workload.importers.jobs.clock import Zone
from diploee.workload.importers.jobs.text_table import TextTable
from diploee.workload.job_log import MISSING_MS, STATES

MISSING_WORDS = (
    *("", "-", "--", "-1", "nan", "nat", "none", "null", "nil", "na", "n/a", "\\n"),
    *("unknown", "none assigned", "invalid"),
)
LARGEST_COUNT = 1e9
LARGEST_TIME_S = 1e11
LARGEST_ENERGY_J = 1e15

STATE_WORDS = {
    "completed": "completed complete cd success successful succeeded pass passed finished done "
    "terminated ok",
    "failed": "failed fail failure f error node_fail nf boot_fail bf out_of_memory oom",
    "cancelled": "cancelled canceled cancel ca killed aborted stopped deleted",
    "timeout": "timeout to deadline dl timed_out",
}
"""Words that logs use for `STATES`; all others are ``"other"``."""

_STATE_OF = {word: state for state, words in STATE_WORDS.items() for word in words.split()}
_AWARE = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"
_AS_ARROW_READS_IT = (
    (r"(\.\d{3})\d+", r"\1"),  # milliseconds are kept, finer digits cut
    (r"\s*(?:[zZ]|UTC|GMT)$", "Z"),
    (r"\s+([+-]\d\d(?::?\d\d)?)$", r"\1"),
)
_STAMP = pa.timestamp("ms")
_UTC_STAMP = pa.timestamp("ms", "UTC")


def numbers(table: TextTable, name: str, largest: float = LARGEST_COUNT) -> Float64Array:
    """Return a column as numbers, NaN where the log has none.

    Parameters
    ----------
    table : TextTable
        Holds the column; a column that is not there is missing in every row.
    name : str
        The column.
    largest : float
        Largest absolute value that can be true.

    Returns
    -------
    numpy.ndarray, shape (n,), float64

    Raises
    ------
    LogFormatError
        If a value is no number, or too large.
    """
    if name not in table:
        return np.full(len(table), np.nan)
    column = table.columns[name]
    try:
        values = _doubles(column)
    except pa.ArrowException:
        column = without_missing(column)
        values = _cast(table, name, column, _doubles, "a number")
    beyond = np.abs(values) > largest
    if beyond.any():
        row = int(np.argmax(beyond))
        table.fail(
            row,
            f"column '{name}' is {shown(column[row].as_py())}, expected a number of at most "
            f"{largest:g}; correct or remove this line",
        )
    return np.where(values == -1, np.nan, values)


def times_ms(table: TextTable, name: str, unit_ms: float = MS_PER_S) -> Int64Array:
    """Return a column of numbers as times [ms], `MISSING_MS` where the log has none.

    Parameters
    ----------
    table, name
        As in `numbers`.
    unit_ms : float
        Unit of the numbers [ms].
    """
    values = numbers(table, name, LARGEST_TIME_S * MS_PER_S / unit_ms) * unit_ms
    missing = np.isnan(values)
    return np.where(missing, MISSING_MS, np.rint(np.where(missing, 0, values)).astype(np.int64))


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


def labels(table: TextTable, name: str) -> tuple[Int32Array, tuple[str, ...]]:
    """Return a column of words as an index into its different words, the first found first.

    A missing word is ``""``, as are all where there is no such column.
    """
    if name not in table:
        return np.zeros(len(table), dtype=np.int32), ("",)
    column = pc.fill_null(without_missing(table.columns[name]), "")
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int32), tuple(encoded.dictionary.to_pylist())


def state_ids(index: Int32Array, words: Iterable[str]) -> Int16Array:
    """Return the states [index into `STATES`] of words such as ``CANCELLED by 1000``."""
    firsts = [(word.split() or [""])[0].rstrip("+").casefold() for word in words]
    of_word = np.array([STATES.index(_STATE_OF.get(first, "other")) for first in firsts])
    return of_word.astype(np.int16)[index]


def job_ids(table: TextTable, name: str) -> pa.Array:
    """Return a column of names as an Arrow array of strings, null where missing."""
    return without_missing(table.columns[name]).combine_chunks()


def without_missing(column: Any) -> Any:
    """Return a column of strings trimmed, with null where it stands for no value."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING_WORDS))
    return pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)


def _doubles(column: Any) -> Float64Array:
    values = pc.cast(column, pa.float64())
    return np.asarray(pc.fill_null(values, np.nan), dtype=np.float64)


def _cast(
    table: TextTable, name: str, column: Any, cast: Callable[[Any], Any], expected: str
) -> Any:
    """Return the cast column, or fail with the first row that does not cast."""
    try:
        return cast(column)
    except pa.ArrowException:
        low, high = 0, len(column)  # the rows before `low` cast, those before `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            try:
                cast(column.slice(low, middle - low))
                low = middle
            except pa.ArrowException:
                high = middle
    table.fail(
        low,
        f"column '{name}' is {shown(column[low].as_py())}, expected {expected}; "
        "correct or remove this line",
    )


def _stamp_column(
    table: TextTable, name: str, time_format: str | None
) -> tuple[Int64Array, Any, Mapping[str, int]]:
    """Return stamps [ms], which of them have an offset, and how often each offset is there."""
    column = table.columns[name]
    none = np.zeros(len(column), dtype=bool)
    if time_format is not None:
        column = without_missing(column)
        expected = f"a time as {time_format!r}"
        return _cast(table, name, column, _formatted(time_format), expected), none, {}
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

    utc_ms = _cast(table, name, pc.if_else(aware, column, nothing), utc, expected)
    local_ms = _cast(table, name, pc.if_else(aware, nothing, column), local, expected)
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
