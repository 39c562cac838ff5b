"""`ExecutionIntervals` of jobs that a policy may stop, slow or resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from diploee.base.tables import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    Table,
    column,
    concat,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import NEVER_MS, Schedule

KINDS = ("run", "checkpoint", "restart", "paused")
"""Kinds of a stretch of a job, by `Runs.kind`; it holds its nodes in all of them."""
RUN, CHECKPOINT, RESTART, PAUSED = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class ExecutionIntervals(Table):
    """Stretches of jobs, cut at every `DRAW_MS` from the run's start on."""

    job: Int64Array = column("int64")  # row of the job table
    # Span of the stretch [ms]
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_nodes: Int32Array = column("int32")  # nodes that it is on
    # Work done before and after it, in ms of an uncapped run on the nodes asked for
    work_from_ms: Int64Array = column("int64")
    work_to_ms: Int64Array = column("int64")
    level: Int32Array = column("int32")  # cap level
    kind: Int8Array = column("int8")  # index into `KINDS`
    # Of all its nodes where it does not run [W]
    power_w: Float64Array = column("float64")


@dataclass(frozen=True, eq=False, kw_only=True)
class PreemptiveSchedule(Schedule):
    """Jobs that ran in stretches within a window, or in the whole run.

    The jobs are those that have started, with their first starts and their ends;
    `NEVER_MS` = not ended yet.
    """

    # Within the window, in the order of their starts
    runs: ExecutionIntervals
    # Which of the jobs started for the first time within the window, shape (n,)
    new: BoolArray
    # When jobs were put back into a queue within the window, and when such jobs left it
    # [ms]
    requeued_ms: Int64Array
    restarted_ms: Int64Array

    @property
    def first(self) -> BoolArray:
        """Which jobs started for the first time."""
        return self.new

    @cached_property
    def node_ms(self) -> Int64Array:
        """Node time of each job within the run and the window [node ms]."""
        runs = self.runs
        run_ms = np.minimum(runs.end_ms, self.horizon_ms) - np.maximum(runs.start_ms, 0)
        total = np.zeros(len(self.jobs), dtype=np.int64)
        np.add.at(total, runs.job, runs.n_nodes * np.maximum(run_ms, 0))
        return total

    @property
    def of_energy(self) -> Int64Array:
        """Job of each part with an energy: each stretch is one."""
        return self.runs.job

    def occupied(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return start, end [ms], nodes and pool of each stretch."""
        runs = self.runs
        pool_id = self.jobs.pool_id[runs.job].astype(np.int64)
        return runs.start_ms, runs.end_ms, runs.n_nodes.astype(np.int64), pool_id

    def take(self, rows: Int64Array | BoolArray | slice) -> PreemptiveSchedule:
        """Return some of the jobs, with their stretches."""
        kept = np.arange(len(self.jobs))[rows]
        place = np.full(len(self.jobs), -1, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        job = place[self.runs.job]
        runs = replace(self.runs, job=job).take(job >= 0)
        return replace(
            self,
            jobs=self.jobs.take(rows),
            start_ms=self.start_ms[rows],
            ended_ms=self.end_ms[rows],
            runs=runs,
            new=self.new[rows],
        )


def runs_of(schedule: Schedule) -> ExecutionIntervals:
    """Return what jobs did, in one stretch where nothing disturbs them."""
    if isinstance(schedule, PreemptiveSchedule):
        return schedule.runs
    rows = np.flatnonzero(schedule.started)
    jobs, none = schedule.jobs.take(rows), np.zeros(rows.size, dtype=np.int64)
    return ExecutionIntervals(
        job=rows,
        start_ms=schedule.start_ms[rows],
        end_ms=schedule.end_ms[rows],
        n_nodes=jobs.n_nodes,
        work_from_ms=none,
        work_to_ms=jobs.duration_ms,
        level=none.astype(np.int32),
        kind=np.full(rows.size, RUN, dtype=np.int8),
        power_w=np.zeros(rows.size),
    )


def acted_in_order(
    parts: Sequence[PreemptiveSchedule], jobs: JobTable, horizon_ms: int
) -> PreemptiveSchedule:
    """Return all jobs of a run, numbered from 0, with what windows of it gave."""
    start_ms = np.full(len(jobs), NEVER_MS, dtype=np.int64)
    end_ms = start_ms.copy()
    for part in parts:
        start_ms[part.jobs.job_id] = part.start_ms
        end_ms[part.jobs.job_id] = part.end_ms
    return PreemptiveSchedule(
        jobs,
        start_ms,
        horizon_ms,
        ended_ms=end_ms,
        runs=concat([replace(p.runs, job=p.jobs.job_id[p.runs.job]) for p in parts]),
        new=start_ms != NEVER_MS,
        requeued_ms=np.concatenate([part.requeued_ms for part in parts]),
        restarted_ms=np.concatenate([part.restarted_ms for part in parts]),
    )
