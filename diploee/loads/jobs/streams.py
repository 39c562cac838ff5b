"""The jobs of a run, window after window.

Each stream draws or replays its own, here they join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from diploee.base.errors import LogFormatError, ProfileError, WorkloadError
from diploee.base.model import entry_point_objects
from diploee.base.tables import concat
from diploee.loads.jobs.lowering import ProfileSections
from diploee.loads.jobs.source import (
    JobSource,
    LibraryBuilder,
    StreamClass,
    StreamFrame,
    StreamMatch,
    Utilization,
    draw_spans,
)
from diploee.loads.jobs.synchronous import SynchronousJobs
from diploee.loads.jobs.synthetic import SyntheticJobs
from diploee.scenario.job_streams import JobStream
from diploee.scenario.models import Scenario
from diploee.schedule.job_table import JobTable

if TYPE_CHECKING:
    from diploee.loads.inputs import Inputs

JOB_SOURCES = "diploee.job_sources"
"""Group of entry points: sources of jobs by the key of a stream that has their
settings."""


class JobStreams:
    """All job streams of a run."""

    def __init__(self, scenario: Scenario, inputs: Inputs) -> None:
        self._scenario = scenario
        builder = LibraryBuilder(inputs.profiles)
        self._sources: list[JobSource] = []
        for name, spec in scenario.streams.items():
            frame = StreamFrame(name, scenario)
            try:
                self._sources.append(_source(spec, frame, builder, inputs))
            except (ProfileError, LogFormatError) as error:
                raise type(error)(f"streams.{name}: {error}") from error
            if spec.startup is not None:
                builder.flat()
        self.library = builder.library
        """Profiles by `profile_id`: those given, then those that the streams made."""
        self.classes: tuple[StreamClass, ...] = tuple(
            c for source in self._sources for c in source.classes
        )
        """Classes by `class_id`."""
        self._source_of = [source for source in self._sources for _ in source.classes]
        self.nodes = [scenario.facility.node_type_of(s.pool) for s in self._source_of]
        """Pools of the jobs of each class, by `class_id`."""

    @property
    def jobs_per_day(self) -> float:
        """Jobs a day to be expected."""
        return sum(source.jobs_per_day for source in self._sources)

    def asked_nodes(self, pool: str) -> float:
        """Return the nodes that the jobs of a pool ask for on average.

        Where nodes are added in the run, those that they ask for at its start.
        """
        clock = self._scenario.clock
        standing = self._scenario.facility.pools[pool].standing(clock)
        mean = standing.node_ms(clock.horizon_ms) / clock.horizon_ms
        asked = sum(
            source.asked_nodes for source in self._sources if source.pool == pool
        )
        return asked * (standing.first / mean)

    def run_utilization(self, pool: str) -> float:
        """Return the occupancy of a pool to be expected in the run, 0-1.

        After all `windows`.
        """
        return sum(
            source.run_utilization for source in self._sources if source.pool == pool
        )

    def settle(self, simulated: Mapping[str, Utilization]) -> None:
        """Find how many jobs each stream submits.

        `simulated` has, for each stream with ``match: simulated``, what schedules its
        jobs and returns the mean node occupancy (0-1) of its pool.
        """
        for source in self._sources:
            source.settle(simulated.get(source.name))

    def windows(self, n_draws: int) -> Iterator[JobTable]:
        """Yield the jobs of each window of a number of draws.

        In the order of submission, simultaneous ones in the order of their streams,
        numbered throughout.
        """
        first_class = np.cumsum([0, *(len(source.classes) for source in self._sources)])
        of_streams = [source.draws(n_draws) for source in self._sources]
        n_jobs = 0
        for _ in range(0, len(draw_spans(self._scenario.clock)), n_draws):
            lists = [
                replace(jobs, class_id=jobs.class_id + first_id)
                for jobs, first_id in zip(
                    map(next, of_streams), first_class, strict=False
                )
            ]
            jobs = concat(lists) if lists else JobTable.empty()
            if (np.diff(jobs.submit_ms) < 0).any():
                jobs = jobs.take(np.argsort(jobs.submit_ms, kind="stable"))
            n_jobs += len(jobs)
            yield replace(jobs, job_id=np.arange(n_jobs - len(jobs), n_jobs))
            del jobs, lists  # before the next are drawn

    def synchronous(self, class_id: int) -> SynchronousJobs:
        """Return the source of the jobs of a class, which are synchronous."""
        source = self._source_of[class_id]
        assert isinstance(source, SynchronousJobs)
        return source

    def pieces(self, class_id: int, number: int) -> ProfileSections:
        """Return what a synchronous job plays, by its class and its number."""
        return self.synchronous(class_id).pieces(number)

    def left_out(self) -> dict[str, dict[str, int]]:
        """Return the jobs of the logs that the run leaves out or changes, by stream and cause."""  # noqa: E501
        specs = self._scenario.streams
        return {
            of.name: of.counts
            for of in self._sources
            if specs[of.name].replay is not None
        }

    def matches(self) -> tuple[StreamMatch, ...]:
        """Return how the number of jobs of each stream was found.

        After all `windows`.
        """
        return tuple(source.match() for source in self._sources)


def _source(
    spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, inputs: Inputs
) -> JobSource:
    if spec.replay is not None:
        from diploee.loads.jobs.replayed import ReplayedJobs

        return ReplayedJobs(spec, frame, builder, inputs.logs[frame.name])
    if frame.asks_log:
        raise WorkloadError(
            f"streams.{frame.name}: the scheduler of pool '{frame.pool}' has "
            "estimate: logged, but only jobs of a replay have a log; give estimate: "
            "exact, {factor: ...} or {classes: [...]}"
        )
    if spec.synchronous is not None:
        return SynchronousJobs(spec, frame, builder)
    if spec.zeus is not None:
        return entry_point_objects(JOB_SOURCES)["zeus"](
            spec, frame, builder, inputs.zeus[frame.name]
        )
    return SyntheticJobs(spec, frame, builder, inputs.batches)
