"""`jobs.parquet`: one row per job, in the order of submission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.loads.jobs import StreamClass
from diploee.outputs.facility_file import timestamps
from diploee.power.segments import slots_of
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.schedule.context import JobTable
from diploee.schedule.schedule import NEVER_MS
from diploee.tables import Float64Array, Int16Array, Int32Array, arrow_numbers, arrow_texts, concat
from diploee.units import MS_PER_S

JOBS_FILE = "jobs.parquet"
ROWS_PER_GROUP = 1 << 18


class JobsFile:
    """Writes the jobs; start, end and queue time of a job that never started are null.

    Of the jobs submitted before the run those are written that wait or run at its start. `end_time`
    is the planned end, which may lie beyond the run; `energy_j` counts within it. With several
    pools or several job streams a last column `pool` or `stream` tells them apart. Jobs are held
    until the ends of all that were submitted before them are known. Where a pool allocates GPUs, a
    column `n_gpus` behind `n_nodes` has the GPUs of each job.
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
        self._stream_of = np.array([self._streams.index(c.stream) for c in classes], np.int16)
        self._slots = slots_of(facility).astype(np.int32)
        self._n_gpus = np.array([facility.node_type_of(pool).n_gpus for pool in facility.pools])
        self._jobs = JobTable.empty()
        self._start_ms = np.empty(0, dtype=np.int64)
        self._end_ms = np.empty(0, dtype=np.int64)
        self._energy_j = np.empty(0)
        none = Schedule(self._jobs, self._start_ms, self._clock.horizon_ms, self._end_ms)
        schema = self._table(none, self._energy_j).schema
        repeated = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        delta = ("job_id", "submit_time", "start_time", "end_time")
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=[*repeated, "n_nodes", "queue_time_s", "energy_j"],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        )

    def add(self, submitted: JobTable, started: Schedule, energy_j: Float64Array) -> None:
        """Take in the jobs submitted in a window, and those that started or ran in it.

        Their energy [J] is of each job; of each of its stretches where it has `runs`.
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
                table = self._table(schedule.take(in_run), self._energy_j[rows][in_run])
                self._writer.write_table(table, ROWS_PER_GROUP)
        if n_rows:
            self._jobs = self._jobs.take(slice(n_rows, None))
            self._start_ms = self._start_ms[n_rows:].copy()
            self._end_ms = self._end_ms[n_rows:].copy()
            self._energy_j = self._energy_j[n_rows:].copy()

    def _table(self, schedule: Schedule, energy_j: Float64Array) -> pa.Table:
        jobs, clock, never = schedule.jobs, self._clock, ~schedule.started
        slots = self._slots[jobs.pool_id]
        columns = {
            "job_id": arrow_numbers(jobs.job_id),
            "class": _named(self._classes, jobs.class_id),
            "n_nodes": arrow_numbers(-(-jobs.n_nodes // slots)),
        }
        if (self._slots > 1).any():
            columns["n_gpus"] = arrow_numbers(jobs.n_nodes / slots * self._n_gpus[jobs.pool_id])
        columns |= {
            "submit_time": timestamps(jobs.submit_ms, clock),
            "start_time": timestamps(schedule.start_ms, clock, never),
            "end_time": timestamps(schedule.end_ms, clock, never),
            "queue_time_s": arrow_numbers(schedule.wait_ms / MS_PER_S, missing=never),
            "profile_id": _named(self._profile_ids, jobs.profile_id),
            "energy_j": arrow_numbers(energy_j),
        }
        if len(self._pools) > 1:
            columns["pool"] = _named(self._pools, jobs.pool_id)
        if len(self._streams) > 1:
            columns["stream"] = _named(self._streams, self._stream_of[jobs.class_id])
        return pa.table(columns)


def _named(names: Sequence[str], index: Int16Array | Int32Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(arrow_numbers(index), arrow_texts(names))
