"""Fit of job arrivals: calendar weights, mean daily count, overdispersion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from pydantic import PositiveInt

from diploee.base.errors import Brief
from diploee.base.model import InnerShare, default, document_fields, unset
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_DAY, MS_PER_H
from diploee.fits.binned_counts import BinnedCounts, sum_by_index
from diploee.fits.calendar import (
    CalendarFit,
    FitChoices,
    fit_calendar,
    month_limits,
    week_limits,
)
from diploee.fits.confidence_limits import MIN_BATCHES, total_limits
from diploee.fits.jobs.classes import MAX_CLASSES
from diploee.fits.overdispersion import MAX_DISPERSION, DispersionFit, fit_dispersion
from diploee.fits.week_to_week import WeekFit, fit_weeks

POISSON_REJECTED_BELOW = 0.01
"""p-value of the Poisson test of hourly counts below which counts are overdispersed."""

ArrivalKind = Literal["auto", "poisson", "gamma"]


@document_fields
class JobFitOptions(FitChoices):
    """Options of a fit of a job log."""

    durations: Literal["quantiles", "profile"] = default(
        "quantiles", "Durations: by quantiles, or those of the profiles."
    )
    arrivals: ArrivalKind = default(
        "auto",
        "Dispersion of submissions around the weights; auto infers it from the log's "
        "hours.",
    )
    years: Literal["auto", "law", "weeks"] = default(
        "auto",
        (
            "Source of simulated years: law samples the fitted distributions, weeks "
            "replays the log's weeks in random order. auto takes law if its years "
            "match the log's node time within 2 % and the median and P99 of hourly "
            "busy nodes within 7 and 15 %, or else the source with the smaller maximum "
            "of these errors relative to their tolerances."
        ),
    )
    holdout: InnerShare | None = unset(
        "Fraction of the log, such as 0.5, that is also fitted separately; its years "
        "and naive forecasts are compared with the rest."
    )
    max_classes: PositiveInt = default(
        MAX_CLASSES,
        "Maximum number of classes; node counts with the least node time are merged "
        "into others.",
    )


@dataclass(frozen=True, eq=False)
class ArrivalFit(Brief):
    """Fitted process of job submissions."""

    # Submissions per clock hour; a job array is one submission
    hours: BinnedCounts
    calendar: CalendarFit  # weights of the week and of the months
    # Limits of the weights of the hours of the week (168,) and of months (12,)
    week_low: Float64Array
    week_high: Float64Array
    month_low: Float64Array | None
    month_high: Float64Array | None
    # Mean daily count, with limits from the variance of weeks (of days, if there are
    # few weeks)
    jobs_per_day: float
    jobs_per_day_low: float
    jobs_per_day_high: float
    # Dispersion of hourly counts; None if the span is too short
    scatter: DispersionFit | None
    # Values for the scenario's stream; None without overdispersion of hours, of days
    dispersion: float | None
    day_dispersion: float | None
    weeks: WeekFit | None  # differences between weeks; None for too few weeks


def fit_arrivals(
    hours: BinnedCounts,
    hour: Int64Array,
    n_jobs: Int64Array,
    node_h: Float64Array,
    options: JobFitOptions,
) -> ArrivalFit:
    """Fit calendar, daily count, and overdispersion of hours and days.

    For each submission, `hour` is the index of its hour in `hours`, `n_jobs` its number
    of jobs, and `node_h` its node time [node-h], by which weeks are compared.
    """
    sizes, n_hours, confidence = (
        n_jobs.astype(np.float64),
        hours.counts.size,
        options.confidence,
    )
    counts, jobs, own_squares = (
        sum_by_index(hour, x, n_hours) for x in (None, sizes, sizes**2)
    )
    hours = replace(hours, counts=counts)
    calendar = fit_calendar(hours, options.months, options.calendar)
    # Partly covered hours end with a submission: their counts are no random draws
    is_complete = hours.coverage == 1
    # Expected counts with the smooth month factors of a scenario
    expected = (calendar.expected * calendar.smooth_month_ratio())[is_complete]
    per_submission = float(jobs.sum() / hours.counts.sum())
    starts_ms = hours.start_ms[is_complete]
    node_time, per_count = (
        sum_by_index(hour, node_h, n_hours)[is_complete],
        float(node_h.sum() / counts.sum()),
    )
    weeks = fit_weeks(starts_ms, MS_PER_H, node_time / per_count, expected, confidence)
    fit_scatter = partial(
        fit_dispersion,
        day=starts_ms // MS_PER_DAY,
        n_parameters=calendar.n_parameters,
        n_day_parameters=calendar.n_day_parameters,
        confidence=confidence,
        # Differences between weeks are not counted again as differences of days
        weeks_differ=weeks is not None and weeks.is_significant,
    )
    scatter, has_arrays = (
        fit_scatter(hours.counts[is_complete], expected),
        per_submission > 1,
    )
    if scatter is not None and has_arrays:
        # Dispersion of jobs, not submissions: single jobs may be more regular than
        # arrays
        job_scatter = fit_scatter(
            jobs[is_complete],
            expected * per_submission,
            own_squares=own_squares[is_complete],
        )
        if job_scatter is not None:
            names = ("dispersion", "low", "high", "day", "day_low", "day_high")
            scatter = replace(
                scatter, **{name: getattr(job_scatter, name) for name in names}
            )
    dispersion = day_dispersion = None
    if scatter is not None and options.arrivals != "poisson":
        rejected = scatter.poisson_p_value < POISSON_REJECTED_BELOW
        rejected |= has_arrays and scatter.low > 0
        if scatter.dispersion > 0 and (options.arrivals == "gamma" or rejected):
            dispersion = min(scatter.dispersion, MAX_DISPERSION)
        if scatter.day_low > 0:
            day_dispersion = min(scatter.day, MAX_DISPERSION)
    per_day = calendar.mean_rate * HOURS_PER_DAY * per_submission
    # Weeks, or days where there are few weeks; the last one may be longer.
    length = (
        HOURS_PER_WEEK if jobs.size >= MIN_BATCHES * HOURS_PER_WEEK else HOURS_PER_DAY
    )
    starts = np.arange(0, max(jobs.size - length + 1, 1), length)
    series = (jobs, calendar.expected * per_submission)
    seen, mean = (np.add.reduceat(x, starts) for x in series)
    low, high = total_limits(seen, mean, confidence)
    return ArrivalFit(
        hours,
        calendar,
        *week_limits(calendar, confidence, dispersion or 0.0, day_dispersion or 0.0),
        *month_limits(calendar, confidence),
        per_day,
        per_day * low,
        per_day * high,
        scatter,
        dispersion,
        day_dispersion,
        weeks,
    )
