"""Importer of Alibaba 2020 (PAI): `pai_task_table`, with or without a header.

- All tasks of one `job_name`, such as parameter servers and workers, run at the same
  time and are one job. The job lasts from the first start to the last end, on the GPUs
  of all tasks. It failed if any task failed. Its type is the name of the task with the
  most GPUs, such as ``worker``.
- `plan_gpu` is the number of GPUs of one instance in percent: 50 is half a GPU. A
  missing value means no GPU, and a missing number of instances means 1.
- The table has start times but no submission times, so the start is also used as the
  submission (see `rules`).
- Times are in seconds. If they are read as Unix time in the zone ``+08:00``, time of
  day and day of the week are true, but dates are fictitious: they are shifted by an
  unknown number of whole weeks [1]_.
- There are no node counts: `gpus_per_node` is required.

References
----------
.. [1] Q. Weng et al., MLaaS in the Wild, NSDI'22;
   https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from diploee.base.clock import Zone
from diploee.base.tables import arrow_numbers, as_numpy
from diploee.importers.job_logs.raw_log import (
    COUNT,
    REPEATED_ROW,
    JobLogFormat,
    JobLogOptions,
    RawJobs,
    RawLog,
    read_job_columns,
    state_ids,
    times_ms,
)
from diploee.importers.text.delimited_tables import (
    REPEATED_HEADER,
    TRUNCATED,
    HeaderTable,
    header_fields,
    read_header,
)
from diploee.importers.text.numbers_and_labels import ids, labels, numbers
from diploee.importers.text.text_lines import TextLines
from diploee.loads.jobs.job_log import MISSING_MS, STATES

NAMES = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
COLUMNS = {
    **{
        "job": "job_name",
        "task": "task_name",
        "instances": "inst_num",
        "state": "status",
    },
    **{"start": "start_time", "end": "end_time", "percent": "plan_gpu"},
}
LOCAL_ZONE = Zone(fixed_offset_min=8 * 60)
TASK_WITHOUT_END = "task without an end, left out of its job's run time"

_ROW_WITHOUT_HEADER = re.compile(
    r"\w+,\w+,[\d.]*,(Terminated|Failed|Running|Waiting),([^,]*,){5}[^,]*"
)
_WORST_FIRST = ("failed", "other", "completed")
"""Order of task states; the job's state is the first state among its tasks' states."""
_STATES = np.array([STATES.index(state) for state in _WORST_FIRST])
_RANKS = np.array([_WORST_FIRST.index(s) if s in _WORST_FIRST else 1 for s in STATES])


def recognises(text: TextLines) -> bool:
    """Return True if the first line is a header or row of `pai_task_table`."""
    named = {"job_name", "inst_num", "plan_gpu"} <= header_fields(text)
    return named or _ROW_WITHOUT_HEADER.fullmatch(text.first_row.strip()) is not None


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read the task table of Alibaba's trace of 2020, and merge tasks into jobs."""
    import pandas as pd

    sheet = read_header(text)
    if not sheet.has("job_name") and len(sheet.names) == len(NAMES):
        sheet = HeaderTable(text, NAMES)
    what = "pai_task_table of Alibaba's 2020 trace"
    table = read_job_columns(sheet, COLUMNS, {}, what)
    zone = options.zone or LOCAL_ZONE
    task, task_names = labels(table, "task")
    instances, percent = (
        numbers(table, key, COUNT) for key in ("instances", "percent")
    )
    n_gpus = (
        np.where(instances > 0, instances, 1) * np.where(percent > 0, percent, 0) / 100
    )
    state = state_ids(*labels(table, "state"))
    times = {key: times_ms(table, key).astype(np.float64) for key in ("start", "end")}
    job = ids(table, "job").dictionary_encode()
    tasks = pd.DataFrame(
        {
            "job": as_numpy(pa.chunked_array([job.indices]), np.int64, -1),
            "task": task,
            **{
                key: np.where(ms == MISSING_MS, np.nan, ms) for key, ms in times.items()
            },
            "gpus": n_gpus,
            "rank": _RANKS[state],
            "state": state,
        }
    )
    named = tasks[tasks["job"] >= 0]
    different = named.drop_duplicates()
    per_job = different.groupby("job")
    jobs = per_job.agg({"start": "min", "end": "max", "gpus": "sum", "rank": "min"})
    has_end = different["job"].map(jobs["end"].notna())
    without_end = different["end"].isna() & has_end
    start_ms, end_ms = (
        jobs[key].fillna(MISSING_MS).to_numpy(np.int64) for key in ("start", "end")
    )
    return RawLog(
        rows=RawJobs(
            start_ms=start_ms,
            end_ms=end_ms,
            n_gpus=jobs["gpus"].to_numpy(),
            state_id=_STATES[jobs["rank"]],
            type_id=different.loc[per_job["gpus"].idxmax(), "task"].to_numpy(np.int32),
        ),
        types=task_names,
        job_ids=job.dictionary.take(arrow_numbers(jobs.index.to_numpy(np.int64))),
        utc_offset_min=zone.offset_min(0),
        dropped={
            TRUNCATED: table.n_cut,
            "task without a job": len(tasks) - len(named),
            REPEATED_ROW: len(named) - len(different),
            "task merged into its job": len(different) - len(jobs),
        },
        repaired={REPEATED_HEADER: table.n_headers},
        noted={TASK_WITHOUT_END: int(without_end.sum())},
        dates_are_shifted=True,
    )


FORMAT = JobLogFormat("alibaba-2020", "Alibaba 2020 (PAI) task table", recognises, read)
