"""`Schedule`: jobs with their start times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diploee.base.errors import Brief, WorkloadError
from diploee.base.tables import BoolArray, Int64Array
from diploee.schedule.job_table import JobTable

NEVER_MS = int(np.iinfo(np.int64).min)
"""Start and end of a job that does not start before the end of the run [ms]."""


@dataclass(frozen=True, eq=False)
class Schedule(Brief):
    """Table of jobs with their start times."""

    jobs: JobTable  # all jobs of a run by submission, or some of them in any order
    # Start of each job [ms]; `NEVER_MS` = never started before the horizon
    start_ms: Int64Array
    horizon_ms: int  # end of the run [ms]
    # End of each job [ms], or `NEVER_MS`; if absent, its start plus its run time
    ended_ms: Int64Array | None = None

    @cached_property
    def started(self) -> BoolArray:
        """Mask of jobs that started, shape (n,)."""
        return self.start_ms != NEVER_MS

    @cached_property
    def end_ms(self) -> Int64Array:
        """Planned end of each job [ms], possibly after the horizon, or `NEVER_MS`."""
        if self.ended_ms is not None:
            return self.ended_ms
        return np.where(self.started, self.start_ms + self.jobs.duration_ms, NEVER_MS)

    @property
    def first(self) -> BoolArray:
        """Mask of jobs that started for the first time in the window, shape (n,)."""
        return self.started

    @cached_property
    def wait_ms(self) -> Int64Array:
        """Waiting time of each job in the queue [ms]; -1 = never started."""
        return np.where(self.started, self.start_ms - self.jobs.submit_ms, -1)

    @cached_property
    def node_ms(self) -> Int64Array:
        """Node time of each job within the run [node ms]; 0 = never started."""
        run_ms = np.minimum(self.end_ms, self.horizon_ms) - np.maximum(self.start_ms, 0)
        return np.where(self.started, self.jobs.n_nodes * np.maximum(run_ms, 0), 0)

    @property
    def energy_rows(self) -> Int64Array | slice:
        """Job of each entry of energy: one entry per job."""
        return slice(None)

    def occupancy(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return start [ms], end [ms], nodes and pool of each execution interval."""
        jobs = self.jobs
        return (
            self.start_ms,
            self.end_ms,
            jobs.n_nodes.astype(np.int64),
            jobs.pool_id.astype(np.int64),
        )

    def take(self, rows: Int64Array | BoolArray | slice) -> Schedule:
        """Return a schedule of selected jobs."""
        ended_ms = None if self.ended_ms is None else self.ended_ms[rows]
        return Schedule(
            self.jobs.take(rows), self.start_ms[rows], self.horizon_ms, ended_ms
        )


def check_widths(jobs: JobTable, n_nodes: int, slots_per_node: int = 1) -> None:
    """Raise `WorkloadError` if a job needs more nodes than its pool has."""
    too_large = np.flatnonzero(jobs.n_nodes > n_nodes)
    if too_large.size:
        needed = int(jobs.n_nodes[too_large[0]]) // slots_per_node
        raise WorkloadError(
            f"job {jobs.job_id[too_large[0]]} needs {needed} nodes, the pool "
            f"has {n_nodes // slots_per_node} "
            f"({too_large.size} such jobs); it could never start"
        )
