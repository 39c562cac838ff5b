"""Base of both SimPy engines: job submissions, and one decision per time.

A decision is made after all events at that time.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, NoReturn

import simpy

from diploee.base.errors import PolicyError
from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H

MAX_IDLE_MS = MS_PER_DAY
"""Time for which a pool may be idle although jobs wait, before its policy raises an
error [ms]."""


class SimpyLoop(ABC):
    """SimPy environment in which jobs are submitted and policies decide."""

    _rule = "a policy starts jobs of view.queue on at most view.free_nodes nodes"

    def __init__(self, begin_ms: int) -> None:
        self._env = simpy.Environment(initial_time=begin_ms)
        # True if policies decide after all events at the present time
        self._is_due = False

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return int(self._env.now)

    def _request_decision(self) -> None:
        """Request a decision at the present time."""
        self._is_due = True

    @abstractmethod
    def _submit(self, job: Any) -> None:
        """Put a job into its queue."""

    @abstractmethod
    def _decide(self) -> None:
        """Let the policies decide, and take their actions."""

    def _run_until(
        self, until_ms: int, jobs: Sequence[Any], submit_ms: Int64Array
    ) -> None:
        """Simulate up to a time: at each time all events, then a decision."""
        env = self._env
        env.process(self._submissions(jobs, submit_ms.tolist()))
        # Events leave no reference cycles, and each full garbage collection visits all
        # jobs of a window, which takes a tenth of the time.
        gc_was_on = gc.isenabled()
        gc.disable()
        try:
            next_ms = env.peek()
            while next_ms < until_ms:
                env.step()
                now_ms, next_ms = next_ms, env.peek()
                if self._is_due and next_ms > now_ms:
                    self._is_due = False
                    self._decide()
                    next_ms = env.peek()
        finally:
            if gc_was_on:
                gc.enable()
        env.run(until=until_ms)

    def _submissions(
        self, jobs: Sequence[Any], submit_ms: Sequence[int]
    ) -> Generator[simpy.Event, None, None]:
        """Submit jobs at their times, as a SimPy process."""
        for job, time_ms in zip(jobs, submit_ms, strict=True):
            yield self._env.timeout(time_ms - self._env.now)
            self._submit(job)

    def _later(self, time_ms: int, call: Callable[..., None], *args: Any) -> None:
        """Call a function at a later time [ms]."""
        timeout = self._env.timeout(time_ms - self._env.now)
        timeout.callbacks.append(lambda _: call(*args))

    def _check_starving(self, pool: Any, now_ms: int) -> None:
        """Raise an error if a policy leaves a pool idle and requests no decision."""
        pool.wakes_ms = [time_ms for time_ms in pool.wakes_ms if time_ms >= now_ms]
        if pool.running or not pool.queue:
            pool.last_busy_ms = max(pool.last_busy_ms, now_ms)
        idle_ms = now_ms - pool.last_busy_ms
        if not pool.wakes_ms and idle_ms >= MAX_IDLE_MS:
            self._refuse(
                pool.policy,
                (
                    f"has left all {pool.n_nodes} nodes free for "
                    f"{idle_ms / MS_PER_H:,.0f} h while {len(pool.queue):,} jobs wait"
                ),
            )

    def _refuse(self, subject: object, text: str, choices: str = "") -> NoReturn:
        """Raise a `PolicyError` about an action of a policy or controller."""
        raise PolicyError(
            (
                f"policy {type(subject).__name__} {text} (at "
                f"{self.now_ms / MS_PER_H:,.4g} h of the run"
            )
            + (f"; have: {choices})" if choices else ")")
            + f"; {self._rule}"
        )
