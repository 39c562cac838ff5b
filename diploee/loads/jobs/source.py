"""`JobSource`: where the jobs of one stream come from, some hours of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from diploee.clock import RunClock
from diploee.loads.jobs.classes import StreamClass
from diploee.loads.jobs.match import StreamMatch, Utilization
from diploee.scenario import NodeType, StandingNodes
from diploee.schedule.job_table import DRAW_MS, JobTable
from diploee.units import MS_PER_DAY


def draw_spans(clock: RunClock) -> range:
    """Return the numbers of the spans that are drawn: 0 begins at the start of the run.

    The first and the last may be cut by the begin of the simulation and the end of the run.
    """
    return range(clock.begin_ms // DRAW_MS, -(-clock.horizon_ms // DRAW_MS))


@dataclass(frozen=True)
class StreamFrame:
    """What a stream of jobs knows of its run besides its own spec."""

    name: str  # the stream
    seed: int  # seed of the run
    clock: RunClock  # span of the run
    pool: str  # name of the pool that runs its jobs
    pool_id: int  # index of that pool
    standing: StandingNodes  # nodes of the pool that stand, in slots
    node_type: NodeType  # what its nodes are
    # The pool's scheduler goes by the run times that a log's users asked for
    asks_log: bool = False
    # `Facility.slots_per_node`; all counts of nodes of the stream's jobs and of its pool are of
    # slots
    slots_per_node: int = 1
    # Profiles of other GPUs than the pool's are played in proportion to the TDP
    scales_by_tdp: bool = False

    @property
    def spans(self) -> range:
        """Numbers of the spans that are drawn."""
        return draw_spans(self.clock)

    @property
    def n_days(self) -> float:
        """Days that are simulated, those of the warm-up included."""
        return self.clock.simulated_ms / MS_PER_DAY

    @property
    def n_nodes(self) -> int:
        """Nodes of the pool, at their most."""
        return self.standing.most

    @property
    def capacity_ms(self) -> int:
        """Node time of the pool over the run, that of the nodes that stand [node ms]."""
        return self.standing.node_ms(self.clock.horizon_ms)

    @property
    def mean_nodes(self) -> float:
        """Nodes that stand, mean over the run."""
        return self.capacity_ms / self.clock.horizon_ms


class JobSource(Protocol):
    """Jobs of one stream; `settle` comes first, `draws` as often as one likes, then `match`."""

    @property
    def name(self) -> str:
        """The stream."""
        ...

    @property
    def classes(self) -> tuple[StreamClass, ...]:
        """The stream's classes; their profiles are indices of the extended library."""
        ...

    @property
    def jobs_per_day(self) -> float:
        """Jobs a day to be expected, for the length of a window."""
        ...

    @property
    def asked_nodes(self) -> float:
        """Nodes that its jobs ask for on average, as if each started at once."""
        ...

    def settle(self, simulated: Utilization | None) -> None:
        """Find how many jobs are submitted; `simulated` is needed by ``match: simulated``."""
        ...

    def draws(self) -> Iterator[JobTable]:
        """Yield the jobs of each span of `DRAW_MS`, in the order of submission.

        `class_id` is an index into `classes`; `job_id` is set where the streams are joined.
        """
        ...

    def match(self) -> StreamMatch:
        """Return how the number of jobs was found; known once `draws` was gone through."""
        ...
