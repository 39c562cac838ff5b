"""The build-out of a pool: from which date on how many of its nodes stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt

from diploee.errors import shown
from diploee.model import SCALES, Model
from diploee.tables import Float64Array, Int64Array


def refuse_number_as_date(value: object) -> object:
    """Refuse a number where a date is expected."""
    # pydantic would read a bare year such as 2018 as seconds since 1970.
    if isinstance(value, int | float):
        raise ValueError(f"expected an ISO date such as 2018-01-01, found {value!r}")
    return value


def _check_hour(value: datetime) -> datetime:
    if value.tzinfo is not None or value != value.replace(minute=0, second=0, microsecond=0):
        raise ValueError(
            f"must be a date or a whole hour of local time, without a zone, found {shown(value)}"
        )
    return value


class Phase(Model):
    """Nodes of a pool that stand from a date on."""

    since: Annotated[
        datetime, BeforeValidator(refuse_number_as_date), AfterValidator(_check_hour)
    ] = Field(description="When they stand, local time, an ISO date such as 2027-01-01.")
    n_nodes: Annotated[PositiveInt, SCALES] = Field(
        description="Nodes that stand then, those of earlier phases included."
    )


def check_phases(phases: tuple[Phase, ...], n_nodes: int) -> None:
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
    """Nodes of a pool that stand in the course of a run.

    Parameters
    ----------
    first : int
        Nodes that stand from the begin of the simulation on.
    added : tuple of (int, int)
        When more come [ms], above 0 and increasing, and how many.
    """

    first: int
    added: tuple[tuple[int, int], ...] = ()

    @property
    def most(self) -> int:
        """Nodes that stand at the end."""
        return self.first + sum(n_nodes for _, n_nodes in self.added)

    def times(self, factor: int) -> StandingNodes:
        """Return the same in slots, so many of a node."""
        return StandingNodes(self.first * factor, tuple((ms, n * factor) for ms, n in self.added))

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the nodes that stand at times [ms]."""
        steps_ms = np.array([time_ms for time_ms, _ in self.added])
        levels = np.cumsum([self.first, *(n_nodes for _, n_nodes in self.added)])
        standing: Float64Array = levels[np.searchsorted(steps_ms, times_ms, side="right")] * 1.0
        return standing

    def node_ms(self, horizon_ms: int) -> int:
        """Return the node time of a run of a length [node ms]."""
        later = ((horizon_ms - time_ms) * n_nodes for time_ms, n_nodes in self.added)
        return self.first * horizon_ms + sum(later)
