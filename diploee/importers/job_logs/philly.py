"""Philly (Microsoft, 2017): `cluster_job_log`, a JSON list of jobs with their attempts.

- A job starts with its first attempt. Its run time is the sum of its attempts' run times: between
  them it had no GPUs. An attempt without a start or an end, or with an end before the start, is
  left out and noted; but a job whose last attempt has a start and no end was still running.
- Its nodes and GPUs are those of its longest attempt: the servers that the attempt lists, each
  once, and all their GPUs.
- ``Pass`` is completed, ``Killed`` cancelled, ``Failed`` failed. The log has no kinds of jobs.
- Stamps are local time without a zone: `utc_offset` tells it, UTC where it is not given. The
  trace's other files are stamped in Pacific time (``America/Los_Angeles``).

References
----------
.. [1] M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, USENIX ATC'19;
   https://github.com/msr-fiddle/philly-traces
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import RootModel

from diploee.arrow import arrow_texts
from diploee.errors import LogFormatError
from diploee.importers.job_logs.options import JobLogOptions
from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    RawJobs,
    RawLog,
    stamps_ms,
    state_ids,
)
from diploee.json_files import Record, parse_json
from diploee.loads.jobs.job_log import MISSING_MS
from diploee.tables import Float64Array, Int16Array, Int64Array, Table, column
from diploee.textio.tables import ReadTable
from diploee.textio.text import Text
from diploee.textio.values import ids, labels

ATTEMPT_LEFT_OUT = "attempt without a whole run time, left out of its job's"

EDGES = ("start_time", "end_time")

_START = re.compile(r"\[\s*(\{|\])")


class _Server(Record):
    ip: str | int | None = None
    gpus: list[Any] | None = None


class _Attempt(Record):
    start_time: str | int | None = None
    end_time: str | int | None = None
    detail: list[_Server] | None = None

    def width(self) -> tuple[float, float]:
        """Return the different servers of an attempt and their GPUs, NaN where it lists none."""
        if not self.detail:
            return np.nan, np.nan
        n_gpus = sum(len(server.gpus or ()) for server in self.detail)
        return float(len({server.ip for server in self.detail})), float(n_gpus)


class _Job(Record):
    jobid: str | int | None = None
    submitted_time: str | int | None = None
    status: str | int | None = None
    attempts: list[_Attempt] | None = None


class _Log(RootModel[list[_Job]]):
    pass


def recognises(text: Text) -> bool:
    """Return whether the text begins as a JSON list of objects."""
    return _START.match(text.head.lstrip()) is not None


def read(text: Text, options: JobLogOptions) -> RawLog:
    """Read Philly's `cluster_job_log`."""
    jobs = parse_json(text.data, str(text.path), _Log, LogFormatError, finite=False).root
    if not jobs:
        text.fail(1, "an empty list, expected jobs; give a complete log")

    def where(job: int) -> str:
        """Return the line of a job by its id, else its number."""
        offset = text.data.find(json.dumps(jobs[job].jobid, ensure_ascii=False).encode())
        return f"{text.path}: job {job}" if offset < 0 else f"{text.path}:{text.line_at(offset)}"

    table = _columns(text, jobs, where, ("jobid", "submitted_time", "status"))
    submissions = stamps_ms(table, ("submitted_time",), options.zone)
    rows = [attempt for job in jobs for attempt in job.attempts or ()]
    of_job = np.repeat(np.arange(len(jobs)), [len(job.attempts or ()) for job in jobs])
    edges = stamps_ms(
        _columns(text, rows, lambda row: where(of_job[row]), EDGES), EDGES, options.zone
    ).ms
    widths = [attempt.width() for attempt in rows]
    n_nodes, n_gpus = np.array(widths, dtype=np.float64).reshape(-1, 2).T
    start_ms, end_ms = (edges[name] for name in EDGES)
    attempts = _Attempts(of_job, start_ms, end_ms, n_nodes, n_gpus)
    n_left_out = int((attempts.run_ms == MISSING_MS).sum())
    return RawLog(
        rows=_jobs(attempts, submissions.ms["submitted_time"], state_ids(*labels(table, "status"))),
        job_ids=ids(table, "jobid"),
        utc_offset_min=submissions.utc_offset_min,
        time_zone=submissions.time_zone,
        is_naive=submissions.is_naive,
        noted={**submissions.noted, ATTEMPT_LEFT_OUT: n_left_out},
    )


FORMAT = JobLogFormat("philly", "Philly's cluster_job_log (JSON)", recognises, read)


def _columns(
    text: Text, records: Sequence[Record], where: Callable[[int], str], names: Sequence[str]
) -> ReadTable:
    """Return fields of records as columns of text."""
    columns = {}
    for name in names:
        values = (getattr(record, name) for record in records)
        texts = ["" if value is None else str(value) for value in values]
        columns[name] = pa.chunked_array([arrow_texts(texts)])
    return ReadTable(text.path, columns, {name: name for name in names}, where)


@dataclass(frozen=True, eq=False)
class _Attempts(Table):
    """Attempts in the order of the file; `job` is the index of their job."""

    job: Int64Array = column("int64")
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_nodes: Float64Array = column("float64")
    n_gpus: Float64Array = column("float64")

    @property
    def run_ms(self) -> Int64Array:
        """Run time of each attempt [ms], `MISSING_MS` where it has no whole one."""
        is_whole = (self.start_ms != MISSING_MS) & (self.end_ms >= self.start_ms)
        return np.where(is_whole, self.end_ms - self.start_ms, MISSING_MS)


def _jobs(attempts: _Attempts, submit_ms: Int64Array, state_id: Int16Array) -> RawJobs:
    n_jobs = submit_ms.size
    job, run_ms = attempts.job, attempts.run_ms
    is_whole = run_ms != MISSING_MS
    total_ms, first_ms = np.zeros(n_jobs, dtype=np.int64), np.full(n_jobs, -MISSING_MS)
    np.add.at(total_ms, job[is_whole], run_ms[is_whole])
    has_start = attempts.start_ms != MISSING_MS
    np.minimum.at(first_ms, job[has_start], attempts.start_ms[has_start])
    is_last = np.diff(job, append=-1) != 0
    has_run = np.zeros(n_jobs, dtype=bool)
    has_run[job[is_whole]] = True
    has_run[job[is_last & has_start & (attempts.end_ms == MISSING_MS)]] = False
    # The longest attempt of each job comes last, and so is the one that stays.
    order = np.argsort(np.where(is_whole, run_ms, -1), kind="stable")
    n_nodes, n_gpus = np.full(n_jobs, np.nan), np.full(n_jobs, np.nan)
    n_nodes[job[order]], n_gpus[job[order]] = attempts.n_nodes[order], attempts.n_gpus[order]
    return RawJobs(
        start_ms=np.where(first_ms == -MISSING_MS, MISSING_MS, first_ms),
        submit_ms=submit_ms,
        run_ms=np.where(has_run, total_ms, MISSING_MS),
        n_nodes=n_nodes,
        n_gpus=n_gpus,
        state_id=state_id,
    )
