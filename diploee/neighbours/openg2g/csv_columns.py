"""Columns of numbers in and out of CSV text; every fault names the file and the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from diploee.tables import Float64Array
from diploee.textio.sheets import sheet_of
from diploee.textio.values import Number, numbers


def parse_columns(path: Path, content: bytes, names: Sequence[str]) -> tuple[Float64Array, ...]:
    """Parse columns of finite numbers."""
    what = f"a table of '{','.join(names)}'"
    table = sheet_of(path, content, what).read(names, what)
    return tuple(numbers(table, name, Number(may_miss=False)) for name in names)


def format_columns(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return columns as CSV with a header; numbers in full, so that they come back bit by bit."""
    buffer = BytesIO()
    buffer.write(f"{','.join(columns)}\n".encode())
    options = pa_csv.WriteOptions(include_header=False)
    pa_csv.write_csv(pa.table(dict(columns)), buffer, options)
    return buffer.getvalue()
