"""Signals from outside, such as a price: `read_signal` reads a file, `Signal` is a step function.

Formats: Electricity Maps (carbon intensity, UTC), CAISO OASIS (prices, GMT), NYISO (prices, Eastern
time), gridstatus (``Interval Start, LMP``, with offsets), and any CSV or Parquet file whose stamps
have an offset. Reference sheet ``flexibility.md``, B1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.clock import RunClock, fixed_zone
from diploee.errors import LogFormatError, did_you_mean, one_line, one_of
from diploee.scenario.flexibility import SIGNAL_UNITS, SignalFile, SignalName
from diploee.scenario.spans import span_ms
from diploee.tables import Float64Array, Int64Array
from diploee.textio.clock import Zone
from diploee.textio.sheets import Sheet, read_sheet
from diploee.textio.stamps import stamps, stamps_of_one_clock
from diploee.textio.tables import ReadTable, listed
from diploee.textio.values import Number, fail_values, numbers
from diploee.units import MS_PER_MIN

TIMES = ("timestamp", "datetime", "time", "date")
"""First words of a column of times in a file of no known format."""

NO_END_MS = int(np.iinfo(np.int64).max)
LARGEST = {"price": 1e9, "carbon": 1e6, "cap": 1e6}
_LEAST = {"price": -1e9, "carbon": 0.0, "cap": 0.0}


@dataclass(frozen=True)
class SignalFormat:
    """The columns of a format, as patterns of their names.

    Parameters
    ----------
    name : str
        Its name.
    time, value : str
        Columns of the times and of the values.
    place : str
        Column of zones, nodes or locations.
    kind, of_kind : str
        A column that tells several kinds of rows apart, and the one that is read.
    zone : str
        Zone of stamps without an offset.
    time_format : str
        Format of the stamps, but for their seconds; ISO 8601 where there is none.
    """

    name: str
    time: str
    value: str
    place: str
    kind: str = ""
    of_kind: str = ""
    zone: str = ""
    time_format: str = ""


FORMATS = (
    SignalFormat(
        "electricity_maps",
        r"Datetime \(UTC\)",
        r"Carbon intensity gCO.eq/kWh \(direct\)",
        "Zone id",
        zone="UTC",
    ),
    SignalFormat(
        "caiso", "INTERVALSTARTTIME_GMT", "MW|VALUE|LMP_PRC", "NODE|NODE_ID", "LMP_TYPE", "LMP",
        zone="UTC",
    ),
    SignalFormat(
        "nyiso", "Time Stamp", r"LBMP \(\$/MWHr\)", "Name", zone="America/New_York",
        time_format="%m/%d/%Y %H:%M",
    ),
    SignalFormat("gridstatus", "Interval Start", "LMP", "Location"),
)  # fmt: skip
"""Formats that are told from their header; of alternatives the first that a file has."""

ENDING_STEP_MS = 5 * MS_PER_MIN
"""ASSUMPTION: NYISO stamps five-minute prices at their end [M], hourly ones at their begin [S]."""


@dataclass(frozen=True, eq=False)
class Signal:
    """A step function of time: each value holds from its time until the next.

    Parameters
    ----------
    times_ms : numpy.ndarray, shape (n,), int64
        When each value begins, increasing [ms since 1970 in UTC, or since the start of a run].
    values : numpy.ndarray, shape (n,), float64
        The values, in the signal's own unit.
    end_ms : int
        End of the last value [ms].
    known_ahead_ms : int
        How far ahead of any time the values are known [ms].
    """

    times_ms: Int64Array
    values: Float64Array
    end_ms: int
    known_ahead_ms: int = 0

    @cached_property
    def _lists(self) -> tuple[list[int], list[float]]:
        return self.times_ms.tolist(), self.values.tolist()

    def at(self, time_ms: int) -> float:
        """Return the value at a time [ms]; NaN before the first and behind the end."""
        row = int(np.searchsorted(self.times_ms, time_ms, side="right")) - 1
        return float(self.values[row]) if row >= 0 and time_ms < self.end_ms else float("nan")

    def next_change_ms(self, time_ms: int) -> int | None:
        """Return the first time after another at which a new value begins [ms], if there is one."""
        row = int(np.searchsorted(self.times_ms, time_ms, side="right"))
        return int(self.times_ms[row]) if row < self.times_ms.size else None

    def window(self, from_ms: int, until_ms: int) -> tuple[Int64Array, Float64Array]:
        """Return the values that hold in a span, and for how long each does within it [ms].

        Parameters
        ----------
        from_ms, until_ms : int
            The span [ms].

        Returns
        -------
        length_ms, values : numpy.ndarray, shape (m,)
        """
        ends_ms = np.append(self.times_ms[1:], self.end_ms)
        first = int(np.searchsorted(ends_ms, from_ms, side="right"))
        last = int(np.searchsorted(self.times_ms, until_ms))
        within = slice(first, max(first, last))
        begins_ms = np.maximum(self.times_ms[within], from_ms)
        return np.minimum(ends_ms[within], until_ms) - begins_ms, self.values[within]

    def means(self, edges_ms: Int64Array) -> Float64Array:
        """Return the mean over each interval between edges [ms]; NaN where it is not covered."""
        first_ms, last_ms = int(self.times_ms[0]), self.end_ms
        begins_ms = self.times_ms.astype(np.float64)
        cumulative = np.concatenate([[0.0], np.cumsum(self.values[:-1] * np.diff(begins_ms))])
        row = np.clip(np.searchsorted(self.times_ms, edges_ms, side="right") - 1, 0, None)
        at_edge = cumulative[row] + self.values[row] * (edges_ms - self.times_ms[row])
        means = np.diff(at_edge) / np.diff(edges_ms)
        covered = (edges_ms[:-1] >= first_ms) & (edges_ms[1:] <= last_ms)
        return np.where(covered, means, np.nan)

    def known_at(self, now: Callable[[], int]) -> KnownSignal:
        """Return the signal as it is seen by who knows the time and no more."""
        return KnownSignal(self, now)


@dataclass(frozen=True)
class KnownSignal:
    """A signal up to what is known of it now, and not a step further.

    Parameters
    ----------
    signal : Signal
        The whole of it.
    now : callable
        Returns the time [ms].
    """

    signal: Signal
    now: Callable[[], int]

    @property
    def known_ms(self) -> int:
        """Up to when it is known, the value that holds now included [ms]."""
        return self.now() + self.signal.known_ahead_ms

    def at(self, time_ms: int) -> float:
        """Return the value at a time [ms]; NaN where it is not known."""
        return self.signal.at(time_ms) if time_ms <= self.known_ms else float("nan")

    def next_change_ms(self, time_ms: int) -> int | None:
        """Return when the next value begins [ms]: the time to ask again, not what it will be."""
        return self.signal.next_change_ms(time_ms)

    def window(self, from_ms: int, until_ms: int) -> tuple[Int64Array, Float64Array]:
        """Return what `Signal.window` does, of the part of a span that is known."""
        return self.signal.window(from_ms, min(until_ms, self.known_ms + 1))


def quantile(length_ms: Int64Array, values: Float64Array, level: float) -> float:
    """Return a quantile of values by the time for which each holds; NaN of none.

    Parameters
    ----------
    length_ms : numpy.ndarray, shape (n,), int64
        How long each value holds [ms].
    values : numpy.ndarray, shape (n,), float64
        The values.
    level : float
        Share of the time at or below the quantile, above 0 and below 1.
    """
    if not values.size:
        return float("nan")
    order = np.argsort(values, kind="stable")
    share = np.cumsum(length_ms[order]) / length_ms.sum()
    return float(values[order][min(int(np.searchsorted(share, level)), values.size - 1)])


def read_signal(path: Path | str, name: SignalName, spec: SignalFile) -> Signal:
    """Read a signal from a file; its times are ms since 1970 in UTC.

    Rows may be in any order. A value that is missing, a time that comes twice, and of prices and
    carbon intensities a gap are refused; the values of a cap hold until the next.

    Parameters
    ----------
    path : pathlib.Path or str
        The file.
    name : {"price", "carbon", "cap"}
        What it tells.
    spec : SignalFile
        Format, column, place, unit and how far ahead it is known.

    Raises
    ------
    LogFormatError
        With file and line, if it can't be read.
    """
    sheet = read_sheet(path, "a column of times and one of values")
    form = _format(sheet, spec)
    table = _rows(sheet, form, spec)
    units = SIGNAL_UNITS[name]
    factor = units[spec.unit] if spec.unit else 1.0
    number = Number(LARGEST[name] / factor, at_least=_LEAST[name] / factor, may_miss=False)
    values = numbers(table, "value", number) * factor
    utc_ms = _utc_ms(table, form, spec)
    order = np.argsort(utc_ms, kind="stable")
    times_ms, rows = utc_ms[order], order.tolist()
    steps_ms = np.diff(times_ms)
    if (twice := np.flatnonzero(steps_ms == 0)).size:
        other = table.where(rows[twice[0]]).rpartition(":")[2].strip()
        table.fail(
            rows[twice[0] + 1],
            f"the same time as in line {other}, expected one value each; remove one of them, or "
            "name the place that is meant",
        )
    end_ms = NO_END_MS
    if name != "cap":
        step_ms = _step_ms(table, steps_ms)
        if form is not None and form.name == "nyiso" and step_ms == ENDING_STEP_MS:
            times_ms = times_ms - step_ms
        end_ms = int(times_ms[-1]) + step_ms
        if (gaps := np.flatnonzero(steps_ms > step_ms)).size:
            table.fail(
                rows[gaps[0] + 1],
                f"no value for {steps_ms[gaps[0]] / MS_PER_MIN:,.4g} min before this one, expected "
                f"one each {step_ms / MS_PER_MIN:,.4g} min; fill the gap"
                f"{f' ({gaps.size:,} such gaps)' if gaps.size > 1 else ''}",
            )
    return Signal(times_ms, values[order], end_ms, span_ms(spec.known_ahead))


def fit_to_run(signal: Signal, path: Path | str, clock: RunClock) -> Signal:
    """Return a signal in the time of a run, all of which it must cover.

    Parameters
    ----------
    signal : Signal
        As `read_signal` gives it.
    path : pathlib.Path or str
        Its file, for errors.
    clock : RunClock
        Span of the run.

    Raises
    ------
    LogFormatError
        If it does not cover the run.
    """
    origin_ms = clock.wall.origin_ms
    end_ms = NO_END_MS if signal.end_ms == NO_END_MS else signal.end_ms - origin_ms
    shifted = Signal(signal.times_ms - origin_ms, signal.values, end_ms, signal.known_ahead_ms)
    if shifted.times_ms[0] > 0 or shifted.end_ms < clock.horizon_ms:
        iso = clock.wall.iso
        until = "on" if end_ms == NO_END_MS else f"to {iso(end_ms)}"
        raise LogFormatError(
            f"{one_line(str(path))}: holds values from {iso(int(shifted.times_ms[0]))} {until}, "
            f"expected all of the run, {iso(0)} to {iso(clock.horizon_ms)}; complete the file, or "
            "move the run"
        )
    return shifted


def _format(sheet: Sheet, spec: SignalFile) -> SignalFormat | None:
    """Return the format of a file; None where it is any table."""
    if spec.format is not None:
        return next((form for form in FORMATS if form.name == spec.format), None)
    return next(
        (form for form in FORMATS if _find(sheet, form.time) and _find(sheet, form.value)), None
    )


def _find(sheet: Sheet, patterns: str) -> str | None:
    """Return the first column that a pattern means, whatever its case."""
    for name in sheet.names:
        if re.fullmatch(patterns, name, re.IGNORECASE):
            return name
    return None


def _rows(sheet: Sheet, form: SignalFormat | None, spec: SignalFile) -> ReadTable:
    """Return the columns ``time`` and ``value`` of the rows that are meant."""
    wanted: dict[str, str] = {}
    if form is None:
        wanted["time"] = next(
            (name for name in sheet.names if name.casefold().startswith(TIMES)), ""
        )
        if not wanted["time"]:
            raise LogFormatError(
                f"{sheet.header}: no column of times (found: {listed(sheet.names)}), expected one "
                f"whose name begins with {one_of(TIMES)}; rename it"
            )
    else:
        wanted["time"] = _find(sheet, form.time) or form.time
    others = [name for name in sheet.names if name != wanted["time"]]
    if spec.column is not None:
        wanted["value"] = spec.column
    elif form is not None:
        wanted["value"] = _find(sheet, form.value) or form.value
    elif len(others) == 1:
        wanted["value"] = others[0]
    else:
        raise LogFormatError(
            f"{sheet.header}: {len(others)} columns beside the time (found: {listed(others)}), "
            "expected one; name it as column"
        )
    if form is not None:
        of_rows = {"place": form.place, "kind": form.kind}
        found = {key: _find(sheet, pattern) for key, pattern in of_rows.items() if pattern}
        wanted |= {key: name for key, name in found.items() if name is not None}
    table = sheet.read(wanted, "a signal")
    if form is not None and "kind" in table:
        table = table.take(_words(table, "kind") == form.of_kind)
    table = _of_place(table, spec.place)
    if not len(table):
        raise LogFormatError(f"{sheet.path}: no rows, expected a time and a value in each")
    return table


def _words(table: ReadTable, key: str) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    words = pc.utf8_trim_whitespace(pc.fill_null(pc.cast(table.columns[key], pa.string()), ""))
    return np.array(words.to_pylist(), dtype=object)


def _of_place(table: ReadTable, place: str | None) -> ReadTable:
    """Return the rows of a place; without one, there must be one place alone."""
    if "place" not in table:
        if place is not None:
            raise LogFormatError(
                f"{table.path}: has no column of places, found place '{place}'; remove it"
            )
        return table
    names = _words(table, "place")
    known = list(dict.fromkeys(names.tolist()))
    if place is None and len(known) > 1:
        raise LogFormatError(
            f"{table.path}: column '{table.names['place']}' names {len(known):,} places "
            f"({one_line(one_of(known))}), expected one; give place"
        )
    if place is not None and place not in known:
        raise LogFormatError(
            f"{table.path}: column '{table.names['place']}' has no '{one_line(place)}' (have: "
            f"{one_line(one_of(known))}){one_line(did_you_mean(place, known))}"
        )
    return table if place is None else table.take(names == place)


def _utc_ms(table: ReadTable, form: SignalFormat | None, spec: SignalFile) -> Int64Array:
    """Return the times of all rows [ms since 1970 in UTC]."""
    if form is not None and form.time_format:
        first = str(table.columns["time"][0].as_py() or "")
        seconds = ":%S" if first.count(":") > 1 else ""
        found = stamps(table, "time", form.time_format + seconds)
    else:
        found = stamps_of_one_clock(table, "time")
    fail_values(table, "time", found.there, "a time")
    ms = found.us // 1000
    if found.is_aware[0]:
        return ms
    if form is not None and form.zone:
        return _of_zone(ms, form.zone)
    if spec.utc_offset is None:
        table.fail(
            0,
            "a time without an offset from UTC, expected one such as 2023-05-17 11:00+02:00; give "
            "utc_offset",
        )
    offset = fixed_zone(spec.utc_offset).utcoffset(None)
    return ms - round(offset.total_seconds() * 1000)


def _of_zone(local_ms: Int64Array, zone: str) -> Int64Array:
    """Return local times as UTC; of an hour that comes twice, the second is behind the first."""
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


def _step_ms(table: ReadTable, steps_ms: Int64Array) -> int:
    """Return the most frequent step [ms]."""
    if not steps_ms.size:
        raise LogFormatError(f"{table.path}: one row, expected two or more, which tell the step")
    found, count = np.unique(steps_ms, return_counts=True)
    return int(found[np.argmax(count)])
