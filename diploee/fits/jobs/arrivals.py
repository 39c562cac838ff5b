"""Fit of job arrivals.

Calendar weights, daily count, how hours and days scatter about it.
"""

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
from diploee.fits.binned_counts import Counts, sums
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
from diploee.fits.weeks import WeekFit, fit_weeks

POISSON_REJECTED_BELOW = 0.01
"""Probability of the hourly scatter below which submissions are taken as
over-dispersed."""

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

    # Submissions per clock hour; jobs that come together, as an array, are one
    hours: Counts
    calendar: CalendarFit  # weights of the week and of the months
    # Limits of the weights of the hours of the week (168,), and of the months (12,)
    week_low: Float64Array
    week_high: Float64Array
    month_low: Float64Array | None
    month_high: Float64Array | None
    # Mean daily count over a week and a year, with limits from the scatter of the weeks
    # (of the days, where there are few weeks)
    jobs_per_day: float
    jobs_per_day_low: float
    jobs_per_day_high: float
    # Of hourly counts; None where the span is too short for it
    scatter: DispersionFit | None
    # For the scenario's stream; None where hours, or days, do not differ at random
    dispersion: float | None
    day_dispersion: float | None
    weeks: WeekFit | None  # how weeks differ; None where too few were seen


def fit_arrivals(
    hours: Counts,
    hour: Int64Array,
    n_jobs: Int64Array,
    node_h: Float64Array,
    options: JobFitOptions,
) -> ArrivalFit:
    """Fit the calendar, the daily count and the dispersion of hourly and daily counts.

    `hour` is that of each submission in the span of `hours`, `n_jobs` are the jobs that
    it brings and `node_h` is their node time, by which weeks differ.
    """
    sizes, n_hours, confidence = (
        n_jobs.astype(np.float64),
        hours.counts.size,
        options.confidence,
    )
    counts, jobs, own_squares = (
        sums(hour, x, n_hours) for x in (None, sizes, sizes**2)
    )
    hours = replace(hours, counts=counts)
    calendar = fit_calendar(hours, options.months, options.calendar)
    # A part of an hour ends with a submission: its count is no draw
    whole = hours.coverage == 1
    # Months as a scenario lays them, going over into each other.
    expected = (calendar.expected * calendar.laid())[whole]
    per_submission = float(jobs.sum() / hours.counts.sum())
    starts_ms = hours.start_ms[whole]
    of_weeks, per_count = (
        sums(hour, node_h, n_hours)[whole],
        float(node_h.sum() / counts.sum()),
    )
    weeks = fit_weeks(starts_ms, MS_PER_H, of_weeks / per_count, expected, confidence)
    scatter_of = partial(
        fit_dispersion,
        day=starts_ms // MS_PER_DAY,
        n_parameters=calendar.n_parameters,
        n_day_parameters=calendar.n_day_parameters,
        confidence=confidence,
        # What weeks differ by is not to be found again in their days.
        weeks_differ=weeks is not None and weeks.is_significant,
    )
    scatter, has_arrays = scatter_of(hours.counts[whole], expected), per_submission > 1
    if scatter is not None and has_arrays:
        # The factors are those of jobs: submissions of one job may come more evenly
        # than arrays.
        of_jobs = scatter_of(
            jobs[whole], expected * per_submission, own_squares=own_squares[whole]
        )
        if of_jobs is not None:
            names = ("dispersion", "low", "high", "day", "day_low", "day_high")
            scatter = replace(
                scatter, **{name: getattr(of_jobs, name) for name in names}
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
    of_all = (jobs, calendar.expected * per_submission)
    seen, mean = (np.add.reduceat(x, starts) for x in of_all)
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
