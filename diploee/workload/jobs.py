"""The list of jobs, and the classes that they are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diploee.errors import WorkloadError
from diploee.scenario import JobClass
from diploee.tables import (
    Float32Array,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)

MOST_JOBS = 2_000_000_000
"""Jobs of a stream; a few hours of them are held at a time, some 50 bytes each."""


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
        Nodes that the job occupies; in a pool that allocates GPUs slots, `Facility.slots_per_node`
        of a node.
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
    power_factor : numpy.ndarray, float64
        Factor on the profile's power, the nodes' `busy_power_factor` included; 1 unless given.
    course_id : numpy.ndarray, int32
        Number of a job with a course of its own among those of its stream, from 1; 0, unless given,
        plays its profile.
    requested_ms : numpy.ndarray, int64
        Run time that its user asked for [ms]; 0 = not known.
    user_id : numpy.ndarray, int32
        Who submitted it, numbered within its stream from 1; 0 = not known.
    priority : numpy.ndarray, float32
        Priority of its class, 0-1; 0 unless given.
    """

    job_id: Int64Array = column("int64")
    submit_ms: Int64Array = column("int64")
    n_nodes: Int32Array = column("int32")
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")
    class_id: Int16Array = column("int16")
    profile_id: Int32Array = column("int32")
    startup_ms: Int32Array = column("int32", default=0)
    power_factor: Float64Array = column("float64", default=1)
    course_id: Int32Array = column("int32", default=0)
    requested_ms: Int64Array = column("int64", default=0)
    user_id: Int32Array = column("int32", default=0)
    priority: Float32Array = column("float32", default=0)


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


def draw_profiles(
    classes: Sequence[StreamClass], class_id: npt.NDArray[np.integer], rng: np.random.Generator
) -> Int32Array:
    """Draw for every job one of its class's profiles, each with the same probability.

    Parameters
    ----------
    classes : sequence of StreamClass
        Classes of a stream.
    class_id : numpy.ndarray, shape (n,), int
        Class of each job.
    rng : numpy.random.Generator
        One number is taken per job.

    Returns
    -------
    numpy.ndarray, shape (n,), int32
        Index of each job's profile.
    """
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
