"""Delimited text as columns of strings; problems name their line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from diploee.base.errors import LogFormatError, did_you_mean, one_line, one_of, plural
from diploee.base.tables import BoolArray, Int64Array, arrow_numbers, arrow_texts
from diploee.importers.text.text import (
    MAX_LINE_BYTES,
    TextLines,
    read_text,
    text_of,
)

DELIMITERS = ",;\t|"
LISTED_COLUMNS = 20
MAX_NAME_LENGTH = 30

TRUNCATED = "truncated last line"
REPEATED_HEADER = "repeated headers; skipped"


@dataclass(frozen=True, eq=False)
class ReadTable:
    """Some columns of a file, by what they mean to its reader."""

    path: Path  # named in errors
    columns: Mapping[str, Any]  # strings, all of one length
    names: Mapping[str, str]  # what the file calls them
    where: Callable[[int], str]  # file and line of a row, of its index
    n_cut: int = 0  # 1 if the last line was cut short and left out, else 0
    # Rows that repeat the header, as in files one after the other; they are left out
    n_headers: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __contains__(self, key: str) -> bool:
        return key in self.columns

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row."""
        raise LogFormatError(f"{self.where(row)}: {one_line(problem)}")

    def take(self, kept: BoolArray) -> ReadTable:
        """Return the rows of a mask."""
        if kept.all():
            return self
        mask, where = arrow_numbers(kept), self.where_of(np.flatnonzero(kept))
        columns = {key: pc.filter(column, mask) for key, column in self.columns.items()}
        return replace(self, columns=columns, where=where)

    def where_of(self, rows: Int64Array) -> Callable[[int], str]:
        """Return where some rows stand, of their index among these."""
        where = self.where  # alone, so that no column is kept
        return lambda nth: where(int(rows[nth]))


@dataclass(frozen=True, eq=False)
class HeaderTable:
    """Rows of text, and how they are written."""

    text: TextLines
    names: tuple[str, ...]  # names of all columns in their order
    delimiter: str = ","  # one character
    is_quoted: bool = True  # fields may stand in double quotes, on one line
    header_line: int = 0  # line of the header; 0 where there is none

    @property
    def path(self) -> Path:
        """The file."""
        return self.text.path

    @property
    def header(self) -> str:
        """Place of the header, for an error."""
        return f"{self.path}:{self.header_line or 1}"

    def has(self, *names: str) -> bool:
        """Return whether there are columns of all these names, whatever their case."""
        there = {name.casefold() for name in self.names}
        return {name.casefold() for name in names} <= there

    def index(self, name: str) -> int | None:
        """Return the index of a column.

        Of that very name, or the only one but for its case.
        """
        for alike in (str, str.casefold):
            result = [i for i, n in enumerate(self.names) if alike(n) == alike(name)]
            if result:
                return result[0] if len(result) == 1 else None
        return None

    def found(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return those of the columns that there are, by the same keys."""
        return {
            key: name for key, name in names.items() if self.index(name) is not None
        }

    def require(self, names: Iterable[str], what: str) -> None:
        """Check that each column is there once."""
        for name in names:
            if self.index(name) is None:
                near = did_you_mean(name, self.names)
                problem = "is missing"
                if self.has(name):
                    problem, near = "is there several times", "; rename all but one"
                raise LogFormatError(
                    f"{self.header}: column '{one_line(name)}' {problem}, expected "
                    f"once in {what} (found: {listed(self.names)}){near}"
                )

    def read(
        self,
        wanted: Mapping[str, str] | Sequence[str],
        what: str = "the table",
        *,
        may_be_cut: bool = False,
    ) -> ReadTable:
        """Read columns as text, each of which must be there.

        Blank lines are skipped, and so are rows that repeat the header.
        """
        columns = (
            wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
        )
        self.require(columns.values(), what)
        text = self.text
        start = text.start
        if text.first_line <= self.header_line:
            start += len(text.first_row.encode())
        indices = {key: self.index(name) for key, name in columns.items()}
        odd = _OddRows()
        table, problem = self._parsed(memoryview(text.data)[start:], indices, odd)
        n_filled = len(table) + len(odd.numbers)
        is_cut = (
            may_be_cut
            and odd.wrong == [n_filled]
            and odd.n_fields < len(self.names)
            and not text.data.endswith(b"\n")
        )

        def line(number: int) -> int:
            """Return the line of the number-th line that is not empty."""
            return int(text.filled_lines(start)[number - 1])

        if odd.wrong and not is_cut:
            text.fail(
                line(odd.wrong[0]),
                f"{plural(odd.n_fields, 'field')}, expected {len(self.names)} as in "
                f"{'the header' if self.header_line else 'every row'}; correct or "
                "remove this line",
            )
        has_quotes = self.is_quoted and text.data.find(b'"', start) >= 0
        if problem or (has_quotes and text.filled_lines(start).size != n_filled):
            _fail_reading(text, start, problem)

        def where(row: int) -> str:
            number = row + 1
            for passed in odd.numbers:
                number += passed <= number
            return f"{text.path}:{line(number)}"

        names = {key: self.names[i] for key, i in indices.items() if i is not None}
        result = {key: table[f"#{indices[key]}"] for key in names}
        read = ReadTable(text.path, result, names, where, int(is_cut))
        return _without_headers(read) if self.header_line else read

    def _parsed(
        self, body: memoryview, indices: Mapping[str, int | None], odd: _OddRows
    ) -> tuple[pa.Table, str]:
        """Return the wanted columns, and what went wrong."""
        names = [f"#{index}" for index in range(len(self.names))]
        wanted = list(dict.fromkeys(f"#{index}" for index in indices.values()))
        nothing = pa.table({name: pa.array([], pa.string()) for name in wanted})
        if not body:
            return nothing, ""
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(pa.py_buffer(body)),
                # One thread, so that the handler gets the number of the line.
                read_options=pa_csv.ReadOptions(
                    use_threads=False, column_names=names, block_size=MAX_LINE_BYTES
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.is_quoted else False,
                    invalid_row_handler=odd,
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=wanted,
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowException as error:
            return nothing, "" if odd.wrong else str(error) or repr(error)
        return table, ""


@dataclass
class _OddRows:
    """Lines that are no rows, by number from 1 among lines not empty."""

    numbers: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    n_fields: int = 0

    def __call__(self, row: Any) -> str:
        self.numbers.append(row.number)
        if row.text.strip():
            self.n_fields = self.n_fields if self.wrong else row.actual_columns
            self.wrong.append(row.number)
        return "skip" if len(self.wrong) < 2 else "error"


def read_sheet(path: Path | str, expected: str) -> HeaderTable:
    """Read a table up to its header."""
    path = Path(path)
    return read_header(read_text(path, expected).without_comments("#"), DELIMITERS)


def sheet_of(path: Path, stored: bytes, expected: str) -> HeaderTable:
    """Return the content of a file, as it is stored, as a sheet."""
    return read_header(
        text_of(path, stored, expected).without_comments("#"), DELIMITERS
    )


def read_header(
    text: TextLines, delimiters: str = ",", *, is_quoted: bool = True
) -> HeaderTable:
    """Return a text as a sheet, whose first line that isn't blank holds names."""
    row = text.first_row
    delimiter = max(delimiters, key=row.count)
    names = row.split(delimiter)
    if is_quoted:
        try:
            names = next(csv.reader([row], delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            text.fail(
                text.start_line, f"not a header of column names ({error}); correct it"
            )
    stripped = tuple(name.strip() for name in names)
    return HeaderTable(text, stripped, delimiter, is_quoted, text.start_line)


def header_words(text: TextLines) -> set[str]:
    """Return the words of the first line, unquoted and in lower case."""
    row = text.first_row.casefold()
    for delimiter in DELIMITERS:
        row = row.replace(delimiter, ",")
    return {word.strip().strip('"') for word in row.split(",")}


def listed(names: Iterable[str]) -> str:
    """Return the names of columns that were found, as text for an error message."""
    result = [name[:MAX_NAME_LENGTH] for name in names if name]
    more = ", ..." if len(result) > LISTED_COLUMNS else ""
    return one_line(one_of(result[:LISTED_COLUMNS]) + more)


def columns_of(values: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """Return values of other files as columns of text, empty for None."""
    return {
        key: pa.chunked_array(
            [arrow_texts(["" if value is None else str(value) for value in of_key])]
        )
        for key, of_key in values.items()
    }


def _without_headers(table: ReadTable) -> ReadTable:
    again = np.ones(len(table), dtype=bool)
    for key, column in table.columns.items():
        if again.any():
            same = pc.equal(pc.utf8_trim_whitespace(column), table.names[key])
            again &= np.asarray(same, dtype=bool)
    return replace(table.take(~again), n_headers=int(again.sum()))


def _fail_reading(text: TextLines, start: int, problem: str) -> NoReturn:
    """Say which line can't be read: one too long, or the first with an open quote."""
    lines = text.data[start:].split(b"\n")
    for number, line in enumerate(lines, text.line_at(start)):
        if len(line) >= MAX_LINE_BYTES or line.count(b'"') % 2:
            text.fail(
                number,
                "a line that is too long or has a double quote without its partner, "
                "expected one row a line; correct or remove this line",
            )
    raise LogFormatError(
        f"{text.path}: not a table ({one_line(problem.partition(chr(10))[0])}); export "
        "it again"
    )
