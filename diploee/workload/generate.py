"""The list of all jobs of a run: each stream draws or replays its own, here they are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from diploee.errors import LogFormatError, ProfileError
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import concat
from diploee.workload.drawn import DrawnJobs
from diploee.workload.jobs import JobTable, StreamClass
from diploee.workload.match import StreamMatch, Utilization, listed_utilization
from diploee.workload.recurring import RecurringJobs
from diploee.workload.replay import ReplayedJobs
from diploee.workload.shelf import ProfileShelf

__all__ = ["StreamMatch", "Workload", "generate_jobs", "listed_utilization", "stream_classes"]


class JobSource(Protocol):
    """Where the jobs of one stream come from."""

    @property
    def classes(self) -> tuple[StreamClass, ...]:
        """The stream's classes; their profiles are indices of the shelf."""
        ...

    def jobs(self, simulated: Utilization | None) -> tuple[JobTable, StreamMatch]:
        """Return the jobs, `class_id` an index into `classes`, and how their number was found."""
        ...


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a run and how their number was found.

    Parameters
    ----------
    jobs : JobTable
        Jobs in the order of submission.
    classes : tuple of StreamClass
        Classes by `class_id`.
    matches : tuple of StreamMatch
        One per stream.
    library : ProfileLibrary
        Profiles by `profile_id`: those given, then those that the streams made.
    """

    jobs: JobTable
    classes: tuple[StreamClass, ...]
    matches: tuple[StreamMatch, ...]
    library: ProfileLibrary


def generate_jobs(
    scenario: Scenario, library: ProfileLibrary, simulated_utilization: Utilization | None = None
) -> Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    library : ProfileLibrary
        Profiles that the classes draw from; they give the durations.
    simulated_utilization : callable, optional
        Schedules a job table and returns the mean node occupancy (0-1) of its pool; needed where a
        stream has ``match: simulated``.

    Returns
    -------
    Workload
        Jobs in the order of submission; simultaneous ones in the order of their streams.

    Raises
    ------
    ProfileError
        If a class has no profile.
    LogFormatError
        If a job log to replay can't be read.
    WorkloadError
        If a target can't be reached, the text says by how much; or a log does not fit its rules.
    """
    shelf = ProfileShelf(library)
    classes: list[StreamClass] = []
    lists: list[JobTable] = []
    matches: list[StreamMatch] = []
    for name in scenario.streams:
        source = open_source(scenario, name, shelf)
        jobs, match = source.jobs(simulated_utilization)
        lists.append(replace(jobs, class_id=jobs.class_id + len(classes)))
        classes.extend(source.classes)
        matches.append(match)
    merged = concat(lists) if lists else JobTable.empty()
    ordered = merged.take(np.argsort(merged.submit_ms, kind="stable"))
    numbered = replace(ordered, job_id=np.arange(len(ordered)))
    return Workload(numbered, tuple(classes), tuple(matches), shelf.library)


def stream_classes(scenario: Scenario, library: ProfileLibrary) -> tuple[StreamClass, ...]:
    """Return the classes of all job streams; their order gives the `class_id` of tables.

    Raises
    ------
    ProfileError
        If the library has no profile for a class.
    """
    return open_classes(scenario, library)[0]


def open_classes(
    scenario: Scenario, library: ProfileLibrary
) -> tuple[tuple[StreamClass, ...], ProfileLibrary]:
    """Return the classes of all job streams, and the library that their profiles are indices of."""
    shelf = ProfileShelf(library)
    sources = [open_source(scenario, name, shelf) for name in scenario.streams]
    return tuple(c for source in sources for c in source.classes), shelf.library


def open_source(scenario: Scenario, name: str, shelf: ProfileShelf) -> JobSource:
    """Return where a stream's jobs come from."""
    spec = scenario.streams[name]
    kind: Callable[[Scenario, str, ProfileShelf], JobSource] = DrawnJobs
    if spec.replay is not None:
        kind = ReplayedJobs
    elif spec.zeus is not None:
        kind = RecurringJobs
    try:
        return kind(scenario, name, shelf)
    except (ProfileError, LogFormatError) as error:
        raise type(error)(f"streams.{name}: {error}") from error
