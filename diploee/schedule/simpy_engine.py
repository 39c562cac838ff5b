"""SimPy engine of queues whose running jobs are never stopped, slowed or resized.

At each time all jobs that end release their nodes and all that are submitted join the
queue; then the policy selects the jobs to start, once.
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
    are_job_numbers,
    checked_method,
    estimated_ms,
    wake_ms,
)
from diploee.schedule.simpy_loop import SimpyLoop


class SimpyCluster(SimpyLoop):
    """Engine of one pool of nodes with its queue, simulated by SimPy.

    The engine is the `ClusterView` of its policy.
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
        # Tables of the jobs that wait or run, as Python's integers: reading one element
        # of a NumPy array takes ten times as long.
        self.job_n_nodes: dict[int, int] = {}
        self.job_estimate_ms: dict[int, int] = {}
        self._duration_ms: dict[int, int] = {}
        self._jobs, self._numbers = JobTable.empty(), list[int]()
        self._job_tables: dict[str, dict[int, Any]] = {}
        self.policy = policy
        self._select = checked_method(policy, "select", are_job_numbers, JOBS)
        self._estimate = getattr(policy, "estimate", EXACT)
        self._wants_idle = getattr(policy, "wants_idle", False)
        self._n_jobs = 0
        self._starts_ms: dict[int, int] = {}
        self.wakes_ms: list[int] = []
        self.last_busy_ms = begin_ms
        for time_ms, n_added in added:
            self._later(time_ms, self._add_nodes, n_added)
            self.wakes_ms.append(time_ms)

    # Tables of waiting and running jobs, as in `ClusterView`.
    job_submit_ms = property(lambda self: self._job_table("submit_ms"))
    job_user = property(lambda self: self._job_table("user_id"))
    job_class = property(lambda self: self._job_table("class_id"))
    job_profile_id = property(lambda self: self._job_table("profile_id"))

    def _job_table(self, column: str) -> dict[int, Any]:
        """Return a column of waiting and running jobs by job number."""
        if column not in self._job_tables:  # few policies use these
            values = getattr(self._jobs, column).tolist()
            self._job_tables[column] = dict(zip(self._numbers, values, strict=True))
        return self._job_tables[column]

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        return self._job_table("priority")[job]

    def expected_end_ms(self, job: int) -> int:
        """Return the expected end of a running job [ms], after the present."""
        return max(self.running[job], self.now_ms + 1)

    def wake_at(self, time_ms: int) -> None:
        """Request another decision at a time after the present [ms]."""
        time_ms = wake_ms(self.policy, time_ms, self.now_ms)
        self._later(time_ms, self._request_decision)
        self.wakes_ms.append(time_ms)

    def _add_nodes(self, n_added: int) -> None:
        """Add installed nodes, and request a decision."""
        self.n_nodes += n_added
        self.free_nodes += n_added
        self.last_busy_ms = self.now_ms
        self._request_decision()

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Add jobs and return those that start before a time."""
        self._run_until(until_ms, self._enter(jobs), jobs.submit_ms)
        count, starts_ms = len(self._starts_ms), self._starts_ms
        numbers = np.fromiter(starts_ms, np.int64, count)
        start_ms = np.fromiter(starts_ms.values(), np.int64, count)
        starts_ms.clear()
        self._check_starving(self, until_ms)
        return numbers, start_ms

    def _enter(self, jobs: JobTable) -> list[int]:
        """Add jobs to the tables, remove ended ones; return the new numbers."""
        remaining = sorted([*self.running, *self.queue])
        rows = np.searchsorted(self._numbers, remaining)
        new_numbers = list(range(self._n_jobs, self._n_jobs + len(jobs)))
        self._n_jobs += len(jobs)
        self._numbers = [*remaining, *new_numbers]
        self._jobs = concat([self._jobs.take(rows), jobs])
        self._job_tables.clear()
        self.job_n_nodes = self._job_table("n_nodes")
        self._duration_ms = self._job_table("duration_ms")
        self.job_estimate_ms = self._duration_ms
        if self._estimate != EXACT:
            estimate_ms = estimated_ms(self._estimate, self._jobs).tolist()
            self.job_estimate_ms = dict(zip(self._numbers, estimate_ms, strict=True))
        return new_numbers

    def _submit(self, job: int) -> None:
        """Put a job into the queue."""
        self.queue.append(job)
        self._is_due = True

    def _decide(self) -> None:
        """Let the policy select jobs while some wait, and start them."""
        if self.queue or self._wants_idle:
            self._start(self._select(self))

    def _start(self, chosen: Sequence[int]) -> None:
        """Start jobs; each ends after its run time, by an event with its number."""
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
                free_text = f"{self.free_nodes} are free"
                self._refuse(
                    self.policy, f"starts job {job} on {n_nodes} nodes, {free_text}"
                )
            self.free_nodes -= n_nodes
            self._starts_ms[job] = now_ms
            self.running[job] = now_ms + self.job_estimate_ms[job]
            timeout(self._duration_ms[job], job).callbacks.append(self._end)

    def _end(self, event: simpy.Event) -> None:
        """Release the nodes of a job."""
        job: int = event.value  # type: ignore[assignment]
        del self.running[job]
        self.free_nodes += self.job_n_nodes[job]
        if not self.running:
            self.last_busy_ms = self.now_ms
        if self.queue or self._wants_idle:
            self._is_due = True


class SimpyGpus(SimpyCluster):
    """Engine of one pool under strict FIFO whose jobs may occupy parts of nodes.

    Nodes are counted in slots of GPUs. A job on a part of a GPU gets slots of the first
    GPU with enough free slots. A job on fewer GPUs than a node has gets the first free
    GPUs of the first node with enough of them. A larger job gets the first nodes that
    are completely free. The head of the queue waits until it fits.
    """

    def __init__(self, gpus: Gpus, begin_ms: int = 0) -> None:
        super().__init__(
            gpus.next_gpu.size * SLOTS_PER_GPU, StrictFifo(), begin_ms=begin_ms
        )
        self._gpus, self._positions = gpus, dict[int, int]()

    def _decide(self) -> None:
        """Start the jobs at the head of the queue that fit."""
        startable = list[int]()
        for job in self.queue:
            if not fits_gpus(self._gpus, self.job_n_nodes[job]):
                break
            self._positions[job] = take_gpus(self._gpus, self.job_n_nodes[job])
            startable.append(job)
        self._start(startable)

    def _end(self, event: simpy.Event) -> None:
        """Free the GPUs of a job."""
        free_gpus(self._gpus, self._positions.pop(event.value))  # type: ignore[arg-type]
        super()._end(event)
