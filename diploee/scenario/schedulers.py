"""The queue disciplines that a pool may name; each stands beside its code."""

from __future__ import annotations

from collections.abc import Iterator

from diploee.kinds import Kind, Kinds
from diploee.problems import KeyPath
from diploee.scenario.flexibility import Flexibility


class SchedulerSpec(Kind):
    """What a scenario says of a pool's queue discipline, a `diploee.schedule.Policy`."""

    def problems(
        self,
        idle_power_w: float,  # noqa: ARG002
        flexibility: Flexibility | None,  # noqa: ARG002
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield what is wrong between it and the rest of a scenario, each with its key.

        Parameters
        ----------
        idle_power_w : float
            Power of all nodes of the facility without a job [W].
        flexibility : Flexibility, optional
            What the scenario says of signals and events.
        """
        yield from ()


SCHEDULERS: Kinds[SchedulerSpec] = Kinds("scheduler", SchedulerSpec, "diploee.schedule.policies")
"""Queue disciplines by name: those of the package, and those registered from outside."""
