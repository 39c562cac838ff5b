"""`ExecutionIntervals` of jobs that a policy may stop, slow or resize.

An execution interval is a time in which a job has a constant number of nodes, power cap
and kind of activity.
"""

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
"""Kinds of execution intervals, by `ExecutionIntervals.kind`; a job has nodes in
all."""
RUN, CHECKPOINT, RESTART, PAUSED = range(len(KINDS))


@dataclass(frozen=True, eq=False)
class ExecutionIntervals(Table):
    """Table of execution intervals of jobs.

    An interval that crosses a multiple of `DRAW_MS` is cut there.
    """

    job: Int64Array = column("int64")  # row of the job table
    # Start and end of the interval [ms]
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_nodes: Int32Array = column("int32")  # nodes of the job
    # Work done at its start and end [ms of an uncapped run on the requested nodes]
    work_from_ms: Int64Array = column("int64")
    work_to_ms: Int64Array = column("int64")
    level: Int32Array = column("int32")  # cap level
    kind: Int8Array = column("int8")  # index into `KINDS`
    # Power of all its nodes in intervals of other kinds than `run` [W]
    power_w: Float64Array = column("float64")


@dataclass(frozen=True, eq=False, kw_only=True)
class PreemptiveSchedule(Schedule):
    """Jobs with their execution intervals, in a time window or the whole run.

    The table has all jobs that have started, with their first starts and their ends;
    `NEVER_MS` = not yet ended.
    """

    # Execution intervals in the window, sorted by start
    runs: ExecutionIntervals
    # Mask of jobs that started for the first time in the window, shape (n,)
    new: BoolArray
    # Times in the window at which jobs went back to a queue, and started again [ms]
    requeued_ms: Int64Array
    restarted_ms: Int64Array

    @property
    def first(self) -> BoolArray:
        """Mask of jobs that started for the first time."""
        return self.new

    @cached_property
    def node_ms(self) -> Int64Array:
        """Node time of each job between the start and the end of the run [node ms]."""
        runs = self.runs
        run_ms = np.minimum(runs.end_ms, self.horizon_ms) - np.maximum(runs.start_ms, 0)
        total = np.zeros(len(self.jobs), dtype=np.int64)
        np.add.at(total, runs.job, runs.n_nodes * np.maximum(run_ms, 0))
        return total

    @property
    def energy_rows(self) -> Int64Array:
        """Job of each entry of energy: one entry per execution interval."""
        return self.runs.job

    def occupancy(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return start [ms], end [ms], nodes and pool of each execution interval."""
        runs = self.runs
        pool_id = self.jobs.pool_id[runs.job].astype(np.int64)
        return runs.start_ms, runs.end_ms, runs.n_nodes.astype(np.int64), pool_id

    def take(self, rows: Int64Array | BoolArray | slice) -> PreemptiveSchedule:
        """Return selected jobs with their execution intervals."""
        kept_rows = np.arange(len(self.jobs))[rows]
        new_row = np.full(len(self.jobs), -1, dtype=np.int64)
        new_row[kept_rows] = np.arange(kept_rows.size)
        job = new_row[self.runs.job]
        runs = replace(self.runs, job=job).take(job >= 0)
        return replace(
            self,
            jobs=self.jobs.take(rows),
            start_ms=self.start_ms[rows],
            ended_ms=self.end_ms[rows],
            runs=runs,
            new=self.new[rows],
        )


def execution_intervals(schedule: Schedule) -> ExecutionIntervals:
    """Return the execution intervals of a schedule.

    An undisturbed job has a single interval.
    """
    if isinstance(schedule, PreemptiveSchedule):
        return schedule.runs
    rows = np.flatnonzero(schedule.started)
    jobs, zero = schedule.jobs.take(rows), np.zeros(rows.size, dtype=np.int64)
    return ExecutionIntervals(
        job=rows,
        start_ms=schedule.start_ms[rows],
        end_ms=schedule.end_ms[rows],
        n_nodes=jobs.n_nodes,
        work_from_ms=zero,
        work_to_ms=jobs.duration_ms,
        level=zero.astype(np.int32),
        kind=np.full(rows.size, RUN, dtype=np.int8),
        power_w=np.zeros(rows.size),
    )


def join_windows(
    windows: Sequence[PreemptiveSchedule], jobs: JobTable, horizon_ms: int
) -> PreemptiveSchedule:
    """Join the schedules of a run's windows into one, with jobs numbered from 0."""
    start_ms = np.full(len(jobs), NEVER_MS, dtype=np.int64)
    end_ms = start_ms.copy()
    for window in windows:
        start_ms[window.jobs.job_id] = window.start_ms
        end_ms[window.jobs.job_id] = window.end_ms
    return PreemptiveSchedule(
        jobs,
        start_ms,
        horizon_ms,
        ended_ms=end_ms,
        runs=concat([replace(p.runs, job=p.jobs.job_id[p.runs.job]) for p in windows]),
        new=start_ms != NEVER_MS,
        requeued_ms=np.concatenate([window.requeued_ms for window in windows]),
        restarted_ms=np.concatenate([window.restarted_ms for window in windows]),
    )
