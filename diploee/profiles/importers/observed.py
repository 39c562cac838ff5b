"""Read the observed load of a whole facility: a time series of power, utilization or both.

The simulated facilities of the published data set are such files (``timestamp,power_W,utilization``
with both ends of the year), and so are meter exports and this program's own ``facility.parquet``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from diploee.errors import LogFormatError, did_you_mean, one_line, one_of
from diploee.profiles.importers.even_grid import even_grid
from diploee.profiles.importers.resample import US_PER_S
from diploee.profiles.importers.table_file import TableFile
from diploee.profiles.importers.table_times import read_times
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import S_PER_DAY, S_PER_H, W_PER_KW, W_PER_MW

TIME_COLUMNS = ("timestamp", "datetime", "time", "t_s")
POWER_COLUMNS = {
    "power_w": 1.0,
    "power_W": 1.0,
    "power_kw": W_PER_KW,
    "power_kW": W_PER_KW,
    "power_mw": W_PER_MW,
    "power_MW": W_PER_MW,
    "it_power_w": 1.0,
    "facility_power_w": 1.0,
}
"""Columns of power and their unit [W], in the order in which they are looked for.

``power_mw`` is megawatts, as everywhere in this package; ``power_mW`` is refused as ambiguous.
"""
UTILIZATION_COLUMNS = {"utilization": 1.0, "utilization_pct": 0.01, "utilization_percent": 0.01}
"""Columns of utilization and their unit: a fraction, or percent where the name says so."""
UNITS_W = {"W": 1.0, "kW": W_PER_KW, "MW": W_PER_MW}

MAX_GAP_S = 6 * S_PER_H
ROUNDING = 1e-6
MAX_SECONDS = 100 * 366 * S_PER_DAY
"""Longest time after the start that is believed [s]."""


@dataclass(frozen=True, eq=False)
class ObservedSeries:
    """The observed load of a facility at even steps.

    Parameters
    ----------
    start : datetime.datetime
        Stamp of the first value; with the file's offset from UTC, or naive where it has none.
    step_ms : int
        Step [ms].
    power_w : numpy.ndarray, shape (n,), float64
        Power [W]; NaN throughout where the file has utilization alone, see `has_power`.
    utilization : numpy.ndarray, shape (n,), float64, or None
        Utilization as a fraction; None where the file has none.
    source : str
        The file.
    counts : dict of str to int
        Rows read, and rows and values dropped or repaired, by cause.
    sha256 : str
        Hash of the file.
    """

    start: datetime
    step_ms: int
    power_w: Float64Array
    utilization: Float64Array | None
    source: str
    counts: dict[str, int] = field(default_factory=dict)
    sha256: str = ""

    def __len__(self) -> int:
        return int(self.power_w.size)

    @property
    def has_power(self) -> bool:
        """Whether the file has power."""
        return not bool(np.isnan(self.power_w).any())

    @property
    def duration_ms(self) -> int:
        """Length of the series [ms]: every value holds for a step."""
        return len(self) * self.step_ms


def read_observed_series(
    path: Path | str,
    *,
    start: datetime | None = None,
    time_column: str | None = None,
    power_column: str | None = None,
    power_unit: str | None = None,
    utilization_column: str | None = None,
    max_gap_s: float = MAX_GAP_S,
) -> ObservedSeries:
    """Read a CSV (or ``.csv.gz``) or Parquet file of facility power, utilization or both.

    Rows may be unsorted or repeated. Missing rows and values are bridged by straight lines over at
    most `max_gap_s`. Stamps are snapped to an even grid. All of it is counted by cause.

    Parameters
    ----------
    path : pathlib.Path or str
        The file.
    start : datetime.datetime, optional
        Moment of ``t_s`` = 0; needed where the file has seconds rather than dates.
    time_column : str, optional
        Column of dates, or of seconds if it ends with ``_s``; the first of `TIME_COLUMNS` that the
        file has, where not given.
    power_column, power_unit : str, optional
        Column of power, and its unit ``"W"``, ``"kW"`` or ``"MW"``; the first of `POWER_COLUMNS`
        that the file has, and the unit of its name, where not given.
    utilization_column : str, optional
        Column of utilization, a fraction or, if its name ends with ``_pct``, percent; the first of
        `UTILIZATION_COLUMNS` that the file has, where not given.
    max_gap_s : float
        Longest time without a value that is bridged [s].

    Returns
    -------
    ObservedSeries
        One value a step, from the first to the last stamp, both ends included.

    Raises
    ------
    LogFormatError
        If the file is not readable, lacks a column, has a value that is no number, negative or
        above 100 %, uneven stamps, or a gap that is too long.

    Examples
    --------
    >>> series = read_observed_series("colocation_60_power.csv")  # doctest: +SKIP
    >>> series.start, series.step_ms, len(series)  # doctest: +SKIP
    (datetime.datetime(2018, 1, 1, 0, 0), 60000, 525601)
    """
    table = TableFile(path, "'timestamp,power_w' or 'timestamp,utilization'")
    time_name = time_column or _first_of(table, TIME_COLUMNS, "time")
    power_name = power_column or next((c for c in POWER_COLUMNS if c in table.names), None)
    use_name = utilization_column or next(
        (c for c in UTILIZATION_COLUMNS if c in table.names), None
    )
    if power_name is None and use_name is None:
        _first_of(table, (*POWER_COLUMNS, *UTILIZATION_COLUMNS), "power or utilization")
    names = [name for name in (power_name, use_name) if name is not None]
    time, *columns = table.read(time_name, *names)
    values = {
        name: _values(table, name, column, name == use_name)
        for name, column in zip(names, columns, strict=True)
    }
    t_us, there, origin = _stamps(table, time_name, time, start)
    grid = even_grid(table, t_us, there, values, max_gap_s)
    power_w = np.full(grid.n_steps, np.nan)
    if power_name is not None:
        power_w = grid.values[power_name] * _power_unit_w(table, power_name, power_unit)
    utilization = None
    if use_name is not None:
        utilization = grid.values[use_name] * _utilization_unit(use_name)
    return ObservedSeries(
        start=origin + timedelta(microseconds=grid.start_us),
        step_ms=grid.step_ms,
        power_w=power_w,
        utilization=utilization,
        source=str(path),
        counts=grid.counts,
        sha256=table.sha256,
    )


def _first_of(table: TableFile, allowed: tuple[str, ...], what: str) -> str:
    for name in allowed:
        if name in table.names:
            return name
    known = one_of(dict.fromkeys(name.lower() for name in allowed))
    found = ", ".join(repr(name) for name in table.names[:8]) or "none"
    nearest = next((hint for n in table.names[:8] if (hint := did_you_mean(n, allowed))), "")
    raise LogFormatError(
        f"{table.path}:1: no column of {what} (found: {found}), expected one of {known}; "
        "rename the column, or name it (--time-column for the time, --column for the values)"
        f"{nearest}"
    )


def _power_unit_w(table: TableFile, name: str, unit: str | None) -> float:
    if unit is not None:
        if unit not in UNITS_W:
            raise LogFormatError(
                f"{table.path}: power_unit is '{one_line(unit)}', expected one of "
                f"{one_of(UNITS_W)} (--power-unit)"
            )
        return UNITS_W[unit]
    if name in POWER_COLUMNS:
        return POWER_COLUMNS[name]
    raise LogFormatError(
        f"{table.path}:1: the name of column '{one_line(name)}' does not tell its unit; "
        f"give power_unit (--power-unit), one of {one_of(UNITS_W)}"
    )


def _utilization_unit(name: str) -> float:
    return 0.01 if name.endswith(("_pct", "_percent")) else 1.0


def _values(table: TableFile, name: str, column: pa.Array, is_utilization: bool) -> Float64Array:
    values = table.numbers(name, column, may_miss=True)
    low = values < 0
    if low.any():
        row = int(np.argmax(low))
        raise LogFormatError(
            f"{table.row(row)}: '{name}' is {values[row]:g} ({int(low.sum())} such rows), "
            "expected 0 or more; correct the rows, or leave them empty to have them bridged"
        )
    if is_utilization:
        high = values * _utilization_unit(name) > 1 + ROUNDING
        if high.any():
            row = int(np.argmax(high))
            raise LogFormatError(
                f"{table.row(row)}: '{name}' is {values[row]:g} ({int(high.sum())} such rows), "
                "expected a fraction from 0 to 1; name a column of percent 'utilization_pct'"
            )
    return values


def _stamps(
    table: TableFile, name: str, column: pa.Array, start: datetime | None
) -> tuple[Int64Array, BoolArray, datetime]:
    """Return microseconds since a moment, which rows have them, and the moment."""
    if not name.endswith("_s"):
        if start is not None:
            raise LogFormatError(
                f"{table.path}: 'start' was given, but column '{name}' holds dates; leave it "
                "(--start) out"
            )
        times = read_times(table, name, column)
        return times.t_us, times.there, times.moment(0)
    t_s = table.numbers(name, column, may_miss=True)
    if start is None:
        raise LogFormatError(
            f"{table.path}:1: column '{name}' counts seconds, so the date of its 0 is not known; "
            "give 'start' (--start), such as 2018-01-01"
        )
    there = ~np.isnan(t_s)
    far = there & (np.abs(t_s) > MAX_SECONDS)
    if far.any():
        row = int(np.argmax(far))
        raise LogFormatError(
            f"{table.row(row)}: '{name}' is {t_s[row]:g}, expected seconds since 'start', "
            f"{MAX_SECONDS:g} at most; correct this row"
        )
    t_us = np.rint(np.where(there, t_s, 0.0) * US_PER_S).astype(np.int64)
    return t_us, there, start
