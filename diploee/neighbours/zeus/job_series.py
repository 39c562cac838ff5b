"""Recurring training jobs as the jobs of a facility: submission, duration and power per GPU.

Duration = epochs to the target x time per epoch x runtime ratio, cut by early stopping; power is
the average of one GPU at the chosen limit. What a recurrence learns comes from those of its
recurring job that had ended when it was submitted, at their submission plus run time:
ASSUMPTION: a wait in the facility's queue does not change what is known at a submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf

import numpy as np

from diploee.errors import WorkloadError
from diploee.neighbours.zeus.groups import GroupTrace
from diploee.neighbours.zeus.results import RecurrenceTable
from diploee.neighbours.zeus.simulator import Simulation, Submissions, simulate
from diploee.neighbours.zeus.spec import ZeusSpec
from diploee.neighbours.zeus.workload import TrainingWorkload
from diploee.streams import stream
from diploee.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.units import MS_PER_S


@dataclass(frozen=True, eq=False)
class JobSeries(Table):
    """One row per run of a recurrence, in the order of submission; a retry is a job of its own.

    Parameters
    ----------
    submit_ms : numpy.ndarray, int64
        Submission [ms].
    duration_ms : numpy.ndarray, int64
        Run time [ms], at least 1.
    average_power_w : numpy.ndarray, float64
        Average power of one GPU while it runs [W].
    workload_id : numpy.ndarray, int16
        Index into the workloads.
    group_id : numpy.ndarray, int32
        The recurring job.
    recurrence : numpy.ndarray, int32
        Place in the recurring job's history, from 0.
    batch_size : numpy.ndarray, int32
        Batch size.
    power_limit_w : numpy.ndarray, float64
        Power limit [W].
    converged : numpy.ndarray, bool
        It reached its target; otherwise it was stopped or gave up.
    """

    submit_ms: Int64Array = column("int64")
    duration_ms: Int64Array = column("int64")
    average_power_w: Float64Array = column("float64")
    workload_id: Int16Array = column("int16")
    group_id: Int32Array = column("int32")
    recurrence: Int32Array = column("int32")
    batch_size: Int32Array = column("int32")
    power_limit_w: Float64Array = column("float64")
    converged: BoolArray = column("bool")


class SharedRecurrences:
    """Jobs for given submissions, each a recurrence of one of several recurring jobs.

    Each submission belongs to any of the recurring jobs with the same probability. Where these are
    few and submissions dense, recurrences overlap, and Zeus explores slowly: that is its rule.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        What the recurring jobs train.
    spec : ZeusSpec
        Optimizers and knobs.
    seed : int
        Seed of every draw.
    *name : str or int
        Further name of the random streams, such as that of the job stream.
    n_recurring_jobs : int
        Recurring jobs, each with its own history.
    shares : sequence of float, optional
        Share of each workload among the recurring jobs, any scale; by default equal.

    Raises
    ------
    WorkloadError
        If the recurring jobs can't be shared out so that each workload has one.
    """

    def __init__(
        self,
        workloads: Sequence[TrainingWorkload],
        spec: ZeusSpec,
        seed: int,
        *name: str | int,
        n_recurring_jobs: int,
        shares: Sequence[float] | None = None,
    ) -> None:
        self._workload_of = _shared_out(workloads, n_recurring_jobs, shares)
        self._rng = stream(seed, "zeus", *name, "recurring jobs")
        self._simulation = Simulation(workloads, spec, seed, *name)

    def at(self, submit_ms: Int64Array, until_ms: float = inf) -> JobSeries:
        """Return a job per submission, and those that try again what failed.

        Parameters
        ----------
        submit_ms : numpy.ndarray, shape (n,), int64
            Submissions [ms], ascending and none before the `until_ms` of the last call.
        until_ms : float
            Retries that start before are returned [ms]; later ones by a later call.

        Raises
        ------
        WorkloadError
            As `Simulation.advance` says.
        """
        group_id = self._rng.integers(self._workload_of.size, size=submit_ms.size, dtype=np.int32)
        submissions = Submissions(
            group_id,
            self._workload_of[group_id],
            submit_ms / MS_PER_S,
            np.full(submit_ms.size, np.nan),
            np.ones(submit_ms.size),
        )
        return _jobs(self._simulation.advance(submissions, until_ms / MS_PER_S), until_ms=until_ms)


def recurrences_at(
    submit_ms: Int64Array,
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
    n_recurring_jobs: int,
    shares: Sequence[float] | None = None,
) -> JobSeries:
    """Return the jobs of `SharedRecurrences` for all submissions [ms] at once."""
    shared = SharedRecurrences(
        workloads, spec, seed, *name, n_recurring_jobs=n_recurring_jobs, shares=shares
    )
    return shared.at(submit_ms)


def recurrences_of_groups(
    groups: GroupTrace,
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
) -> JobSeries:
    """Return the jobs of a group trace, submitted at its starts less the earliest one.

    Parameters
    ----------
    groups : GroupTrace
        Starts, ends and runtime ratios; datasets of no workload are left out.
    workloads, spec, seed, name
        As in `recurrences_at`.

    Returns
    -------
    JobSeries
        In the order of submission.

    Raises
    ------
    WorkloadError
        If no group trains one of the workloads, or as `simulate` says.
    """
    submissions, _ = groups.submissions(workloads)
    submissions = submissions.take(np.argsort(submissions.start_s, kind="stable"))
    table = simulate(workloads, submissions, spec, seed, *name, group_names=groups.groups)
    return _jobs(table, since_s=float(submissions.start_s[0]))


def _jobs(table: RecurrenceTable, since_s: float = 0.0, until_ms: float = inf) -> JobSeries:
    table = table.take(np.argsort(table.start_s, kind="stable"))
    rounded_ms = np.rint((table.start_s - since_s) * MS_PER_S)
    submit_ms = np.minimum(rounded_ms, until_ms - 1).astype(np.int64)
    duration_ms = np.maximum(np.rint(table.time_s * MS_PER_S), 1).astype(np.int64)
    of_runs = {f.name: getattr(table, f.name) for f in fields(JobSeries)[2:]}
    return JobSeries(submit_ms=submit_ms, duration_ms=duration_ms, **of_runs)


def _shared_out(
    workloads: Sequence[TrainingWorkload], n_jobs: int, shares: Sequence[float] | None
) -> Int16Array:
    """Return the workload of each recurring job: the nearest whole numbers, one at least."""
    weights = np.ones(len(workloads)) if shares is None else np.asarray(shares, dtype=np.float64)
    if weights.size != len(workloads) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise WorkloadError(
            f"shares of the workloads are {weights.tolist()}, expected {len(workloads)} numbers of "
            "0 or more, not all 0"
        )
    n_needed = int(np.count_nonzero(weights))
    if n_jobs < n_needed:
        raise WorkloadError(
            f"{n_jobs} recurring jobs for {n_needed} workloads, expected one or more for each; "
            "raise the number of recurring jobs"
        )
    wanted = weights / weights.sum() * n_jobs
    counts = np.maximum(np.floor(wanted), weights > 0).astype(np.int64)
    while counts.sum() < n_jobs:
        counts[np.argmax(wanted - counts)] += 1
    while counts.sum() > n_jobs:  # small shares were rounded up to one
        counts[np.argmax(np.where(counts > 1, counts - wanted, -np.inf))] -= 1
    return np.repeat(np.arange(len(workloads)), counts).astype(np.int16)
