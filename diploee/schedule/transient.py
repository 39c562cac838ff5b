"""`Transient`: how long a run that begins empty fills up, which is left out of its extremes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diploee.clock import RunClock
from diploee.schedule.schedule import Schedule
from diploee.tables import Int64Array


class Transient:
    """The time in which pools fill up, as their schedule comes about.

    A pool has filled up when its busy nodes first reach the mean that its jobs ask for, or a job
    first has to wait. The whole has when every pool has, at the latest after half the run.

    `asked_nodes` are the nodes that the jobs of each pool, by its index, ask for on average. A run
    with a warm-up begins filled.
    """

    def __init__(self, clock: RunClock, asked_nodes: Mapping[int, float]) -> None:
        self._step_ms = clock.step_ms
        self._latest_ms = clock.horizon_ms // 2 // clock.step_ms * clock.step_ms
        self._filling = {} if clock.warm_up_ms else dict(asked_nodes)
        self._running = np.zeros((3, 0), dtype=np.int64)
        self._pool_id = np.zeros(0, dtype=np.int64)
        self._end_ms = 0

    @property
    def end_ms(self) -> int:
        """Its end, a whole number of intervals [ms]; while it lasts, the latest one."""
        return self._latest_ms if self._filling else min(self._end_ms, self._latest_ms)

    def see(self, started: Schedule, until_ms: int) -> None:
        """Take in the jobs that started since the last call and before a time [ms]."""
        if not self._filling:
            return
        *new, new_pool_id = started.occupied()
        jobs = np.concatenate([self._running, np.stack(new)], axis=1)
        pool_id = np.concatenate([self._pool_id, new_pool_id])
        late = started.first & (started.wait_ms > 0)
        late_ms = np.where(late, started.start_ms, np.iinfo(np.int64).max)
        for of_pool, n_nodes in list(self._filling.items()):
            reached_ms = [
                *late_ms[started.jobs.pool_id == of_pool],
                *_first_with(jobs[:, pool_id == of_pool], n_nodes, until_ms),
            ]
            filled_ms = int(min(reached_ms, default=until_ms))
            if filled_ms < until_ms:
                del self._filling[of_pool]
                self._end_ms = max(self._end_ms, -(-filled_ms // self._step_ms) * self._step_ms)
        still = jobs[1] > until_ms
        self._running, self._pool_id = jobs[:, still], pool_id[still]


def _first_with(jobs: Int64Array, n_nodes: float, until_ms: int) -> Int64Array:
    """Return the first time before another at which jobs take at least so many nodes, if any."""
    start_ms, end_ms, of_job = jobs
    times_ms = np.concatenate([end_ms, start_ms])  # of equal times the ends come first
    order = np.argsort(times_ms, kind="stable")
    level = np.cumsum(np.concatenate([-of_job, of_job])[order])
    times_ms = times_ms[order]
    first: Int64Array = times_ms[(level >= n_nodes) & (times_ms < until_ms)][:1]
    return first
