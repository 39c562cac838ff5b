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
    """Jobs in the order of their submission."""

    job_id: Int64Array = column("int64")  # number of the job, from 0
    # Submission, from the start of the run [ms]; non-decreasing
    submit_ms: Int64Array = column("int64")
    # Nodes that the job occupies; in a pool that allocates GPUs slots, `Facility.slots_per_node` of
    # a node
    n_nodes: Int32Array = column("int32")
    # Time for which it occupies its nodes [ms], its start-up included
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")  # index of the pool in `Scenario.pool_names`
    class_id: Int16Array = column("int16")  # index into `job_classes`
    profile_id: Int32Array = column("int32")  # index into the profile library
    # Time at idle power before the profile begins [ms]; 0 unless given
    startup_ms: Int32Array = column("int32", default=0)
    # Factor on the profile's power, the nodes' `busy_power_factor` included; 1 unless given
    power_factor: Float64Array = column("float64", default=1)
    # Number of a synchronous job among those of its stream, from 1; 0, unless given, plays its
    # profile
    synchronous_id: Int32Array = column("int32", default=0)
    # Run time that its user asked for [ms]; 0 = not known
    requested_ms: Int64Array = column("int64", default=0)
    # Who submitted it, numbered within its stream from 1; 0 = not known
    user_id: Int32Array = column("int32", default=0)
    # Priority of its class, 0-1; 0 unless given
    priority: Float32Array = column("float32", default=0)
