"""`Recurrences`: what each recurrence of a simulation took, and its Parquet file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from diploee.files import whole_file
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
