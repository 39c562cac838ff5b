"""Arrow arrays from and to NumPy, without pandas.

pyarrow imports pandas, which takes longer than many a run, for every array that it makes of values
and for every one that it gives to NumPy. Buffers need no pandas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
