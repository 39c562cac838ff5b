"""Queue disciplines: a policy sees the cluster and answers which queued jobs to start now.

It knows of a job what a scheduler knows: what was submitted and how long the job is thought to run
(`diploee.schedule.estimates`), never how long it will run in truth. `ClusterView.wake_at` asks it
again at a time at which neither a submission nor an end would.
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
    """Jobs that run, each with its start plus its estimate [ms], which lies in the past where it
    runs longer (`expected_end_ms`). Read only."""
    job_n_nodes: dict[int, int]
    """Nodes that each waiting or running job occupies. These tables are read only."""
    job_estimate_ms: dict[int, int]
    """How long each is thought to run [ms], at least 1: its policy's `estimate`, the true run time
    where the policy has none."""

    @property
    def job_submit_ms(self) -> dict[int, int]:
        """When each was submitted [ms]."""
        ...

    @property
    def job_user(self) -> dict[int, int]:
        """Number of each one's user within its stream; 0 = not known."""
        ...

    @property
    def job_class(self) -> dict[int, int]:
        """Index of each one's job class."""
        ...

    @property
    def job_profile_id(self) -> dict[int, int]:
        """Index of each one's power profile in the library."""
        ...

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        ...

    def expected_end_ms(self, job: int) -> int:
        """Return when a running job is expected to end [ms], after now.

        That is its start plus its estimate; of a job that has run longer the next ms.
        """
        ...

    signals: Mapping[str, Callable[[int], float]]
    """Outside signals by name, such as a price, each a function of the time [ms]."""

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms]."""
        ...


class Policy(Protocol):
    """A queue discipline; one with an attribute `estimate` says how long jobs are thought to run.

    One with an attribute `wants_idle` that is true is asked while no job waits, too.
    """

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the queued jobs to start now, in order; together they must fit the free nodes.

        Called while jobs wait, once at each instant at which a job is submitted or ends, nodes are
        added or `ClusterView.wake_at` asked for it: after all that happens at that instant.
        """
        ...
