"""Zones of logs: fixed offsets and named zones, and local stamps as milliseconds since 1970 UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.clock import local_ms, named_zone
from diploee.errors import InputError, shown
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN

MISSING = -(2**62)
"""In place of a whole number, such as a time, that a file leaves empty."""

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
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
        year = int(np.datetime64(at_ms, "ms").astype("datetime64[Y]").astype(int)) + 1970
        year = min(max(year, _YEARS_OF_ZONES[0]), _YEARS_OF_ZONES[1])
        zone = ZoneInfo(self.name)
        offsets = [datetime(year, month, 1, tzinfo=UTC).astimezone(zone) for month in (1, 7)]
        return min(int((at.utcoffset() or timedelta()).total_seconds()) // 60 for at in offsets)

    def utc_ms(self, local_ms: Int64Array) -> Int64Array:
        """Return local times [ms since 1970] as UTC; `MISSING` stays.

        In the hour that comes twice in autumn the first is meant; times in the hour that spring
        leaves out become its end.
        """
        missing = local_ms == MISSING
        if not self.name:
            return np.where(missing, MISSING, local_ms - self.fixed_offset_min * MS_PER_MIN)
        naive = pa.array(local_ms, mask=missing).cast(pa.timestamp("ms"))
        aware = pc.assume_timezone(naive, self.name, ambiguous="earliest", nonexistent="latest")
        return np.asarray(aware.cast(pa.int64()).fill_null(MISSING), dtype=np.int64)

    def local_ms(self, utc_ms: Int64Array) -> Int64Array:
        """Return instants as local times [ms since 1970]."""
        if self.name:
            return local_ms(utc_ms, ZoneInfo(self.name))
        return utc_ms + self.fixed_offset_min * MS_PER_MIN

    def __str__(self) -> str:
        """Return the name, or the offset such as ``UTC+08:00``."""
        hours, minutes = divmod(abs(self.fixed_offset_min), 60)
        return self.name or f"UTC{'-' if self.fixed_offset_min < 0 else '+'}{hours:02}:{minutes:02}"


UTC_ZONE = Zone()


def zone_of(text: str, where: str) -> Zone:
    """Return the zone of a text."""
    match = _OFFSET.fullmatch(text)
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
            f"{where}: unknown time zone {shown(text)}, expected a fixed offset such as '+08:00' "
            "or a name such as 'Europe/Berlin'"
        ) from error
    return zone
