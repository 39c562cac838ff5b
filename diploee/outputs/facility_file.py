"""`facility.parquet`: the power series of the run, written block by block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee import __version__
from diploee.power import PowerBlock
from diploee.scenario import Scenario
from diploee.tables import Int64Array
from diploee.units import MS_PER_H, MS_PER_S

FACILITY_FILE = "facility.parquet"
METADATA_KEY = b"diploee.facility"
MIN_ROWS_PER_GROUP = 1 << 15
"""Row groups hold an hour, or so many rows where that is more."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

UNITS = {
    "it_power_w": "W, device power (GPUs and CPU packages), mean over the interval",
    "facility_power_w": "W, mean over the interval; equals it_power_w: no conversion or cooling "
    "is modelled",
    "busy_nodes": "nodes, at the interval's start",
    "utilization": "1, busy nodes over all nodes, mean over the interval (Eq. 1)",
    "queued_jobs": "jobs, at the interval's start",
    "incoming_rps": "requests/s offered, mean over the interval",
    "served_rps": "requests/s completed, mean over the interval",
    "unserved_rps": "requests/s rejected, mean over the interval",
    "n_instances": "model instances, at the interval's start",
    "backlog_requests": "requests that wait, at the interval's start",
}
"""What the columns hold; those of one pool or service carry its name after a dot."""


def timestamp_type(scenario: Scenario) -> pa.DataType:
    """Return the Arrow type of time stamps in the facility's fixed UTC offset."""
    offset = scenario.facility.utc_offset
    return pa.timestamp("ms", tz="UTC" if offset in ("+00:00", "-00:00") else offset)


def timestamps(times_ms: Int64Array, scenario: Scenario) -> pa.Array:
    """Return simulated times [ms] as zone-aware time stamps; negative ones as null."""
    epoch_ms = (scenario.start_with_zone - _EPOCH) // timedelta(milliseconds=1)
    values = pa.array(times_ms + epoch_ms, mask=times_ms < 0)
    return values.cast(pa.timestamp("ms")).cast(timestamp_type(scenario))


class FacilityFile:
    """Writes a power series; use as a context manager.

    Parameters
    ----------
    path : pathlib.Path
        The file, ``facility.parquet`` of the run folder being written or one in ``zooms/``.
    scenario : Scenario
        Gives pools, clock and metadata.
    step_ms : int
        Interval of the series [ms].
    """

    def __init__(self, path: Path, scenario: Scenario, step_ms: int) -> None:
        self._path = path
        self._scenario = scenario
        self._step_ms = step_ms
        self._rows_per_group = max(MIN_ROWS_PER_GROUP, MS_PER_H // step_ms)
        self._n_nodes = np.array([pool.n_nodes for pool in scenario.facility.pools.values()])
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(
        self, block: PowerBlock, columns: Mapping[str, np.ndarray[Any, Any]] | None = None
    ) -> None:
        """Append a block of power, with further columns of the same length."""
        table = pa.table(
            {
                "timestamp": timestamps(block.starts_ms, self._scenario),
                **_power_columns(block, self._n_nodes),
                **_per_pool(block, self._scenario.pool_names(), self._n_nodes),
                **(columns or {}),
            }
        )
        if self._writer is None:
            table = table.replace_schema_metadata(
                _metadata(self._scenario, self._step_ms, table.column_names)
            )
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression="zstd",
                use_dictionary=False,
                column_encoding={
                    name: "DELTA_BINARY_PACKED"
                    if name == "timestamp" or pa.types.is_integer(table.schema.field(name).type)
                    else "BYTE_STREAM_SPLIT"
                    for name in table.column_names
                },
            )
        self._writer.write_table(table.cast(self._writer.schema), self._rows_per_group)


def _power_columns(block: PowerBlock, n_nodes: Int64Array) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "it_power_w": block.it_power_w.sum(axis=0).astype(np.float32),
        "facility_power_w": block.facility_power_w.astype(np.float32),
        "busy_nodes": block.busy_nodes.sum(axis=0).astype(np.int32),
        "utilization": (block.mean_busy_nodes.sum(axis=0) / n_nodes.sum()).astype(np.float32),
    }


def _per_pool(
    block: PowerBlock, pools: tuple[str, ...], n_nodes: Int64Array
) -> dict[str, np.ndarray[Any, Any]]:
    if len(pools) == 1:
        return {}
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for k, pool in enumerate(pools):
        columns[f"it_power_w.{pool}"] = block.it_power_w[k].astype(np.float32)
        columns[f"busy_nodes.{pool}"] = block.busy_nodes[k].astype(np.int32)
        columns[f"utilization.{pool}"] = (block.mean_busy_nodes[k] / n_nodes[k]).astype(np.float32)
    return columns


def _metadata(scenario: Scenario, step_ms: int, columns: list[str]) -> dict[bytes, bytes]:
    head = {
        "diploee_version": __version__,
        "scenario": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "seed": scenario.seed,
        "resolution_s": step_ms / MS_PER_S,
        "convention": "timestamp is the start of the interval",
        "units": {name: UNITS[stem] for name in columns if (stem := name.split(".")[0]) in UNITS},
    }
    return {METADATA_KEY: json.dumps(head, sort_keys=True).encode()}
