"""CSV files written block by block; time stamps as text, with an offset or in naive UTC."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import tzinfo
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from diploee.clock import offset_text, offsets_ms
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_MIN, W_PER_KW, W_PER_MW


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


def local_stamps(starts_ms: Int64Array, zone: tzinfo, milliseconds: bool) -> pa.Array:
    """Return ISO 8601 stamps with their UTC offset, such as ``2018-11-04T01:30:00-06:00``.

    The offset keeps the two hours 01:00-02:00 of an autumn change apart, so that reading the
    stamps back gives every moment once.
    """
    shift_ms = offsets_ms(starts_ms, zone)
    different, which = np.unique(shift_ms, return_inverse=True)
    texts = pa.array([offset_text(int(ms / MS_PER_MIN)) for ms in different]).take(pa.array(which))
    return pc.binary_join_element_wise(
        naive_stamps(starts_ms + shift_ms, milliseconds, "T"), texts, ""
    )


def naive_stamps(times_ms: Int64Array, milliseconds: bool, separator: str = " ") -> pa.Array:
    """Return stamps without a zone, such as ``2018-01-01 00:00:00``."""
    stamps = pa.array(times_ms).cast(pa.timestamp("ms"))
    text = (stamps if milliseconds else stamps.cast(pa.timestamp("s"))).cast(pa.string())
    return text if separator == " " else pc.replace_substring(text, " ", separator)
