"""When jobs are submitted: calendar weights, daily count, how hours and days scatter about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from diploee.learn.jobs.calendar_fit import (
    CalendarFit,
    fit_calendar,
    month_limits,
    week_limits,
)
from diploee.learn.jobs.dispersion import MAX_DISPERSION, DispersionFit, fit_dispersion
from diploee.learn.jobs.hours import HourCounts
from diploee.learn.jobs.shares import MIN_BATCHES, total_limits
from diploee.learn.seasons import laid_over_stepped
from diploee.learn.week_shape import CalendarChoice
from diploee.learn.weeks import WeekFit, fit_weeks
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_DAY, MS_PER_H

POISSON_REJECTED_BELOW = 0.01
"""Probability of the hourly scatter below which submissions are taken as over-dispersed."""

ArrivalKind = Literal["auto", "poisson", "gamma"]


@dataclass(frozen=True, eq=False)
class ArrivalFit:
    """When jobs are submitted.

    Parameters
    ----------
    hours : HourCounts
        Submissions per clock hour; jobs that come together, as an array, are one.
    calendar : CalendarFit
        Weights of the week and of the months.
    week_low, week_high : numpy.ndarray, shape (168,), float64
        Limits of the weights of the hours of the week.
    month_low, month_high : numpy.ndarray, shape (12,), float64, or None
        Limits of the weights of the months.
    jobs_per_day, jobs_per_day_low, jobs_per_day_high : float
        Mean daily count over a week and a year, with limits from the scatter of the weeks (of the
        days, where there are few weeks).
    scatter : DispersionFit or None
        How hourly counts scatter about the calendar; None where the span is too short to tell.
    dispersion, day_dispersion : float or None
        What the scenario's stream gets; None where hours, or days, do not differ at random.
    weeks : WeekFit or None
        How weeks differ; None where too few were seen.
    """

    hours: HourCounts
    calendar: CalendarFit
    week_low: Float64Array
    week_high: Float64Array
    month_low: Float64Array | None
    month_high: Float64Array | None
    jobs_per_day: float
    jobs_per_day_low: float
    jobs_per_day_high: float
    scatter: DispersionFit | None
    dispersion: float | None
    day_dispersion: float | None
    weeks: WeekFit | None


def fit_arrivals(
    hours: HourCounts,
    jobs: Int64Array,
    own_squares: Float64Array,
    kind: ArrivalKind,
    months: bool | None,
    confidence: float,
    choice: CalendarChoice = "auto",
) -> ArrivalFit:
    """Fit the calendar, the daily count and the dispersion of hourly and daily counts."""
    calendar = fit_calendar(hours, months, choice)
    whole = hours.is_whole  # a part of an hour ends with a submission: its count is no draw
    # Months as a scenario lays them, going over into each other.
    season = np.ones(hours.n_hours)
    if calendar.month_weight is not None:
        season = laid_over_stepped(
            calendar.month_weight, calendar.week_weight, hours.month, hours.start_ms // MS_PER_H
        )
    per_submission = float(jobs.sum() / hours.counts.sum())
    expected = (calendar.expected * season)[whole]
    weeks = fit_weeks(
        hours.start_ms[whole],
        MS_PER_H,
        jobs[whole].astype(np.float64),
        expected * per_submission,
        confidence,
    )
    of_calendar = (
        hours.start_ms[whole] // MS_PER_DAY,
        calendar.n_parameters,
        calendar.n_day_parameters,
        confidence,
    )
    # What weeks differ by is not to be found again in their days.
    weeks_differ = weeks is not None and weeks.is_told
    scatter = fit_dispersion(hours.counts[whole], expected, *of_calendar, weeks_differ=weeks_differ)
    has_arrays = per_submission > 1
    if scatter is not None and has_arrays:
        # The factors are those of jobs: submissions of one job may come more evenly than arrays.
        of_jobs = fit_dispersion(
            jobs[whole],
            expected * per_submission,
            *of_calendar,
            weeks_differ=weeks_differ,
            own_squares=own_squares[whole],
        )
        if of_jobs is not None:
            names = ("dispersion", "low", "high", "day", "day_low", "day_high")
            scatter = replace(scatter, **{name: getattr(of_jobs, name) for name in names})
    dispersion = day_dispersion = None
    if scatter is not None and kind != "poisson":
        rejected = scatter.poisson_p_value < POISSON_REJECTED_BELOW
        rejected |= has_arrays and scatter.low > 0
        if scatter.dispersion > 0 and (kind == "gamma" or rejected):
            dispersion = min(scatter.dispersion, MAX_DISPERSION)
        if scatter.day_low > 0:
            day_dispersion = min(scatter.day, MAX_DISPERSION)
    week_low, week_high = week_limits(
        hours, calendar, dispersion or 0.0, confidence, day_dispersion or 0.0
    )
    month_low = month_high = None
    if calendar.month_weight is not None:
        month_low, month_high = month_limits(hours, calendar, confidence)
    per_day = calendar.jobs_per_hour * HOURS_PER_DAY * per_submission
    low, high = total_limits(*_batches(jobs, calendar.expected * per_submission), confidence)
    return ArrivalFit(
        hours=hours,
        calendar=calendar,
        week_low=week_low,
        week_high=week_high,
        month_low=month_low,
        month_high=month_high,
        jobs_per_day=per_day,
        jobs_per_day_low=per_day * low,
        jobs_per_day_high=per_day * high,
        scatter=scatter,
        dispersion=dispersion,
        day_dispersion=day_dispersion,
        weeks=weeks,
    )


def _batches(jobs: Int64Array, expected: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return counts and expectations of the weeks; of the days where there are few weeks."""
    length = HOURS_PER_WEEK if jobs.size >= MIN_BATCHES * HOURS_PER_WEEK else HOURS_PER_DAY
    starts = np.arange(0, max(jobs.size - length + 1, 1), length)  # the last one may be longer
    seen = np.add.reduceat(jobs.astype(np.float64), starts)
    return seen, np.add.reduceat(expected, starts)
