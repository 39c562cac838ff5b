"""Read the observed load of a whole facility: a time series of power, utilization or both.

The simulated facilities of the published data set are such files (``timestamp,power_W,utilization``
with both ends of the year), and so are meter exports and this program's own ``facility.parquet``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from diploee.errors import LogFormatError, did_you_mean, one_of
from diploee.importers.power_logs.even_grid import even_grid
from diploee.profiles.resample import US_PER_S
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import moment, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import Number, fail_values, numbers
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
    """The observed load of a facility at even steps."""

    # Stamp of the first value; with the file's offset from UTC, or naive where it has none
    start: datetime
    step_ms: int  # step [ms]
    power_w: Float64Array  # power [W]; NaN throughout where the file has utilization alone
    utilization: Float64Array | None  # utilization as a fraction; None where the file has none
    source: str  # the file
    # Rows read, and rows and values dropped or repaired, by cause
    counts: dict[str, int] = field(default_factory=dict)
    sha256: str = ""  # hash of the file
    # Name of the column of power; empty where there is none, or it is not known
    power_column: str = ""

    def __len__(self) -> int:
        return int(self.power_w.size)

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

    Examples
    --------
    >>> series = read_observed_series("colocation_60_power.csv")  # doctest: +SKIP
    >>> series.start, series.step_ms, len(series)  # doctest: +SKIP
    (datetime.datetime(2018, 1, 1, 0, 0), 60000, 525601)
    """
    sheet = read_sheet(path, "columns 'timestamp,power_w' or 'timestamp,utilization'")
    names = {"time": time_column or _first_of(sheet, TIME_COLUMNS, "time")}
    if power := power_column or sheet.first_of(tuple(POWER_COLUMNS)):
        names["power"] = power
    if use := utilization_column or sheet.first_of(tuple(UTILIZATION_COLUMNS)):
        names["utilization"] = use
    if len(names) == 1:
        _first_of(sheet, (*POWER_COLUMNS, *UTILIZATION_COLUMNS), "power or utilization")
    _check_distinct(sheet, names)
    table = sheet.read(names, "an observed load")
    values = {name: _values(table, key) for key, name in table.names.items() if key != "time"}
    t_us, there, origin = _stamps(table, start)
    grid = even_grid(table, t_us, there, values, max_gap_s)
    power_w = np.full(grid.n_steps, np.nan)
    if power is not None:
        power_w = grid.values[table.names["power"]] * _power_unit_w(sheet, power, power_unit)
    utilization = None
    if use is not None:
        utilization = grid.values[table.names["utilization"]] * _utilization_unit(use)
    return ObservedSeries(
        start=origin + timedelta(microseconds=grid.start_us),
        step_ms=grid.step_ms,
        power_w=power_w,
        utilization=utilization,
        source=str(path),
        counts=grid.counts,
        sha256=sheet.sha256,
        power_column=power or "",
    )


def _first_of(sheet: Sheet, allowed: tuple[str, ...], what: str) -> str:
    name = sheet.first_of(allowed)
    if name is not None:
        return name
    known = one_of(dict.fromkeys(name.lower() for name in allowed))
    nearest = next((hint for n in sheet.names[:8] if (hint := did_you_mean(n, allowed))), "")
    raise LogFormatError(
        f"{sheet.header}: no column of {what} (found: {listed(sheet.names)}), expected one of "
        f"{known}; rename the column, or name it (--time-column for the time, --column for the "
        f"values){nearest}"
    )


def _check_distinct(sheet: Sheet, names: dict[str, str]) -> None:
    """Refuse a column that is to be read as two things."""
    keys: dict[int | None, str] = {}
    for key, name in names.items():
        index = sheet.layout.index(name)
        if index is not None and index in keys:
            raise LogFormatError(
                f"{sheet.header}: column '{name}' is read as {keys[index]} and as {key}; name "
                "another one (--time-column for the time, --column for the values)"
            )
        keys[index] = key


def _power_unit_w(sheet: Sheet, name: str, unit: str | None) -> float:
    if unit is not None:
        if unit not in UNITS_W:
            raise LogFormatError(
                f"{sheet.path}: power_unit is '{unit}', expected one of {one_of(UNITS_W)} "
                "(--power-unit)"
            )
        return UNITS_W[unit]
    if name in POWER_COLUMNS:
        return POWER_COLUMNS[name]
    raise LogFormatError(
        f"{sheet.header}: the name of column '{name}' does not tell its unit; "
        f"give power_unit (--power-unit), one of {one_of(UNITS_W)}"
    )


def _utilization_unit(name: str) -> float:
    return 0.01 if name.endswith(("_pct", "_percent")) else 1.0


def _values(table: ReadTable, key: str) -> Float64Array:
    values = numbers(table, key, Number(at_least=0))
    if key == "utilization":
        high = values * _utilization_unit(table.names[key]) > 1 + ROUNDING
        words = "a fraction from 0 to 1 (name a column of percent 'utilization_pct')"
        fail_values(table, key, ~high, words)
    return values


def _stamps(table: ReadTable, start: datetime | None) -> tuple[Int64Array, BoolArray, datetime]:
    """Return microseconds since a moment, which rows have them, and the moment."""
    name = table.names["time"]
    if not name.endswith("_s"):
        if start is not None:
            raise LogFormatError(
                f"{table.path}: 'start' was given, but column '{name}' holds dates; leave it "
                "(--start) out"
            )
        found = stamps_of_one_clock(table, "time")
        return found.us, found.there, moment(0, found.zone())
    t_s = numbers(table, "time", Number(MAX_SECONDS, of="seconds since 'start'"))
    if start is None:
        raise LogFormatError(
            f"{table.path}: column '{name}' counts seconds, so the date of its 0 is not known; "
            "give 'start' (--start), such as 2018-01-01"
        )
    there = ~np.isnan(t_s)
    return np.rint(np.where(there, t_s, 0.0) * US_PER_S).astype(np.int64), there, start
