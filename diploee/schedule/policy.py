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
    """What a policy sees of one pool. Job numbers are rows of the pool's job table."""

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms]."""
        ...

    n_nodes: int
    """Nodes of the pool."""
    free_nodes: int
    """Nodes that run nothing."""
    queue: deque[int]
    """Waiting jobs in the order of submission. Read only: the engine removes what starts."""
    running: dict[int, int]
    """Jobs that run, each with the time at which it will end [ms]. Read only."""
    job_n_nodes: list[int]
    """Nodes that each job occupies."""
    job_duration_ms: list[int]
    """Run time of each job [ms]."""
    job_profile_id: list[int]
    """Index of each job's power profile in the library."""
    signals: Mapping[str, Callable[[int], float]]
    """Outside signals by name, such as a price, each a function of the time [ms]."""

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms]."""
        ...


class Policy(Protocol):
    """A queue discipline."""

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the queued jobs to start now, in order; together they must fit the free nodes.

        Called after every submission and every end while jobs wait.
        """
        ...


class StrictFifo:
    """First in, first out: jobs start in the order of submission, and the head blocks the queue."""

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the longest run of jobs at the head of the queue that fits the free nodes."""
        free_nodes = view.free_nodes
        chosen = []
        for job in view.queue:
            free_nodes -= view.job_n_nodes[job]
            if free_nodes < 0:
                break
            chosen.append(job)
        return chosen


POLICIES: dict[str, type[Policy]] = {"fifo": StrictFifo}
"""Policies by the name that `Pool.scheduler` uses."""
