"""Struct-of-arrays tables: frozen dataclasses of equally long NumPy columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def arrow_numbers(
    values: npt.NDArray[Any],
    kind: pa.DataType | None = None,
    missing: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return numbers or truth values as an Arrow array, numbers without a copy."""
    content = _bits(values) if values.dtype == np.bool_ else np.ascontiguousarray(values)
    buffers = [None if missing is None else pa.py_buffer(_bits(~missing)), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), values.size, buffers)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
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
    """Return a column of numbers or truth values as NumPy array; nulls as `null`, else NaN."""
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
    """Declare a table column of the given NumPy type; one with a default may be left out."""
    metadata = {"dtype": np.dtype(dtype), "default": default}
    return field(metadata=metadata) if default is None else field(default=None, metadata=metadata)


@dataclass(frozen=True, eq=False)
class Table:
    """Base of all tables. Subclasses declare their columns with `column`."""

    def __post_init__(self) -> None:
        n_rows = -1
        for name, dtype in self._dtypes():
            if getattr(self, name) is None:  # a column with a default, which others precede
                default = self.__dataclass_fields__[name].metadata["default"]
                object.__setattr__(self, name, np.full(n_rows, default, dtype))
            values = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            if values.ndim != 1 or n_rows not in (-1, values.size):
                raise ValueError(
                    f"{type(self).__name__}.{name}: shape {values.shape}, expected ({n_rows},)"
                )
            n_rows = values.size
            object.__setattr__(self, name, values)

    @classmethod
    @cache  # a run makes thousands of small tables
    def _dtypes(cls) -> tuple[tuple[str, np.dtype[Any]], ...]:
        kinds = ((found.name, found.metadata.get("dtype")) for found in fields(cls))
        return tuple((name, dtype) for name, dtype in kinds if dtype is not None)

    def __len__(self) -> int:
        (first, _), *_ = self._dtypes()
        return int(getattr(self, first).size)

    def take(self, rows: npt.NDArray[Any] | slice) -> Self:
        """Return the rows of a boolean mask, an index array or a slice."""
        return type(self)(**{name: getattr(self, name)[rows] for name, _ in self._dtypes()})

    def columns(self, *names: str) -> tuple[npt.NDArray[Any], ...]:
        """Return some columns."""
        return tuple(getattr(self, name) for name in names)

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        return pa.table({name: arrow_numbers(getattr(self, name)) for name, _ in self._dtypes()})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Self:
        """Build the table from an Arrow table that holds its columns."""
        return cls(**{name: as_numpy(table[name], dtype) for name, dtype in cls._dtypes()})

    @classmethod
    def empty(cls) -> Self:
        """Return a table without rows."""
        return cls(**{name: np.empty(0, dtype) for name, dtype in cls._dtypes()})


def repeated(count: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return each row as often as its count says, and how often it came before."""
    row = np.repeat(np.arange(count.size), count)
    return row, np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)


def concat(tables: Sequence[T]) -> T:
    """Concatenate tables of one type row-wise."""
    if not tables:
        raise ValueError("concat needs at least one table")
    filled = [table for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0] if filled else tables[0]  # nothing to copy
    kind = type(tables[0])
    return kind(
        **{
            name: np.concatenate([getattr(table, name) for table in filled])
            for name, _ in kind._dtypes()
        }
    )
