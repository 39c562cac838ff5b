"""`JobLog`: jobs recorded by a scheduler, independent of the file format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from diploee.base.clock import Zone
from diploee.base.errors import Brief
from diploee.base.tables import (
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.base.units import SLOTS_PER_GPU
from diploee.loads.import_counts import ImportCounts
from diploee.scenario.log_replay import JobState

MISSING_MS = -(2**62)
"""Time that a log does not contain [ms]."""

STATES: tuple[str, ...] = get_args(JobState)
"""Final states of a job, in the order of `JobRecords.state_id`; ``"other"`` if
unknown."""

NO_GPU = "on CPUs alone, of a pool that allocates GPUs"
"""Reason for dropping a CPU-only job: it needs no slot of a pool that allocates
GPUs."""

REPORTED_RATIO = 1.05
"""Ratio of node time to GPU time in nodes, of a log's GPU jobs, from which it is
reported."""

GPU_ROUNDING = 1e-6
"""Rounding error by which a sum of GPU fractions may exceed an integer."""


@dataclass(frozen=True, eq=False)
class JobRecords(Table):
    """Logged jobs in the order of submission, ties in the order of the file."""

    # Time of submission [ms] since 1970 UTC, or since the log's own origin if
    # `JobLog.is_relative`
    submit_ms: Int64Array = column("int64")
    # Start on the same clock [ms]; `MISSING_MS` if the log has none
    start_ms: Int64Array = column("int64")
    duration_ms: Int64Array = column("int64")  # run time [ms], positive
    n_nodes: Int32Array = column("int32")  # number of nodes, at least 1
    # Number of GPUs, possibly a fraction; 0 for a CPU-only job, NaN if unknown
    n_gpus: Float64Array = column("float64")
    state_id: Int16Array = column("int16")  # final state, an index into `STATES`
    type_id: Int32Array = column("int32")  # kind of job, an index into `JobLog.types`
    # Energy reported in the log [J]; NaN if it has none
    energy_j: Float64Array = column("float64")
    # Run time requested by the user [ms]; 0 if the log has none
    requested_ms: Int64Array = column("int64", 0)
    # User, account and job name, as indices into `JobLog.labels`; 0 if unknown
    user_id: Int32Array = column("int32", 0)
    account_id: Int32Array = column("int32", 0)
    name_id: Int32Array = column("int32", 0)

    def slots(self, per_node: int, factor: float = 1.0) -> Float64Array:
        """Return the slots of each job on nodes with `per_node` slots.

        A single-node job that requests fewer GPUs than a node has occupies only those
        GPUs: a fraction of one GPU, or whole GPUs rounded up. A job of unknown GPU
        count occupies its whole nodes. A CPU-only job occupies no slot of nodes with
        several slots.
        """
        slots: Float64Array = np.maximum(np.rint(self.n_nodes * factor), 1) * per_node
        gpu_slots = self.n_gpus * SLOTS_PER_GPU
        is_partial = (gpu_slots > 0) & (gpu_slots < per_node) & (self.n_nodes == 1)
        needed = np.maximum(np.rint(gpu_slots[is_partial] * factor), 1)
        # From one GPU up, whole GPUs; from one node up, whole nodes
        for step in (SLOTS_PER_GPU, per_node):
            needed = np.where(
                needed < step, needed, np.ceil(needed / step - GPU_ROUNDING) * step
            )
        slots[is_partial] = needed
        slots[(gpu_slots == 0) & (per_node > 1)] = 0
        return slots

    def small_jobs(self, gpus_per_node: int, factor: float = 1.0) -> tuple[int, float]:
        """Return the count of jobs smaller than a node, and their cost in nodes.

        The cost is the ratio of the node time of all GPU jobs if each occupies whole
        nodes to their GPU time in nodes, or 1 if there are no GPU jobs.
        """
        nodes, n_gpus = self.slots(1, factor), self.n_gpus * factor
        is_small, has_gpus = (
            (n_gpus > 0) & (n_gpus < gpus_per_node) & (nodes == 1),
            n_gpus > 0,
        )
        if not is_small.any():
            return 0, 1.0
        length_ms = self.duration_ms[has_gpus].astype(np.float64)
        ratio = (
            gpus_per_node
            * (nodes[has_gpus] @ length_ms)
            / (n_gpus[has_gpus] @ length_ms)
        )
        return int(is_small.sum()), float(ratio)


@dataclass(frozen=True, eq=False)
class JobLog(Brief):
    """Job log with the counts of its import."""

    source: str  # path of the log
    log_format: str  # name of the format, such as ``"swf"``
    jobs: JobRecords  # recorded jobs
    job_ids: tuple[str, ...]  # job ids in the log, in the order of `jobs`
    # Names of the kinds of jobs; ``("",)`` if the log has none
    types: tuple[str, ...]
    # Offset of the log's local standard time from UTC [min]; None if `is_relative`
    utc_offset_min: int | None
    is_relative: bool  # True if times count from an unknown origin
    counts: ImportCounts  # rows read, dropped, repaired and noted, by cause
    # True if time of day and weekday are true, but month and year are not; months can't
    # be fitted then
    dates_are_shifted: bool = False
    # Name of the log's time zone with its daylight saving; empty for a fixed offset
    time_zone: str = ""
    # True if most timestamps have no zone and the user specified none: they are read as
    # UTC, and a replay takes them as local time of the site
    is_naive: bool = False
    # Labels in the log of ``"user"``, ``"account"`` and ``"name"``; the first is ``""``
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def zone(self) -> Zone:
        """Time zone of the log's local time."""
        return Zone(self.time_zone, self.utc_offset_min or 0)

    def __len__(self) -> int:
        return len(self.jobs)
