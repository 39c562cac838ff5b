"""Tables Q(P) of an export's reactive power."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diploee.errors import InputError
from diploee.outputs.export.series import HEADER, ReactiveTable
from diploee.textio.sheets import read_sheet
from diploee.textio.values import Number, fail_values, numbers


def read_reactive_table(path: Path) -> ReactiveTable:
    """Read a CSV with the header ``p_mw,q_mvar``; lines that start with ``#`` are comments."""
    what = f"a table '{','.join(HEADER)}'"
    table = read_sheet(path, what).read(HEADER, what)
    p_mw, q_mvar = (numbers(table, name, Number(may_miss=False)) for name in HEADER)
    if len(table) < 2:
        raise InputError(f"{path}: a Q(P) table needs two rows or more, found {len(table)}")
    fail_values(table, HEADER[0], np.diff(p_mw, prepend=-np.inf) > 0, "more than in the row before")
    return ReactiveTable(path, p_mw, q_mvar)
