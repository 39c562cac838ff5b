"""Submissions per clock hour of a log's span, in the log's local time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from diploee.errors import WorkloadError
from diploee.tables import BoolArray, Int64Array
from diploee.units import MS_PER_H
from diploee.workload.rates import hour_of_week, month_of_year


@dataclass(frozen=True, eq=False)
class HourCounts:
    """How many jobs were submitted in each clock hour of a span.

    Parameters
    ----------
    first_hour : numpy.datetime64
        The first hour, local time.
    counts : numpy.ndarray, shape (H,), int64
        Jobs submitted in each hour.
    """

    first_hour: np.datetime64
    counts: Int64Array

    @property
    def n_hours(self) -> int:
        """Hours of the span."""
        return int(self.counts.size)

    @property
    def end(self) -> np.datetime64:
        """The end of the last hour."""
        return self.first_hour + np.timedelta64(self.n_hours, "h")

    @property
    def hour_of_week(self) -> Int64Array:
        """Hour of the week of each hour, 0 on Monday at 00:00, to 167."""
        return hour_of_week(self.first_hour + np.arange(self.n_hours))

    @property
    def month(self) -> Int64Array:
        """Month of each hour, 0 in January, to 11."""
        return month_of_year(self.first_hour + np.arange(self.n_hours))


def count_hours(
    local_ms: Int64Array,
    start: datetime | None = None,
    end: datetime | None = None,
    used: BoolArray | None = None,
) -> tuple[HourCounts, BoolArray]:
    """Count submissions per local clock hour.

    The span is made of whole clock hours. Where it is not given, the hours of the first and of the
    last submission are left out: the log may begin or end within them.

    Parameters
    ----------
    local_ms : numpy.ndarray, shape (n,), int64
        Submissions in local time [ms since 1970].
    start, end : datetime.datetime, optional
        Trim the span to the whole hours between these local times, without a zone.
    used : numpy.ndarray, shape (n,), bool, optional
        Jobs to count; the others tell the span alone.

    Returns
    -------
    HourCounts
        Counts of all hours of the span.
    numpy.ndarray, shape (n,), bool
        Which submissions lie in the span and are counted.

    Raises
    ------
    WorkloadError
        If no job to count is submitted in a whole hour of the span.
    """
    if local_ms.size == 0:
        raise WorkloadError("the log has no jobs to fit")
    shortest, longest = int(local_ms.min()), int(local_ms.max())
    first = -(-(shortest if start is None else _local_ms(start)) // MS_PER_H)
    last = (longest if end is None else _local_ms(end)) // MS_PER_H
    hour = local_ms // MS_PER_H - first
    inside: BoolArray = (hour >= 0) & (hour < last - first)
    if used is not None:
        inside &= used
    if not inside.any():
        raise WorkloadError(
            f"no job to fit is submitted in the whole hours from {_shown(first)} to "
            f"{_shown(last)}, local time; the log's submissions reach from "
            f"{_shown(shortest // MS_PER_H)} to {_shown(longest // MS_PER_H + 1)}"
        )
    counts = np.bincount(hour[inside], minlength=last - first)
    return HourCounts(np.datetime64(first, "h"), counts), inside


def _local_ms(moment: datetime) -> int:
    return int(np.datetime64(moment, "ms").astype(np.int64))


def _shown(hour: int) -> str:
    return str(np.datetime64(hour, "h")).replace("T", " ") + ":00"
