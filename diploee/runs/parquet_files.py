"""Writers of a run's Parquet files: facility, jobs, nodes, event windows at 0.1 s."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.base.clock import RunClock, instant_ms, zone_name
from diploee.base.column_specs import (
    Column,
    Columns,
    catalogue,
    column_dicts,
    find_column,
)
from diploee.base.model import entry_point_objects
from diploee.base.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    arrow_numbers,
    arrow_texts,
    concat,
    open_parquet,
)
from diploee.base.units import MS_PER_H, MS_PER_S, PROFILE_STEP_MS, W_PER_MW
from diploee.base.validation import Record, parse_json
from diploee.base.version import full_version
from diploee.facility.base import STAGES, Block
from diploee.facility.before_stores import BEFORE_STORES
from diploee.loads.jobs import StreamClass
from diploee.loads.services.load import SERVICE_COLUMNS
from diploee.metrics.attribution import LOAD_COLUMNS
from diploee.metrics.causes import Causes
from diploee.metrics.flexibility import BASELINE_COLUMNS
from diploee.metrics.load_changes import Extreme
from diploee.power.blocks import AC_COLUMNS, PHASE_COLUMNS, POWER_COLUMNS
from diploee.power.extreme_windows import BASIS, EventWindowSearch
from diploee.power.segments import SERVICE_OWNER, node_slots, owner_class, owner_job
from diploee.scenario.extension_loads import LOADS
from diploee.scenario.models import Scenario
from diploee.schedule.job_table import JobTable
from diploee.schedule.placement import HeldNodes
from diploee.schedule.schedule import QUEUE_COLUMNS
from diploee.schedule.started import NEVER_MS, Schedule

FACILITY_FILE = "facility.parquet"
ZOOMS_FOLDER = "zooms"
METADATA_KEY = b"diploee.facility"
MIN_ROWS_PER_GROUP = 1 << 15
"""Minimum rows per row group; a group has at least an hour."""


def declared_columns() -> Columns:
    """Return all columns that loads and power may have, for files without metadata."""
    return catalogue(
        POWER_COLUMNS,
        PHASE_COLUMNS,
        QUEUE_COLUMNS,
        SERVICE_COLUMNS,
        LOAD_COLUMNS,
        BASELINE_COLUMNS,
        BEFORE_STORES,
        *(kind.columns_of(None) for kind in entry_point_objects(LOADS).values()),
    )


def stored_columns(path: Path) -> Columns:
    """Read the column declarations of a series file.

    Older files without them get today's declarations.
    """
    with open_parquet(path, {}) as file:
        content = (file.schema_arrow.metadata or {}).get(METADATA_KEY, b"{}")
    head = parse_json(content, f"{path}: metadata", _Metadata)
    if head.columns is None:
        return declared_columns()
    if any(column.role for column in head.columns):
        return tuple(head.columns)
    # Older files have no roles: take those of today's columns of the same name.
    stage_columns = (
        column for spec in STAGES.by_name.values() for column in spec.columns
    )
    declared = {c.name: c for c in (*POWER_COLUMNS, *AC_COLUMNS, *stage_columns)}
    return tuple(
        replace(c, role=declared[c.name].role, part=declared[c.name].part)
        if c.name in declared
        else c
        for c in head.columns
    )


class _Metadata(Record, strict=False):
    """Metadata of a series file that is read back."""

    columns: list[Column] | None = None


def timestamps(
    times_ms: Int64Array, clock: RunClock, missing: BoolArray | None = None
) -> pa.Array:
    """Return simulated times [ms] as Arrow timestamps in the facility's zone.

    Times in `missing` are null.
    """
    kind = pa.timestamp("ms", tz=zone_name(clock.start_with_zone.tzinfo or UTC))
    return arrow_numbers(
        times_ms + instant_ms(clock.start_with_zone), kind, missing=missing
    )


class FacilityFile:
    """A sink that writes the power series (context manager).

    `columns` are the declarations of all columns, `head` is further metadata: scenario,
    hash, seed.
    """

    def __init__(
        self, path: Path, clock: RunClock, columns: Columns, head: Mapping[str, Any]
    ) -> None:
        self._path, self._clock, self._columns, self._head = path, clock, columns, head
        is_double = BEFORE_STORES[0] in columns
        self._kind: type = np.float64 if is_double else np.float32
        self._writer: pq.ParquetWriter | None = None
        self._buffered: list[pa.Table] = []
        self._n_buffered, self._group_rows = 0, MIN_ROWS_PER_GROUP

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            if error is None:
                self._write(self._n_buffered)
            self._writer.close()

    def add(self, block: Block) -> None:
        """Append a block: powers as float32, counts as int32, NaN as null."""
        columns = {
            name: _to_stored_array(values, self._kind)
            for name, values in block.columns.items()
        }
        table = pa.table(
            {"timestamp": timestamps(block.starts_ms, self._clock), **columns}
        )
        if self._writer is None:
            self._writer = self._open(table, block.dt_ms)
            self._group_rows = max(MIN_ROWS_PER_GROUP, MS_PER_H // block.dt_ms)
        self._buffered.append(table)
        self._n_buffered += table.num_rows
        # Only complete row groups, whatever the length of blocks
        self._write(self._n_buffered // self._group_rows * self._group_rows)

    def _write(self, n_rows: int) -> None:
        """Write the first `n_rows` buffered rows."""
        if not n_rows or self._writer is None:
            return
        table = pa.concat_tables(self._buffered)
        self._writer.write_table(table.slice(0, n_rows), self._group_rows)
        self._buffered, self._n_buffered = (
            [table.slice(n_rows)],
            self._n_buffered - n_rows,
        )

    def _open(self, table: pa.Table, step_ms: int) -> pq.ParquetWriter:
        """Open the file with the schema of a first table."""
        head = {
            "diploee_version": full_version(),
            **self._head,
            "resolution_s": step_ms / MS_PER_S,
            "convention": "timestamp is the start of the interval",
            "units": {
                name: find_column(name, self._columns)[0].line()
                for name in table.column_names[1:]
            },
            "columns": column_dicts(self._columns),
        }
        metadata = {METADATA_KEY: json.dumps(head, sort_keys=True).encode()}
        schema = table.schema.with_metadata(metadata)
        return pq.ParquetWriter(
            self._path,
            schema,
            compression="zstd",
            use_dictionary=False,
            column_encoding={
                field.name: "DELTA_BINARY_PACKED"
                if field.name == "timestamp" or pa.types.is_integer(field.type)
                else "BYTE_STREAM_SPLIT"
                for field in schema
            },
        )


def _to_stored_array(values: np.ndarray[Any, Any], kind: type) -> pa.Array:
    """Return values as they are stored: int32, or floats of a kind with nulls."""
    if values.dtype.kind in "iu":
        return arrow_numbers(values.astype(np.int32, copy=False))
    missing = np.isnan(values)
    return arrow_numbers(
        values.astype(kind, copy=False), missing=missing if missing.any() else None
    )


def write_event_windows(
    folder: Path,
    search: EventWindowSearch,
    clock: RunClock,
    columns: Columns,
    head: Mapping[str, Any],
    causes: Causes,
) -> dict[str, Any]:
    """Write each event window at 0.1 s, and return the `zooms` block of the metrics."""
    (folder / ZOOMS_FOLDER).mkdir()
    windows = []
    for event, segments, blocks in search.event_windows():
        name = f"{ZOOMS_FOLDER}/{event.name}.parquet"
        with FacilityFile(folder / name, clock, columns, head) as file:
            written_blocks = []
            for block in blocks:
                file.add(block)
                written_blocks.append(block)
        cause = causes.split(Extreme(*event.compared_ms), [segments], written_blocks)
        wall_time = clock.wall.at(event.at_ms)
        windows.append(
            {
                "name": event.name,
                "at": wall_time.isoformat(timespec="seconds"),
                "value_mw": event.value_w / W_PER_MW,
                "window_s": (event.end_ms - event.start_ms) / MS_PER_S,
                "file": name,
                "cause": causes.entry(cause),
            }
        )
    return {
        "basis": BASIS,
        "resolution_s": PROFILE_STEP_MS / MS_PER_S,
        "windows": windows,
    }


JOBS_FILE = "jobs.parquet"
ROWS_PER_GROUP = 1 << 18


class JobsFile:
    """Writer of the jobs; times of a job that never started are null.

    Jobs submitted before the run are written only if they wait or run at its start.
    `end_time` is the planned end, possibly after the run; `energy_j` is the energy
    within the run. If there are several pools or job streams, the last columns are
    `pool` or `stream`. If a pool allocates GPUs, a column `n_gpus` follows `n_nodes`. A
    job is written once the ends of all earlier jobs are known.
    """

    def __init__(
        self,
        path: Path,
        scenario: Scenario,
        classes: Sequence[StreamClass],  # by `class_id`
        profile_ids: Sequence[str],  # by `profile_id`
    ) -> None:
        facility, self._clock = scenario.facility, scenario.clock
        self._pools, self._streams = scenario.pool_names(), list(scenario.streams)
        self._profile_ids = profile_ids
        self._classes = [c.job_class.name for c in classes]
        self._stream_of = np.array(
            [self._streams.index(c.stream) for c in classes], np.int16
        )
        self._slots = node_slots(facility).astype(np.int32)
        self._n_gpus = np.array(
            [facility.node_type_of(pool).n_gpus for pool in facility.pools]
        )
        self._jobs = JobTable.empty()
        self._start_ms = np.empty(0, dtype=np.int64)
        self._end_ms = np.empty(0, dtype=np.int64)
        self._energy_j = np.empty(0)
        empty_schedule = Schedule(
            self._jobs, self._start_ms, self._clock.horizon_ms, self._end_ms
        )
        schema = self._table(empty_schedule, self._energy_j).schema
        text_columns = [
            field.name for field in schema if pa.types.is_dictionary(field.type)
        ]
        delta = ("job_id", "submit_time", "start_time", "end_time")
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=[*text_columns, "n_nodes", "queue_time_s", "energy_j"],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        )

    def add(
        self, submitted: JobTable, started: Schedule, energy_j: Float64Array
    ) -> None:
        """Add the jobs submitted in a window, and the jobs that started or ran in it.

        `energy_j` has a value per job, or per execution interval if the schedule
        consists of them.
        """
        n_new = len(submitted)
        never_ms = np.full(n_new, NEVER_MS, dtype=np.int64)
        self._jobs = concat([self._jobs, submitted])
        self._start_ms = np.append(self._start_ms, never_ms)
        self._end_ms = np.append(self._end_ms, never_ms)
        self._energy_j = np.append(self._energy_j, np.zeros(n_new))
        if len(started.jobs):
            rows = started.jobs.job_id - self._jobs.job_id[0]
            self._start_ms[rows] = started.start_ms
            self._end_ms[rows] = started.end_ms
            # Added one by one, so that sums do not depend on the windows.
            np.add.at(self._energy_j, rows[started.energy_rows], energy_j)
        waiting = np.flatnonzero(self._end_ms == NEVER_MS)
        n_complete = int(waiting[0]) if waiting.size else len(self._jobs)
        self._write(n_complete // ROWS_PER_GROUP * ROWS_PER_GROUP)

    def close(self) -> None:
        """Write the remaining jobs; waiting jobs never started."""
        self._write(len(self._jobs))
        self._writer.close()

    def _write(self, n_rows: int) -> None:
        """Write the first `n_rows` buffered jobs."""
        for first in range(0, n_rows, ROWS_PER_GROUP):
            rows = slice(first, min(first + ROWS_PER_GROUP, n_rows))
            schedule = Schedule(
                self._jobs.take(rows),
                self._start_ms[rows],
                self._clock.horizon_ms,
                self._end_ms[rows],
            )
            in_run = ~schedule.started | (schedule.end_ms > 0)
            if in_run.any():
                table = self._table(schedule.take(in_run), self._energy_j[rows][in_run])
                self._writer.write_table(table, ROWS_PER_GROUP)
        if n_rows:
            self._jobs = self._jobs.take(slice(n_rows, None))
            self._start_ms = self._start_ms[n_rows:].copy()
            self._end_ms = self._end_ms[n_rows:].copy()
            self._energy_j = self._energy_j[n_rows:].copy()

    def _table(self, schedule: Schedule, energy_j: Float64Array) -> pa.Table:
        """Return a schedule's jobs as a table of the file."""
        jobs, clock, never = schedule.jobs, self._clock, ~schedule.started
        slots = self._slots[jobs.pool_id]
        columns = {
            "job_id": arrow_numbers(jobs.job_id),
            "class": _dictionary_array(self._classes, jobs.class_id),
            "n_nodes": arrow_numbers(-(-jobs.n_nodes // slots)),
        }
        if (self._slots > 1).any():
            columns["n_gpus"] = arrow_numbers(
                jobs.n_nodes / slots * self._n_gpus[jobs.pool_id]
            )
        columns |= {
            "submit_time": timestamps(jobs.submit_ms, clock),
            "start_time": timestamps(schedule.start_ms, clock, never),
            "end_time": timestamps(schedule.end_ms, clock, never),
            "queue_time_s": arrow_numbers(schedule.wait_ms / MS_PER_S, missing=never),
            "profile_id": _dictionary_array(self._profile_ids, jobs.profile_id),
            "energy_j": arrow_numbers(energy_j),
        }
        if len(self._pools) > 1:
            columns["pool"] = _dictionary_array(self._pools, jobs.pool_id)
        if len(self._streams) > 1:
            columns["stream"] = _dictionary_array(
                self._streams, self._stream_of[jobs.class_id]
            )
        return pa.table(columns)


NODES_FILE = "nodes.parquet"


class NodeAllocationsFile:
    """Writer of node allocations: contiguous nodes allocated to a load for a time.

    A row is a range of contiguous nodes over a time. Nodes are numbered within their
    pool. A job that is suspended, resized, or on non-contiguous nodes has several rows.
    Rows are sorted by their end. Services and replicas have no `job_id`.
    """

    def __init__(
        self,
        path: Path,
        scenario: Scenario,
        classes: Sequence[StreamClass],  # by `class_id`
        # Names of services and replicas, in the order of their owner numbers
        labels: Sequence[str],
    ) -> None:
        facility, self._clock, self._pools = (
            scenario.facility,
            scenario.clock,
            scenario.pool_names(),
        )
        streams, self._n_labels = list(scenario.streams), len(labels)
        self._names = [*streams, *labels]
        self._stream_of = np.array([streams.index(c.stream) for c in classes], np.int32)
        slots = node_slots(facility)
        self._gpus = (
            np.array([facility.node_type_of(pool).n_gpus for pool in self._pools])
            / slots
        )
        self._has_gpu_shares = bool((slots > 1).any())
        self._tables, self._n_rows = [self._table(HeldNodes.empty())], 0
        self._writer = pq.ParquetWriter(
            path,
            self._tables[0].schema,
            compression="snappy",
            use_dictionary=["load", "n_nodes", "pool"],
            column_encoding=dict.fromkeys(
                ("job_id", "start_time", "end_time", "first_node"),
                "DELTA_BINARY_PACKED",
            ),
        )

    def add(self, rows: HeldNodes) -> None:
        """Add allocations that have ended.

        Skipped are rows whose owner is no load (a negative number), and rows that ended
        before the run.
        """
        is_load = (rows.owner >= 0) & (rows.end_ms > 0)
        self._tables.append(self._table(rows if is_load.all() else rows.take(is_load)))
        self._n_rows += len(self._tables[-1])
        if self._n_rows >= ROWS_PER_GROUP:
            self._write()

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        """Write all buffered rows to the file."""
        self._writer.write_table(pa.concat_tables(self._tables), ROWS_PER_GROUP)
        self._tables, self._n_rows = self._tables[:1], 0

    def _table(self, rows: HeldNodes) -> pa.Table:
        """Return allocations as a table of the file."""
        is_job = rows.owner < SERVICE_OWNER - self._n_labels
        name = (rows.owner - SERVICE_OWNER).astype(np.int32) + len(self._names)
        name[is_job] = self._stream_of[owner_class(rows.owner[is_job])]
        columns = {
            "job_id": arrow_numbers(owner_job(rows.owner), missing=~is_job),
            "load": _dictionary_array(self._names, name),
            "start_time": timestamps(rows.start_ms, self._clock),
            "end_time": timestamps(rows.end_ms, self._clock),
            "first_node": arrow_numbers(rows.first.astype(np.int32)),
            "n_nodes": arrow_numbers(rows.n_nodes.astype(np.int32)),
        }
        if self._has_gpu_shares:
            columns["n_gpus"] = arrow_numbers(rows.n_slots * self._gpus[rows.pool_id])
        if len(self._pools) > 1:
            columns["pool"] = _dictionary_array(
                self._pools, rows.pool_id.astype(np.int32)
            )
        return pa.table(columns)


def _dictionary_array(
    names: Sequence[str], index: Int16Array | Int32Array
) -> pa.DictionaryArray:
    """Return names by index as a dictionary-encoded array."""
    unique = list(dict.fromkeys(names))
    # A duplicate name would leave uninitialized bytes in the file
    if len(unique) < len(names):
        new_index = np.array([unique.index(name) for name in names], index.dtype)
        return pa.DictionaryArray.from_arrays(
            arrow_numbers(new_index[index]), arrow_texts(unique)
        )
    return pa.DictionaryArray.from_arrays(arrow_numbers(index), arrow_texts(names))
