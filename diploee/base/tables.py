"""Tables: dataclasses of NumPy columns of equal length, and validated Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.base.errors import Brief, InputError, did_you_mean, one_line, one_of
from diploee.base.files import check_is_file
from diploee.base.units import MAX_NUMBER

if TYPE_CHECKING:
    import pandas as pd


def arrow_numbers(
    values: npt.NDArray[Any],
    kind: pa.DataType | None = None,
    missing: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return numbers or booleans as an Arrow array; numbers are not copied."""
    content = (
        _packed_bits(values)
        if values.dtype == np.bool_
        else np.ascontiguousarray(values)
    )
    buffers = [
        None if missing is None else pa.py_buffer(_packed_bits(~missing)),
        pa.py_buffer(content),
    ]
    return pa.Array.from_buffers(
        kind or pa.from_numpy_dtype(values.dtype), values.size, buffers
    )


def _packed_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return booleans packed to bits, as Arrow stores them."""
    return np.packbits(values, bitorder="little")


def arrow_texts(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def as_numpy(
    column: pa.ChunkedArray, dtype: npt.DTypeLike, null: float | None = None
) -> npt.NDArray[Any]:
    """Return a column of numbers or booleans as NumPy array; nulls become `null`.

    Without `null` they become NaN.
    """
    if not column.null_count and not pa.types.is_boolean(column.type):
        return np.from_dlpack(column.combine_chunks()).astype(dtype, copy=False)
    filled = column if null is None else column.fill_null(null)
    values: npt.NDArray[Any] = filled.to_numpy().astype(dtype)
    return values


Int8Array = npt.NDArray[np.int8]
Int16Array = npt.NDArray[np.int16]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

T = TypeVar("T", bound="Table")


def column(dtype: str, default: float | None = None) -> Any:
    """Declare a table column of a NumPy type; one with a default may be omitted."""
    metadata = {"dtype": np.dtype(dtype), "default": default}
    return (
        field(metadata=metadata)
        if default is None
        else field(default=None, metadata=metadata)
    )


@dataclass(frozen=True, eq=False)
class Table(Brief):
    """Base class of tables. Subclasses declare their columns with `column`."""

    def __post_init__(self) -> None:
        n_rows = -1
        for name, dtype in self._dtypes():
            # An omitted column with a default; other columns precede it
            if getattr(self, name) is None:
                default = self.__dataclass_fields__[name].metadata["default"]
                object.__setattr__(self, name, np.full(n_rows, default, dtype))
            values = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            if values.ndim != 1 or n_rows not in (-1, values.size):
                raise ValueError(
                    f"{type(self).__name__}.{name}: shape {values.shape}, expected "
                    f"({n_rows},)"
                )
            n_rows = values.size
            object.__setattr__(self, name, values)

    @classmethod
    @cache  # a run makes thousands of small tables
    def _dtypes(cls) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """Return name and type of each column."""
        kinds = (
            (column_field.name, column_field.metadata.get("dtype"))
            for column_field in fields(cls)
        )
        return tuple((name, dtype) for name, dtype in kinds if dtype is not None)

    def __len__(self) -> int:
        (first, _), *_ = self._dtypes()
        return int(getattr(self, first).size)

    def take(self, rows: npt.NDArray[Any] | slice) -> Self:
        """Return the rows selected by a boolean mask, an index array or a slice."""
        return type(self)(
            **{name: getattr(self, name)[rows] for name, _ in self._dtypes()}
        )

    def columns(self, *names: str) -> tuple[npt.NDArray[Any], ...]:
        """Return several columns of the table by name, as arrays."""
        return tuple(getattr(self, name) for name in names)

    @classmethod
    def empty(cls) -> Self:
        """Return a table of this type without rows."""
        return cls(**{name: np.empty(0, dtype) for name, dtype in cls._dtypes()})


def repeated(count: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return row indices repeated by count, and the repetition number of each."""
    row = np.repeat(np.arange(count.size), count)
    return row, np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)


def concat(tables: Sequence[T]) -> T:
    """Concatenate tables of one type by rows."""
    if not tables:
        raise ValueError("concat needs at least one table")
    nonempty = [table for table in tables if len(table)]
    if len(nonempty) < 2:
        return nonempty[0] if nonempty else tables[0]  # nothing to copy
    kind = type(tables[0])
    return kind(
        **{
            name: np.concatenate([getattr(table, name) for table in nonempty])
            for name, _ in kind._dtypes()
        }
    )


Kind = Literal["number", "truth", "time", "text", "any"]
"""Kind of a column: numbers, booleans, zone-aware timestamps, text, or any."""

MAX_SIZE = 1e15
"""Maximum magnitude of a number read; its sums and squares stay finite."""

_DAMAGED = (OSError, pa.ArrowException, UnicodeDecodeError)


@contextmanager
def open_parquet(
    path: Path,
    columns: Mapping[str, Kind],
    error: type[InputError] = InputError,
    remedy: str = "was it written to its end?",
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file and check that it has the expected columns."""
    where = one_line(str(path))
    check_is_file(path, error)
    try:
        # No memory map: the process would crash if another one changed the file.
        with pq.ParquetFile(path, memory_map=False) as file:
            _check_columns(file.schema_arrow, columns, where, error)
            yield file
    except _DAMAGED as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise error(f"{where}: can't be read ({first[:200]}); {remedy}") from problem


def to_pandas_frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame, or raise an Arrow error."""
    table.validate(full=True)  # text that is not UTF-8
    try:
        frame: pd.DataFrame = table.to_pandas()
    except KeyError as zone:
        raise pa.ArrowInvalid(f"unknown time zone {zone}") from zone
    return frame


def _check_columns(
    schema: pa.Schema, columns: Mapping[str, Kind], where: str, error: type[InputError]
) -> None:
    """Raise an error if columns are missing, duplicated or of the wrong type."""
    names = schema.names
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise error(f"{where}: column '{duplicate}' is there twice")
    for name, kind in columns.items():
        if name not in names:
            raise error(
                f"{where}: column '{name}' is missing (found: {one_of(names)})"
                f"{did_you_mean(name, names)}"
            )
        type_ = schema.field(name).type
        if not _is_of_kind(type_, kind):
            raise error(
                f"{where}: column '{name}' is of type {type_}, expected "
                f"{_KIND_TEXTS[kind]}"
            )


_KIND_TEXTS = {
    "number": "numbers",
    "truth": "truth values",
    "time": "time stamps with a zone",
    "text": "text",
}


def _is_of_kind(type_: pa.DataType, kind: Kind) -> bool:
    """Return True if an Arrow type is of a kind."""
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
    values: pa.Array | pa.ChunkedArray,
    where: str,
    first: int = 0,
    *,
    has_gaps: bool = False,
) -> Float64Array:
    """Return a column of numbers as an array; with `has_gaps`, missing ones are NaN."""
    column = (
        values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    )
    result: Float64Array = as_numpy(column, np.float64)
    present = result[column.is_valid().to_numpy()] if has_gaps else result
    # NaN fails both comparisons.
    if present.size and not (present.min() >= -MAX_SIZE and present.max() <= MAX_SIZE):
        row = int(np.argmin(np.abs(result) <= MAX_SIZE))
        actual = "missing" if not values[row].is_valid else f"{result[row]:g}"
        raise InputError(
            f"{where}: the value of row {first + row:,} is {actual}, expected a number "
            f"up to {MAX_SIZE:g}"
        )
    return result


@dataclass(frozen=True)
class Range:
    """A range of allowed numbers, with its description for errors."""

    largest: float = MAX_NUMBER  # maximum absolute value
    # Inclusive and exclusive lower bound
    at_least: float = -np.inf
    above: float = -np.inf

    def contains(self, values: Float64Array) -> BoolArray:
        """Return True for each value within the range; NaN is not."""
        allowed = (np.abs(values) <= self.largest) & (values >= self.at_least)
        return np.asarray(allowed & (values > self.above), dtype=np.bool_)

    @property
    def noun(self) -> str:
        """Noun of an allowed value, without the bounds."""
        return "a number"

    @property
    def largest_text(self) -> str:
        """Largest allowed value as text."""
        return f"{self.largest:g}"

    def __str__(self) -> str:
        text = self.noun
        if self.above > -np.inf:
            text += f" above {self.above:g}"
        if self.at_least > -np.inf:
            text += f" of {self.at_least:g} or more"
        if self.largest < MAX_NUMBER:
            text += f" up to {self.largest_text}"
        return text
