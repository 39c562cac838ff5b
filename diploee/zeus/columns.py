"""Columns of a CSV table as arrays; what is missing or wrong is named with its line."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from diploee.errors import LogFormatError, one_of
from diploee.tables import Float64Array

TextArray = npt.NDArray[np.str_]

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_EMPTY = ("", "nan", "NaN", "NA", "null")
_FIRST_LINE = 2
"""Line of the first row, below the header."""
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Parameters
    ----------
    kind : {"text", "number", "whole"}
        Text that is not empty, a finite number, or a whole number.
    above, at_least, at_most : float
        Allowed numbers; `above` itself is not allowed.
    may_be_empty : bool
        An empty field is NaN.
    """

    kind: Literal["text", "number", "whole"] = "text"
    above: float = -np.inf
    at_least: float = -np.inf
    at_most: float = np.inf
    may_be_empty: bool = False

    def expected(self) -> str:
        """Return what is allowed, in words."""
        if self.kind == "text":
            return "a name"
        words = "a whole number" if self.kind == "whole" else "a number"
        if self.above > -np.inf:
            words += f" above {self.above:g}"
        if self.at_least > -np.inf:
            words += f" of {self.at_least:g} or more"
        if self.at_most < np.inf:
            words += f" up to {self.at_most:g}"
        return words + (" or an empty field" if self.may_be_empty else "")


class CsvColumns:
    """The declared columns of a CSV table with a header; others are not read.

    Parameters
    ----------
    path : pathlib.Path or str
        UTF-8 text, one row a line.
    columns : mapping of str to Column
        What the table must hold, in any order.

    Raises
    ------
    LogFormatError
        With the line, if the file is not readable, lacks a column or has a bad value.
    """

    def __init__(self, path: Path | str, columns: Mapping[str, Column]) -> None:
        self.path = Path(path)
        table = _read(self.path, columns)
        self.n_rows: int = table.num_rows
        self._columns = {
            name: pc.utf8_trim_whitespace(table[name].combine_chunks()) for name in columns
        }
        self._kinds = columns

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row, counted from 0."""
        raise LogFormatError(f"{self.path}:{row + _FIRST_LINE}: {problem}")

    def line(self, row: int) -> int:
        """Return the line of a row."""
        return row + _FIRST_LINE

    def text(self, name: str) -> TextArray:
        """Return a column of names, shape (n_rows,)."""
        values = self._columns[name]
        self._check(name, pc.not_equal(values, "").to_numpy(zero_copy_only=False))
        return np.array(values.to_pylist(), dtype=np.str_)

    def numbers(self, name: str) -> Float64Array:
        """Return a column of numbers, shape (n_rows,); an empty field is NaN."""
        words, kind = self._columns[name], self._kinds[name]
        empty = pc.is_in(words, pa.array(_EMPTY)).to_numpy(zero_copy_only=False)
        good = pc.match_substring_regex(words, _NUMBER).to_numpy(zero_copy_only=False)
        if kind.may_be_empty:
            good = good | empty
        self._check(name, good)
        cast = pc.cast(pc.if_else(pa.array(empty, pa.bool_()), "nan", words), pa.float64())
        values: Float64Array = np.array(cast.to_numpy(zero_copy_only=False))
        in_range = (values > kind.above) & (values >= kind.at_least) & (values <= kind.at_most)
        in_range &= np.isfinite(values)
        if kind.kind == "whole":
            in_range &= values == np.rint(values)
        self._check(name, in_range | empty)
        return values

    def _check(self, name: str, good: npt.NDArray[Any]) -> None:
        if good.all():
            return
        row = int(np.argmin(good))
        word = str(self._columns[name][row])
        found = "empty" if not word else repr(word[:_LONGEST_SHOWN])
        self.fail(
            row,
            f"'{name}' is {found} ({int(np.sum(~good)):,} such rows), expected "
            f"{self._kinds[name].expected()}; correct or remove the row",
        )


def _read(path: Path, columns: Mapping[str, Column]) -> pa.Table:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LogFormatError(f"{path}: can't be read ({why}); give a readable CSV file") from error
    data = data.removeprefix(b"\xef\xbb\xbf").rstrip()
    head, _, rows = data.partition(b"\n")
    _check_text(path, data)
    _check_header(path, head.decode(), columns)
    if not rows:
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    try:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(use_threads=False),  # so that errors tell the row
            parse_options=pa_csv.ParseOptions(ignore_empty_lines=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, ValueError, KeyError) as error:
        text = (str(error).splitlines() or [repr(error)])[0]
        row = re.search(r"Row #(\d+): (.*)", text)
        where, why = (f"{path}:{row[1]}", row[2]) if row else (str(path), text)
        raise LogFormatError(
            f"{where}: not a row of a CSV table ({why[:120]}); correct this row"
        ) from error


def _check_text(path: Path, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LogFormatError(
            f"{path}:{line}: found a byte that is not UTF-8 (0x{data[error.start]:02x}), expected "
            "a CSV table; give the table itself, unpacked and not converted"
        ) from error


def _check_header(path: Path, head: str, columns: Mapping[str, Column]) -> None:
    try:
        names = [name.strip() for name in next(csv.reader([head.rstrip("\r")]), [])]
    except csv.Error as error:
        raise LogFormatError(f"{path}:1: not a CSV header ({error}); restore it") from error
    for name in columns:
        if names.count(name) != 1:
            raise LogFormatError(
                f"{path}:1: column '{name}' found {names.count(name)} times (found: "
                f"{one_of(names[:10])[:200]}), expected once; give a table with the columns "
                f"'{','.join(columns)}'"
            )
