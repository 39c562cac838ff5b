"""Small tables of a site: points of measured cooling power, and Q(P) of an export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from diploee.errors import InputError
from diploee.facility.cooling_table import LIMITS, Point
from diploee.outputs.export.series import HEADER, ReactiveTable
from diploee.textio.sheets import read_sheet
from diploee.textio.values import Number, fail_values, numbers


def read_cooling_points(path: Path) -> tuple[Point, ...]:
    """Read points of temperature, load and cooling power over IT power."""
    what = "a table of measured cooling"
    table = read_sheet(path, what).read(list(LIMITS), what)
    columns = (
        numbers(table, name, Number(**asdict(limit), may_miss=False)).tolist()
        for name, limit in LIMITS.items()
    )
    return tuple(zip(*columns, strict=True))


def read_reactive_table(path: Path) -> ReactiveTable:
    """Read a CSV with the header ``p_mw,q_mvar``; lines that start with ``#`` are comments."""
    what = f"a table '{','.join(HEADER)}'"
    table = read_sheet(path, what).read(HEADER, what)
    p_mw, q_mvar = (numbers(table, name, Number(may_miss=False)) for name in HEADER)
    if len(table) < 2:
        raise InputError(f"{path}: a Q(P) table needs two rows or more, found {len(table)}")
    fail_values(table, HEADER[0], np.diff(p_mw, prepend=-np.inf) > 0, "more than in the row before")
    return ReactiveTable(path, p_mw, q_mvar)
