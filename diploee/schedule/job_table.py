"""`JobTable`: the list of jobs that a schedule takes in."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.tables import (
    Float32Array,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.units import MS_PER_DAY

DRAW_MS = MS_PER_DAY // 4
"""Span that is drawn at once, counted from the start of the run: however long the windows of a run
are, what is drawn for a span is the same. A gigawatt's jobs of six hours fill some 200 MB."""


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
