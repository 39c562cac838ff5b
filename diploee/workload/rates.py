"""Calendar weights over a span of time: piecewise constant rates with a mean of 1."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from diploee.errors import WorkloadError
from diploee.scenario import Calendar
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR, MS_PER_H


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
    weight = (
        np.array(calendar.week_weights())[hour_of_week(hours)]
        * np.array(calendar.month_weights())[month_of_year(hours)]
    )
    mean = np.average(weight, weights=np.diff(edges_ms))
    if mean == 0:
        raise WorkloadError(
            f"calendar: every hour from {start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )
    return HourlyRates(edges_ms, weight / mean)


def hour_of_week(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the hour of the week of local hours, 0 on Monday at 00:00, to 167."""
    # 1970-01-01 was a Thursday, day 3 of a week that starts on Monday.
    since_monday: Int64Array = hours.astype("datetime64[h]").astype(np.int64) + 3 * HOURS_PER_DAY
    return since_monday % HOURS_PER_WEEK


def month_of_year(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the month of local hours, 0 in January, to 11."""
    months: Int64Array = hours.astype("datetime64[M]").astype(np.int64) % MONTHS_PER_YEAR
    return months


def dispersed(rates: HourlyRates, dispersion: float, rng: np.random.Generator) -> HourlyRates:
    """Multiply every hour's rate by a random factor, gamma distributed with mean 1.

    Poisson counts of such rates are negative binomial, with variance mean + dispersion * mean**2.
    Thinning the submissions by any share leaves the dispersion as it is.

    Parameters
    ----------
    rates : HourlyRates
        Rates of the calendar.
    dispersion : float
        Variance of the factor, above 0.
    rng : numpy.random.Generator
        Where the factors come from.

    Returns
    -------
    HourlyRates
        Rates whose expectation over the draw has mean 1; their own mean scatters about it.
    """
    factor = rng.gamma(1 / dispersion, dispersion, rates.relative_rate.size)
    return HourlyRates(rates.edges_ms, rates.relative_rate * factor)
