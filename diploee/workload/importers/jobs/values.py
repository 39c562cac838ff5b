"""Columns of text as numbers, times and labels, with missing values told apart from wrong ones.

Missing are -1, an empty field, and the words of `MISSING_WORDS` in any case. Anything else that
does not parse is an error with its line: a value is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import shown
from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array
from diploee.units import MS_PER_S
from diploee.workload.importers.jobs.text_table import TextTable
from diploee.workload.job_log import MISSING_MS, STATES

MISSING_WORDS = (
    *("", "-", "--", "-1", "nan", "nat", "none", "null", "nil", "na", "n/a", "\\n"),
    *("unknown", "none assigned", "invalid"),
)
LARGEST_COUNT = 1e9
LARGEST_TIME_S = 1e11
LARGEST_ENERGY_J = 1e15
"""Beyond these (3,000 years; 278 GWh) a value is a mistake, and refused."""

STATE_WORDS = {
    "completed": "completed complete cd success successful succeeded pass passed finished done "
    "terminated ok",
    "failed": "failed fail failure f error node_fail nf boot_fail bf out_of_memory oom",
    "cancelled": "cancelled canceled cancel ca killed aborted stopped deleted",
    "timeout": "timeout to deadline dl timed_out",
}
"""Words that logs use for `STATES`; all others are ``"other"``."""

_STATE_OF = {word: state for state, words in STATE_WORDS.items() for word in words.split()}


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
        values = cast_column(table, name, column, _doubles, "a number")
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


def cast_column(
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
