"""`jobs.parquet`: one row per job, in the order of submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.clock import RunClock
from diploee.loads.jobs import StreamClass
from diploee.outputs.facility_file import timestamp_type, timestamps
from diploee.power.segments import slots_of
from diploee.scenario import Facility
from diploee.schedule import NEVER_MS, Schedule
from diploee.schedule.context import JobTable
from diploee.tables import Float64Array, Int16Array, arrow_numbers, arrow_texts, concat
from diploee.units import MS_PER_S

JOBS_FILE = "jobs.parquet"
ROWS_PER_GROUP = 1 << 18


class JobsFile:
    """Writes the jobs; start, end and queue time of a job that never started are null.

    Of the jobs submitted before the run those are written that wait or run at its start. `end_time`
    is the planned end, which may lie beyond the run; `energy_j` counts within it. With several
    pools or several job streams a last column `pool` or `stream` tells them apart. Jobs are held
    until the ends of all that were submitted before them are known.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    clock : RunClock
        Gives the time stamps.
    pools, streams : sequence of str
        Names of the pools and of the job streams.
    classes : sequence of StreamClass
        Classes by `class_id`.
    profile_ids : sequence of str
        Names by `profile_id`.
    facility : Facility
        Tells which pools allocate GPUs. Where one does, a column `n_gpus` behind `n_nodes` has the
        GPUs of each job.
    """

    def __init__(
        self,
        path: Path,
        clock: RunClock,
        pools: Sequence[str],
        streams: Sequence[str],
        classes: Sequence[StreamClass],
        profile_ids: Sequence[str],
        facility: Facility,
    ) -> None:
        self._clock = clock
        self._labels = _labels(pools, streams, classes, profile_ids)
        self._slots = slots_of(facility).astype(np.int32)
        n_gpus = [facility.node_type_of(name).n_gpus for name in facility.pools]
        self._n_gpus = np.array(n_gpus)
        self._schema = _schema(clock, self._labels, n_gpus=bool((self._slots > 1).any()))
        delta = ("job_id", "submit_time", "start_time", "end_time")
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            compression="zstd",
            use_dictionary=[*self._labels, "n_nodes", "queue_time_s", "energy_j"],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        )
        self._jobs = JobTable.empty()
        self._start_ms = np.empty(0, dtype=np.int64)
        self._end_ms = np.empty(0, dtype=np.int64)
        self._energy_j = np.empty(0)

    def add(self, submitted: JobTable, started: Schedule, energy_j: Float64Array) -> None:
        """Take in a window.

        Parameters
        ----------
        submitted : JobTable
            Jobs submitted in it.
        started : Schedule
            Jobs that started or ran in it.
        energy_j : numpy.ndarray
            Their energy [J], of each job; of each of its stretches where it has `runs`.
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
            # One after the other, so that sums do not depend on the windows.
            np.add.at(self._energy_j, rows[started.of_energy], energy_j)
        waiting = np.flatnonzero(self._end_ms == NEVER_MS)
        n_settled = int(waiting[0]) if waiting.size else len(self._jobs)
        self._write(n_settled // ROWS_PER_GROUP * ROWS_PER_GROUP)

    def close(self) -> None:
        """Write what is left; jobs that wait have never started."""
        self._write(len(self._jobs))
        self._writer.close()

    def _write(self, n_rows: int) -> None:
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
                self._write_group(schedule.take(in_run), self._energy_j[rows][in_run])
        if n_rows:
            self._jobs = self._jobs.take(slice(n_rows, None))
            self._start_ms = self._start_ms[n_rows:].copy()
            self._end_ms = self._end_ms[n_rows:].copy()
            self._energy_j = self._energy_j[n_rows:].copy()

    def _write_group(self, schedule: Schedule, energy_j: Float64Array) -> None:
        jobs, clock, never = schedule.jobs, self._clock, ~schedule.started
        columns = {
            "job_id": arrow_numbers(jobs.job_id),
            "n_nodes": arrow_numbers(-(-jobs.n_nodes // self._slots[jobs.pool_id])),
            "n_gpus": arrow_numbers(
                jobs.n_nodes / self._slots[jobs.pool_id] * self._n_gpus[jobs.pool_id]
            ),
            "submit_time": timestamps(jobs.submit_ms, clock),
            "start_time": timestamps(schedule.start_ms, clock, never),
            "end_time": timestamps(schedule.end_ms, clock, never),
            "queue_time_s": arrow_numbers(schedule.wait_ms / MS_PER_S, missing=never),
            "energy_j": arrow_numbers(energy_j),
        } | {name: label.column(jobs) for name, label in self._labels.items()}
        names = self._schema.names
        self._writer.write_table(
            pa.table([columns[name] for name in names], schema=self._schema), ROWS_PER_GROUP
        )


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
            arrow_numbers(index.astype(self.dtype)), arrow_texts(self.names)
        )


def _labels(
    pools: Sequence[str],
    streams: Sequence[str],
    classes: Sequence[StreamClass],
    profile_ids: Sequence[str],
) -> dict[str, _Label]:
    labels = {
        "class": _Label([c.job_class.name for c in classes], "class_id"),
        "profile_id": _Label(profile_ids, "profile_id", "int32"),
    }
    if len(pools) > 1:
        labels["pool"] = _Label(pools, "pool_id")
    if len(streams) > 1:
        of_class = np.array([streams.index(c.stream) for c in classes], dtype=np.int16)
        labels["stream"] = _Label(streams, "class_id", index=of_class)
    return labels


def _schema(clock: RunClock, labels: dict[str, _Label], n_gpus: bool) -> pa.Schema:
    stamp = timestamp_type(clock)
    return pa.schema(
        [
            ("job_id", pa.int64()),
            ("class", labels["class"].type),
            ("n_nodes", pa.int32()),
            *([("n_gpus", pa.float64())] if n_gpus else []),
            ("submit_time", stamp),
            ("start_time", stamp),
            ("end_time", stamp),
            ("queue_time_s", pa.float64()),
            ("profile_id", labels["profile_id"].type),
            ("energy_j", pa.float64()),
            *((name, labels[name].type) for name in ("pool", "stream") if name in labels),
        ]
    )
