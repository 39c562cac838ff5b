"""Queue disciplines: a policy sees the cluster and answers which queued jobs to start now.

The same interface serves strict FIFO and later policies (backfill, power-capped, signal-driven):
all that they may want to know is on `ClusterView`, and `ClusterView.wake_at` calls them again at a
time at which neither a submission nor an end would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class ClusterView(Protocol):
    """What a policy sees of one pool. Jobs are numbered in the order of submission to the pool."""

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        ...

    n_nodes: int
    """Nodes of the pool that stand."""
    free_nodes: int
    """Nodes that run nothing."""
    queue: deque[int]
    """Waiting jobs in the order of submission. Read only: the engine removes what starts."""
    running: dict[int, int]
    """Jobs that run, each with the time at which it will end [ms]. Read only."""
    job_n_nodes: dict[int, int]
    """Nodes that each waiting or running job occupies. These tables are read only."""
    job_duration_ms: dict[int, int]
    """Run time of each [ms]."""

    @property
    def job_profile_id(self) -> dict[int, int]:
        """Index of each one's power profile in the library."""
        ...

    signals: Mapping[str, Callable[[int], float]]
    """Outside signals by name, such as a price, each a function of the time [ms]."""

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms]."""
        ...


class Policy(Protocol):
    """A queue discipline."""

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the queued jobs to start now, in order; together they must fit the free nodes.

        Called after every submission, every end and every addition of nodes while jobs wait.
        """
        ...
