"""The SimPy engine: two events a job, its submission and its end."""

from __future__ import annotations

import gc
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping

import numpy as np
import simpy

from diploee.schedule.policy import Policy
from diploee.tables import Int64Array
from diploee.workload import JobTable

CHUNK_JOBS = 1 << 14
"""Submissions between two reports of progress."""

Progress = Callable[[int, int], None]
"""Called with the simulated time [ms] and the number of jobs submitted so far."""


class SimpyCluster:
    """One pool of nodes with its queue, simulated by SimPy; the `ClusterView` of its policy.

    Parameters
    ----------
    jobs : JobTable
        Jobs of the pool in the order of submission.
    n_nodes : int
        Nodes of the pool.
    policy : Policy
        Queue discipline.
    signals : mapping, optional
        Outside signals for the policy, functions of the time [ms].
    """

    def __init__(
        self,
        jobs: JobTable,
        n_nodes: int,
        policy: Policy,
        signals: Mapping[str, Callable[[int], float]] | None = None,
    ) -> None:
        self.n_nodes = n_nodes
        self.free_nodes = n_nodes
        self.queue: deque[int] = deque()
        self.running: dict[int, int] = {}
        # Python lists: reading one element of a NumPy array costs ten times as much.
        self.job_n_nodes: list[int] = jobs.n_nodes.tolist()
        self.job_duration_ms: list[int] = jobs.duration_ms.tolist()
        self.job_profile_id: list[int] = jobs.profile_id.tolist()
        self.signals: Mapping[str, Callable[[int], float]] = signals or {}
        self._submit_ms = jobs.submit_ms
        self._policy = policy
        self._start_ms = array("q", [-1]) * len(jobs)
        self._env = simpy.Environment(initial_time=0)
        self._timeout = self._env.timeout

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms]."""
        return int(self._env.now)

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms]."""
        self._timeout(time_ms - self.now_ms).callbacks.append(self._wake)

    def _wake(self, _: simpy.Event) -> None:
        if self.queue:
            self._decide()

    def run(self, horizon_ms: int, progress: Progress | None = None) -> Int64Array:
        """Simulate up to the horizon.

        Returns
        -------
        numpy.ndarray, int64
            Start of each job [ms], -1 where it never started.
        """
        if len(self._start_ms):
            self._env.process(self._submissions(progress))
        # Events leave no reference cycles behind, and every full collection would walk millions of
        # list entries: without collections the run is a twentieth faster.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._env.run(until=horizon_ms)
        finally:
            if collecting:
                gc.enable()
        return np.array(self._start_ms, dtype=np.int64)

    def _submissions(self, progress: Progress | None) -> Generator[simpy.Event, None, None]:
        timeout, enqueue, decide = self._timeout, self.queue.append, self._decide
        for first_job, delays_ms in _delays(self._submit_ms):
            if progress is not None:
                progress(self.now_ms, first_job)
            for job, delay_ms in enumerate(delays_ms, first_job):
                yield timeout(delay_ms)
                enqueue(job)
                decide()

    def _decide(self) -> None:
        """Ask the policy and start what it chose."""
        for job in self._policy.select(self):
            queue = self.queue
            if job == queue[0]:
                queue.popleft()
            else:
                queue.remove(job)
            self.free_nodes -= self.job_n_nodes[job]
            if self.free_nodes < 0:
                raise RuntimeError(
                    f"{type(self._policy).__name__} started job {job} on {self.job_n_nodes[job]} "
                    f"nodes, {-self.free_nodes} more than were free"
                )
            now_ms: int = self._env.now  # type: ignore[assignment]  # all times here are whole ms
            duration_ms = self.job_duration_ms[job]
            self._start_ms[job] = now_ms
            self.running[job] = now_ms + duration_ms
            self._timeout(duration_ms, job).callbacks.append(self._end)

    def _end(self, event: simpy.Event) -> None:
        job = event._value  # the property `value` checks first what is known here
        del self.running[job]
        self.free_nodes += self.job_n_nodes[job]
        if self.queue:
            self._decide()


def _delays(submit_ms: Int64Array) -> Iterator[tuple[int, list[int]]]:
    """Yield chunks of the times between submissions, each with the number of its first job."""
    before_ms = 0
    for first_job in range(0, submit_ms.size, CHUNK_JOBS):
        chunk_ms = submit_ms[first_job : first_job + CHUNK_JOBS]
        yield first_job, np.diff(chunk_ms, prepend=before_ms).tolist()
        before_ms = int(chunk_ms[-1])
