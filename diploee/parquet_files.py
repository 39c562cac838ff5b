"""Parquet files from disk: opened with a check of their columns, errors as one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError, did_you_mean, one_line, one_of
from diploee.files import check_is_file
from diploee.tables import Float64Array, as_numpy

Kind = Literal["number", "truth", "time", "text", "any"]
"""What a column holds: numbers, truth values, zone-aware stamps, text, or whatever it is."""

MAX_SIZE = 1e15
"""Largest size of a number that is read; sums and squares of it stay finite."""

_DAMAGED = (OSError, pa.ArrowException, UnicodeDecodeError)


@contextmanager
def open_parquet(
    path: Path,
    columns: Mapping[str, Kind],
    error: type[InputError] = InputError,
    remedy: str = "was it written to its end?",
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose columns are as expected."""
    where = one_line(str(path))
    check_is_file(path, error)
    try:
        # A file may have many readers, and memory maps of files that change end the process.
        with pq.ParquetFile(path, memory_map=False) as file:
            _check_columns(file.schema_arrow, columns, where, error)
            yield file
    except _DAMAGED as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise error(f"{where}: can't be read ({first[:200]}); {remedy}") from problem


def read_parquet(source: Path | BinaryIO, columns: Sequence[str] | None = None) -> pa.Table:
    """Read columns of one Parquet file, all by default.

    `pyarrow.parquet.read_table` does so as well, but imports `pyarrow.dataset` first.
    """
    with pq.ParquetFile(source) as file:
        have = file.schema_arrow.names
        for name in columns or ():
            if name not in have:
                raise pa.ArrowKeyError(f"no column '{name}'")
        return file.read(columns)


def _check_columns(
    schema: pa.Schema, columns: Mapping[str, Kind], where: str, error: type[InputError]
) -> None:
    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise error(f"{where}: column '{twice}' is there twice")
    for name, kind in columns.items():
        if name not in names:
            raise error(
                f"{where}: column '{name}' is missing (found: {one_of(names)})"
                f"{did_you_mean(name, names)}"
            )
        type_ = schema.field(name).type
        if not _is(type_, kind):
            raise error(f"{where}: column '{name}' is of type {type_}, expected {_WORDS[kind]}")


_WORDS = {
    "number": "numbers",
    "truth": "truth values",
    "time": "time stamps with a zone",
    "text": "text",
}


def _is(type_: pa.DataType, kind: Kind) -> bool:
    if kind == "number":
        return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))
    if kind == "time":
        return bool(pa.types.is_timestamp(type_) and type_.tz is not None)
    if kind == "any":
        return True
    if kind == "truth":
        return bool(pa.types.is_boolean(type_))
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def numbers(
    values: pa.Array | pa.ChunkedArray, where: str, first: int = 0, *, has_gaps: bool = False
) -> Float64Array:
    """Return a column of numbers as an array; what is missing as NaN where it may have gaps."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    result: Float64Array = as_numpy(column, np.float64)
    known = result[column.is_valid().to_numpy()] if has_gaps else result
    # NaN is neither above nor below.
    if known.size and not (known.min() >= -MAX_SIZE and known.max() <= MAX_SIZE):
        row = int(np.argmin(np.abs(result) <= MAX_SIZE))
        found = "missing" if not values[row].is_valid else f"{result[row]:g}"
        raise InputError(
            f"{where}: the value of row {first + row:,} is {found}, expected a number up to "
            f"{MAX_SIZE:g}"
        )
    return result
