"""Reader of external signals, such as a price, from files.

Formats: Electricity Maps (carbon intensity, UTC), CAISO OASIS (prices, GMT), NYISO
(prices, Eastern time), gridstatus (``Interval Start, LMP``, with offsets), and any CSV
or Parquet file whose stamps have an offset (see docs/FLEXIBILITY.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.clock import Zone, fixed_zone
from diploee.base.errors import LogFormatError, did_you_mean, one_line, one_of
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_MIN
from diploee.importers.text.tables import HeaderTable, ReadTable, listed, read_sheet
from diploee.importers.text.timestamps import stamps, stamps_of_one_clock
from diploee.importers.text.values import Number, fail_values, numbers
from diploee.scenario.flexibility import SIGNAL_UNITS, SignalFile, SignalName
from diploee.scenario.times import span_ms
from diploee.schedule.signals import NO_END_MS, Signal

TIMES = ("timestamp", "datetime", "time", "date")
LARGEST = {"price": 1e9, "carbon": 1e6, "cap": 1e6}
_LEAST = {"price": -1e9, "carbon": 0.0, "cap": 0.0}


@dataclass(frozen=True)
class _SignalFormat:
    """The columns of a format, as patterns of their names."""

    name: str  # its name
    time: str  # column of the times
    value: str = ""  # column of the values; the only other one where there is none
    place: str = ""  # column of zones, nodes or locations
    # A column that tells several kinds of rows apart, and the one that is read
    kind: str = ""
    of_kind: str = ""
    zone: str = ""  # zone of stamps without an offset
    # Format of the stamps, but for their seconds; ISO 8601 where there is none
    time_format: str = ""


FORMATS = (
    _SignalFormat(
        "electricity_maps",
        r"Datetime \(UTC\)",
        r"Carbon intensity gCO.eq/kWh \(direct\)",
        "Zone id",
        zone="UTC",
    ),
    _SignalFormat(
        "caiso",
        "INTERVALSTARTTIME_GMT",
        "MW|VALUE|LMP_PRC",
        "NODE|NODE_ID",
        "LMP_TYPE",
        "LMP",
        zone="UTC",
    ),
    _SignalFormat(
        "nyiso",
        "Time Stamp",
        r"LBMP \(\$/MWHr\)",
        "Name",
        zone="America/New_York",
        time_format="%m/%d/%Y %H:%M",
    ),
    _SignalFormat("gridstatus", "Interval Start", "LMP", "Location"),
)
"""Formats that are recognised by their header; of alternatives the first that a file
has."""
ANY = _SignalFormat("", f"({'|'.join(TIMES)}).*")

ENDING_STEP_MS = 5 * MS_PER_MIN
"""ASSUMPTION: NYISO stamps five-minute prices at their end [M], hourly ones at their
begin [S]."""


def read_signal(path: Path | str, name: SignalName, spec: SignalFile) -> Signal:
    """Read a signal from a file; its times are ms since 1970 in UTC.

    Rows may be in any order. A value that is missing, a time that comes twice, and of
    prices and carbon intensities a gap are refused; the values of a cap hold until the
    next.
    """
    sheet = read_sheet(path, "a column of times and one of values")
    form = _format(sheet, spec)
    table = _rows(sheet, form, spec)
    units = SIGNAL_UNITS[name]
    factor = units[spec.unit] if spec.unit else 1.0
    number = Number(
        LARGEST[name] / factor, at_least=_LEAST[name] / factor, may_miss=False
    )
    values = numbers(table, "value", number) * factor
    utc_ms = _utc_ms(table, form, spec)
    order = np.argsort(utc_ms, kind="stable")
    times_ms, rows = utc_ms[order], order.tolist()
    steps_ms = np.diff(times_ms)
    if (twice := np.flatnonzero(steps_ms == 0)).size:
        other = table.where(rows[twice[0]]).rpartition(":")[2].strip()
        table.fail(
            rows[twice[0] + 1],
            (
                f"the same time as in line {other}, expected one value each; remove "
                "one of them, or name the place that is meant"
            ),
        )
    end_ms = NO_END_MS
    if name != "cap":
        if not steps_ms.size:
            raise LogFormatError(
                f"{table.path}: one row, expected two or more, which tell the step"
            )
        result, count = np.unique(steps_ms, return_counts=True)
        step_ms = int(result[np.argmax(count)])  # the most frequent one
        if form.name == "nyiso" and step_ms == ENDING_STEP_MS:
            times_ms = times_ms - step_ms
        end_ms = int(times_ms[-1]) + step_ms
        if (gaps := np.flatnonzero(steps_ms > step_ms)).size:
            table.fail(
                rows[gaps[0] + 1],
                (
                    f"no value for {steps_ms[gaps[0]] / MS_PER_MIN:,.4g} min before "
                    f"this one, expected one each {step_ms / MS_PER_MIN:,.4g} min; "
                    "fill the "
                    f"gap{f' ({gaps.size:,} such gaps)' if gaps.size > 1 else ''}"
                ),
            )
    return Signal(times_ms, values[order], end_ms, span_ms(spec.known_ahead))


def _format(sheet: HeaderTable, spec: SignalFile) -> _SignalFormat:
    """Return the format of a file, `ANY` where it is none of them."""
    if spec.format is not None:
        return next((form for form in FORMATS if form.name == spec.format), ANY)
    for form in FORMATS:
        if _find(sheet, form.time) and _find(sheet, form.value):
            return form
    return ANY


def _find(sheet: HeaderTable, patterns: str) -> str:
    """Return the first column that a pattern means, whatever its case.

    Empty for none.
    """
    result = (
        n for n in sheet.names if patterns and re.fullmatch(patterns, n, re.IGNORECASE)
    )
    return next(result, "")


def _rows(sheet: HeaderTable, form: _SignalFormat, spec: SignalFile) -> ReadTable:
    """Return the columns ``time`` and ``value`` of the rows that are meant."""
    time = _find(sheet, form.time) or (TIMES[0] if form is ANY else form.time)
    others = [name for name in sheet.names if name != time]
    value = spec.column or _find(sheet, form.value) or form.value
    if not value and len(others) != 1:
        raise LogFormatError(
            f"{sheet.header}: {len(others)} columns beside the time (found: "
            f"{listed(others)}), expected one; name it as column"
        )
    wanted = {"time": time, "value": value or others[0]}
    result = {"place": _find(sheet, form.place), "kind": _find(sheet, form.kind)}
    wanted |= {key: name for key, name in result.items() if name}
    table = sheet.read(wanted, "a signal")
    if "kind" in table:
        table = table.take(_words(table, "kind") == form.of_kind)
    table = _of_place(table, spec.place)
    if not len(table):
        raise LogFormatError(
            f"{sheet.path}: no rows, expected a time and a value in each"
        )
    return table


def _words(table: ReadTable, key: str) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    words = pc.utf8_trim_whitespace(table.columns[key])
    return np.array(words.to_pylist(), dtype=object)


def _of_place(table: ReadTable, place: str | None) -> ReadTable:
    """Return the rows of a place; without one, there must be one place alone."""
    names = _words(table, "place") if "place" in table else np.array([], dtype=object)
    known = list(dict.fromkeys(names.tolist()))
    if place not in known and (place is not None or len(known) > 1):
        near = did_you_mean(place or "", known)
        raise LogFormatError(
            f"{table.path}: rows of {len(known):,} places ({one_line(one_of(known))}), "
            f"expected place to be one of them{one_line(near)}"
        )
    return table if place is None else table.take(names == place)


def _utc_ms(table: ReadTable, form: _SignalFormat, spec: SignalFile) -> Int64Array:
    """Return the times of all rows [ms since 1970 in UTC]."""
    if form.time_format:
        first = table.columns["time"][0].as_py()
        seconds = ":%S" if first.count(":") > 1 else ""
        result = stamps(table, "time", form.time_format + seconds)
    else:
        result = stamps_of_one_clock(table, "time")
    fail_values(table, "time", result.there, "a time")
    ms = result.us // 1000
    if result.is_aware[0]:
        return ms
    if form.zone:
        return _of_zone(ms, form.zone)
    if spec.utc_offset is None:
        table.fail(
            0, "a time without an offset from UTC, expected one; give utc_offset"
        )
    offset = fixed_zone(spec.utc_offset).utcoffset(None)
    return ms - round(offset.total_seconds() * 1000)


def _of_zone(local_ms: Int64Array, zone: str) -> Int64Array:
    """Return local times as UTC.

    Of an hour that comes twice, the second is behind the first.
    """
    utc_ms = Zone(zone).utc_ms(local_ms).copy()
    naive = pa.array(local_ms).cast(pa.timestamp("ms"))
    latest = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    later_ms = np.asarray(latest.cast(pa.int64()), dtype=np.int64)
    second, before_ms, before = False, 0, -2
    for row in np.flatnonzero(later_ms != utc_ms).tolist():
        second = row == before + 1 and (second or local_ms[row] <= before_ms)
        before_ms, before = local_ms[row], row
        if second:
            utc_ms[row] = later_ms[row]
    return utc_ms
