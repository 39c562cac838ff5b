"""Tables with a header as columns: `read_sheet`.

A Parquet file is the CSV file of its table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from diploee.base.errors import LogFormatError, one_line
from diploee.importers.text.source import (
    MAX_UNPACKED_BYTES,
    fail_size,
    read_bytes,
    unpacked,
)
from diploee.importers.text.tables import (
    ReadTable,
    RowFormat,
    read_columns,
    read_header,
    whole_lines,
)
from diploee.importers.text.text import Text, text_of

DELIMITERS = ",;\t|"
_PARQUET = b"PAR1"


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table whose header was read."""

    path: Path  # named in errors
    layout: RowFormat  # its columns
    text: Text  # its rows
    sha256: str  # hash of the file as it is stored
    n_cut: int = 0  # lines left out at the end, as their writer was killed

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.layout.names

    @property
    def header(self) -> str:
        """Place of the header, for an error."""
        return f"{self.path}:{self.layout.header_line}"

    def read(
        self, wanted: Mapping[str, str] | Sequence[str], what: str = "the table"
    ) -> ReadTable:
        """Read columns as text."""
        names = (
            wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
        )
        if not names:
            raise LogFormatError(
                f"{self.header}: no column has a name, expected {what}"
            )
        self.layout.require(self.path, names.values(), what)
        return read_columns(self.text, self.layout, names)


def read_sheet(
    path: Path | str, expected: str, *, header_word: str = "", may_be_cut: bool = False
) -> Sheet:
    """Read a table up to its header."""
    path = Path(path)
    stored = read_bytes(path)
    return sheet_of(
        path, stored, expected, header_word=header_word, may_be_cut=may_be_cut
    )


def sheet_of(
    path: Path,
    stored: bytes,
    expected: str,
    *,
    header_word: str = "",
    may_be_cut: bool = False,
) -> Sheet:
    """Return the content of a file, as it is stored, as a sheet.

    Arguments as in `read_sheet`.
    """
    text = _table_text(path, stored, expected).without_comments("#")
    if header_word:
        offset = text.data.find(header_word.encode())
        if offset < 0:
            raise LogFormatError(
                f"{path}:1: no header with '{header_word}', expected {expected}"
            )
        text = text.after(text.data.rfind(b"\n", 0, offset) + 1)
    n_cut = 0
    if may_be_cut:
        text, n_cut = whole_lines(text)
    if not text.first_row:
        raise LogFormatError(
            f"{path}:1: the file holds comments alone, expected {expected}"
        )
    sha256 = hashlib.sha256(stored).hexdigest()
    return Sheet(path, read_header(text, DELIMITERS), text, sha256, n_cut)


def sheet_text(path: Path, expected: str) -> Text:
    """Return a text file or a Parquet file's table as text, with its header."""
    return _table_text(path, read_bytes(path), expected)


def _table_text(path: Path, stored: bytes, expected: str) -> Text:
    """Return stored content as text; row n of a Parquet table, from 0, is line n + 2.

    Columns that no CSV file holds, such as lists, are left out; spans of time are
    seconds, stamps with a zone are UTC.
    """
    data = unpacked(path, stored)
    if not (data.startswith(_PARQUET) or {".parquet", ".pq"} & set(path.suffixes[-2:])):
        return text_of(path, data, expected)
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            kept = [
                k
                for k, field in enumerate(file.schema_arrow)
                if not pa.types.is_nested(field.type)
            ]
            if file.metadata.num_rows * len(kept) > MAX_UNPACKED_BYTES // 8:
                fail_size(path, MAX_UNPACKED_BYTES)
            table = file.read().select(kept)  # by index, as a name may be there twice
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        why = one_line((str(error).splitlines() or [repr(error)])[0])[:200]
        raise LogFormatError(
            f"{path}: not a readable Parquet file ({why}); write it again"
        ) from error
    text = pa.BufferOutputStream()
    columns = [_written(column) for column in table.columns]
    pa_csv.write_csv(pa.table(columns, names=table.column_names), text)
    return text_of(path, text.getvalue().to_pybytes(), expected)


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as a CSV file has it."""
    kind = column.type
    if pa.types.is_duration(kind):
        us = pc.cast(pc.cast(column, pa.duration("us"), safe=False), pa.int64())
        return pc.divide(pc.cast(us, pa.float64()), 1e6)
    if pa.types.is_floating(kind):  # of fewer bits, the text would be another number
        return pc.cast(column, pa.float64())
    if pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.replace_substring_regex(column, pattern=r"[\r\n]+", replacement=" ")
    return column
