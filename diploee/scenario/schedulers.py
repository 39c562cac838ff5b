"""The queue disciplines that a pool may name; each stands beside its code."""

from __future__ import annotations

from diploee.kinds import Kind, Kinds


class SchedulerSpec(Kind):
    """What a scenario says of a pool's queue discipline, a `diploee.schedule.Policy`."""


SCHEDULERS: Kinds[SchedulerSpec] = Kinds("scheduler", SchedulerSpec, "diploee.schedule.policies")
"""Queue disciplines by name: those of the package, and those registered from outside."""
