"""`Recurrences`: the runs of a simulation, their Parquet file, and a summary by workload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.files import whole_file
from diploee.neighbours.zeus.workload import TrainingWorkload, default_pair, oracle_pair
from diploee.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)

SCHEMA_VERSION = 2
_METADATA = b"diploee.neighbours.zeus"
SETTLED_FROM = 30
"""Recurrences of a recurring job after which its costs are compared with the oracle's."""


@dataclass(frozen=True, eq=False)
class RecurrenceTable(Table):
    """One row per run of a recurrence; times, energies and costs are scaled by the runtime ratio.

    Energies, costs and powers are of one GPU.
    """

    workload_id: Int16Array = column("int16")  # index into `Recurrences.workloads`
    group_id: Int32Array = column("int32")  # the recurring job, index into `Recurrences.groups`
    seed: Int64Array = column("int64")  # of its draws
    recurrence: Int32Array = column("int32")  # place in its job's history, by start, from 0
    attempt: Int32Array = column("int32")  # run of the recurrence, from 0; a failure has another
    start_s: Float64Array = column("float64")
    runtime_ratio: Float64Array = column("float64")  # run time over that of the traces
    batch_size: Int32Array = column("int32")
    power_limit_w: Float64Array = column("float64")  # after the first epoch, if that was a profile
    time_s: Float64Array = column("float64")
    energy_j: Float64Array = column("float64")
    cost_j: Float64Array = column("float64")
    # Its cost, less the expected cost of the oracle's pair in the first run of a recurrence
    regret_j: Float64Array = column("float64")
    average_power_w: Float64Array = column("float64")  # energy over time
    converged: BoolArray = column("bool")  # it reached its target
    stopped: BoolArray = column("bool")  # stopped early, at beta x the lowest cost so far
    profiled: BoolArray = column("bool")  # its first epoch profiled all power limits
    overlapping: BoolArray = column("bool")  # an earlier run of the job had not ended at its start


@dataclass(frozen=True, eq=False)
class Recurrences:
    """A simulation's recurrences and the names in them.

    Parameters
    ----------
    workloads, groups : tuple of str
        Names by `workload_id` and `group_id`.
    table : RecurrenceTable
        The recurrences.
    settings : mapping
        What they were simulated with, plain values.
    """

    workloads: tuple[str, ...]
    groups: tuple[str, ...]
    table: RecurrenceTable
    settings: Mapping[str, object] = field(default_factory=dict)

    def of_workload(self, name: str) -> RecurrenceTable:
        """Return the recurrences of one workload."""
        return self.table.take(self.table.workload_id == self.workloads.index(name))


def write_recurrences(place: Path | str, recurrences: Recurrences, force: bool = False) -> None:
    """Write recurrences as Parquet; names instead of ids, the settings in the metadata.

    Parameters
    ----------
    place : pathlib.Path or str
        The file.
    recurrences : Recurrences
        What to write.
    force : bool
        Replace a file that stands there.

    Raises
    ------
    InputError
        If the place is taken.
    OutputError
        If it can't be written; nothing is left then.
    """
    table = recurrences.table.to_arrow()
    for name, names in (("workload", recurrences.workloads), ("group", recurrences.groups)):
        at = table.schema.get_field_index(f"{name}_id")
        labels = pa.DictionaryArray.from_arrays(
            table[f"{name}_id"].combine_chunks().cast(pa.int32()), pa.array(names, pa.string())
        )
        table = table.set_column(at, name, labels)
    content = {"schema_version": SCHEMA_VERSION, "settings": dict(recurrences.settings)}
    table = table.replace_schema_metadata({_METADATA: json.dumps(content)})
    with whole_file(place, force) as partial:
        pq.write_table(table, partial, compression="zstd")


@dataclass(frozen=True)
class WorkloadSummary:
    """One workload of a simulation, all its recurring jobs and seeds together."""

    workload: str
    n_recurrences: int
    # Mean cost from the 31st recurrence of a job on, over the oracle's expected cost, both for the
    # same runtime ratios; None where no job recurs that often
    settled_cost_ratio: float | None
    # Sum over all runs, those that failed too, over that of the default pair's expectation
    cost_ratio: float
    energy_ratio: float
    time_ratio: float
    stopped_fraction: float  # of all runs, 0-1
    converged_fraction: float
    batch_size: int  # what the last quarter of each job's recurrences took most often
    power_limit_w: float  # what those with this batch size took most often
    oracle_batch_size: int
    oracle_power_limit_w: float


def summarize(
    workloads: Sequence[TrainingWorkload], recurrences: Recurrences, eta: float
) -> list[WorkloadSummary]:
    """Sum up a simulation by workload, without those that never recurred.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        Those that were simulated.
    recurrences : Recurrences
        The result.
    eta : float
        Weight of the energy in its costs.
    """
    tables = [(workload, recurrences.of_workload(workload.name)) for workload in workloads]
    return [_summary(workload, table, eta) for workload, table in tables if len(table)]


def _summary(workload: TrainingWorkload, table: RecurrenceTable, eta: float) -> WorkloadSummary:
    is_first = table.attempt == 0
    ratio = float(table.runtime_ratio[is_first].sum())
    base, oracle = default_pair(workload, eta), oracle_pair(workload, eta)
    base_energy_j = default_pair(workload, 1.0).cost_j
    base_time_s = workload.mean_time_s(base.row, base.column)
    n_of_job = np.zeros(table.group_id.max() + 1, dtype=np.int64)
    np.maximum.at(n_of_job, table.group_id, table.recurrence + 1)
    late = table.take(table.recurrence >= 0.75 * n_of_job[table.group_id] - 1)
    batch_size = _most_frequent(late.batch_size)
    limit_w = _most_frequent(late.power_limit_w[late.batch_size == batch_size])
    settled = table.take(table.recurrence >= SETTLED_FROM)
    expected_j = oracle.cost_j * settled.runtime_ratio[settled.attempt == 0].sum()
    return WorkloadSummary(
        workload=workload.name,
        n_recurrences=int(is_first.sum()),
        settled_cost_ratio=float(settled.cost_j.sum() / expected_j) if len(settled) else None,
        cost_ratio=float(table.cost_j.sum() / (base.cost_j * ratio)),
        energy_ratio=float(table.energy_j.sum() / (base_energy_j * ratio)),
        time_ratio=float(table.time_s.sum() / (base_time_s * ratio)),
        stopped_fraction=float(table.stopped.mean()),
        converged_fraction=float(table.converged.mean()),
        batch_size=int(batch_size),
        power_limit_w=limit_w,
        oracle_batch_size=oracle.batch_size,
        oracle_power_limit_w=oracle.power_limit_w,
    )


def _most_frequent(values: np.ndarray[tuple[int, ...], np.dtype[np.number]]) -> float:
    unique, counts = np.unique(values, return_counts=True)
    return float(unique[np.argmax(counts)])
