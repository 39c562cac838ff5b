"""Importer of Philly (Microsoft, 2017): JSON list of jobs with their attempts.

- A job starts with its first attempt. Its run time is the sum of its attempts' run
  times, as the job had no GPUs between attempts. An attempt without a start or an end,
  or with an end before the start, is omitted and noted. Exception: if the last attempt
  has a start and no end, the job was still running.
- Nodes and GPUs are those of the longest attempt: the distinct servers that the
  attempt lists, and all their listed GPUs.
- ``Pass`` is completed, ``Killed`` cancelled, ``Failed`` failed. The log has no job
  types.
- Timestamps are local times without a zone: the zone is `utc_offset`, by default UTC.
  The trace's other files have Pacific time (``America/Los_Angeles``).

References
----------
.. [1] M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, USENIX ATC'19;
   https://github.com/msr-fiddle/philly-traces
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diploee.base.errors import LogFormatError
from diploee.base.validation import Record, parse_json
from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    JobLogOptions,
    RawJobs,
    RawLog,
    state_ids,
    timestamps_ms,
)
from diploee.importers.text.delimited_tables import ReadTable, text_columns
from diploee.importers.text.numbers_and_labels import ids, labels
from diploee.importers.text.text_lines import TextLines
from diploee.loads.jobs.job_log import MISSING_MS

ATTEMPT_LEFT_OUT = "attempt without a whole run time, left out of its job's"

EDGES = ("start_time", "end_time")

_START = re.compile(r"\[\s*\{[^{}]*\"(jobid|submitted_time|attempts)\"")


class _Server(Record):
    ip: str | int | None = None
    gpus: list[Any] | None = None


class _Attempt(Record):
    start_time: str | int | None = None
    end_time: str | int | None = None
    detail: list[_Server] | None = None

    def width(self) -> tuple[float, float]:
        """Return the numbers of distinct servers and of GPUs, NaN if not listed."""
        if not self.detail:
            return np.nan, np.nan
        n_gpus = sum(len(server.gpus or ()) for server in self.detail)
        return float(len({server.ip for server in self.detail})), float(n_gpus)


class _Job(Record):
    jobid: str | int | None = None
    submitted_time: str | int | None = None
    status: str | int | None = None
    attempts: list[_Attempt] | None = None


def recognises(text: TextLines) -> bool:
    """Return True if the text starts as a JSON list of jobs with Philly's keys."""
    return _START.match(text.head.lstrip()) is not None


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read Philly's `cluster_job_log` (JSON), and merge attempts into jobs."""
    import pandas as pd

    jobs = parse_json(
        text.data, str(text.path), list[_Job], LogFormatError, finite=False
    )
    if all(job.attempts is None for job in jobs):
        text.fail(
            1,
            "no job with the key 'attempts' of Philly's cluster_job_log; give a "
            "complete log, or write other logs as a CSV table",
        )

    def where(job: int) -> str:
        """Return file and line of a job's id, or the job's index if not found."""
        offset = text.data.find(
            json.dumps(jobs[job].jobid, ensure_ascii=False).encode()
        )
        return (
            f"{text.path}: job {job}"
            if offset < 0
            else f"{text.path}:{text.line_at(offset)}"
        )

    def table_of(
        records: Sequence[Record], place: Callable[[int], str], *names: str
    ) -> ReadTable:
        fields = {name: [getattr(record, name) for record in records] for name in names}
        return ReadTable(
            text.path, text_columns(fields), {name: name for name in names}, place
        )

    table = table_of(jobs, where, "jobid", "submitted_time", "status")
    submissions, clock = timestamps_ms(table, ("submitted_time",), options)
    noted = clock.pop("noted", {})
    rows = [attempt for job in jobs for attempt in job.attempts or ()]
    job_index = np.repeat(
        np.arange(len(jobs)), [len(job.attempts or ()) for job in jobs]
    )
    edges, _ = timestamps_ms(
        table_of(rows, lambda row: where(job_index[row]), *EDGES), EDGES, options
    )
    start_ms, end_ms = (edges[name] for name in EDGES)
    has_start = start_ms != MISSING_MS
    is_whole = has_start & (end_ms >= start_ms)
    widths = np.array([attempt.width() for attempt in rows], dtype=np.float64)
    attempts = pd.DataFrame(
        widths.reshape(-1, 2), columns=["nodes", "gpus"], index=job_index
    ).assign(
        start=np.where(has_start, start_ms, np.nan),
        run=np.where(is_whole, end_ms - start_ms, np.nan),
        runs=has_start & (end_ms == MISSING_MS),
    )
    per_job, every = attempts.groupby(level=0), range(len(jobs))
    first = per_job["start"].min()
    total = per_job["run"].sum(min_count=1).mask(per_job["runs"].last())
    start_ms, run_ms = (
        ms.reindex(every).fillna(MISSING_MS).to_numpy(np.int64) for ms in (first, total)
    )
    by_length = attempts.sort_values("run", kind="stable", na_position="first")
    longest = by_length.groupby(level=0).tail(1).reindex(every)
    return RawLog(
        rows=RawJobs(
            start_ms=start_ms,
            submit_ms=submissions["submitted_time"],
            run_ms=run_ms,
            n_nodes=longest["nodes"].to_numpy(),
            n_gpus=longest["gpus"].to_numpy(),
            state_id=state_ids(*labels(table, "status")),
        ),
        job_ids=ids(table, "jobid"),
        noted={**noted, ATTEMPT_LEFT_OUT: int((~is_whole).sum())},
        **clock,
    )


FORMAT = JobLogFormat("philly", "Philly's cluster_job_log (JSON)", recognises, read)
