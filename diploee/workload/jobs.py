"""The list of jobs, and the classes that they are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.scenario import JobClass
from diploee.tables import Float32Array, Int16Array, Int32Array, Int64Array, Table, column


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
        Time for which it occupies its nodes [ms], its start-up included.
    pool_id : numpy.ndarray, int16
        Index of the pool in `Scenario.pool_names`.
    class_id : numpy.ndarray, int16
        Index into `job_classes`.
    profile_id : numpy.ndarray, int32
        Index into the profile library.
    startup_ms : numpy.ndarray, int32
        Time at idle power before the profile begins [ms]; 0 unless given.
    power_factor : numpy.ndarray, float32
        Factor on the profile's power; 1 unless given.
    """

    job_id: Int64Array = column("int64")
    submit_ms: Int64Array = column("int64")
    n_nodes: Int32Array = column("int32")
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")
    class_id: Int16Array = column("int16")
    profile_id: Int32Array = column("int32")
    startup_ms: Int32Array = column("int32", default=0)
    power_factor: Float32Array = column("float32", default=1)


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
