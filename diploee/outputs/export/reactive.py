"""Reactive power, only ever from a table Q(P) that the user gives."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.errors import InputError
from diploee.tables import Float64Array
from diploee.units import W_PER_MW

HEADER = ["p_mw", "q_mvar"]
CONVENTION = (
    "load convention: q_mvar above 0 is reactive power that the facility draws (inductive), "
    "below 0 that it supplies (capacitive)"
)


@dataclass(frozen=True, eq=False)
class ReactiveTable:
    """Reactive against active power, linear between the rows, undefined beyond them.

    The sign follows the load convention: above 0 the facility draws reactive power.

    Parameters
    ----------
    path : pathlib.Path
        Where it was read from.
    p_mw, q_mvar : numpy.ndarray, shape (n,), float64
        Its rows; `p_mw` rises.
    """

    path: Path
    p_mw: Float64Array
    q_mvar: Float64Array

    def at(self, power_w: Float64Array) -> Float64Array:
        """Return the reactive power [Mvar] at active powers [W].

        Raises
        ------
        InputError
            If a power lies outside the table; nothing is extrapolated.
        """
        p_mw = power_w / W_PER_MW
        low, high = float(p_mw.min()), float(p_mw.max())
        # A mean of stored float32 values may pass the table's end by their last digit.
        slack = 1e-6 * max(abs(self.p_mw[0]), abs(self.p_mw[-1]))
        if low < self.p_mw[0] - slack or high > self.p_mw[-1] + slack:
            worst = low if low < self.p_mw[0] - slack else high
            raise InputError(
                f"{self.path}: the run reaches {worst:.6g} MW, the table goes from "
                f"{self.p_mw[0]:g} to {self.p_mw[-1]:g} MW; add rows, nothing is extrapolated"
            )
        return np.interp(p_mw, self.p_mw, self.q_mvar)


def read_reactive_table(path: Path) -> ReactiveTable:
    """Read a CSV with the header ``p_mw,q_mvar``; lines that start with ``#`` are comments.

    Raises
    ------
    InputError
        If it can't be read, or is no such table; the text names the line.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise InputError(f"--q-table: {path}: can't be read ({error})") from error
    rows: list[tuple[float, float]] = []
    header_seen = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if not header_seen:
            header_seen = True
            if cells != HEADER:
                raise InputError(
                    f"{path}:{number}: expected the header p_mw,q_mvar, found '{line}'"
                )
            continue
        rows.append(_row(path, number, cells))
        if len(rows) > 1 and rows[-1][0] <= rows[-2][0]:
            raise InputError(f"{path}:{number}: p_mw must rise from row to row, found {cells[0]}")
    if len(rows) < 2:
        raise InputError(f"{path}: a Q(P) table needs two rows or more, found {len(rows)}")
    p_mw, q_mvar = np.array(rows).T
    return ReactiveTable(path, p_mw, q_mvar)


def _row(path: Path, number: int, cells: list[str]) -> tuple[float, float]:
    try:
        p_mw, q_mvar = (float(cell) for cell in cells)
    except ValueError:
        p_mw = q_mvar = math.nan
    if not (math.isfinite(p_mw) and math.isfinite(q_mvar)):
        raise InputError(f"{path}:{number}: expected two numbers, found '{','.join(cells)}'")
    return p_mw, q_mvar
