"""Import a table of power in time, CSV or Parquet, as the profile of one job.

Columns are named, or found by their names, which tell their unit (``t_s``, ``time_ms``,
``power_kw``, ``Power [W]``); a unit that nothing tells is asked for, never guessed. Times are ISO
stamps, times of the day of readings less than half a day apart, or numbers: seconds unless the name
or the size says otherwise (minutes; epoch ms, us, ns).
Rows of several devices are summed, and so are several columns.

A row of an even table is the mean power of the step that begins at its time, and is kept as it is.
Other readings are joined by straight lines and averaged over even steps, exact in energy; missing
ones are bridged up to a gap that is given. All of it is counted in the provenance. What a table
can't tell (what the power includes, how the readings were averaged) is taken from the call, else
stands in the provenance as unknown, with the bandwidth of a reading averaged over 1 s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from diploee.errors import LogFormatError, ProfileError, one_of, plural, shown
from diploee.importers.power_logs.curves import (
    Device,
    device_of,
    longest_increasing,
    measured,
    restored,
    sum_w,
)
from diploee.importers.power_logs.options import PlainOptions
from diploee.profiles.meters import known_meter
from diploee.profiles.profile import PLUS_CONSTANT, UNKNOWN_BOUNDARY, PowerProfile
from diploee.profiles.resample import US_PER_MS, US_PER_S, EnergyCurve, unshared_s
from diploee.tables import Float64Array, Int64Array
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import YEARS_US, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import Number, fail_values, numbers
from diploee.units import MS_PER_DAY, MS_PER_S

UNITS_W = {"W": 1.0, "kW": 1e3, "MW": 1e6, "mW": 1e-3}
UNITS_US = {"h": 3.6e9, "min": 6e7, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
LARGEST_EPOCH = 1e19
TIMES = ("t", "time", "timestamp", "datetime", "date", "epoch", "unix", "ts")
DEVICES = ("device", "gpu", "index", "uuid", "node", "host", "hostname", "sensor", "meter")
GAP_STEPS = 3.0
"""A time between readings that is this many times the usual one counts as a gap."""
US_PER_DAY = 86_400e6
_OF_DAY = r"^(\d\d?:\d\d)"
_ROUNDING = 1e-9
_TOLERANCE_US = 1.0
_BEFORE, _AFTER = r"^(?P<stem>.*?)(?:^|[\s_.\-]+[\[(]?|[\[(])(?P<unit>", r")[\])]?$"
_UNIT = re.compile(f"{_BEFORE}[kmM]?[wW]|[wW]atts?|[kK]ilowatts?{_AFTER}")
_TIME_UNIT = re.compile(f"{_BEFORE}s|ms|us|ns|sec|seconds?|min|minutes?|h|hours?{_AFTER}")


def import_plain(path: Path | str, **given: Any) -> PowerProfile:
    """Import a table of power as one whole-job profile.

    Parameters
    ----------
    path : pathlib.Path
        ``*.parquet`` is read as Parquet, anything else as CSV with a header, also ``*.csv.gz``.
    **given
        Fields of `diploee.importers.PlainOptions`, such as ``workload`` and
        ``n_nodes``, which are needed, and ``averaging_window_s``: without it no more bandwidth is
        claimed than a window of 1 s leaves, or of the step where that is longer.
    """
    options = PlainOptions(**given)
    sheet = read_sheet(path, "columns of time and power, such as 't_s,power_w'")
    time_column = options.time_column or _time_column(sheet)
    powers = options.power_column or [_power_column(sheet)]
    if len(set(powers)) < len(powers):
        raise ProfileError(
            f"power_column (--power-column): each column is summed once, found {shown(powers)}"
        )
    units_w = [_unit_w(sheet, name, options.power_unit) for name in powers]
    devices = options.device_column or [n for n in sheet.names if _plain_name(n) in DEVICES]
    names = {"time": time_column} | {f"power {k}": name for k, name in enumerate(powers)}
    names |= {f"device {k}": n for k, n in enumerate(devices) if n not in names.values()}
    table = sheet.read(names, "a table of power")
    counts: Counter[str] = Counter()
    t_us = _times_us(table)
    power_w = np.zeros(len(table))
    for k, unit_w in enumerate(units_w):
        power_w += unit_w * numbers(table, f"power {k}", Number(at_least=0, of="power"))
    readings = [
        _readings(table, rows, t_us, power_w, options.max_gap_s, counts)
        for rows in _by_device(table, bool(options.device_column))
    ]
    interval_s = max(device.interval_us for device, _ in readings) / US_PER_S
    field = "other" if options.gpu is None else "power.draw"
    known_s = round(options.sampling_interval_s or interval_s, 9)
    meter = known_meter(field, options.gpu, known_s, options.averaging_window_s)
    if options.restore:
        readings = [(restored(device, meter), None) for device, _ in readings]
    even_ms = readings[0][1] if len({step for _, step in readings}) == 1 else None
    dt_ms = options.step_ms or even_ms or max(1, round(interval_s * MS_PER_S))
    add_w = options.add_w * options.n_nodes
    if len(readings) == 1 and dt_ms == even_ms:  # kept as it is
        assert readings[0][0].curve.power_w is not None
        mean_w = (readings[0][0].curve.power_w + add_w).astype(np.float32)
    else:
        summed = [_of_means(device, even_ms) if even_ms else device for device, _ in readings]
        counts["devices_summed"] = len(summed) if len(summed) > 1 else 0
        mean_w = sum_w(summed, dt_ms, add_w=add_w)
        curves = [device.curve for device in summed]
        counts["seconds_that_not_all_devices_cover"] = unshared_s(curves)
    notes = [] if even_ms else ["Readings joined by straight lines, exact in energy."]
    if meter.kind == "unknown":
        notes.append(
            f"Averaging of the readings unknown: taken as {meter.window_s:g} s, no more is claimed."
        )
    return measured(
        *options.of_nodes(options.n_nodes),
        dt_ms,
        mean_w,
        options,
        source=sheet.path.name,
        hashes=[sheet.sha256],
        meter=meter,
        bandwidth_hz=_given_hz(options.bandwidth_hz, max(known_s, dt_ms / MS_PER_S)),
        counts={cause: n for cause, n in counts.items() if n},
        power_boundary=_boundary(options.power_boundary, options.add_w),
        notes=" ".join(notes),
    )


def _readings(
    table: ReadTable,
    rows: Int64Array,
    t_us: Float64Array,
    power_w: Float64Array,
    max_gap_s: float,
    counts: Counter[str],
) -> tuple[Device, int | None]:
    """Return the readings of a device, and their step where they are complete and even [ms]."""
    timed = rows[~np.isnan(t_us[rows])]
    counts["rows_without_time"] += rows.size - timed.size
    good = timed[~np.isnan(power_w[timed])]
    counts["rows_without_power"] += timed.size - good.size
    if good.size < 2:
        raise LogFormatError(
            f"{table.path}: {plural(good.size, 'reading')} of a device, expected two or more "
            "to tell the step; give a complete table"
        )
    whole_us = np.rint(t_us[good] - t_us[good[0]]).astype(np.int64)
    kept = longest_increasing(whole_us)
    repeated = good.size - np.unique(whole_us).size if kept.size < good.size else 0
    if kept.size < 2 or 2 * kept.size < good.size or 10 * repeated > good.size:
        row = int(good[1 + int(np.argmax(np.diff(whole_us) <= 0))])
        table.fail(
            row,
            f"time does not go on: {repeated:,} of {good.size:,} rows repeat a time; of "
            "several devices, name the columns that tell them apart (--device-column), else "
            "sort the rows",
        )
    counts["rows_out_of_order"] += good.size - kept.size
    at = good[kept]
    stamps_us = whole_us[kept] + np.int64(np.rint(t_us[good[0]]))
    steps_us = np.diff(stamps_us)
    gap_us = GAP_STEPS * float(np.median(steps_us))
    counts["gaps_bridged"] += int((steps_us > gap_us).sum())
    limit_s = max(max_gap_s, gap_us / US_PER_S)
    device = device_of(table.path, stamps_us, power_w[at], limit_s, table.where_of(at))
    is_whole = good.size == rows.size
    return device, _even_ms(t_us[at], device.interval_us) if is_whole else None


def _even_ms(t_us: Float64Array, interval_us: float) -> int | None:
    """Return the step of even stamps, in whole ms; else None."""
    step_ms = round(interval_us / US_PER_MS)
    if not 1 <= step_ms <= MS_PER_DAY:
        return None
    # Stamps are compared with the grid, not only with the row before, so that drift is seen.
    grid_us = t_us[0] + step_ms * float(US_PER_MS) * np.arange(t_us.size)
    rounding_us = 4 * np.spacing(np.abs(t_us).max())
    return step_ms if np.abs(t_us - grid_us).max() <= _TOLERANCE_US + rounding_us else None


def _of_means(device: Device, step_ms: int) -> Device:
    """Return a device whose readings are the means of even steps."""
    t_us, power_w = device.curve.t_us, device.curve.power_w
    assert power_w is not None
    ends_us = np.append(t_us, t_us[-1] + step_ms * US_PER_MS)
    energy_j = np.cumsum(power_w) * step_ms / MS_PER_S
    return replace(device, curve=EnergyCurve(ends_us, np.concatenate(([0.0], energy_j))))


def _by_device(table: ReadTable, is_told: bool) -> Iterator[Int64Array]:
    """Yield the rows of each device; all where nothing tells devices apart."""
    device = np.zeros(len(table), dtype=np.int64)
    for key in (key for key in table.columns if key.startswith("device ")):
        names = table.columns[key].to_pylist()
        values, found = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
        if not is_told and values.size == len(table):
            continue  # such as an index of the rows
        device = device * (int(found.max(initial=0)) + 1) + found
    for number in np.unique(device) if len(table) else [0]:
        yield np.flatnonzero(device == number)


def _times_us(table: ReadTable) -> Float64Array:
    """Return the times [us], NaN where a row has none."""
    column = table.columns["time"]
    first = pc.drop_null(column)[:1].to_pylist()
    is_number = first and re.match(r"^\s*[-+\d.eE]+\s*$", first[0])
    is_of_day = first and re.match(_OF_DAY, first[0].strip())
    if is_of_day:
        words = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^(\d:)", r"0\1")
        words = pc.replace_substring_regex(words, _OF_DAY, r"1970-01-01 \1")
        table = replace(table, columns={"time": words})
    if not is_number:
        found = stamps_of_one_clock(table, "time")
        t_us = np.where(found.there, found.us.astype(np.float64), np.nan)
        if is_of_day:  # a fall by half a day or more is midnight
            falls = np.diff(t_us[found.there], prepend=-np.inf) < -US_PER_DAY / 2
            t_us[found.there] += US_PER_DAY * np.cumsum(falls)
        return t_us
    values = numbers(table, "time", Number(LARGEST_EPOCH, of="seconds, or an ISO date"))
    unit = _TIME_UNIT.match(table.names["time"].lower())
    scale = _named_unit_us(unit["unit"]) if unit else _epoch_unit_us(values)
    believed = ~(np.abs(values * scale) >= YEARS_US[1])
    fail_values(table, "time", believed, "a time before the year 2200")
    return values * scale


def _named_unit_us(unit: str) -> float:
    """Return the unit that a column's name tells, short or as a word."""
    return UNITS_US.get(unit) or next(
        us for short, us in UNITS_US.items() if unit.startswith(short)
    )


def _epoch_unit_us(values: Float64Array) -> float:
    """Return the unit of times without one: seconds, unless their size is an epoch's in others."""
    largest = float(np.nanmax(np.abs(values))) if not np.isnan(values).all() else 0.0
    at_least = {"ns": 1e17, "us": 1e14, "ms": 1e11, "s": 0.0}
    return UNITS_US[next(name for name, size in at_least.items() if largest >= size)]


def _stem(name: str) -> str:
    """Return a column's name without unit and number, in small letters."""
    lower = name.strip().lower()
    for pattern in (_UNIT, _TIME_UNIT):
        if (found := pattern.match(lower)) and found["stem"]:
            lower = found["stem"]
    return _plain_name(lower)


def _plain_name(name: str) -> str:
    """Return a column's name without number, in small letters."""
    lower = name.strip().lower()
    return re.sub(r"[\s_.\-]*(id|index|no|number)?$", "", lower) or lower


def _time_column(sheet: Sheet) -> str:
    named = [name for name in sheet.names if _stem(name) in TIMES]
    if not named:
        raise LogFormatError(
            f"{sheet.header}: no column of time (found: {listed(sheet.names)}), expected one of "
            f"'t_s', 'time_s', 'timestamp'; name it (--time-column)"
        )
    return next((name for name in named if name.lower() == "t_s"), named[0])


def _power_column(sheet: Sheet) -> str:
    exact = [name for name in sheet.names if name.lower() == "power_w"]
    named = exact[:1] or [n for n in sheet.names if re.search(r"power|watt", n, re.IGNORECASE)]
    if "power_w" in sheet.names or len(exact) > 1:
        return "power_w"  # more than one of its letters is refused as it is read
    if len(named) != 1:
        what = f"{len(named)} columns of power ({listed(named)})" if named else "no column of power"
        raise LogFormatError(
            f"{sheet.header}: {what} (found: {listed(sheet.names)}), expected one, such as "
            "'power_w'; name it, or several to be summed (--power-column)"
        )
    return named[0]


def _unit_w(sheet: Sheet, name: str, stated: str | None) -> float:
    if stated is not None:
        return UNITS_W[stated]
    found = _UNIT.match(name.strip())
    unit = found["unit"] if found else ""
    known = {"w": 1.0, "watt": 1.0, "kw": 1e3, "kilowatt": 1e3}
    if (short := unit.lower().removesuffix("s")) in known:
        return known[short]
    why = "may be megawatts or milliwatts" if unit else "does not tell its unit"
    raise LogFormatError(
        f"{sheet.header}: column '{name}' {why}; give its unit (--power-unit), one of "
        f"{one_of(UNITS_W)}"
    )


def _boundary(stated: str | None, add_w: float) -> str:
    measured = UNKNOWN_BOUNDARY if stated is None else stated
    if add_w == 0:
        return measured
    return f"{measured}, {PLUS_CONSTANT} {add_w:g} W per node, which is assumed"


def _given_hz(given_hz: float | None, interval_s: float) -> float | None:
    """Return the bandwidth that is given, if it is; never above Nyquist's."""
    nyquist_hz = 0.5 / interval_s
    if given_hz is not None and not 0 < given_hz <= nyquist_hz * (1 + _ROUNDING):
        raise ProfileError(
            f"bandwidth_hz is {given_hz:g}, expected more than 0 and at most {nyquist_hz:g} Hz, "
            f"half the rate of readings every {interval_s:g} s"
        )
    return given_hz
