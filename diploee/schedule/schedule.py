"""`Schedule`: when each job starts; from one engine or the other, pool by pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from diploee.errors import WorkloadError
from diploee.scenario import Pool, Scenario
from diploee.tables import BoolArray, Int64Array
from diploee.workload import JobTable

Engine = Literal["simpy", "compiled"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Jobs with their start times.

    Parameters
    ----------
    jobs : JobTable
        Jobs in the order of submission.
    start_ms : numpy.ndarray, shape (n,), int64
        Start of each job [ms]; -1 = never started before the horizon.
    horizon_ms : int
        End of the run [ms].
    """

    jobs: JobTable
    start_ms: Int64Array
    horizon_ms: int

    @cached_property
    def started(self) -> BoolArray:
        """Whether each job started, shape (n,)."""
        return self.start_ms >= 0

    @cached_property
    def end_ms(self) -> Int64Array:
        """Planned end of each job [ms], which may lie beyond the horizon; -1 = never started."""
        return np.where(self.started, self.start_ms + self.jobs.duration_ms, -1)

    @cached_property
    def wait_ms(self) -> Int64Array:
        """Queue time of each job [ms]; -1 = never started."""
        return np.where(self.started, self.start_ms - self.jobs.submit_ms, -1)

    def of_pool(self, pool_id: int) -> Schedule:
        """Return the schedule of one pool's jobs."""
        rows = self.jobs.pool_id == pool_id
        if rows.all():
            return self
        return Schedule(self.jobs.take(rows), self.start_ms[rows], self.horizon_ms)

    def queued_at(self, times_ms: Int64Array) -> Int64Array:
        """Return how many jobs wait at instants: submitted by then, and not yet started."""
        submitted = np.searchsorted(self.jobs.submit_ms, times_ms, side="right")
        started = np.searchsorted(self._sorted_start_ms, times_ms, side="right")
        return (submitted - started).astype(np.int64)

    @cached_property
    def _sorted_start_ms(self) -> Int64Array:
        return np.sort(self.start_ms[self.started], kind="stable")

    def mean_utilization(self, n_nodes: int) -> float:
        """Return the mean node occupancy up to the horizon, 0-1 (Eq. 1)."""
        run_ms = np.minimum(self.end_ms, self.horizon_ms) - self.start_ms
        node_ms = int((self.jobs.n_nodes * run_ms)[self.started].sum())
        return node_ms / (n_nodes * self.horizon_ms)


def schedule_pool(
    jobs: JobTable,
    pool: Pool,
    horizon_ms: int,
    engine: Engine = "simpy",
    progress: Progress | None = None,
) -> Schedule:
    """Schedule the jobs of one pool.

    Parameters
    ----------
    jobs : JobTable
        The pool's jobs in the order of submission.
    pool : Pool
        Its nodes and its scheduler.
    horizon_ms : int
        End of the run [ms].
    engine : {"simpy", "compiled"}
        Both give the same start times, job for job.
    progress : callable, optional
        Called now and then with the simulated time [ms] and the jobs submitted so far.

    Raises
    ------
    WorkloadError
        If a job is wider than the pool; strict FIFO would wait for it forever.
    """
    too_wide = np.flatnonzero(jobs.n_nodes > pool.n_nodes)
    if too_wide.size:
        raise WorkloadError(
            f"job {jobs.job_id[too_wide[0]]} needs {jobs.n_nodes[too_wide[0]]} nodes, the pool has "
            f"{pool.n_nodes} ({too_wide.size} such jobs); it could never start"
        )
    if engine == "compiled":
        from diploee.schedule.compiled_engine import fifo_start_ms

        start_ms = fifo_start_ms(
            jobs.submit_ms, jobs.n_nodes, jobs.duration_ms, pool.n_nodes, horizon_ms
        )
    else:
        from diploee.schedule.policy import POLICIES
        from diploee.schedule.simpy_engine import SimpyCluster

        policy = POLICIES[pool.scheduler]()
        start_ms = SimpyCluster(jobs, pool.n_nodes, policy).run(horizon_ms, progress)
    return Schedule(jobs, start_ms, horizon_ms)


def schedule_jobs(
    jobs: JobTable,
    scenario: Scenario,
    engine: Engine = "simpy",
    progress: Progress | None = None,
) -> Schedule:
    """Schedule the jobs of all pools; arguments and errors as in `schedule_pool`."""
    start_ms = np.full(len(jobs), -1, dtype=np.int64)
    for pool_id, pool in enumerate(scenario.facility.pools.values()):
        rows = np.flatnonzero(jobs.pool_id == pool_id)
        if rows.size:
            of_pool = schedule_pool(jobs.take(rows), pool, scenario.horizon_ms, engine, progress)
            start_ms[rows] = of_pool.start_ms
    return Schedule(jobs, start_ms, scenario.horizon_ms)
