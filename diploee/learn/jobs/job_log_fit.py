"""A job log as the distributions that a scenario draws from, each with its limits and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from diploee.clock import Zone
from diploee.files import Writing
from diploee.learn.counts import MONDAY_MS, count_hours
from diploee.learn.jobs.arrivals import ArrivalFit, JobFitOptions, fit_arrivals
from diploee.learn.jobs.class_fits import (
    ClassFit,
    NodeCountFit,
    find_arrays,
    fit_classes,
    fit_node_counts,
)
from diploee.learn.jobs.classes import group_jobs
from diploee.learn.jobs.notes import (
    arrival_notes,
    class_notes,
    pool_notes,
    small_notes,
    state_notes,
)
from diploee.loads.jobs.job_log import NO_GPU, JobLog, JobRecords
from diploee.profiles import ProfileLibrary
from diploee.scenario import ClassRule
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, SLOTS_PER_GPU

WIDER = "wider than the pool"
NO_DATES = "the log has no dates: its clock is taken to begin on a Monday at 00:00"


@dataclass(frozen=True, eq=False)
class LoggedJobs:
    """Jobs on a clock of hours."""

    submit_h: Float64Array  # submission, from the start of the first hour [h]
    n_nodes: Float64Array  # nodes, and parts of one where a pool allocates GPUs
    duration_h: Float64Array  # run time [h]


@dataclass(frozen=True)
class Figure:
    """One figure of a log, with limits, and of what was learned from it."""

    name: str  # what it is, with its unit
    # Of the log, with limits from leaving out each tenth of it in turn (jackknife)
    log: float
    low: float
    high: float
    fragment: float | None  # expectation of the fragment; None where it is not looked at
    generated: float  # of the jobs that the fragment gives
    differs: bool  # log and generated days differ by more than the limits of both


@dataclass(frozen=True, eq=False)
class JobLogFit:
    """A fitted job log."""

    # File and format of the log
    source: str
    log_format: str
    confidence: float  # level of all limits
    # Offset of local time from UTC [min], None without dates; named zone, empty for an offset
    utc_offset_min: int | None
    time_zone: str
    arrivals: ArrivalFit  # when jobs are submitted
    node_counts: NodeCountFit  # how wide they are
    classes: tuple[ClassFit, ...]  # the classes of a scenario
    durations_s: tuple[Float64Array, ...]  # durations of the jobs of each class [s]
    mean_busy_nodes: float  # node time of the fitted jobs over the span
    # Jobs of the log that were not fitted, by cause, and their shares of the node time of all
    left_out: dict[str, int]
    left_out_share: dict[str, float]
    import_lines: tuple[str, ...]  # what the import of the log dropped, repaired and noted
    notes: tuple[str, ...]  # what to know before using the fit
    jobs: LoggedJobs  # the jobs that were fitted, in local time
    # Log, fragment and generated days side by side, and how many days; empty where none were
    figures: tuple[Figure, ...] = ()
    generated_days: int = 0
    gpus_per_node: int = 0  # GPUs of a node where the classes have parts of those, else 0
    fragment: str = ""  # the stream in YAML, or the scenario with it; empty where none was made

    @property
    def n_jobs(self) -> int:
        """Jobs that were fitted."""
        return sum(c.n_jobs for c in self.classes)

    @property
    def n_submissions(self) -> int:
        """Submissions that they came in: an array is one."""
        return int(self.arrivals.hours.counts.sum())

    def draw(self, folder: Path, files: Writing) -> list[Path]:
        """Draw the fit into a folder, together with other files; return the pictures."""
        from diploee.learn.plots import plot_fit

        return plot_fit(self, folder, joins=files)

    def _repr_html_(self) -> str:
        from diploee.learn.jobs.summary import fit_lines

        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in fit_lines(self))}</ul>"


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
    seed: int = 0,
    **changes: Any,
) -> JobLogFit:
    """Learn the distributions of a log's jobs.

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
        Offset of local time from UTC [min]; that of the log, or its named zone, by default.
    pool_n_nodes : int, optional
        Nodes of the pool; wider jobs are left out and counted.
    gpus_per_node : int
        GPUs of its nodes; 0 where they are not known.
    allocates_gpus : bool
        The pool has ``allocate: gpus``: jobs on fewer GPUs than a node has keep their counts.
    seed : int
        Seed of the tests that draw samples.
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
    without = {NO_GPU: int(np.count_nonzero(jobs.n_gpus == 0))} if allocates_gpus else {}
    if without:
        jobs = jobs.take(jobs.n_gpus != 0)
    zone = log.zone if utc_offset_min is None else Zone("", utc_offset_min)
    local_ms = jobs.submit_ms + MONDAY_MS if log.is_relative else zone.local_ms(jobs.submit_ms)
    slots = gpus_per_node * SLOTS_PER_GPU if allocates_gpus else 1
    most = options.max_classes
    groups = group_jobs(jobs, log.types, rules, library, pool_n_nodes, most, slots, log.labels)
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
    arrivals = fit_arrivals(hours, in_hours, size, options)
    classes, durations_s = fit_classes(
        kept, class_of, array, day, groups, options.durations, confidence, seed, slots
    )
    busy_nodes = _node_ms(kept) / slots / (hours.covered_hours * MS_PER_H)
    left_out = {
        "fits no rule": groups.unmatched,
        WIDER: groups.too_wide,
        "outside the span": used & ~inside,
    }
    n_left_out = {cause: int(rows.sum()) for cause, rows in left_out.items()}
    shares = {cause: _node_ms(jobs.take(rows)) / _node_ms(jobs) for cause, rows in left_out.items()}
    return JobLogFit(
        source=log.source,
        log_format=log.log_format,
        confidence=confidence,
        utc_offset_min=None if log.is_relative else zone.fixed_offset_min,
        time_zone="" if log.is_relative else zone.name,
        arrivals=arrivals,
        node_counts=fit_node_counts(kept, day, confidence, slots),
        classes=classes,
        durations_s=durations_s,
        mean_busy_nodes=busy_nodes,
        left_out=n_left_out | without,
        left_out_share=shares | dict.fromkeys(without, 0.0),
        import_lines=tuple(log.counts.lines()),
        notes=(
            *([NO_DATES] if log.is_relative else []),
            *pool_notes(pool_n_nodes, n_left_out[WIDER], shares[WIDER], busy_nodes),
            *small_notes(kept, gpus_per_node, allocates_gpus),
            *arrival_notes(arrivals),
            *class_notes(groups, classes),
            *state_notes(kept),
        ),
        jobs=LoggedJobs(
            (local_ms[inside] - hours.start_ms[0]) / MS_PER_H,
            kept.n_nodes / slots,
            kept.duration_ms / MS_PER_H,
        ),
        gpus_per_node=gpus_per_node if allocates_gpus else 0,
    )


def _node_ms(jobs: JobRecords) -> float:
    return float((jobs.n_nodes * jobs.duration_ms.astype(float)).sum())
