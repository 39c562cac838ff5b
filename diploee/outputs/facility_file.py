"""`facility.parquet`, the power series of the run, and `zooms/`, its worst windows at 0.1 s."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee import __version__
from diploee.annexes import annex
from diploee.clock import RunClock, instant_ms, zone_name
from diploee.columns import Column, Columns, as_entries, catalogue, find_column
from diploee.facility import STAGES, Block
from diploee.loads.services.load import SERVICE_COLUMNS
from diploee.metrics.causes import Causes
from diploee.metrics.changes import Extreme
from diploee.metrics.flexibility import BASELINE_COLUMNS
from diploee.plain_data import Record, parse_json
from diploee.power.blocks import AC_COLUMNS, PHASE_COLUMNS, POWER_COLUMNS
from diploee.power.event_windows import BASIS, EventWindowSearch
from diploee.schedule.schedule import QUEUE_COLUMNS
from diploee.tables import BoolArray, Int64Array, arrow_numbers, open_parquet
from diploee.units import MS_PER_H, MS_PER_S, PROFILE_STEP_MS, W_PER_MW

FACILITY_FILE = "facility.parquet"
ZOOMS_FOLDER = "zooms"
METADATA_KEY = b"diploee.facility"
MIN_ROWS_PER_GROUP = 1 << 15
"""Row groups hold an hour, or this number of rows where that is more."""


def declared_columns() -> Columns:
    """Return the columns that loads and power may give, for files that do not hold theirs."""
    return catalogue(
        POWER_COLUMNS,
        PHASE_COLUMNS,
        QUEUE_COLUMNS,
        SERVICE_COLUMNS,
        BASELINE_COLUMNS,
        annex("ALL_REPLICA_COLUMNS"),
    )


def stored_columns(path: Path) -> Columns:
    """Return the catalogue that a series was written with; as declared today for older files."""
    with open_parquet(path, {}) as file:
        content = (file.schema_arrow.metadata or {}).get(METADATA_KEY, b"{}")
    head = parse_json(content, f"{path}: metadata", _Head)
    if head.columns is None:
        return declared_columns()
    if any(column.role for column in head.columns):
        return tuple(head.columns)
    # Older files hold no roles: those of today's columns of the same name.
    of_stages = (column for spec in STAGES.by_name.values() for column in spec.columns)
    today = {c.name: c for c in (*POWER_COLUMNS, *AC_COLUMNS, *of_stages)}
    return tuple(
        replace(c, role=today[c.name].role, part=today[c.name].part) if c.name in today else c
        for c in head.columns
    )


class _Head(Record, strict=False):
    columns: list[Column] | None = None


def timestamps(times_ms: Int64Array, clock: RunClock, missing: BoolArray | None = None) -> pa.Array:
    """Return simulated times [ms] as instants with the facility's zone, null where missing."""
    kind = pa.timestamp("ms", tz=zone_name(clock.start_with_zone.tzinfo or UTC))
    return arrow_numbers(times_ms + instant_ms(clock.start_with_zone), kind, missing=missing)


class FacilityFile:
    """A sink that writes the power series; use it as a context manager.

    `columns` are the run's catalogue, `head` is further metadata: scenario, hash, seed.
    """

    def __init__(
        self, path: Path, clock: RunClock, columns: Columns, head: Mapping[str, Any]
    ) -> None:
        self._path, self._clock, self._columns, self._head = path, clock, columns, head
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._n_held, self._group_rows = 0, MIN_ROWS_PER_GROUP

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
                self._write(self._n_held)
            self._writer.close()

    def add(self, block: Block) -> None:
        """Append a block; power and rates are stored as float32, counts as int32, NaN as null."""
        columns = {name: _stored(values) for name, values in block.columns.items()}
        table = pa.table({"timestamp": timestamps(block.starts_ms, self._clock), **columns})
        if self._writer is None:
            self._writer = self._open(table, block.dt_ms)
            self._group_rows = max(MIN_ROWS_PER_GROUP, MS_PER_H // block.dt_ms)
        self._held.append(table)
        self._n_held += table.num_rows
        # Whole groups, however short the blocks are.
        self._write(self._n_held // self._group_rows * self._group_rows)

    def _write(self, n_rows: int) -> None:
        """Write the first rows of what is held."""
        if not n_rows or self._writer is None:
            return
        table = pa.concat_tables(self._held)
        self._writer.write_table(table.slice(0, n_rows), self._group_rows)
        self._held, self._n_held = [table.slice(n_rows)], self._n_held - n_rows

    def _open(self, table: pa.Table, step_ms: int) -> pq.ParquetWriter:
        head = {
            "diploee_version": __version__,
            **self._head,
            "resolution_s": step_ms / MS_PER_S,
            "convention": "timestamp is the start of the interval",
            "units": {
                name: find_column(name, self._columns)[0].line() for name in table.column_names[1:]
            },
            "columns": as_entries(self._columns),
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


def _stored(values: np.ndarray[Any, Any]) -> pa.Array:
    if values.dtype.kind in "iu":
        return arrow_numbers(values.astype(np.int32, copy=False))
    missing = np.isnan(values)
    stored = values.astype(np.float32, copy=False)
    return arrow_numbers(stored, missing=missing if missing.any() else None)


def write_event_windows(
    folder: Path,
    search: EventWindowSearch,
    clock: RunClock,
    columns: Columns,
    head: Mapping[str, Any],
    causes: Causes,
) -> dict[str, Any]:
    """Write each window that was found at 0.1 s and return the `zooms` block of the metrics."""
    (folder / ZOOMS_FOLDER).mkdir()
    windows = []
    for event, segments, blocks in search.event_windows():
        name = f"{ZOOMS_FOLDER}/{event.name}.parquet"
        with FacilityFile(folder / name, clock, columns, head) as file:
            kept = []
            for block in blocks:
                file.add(block)
                kept.append(block)
        cause = causes.split(Extreme(*event.compared_ms), [segments], kept)
        at = clock.wall.at(event.at_ms)
        windows.append(
            {
                "name": event.name,
                "at": at.isoformat(timespec="seconds"),
                "value_mw": event.value_w / W_PER_MW,
                "window_s": (event.end_ms - event.start_ms) / MS_PER_S,
                "file": name,
                "cause": causes.entry(cause),
            }
        )
    return {"basis": BASIS, "resolution_s": PROFILE_STEP_MS / MS_PER_S, "windows": windows}
