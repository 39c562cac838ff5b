"""A job log as the distributions that a scenario draws from, each with its limits and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from diploee.clock import Zone
from diploee.files import Writing
from diploee.learn.choices import FitChoices
from diploee.learn.jobs.arrivals import ArrivalFit, ArrivalKind, fit_arrivals
from diploee.learn.jobs.class_fits import (
    ClassFit,
    NodeCountFit,
    fit_classes,
    fit_node_counts,
)
from diploee.learn.jobs.classes import MAX_CLASSES, group_jobs
from diploee.learn.jobs.hours import count_hours
from diploee.learn.jobs.job_arrays import find_arrays
from diploee.learn.jobs.notes import (
    arrival_notes,
    class_notes,
    pool_notes,
    small_notes,
    state_notes,
)
from diploee.learn.weeks import MONDAY_MS
from diploee.loads.jobs.job_log import NO_GPU, JobLog, JobRecords
from diploee.model import documented
from diploee.profiles import ProfileLibrary
from diploee.scenario import ClassRule
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, SLOTS_PER_GPU


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
    """A fitted job log.

    Parameters
    ----------
    source, log_format : str
        File and format of the log.
    confidence : float
        Level of all limits.
    utc_offset_min : int or None
        Offset of local time from UTC [min]; None where the log has no dates.
    time_zone : str
        Named zone of the local time; empty for a fixed offset.
    arrivals : ArrivalFit
        When jobs are submitted.
    node_counts : NodeCountFit
        How wide they are.
    classes : tuple of ClassFit
        The classes of a scenario.
    durations_s : tuple of numpy.ndarray
        Durations of the jobs of each class [s].
    mean_busy_nodes : float
        Node time of the fitted jobs over the span: the occupancy that they ask for.
    left_out : dict of str to int
        Jobs of the log that were not fitted, by cause.
    left_out_share : dict of str to float
        Their shares of the node time of all jobs of the log.
    import_lines : tuple of str
        What the import of the log dropped, repaired and noted.
    notes : tuple of str
        What to know before using the fit.
    jobs : LoggedJobs
        The jobs that were fitted, in local time.
    figures : tuple of Figure
        Log, fragment and generated days side by side; empty where none were generated.
    generated_days : int
        How many days were generated.
    gpus_per_node : int
        GPUs of a node where the classes have parts of those; 0 where they have whole nodes.
    fragment : str
        The stream in YAML, or the scenario with it; empty where none was made.
    """

    source: str
    log_format: str
    confidence: float
    utc_offset_min: int | None
    time_zone: str
    arrivals: ArrivalFit
    node_counts: NodeCountFit
    classes: tuple[ClassFit, ...]
    durations_s: tuple[Float64Array, ...]
    mean_busy_nodes: float
    left_out: dict[str, int]
    left_out_share: dict[str, float]
    import_lines: tuple[str, ...]
    notes: tuple[str, ...]
    jobs: LoggedJobs
    figures: tuple[Figure, ...] = ()
    generated_days: int = 0
    gpus_per_node: int = 0
    fragment: str = ""

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
        from diploee.learn.jobs.plots import plot_fit

        return plot_fit(self, folder, joins=files)

    def _repr_html_(self) -> str:
        from diploee.learn.jobs.summary import fit_lines

        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in fit_lines(self))}</ul>"


@documented
class JobFitOptions(FitChoices):
    """Options of a fit of a job log."""

    durations: Literal["quantiles", "lognormal", "profile"] = Field(
        default="quantiles",
        description="Durations: quantiles, lognormal mixtures or profile's own.",
    )
    arrivals: ArrivalKind = Field(
        default="auto",
        description="Scatter of submissions within the weights; auto as the log's hours tell.",
    )
    max_classes: PositiveInt = Field(
        default=MAX_CLASSES,
        description="Classes at most; node counts with the least node time join others.",
    )


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
    in_hours = (local_ms[inside][submitted] - hours.start_ms[0]) // MS_PER_H
    counts, jobs_of, squares = (
        np.bincount(in_hours, x, hours.n_hours) for x in (None, size, size.astype(float) ** 2)
    )
    arrival_fit = fit_arrivals(
        replace(hours, counts=counts),
        jobs_of.astype(np.int64),
        squares.astype(np.float64),
        options.arrivals,
        options.months,
        confidence,
        options.calendar,
    )
    classes, durations_s = fit_classes(
        kept, class_of, array, day, groups, options.durations, confidence, seed
    )
    if allocates_gpus:
        classes = tuple(map(partial(_in_gpus, slots=slots), classes))
    busy_nodes = _node_ms(kept) / slots / (hours.covered_hours * MS_PER_H)
    left_out = {
        "fits no rule": groups.unmatched,
        "wider than the pool": groups.too_wide,
        "outside the span": used & ~inside,
    }
    shares = {cause: _node_ms(jobs.take(rows)) / _node_ms(jobs) for cause, rows in left_out.items()}
    notes = arrival_notes(arrival_fit) + class_notes(groups, classes) + state_notes(kept)
    if gpus_per_node:
        notes = small_notes(kept, gpus_per_node, allocates_gpus) + notes
    if pool_n_nodes is not None:
        share = shares["wider than the pool"]
        notes = pool_notes(pool_n_nodes, groups.n_too_wide, share, busy_nodes) + notes
    if log.is_relative:
        notes.insert(0, "the log has no dates: its clock is taken to begin on a Monday at 00:00")
    return JobLogFit(
        source=log.source,
        log_format=log.log_format,
        confidence=confidence,
        utc_offset_min=None if log.is_relative else zone.fixed_offset_min,
        time_zone="" if log.is_relative else zone.name,
        arrivals=arrival_fit,
        node_counts=fit_node_counts(kept, day, confidence, slots),
        classes=classes,
        durations_s=durations_s,
        mean_busy_nodes=busy_nodes,
        left_out={cause: int(rows.sum()) for cause, rows in left_out.items()} | without,
        left_out_share=shares | dict.fromkeys(without, 0.0),
        import_lines=tuple(log.counts.lines()),
        notes=tuple(notes),
        jobs=LoggedJobs(
            (local_ms[inside] - hours.start_ms[0]) / MS_PER_H,
            kept.n_nodes / slots,
            kept.duration_ms / MS_PER_H,
        ),
        gpus_per_node=gpus_per_node if allocates_gpus else 0,
    )


def _in_gpus(of_class: ClassFit, slots: int) -> ClassFit:
    """Return a class with its nodes, and its GPUs on a part of one, for its count of slots."""
    n_gpus = of_class.n_nodes / SLOTS_PER_GPU if of_class.n_nodes < slots else None
    return replace(of_class, n_nodes=-(-of_class.n_nodes // slots), n_gpus=n_gpus)


def _node_ms(jobs: JobRecords) -> float:
    return float((jobs.n_nodes * jobs.duration_ms.astype(float)).sum())
