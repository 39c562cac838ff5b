"""Rows of delimited text as columns of strings; every problem names its line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from diploee.base.errors import LogFormatError, did_you_mean, one_line, one_of
from diploee.base.tables import BoolArray, Int64Array, arrow_numbers
from diploee.importers.text.text import LONGEST_LINE_BYTES, Text

LISTED_COLUMNS = 20
LONGEST_NAME = 30

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
    n_short: int = 0  # rows without the last columns, where these may be missing

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


@dataclass(frozen=True)
class RowFormat:
    """How the rows of a file are written."""

    names: tuple[str, ...]  # names of all columns in their order
    delimiter: str = ","  # one character
    is_quoted: bool = True  # fields may stand in double quotes, on one line
    header_line: int = 0  # line of the header; 0 where there is none
    # Fields that every row must have, where the last columns may be missing
    n_least: int | None = None

    def has(self, *names: str) -> bool:
        """Return whether there are columns of all these names, whatever their case."""
        return {name.casefold() for name in names} <= {
            name.casefold() for name in self.names
        }

    def index(self, name: str) -> int | None:
        """Return the index of a column.

        Of that very name, or the only one but for its case.
        """
        alike = [i for i, other in enumerate(self.names) if other == name]
        alike = alike or [
            i
            for i, other in enumerate(self.names)
            if other.casefold() == name.casefold()
        ]
        return alike[0] if len(alike) == 1 else None

    def found(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return those of the columns that there are, by the same keys."""
        return {
            key: name for key, name in names.items() if self.index(name) is not None
        }

    def require(self, path: Path, names: Iterable[str], what: str) -> None:
        """Check that each column is there once."""
        for name in names:
            if self.index(name) is not None:
                continue
            n_times = sum(other.casefold() == name.casefold() for other in self.names)
            problem = f"is there {n_times} times" if n_times else "is missing"
            near = (
                did_you_mean(name, self.names)
                if not n_times
                else "; rename all but one"
            )
            line = f":{self.header_line}" if self.header_line else ""
            raise LogFormatError(
                f"{path}{line}: column '{one_line(name)}' {problem}, expected "
                f"once in {what} (found: {listed(self.names)}){near}"
            )


def read_header(
    text: Text, delimiters: str = ",", *, is_quoted: bool = True
) -> RowFormat:
    """Return a text's layout, whose first line that isn't blank holds names."""
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
    return RowFormat(stripped, delimiter, is_quoted, text.start_line)


def header_words(text: Text) -> set[str]:
    """Return the words of the first line, unquoted and in lower case."""
    row = text.first_row.casefold()
    for delimiter in "|;\t":
        row = row.replace(delimiter, ",")
    return {word.strip().strip('"') for word in row.split(",")}


def listed(names: Iterable[str]) -> str:
    """Return the names of columns that were found, as text for an error message."""
    found = [name[:LONGEST_NAME] for name in names if name]
    more = ", ..." if len(found) > LISTED_COLUMNS else ""
    return one_line(one_of(found[:LISTED_COLUMNS]) + more)


def read_columns(
    text: Text,
    layout: RowFormat,
    wanted: Mapping[str, str],
    *,
    may_be_cut: bool = False,
) -> ReadTable:
    """Read columns of delimited text.

    Blank lines are skipped, and so are rows that repeat the header.
    """
    start = text.start
    if text.first_line <= layout.header_line:
        start += len(text.first_row.encode())
    indices = {key: layout.index(name) for key, name in wanted.items()}
    odd = _OddRows(len(layout.names), layout.n_least)
    table, problem = _parsed(memoryview(text.data)[start:], layout, indices, odd)
    if odd.n_short and not odd.wrong and not problem:
        cut = _cut_short(text.data[start:], layout)
        least = replace(layout, names=layout.names[: layout.n_least])
        odd.numbers.clear()
        table, problem = _parsed(memoryview(cut), least, indices, odd)
    n_filled = len(table) + len(odd.numbers)
    is_short = odd.n_fields < len(layout.names)
    is_cut = (
        may_be_cut
        and odd.wrong == [n_filled]
        and is_short
        and not text.data.endswith(b"\n")
    )
    if odd.wrong and not is_cut:
        raise LogFormatError(
            f"{text.path}:{_line(text, start, odd.wrong[0])}: {odd.n_fields} "
            f"field{'s' * (odd.n_fields != 1)}, expected {odd.allowed()} as in "
            f"{'the header' if layout.header_line else 'every row'}; correct or "
            "remove this line"
        )
    has_quotes = layout.is_quoted and text.data.find(b'"', start) >= 0
    if problem or (has_quotes and text.filled_lines(start).size != n_filled):
        _fail_reading(text, start, problem or "a quoted field goes over several lines")

    def where(row: int) -> str:
        number = row + 1
        for passed in odd.numbers:
            number += passed <= number
        return f"{text.path}:{_line(text, start, number)}"

    names = {key: layout.names[i] for key, i in indices.items() if i is not None}
    columns = {key: table[f"#{indices[key]}"] for key in names}
    found = ReadTable(
        text.path, columns, names, where, int(is_cut), n_short=odd.n_short
    )
    return _without_headers(found) if layout.header_line else found


def whole_lines(text: Text) -> tuple[Text, int]:
    """Return a text without an unended last line, and how many that were."""
    end = text.data.rfind(b"\n") + 1
    rest = text.data[end:].strip()
    return (text.upto(end), 1) if end and rest else (text, 0)


def _line(text: Text, start: int, number: int) -> int:
    """Return the line of the number-th line that is not empty."""
    return int(text.filled_lines(start)[number - 1])


@dataclass
class _OddRows:
    """Lines that are no rows, by number from 1 among lines not empty."""

    n_names: int
    n_least: int | None
    numbers: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    n_fields: int = 0
    n_short: int = 0

    def allowed(self) -> str:
        least = self.n_least
        words = (
            f" ({least} without the trailing ones)"
            if least not in (None, self.n_names)
            else ""
        )
        return f"{self.n_names}{words}"

    def __call__(self, row: Any) -> str:
        self.numbers.append(row.number)
        if not row.text.strip():
            return "skip"
        if (
            self.n_least is not None
            and self.n_least <= row.actual_columns < self.n_names
        ):
            self.n_short += 1
            return "skip"
        self.n_fields = self.n_fields if self.wrong else row.actual_columns
        self.wrong.append(row.number)
        return "skip" if len(self.wrong) < 2 else "error"


def _parsed(
    body: memoryview,
    layout: RowFormat,
    indices: Mapping[str, int | None],
    odd: _OddRows,
) -> tuple[pa.Table, str]:
    """Return the wanted columns, and what went wrong."""
    names = [f"#{index}" for index in range(len(layout.names))]
    wanted = list(dict.fromkeys(f"#{index}" for index in indices.values()))
    nothing = pa.table({name: pa.array([], pa.string()) for name in wanted})
    if not body:
        return nothing, ""
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(pa.py_buffer(body)),
            # One thread, so that the handler gets the number of the line.
            read_options=pa_csv.ReadOptions(
                use_threads=False, column_names=names, block_size=LONGEST_LINE_BYTES
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if layout.is_quoted else False,
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
        return nothing, "" if odd.wrong else (str(error).splitlines() or [repr(error)])[
            0
        ]
    return table, ""


def _cut_short(body: bytes, layout: RowFormat) -> bytes:
    """Return lines with their first fields alone; of a layout without quotes."""
    sign = layout.delimiter.encode()
    lines = (line.split(sign)[: layout.n_least] for line in body.split(b"\n"))
    return b"\n".join(map(sign.join, lines))


def _without_headers(table: ReadTable) -> ReadTable:
    again = np.ones(len(table), dtype=bool)
    for key, column in table.columns.items():
        if again.any():
            same = pc.equal(pc.utf8_trim_whitespace(column), table.names[key])
            again &= np.asarray(same, dtype=bool)
    return (
        replace(table.take(~again), n_headers=int(again.sum()))
        if again.any()
        else table
    )


def _fail_reading(text: Text, start: int, problem: str) -> NoReturn:
    """Say which line can't be read: one too long, or the first with an open quote."""
    lines: Iterator[tuple[int, bytes]] = enumerate(
        text.data[start:].split(b"\n"), text.line_at(start)
    )
    for number, line in lines:
        if len(line) >= LONGEST_LINE_BYTES:
            text.fail(
                number,
                (
                    f"a line of {len(line):,} bytes, expected one row a line; is this "
                    "the log itself?"
                ),
            )
        if line.count(b'"') % 2:
            text.fail(
                number,
                (
                    "a double quote without its partner on this line, expected one "
                    "row a line; correct or remove this line"
                ),
            )
    raise LogFormatError(
        f"{text.path}: not a table ({one_line(problem)}); export it again"
    )
