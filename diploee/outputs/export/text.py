"""CSV files written block by block."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from diploee.tables import Float64Array
from diploee.units import W_PER_KW, W_PER_MW


def in_kw(power_w: Float64Array) -> Float64Array:
    """Return power in kW, rounded to the milliwatt so that files stay small."""
    return np.round(power_w / W_PER_KW, 6)


def in_mw(power_w: Float64Array) -> Float64Array:
    """Return power in MW, rounded to the milliwatt so that files stay small."""
    return np.round(power_w / W_PER_MW, 9)


class CsvFile:
    """A CSV file that grows by whole columns; use as a context manager.

    Numbers are written with as many digits as it takes to read the same value back.

    Parameters
    ----------
    path : pathlib.Path
        File to write.
    header : sequence of str
        Names of the columns; without one the file has no header.
    """

    def __init__(self, path: Path, header: Sequence[str] = ()) -> None:
        self._file = path.open("wb")
        if header:
            line = StringIO()
            csv.writer(line, lineterminator="\n").writerow(header)
            self._file.write(line.getvalue().encode())
        self._options = pacsv.WriteOptions(include_header=False, quoting_style="none")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, *columns: Any) -> None:
        """Append rows, given as columns of one length."""
        table = pa.table(
            [pa.array(c) for c in columns], names=[str(i) for i in range(len(columns))]
        )
        pacsv.write_csv(table, self._file, self._options)
