"""A job log as the distributions that a scenario draws from, each with its limits and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from diploee.profiles import ProfileLibrary
from diploee.scenario import ClassRule
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN
from diploee.workload.fit.arrivals import ArrivalFit, ArrivalKind, fit_arrivals
from diploee.workload.fit.class_fits import (
    ClassFit,
    DurationChoice,
    NodeCountFit,
    fit_classes,
    fit_node_counts,
)
from diploee.workload.fit.classes import MAX_CLASSES, group_jobs
from diploee.workload.fit.hours import count_hours
from diploee.workload.fit.notes import arrival_notes, class_notes, pool_notes, state_notes
from diploee.workload.job_log import JobLog, JobRecords

MONDAY_MS = 4 * MS_PER_DAY
"""1970-01-05, a Monday: where a log that has no dates begins its clock.  ASSUMPTION."""


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
    """

    source: str
    log_format: str
    confidence: float
    utc_offset_min: int | None
    arrivals: ArrivalFit
    node_counts: NodeCountFit
    classes: tuple[ClassFit, ...]
    durations_s: tuple[Float64Array, ...]
    mean_busy_nodes: float
    left_out: dict[str, int]
    left_out_share: dict[str, float]
    import_lines: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def n_jobs(self) -> int:
        """Jobs that were fitted."""
        return int(self.arrivals.hours.counts.sum())


def fit_job_log(
    log: JobLog,
    rules: Sequence[ClassRule],
    library: ProfileLibrary,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    utc_offset_min: int | None = None,
    pool_n_nodes: int | None = None,
    durations: DurationChoice = "quantiles",
    arrivals: ArrivalKind = "auto",
    months: bool | None = None,
    max_classes: int = MAX_CLASSES,
    confidence: float = 0.95,
    seed: int = 0,
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
    start, end : datetime.datetime, optional
        Trim the log to these local times; by default all of its jobs are fitted.
    utc_offset_min : int, optional
        Offset of local time from UTC [min]; that of the log by default.
    pool_n_nodes : int, optional
        Nodes of the pool; wider jobs are left out and counted.
    durations : {"quantiles", "lognormal", "profile"}
        How durations are modelled; ``"profile"`` leaves them to the profiles.
    arrivals : {"auto", "poisson", "gamma"}
        How submissions scatter within the weights; ``"auto"`` takes what the log's hourly counts
        tell (`POISSON_REJECTED_BELOW`).
    months : bool, optional
        Fit weights of the months; by default where the span covers all twelve.
    max_classes : int
        Classes at most; node counts with the least node time join their neighbours.
    confidence : float
        Level of the limits, above 0 and below 1.
    seed : int
        Seed of the tests that draw samples.

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
    jobs = log.jobs
    offset_min = None
    if not log.is_relative:
        offset_min = (log.utc_offset_min or 0) if utc_offset_min is None else utc_offset_min
    local_ms = _local_ms(jobs.submit_ms, offset_min)
    groups = group_jobs(jobs, log.types, rules, library, pool_n_nodes, max_classes)
    used = groups.class_of >= 0
    hours, inside = count_hours(local_ms, start, end, used)
    kept, class_of = jobs.take(inside), groups.class_of[inside]
    day = local_ms[inside] // MS_PER_DAY
    day -= day.min()
    arrival_fit = fit_arrivals(hours, arrivals, months, confidence, seed)
    classes, durations_s = fit_classes(kept, class_of, day, groups, durations, confidence, seed)
    busy_nodes = _node_ms(kept) / (hours.covered_hours * MS_PER_H)
    left_out = {
        "fits no rule": groups.unmatched,
        "wider than the pool": groups.too_wide,
        "outside the span": used & ~inside,
    }
    shares = {cause: _node_ms(jobs.take(rows)) / _node_ms(jobs) for cause, rows in left_out.items()}
    notes = arrival_notes(arrival_fit) + class_notes(groups, classes) + state_notes(kept)
    if pool_n_nodes is not None:
        share = shares["wider than the pool"]
        notes = pool_notes(pool_n_nodes, groups.n_too_wide, share, busy_nodes) + notes
    if log.is_relative:
        notes.insert(0, "the log has no dates: its clock is taken to begin on a Monday at 00:00")
    return JobLogFit(
        source=log.source,
        log_format=log.log_format,
        confidence=confidence,
        utc_offset_min=offset_min,
        arrivals=arrival_fit,
        node_counts=fit_node_counts(kept, day, confidence),
        classes=classes,
        durations_s=durations_s,
        mean_busy_nodes=busy_nodes,
        left_out={cause: int(rows.sum()) for cause, rows in left_out.items()},
        left_out_share=shares,
        import_lines=tuple(log.counts.lines()),
        notes=tuple(notes),
    )


def _local_ms(submit_ms: Int64Array, utc_offset_min: int | None) -> Int64Array:
    if utc_offset_min is None:
        return submit_ms + MONDAY_MS
    return submit_ms + utc_offset_min * MS_PER_MIN


def _node_ms(jobs: JobRecords) -> float:
    return float((jobs.n_nodes * jobs.duration_ms.astype(float)).sum())
