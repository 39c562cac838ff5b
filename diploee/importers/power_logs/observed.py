"""Read the observed load of a whole facility: a time series of power, utilization or both.

The simulated facilities of the published data set are such files (``timestamp,power_W,utilization``
with both ends of the year), and so are meter exports and this program's own ``facility.parquet``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from diploee.errors import LogFormatError, did_you_mean, one_of
from diploee.importers.power_logs.curves import longest_gap_s
from diploee.profiles.resample import US_PER_MS, US_PER_S
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
UTILIZATION_COLUMNS = ("utilization", "utilization_pct", "utilization_percent")
"""Columns of utilization: a fraction, or percent where the name says so."""
UNITS_W = {"W": 1.0, "kW": W_PER_KW, "MW": W_PER_MW}

MAX_GAP_S = 6 * S_PER_H
ROUNDING = 1e-6
MAX_SECONDS = 100 * 366 * S_PER_DAY
"""Longest time after the start that is believed [s]."""
OFF_GRID = 0.1
"""A stamp is uneven if it lies further from its place than this part of a step."""
MOST_UNEVEN = 0.05
"""Largest part of the rows that may be uneven."""
MOST_STEPS_PER_ROW = 100


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
    if use := utilization_column or sheet.first_of(UTILIZATION_COLUMNS):
        names["utilization"] = use
    if len(names) == 1:
        _first_of(sheet, (*POWER_COLUMNS, *UTILIZATION_COLUMNS), "power or utilization")
    _check_distinct(sheet, names)
    table = sheet.read(names, "an observed load")
    values = {key: _values(table, key) for key in table.names if key != "time"}
    t_us, there, origin = _stamps(table, start)
    counts = {"rows": len(table)}
    start_us, step_ms, even = _even_grid(table, t_us, there, values, max_gap_s, counts)
    if power is not None:
        even["power"] *= _power_unit_w(sheet, power, power_unit)
    if use is not None:
        even["utilization"] *= _unit_of_use(use)
    nothing = np.full(next(iter(even.values())).size, np.nan)
    return ObservedSeries(
        start=origin + timedelta(microseconds=start_us),
        step_ms=step_ms,
        power_w=even.get("power", nothing),
        utilization=even.get("utilization"),
        source=str(path),
        counts=counts,
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


def _unit_of_use(name: str) -> float:
    return 0.01 if name.endswith(("_pct", "_percent")) else 1.0


def _values(table: ReadTable, key: str) -> Float64Array:
    values = numbers(table, key, Number(at_least=0))
    if key == "utilization":
        high = values * _unit_of_use(table.names[key]) > 1 + ROUNDING
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


def _even_grid(
    table: ReadTable,
    t_us: Int64Array,
    there: BoolArray,
    columns: Mapping[str, Float64Array],
    max_gap_s: float,
    counts: dict[str, int],
) -> tuple[int, int, dict[str, Float64Array]]:
    """Put rows on an even grid; return its first stamp [us], its step [ms] and the columns.

    The step is the most frequent distance of neighbouring stamps. Rows without a time or with a
    time that is taken are dropped; a stamp within half a step is moved to its place; missing values
    are bridged by straight lines, and held at the ends.
    """
    rows = np.flatnonzero(there)
    counts["rows_without_time"] = int(there.size - rows.size)
    counts["rows_out_of_order"] = int(np.count_nonzero(np.diff(t_us[rows]) < 0))
    if counts["rows_out_of_order"]:
        rows = rows[np.argsort(t_us[rows], kind="stable")]
    counts["repeated_times"] = rows.size
    rows = rows[np.diff(t_us[rows], prepend=-1 << 62) > 0]
    step_ms, nth, counts["times_moved_to_the_grid"] = _places(table, t_us, rows, max_gap_s)
    kept = np.diff(nth, prepend=-1) > 0
    rows, nth = rows[kept], nth[kept]
    n_steps = int(nth[-1]) + 1
    counts["repeated_times"] -= rows.size
    counts["missing_rows_filled"] = n_steps - rows.size
    values = {}
    for key, column in columns.items():
        name, good = table.names[key], np.flatnonzero(~np.isnan(column[rows]))
        if not good.size:
            raise LogFormatError(
                f"{table.where(int(rows[0]))}: '{name}' is missing in every row, expected numbers; "
                "give a complete table"
            )
        places_us = nth * (step_ms * US_PER_MS)
        longest_gap_s(places_us, good, max_gap_s, table.where_of(rows), f"'{name}'")
        values[key] = np.interp(np.arange(n_steps), nth[good], column[rows[good]])
        counts[f"missing_{name}_filled"] = int(rows.size - good.size)
    return int(t_us[rows[0]]), step_ms, values


def _places(
    table: ReadTable, t_us: Int64Array, rows: Int64Array, max_gap_s: float
) -> tuple[int, Int64Array, int]:
    """Return the step [ms], the place of each row on the grid, and how many stamps are moved."""
    if rows.size < 2:
        raise LogFormatError(
            f"{table.path}: {rows.size} rows with a time of their own, expected two or more to "
            "tell the step; give a complete table"
        )
    steps_ms = np.rint(np.diff(t_us[rows]) / US_PER_MS).astype(np.int64)
    found, n_times = np.unique(steps_ms, return_counts=True)
    step_ms = int(found[np.argmax(n_times)])
    if step_ms < 1:
        raise LogFormatError(
            f"{table.where(int(rows[1]))}: the step is less than 1 ms, expected 1 ms or more; "
            "resample the data"
        )
    longest_gap_s(t_us[rows], np.arange(rows.size), max_gap_s, table.where_of(rows))
    steps = (t_us[rows] - t_us[rows[0]]) / (step_ms * US_PER_MS)
    nth = np.rint(steps).astype(np.int64)
    if nth[-1] >= MOST_STEPS_PER_ROW * rows.size:
        raise LogFormatError(
            f"{table.path}: {rows.size:,} rows over {int(nth[-1]) + 1:,} steps of "
            f"{step_ms / 1000:g} s, expected few gaps; resample the data"
        )
    off = np.abs(steps - nth)
    uneven = off > OFF_GRID
    if np.count_nonzero(uneven) > MOST_UNEVEN * rows.size:
        row = int(rows[np.argmax(uneven)])
        raise LogFormatError(
            f"{table.where(row)}: its time lies between the steps of {step_ms / 1000:g} s "
            f"({int(uneven.sum()):,} such rows), expected even steps; resample the data"
        )
    return step_ms, nth, int(np.count_nonzero(off * step_ms > 1))
