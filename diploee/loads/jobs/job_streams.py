"""Job streams of a run, merged window by window.

Each stream draws or replays its own jobs.
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
"""Entry point group of job sources, by the stream key with their settings."""


class JobStreams:
    """All job streams of a run."""

    def __init__(self, scenario: Scenario, inputs: Inputs) -> None:
        self._scenario = scenario
        builder = LibraryBuilder(inputs.profiles)
        self._sources: list[JobSource] = []
        for name, spec in scenario.streams.items():
            frame = StreamFrame(name, scenario)
            try:
                self._sources.append(_job_source(spec, frame, builder, inputs))
            except (ProfileError, LogFormatError) as error:
                raise type(error)(f"streams.{name}: {error}") from error
            if spec.startup is not None:
                builder.flat()
        self.library = builder.library
        """Profiles by `profile_id`: those of the library, then those of the streams."""
        self.classes: tuple[StreamClass, ...] = tuple(
            c for source in self._sources for c in source.classes
        )
        """Classes by `class_id`."""
        self._class_sources = [
            source for source in self._sources for _ in source.classes
        ]
        self.nodes = [
            scenario.facility.node_type_of(s.pool) for s in self._class_sources
        ]
        """Node type of each class, by `class_id`."""

    @property
    def jobs_per_day(self) -> float:
        """Expected number of jobs per day."""
        return sum(source.jobs_per_day for source in self._sources)

    def asked_nodes(self, pool: str) -> float:
        """Return the mean nodes occupied by a pool's jobs if started at submission.

        If nodes are added during the run, the number applies to the run's start.
        """
        clock = self._scenario.clock
        installed = self._scenario.facility.pools[pool].installed(clock)
        mean = installed.node_ms(clock.horizon_ms) / clock.horizon_ms
        requested = sum(
            source.asked_nodes for source in self._sources if source.pool == pool
        )
        return requested * (installed.first / mean)

    def run_utilization(self, pool: str) -> float:
        """Return the expected occupancy of a pool in the run, 0-1.

        The result is available after an iteration over all `windows`.
        """
        return sum(
            source.run_utilization for source in self._sources if source.pool == pool
        )

    def set_job_counts(self, simulated: Mapping[str, Utilization]) -> None:
        """Determine the number of jobs that each stream submits.

        `simulated` maps each stream with ``match: simulated`` to a function that
        schedules the stream's jobs and returns the mean node occupancy (0-1) of the
        stream's pool.
        """
        for source in self._sources:
            source.set_job_count(simulated.get(source.name))

    def windows(self, spans_per_window: int) -> Iterator[JobTable]:
        """Yield the jobs window by window, each of `spans_per_window` draw spans.

        Jobs are sorted by submission, with ties in the order of the streams, and
        numbered through all windows.
        """
        first_class = np.cumsum([0, *(len(source.classes) for source in self._sources)])
        draws = [source.draws(spans_per_window) for source in self._sources]
        n_jobs = 0
        for _ in range(0, len(draw_spans(self._scenario.clock)), spans_per_window):
            tables = [
                replace(jobs, class_id=jobs.class_id + first_id)
                for jobs, first_id in zip(map(next, draws), first_class, strict=False)
            ]
            jobs = concat(tables) if tables else JobTable.empty()
            if (np.diff(jobs.submit_ms) < 0).any():
                jobs = jobs.take(np.argsort(jobs.submit_ms, kind="stable"))
            n_jobs += len(jobs)
            yield replace(jobs, job_id=np.arange(n_jobs - len(jobs), n_jobs))
            del jobs, tables  # frees memory before the next ones are drawn

    def synchronous(self, class_id: int) -> SynchronousJobs:
        """Return the source of the synchronous jobs of a class."""
        source = self._class_sources[class_id]
        assert isinstance(source, SynchronousJobs)
        return source

    def sections(self, class_id: int, number: int) -> ProfileSections:
        """Return the profile sections of a synchronous job, by class and job number."""
        return self.synchronous(class_id).sections(number)

    def dropped_jobs(self) -> dict[str, dict[str, int]]:
        """Return the numbers of logged jobs dropped or changed.

        The numbers are by stream and cause.
        """
        specs = self._scenario.streams
        return {
            source.name: source.counts
            for source in self._sources
            if specs[source.name].replay is not None
        }

    def matches(self) -> tuple[StreamMatch, ...]:
        """Return the job count of each stream, and its match with the target.

        The result is available after an iteration over all `windows`.
        """
        return tuple(source.match() for source in self._sources)


def _job_source(
    spec: JobStream, frame: StreamFrame, builder: LibraryBuilder, inputs: Inputs
) -> JobSource:
    """Return the source of a stream's jobs."""
    if spec.replay is not None:
        from diploee.loads.jobs.replayed import ReplayedJobs

        return ReplayedJobs(spec, frame, builder, inputs.logs[frame.name])
    if frame.uses_logged_estimates:
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
