"""Fit of a job log: scenario distributions with confidence limits."""

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
from diploee.fits.binned_counts import MONDAY_MS, count_hours, sums
from diploee.fits.calendar import MIN_SIGHTINGS, covers_months
from diploee.fits.fit_tables import (
    bounded,
    calendar_dict,
    calendar_figures,
    numbers_of,
    table_of,
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
    """Jobs on a clock of hours."""

    submit_h: Float64Array  # submission, from the start of the first hour [h]
    n_nodes: Float64Array  # nodes, and parts of one where a pool allocates GPUs
    duration_h: Float64Array  # run time [h]


@dataclass(frozen=True)
class LogStatistic:
    """Statistic of a log, with limits, and the same statistic of its fit."""

    name: str  # what it is, with its unit
    # Of the log, with limits from leaving out each tenth of it in turn (jackknife)
    log: float
    low: float
    high: float
    # Expectation of the fragment; None where it is not looked at
    fragment: float | None
    # Of the jobs that the fragment gives, mean over the generated years that have such
    # and their standard deviation; None where none has
    generated: float | None
    scatter: float | None
    differs: bool  # log and generated years differ by more than the limits of both


@dataclass(frozen=True)
class BusyNodesForecast:
    """Forecast of the hourly busy nodes of a log's rest."""

    name: str
    # Share of the hours within the 5-95 % band of their hour of the day
    inside: float | None
    # Of the forecast's hours over that of the rest; None where that is 0
    median: float | None
    p99: float | None
    # Mean absolute error of the days' means over the mean of the rest; None where that
    # is 0
    day_error: float | None


@dataclass(frozen=True, eq=False)
class JobLogFit(Brief):
    """A fitted job log."""

    # File and format of the log
    source: str
    log_format: str
    confidence: float  # level of all limits
    # Offset of local time from UTC [min], None without dates; named zone, empty for an
    # offset
    utc_offset_min: int | None
    time_zone: str
    arrivals: ArrivalFit  # when jobs are submitted
    node_counts: NodeCountFit  # how wide they are
    classes: tuple[ClassFit, ...]  # the classes of a scenario
    mean_busy_nodes: float  # node time of the fitted jobs over the span
    # Jobs of the log that were not fitted, by cause, and their shares of the node time
    # of all
    left_out: dict[str, int]
    left_out_share: dict[str, float]
    # What the import of the log dropped, repaired and noted
    import_lines: tuple[str, ...]
    notes: tuple[str, ...]  # what to know before using the fit
    jobs: LoggedJobs  # the jobs that were fitted, in local time
    # The log as it was read: its weeks are played with the widths that were fitted
    log: JobLog
    # The `replay` of the log's own weeks, where years play those; else they come from
    # the above
    replay: dict[str, Any] | None = None
    # Which of the two, and why; empty of a fit that was not asked for years
    decision: str = ""
    # Log, fragment and generated years side by side, and how many days; empty where
    # none were
    figures: tuple[LogStatistic, ...] = ()
    generated_days: int = 0
    # The rest of the log beside what its first part forecasts, and how long it is;
    # empty where the whole log was fitted alone
    holdout: tuple[BusyNodesForecast, ...] = ()
    held_out_h: int = 0
    # GPUs of a node where the classes have parts of those, else 0
    gpus_per_node: int = 0
    # The stream in YAML, or the scenario with it; empty where none was made
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
        """Number of submissions, where an array counts as one."""
        return int(self.arrivals.hours.counts.sum())

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data; infinite limits are None."""
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
        return numbers_of(summary)

    def sections(self) -> list[Section]:
        """Return what was fitted and how well: years, log, classes, a held-out part."""
        hours = self.arrivals.hours
        ends = hours.first_hour, hours.first_hour + np.timedelta64(self.n_hours, "h")
        first, end = (
            str(hour.astype("datetime64[m]")).replace("T", " ") for hour in ends
        )
        zone = "on the log's own clock"
        if self.utc_offset_min is not None:
            zone = str(Zone(self.time_zone, self.utc_offset_min))
        of_log = Section(
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
                "class": of.name,
                "jobs": of.n_jobs,
                "share": of.probability,
                "low": of.low,
                "high": of.high,
                "shares_durations": of.shares_durations,
                "mean_s": of.duration and of.duration.mean_s,
                "model_mean_s": of.model_mean_s,
                "Kolmogorov-Smirnov": of.duration and of.duration.ks_distance,
            }
            for of in self.classes
        )
        tables = (
            ("years", self.decision, table_of(years, map(vars, self.figures))),
            ("holdout", "Held-out part", table_of(rest, map(vars, self.holdout))),
            ("classes", "Classes", table_of("", widths, "class")),
        )
        of_years, *others = (
            Section(key, title, tables=(table,) if table.figures else ())
            for key, title, table in tables
        )
        return [of for of in (of_years, of_log, *others) if of]

    def _repr_html_(self) -> str:
        return as_html(Path(self.source).name, self.sections())

    def _figures(self) -> Iterator[Statistic]:
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
        yield bounded("jobs per day", arrivals.jobs_per_day, low, high)
        yield from calendar_figures(arrivals.calendar, arrivals.weeks)
        if (of := arrivals.scatter) is not None:
            p = f"{of.freedom:,} degrees of freedom, p {of.poisson_p_value:.2g}"
            yield Statistic(
                "chi-square of hourly counts", of.chi_square, note=f"{p} if Poisson"
            )
            kind = "Poisson" if arrivals.dispersion is None else "gamma-mixed"
            yield bounded(
                "variance over mean of hourly counts",
                of.index,
                of.index_low,
                of.index_high,
                "1 if Poisson",
            )
            taken = f"taken as {kind}"
            yield bounded("dispersion", of.dispersion, of.low, of.high, taken)
            noise = "" if arrivals.day_dispersion else "no more than noise, left out"
            yield bounded("day_dispersion", of.day, of.day_low, of.day_high, noise)
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
        Which jobs take their power from which workload; the first that fits.
    library : ProfileLibrary
        Where the profiles are looked for.
    options : JobFitOptions, optional
        What is fitted, and how.
    utc_offset_min : int, optional
        Offset of local time from UTC [min]; that of the log, or its named zone, by
        default.
    pool_n_nodes : int, optional
        Nodes of the pool; wider jobs are left out and counted.
    gpus_per_node : int
        GPUs of its nodes; 0 where they are not known.
    allocates_gpus : bool
        The pool has ``allocate: gpus``: jobs on fewer GPUs than a node has keep their
        counts.
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
    without = (
        {NO_GPU: int(np.count_nonzero(jobs.n_gpus == 0))} if allocates_gpus else {}
    )
    if without:
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
    hours, inside = count_hours(local_ms, options.start, options.end, used, zone)
    kept, class_of = jobs.take(inside), groups.class_of[inside]
    day = local_ms[inside] // MS_PER_DAY
    day -= day.min()
    array = find_arrays(kept, class_of, hours.covered_hours * MS_PER_H)
    submitted, size = np.unique(array, return_counts=True)
    in_hours = local_ms[inside][submitted] // MS_PER_H - hours.hour[0]
    node_h = sums(
        array, kept.n_nodes * (kept.duration_ms / MS_PER_H), kept.n_nodes.size
    )[submitted]
    arrivals = fit_arrivals(hours, in_hours, size, node_h, options)
    classes = fit_classes(
        kept,
        class_of,
        array,
        day,
        groups,
        options.durations == "quantiles",
        confidence,
        slots,
    )
    busy_nodes = _node_ms(kept) / slots / (hours.covered_hours * MS_PER_H)
    left_out = {
        "fits no rule": groups.unmatched,
        WIDER: groups.too_wide,
        "outside the span": used & ~inside,
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
        node_counts=fit_node_counts(kept, day, confidence, slots),
        classes=classes,
        mean_busy_nodes=busy_nodes,
        left_out=n_left_out | without,
        left_out_share=shares | dict.fromkeys(without, 0.0),
        import_lines=tuple(log.counts.lines()),
        notes=(
            *([NO_DATES] if log.is_relative else []),
            *_pool_notes(pool_n_nodes, n_left_out[WIDER], shares[WIDER], busy_nodes),
            *_small_notes(kept, gpus_per_node, allocates_gpus),
            *_arrival_notes(arrivals),
            *(
                [f"{plural(groups.n_joined, 'job')} took {NEIGHBOUR}"]
                if groups.n_joined
                else []
            ),
            *_state_notes(kept),
        ),
        jobs=LoggedJobs(
            (local_ms[inside] - hours.start_ms[0]) / MS_PER_H,
            kept.n_nodes / slots,
            kept.duration_ms / MS_PER_H,
        ),
        log=log,
        gpus_per_node=gpus_per_node if allocates_gpus else 0,
    )


def _node_ms(jobs: JobRecords) -> float:
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


def _small_notes(
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
    """Yield notes on the calendar and the dispersion."""
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
    """Yield notes on jobs that ended abnormally and are fitted too."""
    states = ("failed", "cancelled", "timeout")
    counted = [
        (int((jobs.state_id == STATES.index(state)).sum()), state) for state in states
    ]
    if result := ", ".join(f"{n:,} {state}" for n, state in counted if n):
        yield f"jobs that ran but did not complete are included: {result}; see --state"
