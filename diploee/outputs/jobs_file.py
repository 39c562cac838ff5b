"""`jobs.parquet`: one row per job, in the order of submission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.outputs.facility_file import timestamp_type, timestamps
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.tables import Float64Array
from diploee.units import MS_PER_S

JOBS_FILE = "jobs.parquet"
ROWS_PER_GROUP = 1 << 18


def write_jobs(
    folder: Path,
    scenario: Scenario,
    schedule: Schedule,
    energy_j: Float64Array,
    class_names: Sequence[str],
    profile_ids: Sequence[str],
) -> None:
    """Write the jobs; start, end and queue time of a job that never started are null.

    `end_time` is the planned end, which may lie beyond the run; `energy_j` counts up to its end.

    Parameters
    ----------
    folder : pathlib.Path
        Run folder being written.
    scenario : Scenario
        Gives the clock.
    schedule : Schedule
        Jobs and their start times.
    energy_j : numpy.ndarray, shape (n,), float64
        Energy of each job up to the horizon [J].
    class_names, profile_ids : sequence of str
        Names by `class_id` and by `profile_id`.
    """
    stamp = timestamp_type(scenario)
    schema = pa.schema(
        [
            ("job_id", pa.int64()),
            ("class", pa.dictionary(pa.int16(), pa.string())),
            ("n_nodes", pa.int32()),
            ("submit_time", stamp),
            ("start_time", stamp),
            ("end_time", stamp),
            ("queue_time_s", pa.float64()),
            ("profile_id", pa.dictionary(pa.int16(), pa.string())),
            ("energy_j", pa.float64()),
        ]
    )
    names = pa.array(class_names, pa.string())
    profiles = pa.array(profile_ids, pa.string())
    delta = dict.fromkeys(
        ("job_id", "submit_time", "start_time", "end_time"), "DELTA_BINARY_PACKED"
    )
    with pq.ParquetWriter(
        folder / JOBS_FILE,
        schema,
        compression="zstd",
        use_dictionary=["class", "n_nodes", "profile_id", "queue_time_s", "energy_j"],
        column_encoding=delta,
    ) as writer:
        for first in range(0, max(len(schedule.jobs), 1), ROWS_PER_GROUP):
            rows = slice(first, first + ROWS_PER_GROUP)
            jobs = schedule.jobs.take(rows)
            started = schedule.started[rows]
            columns = [
                pa.array(jobs.job_id),
                pa.DictionaryArray.from_arrays(pa.array(jobs.class_id), names),
                pa.array(jobs.n_nodes),
                timestamps(jobs.submit_ms, scenario),
                timestamps(schedule.start_ms[rows], scenario),
                timestamps(schedule.end_ms[rows], scenario),
                pa.array(schedule.wait_ms[rows] / MS_PER_S, mask=~started),
                pa.DictionaryArray.from_arrays(
                    pa.array(jobs.profile_id.astype(np.int16)), profiles
                ),
                pa.array(energy_j[rows]),
            ]
            writer.write_table(pa.table(columns, schema=schema))
