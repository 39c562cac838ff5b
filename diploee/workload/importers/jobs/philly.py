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

import re
from dataclasses import dataclass

import numpy as np

from diploee.tables import Float64Array, Int16Array, Int64Array, Table, column
from diploee.workload.importers.jobs.base import JobLogFormat
from diploee.workload.importers.jobs.json_list import JsonObject, TextColumns, json_objects
from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.stamps import stamps
from diploee.workload.importers.jobs.text_file import TextFile
from diploee.workload.importers.jobs.values import job_ids, labels, state_ids
from diploee.workload.job_log import MISSING_MS

ATTEMPT_LEFT_OUT = "attempt without a whole run time, left out of its job's"

_START = re.compile(r"\[\s*(\{|\])")


def recognises(file: TextFile) -> bool:
    """Return whether the text begins as a JSON list of objects."""
    return _START.match(file.head.lstrip()) is not None


def read(file: TextFile, options: JobLogOptions) -> RawLog:
    """Read Philly's `cluster_job_log`.

    Raises
    ------
    LogFormatError
        If it is not a JSON list of such jobs, or a stamp does not parse.
    """
    jobs = TextColumns(("jobid", "submitted_time", "status"))
    attempt_texts = TextColumns(("start_time", "end_time"))
    owners: list[int] = []
    widths: list[tuple[float, float]] = []
    for job in json_objects(file):
        for attempt in job.objects("attempts"):
            attempt_texts.add(attempt)
            owners.append(len(jobs))
            widths.append(_width(attempt))
        jobs.add(job)
    if not len(jobs):
        file.fail(1, "an empty list, expected jobs; give a complete log")
    table = jobs.table(file.path)
    submissions = stamps(table, ("submitted_time",), options.zone)
    edges = stamps(attempt_texts.table(file.path), ("start_time", "end_time"), options.zone).ms
    n_nodes, n_gpus = np.array(widths, dtype=np.float64).reshape(-1, 2).T
    attempts = _Attempts(
        np.array(owners, dtype=np.int64), edges["start_time"], edges["end_time"], n_nodes, n_gpus
    )
    return RawLog(
        rows=_jobs(attempts, submissions.ms["submitted_time"], state_ids(*labels(table, "status"))),
        types=("",),
        job_ids=job_ids(table, "jobid"),
        utc_offset_min=submissions.utc_offset_min,
        noted=submissions.noted | {ATTEMPT_LEFT_OUT: int((attempts.run_ms == MISSING_MS).sum())},
    )


FORMAT = JobLogFormat("philly", "Philly's cluster_job_log (JSON)", recognises, read)


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


def _width(attempt: JsonObject) -> tuple[float, float]:
    """Return the different servers of an attempt and their GPUs, NaN where it lists none."""
    servers = attempt.objects("detail")
    names = {server.text("ip") for server in servers}
    n_gpus = sum(server.length("gpus") for server in servers)
    return (float(len(names)), float(n_gpus)) if servers else (np.nan, np.nan)


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
        submit_ms=submit_ms,
        start_ms=np.where(first_ms == -MISSING_MS, MISSING_MS, first_ms),
        end_ms=np.full(n_jobs, MISSING_MS),
        run_ms=np.where(has_run, total_ms, MISSING_MS),
        n_nodes=n_nodes,
        n_gpus=n_gpus,
        state_id=state_id,
        type_id=np.zeros(n_jobs, dtype=np.int32),
        energy_j=np.full(n_jobs, np.nan),
    )
