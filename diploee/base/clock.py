"""Time zones, local time, and `RunClock`, the period of a run.

All conversions from elapsed or UTC time to local time are made here. An instant is
int64 ms since 1970 in UTC; a local time is int64 ms since 1970-01-01 00:00 local time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.errors import InputError, one_of, shown
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

_UTC_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_ZONE_YEARS = (1900, 2250)
"""First and last year of offset changes; outside of them the offset is constant."""


def named_zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database by its name."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        names = sorted(available_timezones())
        area = name.partition("/")[0] + "/"
        close_names = get_close_matches(name, names, n=1, cutoff=0.8)
        suggestions = (
            close_names
            or [zone for zone in names if zone.startswith(area)]
            or ["America/Chicago"]
        )
        raise ValueError(
            f"must be a time zone such as {one_of(suggestions)}, found {shown(name)}"
        ) from None


def fixed_zone(text: str) -> timezone:
    """Return the time zone of a fixed UTC offset such as ``-07:00``."""
    match = _UTC_OFFSET.fullmatch(text)
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        raise ValueError(
            f"must be a UTC offset such as '+00:00' or '-07:00', found {shown(text)}"
        )
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


def zone_name(zone: tzinfo) -> str:
    """Return a zone's name, or its offset such as ``-07:00``, in Arrow's notation."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    offset = datetime(2000, 1, 1, tzinfo=zone).isoformat()[-6:]
    return "UTC" if offset == "+00:00" else offset


def instant_ms(moment: datetime) -> int:
    """Return a zone-aware datetime as Unix time [ms since 1970 in UTC].

    A local hour that occurs twice resolves to its first occurrence.
    """
    return (moment - _EPOCH) // _MS


def local_datetime(instant_ms: int, zone: tzinfo) -> datetime:
    """Return an instant as a datetime in a time zone."""
    return (_EPOCH + timedelta(milliseconds=int(instant_ms))).astimezone(zone)


def is_skipped(local: datetime, zone: tzinfo) -> bool:
    """Return True if daylight saving skips a local time."""
    zoned = local.replace(tzinfo=zone)
    return local_datetime(instant_ms(zoned), zone).replace(tzinfo=None) != local


def offsets_ms(instants_ms: Int64Array, zone: tzinfo) -> Int64Array:
    """Return the offset from UTC at each instant [ms]."""
    if not instants_ms.size:
        return np.zeros(0, dtype=np.int64)
    begins_ms, offsets = _offset_changes(
        zone, int(instants_ms.min()), int(instants_ms.max())
    )
    return offsets[np.searchsorted(begins_ms, instants_ms, side="right")]


def local_ms(instants_ms: Int64Array, zone: tzinfo) -> Int64Array:
    """Return the local time at each instant [ms since 1970-01-01 00:00 local time]."""
    return instants_ms + offsets_ms(instants_ms, zone)


def _offset_changes(
    zone: tzinfo, first_ms: int, last_ms: int
) -> tuple[Int64Array, Int64Array]:
    """Return the instants of a zone's offset changes, and the offsets around them [ms].

    There is one offset more than there are changes.
    """
    if isinstance(zone, timezone):
        return np.zeros(0, dtype=np.int64), np.array([zone.utcoffset(None) // _MS])
    ends = np.array([first_ms, last_ms], "datetime64[ms]").astype("datetime64[Y]")
    first, last = np.clip(ends.astype(int) + 1970, *_ZONE_YEARS).tolist()
    return _offset_changes_in_years(zone, first, last + 1)


@lru_cache(maxsize=64)
def _offset_changes_in_years(
    zone: tzinfo, first: int, end: int
) -> tuple[Int64Array, Int64Array]:
    """Find the offset changes of some years by a daily scan and bisection.

    Two changes within one day would be missed.
    """

    def offset_at(second: int) -> timedelta:
        utc_offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
        return utc_offset or timedelta()

    day_s = 86_400
    begin_s, end_s = (
        round(datetime(y, 1, 1, tzinfo=UTC).timestamp()) for y in (first, end)
    )
    previous, begins_ms, offsets = offset_at(begin_s), [], [offset_at(begin_s) // _MS]
    for until_s in range(begin_s + day_s, end_s + 2 * day_s, day_s):
        current = offset_at(until_s)
        if current != previous:
            low_s, high_s = until_s - day_s, until_s
            while high_s - low_s > 1:
                middle_s = (low_s + high_s) // 2
                low_s, high_s = (
                    (middle_s, high_s)
                    if offset_at(middle_s) == previous
                    else (low_s, middle_s)
                )
            begins_ms.append(high_s * MS_PER_S)
            offsets.append(current // _MS)
            previous = current
    return np.array(begins_ms, dtype=np.int64), np.array(offsets, dtype=np.int64)


@dataclass(frozen=True)
class NamedSpan:
    """A named period of time that was read from a file."""

    # Start and end; local time of the facility if without a time zone
    start: datetime
    end: datetime
    name: str  # name in the file; empty if it has none
    path: Path  # the file
    where: str  # file and line, for errors
    # Elapsed length, if the file specifies one; the end follows from it, unaffected by
    # daylight saving
    duration: timedelta | None = None


@dataclass(frozen=True)
class ConstantOffsetSpan:
    """A part of a run in which the UTC offset is constant."""

    # Start and end [ms since the run's start]
    begin_ms: int
    end_ms: int
    shift_ms: int  # local time less time since the run's start [ms]


@dataclass(frozen=True)
class WallClock:
    """The local time of a run, converted from and to ms since the run's start."""

    start: datetime  # start with its zone
    step_ms: int = 1  # interval of the run's series [ms]

    @property
    def zone(self) -> tzinfo:
        """Time zone of the start; UTC if the start has none."""
        return self.start.tzinfo or UTC

    @property
    def origin_ms(self) -> int:
        """Start of the run [ms since 1970 in UTC]."""
        return instant_ms(self.start.replace(tzinfo=self.zone))

    def at(self, time_ms: int) -> datetime:
        """Return the local datetime `time_ms` after the start."""
        return local_datetime(self.origin_ms + int(time_ms), self.zone)

    def iso(self, time_ms: int) -> str:
        """Return the local time `time_ms` after the start in ISO 8601, with offset."""
        moment = self.at(time_ms)
        return moment.isoformat(
            timespec="milliseconds" if moment.microsecond else "seconds"
        )

    def time_ms(self, moment: datetime) -> int:
        """Return a datetime as time since the start [ms]; local time if naive."""
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
        return instant_ms(zoned) - self.origin_ms

    def local_ms(self, times_ms: Int64Array) -> Int64Array:
        """Return times since the start as local times [ms since 1970-01-01 00:00]."""
        return local_ms(times_ms + self.origin_ms, self.zone)

    def alignment_problem(self, interval_ms: int) -> str:
        """Return the reason why clock intervals are no multiples of the step, or ""."""
        step_ms = self.step_ms
        if interval_ms < step_ms:
            return f"shorter than the run's resolution of {self.step_s:g} s"
        if interval_ms % step_ms:
            return f"no multiple of the run's resolution of {self.step_s:g} s"
        if MS_PER_DAY % interval_ms:
            return "does not divide a day"
        if self.local_ms(np.zeros(1, dtype=np.int64))[0] % step_ms:
            return (
                f"the run starts at {self.start:%H:%M:%S}, off its own clock intervals"
            )
        return ""

    @property
    def step_s(self) -> float:
        """Interval of the run's series [s]."""
        return self.step_ms / MS_PER_S

    def month(self, time_ms: int) -> str:
        """Return the local month at a time, such as ``"2018-01"``."""
        return f"{self.at(time_ms):%Y-%m}"

    def next_month_ms(self, time_ms: int) -> int:
        """Return the end of the local month at a time [ms since the start]."""
        day = self.at(time_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (day + timedelta(days=32)).replace(day=1)
        return self.time_ms(following)

    def window_problem(self, length_ms: int, n_min: int = 1) -> str:
        """Return the reason why windows of a length do not fit the series, or ""."""
        if length_ms < n_min * self.step_ms:
            too_short = (
                "shorter than" if n_min == 1 else f"fewer than {n_min} values at"
            )
            return f"{too_short} the run's resolution of {self.step_s:g} s"
        if length_ms % self.step_ms:
            return f"no multiple of the run's resolution of {self.step_s:g} s"
        return ""

    def month_slices(self, starts_ms: Int64Array) -> Iterator[tuple[str, slice]]:
        """Yield each local month and the slice of its rows in ascending times."""
        begin = 0
        while begin < starts_ms.size:
            first_ms = int(starts_ms[begin])
            end = int(np.searchsorted(starts_ms, self.next_month_ms(first_ms)))
            yield self.month(first_ms), slice(begin, end)
            begin = end

    def constant_offset_spans(
        self, begin_ms: int, end_ms: int
    ) -> list[ConstantOffsetSpan]:
        """Return the periods of constant UTC offset between two times of the run."""
        origin_ms = self.origin_ms
        begins_ms, offsets = _offset_changes(
            self.zone, origin_ms + begin_ms, origin_ms + end_ms
        )
        changes_ms = begins_ms[
            (begins_ms > origin_ms + begin_ms) & (begins_ms < origin_ms + end_ms)
        ]
        edges = [begin_ms, *(changes_ms - origin_ms).tolist(), end_ms]
        first = int(np.searchsorted(begins_ms, origin_ms + begin_ms, side="right"))
        shifts = (origin_ms + offsets[first:]).tolist()
        return [
            ConstantOffsetSpan(*part)
            for part in zip(edges, edges[1:], shifts, strict=False)
        ]


def leap_year_clock(zone: tzinfo) -> RunClock:
    """Return the clock of a leap year in hourly steps, for a full year of weather."""
    return RunClock(datetime(2024, 1, 1), zone, 366 * MS_PER_DAY, MS_PER_H)


def offset_text(offset_min: int) -> str:
    """Return a UTC offset [min] as text such as ``-07:00``."""
    hours, minutes = divmod(abs(offset_min), 60)
    return f"{'-' if offset_min < 0 else '+'}{hours:02}:{minutes:02}"


@dataclass(frozen=True)
class RunClock:
    """The period of a run; times within it are int64 ms since its start."""

    start: datetime  # start in the facility's local time, without a zone
    zone: tzinfo  # the facility's UTC offset or named time zone
    horizon_ms: int  # length of the run [ms]
    step_ms: int  # interval of the series [ms], a divisor of the length
    # Simulated time before the start, which only sets the initial state [ms]
    warm_up_ms: int = 0

    @property
    def begin_ms(self) -> int:
        """Start of the simulation [ms], at or before the run's start at 0."""
        return -self.warm_up_ms

    @property
    def simulated_ms(self) -> int:
        """Length of the simulation, warm-up included [ms]."""
        return self.horizon_ms - self.begin_ms

    def date_ms(self, time_ms: int) -> int:
        """Return a time of the run [ms] as ms since 1970 in UTC.

        Random generators are named by dates, so that runs with different starts use the
        same random numbers on the same date.
        """
        return self.wall.origin_ms + time_ms

    @property
    def start_with_zone(self) -> datetime:
        """Start of the run as a zone-aware datetime."""
        return self.start.replace(tzinfo=self.zone)

    @property
    def wall(self) -> WallClock:
        """Clock that converts between local time and ms since the run's start."""
        return WallClock(self.start_with_zone, self.step_ms)

    @property
    def n_intervals(self) -> int:
        """Number of intervals of the run's series."""
        return self.horizon_ms // self.step_ms


MISSING = -(2**62)
"""Value of a missing integer, such as a time that a file leaves empty."""

_YEARS_OF_ZONES = (1970, 2037)


@dataclass(frozen=True)
class Zone:
    """A time zone: a fixed UTC offset, or a named zone with daylight saving."""

    name: str = ""  # name in the time zone database; empty for a fixed offset
    fixed_offset_min: int = 0  # offset from UTC [min] of a zone without a name

    def offset_min(self, at_ms: int) -> int:
        """Return the standard-time offset from UTC [min] in the year of a time."""
        if not self.name:
            return self.fixed_offset_min
        year = (
            int(np.datetime64(at_ms, "ms").astype("datetime64[Y]").astype(int)) + 1970
        )
        year = min(max(year, _YEARS_OF_ZONES[0]), _YEARS_OF_ZONES[1])
        zone = ZoneInfo(self.name)
        offsets = [
            datetime(year, month, 1, tzinfo=UTC).astimezone(zone) for month in (1, 7)
        ]
        return min(
            int((moment.utcoffset() or timedelta()).total_seconds()) // 60
            for moment in offsets
        )

    def utc_ms(self, local_ms: Int64Array) -> Int64Array:
        """Return local times [ms since 1970] as UTC times; `MISSING` stays missing.

        An hour that occurs twice resolves to its first occurrence; a time in a skipped
        hour becomes the end of that hour.
        """
        missing = local_ms == MISSING
        if not self.name:
            return np.where(
                missing, MISSING, local_ms - self.fixed_offset_min * MS_PER_MIN
            )
        naive = pa.array(local_ms, mask=missing).cast(pa.timestamp("ms"))
        aware = pc.assume_timezone(
            naive, self.name, ambiguous="earliest", nonexistent="latest"
        )
        return np.asarray(aware.cast(pa.int64()).fill_null(MISSING), dtype=np.int64)

    def local_ms(self, utc_ms: Int64Array) -> Int64Array:
        """Return instants as local times [ms since 1970]."""
        if self.name:
            return local_ms(utc_ms, ZoneInfo(self.name))
        return utc_ms + self.fixed_offset_min * MS_PER_MIN

    def __str__(self) -> str:
        """Return the name, or the offset such as ``UTC+08:00``."""
        hours, minutes = divmod(abs(self.fixed_offset_min), 60)
        return (
            self.name
            or f"UTC{'-' if self.fixed_offset_min < 0 else '+'}{hours:02}:{minutes:02}"
        )


UTC_ZONE = Zone()


def parse_zone(text: str, where: str) -> Zone:
    """Parse a time zone: a fixed offset such as ``+08:00`` or an IANA name."""
    match = _UTC_OFFSET.fullmatch(text)
    if match and int(match[2]) <= 14 and int(match[3]) <= 59:
        minutes = int(match[2]) * 60 + int(match[3])
        return Zone("", -minutes if match[1] == "-" else minutes)
    zone = Zone(text)
    try:
        named_zone(text)
        zone.offset_min(0)
        zone.utc_ms(np.zeros(1, dtype=np.int64))  # Arrow looks names up by itself
    except (LookupError, ValueError, OSError, pa.ArrowException) as error:
        raise InputError(
            f"{where}: unknown time zone {shown(text)}, expected a fixed offset such "
            "as '+08:00' or a name such as 'Europe/Berlin'"
        ) from error
    return zone
