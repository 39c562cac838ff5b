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
"""A time that the log does not have."""

STATES: tuple[str, ...] = get_args(JobState)
"""How a job ended; `JobRecords.state_id` indexes this. ``"other"`` where the log does
not tell."""

NO_GPU = "on CPUs alone, of a pool that allocates GPUs"
"""Why a job of a log is left out: it takes nothing of such a pool."""

TOLD_RATIO = 1.05
"""Node time of a log's GPU jobs over their GPU time in nodes, from which on it is
reported."""

GPU_ROUNDING = 1e-6
"""Sums of fractions of GPUs may exceed a whole number by a rounding."""


@dataclass(frozen=True, eq=False)
class JobRecords(Table):
    """Logged jobs in order of submission, ties in the order of the file."""

    # Submission [ms]; since 1970 UTC, or since the log's own origin where
    # `JobLog.is_relative`
    submit_ms: Int64Array = column("int64")
    # Start on the same clock [ms]; `MISSING_MS` where the log has none
    start_ms: Int64Array = column("int64")
    duration_ms: Int64Array = column("int64")  # run time [ms], positive
    n_nodes: Int32Array = column("int32")  # nodes, at least 1
    # GPUs, may be a fraction of one; 0 for a job on CPUs alone, NaN where the log has
    # none
    n_gpus: Float64Array = column("float64")
    state_id: Int16Array = column("int16")  # how it ended, an index into `STATES`
    type_id: Int32Array = column("int32")  # kind of job, an index into `JobLog.types`
    # Energy that the log reports [J]; NaN where it has none
    energy_j: Float64Array = column("float64")
    # Run time that its user asked for [ms]; 0 where the log has none
    requested_ms: Int64Array = column("int64", 0)
    # Who submitted it, for which account and by which job name, indices into
    # `JobLog.labels`; 0 where the log does not tell
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
        asked = self.n_gpus * SLOTS_PER_GPU
        on_part = (asked > 0) & (asked < per_node) & (self.n_nodes == 1)
        part = np.maximum(np.rint(asked[on_part] * factor), 1)
        # From one GPU on whole ones, then whole nodes
        for step in (SLOTS_PER_GPU, per_node):
            part = np.where(
                part < step, part, np.ceil(part / step - GPU_ROUNDING) * step
            )
        slots[on_part] = part
        slots[(asked == 0) & (per_node > 1)] = 0
        return slots

    def small_jobs(self, gpus_per_node: int, factor: float = 1.0) -> tuple[int, float]:
        """Return the count of jobs smaller than a node, and their cost in nodes.

        The cost is the node time of all GPU jobs divided by their GPU time in nodes, or
        1 if there are no GPU jobs.
        """
        nodes, asked = self.slots(1, factor), self.n_gpus * factor
        small, on_gpus = (asked > 0) & (asked < gpus_per_node) & (nodes == 1), asked > 0
        if not small.any():
            return 0, 1.0
        length_ms = self.duration_ms[on_gpus].astype(np.float64)
        ratio = (
            gpus_per_node * (nodes[on_gpus] @ length_ms) / (asked[on_gpus] @ length_ms)
        )
        return int(small.sum()), float(ratio)


@dataclass(frozen=True, eq=False)
class JobLog(Brief):
    """Job log with the counts of its import."""

    source: str  # file that it was read from
    log_format: str  # name of the format, such as ``"swf"``
    jobs: JobRecords  # the jobs
    job_ids: tuple[str, ...]  # the log's own names of the jobs, in the order of `jobs`
    # Names of the kinds of jobs; ``("",)`` where the log has none
    types: tuple[str, ...]
    # Offset of the log's local time from UTC [min], of a zone with daylight saving that
    # of its standard time; None where `is_relative`
    utc_offset_min: int | None
    is_relative: bool  # times count from an origin that the log does not tell
    counts: ImportCounts  # rows read, dropped, repaired and noted, by cause
    # The time of day and the day of the week are true, but month and year are made up;
    # then months can't be fitted
    dates_are_shifted: bool = False
    # Named zone of the log's local time, whose changes of the clock it follows; empty
    # for a fixed offset
    time_zone: str = ""
    # Most stamps name no zone and the user named none: read as UTC, they are the local
    # time of whoever plays them
    is_naive: bool = False
    # The log's words for ``"user"``, ``"account"`` and ``"name"``, the first of each
    # ``""``
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def zone(self) -> Zone:
        """Time zone of the log's local time."""
        return Zone(self.time_zone, self.utc_offset_min or 0)

    def __len__(self) -> int:
        return len(self.jobs)
