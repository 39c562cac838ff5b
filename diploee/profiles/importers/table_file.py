"""A CSV or Parquet file as named columns of numbers or times; a bad value is named with its row."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from diploee.errors import LogFormatError, one_line
from diploee.tables import BoolArray, Float64Array

LARGEST_NUMBER = float(np.finfo(np.float32).max)
_NO_VALUE = ("", "nan", "na", "n/a", "null", "none", "-")


class TableFile:
    """The columns of one file, read by their names.

    Parameters
    ----------
    path : pathlib.Path or str
        ``*.parquet`` or ``*.pq`` is read as Parquet; anything else as CSV with a header, which
        lines that begin with ``#`` may stand above; ``*.gz`` is unpacked first.
    expected : str
        The columns that errors ask for, such as ``"'t_s,power_w'"``.
    header_word : str, optional
        Lines of a CSV file above the first one with this word are skipped.
    may_be_cut : bool
        A last line without its line end is left out: its writer was killed.

    Attributes
    ----------
    n_cut : int
        Lines left out at the end.
    names : list of str
        Columns of the file, without blanks around them.
    sha256 : str
        Hash of the file as it is stored.

    Raises
    ------
    LogFormatError
        If it can't be read, or is no such file.
    """

    def __init__(
        self,
        path: Path | str,
        expected: str,
        header_word: str | None = None,
        may_be_cut: bool = False,
    ) -> None:
        self.path = Path(path)
        self._expected = expected
        self.n_cut = 0
        data = self._bytes()
        self.sha256 = hashlib.sha256(data).hexdigest()
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        if suffixes[-1:] == [".gz"]:
            data = self._unpacked(data)
            suffixes.pop()
        self._is_parquet = suffixes[-1:] in ([".parquet"], [".pq"])
        if may_be_cut and not self._is_parquet:
            data = self._whole_lines(data)
        self._data = data
        self._n_skipped = 0
        self._header_word = header_word.encode() if header_word else b""
        self._raw_names = self._parquet_names() if self._is_parquet else self._csv_names()
        self.names = [name.strip() for name in self._raw_names]

    def row(self, index: int) -> str:
        """Return where a row stands, for an error: a line of a CSV file, a row of a Parquet one."""
        if self._is_parquet:
            return f"{self.path}: row {index}"
        return f"{self.path}:{self._n_skipped + 2 + index}"

    def read(self, *names: str) -> list[pa.Array]:
        """Read columns; those of a CSV file are text.

        Raises
        ------
        LogFormatError
            If a column is not there exactly once, or a row has too many or too few fields.
        """
        for name in names:
            if self.names.count(name) != 1:
                found = ", ".join(map(repr, self.names[:8]))
                raise LogFormatError(
                    f"{self.path}:{self._n_skipped + 1}: column '{one_line(name)}' found "
                    f"{self.names.count(name)} times (found: {found}), expected once; "
                    f"name the columns {self._expected}"
                )
        wanted = [self._raw_names[self.names.index(name)] for name in names]
        table = self._parquet(wanted) if self._is_parquet else self._csv(wanted)
        columns = [table[raw].combine_chunks() for raw in wanted]
        # pyarrow before 17 gave a chunked array of one chunk here.
        return [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]

    def numbers(self, name: str, column: pa.Array, may_miss: bool = False) -> Float64Array:
        """Return a column as finite numbers.

        Parameters
        ----------
        name : str
            The column, for errors.
        column : pyarrow.Array
            As `read` gives it.
        may_miss : bool
            An empty value, ``nan`` and the like become NaN rather than an error.

        Raises
        ------
        LogFormatError
            If a value is missing, not a number, or too large.
        """
        expected = "expected a finite number; fill it in (a row can't be missing)"
        empty: BoolArray = column.is_null().to_numpy(zero_copy_only=False)
        if empty.any() and not may_miss:
            place = self.row(int(np.argmax(empty)))
            raise LogFormatError(f"{place}: '{name}' is missing, {expected}")
        try:
            cast = pc.cast(column, pa.float64())
            values = np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)
            empty |= np.isnan(values)
        except pa.ArrowException as error:
            if not is_text(column):
                raise LogFormatError(
                    f"{self.row(0)}: '{name}' is of type {column.type}, {expected}"
                ) from error
            words = column.to_pylist()
            values = np.array([_number(word) for word in words], dtype=np.float64)
            empty = np.array([_is_missing(word) for word in words], dtype=np.bool_)
        bad: BoolArray = ~(np.abs(values) <= LARGEST_NUMBER)
        if may_miss:
            bad &= ~empty
        if bad.any():
            row = int(np.argmax(bad))
            raise LogFormatError(
                f"{self.row(row)}: '{name}' is {str(column[row])[:40]!r} "
                f"({int(bad.sum())} such rows), {expected}"
            )
        return values

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise LogFormatError(
                f"{self.path}: can't be read ({why}); give a readable file"
            ) from error

    def _unpacked(self, data: bytes) -> bytes:
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise LogFormatError(
                f"{self.path}: not a complete gzip file ({first_line(error)}); pack it again"
            ) from error

    def _whole_lines(self, data: bytes) -> bytes:
        whole, end, rest = data.rpartition(b"\n")
        self.n_cut = int(bool(end) and bool(rest.strip()))
        return whole + end if end else data

    def _csv_names(self) -> list[str]:
        data = self._data.removeprefix(b"\xef\xbb\xbf").rstrip()
        while data and (data.startswith(b"#") or self._header_word not in data.partition(b"\n")[0]):
            data = data.partition(b"\n")[2]
            self._n_skipped += 1
        if not data:
            raise LogFormatError(
                f"{self.path}:1: the file is empty or has no header, expected columns "
                f"{self._expected}"
                if self._header_word
                else f"{self.path}:1: the file is empty, expected columns {self._expected}"
            )
        self._data = data
        try:
            return next(csv.reader([data.partition(b"\n")[0].decode()]))
        except (csv.Error, ValueError, StopIteration) as error:
            raise self._no_csv(error) from error

    def _csv(self, wanted: Sequence[str]) -> pa.Table:
        if b"\n" not in self._data:
            return pa.table({name: pa.array([], pa.string()) for name in wanted})
        try:
            return pa_csv.read_csv(
                pa.BufferReader(self._data),
                # One thread, so that errors tell the row.
                read_options=pa_csv.ReadOptions(use_threads=False),
                parse_options=pa_csv.ParseOptions(ignore_empty_lines=False),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()),
                    include_columns=list(wanted),
                    strings_can_be_null=False,
                ),
            )
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise self._no_csv(error) from error

    def _no_csv(self, error: Exception) -> LogFormatError:
        return LogFormatError(
            f"{self.path}: not a CSV table of {self._expected} ({first_line(error)}); "
            "correct this row"
        )

    def _parquet_names(self) -> list[str]:
        try:
            with pq.ParquetFile(pa.BufferReader(self._data)) as file:
                return list(file.schema_arrow.names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._no_parquet(error) from error

    def _parquet(self, wanted: Sequence[str]) -> pa.Table:
        try:
            with pq.ParquetFile(pa.BufferReader(self._data)) as file:
                return file.read(columns=list(wanted))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._no_parquet(error) from error

    def _no_parquet(self, error: Exception) -> LogFormatError:
        return LogFormatError(
            f"{self.path}: not a readable Parquet file ({first_line(error)}); write it again"
        )


def is_text(column: pa.Array) -> bool:
    """Return whether a column holds text."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return one_line((str(error).splitlines() or [repr(error)])[0])


def _number(word: str | None) -> float:
    try:
        return np.nan if word is None or "_" in word else float(word)
    except ValueError:
        return np.nan


def _is_missing(word: str | None) -> bool:
    return word is None or word.strip().lower() in _NO_VALUE
