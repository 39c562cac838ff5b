"""Pools: nodes that share a queue, its discipline, and from which date on they are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, PositiveInt, SerializeAsAny, model_validator

from diploee.clock import RunClock
from diploee.errors import shown
from diploee.model import MAX_NODES, SCALES, Kind, Kinds, Model, optional
from diploee.plain_data import KeyPath
from diploee.scenario.flexibility import Flexibility
from diploee.scenario.times import LocalTime
from diploee.tables import Float64Array, Int64Array


def _check_hour(value: datetime) -> datetime:
    if value.tzinfo is not None or value != value.replace(minute=0, second=0, microsecond=0):
        raise ValueError(
            f"must be a date or a whole hour of local time, without a zone, found {shown(value)}"
        )
    return value


class Phase(Model):
    """Nodes of a pool that stand from a date on."""

    since: Annotated[LocalTime, AfterValidator(_check_hour)] = Field(
        description="When they stand, local time, an ISO date such as 2027-01-01."
    )
    n_nodes: Annotated[PositiveInt, SCALES] = Field(
        description="Nodes that stand then, those of earlier phases included."
    )


def _check_phases(phases: tuple[Phase, ...], n_nodes: int) -> None:
    """Raise `ValueError` unless phases follow each other, each with more nodes, up to `n_nodes`."""
    for before, after in pairwise(phases):
        if after.since <= before.since:
            raise ValueError(
                f"phases overlap: {_told(after)} is listed behind {_told(before)}; give each a "
                "date of its own, in the order of time"
            )
        if after.n_nodes <= before.n_nodes:
            raise ValueError(
                f"phases must add nodes, as jobs may run on all that stand: {_told(after)} are no "
                f"more than {_told(before)}; give the nodes of all phases so far"
            )
    if phases[-1].n_nodes > n_nodes:
        raise ValueError(
            f"phases: {_told(phases[-1])} are more than the pool's n_nodes of {n_nodes:,}; raise "
            "n_nodes to that"
        )


def _told(phase: Phase) -> str:
    return f"{phase.n_nodes:,} nodes since {phase.since:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


@dataclass(frozen=True)
class StandingNodes:
    """Nodes of a pool that stand in the course of a run."""

    first: int  # nodes that stand from the start of the simulation on
    # When more come [ms], above 0 and increasing, and how many
    added: tuple[tuple[int, int], ...] = ()

    @property
    def most(self) -> int:
        """Nodes in place at the end."""
        return self.first + sum(n_nodes for _, n_nodes in self.added)

    def times(self, factor: int) -> StandingNodes:
        """Return the same in slots, of which a node has `factor`."""
        return StandingNodes(self.first * factor, tuple((ms, n * factor) for ms, n in self.added))

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the number of nodes in place at times [ms]."""
        steps_ms = np.array([time_ms for time_ms, _ in self.added])
        levels = np.cumsum([self.first, *(n_nodes for _, n_nodes in self.added)])
        standing: Float64Array = levels[np.searchsorted(steps_ms, times_ms, side="right")] * 1.0
        return standing

    def node_ms(self, horizon_ms: int) -> int:
        """Return the node time of a run of a length [node ms]."""
        later = ((horizon_ms - time_ms) * n_nodes for time_ms, n_nodes in self.added)
        return self.first * horizon_ms + sum(later)


class SchedulerSpec(Kind):
    """Settings of a pool's queue discipline in a scenario, a `diploee.schedule.Policy`."""

    def problems(
        self,
        idle_power_w: float,  # noqa: ARG002
        flexibility: Flexibility | None,  # noqa: ARG002
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield what is wrong between it and the rest of a scenario, each with its key.

        `idle_power_w` is the power of all nodes of the facility without a job [W].
        """
        yield from ()


SCHEDULERS: Kinds[SchedulerSpec] = Kinds("scheduler", SchedulerSpec, "diploee.schedule.policies")
"""Queue disciplines by name: those of the package, and those registered from outside."""


class Pool(Model):
    """Nodes of one type that share a queue."""

    node_type: str = Field(description="Name of an entry of facility.node_types.")
    n_nodes: Annotated[PositiveInt, Field(le=MAX_NODES), SCALES] = Field(
        description="Nodes in the pool."
    )
    scheduler: Annotated[SerializeAsAny[SchedulerSpec], SCHEDULERS] = Field(
        default="fifo",
        validate_default=True,
        description="Queue discipline, by name or as a group of keys with its kind; fifo is "
        "strict: the head of the queue blocks. easy lets jobs behind the head start where they do "
        "not delay it, conservative where they delay none, sjf takes the shortest first, "
        "priority weighs several factors.",
    )
    allocate: Literal["nodes", "gpus"] = Field(
        default="nodes",
        description="Resources of jobs: whole nodes, or gpus, so that jobs on fewer GPUs than a "
        "node has share nodes, each on the first node with enough free ones, parts of a GPU on the "
        "first GPU with as much free; wider jobs take whole nodes. A job on k of the g GPUs of a "
        "node draws k/g of the profile of a node, free GPUs their part of its idle power. fifo "
        "only; the GPUs of jobs are n_gpus of their class or those of the replayed log.",
        exclude_if=lambda value: value == "nodes",
    )
    scale_profiles: Literal["by_tdp"] | None = optional(
        "How profiles of jobs on other GPUs than its nodes' are played: by_tdp in proportion to "
        "the TDP of a node's GPUs, run times as they are. If absent, they are refused."
    )
    phases: tuple[Phase, ...] | None = optional(
        "How many of its nodes stand from when on; none before the first phase, all of them all "
        "through the run if absent. A phase that begins with the run holds in its warm-up too. "
        "Drawn jobs are submitted, and requests that no trace gives are made, in proportion to the "
        "nodes that stand, a target_utilization is of their node time over the run, and the "
        "utilization (Eq. 1) of those that stand.",
        min_length=1,
    )

    @model_validator(mode="after")
    def _phases_rise(self) -> Self:
        if self.phases is not None:
            _check_phases(self.phases, self.n_nodes)
        return self

    @property
    def fewest_nodes(self) -> int:
        """Nodes of the first phase; all where there are none."""
        return self.phases[0].n_nodes if self.phases else self.n_nodes

    def standing(self, clock: RunClock) -> StandingNodes:
        """Return how many of the nodes stand in the course of a run."""
        if self.phases is None:
            return StandingNodes(self.n_nodes)
        times_ms = [clock.wall.time_ms(phase.since) for phase in self.phases]
        levels = [0, *(phase.n_nodes for phase in self.phases)]
        added = [
            (time_ms, after - before)
            for time_ms, before, after in zip(times_ms, levels, levels[1:], strict=False)
        ]
        first = sum(n_nodes for time_ms, n_nodes in added if time_ms <= 0)
        return StandingNodes(first, tuple(step for step in added if step[0] > 0))
