"""Rows of delimited text as columns of strings; every problem names its line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from diploee.errors import LogFormatError, did_you_mean, one_line, one_of
from diploee.workload.importers.jobs.text_file import TextFile

BLOCK_BYTES = 1 << 23
LISTED_COLUMNS = 20
LONGEST_NAME = 30

TRUNCATED = "truncated last line"


@dataclass(frozen=True, eq=False)
class TextTable:
    """Some columns of a file, as text.

    Parameters
    ----------
    path : pathlib.Path
        Named in errors.
    columns : dict of str to pyarrow.ChunkedArray of string
        The columns, all of one length.
    line_of : callable
        Line of a row, from 1, of the row's index.
    n_truncated : int
        1 if the last line was cut short and left out, else 0.
    """

    path: Path
    columns: dict[str, Any]
    line_of: Callable[[int], int]
    n_truncated: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a row."""
        raise LogFormatError(f"{self.path}:{self.line_of(row)}: {one_line(problem)}")


@dataclass(frozen=True)
class Dialect:
    """How the rows of a file are written.

    Parameters
    ----------
    delimiter : str
        One character.
    names : sequence of str
        Names of all columns in their order.
    is_quoted : bool
        Fields may stand in double quotes, on one line.
    has_header : bool
        The first line holds the names.
    """

    delimiter: str
    names: Sequence[str]
    is_quoted: bool = True
    has_header: bool = True


def header_dialect(file: TextFile, delimiter: str, *, is_quoted: bool = True) -> Dialect:
    """Return the dialect with the column names of the first line.

    Raises
    ------
    LogFormatError
        If the line is not a row of names.
    """
    line = file.head.partition("\n")[0]
    if not is_quoted:
        return Dialect(delimiter, [name.strip() for name in line.split(delimiter)], is_quoted)
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        file.fail(file.line_at(file.start), f"not a header of column names ({error}); correct it")
    return Dialect(delimiter, [name.strip() for name in names])


def listed(names: Iterable[str]) -> str:
    """Return the names of columns that were found, as text for an error message."""
    found = [name[:LONGEST_NAME] for name in names if name]
    more = ", ..." if len(found) > LISTED_COLUMNS else ""
    return one_line(one_of(found[:LISTED_COLUMNS]) + more)


def require_columns(file: TextFile, names: Sequence[str], wanted: Iterable[str], what: str) -> None:
    """Check that each wanted column is there once.

    Raises
    ------
    LogFormatError
        If one is missing or there twice.
    """
    for name in wanted:
        if names.count(name) == 1:
            continue
        problem = "is missing" if name not in names else f"is there {names.count(name)} times"
        near = "" if name in names else did_you_mean(name, names)
        file.fail(
            file.line_at(file.start),
            f"column '{name}' {problem}, expected once in {what} (found: {listed(names)}){near}",
        )


def read_table(file: TextFile, dialect: Dialect, wanted: Iterable[str]) -> TextTable:
    """Read columns of delimited text.

    Blank lines are skipped. A last line without a line end and with too few fields is left out: the
    file was cut off while it was written or copied.

    Parameters
    ----------
    file : TextFile
        The file.
    dialect : Dialect
        How it is written.
    wanted : iterable of str
        Columns to read; those that are not there are left out.

    Raises
    ------
    LogFormatError
        If there is no row, or a line has another number of fields than the header.
    """
    keys = {name: f"c{dialect.names.index(name)}" for name in wanted if name in dialect.names}
    head = len(file.head.partition("\n")[0].encode()) if dialect.has_header else 0
    start = file.start + head
    skipped = _SkippedLines(len(dialect.names))
    table, problem = _parsed(memoryview(file.data)[start:], dialect, list(keys.values()), skipped)
    n_filled = len(table) + len(skipped.numbers)
    is_cut = skipped.wrong == [n_filled] and skipped.is_short and not file.data.endswith(b"\n")

    def line_of_number(number: int) -> int:
        return int(file.filled_lines(start)[number - 1])

    def line_of(row: int) -> int:
        number = row + 1
        for passed in skipped.numbers:
            number += passed <= number
        return line_of_number(number)

    if skipped.wrong and not is_cut:
        file.fail(
            line_of_number(skipped.wrong[0]),
            f"{skipped.n_fields} fields, expected {len(dialect.names)} as in "
            f"{'the header' if dialect.has_header else 'every row'}; correct or remove this line",
        )
    has_quotes = dialect.is_quoted and file.data.find(b'"', start) >= 0
    if problem or (has_quotes and file.filled_lines(start).size != n_filled):
        _fail_reading(file, start, problem or "a quoted field goes over several lines")
    if not len(table):
        file.fail(
            file.line_at(file.start),
            f"a {'header' if dialect.has_header else 'line'} without a whole row, expected jobs; "
            "give a complete log",
        )
    columns = {name: table[key] for name, key in keys.items()}
    return TextTable(file.path, columns, line_of, int(is_cut))


@dataclass
class _SkippedLines:
    """Lines that are no rows, by their numbers, from 1, among those that are not empty."""

    n_expected: int
    numbers: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    n_fields: int = 0

    @property
    def is_short(self) -> bool:
        return self.n_fields < self.n_expected

    def __call__(self, row: Any) -> str:
        self.numbers.append(row.number)
        if row.text.strip():
            self.n_fields = self.n_fields if self.wrong else row.actual_columns
            self.wrong.append(row.number)
        return "skip" if len(self.wrong) < 2 else "error"


def _parsed(
    body: memoryview, dialect: Dialect, wanted: list[str], skipped: _SkippedLines
) -> tuple[pa.Table, str]:
    """Return the wanted columns, and what went wrong."""
    names = [f"c{index}" for index in range(len(dialect.names))]
    nothing = pa.table({name: pa.array([], pa.string()) for name in wanted})
    if not body:
        return nothing, ""
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(pa.py_buffer(body)),
            # One thread, so that the handler is told the number of the line.
            read_options=pa_csv.ReadOptions(
                use_threads=False, column_names=names, block_size=BLOCK_BYTES
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char='"' if dialect.is_quoted else False,
                invalid_row_handler=skipped,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=wanted,
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowException as error:
        return nothing, "" if skipped.wrong else (str(error).splitlines() or [repr(error)])[0]
    return table, ""


def _fail_reading(file: TextFile, start: int, problem: str) -> NoReturn:
    """Say which line can't be read: one too long, or the first with an open quote."""
    lines = file.data[start:].split(b"\n")
    first = file.line_at(start)
    lengths = np.array([len(line) for line in lines])
    if lengths.max() >= BLOCK_BYTES:
        file.fail(
            first + int(np.argmax(lengths >= BLOCK_BYTES)),
            f"a line of {lengths.max():,} bytes, expected one job on each line; "
            "is this the log itself?",
        )
    for index, line in enumerate(lines):
        if line.count(b'"') % 2:
            file.fail(
                first + index,
                "a double quote without its partner on this line, expected one job on each line; "
                "correct or remove this line",
            )
    raise LogFormatError(f"{file.path}: not a table of jobs ({problem}); export the log again")
