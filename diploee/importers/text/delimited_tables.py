"""Delimited text as columns of strings; errors name the line."""

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
from diploee.importers.text.text_lines import (
    MAX_LINE_BYTES,
    TextLines,
    decode_text,
    read_text,
)

DELIMITERS = ",;\t|"
LISTED_COLUMNS = 20
MAX_NAME_LENGTH = 30

TRUNCATED = "truncated last line"
REPEATED_HEADER = "repeated headers; skipped"


@dataclass(frozen=True, eq=False)
class ReadTable:
    """Columns of a file as text, by keys that the reader chose, with line numbers."""

    path: Path  # named in errors
    columns: Mapping[str, Any]  # string columns by key, all of one length
    names: Mapping[str, str]  # column names in the file by key
    where: Callable[[int], str]  # file and line by row index
    n_cut: int = 0  # 1 if the last line was truncated and dropped, else 0
    # Dropped rows that repeat the header, as in concatenated files
    n_headers: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __contains__(self, key: str) -> bool:
        return key in self.columns

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row, with file and line."""
        raise LogFormatError(f"{self.where(row)}: {one_line(problem)}")

    def take(self, kept: BoolArray) -> ReadTable:
        """Return the table with only the rows of a mask."""
        if kept.all():
            return self
        mask, where = arrow_numbers(kept), self.row_locator(np.flatnonzero(kept))
        columns = {key: pc.filter(column, mask) for key, column in self.columns.items()}
        return replace(self, columns=columns, where=where)

    def row_locator(self, rows: Int64Array) -> Callable[[int], str]:
        """Return a function that gives file and line for an index into `rows`."""
        where = self.where  # not self, so that no columns stay in memory
        return lambda nth: where(int(rows[nth]))


@dataclass(frozen=True, eq=False)
class HeaderTable:
    """Delimited text with known column names, whose columns are not read yet."""

    text: TextLines
    names: tuple[str, ...]  # names of all columns, in order
    delimiter: str = ","  # one character
    is_quoted: bool = True  # fields may be in double quotes, within one line
    header_line: int = 0  # line number of the header; 0 without a header

    @property
    def path(self) -> Path:
        """Path of the file that contains the table."""
        return self.text.path

    @property
    def header(self) -> str:
        """File and line of the header, as text for errors."""
        return f"{self.path}:{self.header_line or 1}"

    def has(self, *names: str) -> bool:
        """Return True if the table has columns of all these names, ignoring case."""
        columns = {name.casefold() for name in self.names}
        return {name.casefold() for name in names} <= columns

    def index(self, name: str) -> int | None:
        """Return the index of a column by its exact name, else ignoring case.

        Return None if there is no column of the name, or several.
        """
        for fold in (str, str.casefold):
            matches = [i for i, n in enumerate(self.names) if fold(n) == fold(name)]
            if matches:
                return matches[0] if len(matches) == 1 else None
        return None

    def existing(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return only the existing columns of a mapping from keys to names."""
        return {
            key: name for key, name in names.items() if self.index(name) is not None
        }

    def require(self, names: Iterable[str], what: str) -> None:
        """Raise `LogFormatError` unless the table has each column exactly once."""
        for name in names:
            if self.index(name) is None:
                near = did_you_mean(name, self.names)
                problem = "is missing"
                if self.has(name):
                    problem, near = "is there several times", "; rename all but one"
                raise LogFormatError(
                    f"{self.header}: column '{one_line(name)}' {problem}, expected "
                    f"once in {what} (found: {join_names(self.names)}){near}"
                )

    def read(
        self,
        wanted: Mapping[str, str] | Sequence[str],
        what: str = "the table",
        *,
        may_be_cut: bool = False,
    ) -> ReadTable:
        """Read columns as text, under their names or under keys mapped to names.

        Blank lines and rows that repeat the header are skipped.
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
        odd = _MalformedRows()
        table, problem = self._parse(memoryview(text.data)[start:], indices, odd)
        n_filled = len(table) + len(odd.numbers)
        is_cut = (
            may_be_cut
            and odd.wrong == [n_filled]
            and odd.n_fields < len(self.names)
            and not text.data.endswith(b"\n")
        )

        def line(number: int) -> int:
            """Return the line number of the n-th line that is not empty."""
            return int(text.filled_line_numbers(start)[number - 1])

        if odd.wrong and not is_cut:
            text.fail(
                line(odd.wrong[0]),
                f"{plural(odd.n_fields, 'field')}, expected {len(self.names)} as in "
                f"{'the header' if self.header_line else 'every row'}; correct or "
                "remove this line",
            )
        has_quotes = self.is_quoted and text.data.find(b'"', start) >= 0
        if problem or (has_quotes and text.filled_line_numbers(start).size != n_filled):
            _fail_reading(text, start, problem)

        def where(row: int) -> str:
            number = row + 1
            for skipped in odd.numbers:
                number += skipped <= number
            return f"{text.path}:{line(number)}"

        names = {key: self.names[i] for key, i in indices.items() if i is not None}
        columns_read = {key: table[f"#{indices[key]}"] for key in names}
        read = ReadTable(text.path, columns_read, names, where, int(is_cut))
        return _without_headers(read) if self.header_line else read

    def _parse(
        self, body: memoryview, indices: Mapping[str, int | None], odd: _MalformedRows
    ) -> tuple[pa.Table, str]:
        """Return the parsed columns by index, and the parser's error ("" if none)."""
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
class _MalformedRows:
    """Handler that collects the numbers of lines with a wrong number of fields.

    Lines that are not empty are numbered from 1. `numbers` has the collected lines,
    `wrong` those of them that are not blank.
    """

    numbers: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    n_fields: int = 0

    def __call__(self, row: Any) -> str:
        self.numbers.append(row.number)
        if row.text.strip():
            self.n_fields = self.n_fields if self.wrong else row.actual_columns
            self.wrong.append(row.number)
        return "skip" if len(self.wrong) < 2 else "error"


def read_header_table(path: Path | str, expected: str) -> HeaderTable:
    """Read a delimited file's header; the result reads columns on request."""
    path = Path(path)
    return read_header(read_text(path, expected).without_comments("#"), DELIMITERS)


def parse_header_table(path: Path, stored: bytes, expected: str) -> HeaderTable:
    """Parse the header of stored file content; the result reads columns on request."""
    return read_header(
        decode_text(path, stored, expected).without_comments("#"), DELIMITERS
    )


def read_header(
    text: TextLines, delimiters: str = ",", *, is_quoted: bool = True
) -> HeaderTable:
    """Read the column names in a text's first non-blank line, and the delimiter."""
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


def header_fields(text: TextLines) -> set[str]:
    """Return the fields of the first line as a set, unquoted and in lower case."""
    row = text.first_row.casefold()
    for delimiter in DELIMITERS:
        row = row.replace(delimiter, ",")
    return {word.strip().strip('"') for word in row.split(",")}


def join_names(names: Iterable[str]) -> str:
    """Return shortened column names as text for an error message."""
    short = [name[:MAX_NAME_LENGTH] for name in names if name]
    more = ", ..." if len(short) > LISTED_COLUMNS else ""
    return one_line(one_of(short[:LISTED_COLUMNS]) + more)


def text_columns(values: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """Return values as Arrow columns of text by key, with empty text for None."""
    return {
        key: pa.chunked_array(
            [arrow_texts(["" if value is None else str(value) for value in column])]
        )
        for key, column in values.items()
    }


def _without_headers(table: ReadTable) -> ReadTable:
    again = np.ones(len(table), dtype=bool)
    for key, column in table.columns.items():
        if again.any():
            same = pc.equal(pc.utf8_trim_whitespace(column), table.names[key])
            again &= np.asarray(same, dtype=bool)
    return replace(table.take(~again), n_headers=int(again.sum()))


def _fail_reading(text: TextLines, start: int, problem: str) -> NoReturn:
    """Raise `LogFormatError` for the first line that is too long or has open quotes."""
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
