"""Reader of files with external signals over time, such as electricity prices.

Formats are Electricity Maps (carbon intensity, UTC), CAISO OASIS (prices, GMT), NYISO
(prices, Eastern time), gridstatus (``Interval Start, LMP``, with offsets), and any CSV
or Parquet file whose timestamps have offsets (see docs/FLEXIBILITY.md).
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
from diploee.importers.text.delimited_tables import (
    HeaderTable,
    ReadTable,
    join_names,
    read_header_table,
)
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers
from diploee.importers.text.timestamps import (
    parse_timestamps,
    parse_timestamps_of_one_clock,
)
from diploee.scenario.flexibility import SIGNAL_UNITS, SignalFile, SignalName
from diploee.scenario.times import span_ms
from diploee.schedule.signals import NO_END_MS, Signal

TIMES = ("timestamp", "datetime", "time", "date")
LARGEST = {"price": 1e9, "carbon": 1e6, "cap": 1e6}
_LEAST = {"price": -1e9, "carbon": 0.0, "cap": 0.0}


@dataclass(frozen=True)
class _SignalFormat:
    """A signal file format: regular expressions that match its column names."""

    name: str
    time: str  # column of the times
    value: str = ""  # column of the values; if empty, the only other column
    place: str = ""  # column of zones, nodes or locations
    # Column of the kinds of rows, and the kind that is read
    kind: str = ""
    kind_value: str = ""
    zone: str = ""  # time zone of timestamps without an offset
    # Format of the timestamps up to the minutes; ISO 8601 if empty
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
"""Signal formats recognised by their header, in the order of the tests."""
ANY = _SignalFormat("", f"({'|'.join(TIMES)}).*")

ENDING_STEP_MS = 5 * MS_PER_MIN
"""Step of NYISO prices that are stamped at the interval's end [ms].

ASSUMPTION: five-minute prices are stamped at their end [M], hourly prices at their
start [S]."""


def read_signal(path: Path | str, name: SignalName, spec: SignalFile) -> Signal:
    """Read a signal from a file, with times in ms since 1970 UTC.

    Rows may be in any order. Missing values and repeated times are refused, and so are
    gaps in prices and carbon intensities. A cap applies until the next value.
    """
    sheet = read_header_table(path, "a column of times and one of values")
    form = _format(sheet, spec)
    table = _rows(sheet, form, spec)
    units = SIGNAL_UNITS[name]
    factor = units[spec.unit] if spec.unit else 1.0
    number = Number(
        LARGEST[name] / factor, at_least=_LEAST[name] / factor, may_be_missing=False
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
                f"{table.path}: one row, expected two or more to infer the step"
            )
        step_sizes_ms, count = np.unique(steps_ms, return_counts=True)
        step_ms = int(step_sizes_ms[np.argmax(count)])  # the most frequent step
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
    """Return the signal format of a file; `ANY` if its header matches no format."""
    if spec.format is not None:
        return next((form for form in FORMATS if form.name == spec.format), ANY)
    for form in FORMATS:
        if _first_match(sheet, form.time) and _first_match(sheet, form.value):
            return form
    return ANY


def _first_match(sheet: HeaderTable, patterns: str) -> str:
    """Return the first column name that matches a pattern, ignoring case."""
    matches = (
        n for n in sheet.names if patterns and re.fullmatch(patterns, n, re.IGNORECASE)
    )
    return next(matches, "")


def _rows(sheet: HeaderTable, form: _SignalFormat, spec: SignalFile) -> ReadTable:
    """Return time and value of the rows with the requested kind and place."""
    time = _first_match(sheet, form.time) or (TIMES[0] if form is ANY else form.time)
    others = [name for name in sheet.names if name != time]
    value = spec.column or _first_match(sheet, form.value) or form.value
    if not value and len(others) != 1:
        raise LogFormatError(
            f"{sheet.header}: {len(others)} columns besides the time (found: "
            f"{join_names(others)}), expected one; name it as column"
        )
    columns = {"time": time, "value": value or others[0]}
    optional = {
        "place": _first_match(sheet, form.place),
        "kind": _first_match(sheet, form.kind),
    }
    columns |= {key: name for key, name in optional.items() if name}
    table = sheet.read(columns, "a signal")
    if "kind" in table:
        table = table.take(_words(table, "kind") == form.kind_value)
    table = _rows_of_place(table, spec.place)
    if not len(table):
        raise LogFormatError(
            f"{sheet.path}: no rows, expected a time and a value in each"
        )
    return table


def _words(table: ReadTable, key: str) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    words = pc.utf8_trim_whitespace(table.columns[key])
    return np.array(words.to_pylist(), dtype=object)


def _rows_of_place(table: ReadTable, place: str | None) -> ReadTable:
    """Return the rows of a place.

    If no place is requested, the file must have only one place.
    """
    names = _words(table, "place") if "place" in table else np.array([], dtype=object)
    places = list(dict.fromkeys(names.tolist()))
    if place not in places and (place is not None or len(places) > 1):
        near = did_you_mean(place or "", places)
        raise LogFormatError(
            f"{table.path}: rows of {len(places):,} places "
            f"({one_line(one_of(places))}), "
            f"expected place to be one of them{one_line(near)}"
        )
    return table if place is None else table.take(names == place)


def _utc_ms(table: ReadTable, form: _SignalFormat, spec: SignalFile) -> Int64Array:
    """Return the times of all rows [ms since 1970 in UTC]."""
    if form.time_format:
        first = table.columns["time"][0].as_py()
        seconds = ":%S" if first.count(":") > 1 else ""
        result = parse_timestamps(table, "time", form.time_format + seconds)
    else:
        result = parse_timestamps_of_one_clock(table, "time")
    fail_values(table, "time", result.is_present, "a time")
    ms = result.us // 1000
    if result.is_aware[0]:
        return ms
    if form.zone:
        return _zone_to_utc_ms(ms, form.zone)
    if spec.utc_offset is None:
        table.fail(
            0, "a time without an offset from UTC, expected one; give utc_offset"
        )
    offset = fixed_zone(spec.utc_offset).utcoffset(None)
    return ms - round(offset.total_seconds() * 1000)


def _zone_to_utc_ms(local_ms: Int64Array, zone: str) -> Int64Array:
    """Return local times of a zone as UTC times [ms since 1970].

    The hour at the end of summer time occurs twice. In this hour, a row whose time is
    not after that of the previous row belongs to the second occurrence.
    """
    utc_ms = Zone(zone).utc_ms(local_ms).copy()
    naive = pa.array(local_ms).cast(pa.timestamp("ms"))
    latest = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    later_ms = np.asarray(latest.cast(pa.int64()), dtype=np.int64)
    second, previous_ms, previous = False, 0, -2
    for row in np.flatnonzero(later_ms != utc_ms).tolist():
        second = row == previous + 1 and (second or local_ms[row] <= previous_ms)
        previous_ms, previous = local_ms[row], row
        if second:
            utc_ms[row] = later_ms[row]
    return utc_ms
