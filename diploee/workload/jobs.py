"""The list of jobs, and the classes that they are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.errors import ProfileError
from diploee.profiles import ProfileLibrary
from diploee.scenario import JobClass, Scenario
from diploee.tables import Int16Array, Int32Array, Int64Array, Table, column


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs in the order of their submission.

    Parameters
    ----------
    job_id : numpy.ndarray, int64
        Number of the job, from 0.
    submit_ms : numpy.ndarray, int64
        Submission, from the start of the run [ms]; non-decreasing.
    n_nodes : numpy.ndarray, int32
        Nodes that the job occupies.
    duration_ms : numpy.ndarray, int64
        Run time [ms].
    pool_id : numpy.ndarray, int16
        Index of the pool in `Scenario.pool_names`.
    class_id : numpy.ndarray, int16
        Index into `job_classes`.
    profile_id : numpy.ndarray, int32
        Index into the profile library.
    """

    job_id: Int64Array = column("int64")
    submit_ms: Int64Array = column("int64")
    n_nodes: Int32Array = column("int32")
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")
    class_id: Int16Array = column("int16")
    profile_id: Int32Array = column("int32")


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


def stream_classes(scenario: Scenario, library: ProfileLibrary) -> tuple[StreamClass, ...]:
    """Return the classes of all job streams; their order gives the `class_id` of tables.

    Raises
    ------
    ProfileError
        If the library has no profile for a class.
    """
    found: list[StreamClass] = []
    for stream_name, job_stream in scenario.streams.items():
        for job_class in job_stream.job_classes():
            try:
                profile_ids = library.select(job_class.workload, job_class.profile_n_nodes)
            except ProfileError as error:
                raise ProfileError(
                    f"streams.{stream_name}: class '{job_class.name}': {error}"
                ) from error
            found.append(StreamClass(stream_name, job_class, profile_ids))
    return tuple(found)
