"""Calendar weights over a span of time: piecewise constant rates with a mean of 1."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from diploee.errors import WorkloadError
from diploee.scenario import Calendar
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, MS_PER_H


@dataclass(frozen=True, eq=False)
class HourlyRates:
    """Relative rate in every clock hour of a span.

    Parameters
    ----------
    edges_ms : numpy.ndarray, shape (H + 1,), int64
        Edges of the clock hours from the start of the span [ms]; the first and last may be partial.
    relative_rate : numpy.ndarray, shape (H,), float64
        Rate in each hour relative to the mean over the span (time-weighted mean 1).
    """

    edges_ms: Int64Array
    relative_rate: Float64Array


def hourly_rates(calendar: Calendar, start: datetime, horizon_ms: int) -> HourlyRates:
    """Lay calendar weights over a span of local time.

    Parameters
    ----------
    calendar : Calendar
        Weights of the hours of the week and of the months.
    start : datetime.datetime
        Start of the span in local time, without a zone.
    horizon_ms : int
        Length of the span [ms].

    Returns
    -------
    HourlyRates
        One relative rate per clock hour.

    Raises
    ------
    WorkloadError
        If every hour of the span has weight zero.
    """
    first_hour = start.replace(minute=0, second=0, microsecond=0)
    into_hour_ms = (start - first_hour) // timedelta(milliseconds=1)
    n_hours = -(-(into_hour_ms + horizon_ms) // MS_PER_H)
    edges_ms = np.arange(n_hours + 1, dtype=np.int64) * MS_PER_H - into_hour_ms
    edges_ms[0], edges_ms[-1] = 0, horizon_ms

    hours = np.datetime64(first_hour, "h") + np.arange(n_hours)
    days = hours.astype("datetime64[D]")
    # 1970-01-01 was a Thursday, day 3 of a week that starts on Monday.
    weekday = (days.astype(np.int64) + 3) % 7
    hour_of_day = (hours - days).astype(np.int64)
    month = days.astype("datetime64[M]").astype(np.int64) % 12

    weight = (
        np.array(calendar.week_weights())[weekday * HOURS_PER_DAY + hour_of_day]
        * np.array(calendar.month_weights())[month]
    )
    mean = np.average(weight, weights=np.diff(edges_ms))
    if mean == 0:
        raise WorkloadError(
            f"calendar: every hour from {start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )
    return HourlyRates(edges_ms, weight / mean)
