"""The SimPy engine: two events a job, its submission and its end."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from diploee.errors import PolicyError
from diploee.schedule.estimates import EXACT, estimated_ms
from diploee.schedule.policies.fifo import StrictFifo
from diploee.schedule.policy import Policy, Viewed, asked, jobs_read, wake_ms
from diploee.tables import Int64Array, concat
from diploee.units import MS_PER_DAY, MS_PER_H
from diploee.workload import JobTable

Callbacks = list[Callable[[simpy.Event], None]]
LONGEST_IDLE_MS = MS_PER_DAY
"""A pool may stand empty beside a queue for so long before its policy is refused."""
AFTER_ALL = EventPriority(NORMAL + 1)
"""Of the events of one instant, those that come last."""


class SimpyCluster(Viewed):
    """One pool of nodes with its queue, simulated by SimPy; the `ClusterView` of its policy.

    Parameters
    ----------
    n_nodes : int
        Nodes of the pool.
    policy : Policy
        Queue discipline.
    signals : mapping, optional
        Outside signals for the policy, functions of the time [ms].
    begin_ms : int
        Time at which the simulation begins [ms].
    added : sequence of (int, int)
        When further nodes are added [ms], and how many.
    """

    def __init__(
        self,
        n_nodes: int,
        policy: Policy,
        signals: Mapping[str, Callable[[int], float]] | None = None,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.n_nodes = n_nodes
        self.free_nodes = n_nodes
        self.queue: deque[int] = deque()
        self.running: dict[int, int] = {}
        self.signals: Mapping[str, Callable[[int], float]] = signals or {}
        # Of the jobs that wait or run. Python's integers: reading one element of a NumPy array
        # costs ten times as much.
        self.job_n_nodes: dict[int, int] = {}
        self.job_estimate_ms: dict[int, int] = {}
        self._duration_ms: dict[int, int] = {}
        self._jobs, self._numbers = JobTable.empty(), list[int]()
        self._asked_for: dict[str, dict[int, Any]] = {}
        self._policy = policy
        self._select = asked(policy, "select", jobs_read, "numbers of jobs of view.queue")
        self._estimate = getattr(policy, "estimate", EXACT)
        self._wants_idle = getattr(policy, "wants_idle", False)
        # Strict FIFO starts the same jobs whether or not it has seen all of an instant; an event
        # less for each of its decisions.
        self._ask = self._decide if type(policy) is StrictFifo else self._decide_last
        self._turn_is_due = False
        self._n_jobs = 0
        self._new_jobs: list[int] = []
        self._starts_ms: dict[int, int] = {}
        self._wakes_ms: list[int] = []
        self._last_end_ms = begin_ms
        self._env = simpy.Environment(initial_time=begin_ms)
        # An event that was processed is scheduled again: a new one costs as much as both its turns.
        self._idle_events: list[simpy.Event] = []
        self._at_end: Callbacks = [self._end]
        self._at_turn: Callbacks = [self._turn]
        for time_ms, more in added:
            self._env.timeout(time_ms - begin_ms, more).callbacks.append(self._add)
            self._wakes_ms.append(time_ms)

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return int(self._env.now)

    @property
    def job_submit_ms(self) -> dict[int, int]:
        """When each waiting or running job was submitted [ms]."""
        return self._of_jobs("submit_ms")

    @property
    def job_user(self) -> dict[int, int]:
        """Number of the user of each waiting or running job; 0 = not known."""
        return self._of_jobs("user_id")

    @property
    def job_class(self) -> dict[int, int]:
        """Index of the class of each waiting or running job."""
        return self._of_jobs("class_id")

    @property
    def job_profile_id(self) -> dict[int, int]:
        """Index of the power profile of each waiting or running job."""
        return self._of_jobs("profile_id")

    def _of_jobs(self, column: str) -> dict[int, Any]:
        if column not in self._asked_for:  # few policies ask
            values = getattr(self._jobs, column).tolist()
            self._asked_for[column] = dict(zip(self._numbers, values, strict=True))
        return self._asked_for[column]

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        priority: float = self._of_jobs("priority")[job]
        return priority

    def expected_end_ms(self, job: int) -> int:
        """Return when a running job is expected to end [ms], after now."""
        return max(self.running[job], self.now_ms + 1)

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms], after now."""
        time_ms = wake_ms(self._policy, time_ms, self.now_ms)
        self._env.timeout(time_ms - self.now_ms).callbacks.append(self._wake)
        self._wakes_ms.append(time_ms)

    def _add(self, event: simpy.Event) -> None:
        """Add nodes, and see whether jobs have waited for them."""
        self.n_nodes += event._value
        self.free_nodes += event._value
        self._last_end_ms = max(self._last_end_ms, self.now_ms)
        self._wake(event)

    def _wake(self, _: simpy.Event) -> None:
        if self.queue or self._wants_idle:
            self._ask()

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time, as `PoolEngine` says.

        Raises
        ------
        PolicyError
            If the policy starts what it may not, or nothing at all.
        """
        if len(jobs):
            self._enter(jobs)
            wake: Callbacks = []
            submissions = self._submissions(jobs.submit_ms, wake)
            wake.append(submissions.send)
            next(submissions)
        # Events leave no reference cycles behind, and every full collection would walk millions of
        # list entries: without collections the run is a twentieth faster.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._env.run(until=until_ms)
        finally:
            if collecting:
                gc.enable()
        count, starts_ms = len(self._starts_ms), self._starts_ms
        numbers = np.fromiter(starts_ms, np.int64, count)
        start_ms = np.fromiter(starts_ms.values(), np.int64, count)
        starts_ms.clear()
        self._check_starving(until_ms, numbers, start_ms)
        return numbers, start_ms

    def _enter(self, jobs: JobTable) -> None:
        """Add jobs to the tables of those that wait or run, and drop those that ended."""
        alive = {*self.queue, *self.running}
        rows = [row for row, job in enumerate(self._numbers) if job in alive]
        first = self._n_jobs
        self._n_jobs += len(jobs)
        # The same integers as keys and in the queue: a look-up finds them by identity.
        self._new_jobs = list(range(first, self._n_jobs))
        self._numbers = [*(self._numbers[row] for row in rows), *self._new_jobs]
        self._jobs = concat([self._jobs.take(np.array(rows, dtype=np.int64)), jobs])
        self._asked_for.clear()
        self.job_n_nodes = self._of_jobs("n_nodes")
        self._duration_ms = self._of_jobs("duration_ms")
        self.job_estimate_ms = self._duration_ms
        if self._estimate != EXACT:
            estimate_ms = estimated_ms(self._estimate, self._jobs).tolist()
            self.job_estimate_ms = dict(zip(self._numbers, estimate_ms, strict=True))

    def _submissions(
        self, submit_ms: Int64Array, wake: Callbacks
    ) -> Generator[None, simpy.Event, None]:
        """Submit one job after another, woken by an event whose callbacks are `wake`.

        The one event is scheduled again for each job and calls this generator itself: a
        `simpy.Process` with a new `Timeout` a job takes twice as long for the same.
        """
        schedule, enqueue, ask = self._env.schedule, self.queue.append, self._ask
        delays_ms = np.diff(submit_ms, prepend=self.now_ms).tolist()
        event = _event(self._env)
        for job, delay_ms in zip(self._new_jobs, delays_ms, strict=True):
            event.callbacks = wake
            schedule(event, NORMAL, delay_ms)
            yield
            enqueue(job)
            ask()
        wake.clear()  # it would keep this generator alive
        yield

    def _decide_last(self) -> None:
        """Decide once all that happens at this instant has happened."""
        if not self._turn_is_due:
            self._turn_is_due = True
            event = self._idle_events.pop() if self._idle_events else _event(self._env)
            event._value, event.callbacks = None, self._at_turn
            self._env.schedule(event, AFTER_ALL)

    def _turn(self, event: simpy.Event) -> None:
        self._idle_events.append(event)
        self._turn_is_due = False
        self._decide()

    def _decide(self) -> None:
        """Ask the policy and start what it chose."""
        chosen = self._select(self)
        if not chosen:
            return
        queue, n_nodes_of, duration_of = self.queue, self.job_n_nodes, self._duration_ms
        estimate_of = self.job_estimate_ms
        env, idle_events, at_end = self._env, self._idle_events, self._at_end
        now_ms: int = env._now  # type: ignore[assignment]  # all times here are whole ms
        for job in chosen:
            if queue and job == queue[0]:
                queue.popleft()
            elif job in queue:
                queue.remove(job)
            else:
                self._refuse(f"starts job {job}, which does not wait")
            n_nodes, duration_ms = n_nodes_of[job], duration_of[job]
            if n_nodes > self.free_nodes:
                self._refuse(f"starts job {job} on {n_nodes} nodes, {self.free_nodes} are free")
            self.free_nodes -= n_nodes
            self._starts_ms[job] = now_ms
            self.running[job] = now_ms + estimate_of[job]
            event = idle_events.pop() if idle_events else _event(env)
            event._value, event.callbacks = job, at_end
            env.schedule(event, NORMAL, duration_ms)

    def _end(self, event: simpy.Event) -> None:
        job = event._value  # the property `value` checks first what is known here
        self._idle_events.append(event)
        del self.running[job]
        self.free_nodes += self.job_n_nodes[job]
        if self.queue or self._wants_idle:
            self._ask()

    def _check_starving(self, now_ms: int, jobs: Int64Array, start_ms: Int64Array) -> None:
        """Refuse a policy that leaves the pool empty beside a queue and asks for no later turn."""
        self._wakes_ms = [time_ms for time_ms in self._wakes_ms if time_ms >= now_ms]
        if self.running:
            return
        duration_ms = [self._duration_ms[job] for job in jobs.tolist()]
        self._last_end_ms = int(np.max(start_ms + duration_ms, initial=self._last_end_ms))
        idle_ms = now_ms - self._last_end_ms
        if self.queue and not self._wakes_ms and idle_ms >= LONGEST_IDLE_MS:
            self._refuse(
                f"has left all {self.n_nodes} nodes free for {idle_ms / MS_PER_H:,.0f} h while "
                f"{len(self.queue):,} jobs wait"
            )

    def _refuse(self, what: str) -> None:
        raise PolicyError(
            f"policy {type(self._policy).__name__} {what} (at {self.now_ms / MS_PER_H:,.4g} h of "
            "the run); a policy starts jobs of view.queue on at most view.free_nodes nodes"
        )


def _event(env: simpy.Environment) -> simpy.Event:
    """Return an event that may be scheduled as it is."""
    event = simpy.Event(env)
    event._ok, event._value = True, None
    return event
