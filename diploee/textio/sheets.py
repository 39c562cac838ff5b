"""Small tables with a header, CSV or Parquet, as columns: `read_sheet`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from diploee.errors import LogFormatError, one_line
from diploee.textio.source import MAX_UNPACKED_BYTES, fail_size, read_bytes, unpacked
from diploee.textio.tables import Layout, ReadTable, read_columns, read_header, whole_lines
from diploee.textio.text import Text, text_of

DELIMITERS = ",;\t|"
_PARQUET = b"PAR1"


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table whose header was read."""

    path: Path  # named in errors
    layout: Layout  # its columns
    content: Text | bytes  # its rows: text, or the content of a Parquet file
    sha256: str  # hash of the file as it is stored
    n_cut: int = 0  # lines left out at the end, as their writer was killed

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.layout.names

    @property
    def header(self) -> str:
        """Where the header stands, for an error."""
        line = self.layout.header_line
        return f"{self.path}:{line}" if line else f"{self.path}"

    def first_of(self, names: Sequence[str]) -> str | None:
        """Return the first of some names that a column has, None where there is none."""
        return next((name for name in names if name in self.names), None)

    def read(self, wanted: Mapping[str, str] | Sequence[str], what: str = "the table") -> ReadTable:
        """Read columns; those of a CSV file are text."""
        names = wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
        if not names:
            raise LogFormatError(f"{self.header}: no column has a name, expected {what}")
        self.layout.require(self.path, names.values(), what)
        if isinstance(self.content, Text):
            return read_columns(self.content, self.layout, names)
        found = {key: self.names[self.layout.index(name) or 0] for key, name in names.items()}
        with _parquet(self.path, self.content) as file:
            table = _read(self.path, file, [*dict.fromkeys(found.values())])
            columns = {key: table[name] for key, name in found.items()}
        return ReadTable(self.path, columns, found, lambda row: f"{self.path}: row {row}")


def read_sheet(
    path: Path | str,
    expected: str,
    *,
    header_word: str = "",
    may_be_cut: bool = False,
) -> Sheet:
    """Read a table up to its header."""
    path = Path(path)
    stored = read_bytes(path)
    return sheet_of(path, stored, expected, header_word=header_word, may_be_cut=may_be_cut)


def sheet_of(
    path: Path, stored: bytes, expected: str, *, header_word: str = "", may_be_cut: bool = False
) -> Sheet:
    """Return the content of a file, as it is stored, as a sheet; arguments as in `read_sheet`."""
    sha256 = hashlib.sha256(stored).hexdigest()
    data = unpacked(path, stored)
    if data.startswith(_PARQUET) or {".parquet", ".pq"} & set(path.suffixes[-2:]):
        with _parquet(path, data) as file:
            return Sheet(path, Layout(tuple(file.schema_arrow.names)), data, sha256)
    text = text_of(path, data, expected).without_comments("#")
    if header_word:
        offset = text.data.find(header_word.encode())
        if offset < 0:
            raise LogFormatError(f"{path}:1: no header with '{header_word}', expected {expected}")
        text = text.after(text.data.rfind(b"\n", 0, offset) + 1)
    n_cut = 0
    if may_be_cut:
        text, n_cut = whole_lines(text)
    if not text.first_row:
        raise LogFormatError(f"{path}:1: the file holds comments alone, expected {expected}")
    return Sheet(path, read_header(text, DELIMITERS), text, sha256, n_cut)


def sheet_text(path: Path, expected: str) -> Text:
    """Return a text file, packed or not, or a Parquet file's table as text, with its header.

    Columns that no CSV file holds, such as lists, are left out; spans of time are seconds, stamps
    with a zone are UTC. Line n of the text is row n - 2 of the table.
    """
    stored = read_bytes(path)
    data = unpacked(path, stored)
    if not data.startswith(_PARQUET):
        return text_of(path, stored, expected)
    with _parquet(path, data) as file:
        names = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
        table = _read(path, file, names)
        table = pa.table({name: _written(table[name]) for name in names})
        text = pa.BufferOutputStream()
        pa_csv.write_csv(table, text)
    return text_of(path, text.getvalue().to_pybytes(), expected)


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as a CSV file has it."""
    kind = column.type
    if pa.types.is_duration(kind):
        us = pc.cast(pc.cast(column, pa.duration("us"), safe=False), pa.int64())
        return pc.divide(pc.cast(us, pa.float64()), 1e6)
    if pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.replace_substring_regex(column, pattern=r"[\r\n]+", replacement=" ")
    return column


@contextmanager
def _parquet(path: Path, data: bytes) -> Iterator[pq.ParquetFile]:
    """Open the content of a Parquet file; what goes wrong with it names the path."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        why = one_line((str(error).splitlines() or [repr(error)])[0])[:200]
        raise LogFormatError(
            f"{path}: not a readable Parquet file ({why}); write it again"
        ) from error


def _read(path: Path, file: pq.ParquetFile, names: list[str]) -> pa.Table:
    if file.metadata.num_rows * len(names) > MAX_UNPACKED_BYTES // 8:
        fail_size(path, MAX_UNPACKED_BYTES)
    return file.read(columns=names)
