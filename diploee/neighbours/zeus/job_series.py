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
    """One row per run of a recurrence, in the order of submission; a retry is a job of its own."""

    submit_ms: Int64Array = column("int64")
    duration_ms: Int64Array = column("int64")  # at least 1
    average_power_w: Float64Array = column("float64")  # of one GPU while it runs
    workload_id: Int16Array = column("int16")
    group_id: Int32Array = column("int32")  # the recurring job
    recurrence: Int32Array = column("int32")  # place in its history, from 0
    converged: BoolArray = column("bool")  # it reached its target, and did not stop or give up


class SharedRecurrences:
    """Jobs for given submissions, each of any of several recurring jobs with equal probability.

    The recurring jobs are shared out over the workloads by `shares`, alike without. Where they are
    few and submissions dense, recurrences overlap, and Zeus explores slowly: that is its rule.
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
        """Return a job per submission, and those before `until_ms` that try again what failed.

        Submissions ascend, and none is before the `until_ms` of the last call.
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


def recurrences_of_groups(
    groups: GroupTrace,
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
) -> JobSeries:
    """Return the jobs of a group trace, submitted at its starts less the earliest one."""
    submissions, _ = groups.submissions(workloads)
    table = simulate(workloads, submissions, spec, seed, *name, group_names=groups.groups)
    return _jobs(table, since_s=float(submissions.start_s.min()))


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
