"""Reading curve files: CSV with `#` comments; every fault is named by file and line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diploee.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.files.places import shipped_folder
from diploee.loads.services.curves import ServingFile
from diploee.tables import Float64Array
from diploee.textio.sheets import read_sheet
from diploee.textio.tables import ReadTable
from diploee.textio.values import Number, fail_values, numbers

MIN_POINTS = 3
LEAST_NUMBER, LARGEST_NUMBER = 1e-9, 1e9
"""Rates, latencies and powers beyond these are slips, and would overflow further on."""
RATE_COLUMN = "request_rate_rps"


@dataclass(frozen=True)
class CurveFile(ServingFile):
    """A curve file with all its columns, by their names."""

    table: ReadTable


def find_curve_file(name: str, folder: Path) -> Path:
    """Return the file of a curve given by shipped name or by path relative to a folder."""
    files = sorted((shipped_folder("profiles") / "curves").glob("*.csv"))
    shipped = {path.stem: path for path in files}
    path = folder / name
    try:
        if path.is_file() or (path.exists() and name not in shipped):
            return path  # what is no file is refused where it is read
    except OSError as error:  # such as a name that is too long for any file
        raise InputError(f"{shown(name)}: can't be read ({error.strerror})") from error
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"{one_line(name)}: no such curve file beside the scenario and no shipped curve "
        f"(shipped: {one_of(shipped)}){did_you_mean(Path(name).stem, shipped)}"
    )


def read_curve_file(name: str, folder: Path) -> CurveFile:
    """Read a curve file without interpreting its values."""
    path = find_curve_file(name, folder)
    sheet = read_sheet(path, f"a header such as '{RATE_COLUMN},...'")
    table = sheet.read([column for column in sheet.names if column], "a curve")
    return CurveFile(name, path, sheet.sha256, table)


def rows_where(file: CurveFile, column: str, value: int) -> CurveFile:
    """Keep the rows with a value in a column; all rows where the file has no such column."""
    if column not in file.table:
        return file
    values = curve_values(file, column)
    if value not in values:
        have = ", ".join(f"{number:g}" for number in np.unique(values))
        raise InputError(f"{file.path}: no rows with {column} {value} (have: {have})")
    return replace(file, table=file.table.take(values == value))


def curve_columns(
    file: CurveFile, names: Sequence[str], against: str = RATE_COLUMN
) -> tuple[Float64Array, ...]:
    """Return what a curve is measured against, the request rates, and further columns of it."""
    wanted = (against, *names)
    for name in wanted:
        if name not in file.table:
            have = tuple(file.table.columns)
            raise InputError(
                f"{file.path}: column '{name}' is missing (have: {one_of(have)})"
                f"{did_you_mean(name, have)}"
            )
    found = tuple(curve_values(file, name) for name in wanted)
    if len(file.table) < MIN_POINTS:
        raise InputError(
            f"{file.path}: {len(file.table)} points, a curve needs at least {MIN_POINTS}; "
            "measure more"
        )
    rises = np.diff(found[0], prepend=0) > 0
    words = "a rise from the row before; sort the rows, merge repeated ones"
    fail_values(file.table, against, rises, words)
    return found


def curve_values(file: CurveFile, column: str) -> Float64Array:
    """Return a column of positive numbers, shape (n,), or raise `InputError` naming the line."""
    kind = Number(LARGEST_NUMBER, at_least=LEAST_NUMBER, may_miss=False)
    return numbers(file.table, column, kind)
