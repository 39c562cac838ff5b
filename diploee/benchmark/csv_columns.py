"""Columns of numbers in and out of CSV text; every fault names the file and the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from diploee.errors import LogFormatError, one_of
from diploee.tables import Float64Array


def parse_columns(path: Path, content: bytes, names: Sequence[str]) -> tuple[Float64Array, ...]:
    """Parse columns of finite numbers.

    Parameters
    ----------
    path : pathlib.Path
        Named in errors.
    content : bytes
        The file: CSV with a header; other columns are not read.
    names : sequence of str
        Columns wanted.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (n,), float64
        In the order of `names`.

    Raises
    ------
    LogFormatError
        If the file is empty or no CSV, a column is missing, or a value is not a finite number.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    head = content.partition(b"\n")[0].decode(errors="replace").strip()
    header = [word.strip().strip('"') for word in head.split(",")]
    for name in names:
        if header.count(name) != 1:
            raise LogFormatError(
                f"{path}:1: column '{name}' found {header.count(name)} times (found: "
                f"{one_of(header[:8])}), expected once; the columns are '{','.join(names)}'"
            )
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(content),
            read_options=pa_csv.ReadOptions(use_threads=False, column_names=header, skip_rows=1),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float64()),
                include_columns=list(names),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, ValueError) as error:
        line = (str(error).splitlines() or [repr(error)])[0]
        raise LogFormatError(
            f"{path}: not a table of numbers ({line}); correct this row"
        ) from error
    found = tuple(np.asarray(table[name], dtype=np.float64) for name in names)
    for name, values in zip(names, found, strict=True):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise LogFormatError(
                f"{path}:{bad[0] + 2}: '{name}' is {values[bad[0]]} ({bad.size} such rows), "
                "expected finite numbers"
            )
    return found


def format_columns(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return columns as CSV with a header; numbers in full, so that they come back bit by bit."""
    buffer = BytesIO()
    buffer.write(f"{','.join(columns)}\n".encode())
    options = pa_csv.WriteOptions(include_header=False)
    pa_csv.write_csv(pa.table(dict(columns)), buffer, options)
    return buffer.getvalue()
