"""Submissions per clock hour of a log's span, in the log's local time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from diploee.clock import Zone
from diploee.errors import WorkloadError
from diploee.loads.jobs.rates import hour_of_week, month_of_year
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, MS_PER_H

MAX_SPAN_H = 40 * 366 * HOURS_PER_DAY
"""Longest span of a fit [h]; where a log seems to span more, a stamp is wrong."""


@dataclass(frozen=True, eq=False)
class HourCounts:
    """How many jobs were submitted in each clock hour of a span."""

    first_hour: np.datetime64  # the first hour, local time
    counts: Int64Array  # jobs submitted in each hour
    # Parts of the first and of the last hour that the span covers, above 0 to 1; of a single hour
    # their sum less 1 is covered
    first_share: float = 1.0
    last_share: float = 1.0
    # How often the wall clock showed each hour, where it was changed: not at all or twice; once
    # each by default
    seen: Float64Array | None = None

    @property
    def start_ms(self) -> Int64Array:
        """Start of each hour in local time [ms since 1970]."""
        first = int(self.first_hour.astype("datetime64[h]").astype(np.int64))
        return (first + np.arange(self.n_hours, dtype=np.int64)) * MS_PER_H

    @property
    def n_hours(self) -> int:
        """Hours of the span."""
        return int(self.counts.size)

    @property
    def coverage(self) -> Float64Array:
        """Part of each hour that the span covers, 0 to 1; up to 2 of one that comes twice."""
        covered = np.ones(self.n_hours) if self.seen is None else self.seen.copy()
        covered[:1] -= 1 - self.first_share
        covered[-1:] -= 1 - self.last_share
        return covered

    @property
    def covered_hours(self) -> float:
        """Length of the span [h]."""
        return float(self.coverage.sum())

    @property
    def is_whole(self) -> BoolArray:
        """Which hours the span covers as a whole."""
        whole: BoolArray = self.coverage == 1
        return whole

    @property
    def whole(self) -> HourCounts:
        """The hours between the first and the last that the span covers as a whole."""
        inner = slice(int(self.first_share < 1), self.n_hours - int(self.last_share < 1))
        first_hour = self.first_hour + np.timedelta64(int(self.first_share < 1), "h")
        seen = None if self.seen is None else self.seen[inner]
        return HourCounts(first_hour, self.counts[inner], seen=seen)

    @property
    def end(self) -> np.datetime64:
        """The end of the last hour."""
        return self.first_hour + np.timedelta64(self.n_hours, "h")

    @property
    def hour_of_week(self) -> Int64Array:
        """Hour of the week of each hour, 0 on Monday at 00:00, to 167."""
        return hour_of_week(self.first_hour + np.arange(self.n_hours, dtype="timedelta64[h]"))

    @property
    def month(self) -> Int64Array:
        """Month of each hour, 0 in January, to 11."""
        return month_of_year(self.first_hour + np.arange(self.n_hours, dtype="timedelta64[h]"))


def count_hours(
    local_ms: Int64Array,
    start: datetime | None = None,
    end: datetime | None = None,
    used: BoolArray | None = None,
    zone: Zone | None = None,
) -> tuple[HourCounts, BoolArray]:
    """Count submissions per local clock hour.

    The span begins and ends where the user says. Where it is not given, the log is taken to begin
    half a mean distance of submissions before its first, and to end as much after its last, in the
    same clock hours: n submissions then have n distances. Of a log that spans less than an hour
    the clock hours are taken as covered, as it does not tell a rate.
    """
    if local_ms.size == 0:
        raise WorkloadError("the log has no jobs to fit")
    shortest, longest = int(local_ms.min()), int(local_ms.max())
    if start is not None and end is not None and _local_ms(start) >= _local_ms(end):
        raise WorkloadError(
            f"no job lies from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}; "
            "give a later end (--from, --to)"
        )
    first_ms, last_ms = _span_ms(local_ms, start, end)
    inside: BoolArray = (local_ms >= first_ms) & (local_ms < last_ms)
    if used is not None:
        inside &= used
    if not inside.any():
        raise WorkloadError(
            f"no job to fit is submitted from {_shown(first_ms)} to {_shown(last_ms)}, local time; "
            f"the log's submissions reach from {_shown(shortest)} to {_shown(longest)}"
        )
    first, last = first_ms // MS_PER_H, -(-last_ms // MS_PER_H)
    if last - first > MAX_SPAN_H:
        raise WorkloadError(
            f"the submissions reach from {_shown(shortest)} to {_shown(longest)}, expected 40 "
            "years at most; correct the wrong stamps, or trim the span (--from, --to)"
        )
    counts = np.bincount(local_ms[inside] // MS_PER_H - first, minlength=last - first)
    return HourCounts(
        np.datetime64(first, "h"),
        counts,
        first_share=first + 1 - first_ms / MS_PER_H,
        last_share=last_ms / MS_PER_H - (last - 1),
        seen=_seen(first, last, zone),
    ), inside


def _seen(first: int, last: int, zone: Zone | None) -> Float64Array | None:
    """Return how often the wall clock shows each hour, None where each comes once."""
    if zone is None or not zone.name:
        return None
    quarters = np.arange((first - HOURS_PER_DAY) * 4, (last + HOURS_PER_DAY) * 4) * (MS_PER_H // 4)
    hour = zone.local_ms(quarters) // MS_PER_H - first
    seen = np.bincount(hour[(hour >= 0) & (hour < last - first)], minlength=last - first) / 4
    return None if (seen == 1).all() else seen


def _span_ms(local_ms: Int64Array, start: datetime | None, end: datetime | None) -> tuple[int, int]:
    """Return begin and end of the span [ms], as `count_hours` takes them."""
    shortest, longest = int(local_ms.min()), int(local_ms.max())
    half_ms = (longest - shortest) // (2 * max(local_ms.size - 1, 1))
    first_hour_ms = shortest // MS_PER_H * MS_PER_H
    last_hour_ms = (longest // MS_PER_H + 1) * MS_PER_H
    if longest - shortest < MS_PER_H:
        half_ms = MS_PER_H
    first_ms = max(first_hour_ms, shortest - half_ms) if start is None else _local_ms(start)
    last_ms = min(last_hour_ms, longest + 1 + half_ms) if end is None else _local_ms(end)
    return first_ms, max(first_ms, last_ms)


def _local_ms(moment: datetime) -> int:
    return int(np.datetime64(moment, "ms").astype(np.int64))


def _shown(local_ms: int) -> str:
    return str(np.datetime64(local_ms, "ms").astype("datetime64[m]")).replace("T", " ")
