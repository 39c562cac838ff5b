"""Shared by SimPy engines.

Submissions, and one decision after all that happens at an instant.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from diploee.base.errors import PolicyError
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H

Callbacks = list[Callable[[simpy.Event], None]]
Job = TypeVar("Job")
LONGEST_IDLE_MS = MS_PER_DAY
"""A pool may stand empty beside a queue for so long before its policy is refused."""
AFTER_ALL = EventPriority(NORMAL + 1)
"""Of the events of one instant, those that come last."""


class SimpyLoop(ABC):
    """An environment in which jobs are submitted and policies decide."""

    _rule = "a policy starts jobs of view.queue on at most view.free_nodes nodes"

    def __init__(self, begin_ms: int) -> None:
        self._env = simpy.Environment(initial_time=begin_ms)
        self._turn_is_due = False
        # An event that was processed is scheduled again: a new one costs as much as
        # both its turns.
        self._idle_events: list[simpy.Event] = []
        self._at_turn: Callbacks = [self._turn]

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return int(self._env.now)

    @abstractmethod
    def _decide(self) -> None:
        """Ask the policies and do what they answer."""

    def _run_until(
        self,
        until_ms: int,
        jobs: Sequence[Job],
        submit_ms: Int64Array,
        enter: Callable[[Job], None],
    ) -> None:
        """Let jobs enter when they are submitted, and simulate up to a time."""
        if jobs:
            wake: Callbacks = []
            submissions = self._submissions(jobs, submit_ms, enter, wake)
            wake.append(submissions.send)
            next(submissions)
        # Events leave no reference cycles behind, and every full collection would walk
        # millions of list entries: without collections the run is a twentieth faster.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._env.run(until=until_ms)
        finally:
            if collecting:
                gc.enable()

    def _submissions(
        self,
        jobs: Sequence[Job],
        submit_ms: Int64Array,
        enter: Callable[[Job], None],
        wake: Callbacks,
    ) -> Generator[None, simpy.Event, None]:
        """Submit one job after another, woken by an event whose callbacks are `wake`.

        The one event is scheduled again for each job and calls this generator itself: a
        `simpy.Process` with a new `Timeout` a job takes twice as long for the same.
        """
        schedule = self._env.schedule
        delays_ms = np.diff(submit_ms, prepend=self.now_ms).tolist()
        event = self._event()
        for job, delay_ms in zip(jobs, delays_ms, strict=True):
            event.callbacks = wake
            schedule(event, NORMAL, delay_ms)
            yield
            enter(job)
        wake.clear()  # it would keep this generator alive
        yield

    def _event(self) -> simpy.Event:
        """Return an event that may be scheduled as it is."""
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        return event

    def _later(
        self,
        delay_ms: int,
        callback: Callable[[simpy.Event], None],
        value: object = None,
    ) -> None:
        """Call back after a time."""
        event = self._event()
        event._value, event.callbacks = value, [callback]
        self._env.schedule(event, NORMAL, delay_ms)

    def _decide_last(self) -> None:
        """Decide once all that happens at this instant has happened."""
        if not self._turn_is_due:
            self._turn_is_due = True
            event = self._idle_events.pop() if self._idle_events else self._event()
            event._value, event.callbacks = None, self._at_turn
            self._env.schedule(event, AFTER_ALL)

    def _turn(self, event: simpy.Event) -> None:
        self._idle_events.append(event)
        self._turn_is_due = False
        self._decide()

    def _check_starving(self, pool: Any, now_ms: int) -> None:
        """Refuse a policy that leaves a pool idle and asks for no later turn."""
        pool.wakes_ms = [time_ms for time_ms in pool.wakes_ms if time_ms >= now_ms]
        if pool.running or not pool.queue:
            pool.last_busy_ms = max(pool.last_busy_ms, now_ms)
        idle_ms = now_ms - pool.last_busy_ms
        if not pool.wakes_ms and idle_ms >= LONGEST_IDLE_MS:
            self._refuse(
                pool.policy,
                (
                    f"has left all {pool.n_nodes} nodes free for "
                    f"{idle_ms / MS_PER_H:,.0f} h while {len(pool.queue):,} jobs wait"
                ),
            )

    def _refuse(self, who: object, what: str, have: str = "") -> NoReturn:
        raise PolicyError(
            (
                f"policy {type(who).__name__} {what} (at "
                f"{self.now_ms / MS_PER_H:,.4g} h of the run"
            )
            + (f"; have: {have})" if have else ")")
            + f"; {self._rule}"
        )
