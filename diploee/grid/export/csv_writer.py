"""Writer of CSV files, block by block, and formatting of timestamps."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from diploee.base.clock import offset_text, offsets_ms
from diploee.base.errors import spreadsheet_cell
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_MIN, W_PER_KW, W_PER_MW


def to_kw(power_w: Float64Array) -> Float64Array:
    """Return power [kW], rounded to 1 mW to keep files small."""
    return np.round(power_w / W_PER_KW, 6)


def to_mw(power_w: Float64Array) -> Float64Array:
    """Return power [MW], rounded to 1 mW to keep files small."""
    return np.round(power_w / W_PER_MW, 9)


def write_rows(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows to a CSV file; an apostrophe is put before text like a formula."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(map(spreadsheet_cell, row) for row in rows)


@contextmanager
def csv_file(path: Path, header: Sequence[str] = ()) -> Iterator[Callable[..., None]]:
    """Open a CSV file; yield a function that appends rows, given as columns.

    Numbers have as many digits as are needed to read the same value back.
    """
    options = pacsv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        if header:
            line = StringIO()
            csv.writer(line, lineterminator="\n").writerow(header)
            file.write(line.getvalue().encode())

        def write(*columns: Any) -> None:
            names = [str(i) for i in range(len(columns))]
            pacsv.write_csv(
                pa.table([pa.array(c) for c in columns], names=names), file, options
            )

        yield write


def local_stamps(starts_ms: Int64Array, zone: tzinfo, milliseconds: bool) -> pa.Array:
    """Return ISO 8601 timestamps with offset, as ``2018-11-04T01:30:00-06:00``.

    The offset distinguishes the repeated hour of an autumn change, so that every time
    can be read back.
    """
    shift_ms = offsets_ms(starts_ms, zone)
    different, which = np.unique(shift_ms, return_inverse=True)
    texts = pa.array([offset_text(int(ms / MS_PER_MIN)) for ms in different]).take(
        pa.array(which)
    )
    return pc.binary_join_element_wise(
        naive_stamps(starts_ms + shift_ms, milliseconds, "T"), texts, ""
    )


def naive_stamps(
    times_ms: Int64Array, milliseconds: bool, separator: str = " "
) -> pa.Array:
    """Return timestamps without a zone, such as ``2018-01-01 00:00:00``."""
    stamps = pa.array(times_ms).cast(pa.timestamp("ms"))
    text = (stamps if milliseconds else stamps.cast(pa.timestamp("s"))).cast(
        pa.string()
    )
    return text if separator == " " else pc.replace_substring(text, " ", separator)
