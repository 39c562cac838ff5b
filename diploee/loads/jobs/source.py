"""`JobSource`: where the jobs of one stream come from, some hours of them at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.clock import RunClock
from diploee.errors import WorkloadError
from diploee.scenario import DurationModel, JobClass, JobStream, Scenario
from diploee.schedule.context import DRAW_MS, JobTable
from diploee.streams import stream
from diploee.tables import Int32Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_S

MOST_JOBS = 2_000_000_000
"""Jobs of a stream; a few hours of them are held at a time, some 50 bytes each."""

LONGEST_STARTUP_MS = 24 * MS_PER_H

Utilization = Callable[[Iterable[JobTable]], float]
"""Schedules the jobs of a stream, span after span (`DRAW_MS`), and returns the mean node occupancy
(0-1) of its pool."""


def draw_spans(clock: RunClock) -> range:
    """Return the numbers of the spans that are drawn: 0 begins at the start of the run.

    The first and the last may be cut by the start of the simulation and the end of the run.
    """
    return range(clock.begin_ms // DRAW_MS, -(-clock.horizon_ms // DRAW_MS))


class StreamFrame:
    """What a stream of jobs knows of its run besides its own spec; nodes are counted in slots."""

    def __init__(self, name: str, scenario: Scenario) -> None:
        self.name, self.seed, self.clock = name, scenario.seed, scenario.clock
        self.pool, facility = scenario.streams[name].pool, scenario.facility
        of_pool = facility.pools[self.pool]
        self.pool_id = list(facility.pools).index(self.pool)
        self.slots_per_node = facility.slots_per_node(self.pool)
        self.standing = of_pool.standing(self.clock).times(self.slots_per_node)
        self.node_type = facility.node_type_of(self.pool)
        # The pool's scheduler goes by the run times that a log's users asked for
        self.asks_log = getattr(of_pool.scheduler, "estimate", None) == "logged"
        # Profiles of other GPUs than the pool's are played in proportion to the TDP
        self.scales_by_tdp = of_pool.scale_profiles == "by_tdp"

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


@dataclass(frozen=True)
class StreamClass:
    """A job class of one stream, with the library's profiles that it draws from."""

    stream: str
    job_class: JobClass
    profile_ids: tuple[int, ...]

    @property
    def extrapolation_ratio(self) -> float:
        """Nodes over the nodes of the measured profiles; 1 where nothing is scaled."""
        return self.job_class.n_nodes / self.job_class.profile_n_nodes


@dataclass(frozen=True)
class StreamMatch:
    """How a stream's daily job count came about."""

    stream: str  # its name
    jobs_per_day: float  # daily job count, mean over the span
    match: str  # what was matched: list, simulated, given, replayed, recurring or synchronous
    # Node occupancy asked for, 0-1
    target_utilization: float | None
    # Node occupancy estimated from the list, or simulated where that is matched, 0-1
    matched_utilization: float
    residual: float | None = None  # matched less target
    steps: int = 0  # evaluations of the bisection
    # Jobs of a log left out or changed, by cause
    counts: Mapping[str, int] = field(default_factory=dict)


class JobSource(ABC):
    """Jobs of one stream; `settle` comes first, `draws` as often as one likes, then `match`."""

    kind: str  # name of the source in `StreamMatch.match`
    classes: tuple[StreamClass, ...]  # their profiles are indices of the extended library

    def __init__(self, stream: JobStream, frame: StreamFrame) -> None:
        self._stream, self._frame = stream, frame
        self.name, self.pool = frame.name, frame.pool
        self.counts: dict[str, int] = {}
        self._n_jobs = self._listed_ms = 0

    @property
    @abstractmethod
    def jobs_per_day(self) -> float:
        """Jobs a day to be expected, for the length of a window."""

    @property
    @abstractmethod
    def asked_nodes(self) -> float:
        """Nodes that its jobs ask for on average, as if each started at once."""

    def settle(self, simulated: Utilization | None) -> None:  # noqa: B027
        """Find how many jobs are submitted; `simulated` is needed by ``match: simulated``."""

    def draws(self) -> Iterator[JobTable]:
        """Yield the jobs of each span of `DRAW_MS`, in the order of submission.

        `class_id` is an index into `classes`; `job_id` is set where the streams are joined.
        """
        self._n_jobs = self._listed_ms = 0
        for jobs in self._draws():
            self._n_jobs += int(np.count_nonzero(jobs.submit_ms >= 0))
            self._listed_ms += int(node_ms(jobs, self._frame.clock.horizon_ms).sum())
            yield jobs
            del jobs  # before the next are drawn

    @abstractmethod
    def _draws(self) -> Iterator[JobTable]: ...

    def match(self) -> StreamMatch:
        """Return how the number of jobs was found; known once `draws` was gone through."""
        per_day = self._n_jobs / (self._frame.clock.horizon_ms / MS_PER_DAY)
        return StreamMatch(
            self.name, per_day, self.kind, None, self._listed, counts=dict(self.counts)
        )

    @property
    def _listed(self) -> float:
        """Occupancy that the jobs ask for, 0-1."""
        return self._listed_ms / self._frame.capacity_ms

    def _jobs(self, submit_ms: Int64Array, **columns: Any) -> JobTable:
        """Return jobs with these columns, and those that all jobs of a stream share."""
        return JobTable(
            job_id=np.zeros(submit_ms.size, dtype=np.int64),
            submit_ms=submit_ms,
            pool_id=np.full(submit_ms.size, self._frame.pool_id),
            **columns,
        )

    def _startups_ms(self, n_jobs: int, *names: int) -> Int32Array:
        """Draw the time from allocation to the first power above idle; 0 if the stream has none."""
        startup: DurationModel | None = self._stream.startup
        if startup is None:
            return np.zeros(n_jobs, dtype=np.int32)
        rng = stream(self._frame.seed, "startup", self.name, *names)
        drawn_ms = startup.draw(rng, n_jobs) * MS_PER_S
        return np.rint(np.minimum(drawn_ms, LONGEST_STARTUP_MS)).astype(np.int32)


def node_ms(jobs: JobTable, horizon_ms: int) -> Int64Array:
    """Return the node time of each job within the run, as if it started at once [node ms].

    Over nodes and horizon it is Eq. 1 with N(t) from submissions and expected durations (2.3.1).
    """
    end_ms = np.minimum(jobs.submit_ms + jobs.duration_ms, horizon_ms)
    run_ms = np.maximum(end_ms - np.maximum(jobs.submit_ms, 0), 0)
    asked: Int64Array = jobs.n_nodes.astype(np.int64) * run_ms
    return asked


def draw_profiles(
    classes: Sequence[StreamClass], class_id: npt.NDArray[np.integer], rng: np.random.Generator
) -> Int32Array:
    """Draw for every job one of its class's profiles, each with the same probability."""
    n_profiles = np.array([len(c.profile_ids) for c in classes])
    replicate = (rng.random(class_id.size) * n_profiles[class_id]).astype(np.int64)
    profile_of = np.zeros((len(classes), n_profiles.max()), dtype=np.int32)
    for row, c in enumerate(classes):
        profile_of[row, : len(c.profile_ids)] = c.profile_ids
    profile_id: Int32Array = profile_of[class_id, replicate]
    return profile_id


def check_n_jobs(n_jobs: float, where: str, remedy: str) -> None:
    """Raise `WorkloadError` where a stream would have more jobs than can be simulated."""
    if not n_jobs <= MOST_JOBS:  # also NaN
        raise WorkloadError(f"{where}: {n_jobs:,.4g} jobs, more than {MOST_JOBS:,}; {remedy}")
