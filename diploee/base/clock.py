"""Time on the wall: instants, zones, stamps of logs, and `RunClock`, the span of a run.

The one place that turns time that runs on into local time. Instants are int64 ms since
1970 in UTC, local times int64 ms since 1970-01-01 00:00 on the wall clock.
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
"""Outside of these years a zone keeps the offset that it has at their edge."""


def named_zone(name: str) -> ZoneInfo:
    """Return a zone of the IANA database."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = sorted(available_timezones())
        area = name.partition("/")[0] + "/"
        near = get_close_matches(name, known, n=1, cutoff=0.8)
        alike = (
            near
            or [zone for zone in known if zone.startswith(area)]
            or ["America/Chicago"]
        )
        raise ValueError(
            f"must be a time zone such as {one_of(alike)}, found {shown(name)}"
        ) from None


def fixed_zone(text: str) -> timezone:
    """Return the zone of a fixed offset such as ``-07:00``."""
    match = _UTC_OFFSET.fullmatch(text)
    if match is None or int(match[2]) > 14 or int(match[3]) > 59:
        raise ValueError(
            f"must be a UTC offset such as '+00:00' or '-07:00', found {shown(text)}"
        )
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


def zone_name(zone: tzinfo) -> str:
    """Return a zone's name, or offset such as ``-07:00``, as Arrow takes it."""
    if isinstance(zone, ZoneInfo):
        return zone.key
    offset = datetime(2000, 1, 1, tzinfo=zone).isoformat()[-6:]
    return "UTC" if offset == "+00:00" else offset


def instant_ms(moment: datetime) -> int:
    """Return a time with a zone as ms since 1970 in UTC.

    Of an hour that comes twice the first.
    """
    return (moment - _EPOCH) // _MS


def moment_at(instant_ms: int, zone: tzinfo) -> datetime:
    """Return an instant as a time on the wall clock of a zone."""
    return (_EPOCH + timedelta(milliseconds=int(instant_ms))).astimezone(zone)


def is_skipped(local: datetime, zone: tzinfo) -> bool:
    """Tell whether a change of the clock leaves a local time out."""
    there = local.replace(tzinfo=zone)
    return moment_at(instant_ms(there), zone).replace(tzinfo=None) != local


def offsets_ms(instants_ms: Int64Array, zone: tzinfo) -> Int64Array:
    """Return the offset from UTC that is in force at each instant [ms]."""
    if not instants_ms.size:
        return np.zeros(0, dtype=np.int64)
    begins_ms, offsets = _changes(zone, int(instants_ms.min()), int(instants_ms.max()))
    return offsets[np.searchsorted(begins_ms, instants_ms, side="right")]


def local_ms(instants_ms: Int64Array, zone: tzinfo) -> Int64Array:
    """Return instants as times on the wall clock of a zone [ms].

    Arguments as in `offsets_ms`.
    """
    return instants_ms + offsets_ms(instants_ms, zone)


def _changes(
    zone: tzinfo, first_ms: int, last_ms: int
) -> tuple[Int64Array, Int64Array]:
    """Return when a zone's offset changes, and the offsets around that [ms]."""
    if isinstance(zone, timezone):
        return np.zeros(0, dtype=np.int64), np.array([zone.utcoffset(None) // _MS])
    first, last = (
        min(
            max(
                int(np.datetime64(ms, "ms").astype("datetime64[Y]").astype(int)) + 1970,
                low,
            ),
            high,
        )
        for ms in (first_ms, last_ms)
        for low, high in [_ZONE_YEARS]
    )
    return _changes_of_years(zone, first, last + 1)


@lru_cache(maxsize=64)
def _changes_of_years(
    zone: tzinfo, first: int, end: int
) -> tuple[Int64Array, Int64Array]:
    """Look for changes from day to day and then by halves.

    Two in one day would be missed.
    """

    def offset(second: int) -> timedelta:
        result = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
        return result or timedelta()

    day_s = 86_400
    begin_s, end_s = (
        round(datetime(y, 1, 1, tzinfo=UTC).timestamp()) for y in (first, end)
    )
    before, begins_ms, offsets = offset(begin_s), [], [offset(begin_s) // _MS]
    for until_s in range(begin_s + day_s, end_s + 2 * day_s, day_s):
        after = offset(until_s)
        if after != before:
            low_s, high_s = until_s - day_s, until_s
            while high_s - low_s > 1:
                middle_s = (low_s + high_s) // 2
                low_s, high_s = (
                    (middle_s, high_s)
                    if offset(middle_s) == before
                    else (low_s, middle_s)
                )
            begins_ms.append(high_s * MS_PER_S)
            offsets.append(after // _MS)
            before = after
    return np.array(begins_ms, dtype=np.int64), np.array(offsets, dtype=np.int64)


@dataclass(frozen=True)
class NamedSpan:
    """A span of time that a file names."""

    # When it begins and ends; local time of the facility where they have no zone
    start: datetime
    end: datetime
    name: str  # its name in the file; empty where there is none
    path: Path  # the file
    where: str  # file and line, for errors
    # How long it lasts, where the file says that: it ends then, whatever the clock
    # shows
    duration: timedelta | None = None


@dataclass(frozen=True)
class SteadySpan:
    """A span of a run without a change of the clock."""

    # From when to when it goes [ms since the run's start]
    begin_ms: int
    end_ms: int
    shift_ms: int  # what added to a time of the run gives its local time [ms]


@dataclass(frozen=True)
class WallClock:
    """Local time of a run, whose own time runs on in ms from its start."""

    start: datetime  # start with its zone
    step_ms: int = 1  # interval of its series

    @property
    def zone(self) -> tzinfo:
        """The zone of the start; UTC where it has none."""
        return self.start.tzinfo or UTC

    @property
    def origin_ms(self) -> int:
        """Start of the run [ms since 1970 in UTC]."""
        return instant_ms(self.start.replace(tzinfo=self.zone))

    def at(self, time_ms: int) -> datetime:
        """Return the local time `time_ms` after the start."""
        return moment_at(self.origin_ms + int(time_ms), self.zone)

    def iso(self, time_ms: int) -> str:
        """Return local time `time_ms` after the start in ISO 8601, with offset."""
        moment = self.at(time_ms)
        return moment.isoformat(
            timespec="milliseconds" if moment.microsecond else "seconds"
        )

    def time_ms(self, moment: datetime) -> int:
        """Return a moment as time from the start [ms]; local where it has no zone."""
        there = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
        return instant_ms(there) - self.origin_ms

    def local_ms(self, times_ms: Int64Array) -> Int64Array:
        """Return times of the run as local times [ms since 1970-01-01 00:00]."""
        return local_ms(times_ms + self.origin_ms, self.zone)

    def why_not_aligned(self, interval_ms: int) -> str:
        """Return why clock intervals aren't sums of a run's own, or ""."""
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
        """Interval of the series [s]."""
        return self.step_ms / MS_PER_S

    def month(self, time_ms: int) -> str:
        """Return the local month, such as ``"2018-01"``."""
        return f"{self.at(time_ms):%Y-%m}"

    def next_month_ms(self, time_ms: int) -> int:
        """Return where the local month that holds a time ends [ms since the start]."""
        day = self.at(time_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (day + timedelta(days=32)).replace(day=1)
        return self.time_ms(following)

    def why_not_held(self, length_ms: int, n_least: int = 1) -> str:
        """Return why the series holds no window of a length, or an empty string."""
        if length_ms < n_least * self.step_ms:
            few = "shorter than" if n_least == 1 else f"fewer than {n_least} values at"
            return f"{few} the run's resolution of {self.step_s:g} s"
        if length_ms % self.step_ms:
            return f"no multiple of the run's resolution of {self.step_s:g} s"
        return ""

    def months_in(self, starts_ms: Int64Array) -> Iterator[tuple[str, slice]]:
        """Yield local month and rows of each part of ascending times."""
        begin = 0
        while begin < starts_ms.size:
            first_ms = int(starts_ms[begin])
            end = int(np.searchsorted(starts_ms, self.next_month_ms(first_ms)))
            yield self.month(first_ms), slice(begin, end)
            begin = end

    def steady_spans(self, begin_ms: int, end_ms: int) -> list[SteadySpan]:
        """Return the spans between two times of the run in which the offset stays."""
        origin_ms = self.origin_ms
        begins_ms, offsets = _changes(
            self.zone, origin_ms + begin_ms, origin_ms + end_ms
        )
        inside = begins_ms[
            (begins_ms > origin_ms + begin_ms) & (begins_ms < origin_ms + end_ms)
        ]
        edges = [begin_ms, *(inside - origin_ms).tolist(), end_ms]
        first = int(np.searchsorted(begins_ms, origin_ms + begin_ms, side="right"))
        shifts = (origin_ms + offsets[first:]).tolist()
        return [
            SteadySpan(*part) for part in zip(edges, edges[1:], shifts, strict=False)
        ]


def whole_year(zone: tzinfo) -> RunClock:
    """Return the clock of a leap year by hours, for every hour of weather."""
    return RunClock(datetime(2024, 1, 1), zone, 366 * MS_PER_DAY, MS_PER_H)


def offset_text(offset_min: int) -> str:
    """Return an offset from UTC [min] as text, ``-07:00``."""
    hours, minutes = divmod(abs(offset_min), 60)
    return f"{'-' if offset_min < 0 else '+'}{hours:02}:{minutes:02}"


@dataclass(frozen=True)
class RunClock:
    """The span of a run; times within it are int64 ms from its start."""

    start: datetime  # start in the facility's local time, without a zone
    zone: tzinfo  # the facility's UTC offset, or its named zone
    horizon_ms: int  # length of the run [ms]
    step_ms: int  # interval of its series [ms], a divisor of the length
    # Time before the start that is simulated as well and leaves no trace but its state
    # [ms]
    warm_up_ms: int = 0

    @property
    def begin_ms(self) -> int:
        """Time at which the simulation begins [ms], at or before the run's start."""
        return -self.warm_up_ms

    @property
    def simulated_ms(self) -> int:
        """Time that is simulated, the warm-up and the run [ms]."""
        return self.horizon_ms - self.begin_ms

    def date_ms(self, time_ms: int) -> int:
        """Return a time of the run [ms] as ms since 1970 in UTC.

        It names random streams: a run that begins earlier meets the same draws.
        """
        return self.wall.origin_ms + time_ms

    @property
    def start_with_zone(self) -> datetime:
        """Start of the run with its zone."""
        return self.start.replace(tzinfo=self.zone)

    @property
    def wall(self) -> WallClock:
        """Local time of the run."""
        return WallClock(self.start_with_zone, self.step_ms)

    @property
    def n_intervals(self) -> int:
        """Number of intervals of the series."""
        return self.horizon_ms // self.step_ms


MISSING = -(2**62)
"""In place of a whole number, such as a time, that a file leaves empty."""

_YEARS_OF_ZONES = (1970, 2037)


@dataclass(frozen=True)
class Zone:
    """A time zone: a fixed offset, or a name with its daylight saving."""

    name: str = ""  # name in the time zone database; empty for a fixed offset
    fixed_offset_min: int = 0  # offset from UTC [min] where there is no name

    def offset_min(self, at_ms: int) -> int:
        """Return the offset of standard time from UTC [min] in the year of a time."""
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
            int((at.utcoffset() or timedelta()).total_seconds()) // 60 for at in offsets
        )

    def utc_ms(self, local_ms: Int64Array) -> Int64Array:
        """Return local times [ms since 1970] as UTC; `MISSING` stays.

        In the hour that comes twice in autumn the first is meant; times in the hour
        that spring leaves out become its end.
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


def zone_of(text: str, where: str) -> Zone:
    """Return the zone of a text."""
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
