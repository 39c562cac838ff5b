"""`jobs.parquet`: one row per job, in the order of submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.outputs.facility_file import timestamp_type, timestamps
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.tables import Float64Array, Int16Array
from diploee.units import MS_PER_S
from diploee.workload import JobTable, StreamClass

JOBS_FILE = "jobs.parquet"
ROWS_PER_GROUP = 1 << 18


def write_jobs(
    folder: Path,
    scenario: Scenario,
    schedule: Schedule,
    energy_j: Float64Array,
    classes: Sequence[StreamClass],
    profile_ids: Sequence[str],
) -> None:
    """Write the jobs; start, end and queue time of a job that never started are null.

    `end_time` is the planned end, which may lie beyond the run; `energy_j` counts up to its end.
    With several pools or several job streams a last column `pool` or `stream` tells them apart.

    Parameters
    ----------
    folder : pathlib.Path
        Run folder being written.
    scenario : Scenario
        Gives the clock, the pools and the streams.
    schedule : Schedule
        Jobs and their start times.
    energy_j : numpy.ndarray, shape (n,), float64
        Energy of each job up to the horizon [J].
    classes : sequence of StreamClass
        Classes by `class_id`.
    profile_ids : sequence of str
        Names by `profile_id`.
    """
    labels = _labels(scenario, classes, profile_ids)
    schema = _schema(scenario, labels)
    delta = dict.fromkeys(
        ("job_id", "submit_time", "start_time", "end_time"), "DELTA_BINARY_PACKED"
    )
    with pq.ParquetWriter(
        folder / JOBS_FILE,
        schema,
        compression="zstd",
        use_dictionary=[*labels, "n_nodes", "queue_time_s", "energy_j"],
        column_encoding=delta,
    ) as writer:
        for first in range(0, max(len(schedule.jobs), 1), ROWS_PER_GROUP):
            rows = slice(first, first + ROWS_PER_GROUP)
            jobs = schedule.jobs.take(rows)
            columns = {
                "job_id": pa.array(jobs.job_id),
                "n_nodes": pa.array(jobs.n_nodes),
                "submit_time": timestamps(jobs.submit_ms, scenario),
                "start_time": timestamps(schedule.start_ms[rows], scenario),
                "end_time": timestamps(schedule.end_ms[rows], scenario),
                "queue_time_s": pa.array(
                    schedule.wait_ms[rows] / MS_PER_S, mask=~schedule.started[rows]
                ),
                "energy_j": pa.array(energy_j[rows]),
            } | {name: label.column(jobs) for name, label in labels.items()}
            writer.write_table(pa.table([columns[name] for name in schema.names], schema=schema))


@dataclass(frozen=True)
class _Label:
    """A column of names: those of the values of a job column, or of what `index` makes of them."""

    names: Sequence[str]
    job_column: str
    dtype: str = "int16"
    index: Int16Array | None = None

    @property
    def type(self) -> pa.DataType:
        return pa.dictionary(pa.from_numpy_dtype(self.dtype), pa.string())

    def column(self, jobs: JobTable) -> pa.DictionaryArray:
        index = getattr(jobs, self.job_column)
        if self.index is not None:
            index = self.index[index]
        return pa.DictionaryArray.from_arrays(
            pa.array(index.astype(self.dtype)), pa.array(self.names, pa.string())
        )


def _labels(
    scenario: Scenario, classes: Sequence[StreamClass], profile_ids: Sequence[str]
) -> dict[str, _Label]:
    labels = {
        "class": _Label([c.job_class.name for c in classes], "class_id"),
        "profile_id": _Label(profile_ids, "profile_id", "int32"),
    }
    if len(scenario.pool_names()) > 1:
        labels["pool"] = _Label(scenario.pool_names(), "pool_id")
    streams = list(scenario.streams)
    if len(streams) > 1:
        of_class = np.array([streams.index(c.stream) for c in classes], dtype=np.int16)
        labels["stream"] = _Label(streams, "class_id", index=of_class)
    return labels


def _schema(scenario: Scenario, labels: dict[str, _Label]) -> pa.Schema:
    stamp = timestamp_type(scenario)
    return pa.schema(
        [
            ("job_id", pa.int64()),
            ("class", labels["class"].type),
            ("n_nodes", pa.int32()),
            ("submit_time", stamp),
            ("start_time", stamp),
            ("end_time", stamp),
            ("queue_time_s", pa.float64()),
            ("profile_id", labels["profile_id"].type),
            ("energy_j", pa.float64()),
            *((name, labels[name].type) for name in ("pool", "stream") if name in labels),
        ]
    )
