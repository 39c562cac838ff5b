"""One ServeGen chunk: the request rate of one client, a row per 600 s."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from diploee.errors import shown
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.workload.importers.requests.blocks import Block, fields_of, read_blocks
from diploee.workload.importers.requests.rows import MISSING_WORDS, number_of
from diploee.workload.importers.requests.totals import (
    NEGATIVE_TIME,
    NO_TIME,
    OUT_OF_ORDER,
    REPEATED,
)

ROW_S = 600
"""Time that a row stands for [s]."""

NO_RATE = "no rate"
NEGATIVE_RATE = "negative rate"

LARGEST_TIME_S = 1e10
LARGEST_RATE_RPS = 1e9

_N_FIELDS = 6
_FEWEST_FIELDS = 4  # rows of an idle client may lack the parameters
_NAMES = ("time", "rate", "cv", "family", "first", "second")


@dataclass(frozen=True, eq=False)
class ClientRates:
    """Rows of one chunk, in increasing order.

    Parameters
    ----------
    time_s : numpy.ndarray, shape (n,)
        Start of each row [s]; they are at least 600 s apart, the rate is zero in between.
    rate_rps : numpy.ndarray, shape (n,)
        Mean rate over its 600 s [1/s].
    n_rows : int
        Rows read.
    """

    time_s: Float64Array
    rate_rps: Float64Array
    n_rows: int

    def requests_until(self, edges_s: Float64Array) -> Float64Array:
        """Return the cumulative requests at times [s]."""
        if not self.time_s.size:
            return np.zeros(edges_s.shape)
        corners_s = np.column_stack((self.time_s, self.time_s + ROW_S)).ravel()
        ends = np.cumsum(self.rate_rps * ROW_S)
        until = np.column_stack((np.concatenate(([0.0], ends[:-1])), ends)).ravel()
        return np.asarray(np.interp(edges_s, corners_s, until), dtype=np.float64)


def read_client(path: Path, dropped: Counter[str], repaired: Counter[str]) -> ClientRates:
    """Read one chunk.

    Parameters
    ----------
    path : pathlib.Path
        The file; it may be packed with gzip.
    dropped, repaired : collections.Counter
        Rows by cause, added to.

    Raises
    ------
    LogFormatError
        If it can't be read, a row is not six fields with a time and a rate, or rows are less than
        600 s apart.
    """
    time_s, rate_rps, line = _read(path)
    n_rows = time_s.size
    keep = np.ones(n_rows, dtype=bool)
    causes: tuple[tuple[str, BoolArray], ...] = (
        (NO_TIME, np.isnan(time_s)),
        (NO_RATE, np.isnan(rate_rps)),
        (NEGATIVE_TIME, time_s < 0),
        (NEGATIVE_RATE, rate_rps < 0),
    )
    for cause, wrong in causes:
        dropped[cause] += int(np.count_nonzero(wrong & keep))
        keep &= ~wrong
    repaired[OUT_OF_ORDER] += int(np.count_nonzero(np.diff(time_s[keep]) < 0))
    order = np.flatnonzero(keep)[np.argsort(time_s[keep], kind="stable")]
    repeated = np.diff(time_s[order], prepend=-np.inf) == 0
    dropped[REPEATED] += int(np.count_nonzero(repeated))
    order = order[~repeated]
    time_s, rate_rps, line = time_s[order], rate_rps[order], line[order]
    close = np.flatnonzero(np.diff(time_s) < ROW_S)
    if close.size:
        _fail_close(path, int(line[close[0] + 1]), time_s[close[0] : close[0] + 2])
    return ClientRates(time_s, rate_rps, n_rows)


def _read(path: Path) -> tuple[Float64Array, Float64Array, Int64Array]:
    """Return time [s], rate [1/s] and line of each row; NaN where a field is empty."""
    times, rates, lines = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    for block in read_blocks(path):
        if block.data.strip():
            time_s, rate_rps = _arrow_rows(block) or _lines_to_rows(block)
            times.append(time_s)
            rates.append(rate_rps)
            lines.append(np.array([number for number, _ in block.rows()], dtype=np.int64))
    return np.concatenate(times), np.concatenate(rates), np.concatenate(lines)


def _fail_close(path: Path, line: int, time_s: Float64Array) -> NoReturn:
    Block(path, b"", 1).fail(
        line,
        f"this row starts {time_s[1] - time_s[0]:g} s after another, expected rows {ROW_S} s apart "
        "(ServeGen); correct or remove this row",
    )


def _arrow_rows(block: Block) -> tuple[Float64Array, Float64Array] | None:
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(block.data),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=len(block.data) + 1, column_names=list(_NAMES)
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={"time": pa.float64(), "rate": pa.float64()},
                include_columns=["time", "rate"],
                null_values=list(MISSING_WORDS),
            ),
        )
    except pa.ArrowException:
        return None
    time_s, rate_rps = (
        np.array(pc.fill_null(table[name], np.nan).to_numpy(), dtype=np.float64)
        for name in ("time", "rate")
    )
    usual = np.nanmax(np.abs(time_s), initial=0) <= LARGEST_TIME_S
    usual &= np.nanmax(np.abs(rate_rps), initial=0) <= LARGEST_RATE_RPS
    return (time_s, rate_rps) if usual else None


def _lines_to_rows(block: Block) -> tuple[Float64Array, Float64Array]:
    found = []
    for line, text in block.text_rows():
        fields = fields_of(text) or []
        if not _FEWEST_FIELDS <= len(fields) <= _N_FIELDS:
            block.fail(
                line,
                f"found {len(fields)} fields, expected {_N_FIELDS} "
                "(t_s,rate,cv,family,p1,p2); correct or remove this row",
            )
        found.append(
            (
                _number(block, line, "time [s]", fields[0], LARGEST_TIME_S),
                _number(block, line, "rate [1/s]", fields[1], LARGEST_RATE_RPS),
            )
        )
    values = np.array(found, dtype=np.float64).reshape(-1, 2)
    return values[:, 0], values[:, 1]


def _number(block: Block, line: int, what: str, text: str, largest: float) -> float:
    if text in MISSING_WORDS:
        return float("nan")
    value = number_of(text)
    if value is None or abs(value) > largest:
        block.fail(
            line,
            f"the {what} is {shown(text)}, expected a number up to {largest:g}; "
            "correct or remove this row",
        )
    return value
