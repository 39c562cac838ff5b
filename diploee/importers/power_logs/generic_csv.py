"""Importer of a CSV or Parquet table of power over time, as one job's profile.

The user specifies the columns, or they are found by their names, which contain the unit
(``t_s``, ``time_ms``, ``power_kw``, ``Power [W]``); an unknown unit is an error. Times
are ISO timestamps, times of day (if readings are less than half a day apart), or
numbers. Numbers are in seconds unless the column's name or the size of the numbers
implies another unit (minutes; ms, us or ns since 1970). Several devices or columns are
summed.

In an evenly spaced table, a row is the mean power over the step that starts at its
time; the rows are used unchanged even if some are missing. Uneven readings are joined
by straight lines and averaged over even steps, which keeps the energy exact; gaps are
bridged up to the specified length. All repairs are counted in the provenance. A table
does not tell the boundary of the power or the meter's averaging. Unless the user
specifies them, they are noted as unknown, and the bandwidth is that of a meter that
averages over 1 s.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from diploee.base.errors import LogFormatError, ProfileError, one_of, plural
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_S, US_PER_UNIT, TimeUnit
from diploee.importers.power_logs.options import PlainOptions
from diploee.importers.power_logs.readings_to_profile import (
    DeviceReadings,
    check_devices,
    measured_profile,
    repaired_device,
    sum_w,
    undo_averaging,
)
from diploee.importers.power_logs.repairs import (
    GAP_INTERVALS,
    HELD,
    MAX_LOST_ENERGY,
    UNTIMED,
    PowerLog,
    RepairCount,
    is_alternating,
)
from diploee.importers.text.delimited_tables import (
    HeaderTable,
    ReadTable,
    join_names,
    read_header_table,
)
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers
from diploee.importers.text.time_units import unit_in_name
from diploee.importers.text.timestamps import YEARS_US, parse_timestamps_of_one_clock
from diploee.profiles.meter_response import known_meter
from diploee.profiles.profile import (
    PLUS_CONSTANT,
    Boundary,
    PowerBoundary,
    PowerProfile,
)
from diploee.profiles.resample import US_PER_MS, US_PER_S, EnergyCurve, uncovered_s

UNITS_W = {"W": 1.0, "kW": 1e3, "MW": 1e6, "mW": 1e-3}
MAX_EPOCH = 1e19
TIMES = ("t", "time", "timestamp", "datetime", "date", "epoch", "unix", "ts")
DEVICES = (
    "device gpu index uuid node host hostname sensor meter name server machine chassis "
    "rack pdu psu outlet feed circuit channel"
)
US_PER_DAY = 86_400e6
_OF_DAY = r"^(\d\d?:\d\d)"
_ROUNDING = 1e-9
_TOLERANCE_US = 1.0
_KNOWN_W = {"w": 1.0, "watt": 1.0, "kw": 1e3, "kilowatt": 1e3}


def import_plain(path: Path | str, **fields: Any) -> PowerProfile:
    """Import a table of power over time as one whole-job profile.

    Parameters
    ----------
    path : pathlib.Path
        Path of a Parquet file (``*.parquet``), or of a CSV file with a header, plain or
        compressed (``*.csv.gz``).
    **fields
        Fields of `diploee.importers.PlainOptions`: ``workload`` and ``n_nodes`` are
        required. Without ``averaging_window_s`` the bandwidth is that of an averaging
        window of 1 s, or of one step if the step is longer.
    """
    options = PlainOptions(**fields)
    sheet = read_header_table(path, "columns of time and power, such as 't_s,power_w'")
    time_column = options.time_column or _time_column(sheet)
    powers = [*dict.fromkeys(options.power_column)] or [_power_column(sheet)]
    units_w = [_unit_w(sheet, name, options.power_unit) for name in powers]
    devices = options.device_column or [
        n for n in sheet.names if _plain_name(n) in DEVICES.split()
    ]
    names = {"time": time_column} | {
        f"power.{k}": name for k, name in enumerate(powers)
    }
    names |= {
        f"device.{k}": n for k, n in enumerate(devices) if n and n not in names.values()
    }
    table = sheet.read(names, "a table of power (--time-column names another)")
    t_us, is_local = _times_us(table)
    power_w = np.zeros(len(table))
    for k, unit_w in enumerate(units_w):
        power_w += unit_w * numbers(table, f"power.{k}", Number(at_least=0, of="power"))
    limits = (options.max_gap_s, options.max_lost, is_local, GAP_INTERVALS)
    log = PowerLog(sheet.path, *limits)
    by_device = _rows_by_device(table, options)
    readings = [
        _readings(RepairCount(log, name, table.where), rows, t_us, power_w)
        for name, rows in by_device.items()
    ]
    if not options.devices:
        _refuse_several_devices(sheet, [device for device, _ in readings], options)
    interval_s = max(device.interval_us for device, _ in readings) / US_PER_S
    field = "other" if options.gpu is None else "power.draw"
    known_s = round(options.sampling_interval_s or interval_s, 9)
    meter = known_meter(field, options.gpu, known_s, options.averaging_window_s)
    if options.restore:
        readings = [(undo_averaging(device, meter), None) for device, _ in readings]
    even_ms = readings[0][1] if len({step for _, step in readings}) == 1 else None
    dt_ms = options.step_ms or even_ms or max(1, round(interval_s * MS_PER_S))
    add_w = options.add_w * options.n_nodes
    repairs = [repair for device, _ in readings for repair in device.repairs]
    counts: Counter[str] = Counter()
    if len(readings) == 1 and dt_ms == even_ms:  # kept as it is
        assert readings[0][0].curve.power_w is not None
        mean_w = (readings[0][0].curve.power_w + add_w).astype(np.float32)
    else:
        summed = [
            _as_step_means(device, even_ms) if even_ms else device
            for device, _ in readings
        ]
        counts["devices_summed"] = len(summed) if len(summed) > 1 else 0
        mean_w, repairs = sum_w(summed, dt_ms, options.max_lost, add_w=add_w)
        curves = [device.curve for device in summed]
        counts["seconds_that_not_all_devices_cover"] = uncovered_s(curves)
    notes = [] if even_ms else ["Readings joined by straight lines, exact in energy."]
    if meter.kind == "unknown":
        notes.append(
            f"Averaging of the readings unknown: taken as {meter.window_s:g} s, no "
            "more is claimed."
        )
    return measured_profile(
        options.profile_identity(options.n_nodes),
        dt_ms,
        mean_w,
        options,
        source=sheet.path.name,
        source_sha256=sheet.text.sha256,
        meter=meter,
        bandwidth_hz=_checked_bandwidth_hz(
            options.bandwidth_hz, max(known_s, dt_ms / MS_PER_S)
        ),
        repairs=repairs,
        counts={cause: n for cause, n in counts.items() if n},
        power_boundary=_boundary(options.power_boundary, options.add_w),
        notes=" ".join(notes),
    )


def _refuse_several_devices(
    sheet: HeaderTable, devices: list[DeviceReadings], options: PlainOptions
) -> None:
    """Raise an error if the rows of several devices can't be attributed.

    Rows may alternate between devices that no column names, or one device may be the
    total of the others.
    """
    curve = devices[0].curve
    assert curve.power_w is not None
    if not options.device_column and is_alternating(curve.t_us, curve.power_w):
        raise LogFormatError(
            f"{sheet.header}: rows alternate between two levels or waits, as of two "
            "devices in turn; name their column (--device-column), or say that there "
            "is none (--device-column '')"
        )
    energy_j = np.array([device.curve.energy_j[-1] for device in devices])
    others_j, largest = (
        energy_j.sum() - energy_j.max(),
        devices[int(np.argmax(energy_j))],
    )
    if (
        len(devices) > 2
        and abs(energy_j.max() - others_j) <= MAX_LOST_ENERGY * others_j
    ):
        raise LogFormatError(
            f"{sheet.path}: '{largest.label}' has the energy of the other "
            f"{len(devices) - 1} devices together, as their total; name those to be "
            "summed (--devices)"
        )


def _readings(
    account: RepairCount, rows: Int64Array, t_us: Float64Array, power_w: Float64Array
) -> tuple[DeviceReadings, int | None]:
    """Return a device's repaired readings, and their step [ms] (None if uneven)."""
    has_time, has_power = ~np.isnan(t_us[rows]), ~np.isnan(power_w[rows])
    good = rows[has_time & has_power]
    if good.size < 2:
        raise LogFormatError(
            f"{account.log.path}: {plural(good.size, 'reading')} of a device, "
            "expected two or more to infer the step; give a complete table"
        )
    if good.size < rows.size:
        _count_missing(account, rows, has_time, has_power, t_us, power_w)
    first_us = np.rint(t_us[good[0]])
    whole_us = np.rint(t_us[good] - first_us).astype(np.int64)
    device = repaired_device(
        account, good, whole_us + np.int64(first_us), power_w[good]
    )
    times_us = device.curve.t_us.astype(np.float64)
    if np.array_equal(device.curve.t_us, whole_us + np.int64(first_us)):
        times_us = t_us[good]  # unrounded, finer than whole microseconds
    step_ms = _even_ms(times_us, device.interval_us)
    if (
        step_ms
        and (n := round((times_us[-1] - times_us[0]) / (step_ms * US_PER_MS)) + 1)
        > times_us.size
    ):
        every_us = device.curve.t_us[0] + step_ms * US_PER_MS * np.arange(n)
        assert device.curve.power_w is not None
        bridged_w = np.interp(every_us, device.curve.t_us, device.curve.power_w)
        device = replace(device, curve=EnergyCurve.from_readings(every_us, bridged_w))
    return device, step_ms


def _count_missing(
    account: RepairCount,
    rows: Int64Array,
    has_time: BoolArray,
    has_power: BoolArray,
    t_us: Float64Array,
    power_w: Float64Array,
) -> None:
    """Count rows without time or power as repairs.

    At the ends of a device's readings, missing power is replaced by the nearest reading
    and counted under that cause.
    """
    good = rows[has_time & has_power]
    interval_s = float(np.median(np.diff(np.unique(t_us[good])))) / US_PER_S
    untimed, failed = rows[~has_time & has_power], rows[has_time & ~has_power]
    account.add(
        UNTIMED,
        rows[~has_time],
        power_w[untimed].sum() * interval_s,
        untimed.size * interval_s,
    )
    account.add(
        "rows_without_power",
        failed,
        power_w[good].mean() * failed.size * interval_s,
        failed.size * interval_s,
    )
    ends_s = float(np.ptp(t_us[rows[has_time]]) - np.ptp(t_us[good])) / US_PER_S
    if ends_s > interval_s:
        account.add(HELD, failed, power_w[good].mean() * ends_s, ends_s)


def _even_ms(t_us: Float64Array, interval_us: float) -> int | None:
    """Return the step of even timestamps, with or without gaps [ms]; else None."""
    step_ms = round(interval_us / US_PER_MS)
    if not 1 <= step_ms <= MS_PER_DAY:
        return None
    # Comparing timestamps with the grid, not with the previous row, detects drift.
    step_us = step_ms * float(US_PER_MS)
    grid_us = t_us[0] + step_us * np.rint((t_us - t_us[0]) / step_us)
    rounding_us = 4 * np.spacing(np.abs(t_us).max())
    return (
        step_ms if np.abs(t_us - grid_us).max() <= _TOLERANCE_US + rounding_us else None
    )


def _as_step_means(device: DeviceReadings, step_ms: int) -> DeviceReadings:
    """Return a device whose readings are regarded as mean power over steps [ms]."""
    t_us, power_w = device.curve.t_us, device.curve.power_w
    assert power_w is not None
    ends_us = np.append(t_us, t_us[-1] + step_ms * US_PER_MS)
    energy_j = np.cumsum(power_w) * step_ms / MS_PER_S
    return replace(
        device, curve=EnergyCurve(ends_us, np.concatenate(([0.0], energy_j)))
    )


def _rows_by_device(table: ReadTable, options: PlainOptions) -> dict[str, Int64Array]:
    """Return row indices by device name; all rows if there is no device column.

    If there are several devices, the user must choose a device column or the devices to
    sum, because one of them may be the total of the others.
    """
    keys = [key for key in table.columns if key.startswith("device.")]
    words = {
        key: np.asarray(table.columns[key].to_pylist(), dtype=np.str_) for key in keys
    }
    # A column with a distinct name in each row is a row index
    if not options.device_column:
        words = {
            key: names
            for key, names in words.items()
            if np.unique(names).size < len(table)
        }
    if not words or not len(table):
        check_devices(table.path, options.devices, ())
        return {"": np.arange(len(table))}
    joined = np.array(
        [" ".join(parts).strip() for parts in zip(*words.values(), strict=True)]
    )
    names, device = np.unique(joined, return_inverse=True)
    result = {
        name: np.flatnonzero(device == k) for k, name in enumerate(names.tolist())
    }
    check_devices(table.path, options.devices, result)
    if len(result) > 1 and not (options.devices or options.device_column):
        first = table.names[next(iter(words))]
        raise LogFormatError(
            f"{table.path}: column '{first}' has {len(result)} devices "
            f"({one_of(list(result)[:9])}), some of which may include others, "
            f"as sensors and their total; sum all (--device-column '{first}'), take "
            "some (--devices), or leave the column out (--device-column '')"
        )
    return {
        name: rows
        for name, rows in result.items()
        if name in (options.devices or result)
    }


def _times_us(table: ReadTable) -> tuple[Float64Array, bool]:
    """Return times [us] (NaN if missing), and True if they are local without a zone."""
    column = table.columns["time"]
    first = pc.drop_null(column)[:1].to_pylist()
    is_number = first and re.match(r"^\s*[-+\d.eE]+\s*$", first[0])
    is_of_day = first and re.match(_OF_DAY, first[0].strip())
    if is_of_day:
        words = pc.replace_substring_regex(
            pc.utf8_trim_whitespace(column), r"^(\d:)", r"0\1"
        )
        words = pc.replace_substring_regex(words, _OF_DAY, r"1970-01-01 \1")
        table = replace(table, columns={"time": words})
    if not is_number:
        result = parse_timestamps_of_one_clock(table, "time")
        t_us = np.where(result.is_present, result.us.astype(np.float64), np.nan)
        if is_of_day:  # a fall by half a day or more is midnight
            falls = np.diff(t_us[result.is_present], prepend=-np.inf) < -US_PER_DAY / 2
            t_us[result.is_present] += US_PER_DAY * np.cumsum(falls)
        return t_us, not is_of_day and not result.is_aware.any()
    values = numbers(table, "time", Number(MAX_EPOCH, of="seconds, or an ISO date"))
    unit = unit_in_name(f"t {table.names['time'].lower()}") or _epoch_unit(values)
    scale = US_PER_UNIT[unit]
    believed = ~(np.abs(values * scale) >= YEARS_US[1])
    fail_values(table, "time", believed, "a time before the year 2200")
    return values * scale, False


def _epoch_unit(values: Float64Array) -> TimeUnit:
    """Return the unit of numeric times, inferred from their size.

    Numbers too large for seconds are ms, us or ns since 1970.
    """
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    at_least: dict[TimeUnit, float] = {"ns": 1e17, "us": 1e14, "ms": 1e11}
    return next((unit for unit, size in at_least.items() if largest >= size), "s")


def _words(name: str) -> list[str]:
    return re.findall("[a-z]+", name.lower())


def _stem(name: str) -> str:
    """Return a column's name in lower case without unit and trailing index word."""
    words = _words(name)
    if len(words) > 1 and (unit_in_name(name.lower()) or words[-1] in _KNOWN_W):
        words = words[:-1]
    return _plain_name(" ".join(words))


def _plain_name(name: str) -> str:
    """Return a column's name in lower case without an ending such as ``_id``."""
    lower = name.strip().lower()
    return re.sub(r"[\s_.\-]*(id|index|no|number)?$", "", lower) or lower


def _time_column(sheet: HeaderTable) -> str:
    named = [name for name in sheet.names if _stem(name) in TIMES] or ["t_s"]
    return next((name for name in named if name.lower() == "t_s"), named[0])


def _power_column(sheet: HeaderTable) -> str:
    if sheet.has("power_w"):
        return "power_w"
    named = [n for n in sheet.names if re.search(r"power|watt", n, re.IGNORECASE)]
    if len(named) != 1:
        raise LogFormatError(
            f"{sheet.header}: {plural(len(named), 'column')} of power (found: "
            f"{join_names(sheet.names)}), expected one, such as 'power_w'; name it, or "
            "several to be summed (--power-column)"
        )
    return named[0]


def _unit_w(sheet: HeaderTable, name: str, stated: str | None) -> float:
    if stated is not None:
        return UNITS_W[stated]
    unit = (_words(name) or [""])[-1].removesuffix("s")
    if unit in _KNOWN_W:
        return _KNOWN_W[unit]
    raise LogFormatError(
        f"{sheet.header}: column '{name}' does not name its unit, or one that may be "
        "megawatts or milliwatts; give its unit (--power-unit), one of "
        f"{one_of(UNITS_W)}"
    )


def _boundary(stated: Boundary | None, add_w: float) -> str:
    boundary = PowerBoundary[stated.upper()] if stated else PowerBoundary.UNKNOWN
    return (
        f"{boundary}, {PLUS_CONSTANT} {add_w:g} W per node, which is assumed"
        if add_w
        else boundary
    )


def _checked_bandwidth_hz(given_hz: float | None, interval_s: float) -> float | None:
    """Return the specified bandwidth [Hz]; fail if above the Nyquist frequency."""
    nyquist_hz = 0.5 / interval_s
    if given_hz is not None and not 0 < given_hz <= nyquist_hz * (1 + _ROUNDING):
        raise ProfileError(
            f"bandwidth_hz is {given_hz:g}, expected more than 0 and at most "
            f"{nyquist_hz:g} Hz, half the rate of readings every {interval_s:g} s"
        )
    return given_hz
