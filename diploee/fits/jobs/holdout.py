"""Hold-out test: the end of a log is forecast from its first part."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H
from diploee.fits.jobs.goodness_of_fit import generated_busy_nodes, hourly_busy_nodes
from diploee.fits.jobs.job_log_fit import BusyNodesForecast, JobLogFit
from diploee.profiles.library import ProfileLibrary

MIN_WEEKS = 2
BAND = (0.05, 0.95)


def holdout_split(fit: JobLogFit, share: float) -> datetime:
    """Return midnight after a fraction of the log's span, local time."""
    hours = fit.arrivals.hours
    n_days = round(share * hours.counts.size / HOURS_PER_DAY)
    split = hours.hour[0] // HOURS_PER_DAY * HOURS_PER_DAY + n_days * HOURS_PER_DAY
    part_weeks = (split - hours.hour[0]) / HOURS_PER_WEEK
    rest_weeks = hours.counts.size / HOURS_PER_WEEK - part_weeks
    if min(part_weeks, rest_weeks) < MIN_WEEKS:
        raise WorkloadError(
            f"holdout: {part_weeks:.1f} weeks to fit and {rest_weeks:.1f} to compare "
            f"with, expected {MIN_WEEKS} or more of both; give a longer log, or "
            "another share"
        )
    moment: datetime = np.datetime64(int(split) * MS_PER_H, "ms").astype(datetime)
    return moment


def with_holdout(
    whole: JobLogFit, part: JobLogFit, library: ProfileLibrary
) -> JobLogFit:
    """Return the fit of a log with forecasts of its rest.

    There are three forecasts from the first part: years generated from its fit, a
    repetition of its last weeks, and its mean by weekday.
    """
    hours, n_hours = whole.arrivals.hours, whole.arrivals.hours.counts.size
    split = int(part.arrivals.hours.hour[-1] + 1 - hours.hour[0])
    busy = hourly_busy_nodes(whole.jobs, n_hours)
    of_week = hours.hour_of_week
    rest, n_last = (
        busy[split:],
        min(split, n_hours - split) // HOURS_PER_WEEK * HOURS_PER_WEEK,
    )
    years = generated_busy_nodes(part, library)
    last, mean = busy[split - n_last : split], busy[:split]
    days = of_week[:split] // HOURS_PER_DAY
    weekday = np.bincount(days, mean) / np.maximum(np.bincount(days), 1)
    forecasts = (
        ("years of the fit", years, np.arange(years.size) % HOURS_PER_WEEK),
        (
            f"its last {n_last // HOURS_PER_WEEK} weeks again",
            last,
            of_week[split - n_last : split],
        ),
        (
            "the mean of the weekday",
            np.repeat(weekday, HOURS_PER_DAY),
            np.arange(HOURS_PER_WEEK),
        ),
    )
    result = tuple(
        _compare_forecast(*forecast, rest, of_week[split:]) for forecast in forecasts
    )
    return replace(whole, holdout=result, held_out_h=n_hours - split)


def _compare_forecast(
    name: str,
    values: Float64Array,
    value_hours: Int64Array,
    rest: Float64Array,
    rest_hours: Int64Array,
) -> BusyNodesForecast:
    """Compare a forecast with the rest of a log.

    `value_hours` and `rest_hours` are the hours of the week of `values` and `rest`. The
    5-95 % band is per hour of the day, as a log has few weeks.
    """
    by_hour = [
        values[value_hours % HOURS_PER_DAY == hour] for hour in range(HOURS_PER_DAY)
    ]
    low, high = np.array([np.quantile(x, BAND) for x in by_hour]).T[
        :, rest_hours % HOURS_PER_DAY
    ]
    total, n = (np.bincount(value_hours, x, HOURS_PER_WEEK) for x in (values, None))
    centre = (total / np.maximum(n, 1))[rest_hours]
    n_days = rest.size // HOURS_PER_DAY
    day_errors = (
        (centre - rest)[: n_days * HOURS_PER_DAY].reshape(n_days, -1).mean(axis=1)
    )
    has_band = values.size > HOURS_PER_WEEK
    forecast, own = (np.quantile(x, (0.5, 0.99)).tolist() for x in (values, rest))
    forecast, own = [*forecast, np.abs(day_errors).mean()], [*own, rest.mean()]
    return BusyNodesForecast(
        name,
        float(((low <= rest) & (rest <= high)).mean()) if has_band else None,
        *(float(a / b) if b > 0 else None for a, b in zip(forecast, own, strict=True)),
    )
