"""Alibaba 2020 (PAI): `pai_task_table`, with or without its header line.

- A job is all tasks of one `job_name`, such as parameter servers and workers, which run together:
  from the first start to the last end, on the GPUs of all. It failed where one of them did. Its
  kind is the task with the most GPUs, such as ``worker``.
- `plan_gpu` is the GPUs of one instance in percent: 50 is half a GPU; missing is none. A missing
  instance count is 1.
- The table has launches, no submissions: the submission is taken as the start, as the rules say.
- Times are seconds, shifted by an unknown number of whole weeks: as Unix time at ``+08:00`` they
  have the true time of day and day of the week, with made-up dates [1]_.
- There are no node counts: `gpus_per_node` must be given.

References
----------
.. [1] Q. Weng et al., MLaaS in the Wild, NSDI'22;
   https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from diploee.clock import Zone
from diploee.importers.job_logs.options import JobLogOptions
from diploee.importers.job_logs.raw_log import (
    COUNT,
    JobLogFormat,
    RawJobs,
    RawLog,
    read_job_columns,
    state_ids,
    times_ms,
)
from diploee.importers.job_logs.repeats import REPEATED_ROW
from diploee.loads.jobs.job_log import MISSING_MS, STATES
from diploee.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.textio.tables import (
    REPEATED_HEADER,
    TRUNCATED,
    Layout,
    ReadTable,
    header_words,
    read_header,
)
from diploee.textio.text import Text
from diploee.textio.values import ids, labels, numbers

NAMES = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
COLUMNS = {
    **{"job": "job_name", "task": "task_name", "instances": "inst_num", "state": "status"},
    **{"start": "start_time", "end": "end_time", "percent": "plan_gpu"},
}
LOCAL_ZONE = Zone(fixed_offset_min=8 * 60)
TASK_MERGED = "task merged into its job"
NO_JOB_NAME = "task without a job"
TASK_WITHOUT_END = "task without an end, left out of its job's run time"

_ROW_WITHOUT_HEADER = re.compile(
    r"\w+,\w+,[\d.]*,(Terminated|Failed|Running|Waiting),([^,]*,){5}[^,]*"
)
_WORST_FIRST = ("failed", "other", "completed")
"""Of the states of a job's tasks, the first in this order is the job's."""


def recognises(text: Text) -> bool:
    """Return whether the first line names the columns of the task table, or is a row of it."""
    named = {"job_name", "inst_num", "plan_gpu"} <= header_words(text)
    return named or _ROW_WITHOUT_HEADER.fullmatch(text.first_row.strip()) is not None


def read(text: Text, options: JobLogOptions) -> RawLog:
    """Read the task table of Alibaba's trace of 2020."""
    layout = read_header(text)
    if not layout.has("job_name") and len(layout.names) == len(NAMES):
        layout = Layout(NAMES)
    table = read_job_columns(text, layout, COLUMNS, {}, "pai_task_table of Alibaba's 2020 trace")
    zone = options.zone or LOCAL_ZONE
    encoded = ids(table, "job").dictionary_encode()
    job = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64)
    tasks, task_names = _tasks(table, job)
    named = tasks.take(job >= 0)
    different = named.take(_first_of_equals(named))
    rows = _jobs(different, len(encoded.dictionary))
    without_end = (different.end_ms == MISSING_MS) & (rows.end_ms[different.job] != MISSING_MS)
    return RawLog(
        rows=rows,
        types=task_names,
        job_ids=encoded.dictionary,
        utc_offset_min=zone.offset_min(0),
        dropped={
            TRUNCATED: table.n_cut,
            NO_JOB_NAME: len(tasks) - len(named),
            REPEATED_ROW: len(named) - len(different),
            TASK_MERGED: len(different) - len(rows),
        },
        repaired={REPEATED_HEADER: table.n_headers},
        noted={TASK_WITHOUT_END: int(without_end.sum())},
        dates_are_shifted=True,
    )


FORMAT = JobLogFormat("alibaba-2020", "Alibaba 2020 (PAI) task table", recognises, read)


@dataclass(frozen=True, eq=False)
class _Tasks(Table):
    job: Int64Array = column("int64")
    task: Int32Array = column("int32")
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_gpus: Float64Array = column("float64")
    state_id: Int16Array = column("int16")


def _tasks(table: ReadTable, job: Int64Array) -> tuple[_Tasks, tuple[str, ...]]:
    task, names = labels(table, "task")
    instances, percent = (numbers(table, key, COUNT) for key in ("instances", "percent"))
    n_gpus = np.where(instances > 0, instances, 1) * np.where(percent > 0, percent, 0) / 100
    start_ms, end_ms = times_ms(table, "start"), times_ms(table, "end")
    state_id = state_ids(*labels(table, "state"))
    return _Tasks(job, task, start_ms, end_ms, n_gpus, state_id), names


def _first_of_equals(tasks: _Tasks) -> BoolArray:
    keys = [getattr(tasks, name) for name in _Tasks.__dataclass_fields__]
    order = np.lexsort(keys)
    repeats = np.ones(order.size, dtype=bool)
    repeats[:1] = False
    for key in keys:
        repeats[1:] &= key[order][1:] == key[order][:-1]
    is_first = np.ones(order.size, dtype=bool)
    is_first[order] = ~repeats
    return is_first


def _jobs(tasks: _Tasks, n_jobs: int) -> RawJobs:
    """Return one row for each job, in the order of `_Tasks.job`."""
    no_time = np.full(n_jobs, MISSING_MS)
    end_ms, first_ms = no_time.copy(), np.full(n_jobs, -MISSING_MS)
    np.maximum.at(end_ms, tasks.job, tasks.end_ms)
    starts = np.where(tasks.start_ms == MISSING_MS, -MISSING_MS, tasks.start_ms)
    np.minimum.at(first_ms, tasks.job, starts)
    rank = np.full(n_jobs, len(_WORST_FIRST) - 1)
    ranks = [_WORST_FIRST.index(s) if s in _WORST_FIRST else 1 for s in STATES]
    np.minimum.at(rank, tasks.job, np.array(ranks)[tasks.state_id])
    by_gpus = np.lexsort((-tasks.n_gpus, tasks.job))
    widest = by_gpus[np.searchsorted(tasks.job[by_gpus], np.arange(n_jobs))]
    return RawJobs(
        start_ms=np.where(first_ms == -MISSING_MS, MISSING_MS, first_ms),
        end_ms=end_ms,
        n_gpus=np.bincount(tasks.job, tasks.n_gpus, minlength=n_jobs).astype(np.float64),
        state_id=np.array([STATES.index(state) for state in _WORST_FIRST])[rank],
        type_id=tasks.task[widest],
    )
