"""SimPy engine of plain queues: one process submits jobs, each run is a timeout.

At each instant all jobs that end give their nodes back and all that are submitted join
the queue; then the policy says once which of the queue start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import simpy

from diploee.base.clock import WallClock
from diploee.base.tables import Int64Array, concat
from diploee.base.units import SLOTS_PER_GPU
from diploee.schedule.context import RUN_TIME
from diploee.schedule.job_table import JobTable
from diploee.schedule.kernels import Gpus, fits_gpus, free_gpus, take_gpus
from diploee.schedule.policies.easy import StrictFifo
from diploee.schedule.policy import (
    EXACT,
    JOBS,
    Policy,
    are_jobs,
    asked,
    estimated_ms,
    wake_ms,
)
from diploee.schedule.simpy_loop import SimpyLoop


class SimpyCluster(SimpyLoop):
    """One pool of nodes with its queue, simulated by SimPy.

    The `ClusterView` of its policy.
    """

    def __init__(
        self,
        n_nodes: int,
        policy: Policy,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
        clock: WallClock = RUN_TIME,
    ) -> None:
        super().__init__(begin_ms)
        self.clock = clock
        self.n_nodes = n_nodes
        self.free_nodes = n_nodes
        self.queue: deque[int] = deque()
        self.running: dict[int, int] = {}
        # Of the jobs that wait or run. Python's integers: reading one element of a
        # NumPy array costs ten times as much.
        self.job_n_nodes: dict[int, int] = {}
        self.job_estimate_ms: dict[int, int] = {}
        self._duration_ms: dict[int, int] = {}
        self._jobs, self._numbers = JobTable.empty(), list[int]()
        self._asked_for: dict[str, dict[int, Any]] = {}
        self.policy = policy
        self._select = asked(policy, "select", are_jobs, JOBS)
        self._estimate = getattr(policy, "estimate", EXACT)
        self._wants_idle = getattr(policy, "wants_idle", False)
        self._n_jobs = 0
        self._starts_ms: dict[int, int] = {}
        self.wakes_ms: list[int] = []
        self.last_busy_ms = begin_ms
        for time_ms, more in added:
            self._later(time_ms, self._add, more)
            self.wakes_ms.append(time_ms)

    # Of each waiting or running job, as `ClusterView` says.
    job_submit_ms = property(lambda self: self._of_jobs("submit_ms"))
    job_user = property(lambda self: self._of_jobs("user_id"))
    job_class = property(lambda self: self._of_jobs("class_id"))
    job_profile_id = property(lambda self: self._of_jobs("profile_id"))

    def _of_jobs(self, column: str) -> dict[int, Any]:
        if column not in self._asked_for:  # few policies ask
            values = getattr(self._jobs, column).tolist()
            self._asked_for[column] = dict(zip(self._numbers, values, strict=True))
        return self._asked_for[column]

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        return self._of_jobs("priority")[job]

    def expected_end_ms(self, job: int) -> int:
        """Return when a running job is expected to end [ms], after now."""
        return max(self.running[job], self.now_ms + 1)

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms], after now."""
        time_ms = wake_ms(self.policy, time_ms, self.now_ms)
        self._later(time_ms, self._ask)
        self.wakes_ms.append(time_ms)

    def _add(self, more: int) -> None:
        """Let more nodes stand, and see whether jobs have waited for them."""
        self.n_nodes += more
        self.free_nodes += more
        self.last_busy_ms = self.now_ms
        self._ask()

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time."""
        self._run_until(until_ms, self._enter(jobs), jobs.submit_ms)
        count, starts_ms = len(self._starts_ms), self._starts_ms
        numbers = np.fromiter(starts_ms, np.int64, count)
        start_ms = np.fromiter(starts_ms.values(), np.int64, count)
        starts_ms.clear()
        self._check_starving(self, until_ms)
        return numbers, start_ms

    def _enter(self, jobs: JobTable) -> list[int]:
        """Add jobs to the tables of those that wait or run, drop those that ended.

        Return new.
        """
        alive = sorted([*self.running, *self.queue])
        rows = np.searchsorted(self._numbers, alive)
        new = list(range(self._n_jobs, self._n_jobs + len(jobs)))
        self._n_jobs += len(jobs)
        self._numbers = [*alive, *new]
        self._jobs = concat([self._jobs.take(rows), jobs])
        self._asked_for.clear()
        self.job_n_nodes = self._of_jobs("n_nodes")
        self._duration_ms = self._of_jobs("duration_ms")
        self.job_estimate_ms = self._duration_ms
        if self._estimate != EXACT:
            estimate_ms = estimated_ms(self._estimate, self._jobs).tolist()
            self.job_estimate_ms = dict(zip(self._numbers, estimate_ms, strict=True))
        return new

    def _submit(self, job: int) -> None:
        self.queue.append(job)
        self._is_due = True

    def _decide(self) -> None:
        """Ask the policy while jobs wait, and start what it chose."""
        if self.queue or self._wants_idle:
            self._start(self._select(self))

    def _start(self, chosen: Sequence[int]) -> None:
        """Let jobs run; each ends after its run time, with its number as the event's value."""  # noqa: E501
        queue, now_ms, timeout = self.queue, self.now_ms, self._env.timeout
        for job in chosen:
            if queue and job == queue[0]:
                queue.popleft()
            elif job in queue:
                queue.remove(job)
            else:
                self._refuse(self.policy, f"starts job {job}, which does not wait")
            n_nodes = self.job_n_nodes[job]
            if n_nodes > self.free_nodes:
                free = f"{self.free_nodes} are free"
                self._refuse(
                    self.policy, f"starts job {job} on {n_nodes} nodes, {free}"
                )
            self.free_nodes -= n_nodes
            self._starts_ms[job] = now_ms
            self.running[job] = now_ms + self.job_estimate_ms[job]
            timeout(self._duration_ms[job], job).callbacks.append(self._end)

    def _end(self, event: simpy.Event) -> None:
        """Give back the nodes of a job."""
        job: int = event.value  # type: ignore[assignment]
        del self.running[job]
        self.free_nodes += self.job_n_nodes[job]
        if not self.running:
            self.last_busy_ms = self.now_ms
        if self.queue or self._wants_idle:
            self._is_due = True


class SimpyGpus(SimpyCluster):
    """One pool under strict FIFO of which jobs may have a part.

    It counts slots of its GPUs. A job on a part of a GPU takes it of the first GPU with
    as much free; one on fewer GPUs than a node has takes the first wholly free ones of
    the first node with as many; a wider one the first nodes that are wholly free. The
    head of the queue waits until it fits.
    """

    def __init__(self, gpus: Gpus, begin_ms: int = 0) -> None:
        super().__init__(
            gpus.next_gpu.size * SLOTS_PER_GPU, StrictFifo(), begin_ms=begin_ms
        )
        self._gpus, self._places = gpus, dict[int, int]()

    def _decide(self) -> None:
        chosen = list[int]()
        for job in self.queue:
            if not fits_gpus(self._gpus, self.job_n_nodes[job]):
                break
            self._places[job] = take_gpus(self._gpus, self.job_n_nodes[job])
            chosen.append(job)
        self._start(chosen)

    def _end(self, event: simpy.Event) -> None:
        free_gpus(self._gpus, self._places.pop(event.value))  # type: ignore[arg-type]
        super()._end(event)
