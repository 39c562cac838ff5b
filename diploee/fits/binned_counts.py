"""Counts of jobs or requests per time step, in local time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from diploee.base.clock import Zone
from diploee.base.errors import WorkloadError
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.base.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
)
from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK, month_of_year
from diploee.loads.services.request_trace import RequestTrace

MAX_SPAN_H = 40 * 366 * HOURS_PER_DAY
"""Longest span of a fit [h]; a longer log has a wrong timestamp."""

MONDAY_MS = 4 * MS_PER_DAY
"""Start [ms since 1970] of the clock of a log without dates: Monday, 1970-01-05."""


@dataclass(frozen=True, eq=False)
class BinnedCounts:
    """Counts of jobs or requests in consecutive time steps."""

    step_ms: int  # length of a step [ms]
    start_ms: Int64Array  # start of each step in local time [ms since 1970]
    counts: Float64Array
    # Covered time of each step [h]; up to 2 in an hour that daylight saving repeats
    coverage: Float64Array

    @property
    def hour(self) -> Int64Array:
        """Clock hour of each step, as whole hours since 1970 in local time."""
        return self.start_ms // MS_PER_H

    @property
    def hour_of_week(self) -> Int64Array:
        """Hour of the week, from 0 on Monday at 00:00 to 167."""
        return (self.hour + EPOCH_HOUR_OF_WEEK) % HOURS_PER_WEEK

    @property
    def month(self) -> Int64Array:
        """Month of the year, from 0 in January to 11."""
        return month_of_year(self.start_ms.astype("datetime64[ms]"))

    @property
    def first_hour(self) -> np.datetime64:
        """First clock hour, local time."""
        return np.datetime64(int(self.hour[0]), "h")

    @property
    def covered_hours(self) -> float:
        """Length of the covered time [h]."""
        return float(self.coverage.sum())

    def inner(self) -> BinnedCounts:
        """Return the counts without the first and the last step."""
        inner = slice(1, -1)
        inner_coverage = self.coverage[inner]
        return BinnedCounts(
            self.step_ms, self.start_ms[inner], self.counts[inner], inner_coverage
        )

    def hourly(self) -> BinnedCounts:
        """Return the counts summed by clock hour."""
        hours, hour_index = np.unique(self.hour, return_inverse=True)
        counts = sum_by_index(hour_index.ravel(), self.counts)
        coverage = np.bincount(hour_index.ravel()) * self.step_ms / MS_PER_H
        return BinnedCounts(MS_PER_H, hours * MS_PER_H, counts, coverage)


def count_hours(
    local_ms: Int64Array,
    start: datetime | None = None,
    end: datetime | None = None,
    used: BoolArray | None = None,
    zone: Zone | None = None,
) -> tuple[BinnedCounts, BoolArray]:
    """Count submissions per local clock hour; return counts and a mask of counted jobs.

    The counted period is from `start` to `end`. By default it begins half a mean gap
    before the first submission and ends half a mean gap after the last one, so that n
    submissions have n gaps, but it stays within their clock hours. A log shorter than
    an hour covers its clock hours completely, as its rate is unknown.
    """
    if local_ms.size == 0:
        raise WorkloadError("the log has no jobs to fit")
    shortest, longest = int(local_ms.min()), int(local_ms.max())
    half_ms = (longest - shortest) // (2 * max(local_ms.size - 1, 1))
    if longest - shortest < MS_PER_H:
        half_ms = MS_PER_H
    first_ms = max(shortest // MS_PER_H * MS_PER_H, shortest - half_ms)
    last_ms = min((longest // MS_PER_H + 1) * MS_PER_H, longest + 1 + half_ms)
    first_ms = first_ms if start is None else local_time_ms(start)
    last_ms = max(first_ms, last_ms if end is None else local_time_ms(end))
    is_inside: BoolArray = (local_ms >= first_ms) & (local_ms < last_ms)
    if used is not None:
        is_inside &= used
    if not is_inside.any():
        raise WorkloadError(
            f"no job to fit is submitted from {_time_text(first_ms)} to "
            f"{_time_text(last_ms)}, local time; the log's submissions reach from "
            f"{_time_text(shortest)} to {_time_text(longest)}; change the span "
            "(--from, --to)"
        )
    first, last = first_ms // MS_PER_H, -(-last_ms // MS_PER_H)
    if last - first > MAX_SPAN_H:
        raise WorkloadError(
            f"the submissions reach from {_time_text(shortest)} to "
            f"{_time_text(longest)}, expected 40 years at most; correct the wrong "
            "stamps, or trim the span (--from, --to)"
        )
    hours = np.arange(first, last)
    counts = sum_by_index(local_ms[is_inside] // MS_PER_H - first, None, hours.size)
    coverage = np.ones(hours.size)
    # Number of times that the wall clock shows each hour
    if zone is not None and zone.name:
        quarters = np.arange((first - HOURS_PER_DAY) * 4, (last + HOURS_PER_DAY) * 4)
        shown_hours = zone.local_ms(quarters * (MS_PER_H // 4)) // MS_PER_H - first
        shown_hours = shown_hours[(shown_hours >= 0) & (shown_hours < hours.size)]
        coverage = np.bincount(shown_hours, minlength=hours.size) / 4
    # Fractions of the first and last hour
    coverage[:1] -= 1 - (first + 1 - first_ms / MS_PER_H)
    coverage[-1:] -= 1 - (last_ms / MS_PER_H - (last - 1))
    return BinnedCounts(MS_PER_H, hours * MS_PER_H, counts, coverage), is_inside


def count_steps(trace: RequestTrace, zero_hour_of_week: float = 0.0) -> BinnedCounts:
    """Return the requests of a trace by step.

    A trace without dates starts `zero_hour_of_week` after `MONDAY_MS`.
    """
    shift_ms = trace.zone.offset_min(trace.origin_ms) * MS_PER_MIN
    if trace.is_relative:
        shift_ms = MONDAY_MS + round(zero_hour_of_week % HOURS_PER_WEEK * MS_PER_H)
    first_ms = trace.origin_ms + shift_ms
    if MS_PER_H % trace.step_ms or first_ms % trace.step_ms:
        raise WorkloadError(
            f"{trace.source}: steps of {trace.step_ms / 1000:g} s, expected steps "
            "that divide the hour of local time; read the trace with step_s = 60"
        )
    counts = trace.requests_of()
    start_ms = first_ms + np.arange(counts.size, dtype=np.int64) * trace.step_ms
    if trace.zone.name and not trace.is_relative:
        start_ms = trace.zone.local_ms(start_ms - shift_ms)
    coverage = np.full(counts.size, trace.step_ms / MS_PER_H)
    return BinnedCounts(trace.step_ms, start_ms, counts, coverage)


def sum_by_index(
    index: Int64Array, values: Float64Array | None, size: int = 0
) -> Float64Array:
    """Return the sum of values at each index; without values, count the indices."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


def local_time_ms(local_time: datetime) -> int:
    """Return a local time as milliseconds since 1970."""
    return int(np.datetime64(local_time, "ms").astype(np.int64))


def _time_text(local_ms: int) -> str:
    """Return a local time as text, to the minute."""
    return str(np.datetime64(local_ms, "ms").astype("datetime64[m]")).replace("T", " ")
