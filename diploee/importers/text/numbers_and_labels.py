"""Conversion of text columns to numbers and labels.

Empty fields and the words in `MISSING_WORDS`, ignoring case, are missing values. Other
text that cannot be parsed is an error, which names the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.errors import shown
from diploee.base.tables import (
    BoolArray,
    Float64Array,
    Int32Array,
    Range,
    arrow_texts,
    as_numpy,
)
from diploee.importers.text.delimited_tables import ReadTable

MISSING_WORDS = (
    *("", "-", "--", "nan", "-nan", "nat", "none", "null", "nil", "na", "n/a", "\\n"),
    *("unknown", "none assigned", "invalid"),
)
NO_TEXT = pa.nulls(1, pa.string())[0]
"""Null string of Arrow; `pa.scalar` would import pandas."""

CORRECT_LINE = "correct or remove this line"
IS_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True)
class Number(Range):
    """Range of allowed values of a numeric column, with rules for missing values."""

    whole: bool = False  # no fractions
    may_be_missing: bool = True  # missing values are NaN instead of an error
    none: float | None = None  # number that means a missing value
    of: str = ""  # counted items, for errors, such as ``"tokens"``

    def contains(self, values: Float64Array) -> BoolArray:
        """Return a mask of the allowed values; NaN is not allowed."""
        allowed = super().contains(values)
        return allowed & (values == np.rint(values)) if self.whole else allowed

    @property
    def noun(self) -> str:
        """Description of the allowed values without their bounds."""
        return f"a {'whole ' if self.whole else ''}number{self.of and f' of {self.of}'}"

    @property
    def largest_text(self) -> str:
        """Largest allowed value as text for an error message."""
        return f"{self.largest:,.0f}" if self.whole else f"{self.largest:g}"

    __str__ = Range.__str__


ANY = Number()


def numbers(table: ReadTable, key: str, kind: Number = ANY) -> Float64Array:
    """Return a column as numbers; NaN for missing values or a missing column."""
    if key not in table:
        return np.full(len(table), np.nan)
    values = _from_text(table, key, kind)
    missing = np.isnan(values) | (values == kind.none)
    good = kind.contains(values)
    good = good | missing if kind.may_be_missing else good & ~missing
    fail_values(table, key, good, str(kind))
    return np.where(missing, np.nan, values)


def texts(table: ReadTable, key: str) -> list[str]:
    """Return a column of required names, without surrounding spaces."""
    words = pc.utf8_trim_whitespace(table.columns[key])
    fail_values(table, key, np.asarray(pc.not_equal(words, ""), dtype=bool), "a name")
    result: list[str] = words.to_pylist()
    return result


def labels(table: ReadTable, key: str) -> tuple[Int32Array, tuple[str, ...]]:
    """Return a column of labels as indices, and the sorted distinct labels.

    A missing label is ``""``. In a missing column, all labels are.
    """
    if key not in table:
        return np.zeros(len(table), dtype=np.int32), ("",)
    encoded = table.columns[key].combine_chunks().dictionary_encode()
    label_index: dict[str, int] = {}
    words = without_missing(encoded.dictionary).fill_null("").to_pylist()
    word_index = [label_index.setdefault(word, len(label_index)) for word in words]
    index = np.asarray(encoded.indices, dtype=np.int32)
    return np.array(word_index, dtype=np.int32)[index], tuple(label_index)


def ids(table: ReadTable, key: str) -> pa.Array:
    """Return a column of ids as an Arrow array of strings, null for missing ids."""
    return without_missing(table.columns[key]).combine_chunks()


def without_missing(column: Any, words: Sequence[str] = (*MISSING_WORDS, "-1")) -> Any:
    """Return a string column without outer spaces, with null for missing values."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(trimmed), value_set=arrow_texts(words))
    return pc.if_else(missing, NO_TEXT, trimmed)


def fail_values(
    table: ReadTable,
    key: str,
    good: BoolArray,
    expected: str,
    remedy: str = CORRECT_LINE,
) -> None:
    """Raise a `LogFormatError` about the first invalid value of a column, if any."""
    if good.all():
        return
    row, n_bad = int(np.argmin(good)), int(np.count_nonzero(~good))
    others = f" ({n_bad:,} such rows)" if n_bad > 1 else ""
    table.fail(
        row,
        (
            f"column '{table.names[key]}' is {value_text(table, key, row)}{others}, "
            f"expected {expected}; {remedy}"
        ),
    )


def value_text(table: ReadTable, key: str, row: int) -> str:
    """Return the value of a row as text for an error message."""
    return shown(table.columns[key][row].as_py().strip())


def _from_text(table: ReadTable, key: str, kind: Number) -> Float64Array:
    column = table.columns[key]
    # Arrow is slow to refuse text, so the first value is tested before.
    if not len(column) or re.match(IS_NUMBER, column[0].as_py() or ""):
        try:
            return _doubles(column)
        except pa.ArrowException:
            pass
    words = without_missing(column, MISSING_WORDS)
    try:
        return _doubles(words)
    except pa.ArrowException:
        good = pc.fill_null(pc.match_substring_regex(words, IS_NUMBER), True)
        fail_values(table, key, np.asarray(good, dtype=bool), str(kind))
        return np.array(
            [float("nan" if word is None else word) for word in words.to_pylist()]
        )


def _doubles(column: Any) -> Float64Array:
    return as_numpy(_chunked(pc.cast(column, pa.float64())), np.float64, np.nan)


def _chunked(column: Any) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
