"""SimPy environment, cluster and GPU slots shared by both SimPy engines.

Submissions, and one decision after all that happens at an instant.
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
"""A pool may stand empty beside a queue for so long before its policy is refused."""


class SimpyLoop(ABC):
    """An environment in which jobs are submitted and policies decide."""

    _rule = "a policy starts jobs of view.queue on at most view.free_nodes nodes"

    def __init__(self, begin_ms: int) -> None:
        self._env = simpy.Environment(initial_time=begin_ms)
        # Whether policies are asked once all of this instant has happened
        self._is_due = False

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return int(self._env.now)

    def _ask(self) -> None:
        self._is_due = True

    @abstractmethod
    def _submit(self, job: Any) -> None:
        """Put a job into its queue."""

    @abstractmethod
    def _decide(self) -> None:
        """Ask the policies and do what they answer."""

    def _run_until(
        self, until_ms: int, jobs: Sequence[Any], submit_ms: Int64Array
    ) -> None:
        """Simulate up to a time, instant after instant.

        First all that happens, then a decision.
        """
        env = self._env
        env.process(self._submissions(jobs, submit_ms.tolist()))
        # Events leave no reference cycles behind, and each full collection would walk
        # all jobs of a window: that takes a tenth of the time.
        collecting = gc.isenabled()
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
            if collecting:
                gc.enable()
        env.run(until=until_ms)

    def _submissions(
        self, jobs: Sequence[Any], submit_ms: Sequence[int]
    ) -> Generator[simpy.Event, None, None]:
        for job, time_ms in zip(jobs, submit_ms, strict=True):
            yield self._env.timeout(time_ms - self._env.now)
            self._submit(job)

    def _later(self, time_ms: int, call: Callable[..., None], *of: Any) -> None:
        """Call a function at a time."""
        self._env.timeout(time_ms - self._env.now).callbacks.append(lambda _: call(*of))

    def _check_starving(self, pool: Any, now_ms: int) -> None:
        """Refuse a policy that leaves a pool idle and asks for no later turn."""
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

    def _refuse(self, who: object, what: str, have: str = "") -> NoReturn:
        raise PolicyError(
            (
                f"policy {type(who).__name__} {what} (at "
                f"{self.now_ms / MS_PER_H:,.4g} h of the run"
            )
            + (f"; have: {have})" if have else ")")
            + f"; {self._rule}"
        )
