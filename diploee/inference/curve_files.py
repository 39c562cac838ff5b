"""Reading curve files: CSV with `#` comments; every fault is named by file and line."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.shipped import shipped_folder
from diploee.tables import Float64Array

MIN_POINTS = 3
LEAST_NUMBER, LARGEST_NUMBER = 1e-9, 1e9
"""Rates, latencies and powers beyond these are slips, and would overflow further on."""
RATE_COLUMN = "request_rate_rps"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class CurveFile:
    """A curve file as it was read.

    Parameters
    ----------
    name : str
        Shipped name or relative path, as the scenario gives it.
    path : pathlib.Path
        Where it was read from.
    sha256 : str
        SHA-256 of its bytes, hexadecimal.
    columns : tuple of str
        Names of its columns.
    rows : tuple of (int, tuple of str)
        Line number, from 1, and fields of each row.
    """

    name: str
    path: Path
    sha256: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


def find_curve_file(name: str, folder: Path) -> Path:
    """Return the file of a curve given by shipped name or by path relative to a folder.

    Raises
    ------
    InputError
        If there is neither, with the shipped names in the text, or the name can't be a file's.
    """
    files = sorted((shipped_folder("profiles") / "curves").glob("*.csv"))
    shipped = {path.stem: path for path in files}
    path = folder / name
    try:
        if path.is_file():
            return path
    except OSError as error:  # such as a name that is too long for any file
        raise InputError(f"{shown(name)}: can't be read ({error.strerror})") from error
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"{one_line(name)}: no such curve file beside the scenario and no shipped curve "
        f"(shipped: {one_of(shipped)}){did_you_mean(Path(name).stem, shipped)}"
    )


def read_curve_file(name: str, folder: Path) -> CurveFile:
    """Read a curve file without interpreting its values.

    Raises
    ------
    InputError
        If it is missing, is not text, has no header, or a row has too few or too many fields.
    """
    path = find_curve_file(name, folder)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    columns: tuple[str, ...] = ()
    rows: list[tuple[int, tuple[str, ...]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = tuple(field.strip() for field in next(csv.reader([line])))
        if not columns:
            columns = fields
        elif len(fields) != len(columns):
            raise InputError(
                f"{path}:{number}: {len(fields)} fields, the header has {len(columns)}"
            )
        else:
            rows.append((number, fields))
    if not columns:
        raise InputError(f"{path}: is empty; expected a header such as '{RATE_COLUMN},...'")
    return CurveFile(name, path, hashlib.sha256(content).hexdigest(), columns, tuple(rows))


def rows_where(file: CurveFile, column: str, value: int) -> CurveFile:
    """Keep the rows with a value in a column; all rows where the file has no such column.

    Raises
    ------
    InputError
        If no row has the value; the text lists those that there are.
    """
    if column not in file.columns:
        return file
    at = file.columns.index(column)
    numbers = curve_values(file, column)
    kept = tuple(row for row, number in zip(file.rows, numbers, strict=True) if number == value)
    if not kept:
        have = ", ".join(f"{number:g}" for number in np.unique(numbers))
        raise InputError(f"{file.path}: no rows with {file.columns[at]} {value} (have: {have})")
    return CurveFile(file.name, file.path, file.sha256, file.columns, kept)


def curve_columns(file: CurveFile, names: Sequence[str]) -> tuple[Float64Array, ...]:
    """Return the request rates and further columns of a curve.

    Parameters
    ----------
    file : CurveFile
        What was read.
    names : sequence of str
        Columns beside `request_rate_rps`.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (n,), float64
        The request rates [1/s], then the columns in the order of `names`.

    Raises
    ------
    InputError
        If a column is missing, a value is not a positive number of sound size, there are fewer
        than three rows, or the rates are not strictly increasing.
    """
    wanted = (RATE_COLUMN, *names)
    for name in wanted:
        if name not in file.columns:
            raise InputError(
                f"{file.path}: column '{name}' is missing (have: {one_of(file.columns)})"
                f"{did_you_mean(name, file.columns)}"
            )
    found = tuple(curve_values(file, name) for name in wanted)
    if len(file.rows) < MIN_POINTS:
        raise InputError(
            f"{file.path}: {len(file.rows)} points, a curve needs at least {MIN_POINTS}; "
            "measure more rates"
        )
    rate_rps = found[0]
    for k in np.flatnonzero(np.diff(rate_rps) <= 0)[:1]:
        line, _ = file.rows[k + 1]
        raise InputError(
            f"{file.path}:{line}: {RATE_COLUMN} must be strictly increasing, found "
            f"{rate_rps[k + 1]:g} after {rate_rps[k]:g}; sort the rows and merge repeated rates"
        )
    return found


def curve_values(file: CurveFile, column: str) -> Float64Array:
    """Return a column of positive numbers, shape (n,), or raise `InputError` naming the line."""
    at = file.columns.index(column)
    numbers = np.empty(len(file.rows))
    for k, (line, fields) in enumerate(file.rows):
        number = float(fields[at]) if _NUMBER.fullmatch(fields[at]) else float("nan")
        if not LEAST_NUMBER <= number <= LARGEST_NUMBER:
            raise InputError(
                f"{file.path}:{line}: {column} must be a positive number, {LEAST_NUMBER:g} to "
                f"{LARGEST_NUMBER:g}, found {shown(fields[at])}"
            )
        numbers[k] = number
    return numbers
