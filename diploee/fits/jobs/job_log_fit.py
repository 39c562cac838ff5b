"""Fit of a job log: a scenario's distributions, with confidence limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diploee.base.clock import Zone
from diploee.base.errors import Brief, WorkloadError, plural
from diploee.base.progress import stage
from diploee.base.tables import Float64Array
from diploee.base.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MS_PER_DAY,
    MS_PER_H,
    SLOTS_PER_GPU,
)
from diploee.fits.binned_counts import MONDAY_MS, count_hours, sum_by_index
from diploee.fits.calendar import MIN_SIGHTINGS, covers_months
from diploee.fits.calendar_output import (
    calendar_dict,
    calendar_figures,
    make_table,
    statistic_with_limits,
    to_plain_data,
)
from diploee.fits.jobs.arrivals import ArrivalFit, JobFitOptions, fit_arrivals
from diploee.fits.jobs.class_fits import (
    ClassFit,
    NodeCountFit,
    find_arrays,
    fit_classes,
    fit_node_counts,
)
from diploee.fits.jobs.classes import group_jobs
from diploee.loads.jobs.job_log import (
    NO_GPU,
    REPORTED_RATIO,
    STATES,
    JobLog,
    JobRecords,
)
from diploee.profiles.library import ProfileLibrary
from diploee.runs.sections import Section, Statistic, as_html
from diploee.scenario.log_replay import ClassRule

WIDER = "wider than the pool"
NO_DATES = "the log has no dates: its clock is taken to begin on a Monday at 00:00"
NOTABLE_GAP_H = 30 * HOURS_PER_DAY
FEW_JOBS_PER_WEIGHT = 25
NEIGHBOUR = "a neighbouring node count, with a run time that keeps the node time"


@dataclass(frozen=True, eq=False)
class LoggedJobs:
    """Logged jobs, with times in hours since the first hour of the fit."""

    submit_h: Float64Array  # submission since the start of the first hour [h]
    n_nodes: Float64Array  # nodes; fractions if the pool allocates GPUs
    duration_h: Float64Array  # run time [h]


@dataclass(frozen=True)
class LogStatistic:
    """Statistic of a log with confidence limits, and its value in the fit."""

    name: str  # name with unit
    # Value of the log, with jackknife limits from tenths of the log
    log: float
    low: float
    high: float
    # Expectation of the fitted stream; None if not computed
    fragment: float | None
    # Mean and standard deviation over generated years; None if no year has such jobs
    generated: float | None
    scatter: float | None
    differs: bool  # log and generated years differ by more than the limits of both


@dataclass(frozen=True)
class BusyNodesForecast:
    """Errors of a forecast of hourly busy nodes, for the end of a log."""

    name: str
    # Fraction of hours within the 5-95 % band of their hour of the day
    inside: float | None
    # Ratios of forecast to rest; None if the rest is 0
    median: float | None
    p99: float | None
    # Mean absolute error of daily means over the mean of the rest; None if that is 0
    day_error: float | None


@dataclass(frozen=True, eq=False)
class JobLogFit(Brief):
    """Fitted job log: arrivals, node counts, classes, and goodness of fit."""

    # File and format of the log
    source: str
    log_format: str
    confidence: float  # level of all limits
    # Offset of local time from UTC [min], None without dates; named zone, empty for an
    # offset
    utc_offset_min: int | None
    time_zone: str
    arrivals: ArrivalFit  # process of submissions
    node_counts: NodeCountFit  # distribution of node counts
    classes: tuple[ClassFit, ...]  # the classes of a scenario
    mean_busy_nodes: float  # node time of the fitted jobs over the span
    # Jobs that were not fitted, by cause, and their fractions of the log's node time
    left_out: dict[str, int]
    left_out_share: dict[str, float]
    # Rows that the import dropped, repaired and noted, as text
    import_lines: tuple[str, ...]
    notes: tuple[str, ...]  # warnings to users of the fit
    jobs: LoggedJobs  # the jobs that were fitted, in local time
    # The log as it was read, whose weeks years can play
    log: JobLog
    # `replay` key if years play the log's weeks; None if years are sampled from the fit
    replay: dict[str, Any] | None = None
    # Reason for the source of years; empty without years
    decision: str = ""
    # Statistics of log, fit and generated years, and days per year; empty without years
    figures: tuple[LogStatistic, ...] = ()
    generated_days: int = 0
    # Forecasts of the held-out rest, and its length [h]; empty without a hold-out
    holdout: tuple[BusyNodesForecast, ...] = ()
    held_out_h: int = 0
    # GPUs of a node if classes have fractions of a node, else 0
    gpus_per_node: int = 0
    # YAML of the stream or scenario; empty if not requested
    fragment: str = ""

    @property
    def n_jobs(self) -> int:
        """Number of fitted jobs."""
        return sum(c.n_jobs for c in self.classes)

    @property
    def n_hours(self) -> int:
        """Number of clock hours of the span."""
        return self.arrivals.hours.counts.size

    @property
    def n_submissions(self) -> int:
        """Number of submissions; a job array is one submission."""
        return int(self.arrivals.hours.counts.sum())

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain data; infinite limits are None."""
        arrivals, calendar = self.arrivals, self.arrivals.calendar
        weeks, widths = arrivals.weeks, vars(self.node_counts)
        same = (
            "source confidence utc_offset_min n_hours n_jobs n_submissions left_out "
            "left_out_share mean_busy_nodes classes decision generated_days figures "
            "holdout notes"
        )
        summary = {name: getattr(self, name) for name in same.split()} | {
            "format": self.log_format,
            "time_zone": self.time_zone or None,
            "first_hour": str(arrivals.hours.first_hour),
            "covered_hours": arrivals.hours.covered_hours,
            "import": self.import_lines,
            "jobs_per_day": {
                "value": arrivals.jobs_per_day,
                "low": arrivals.jobs_per_day_low,
                "high": arrivals.jobs_per_day_high,
            },
            **calendar_dict(
                calendar,
                (arrivals.week_low, arrivals.week_high),
                (arrivals.month_low, arrivals.month_high),
                weeks,
            ),
            "arrivals": "poisson" if arrivals.dispersion is None else "gamma",
            "dispersion": arrivals.dispersion,
            "day_dispersion": arrivals.day_dispersion,
            "scatter": arrivals.scatter,
            "node_counts": pd.DataFrame(widths).to_dict("records"),
            "years": "law" if self.replay is None else "weeks",
        }
        return to_plain_data(summary)

    def sections(self) -> list[Section]:
        """Return report sections: generated years, log, held-out part, classes."""
        hours = self.arrivals.hours
        ends = hours.first_hour, hours.first_hour + np.timedelta64(self.n_hours, "h")
        first, end = (
            str(hour.astype("datetime64[m]")).replace("T", " ") for hour in ends
        )
        zone = "on the log's own clock"
        if self.utc_offset_min is not None:
            zone = str(Zone(self.time_zone, self.utc_offset_min))
        log_section = Section(
            "log",
            f"From {Path(self.source).name} ({self.log_format}): "
            f"{plural(self.n_jobs, 'job')} submitted from {first} to {end} ({zone}), "
            f"limits at {self.confidence:.0%}",
            tuple(self._figures()),
            notes=(*self.import_lines, *self.notes),
        )
        years = (
            f"Log and years generated of {plural(self.generated_days, 'day')}, nodes "
            "as if every job began at once"
        )
        weeks = self.held_out_h / HOURS_PER_WEEK
        rest = f"The last {weeks:.1f} weeks as the log before them forecasts them"
        widths = (
            {
                "class": fit.name,
                "jobs": fit.n_jobs,
                "share": fit.probability,
                "low": fit.low,
                "high": fit.high,
                "shares_durations": fit.shares_durations,
                "mean_s": fit.duration and fit.duration.mean_s,
                "model_mean_s": fit.model_mean_s,
                "Kolmogorov-Smirnov": fit.duration and fit.duration.ks_distance,
            }
            for fit in self.classes
        )
        tables = (
            ("years", self.decision, make_table(years, map(vars, self.figures))),
            ("holdout", "Held-out part", make_table(rest, map(vars, self.holdout))),
            ("classes", "Classes", make_table("", widths, "class")),
        )
        years_section, *others = (
            Section(key, title, tables=(table,) if table.figures else ())
            for key, title, table in tables
        )
        return [section for section in (years_section, log_section, *others) if section]

    def _repr_html_(self) -> str:
        return as_html(Path(self.source).name, self.sections())

    def _figures(self) -> Iterator[Statistic]:
        """Yield the statistics of the log and its arrivals."""
        arrivals = self.arrivals
        weeks = arrivals.hours.covered_hours / HOURS_PER_WEEK
        yield Statistic("span", weeks, "weeks")
        yield Statistic("busy nodes on average", self.mean_busy_nodes)
        if self.n_submissions < self.n_jobs:
            note = "jobs of one user, kind and width within seconds are one, an array"
            yield Statistic("submissions", self.n_submissions, note=note)
        for cause, n in self.left_out.items():
            if n:
                share = f"{self.left_out_share[cause]:.1%} of the node time"
                yield Statistic(f"jobs left out, {cause}", n, note=share)
        low, high = arrivals.jobs_per_day_low, arrivals.jobs_per_day_high
        yield statistic_with_limits("jobs per day", arrivals.jobs_per_day, low, high)
        yield from calendar_figures(arrivals.calendar, arrivals.weeks)
        if (scatter := arrivals.scatter) is not None:
            p = (
                f"{scatter.freedom:,} degrees of freedom, "
                f"p {scatter.poisson_p_value:.2g}"
            )
            yield Statistic(
                "chi-square of hourly counts",
                scatter.chi_square,
                note=f"{p} if Poisson",
            )
            kind = "Poisson" if arrivals.dispersion is None else "gamma-mixed"
            yield statistic_with_limits(
                "variance over mean of hourly counts",
                scatter.index,
                scatter.index_low,
                scatter.index_high,
                "1 if Poisson",
            )
            taken = f"taken as {kind}"
            yield statistic_with_limits(
                "dispersion", scatter.dispersion, scatter.low, scatter.high, taken
            )
            noise = "" if arrivals.day_dispersion else "no more than noise, left out"
            yield statistic_with_limits(
                "day_dispersion", scatter.day, scatter.day_low, scatter.day_high, noise
            )
        widths = self.node_counts
        most = np.argsort(-widths.share, kind="stable")[:8]
        shares = (f"{widths.n_nodes[k]:g} ({widths.share[k]:.1%})" for k in most)
        yield Statistic("node counts", widths.n_nodes.size, note=", ".join(shares))


@stage("fit")
def fit_job_log(
    log: JobLog,
    rules: Sequence[ClassRule],
    library: ProfileLibrary,
    options: JobFitOptions | None = None,
    *,
    utc_offset_min: int | None = None,
    pool_n_nodes: int | None = None,
    gpus_per_node: int = 0,
    allocates_gpus: bool = False,
    **changes: Any,
) -> JobLogFit:
    """Fit the distributions of a log's jobs.

    Parameters
    ----------
    log : JobLog
        The log.
    rules : sequence of ClassRule
        Rules that assign a workload, and with it a power profile, to jobs. The first
        rule that matches a job applies.
    library : ProfileLibrary
        Power profiles of the workloads.
    options : JobFitOptions, optional
        Options of the fit.
    utc_offset_min : int, optional
        Offset of local time from UTC [min]; by default the log's offset or time zone.
    pool_n_nodes : int, optional
        Number of nodes of the pool. Larger jobs are left out and counted.
    gpus_per_node : int
        GPUs of the pool's nodes; 0 if unknown.
    allocates_gpus : bool
        True if the pool has ``allocate: gpus``. Jobs on fewer GPUs than a node has then
        occupy only these.
    **changes : object
        Fields of `JobFitOptions`, such as ``months=False``, instead of `options`.

    Returns
    -------
    JobLogFit
        The fit.

    Raises
    ------
    ProfileError
        If the library has no profile for a rule.
    WorkloadError
        If no job is left to fit, or the rules contradict each other.
    """
    options = options or JobFitOptions(**changes)
    jobs, confidence = log.jobs, options.confidence
    if not len(jobs):
        causes = "; ".join(f"{n:,} {cause}" for cause, n in log.counts.dropped.items())
        raise WorkloadError(
            f"{log.source}: no job is left to fit ({causes or 'it has none'}); change "
            "states, cpu_only, zero_durations or how times are read"
        )
    no_gpu_counts = (
        {NO_GPU: int(np.count_nonzero(jobs.n_gpus == 0))} if allocates_gpus else {}
    )
    if no_gpu_counts:
        jobs = jobs.take(jobs.n_gpus != 0)
    zone = log.zone if utc_offset_min is None else Zone("", utc_offset_min)
    local_ms = (
        jobs.submit_ms + MONDAY_MS if log.is_relative else zone.local_ms(jobs.submit_ms)
    )
    slots = gpus_per_node * SLOTS_PER_GPU if allocates_gpus else 1
    most = options.max_classes
    groups = group_jobs(
        jobs, log.types, rules, library, pool_n_nodes, most, slots, log.labels
    )
    if allocates_gpus:
        jobs = replace(jobs, n_nodes=jobs.slots(slots).astype(np.int32))
    used = groups.class_of >= 0
    hours, is_inside = count_hours(local_ms, options.start, options.end, used, zone)
    fitted_jobs, class_of = jobs.take(is_inside), groups.class_of[is_inside]
    day = local_ms[is_inside] // MS_PER_DAY
    day -= day.min()
    array = find_arrays(fitted_jobs, class_of, hours.covered_hours * MS_PER_H)
    first_jobs, size = np.unique(array, return_counts=True)
    hour_index = local_ms[is_inside][first_jobs] // MS_PER_H - hours.hour[0]
    node_h = sum_by_index(
        array,
        fitted_jobs.n_nodes * (fitted_jobs.duration_ms / MS_PER_H),
        fitted_jobs.n_nodes.size,
    )[first_jobs]
    arrivals = fit_arrivals(hours, hour_index, size, node_h, options)
    classes = fit_classes(
        fitted_jobs,
        class_of,
        array,
        day,
        groups,
        options.durations == "quantiles",
        confidence,
        slots,
    )
    busy_nodes = _node_ms(fitted_jobs) / slots / (hours.covered_hours * MS_PER_H)
    left_out = {
        "fits no rule": groups.unmatched,
        WIDER: groups.too_wide,
        "outside the span": used & ~is_inside,
    }
    n_left_out = {cause: int(rows.sum()) for cause, rows in left_out.items()}
    shares = {
        cause: _node_ms(jobs.take(rows)) / _node_ms(jobs)
        for cause, rows in left_out.items()
    }
    return JobLogFit(
        source=log.source,
        log_format=log.log_format,
        confidence=confidence,
        utc_offset_min=None if log.is_relative else zone.fixed_offset_min,
        time_zone="" if log.is_relative else zone.name,
        arrivals=arrivals,
        node_counts=fit_node_counts(fitted_jobs, day, confidence, slots),
        classes=classes,
        mean_busy_nodes=busy_nodes,
        left_out=n_left_out | no_gpu_counts,
        left_out_share=shares | dict.fromkeys(no_gpu_counts, 0.0),
        import_lines=tuple(log.counts.lines()),
        notes=(
            *([NO_DATES] if log.is_relative else []),
            *_pool_notes(pool_n_nodes, n_left_out[WIDER], shares[WIDER], busy_nodes),
            *_small_job_notes(fitted_jobs, gpus_per_node, allocates_gpus),
            *_arrival_notes(arrivals),
            *(
                [f"{plural(groups.n_joined, 'job')} took {NEIGHBOUR}"]
                if groups.n_joined
                else []
            ),
            *_state_notes(fitted_jobs),
        ),
        jobs=LoggedJobs(
            (local_ms[is_inside] - hours.start_ms[0]) / MS_PER_H,
            fitted_jobs.n_nodes / slots,
            fitted_jobs.duration_ms / MS_PER_H,
        ),
        log=log,
        gpus_per_node=gpus_per_node if allocates_gpus else 0,
    )


def _node_ms(jobs: JobRecords) -> float:
    """Return the node time of jobs [node ms]."""
    return float((jobs.n_nodes * jobs.duration_ms.astype(float)).sum())


def _pool_notes(
    n_nodes: int | None, n_too_wide: int, share: float, busy_nodes: float
) -> Iterator[str]:
    """Yield notes on jobs that do not fit into the pool."""
    if n_nodes is None:
        return
    if n_too_wide:
        yield (
            f"{plural(n_too_wide, 'job')} of more than the pool's {n_nodes:,} nodes "
            f"{'is' if n_too_wide == 1 else 'are'} left out, with {share:.1%} of the "
            "log's node time; give the pool more nodes to keep them"
        )
    if busy_nodes > n_nodes:
        yield (
            f"the jobs ask for {busy_nodes:,.1f} busy nodes on average, the pool has "
            f"{n_nodes:,}: the queue will grow without end; lower jobs_per_day or "
            "give the pool more nodes"
        )


def _small_job_notes(
    jobs: JobRecords, gpus_per_node: int, allocates_gpus: bool
) -> Iterator[str]:
    """Yield notes on jobs with fewer GPUs than a whole node."""
    if allocates_gpus:
        if gpus_per_node and (n_unknown := int(np.isnan(jobs.n_gpus).sum())):
            yield (
                f"{plural(n_unknown, 'job')} whose GPUs the log does not give: on "
                "whole nodes"
            )
        return
    n_small, ratio = jobs.small_jobs(gpus_per_node) if gpus_per_node else (0, 0.0)
    if ratio >= REPORTED_RATIO:
        yield (
            f"{plural(n_small, 'job')} on fewer GPUs than the {gpus_per_node} of a "
            f"node {'takes' if n_small == 1 else 'take'} a whole one each: the GPU "
            f"jobs take {ratio:.3g} times the nodes of their GPU time; set allocate: "
            "gpus of the pool and fit again"
        )


def _arrival_notes(arrivals: ArrivalFit) -> Iterator[str]:
    """Yield notes on the calendar and on overdispersion."""
    hours, calendar = arrivals.hours, arrivals.calendar
    weeks = hours.covered_hours / HOURS_PER_WEEK
    most = {"hour_of_day": "weights of 24 hours at most", "uniform": "one rate"}
    if calendar.detail in most and weeks < MIN_SIGHTINGS:
        allows = most[calendar.detail]
        yield f"a span of {weeks:.1f} weeks allows {allows}; days need two whole weeks"
    empty = np.diff(np.flatnonzero(hours.counts)).max(initial=0) - 1
    if empty > NOTABLE_GAP_H:
        yield (
            f"{empty / HOURS_PER_DAY:,.0f} days without a submission count as days of "
            "no work; if a stamp is wrong or the log has a gap, trim it (--from, "
            "--to)"
        )
    if not calendar.has_months and not covers_months(hours.month, hours.coverage):
        yield "no weights of months: the span does not cover all twelve"
    per_weight = hours.counts.sum() / max(calendar.n_parameters, 1)
    if per_weight < FEW_JOBS_PER_WEIGHT:
        yield (
            f"{per_weight:.1f} submissions per weight: the weights scatter by "
            f"{1 / np.sqrt(per_weight):.0%} or more by chance alone"
        )
    if arrivals.scatter is None:
        yield "the span is too short to show how hourly counts scatter"


def _state_notes(jobs: JobRecords) -> Iterator[str]:
    """Yield a note on fitted jobs that failed, were cancelled or timed out."""
    states = ("failed", "cancelled", "timeout")
    counted = [
        (int((jobs.state_id == STATES.index(state)).sum()), state) for state in states
    ]
    if result := ", ".join(f"{n:,} {state}" for n, state in counted if n):
        yield f"jobs that ran but did not complete are included: {result}; see --state"
