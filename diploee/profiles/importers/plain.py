"""Import a plain table of whole-job power: columns ``t_s`` and ``power_w``, CSV or Parquet.

``t_s`` is the start of each step [s], ``power_w`` the mean power over it [W]; other columns are
not read. Nothing is repaired: a missing, negative or uneven row is refused with its number.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from diploee.errors import LogFormatError, ProfileError
from diploee.profiles.importers.resample import usable_bandwidth_hz
from diploee.profiles.profile import DEVICE_POWER, PowerProfile, Provenance
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_S

COLUMNS = ("t_s", "power_w")
STAMP_TOLERANCE_MS = 1e-3


def import_plain(
    path: Path | str,
    *,
    workload: str,
    profile_id: str,
    n_nodes: int,
    source: str = "",
    licence: str = "unknown",
    averaging_window_s: float | None = None,
    power_boundary: str = DEVICE_POWER,
) -> PowerProfile:
    """Import a table of ``t_s, power_w`` as one whole-job profile.

    Parameters
    ----------
    path : pathlib.Path
        ``*.parquet`` is read as Parquet, anything else as CSV with a header.
    workload, profile_id : str
        Kind of work and name of the profile.
    n_nodes : int
        Nodes that the measured job ran on.
    source, licence : str
        For the provenance; the source is the file name where not given.
    averaging_window_s : float, optional
        Window over which the readings were averaged [s]; the step where not given.
    power_boundary : str
        What the power includes.

    Returns
    -------
    PowerProfile
        With the table's step, a whole number of milliseconds.

    Raises
    ------
    LogFormatError
        If the file is not readable, lacks a column or two rows, a value is missing, not a number
        or negative, or the step is uneven or not a whole number of ms.
    ProfileError
        If ``n_nodes`` is not positive.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LogFormatError(f"{path}: can't be read ({why}); give a readable file") from error
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    table = _parquet(path, data) if is_parquet else _csv(path, data)
    # A CSV file's row is named by its line, after the header; a Parquet file's from 0.
    place = f"{path}: row " if is_parquet else f"{path}:"
    first_row = 0 if is_parquet else 2
    t_s, power_w = (_numbers(table, name, place, first_row) for name in COLUMNS)
    dt_ms = _step_ms(t_s, place, first_row)
    _check_power(power_w, place, first_row)
    dt_s = dt_ms / MS_PER_S
    window_s = dt_s if averaging_window_s is None else averaging_window_s
    if not 0 <= window_s < np.inf:
        raise ProfileError(f"averaging_window_s is {window_s}, expected 0 s or more")
    provenance = Provenance(
        kind="measured",
        source=source or path.name,
        licence=licence,
        sampling_interval_s=dt_s,
        averaging_window_s=window_s,
        bandwidth_hz=usable_bandwidth_hz(dt_s, window_s),
        source_sha256=hashlib.sha256(data).hexdigest(),
        power_boundary=power_boundary,
    )
    return PowerProfile(
        profile_id, workload, n_nodes, dt_ms, power_w.astype(np.float32), provenance
    )


def _csv(path: Path, data: bytes) -> pa.Table:
    data = data.removeprefix(b"\xef\xbb\xbf").rstrip()
    if not data:
        raise LogFormatError(f"{path}:1: the file is empty, expected columns 't_s,power_w'")
    head, _, rows = data.partition(b"\n")
    try:
        _check_columns(path, next(csv.reader([head.decode()])))
        if not rows:
            return pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
        return pa_csv.read_csv(
            pa.BufferReader(data),
            # One thread, so that errors tell the row.
            read_options=pa_csv.ReadOptions(use_threads=False),
            parse_options=pa_csv.ParseOptions(ignore_empty_lines=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()),
                include_columns=list(COLUMNS),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, csv.Error, ValueError, KeyError) as error:
        raise LogFormatError(
            f"{path}: not a CSV table of 't_s,power_w' ({_first_line(error)}); correct this row"
        ) from error


def _parquet(path: Path, data: bytes) -> pa.Table:
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            _check_columns(path, file.schema_arrow.names)
            return file.read(columns=list(COLUMNS))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogFormatError(
            f"{path}: not a readable Parquet file ({_first_line(error)}); write it again"
        ) from error


def _check_columns(path: Path, names: list[str]) -> None:
    for name in COLUMNS:
        if names.count(name) != 1:
            found = ", ".join(map(repr, names[:8]))
            raise LogFormatError(
                f"{path}:1: column '{name}' found {names.count(name)} times (found: {found}), "
                "expected once; name the columns 't_s,power_w'"
            )


def _numbers(table: pa.Table, name: str, place: str, first_row: int) -> Float64Array:
    column = table[name].combine_chunks()
    expected = "expected a finite number; fill it in (a row can't be missing)"
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise LogFormatError(f"{place}{first_row + row}: '{name}' is missing, {expected}")
    try:
        values = np.asarray(pc.cast(column, pa.float64()), dtype=np.float64)
    except pa.ArrowException as error:
        if not pa.types.is_string(column.type):
            raise LogFormatError(
                f"{place}{first_row}: '{name}' is of type {column.type}, {expected}"
            ) from error
        values = np.array([_number(word) for word in column.to_pylist()])
    bad = ~(np.abs(values) <= float(np.finfo(np.float32).max))
    if bad.any():
        row = int(np.argmax(bad))
        raise LogFormatError(
            f"{place}{first_row + row}: '{name}' is {str(column[row])[:40]!r} "
            f"({int(bad.sum())} such rows), {expected}"
        )
    return values


def _number(word: str) -> float:
    try:
        return np.nan if "_" in word else float(word)
    except ValueError:
        return np.nan


def _step_ms(t_s: Float64Array, place: str, first_row: int) -> int:
    if t_s.size < 2:
        raise LogFormatError(
            f"{place}{first_row}: {t_s.size} rows, expected two or more to tell the step; "
            "give a complete table"
        )
    steps_ms = np.diff(t_s) * MS_PER_S
    step_ms = float(np.rint(steps_ms[0]))
    tolerance_ms = STAMP_TOLERANCE_MS + 4 * MS_PER_S * float(np.spacing(np.abs(t_s).max()))
    if not 1 <= step_ms <= MS_PER_DAY or abs(steps_ms[0] - step_ms) > tolerance_ms:
        raise LogFormatError(
            f"{place}{first_row + 1}: step is {steps_ms[0]:g} ms, expected a whole number of ms "
            f"from 1 to {MS_PER_DAY}; resample the data"
        )
    # Stamps are held against the grid, not only against the row before, so that drift is seen.
    off_ms = np.abs((t_s - t_s[0]) * MS_PER_S - step_ms * np.arange(t_s.size))
    uneven = off_ms > tolerance_ms
    if uneven.any():
        row = int(np.argmax(uneven))
        raise LogFormatError(
            f"{place}{first_row + row}: step is {steps_ms[row - 1]:g} ms, expected {step_ms:g} ms "
            "as before, even and without gaps; resample the data"
        )
    return int(step_ms)


def _check_power(power_w: Float64Array, place: str, first_row: int) -> None:
    negative = power_w < 0
    if negative.any():
        row = int(np.argmax(negative))
        raise LogFormatError(
            f"{place}{first_row + row}: 'power_w' is {power_w[row]:g} W "
            f"({int(negative.sum())} such rows), expected 0 or more; correct the rows"
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0]
