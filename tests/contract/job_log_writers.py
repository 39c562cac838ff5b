"""Small job logs in every format, written from one list of jobs, for the contract of
importers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from diploee.loads.jobs.job_log import MISSING_MS, STATES, JobLog

ORIGIN_S = 1_678_060_800
"""Monday, 2023-03-06 00:00 UTC: where times count from."""


@dataclass(frozen=True)
class Job:
    """The truth: times [s since `ORIGIN_S`], None where the log shall not tell."""

    name: str
    submit_s: int
    start_s: int | None
    end_s: int | None
    n_gpus: float = 8
    state: str = "completed"
    kind: str = "train"

    @property
    def n_nodes(self) -> int:
        """Nodes of 8 GPUs."""
        return max(-int(-self.n_gpus // 8), 1)


JOBS = (
    Job("1001", 0, 60, 3_660, 8),
    Job("1002", 30, 90, 690, 4, "failed", "eval"),
    Job("1003", 30, 30, 86_430, 64),
    Job("1004", 7_200, 7_260, 7_321, 12, "cancelled", "eval"),
    Job("1005", 90_000, 180_000, 266_400, 256),
)


class LogWriter:
    """One format: how it writes a list of jobs, and what of a job it can tell."""

    name: ClassVar[str]
    states: ClassVar[dict[str, str]]  # the format's word for each state
    # What tells the local time: "stamps", the user's "option", nothing but the instant
    # ("header"), or nothing ("none").
    zone: ClassVar[str]
    missing: ClassVar[tuple[str, ...]]  # the format's words for a missing time
    header: ClassVar[str]  # its first lines
    options: ClassVar[dict[str, Any]] = {}  # what the user must say
    has_nodes = True
    has_gpus = True
    has_submission = True
    has_kind = True
    delimited = True

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        raise NotImplementedError

    def parts(self, job: Job) -> list[str]:
        """Return lines of steps of a job that are not jobs, or of the parts that make
        it up."""
        raise NotImplementedError

    def kind(self, job: Job) -> str:
        return job.kind

    def lines(
        self, jobs: Iterable[Job], offset_min: int = 0, missing: str | None = None
    ) -> list[str]:
        return self.text_lines([self.row(job, offset_min, missing) for job in jobs])

    def text_lines(self, rows: Sequence[str]) -> list[str]:
        return [*self.header.splitlines(), *rows]

    def write(self, path: Path, jobs: Iterable[Job], **how: Any) -> Path:
        return write_lines(path, self.lines(jobs, **how))


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def stamp(time_s: int | None, offset_min: int, missing: str, layout: str) -> str:
    if time_s is None:
        return missing
    local = datetime.fromtimestamp(ORIGIN_S + time_s, UTC) + timedelta(
        minutes=offset_min
    )
    return local.strftime(layout)


def offset_text(offset_min: int) -> str:
    hours, minutes = divmod(abs(offset_min), 60)
    return f"{'-' if offset_min < 0 else '+'}{hours:02d}:{minutes:02d}"


def check_log(log: JobLog) -> None:
    """Check what holds for every log, and that no row vanished without a cause."""
    jobs, counts = log.jobs, log.counts
    assert counts.n_rows == counts.n_kept + sum(counts.dropped.values())
    assert len(log) == counts.n_kept == len(log.job_ids)
    assert (np.diff(jobs.submit_ms) >= 0).all()
    assert (jobs.duration_ms > 0).all()
    assert (jobs.n_nodes >= 1).all()
    assert ((jobs.start_ms >= jobs.submit_ms) | (jobs.start_ms == MISSING_MS)).all()
    assert (jobs.submit_ms != MISSING_MS).all()
    assert not (jobs.n_gpus < 0).any() and not np.isinf(jobs.n_gpus).any()
    assert not (jobs.energy_j <= 0).any()
    assert ((jobs.state_id >= 0) & (jobs.state_id < len(STATES))).all()
    assert ((jobs.type_id >= 0) & (jobs.type_id < len(log.types))).all()
    assert log.is_relative == (log.utc_offset_min is None)
    assert all(n > 0 for n in (*counts.dropped.values(), *counts.repaired.values()))


class Swf(LogWriter):
    name = "swf"
    states: ClassVar = {
        "completed": "1",
        "failed": "0",
        "cancelled": "5",
        "other": "-1",
    }
    zone = "header"
    missing = ("-1",)
    has_gpus = False

    header = (
        f"; Version: 2.2\n; UnixStartTime: {ORIGIN_S}\n;   MaxNodes: 100\n"
        "; MaxProcs: 800 (400+400)"
    )

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        wait = "-1" if job.start_s is None else job.start_s - job.submit_s
        run = "-1" if None in (job.end_s, job.start_s) else job.end_s - job.start_s
        queue = {"train": 1, "eval": 2}[job.kind]
        return (
            f"{job.name:>6}  {job.submit_s:>8} {wait:>6} {run:>7}\t{int(job.n_gpus)} "
            f"-1 -1 {int(job.n_gpus)} -1 -1 {self.states[job.state]} 3 1 -1 {queue} "
            "-1 -1 -1 "
        )

    def parts(self, job: Job) -> list[str]:
        halves = (job.end_s - job.start_s) // 2, -(-(job.end_s - job.start_s) // 2)
        rest = "8 -1 -1 8 -1 -1 {} 3 1 -1 1 -1 -1 -1"
        return [
            self.row(job),
            f"{job.name} {job.submit_s} 0 {halves[0]} {rest.format(2)}",
            f"{job.name} -1 5 {halves[1]} {rest.format(3)}",
        ]

    def kind(self, job: Job) -> str:
        return {"train": "queue 1", "eval": "queue 2"}[job.kind]


class Slurm(LogWriter):
    name = "slurm"
    states: ClassVar = {
        "completed": "COMPLETED",
        "failed": "NODE_FAIL",
        "cancelled": "CANCELLED by 1000",
        "timeout": "TIMEOUT",
        "other": "PREEMPTED",
    }
    zone = "option"
    missing = ("Unknown", "None", "None assigned", "")

    header = (
        "JobID|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|AllocTRES|State|"
        "ConsumedEnergyRaw|Partition"
    )

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        word = missing if missing is not None else "Unknown"
        submit, start, end = (
            stamp(time_s, offset_min, word, "%Y-%m-%dT%H:%M:%S")
            for time_s in (job.submit_s, job.start_s, job.end_s)
        )
        elapsed = (
            0 if None in (job.start_s, job.end_s) else max(job.end_s - job.start_s, -1)
        )
        gpus = f"gres/gpu={int(job.n_gpus)}," if job.n_gpus else ""
        tres = f"billing=64,cpu=64,{gpus}mem=500G,node={job.n_nodes}"
        return (
            f"{job.name}|{submit}|{start}|{end}|{elapsed}|1440|{job.n_nodes}|{tres}|"
            f"{self.states[job.state]}|3600000|{job.kind}"
        )

    def parts(self, job: Job) -> list[str]:
        row, steps = self.row(job), ("batch", "extern", "0", "17")
        return [row, *(row.replace(job.name, f"{job.name}.{s}", 1) for s in steps)]


class Acme(LogWriter):
    name = "acme"
    states: ClassVar = {
        "completed": "COMPLETED",
        "failed": "FAILED",
        "cancelled": "CANCELLED",
        "timeout": "TIMEOUT",
        "other": "RUNNING",
    }
    zone = "stamps"
    missing = ("", "NaN", "None")

    header = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,"
        "end_time,duration,queue,gpu_time"
    )

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        word = missing or ""
        layout = f"%Y-%m-%d %H:%M:%S{offset_text(offset_min)}"
        times = ",".join(
            stamp(time_s, offset_min, word, layout)
            for time_s in (job.submit_s, job.start_s, job.end_s)
        )
        return (
            f"{job.name},u5907,{job.n_nodes},{job.n_gpus:g},128,{job.kind},"
            f"{self.states[job.state]},{times},999999,32,936.0"
        )


class Philly(LogWriter):
    name = "philly"
    states: ClassVar = {"completed": "Pass", "failed": "Failed", "cancelled": "Killed"}
    zone = "option"
    missing = ("None", "null")
    has_kind = False
    delimited = False

    header = "["

    def _attempt(
        self, job: Job, first_s: int | None, last_s: int | None, how: Any
    ) -> Any:
        start, end = (how(time_s) for time_s in (first_s, last_s))
        gpus = int(job.n_gpus)
        per_server = [min(8, gpus - 8 * i) for i in range(job.n_nodes)]
        detail = [
            {"ip": f"m{i}", "gpus": [f"gpu{k}" for k in range(n)]}
            for i, n in enumerate(per_server)
        ]
        return {"start_time": start, "end_time": end, "detail": detail}

    def _object(self, job: Job, attempts: list[Any], how: Any) -> str:
        of = {"status": self.states[job.state], "vc": "ee9e8c", "jobid": job.name}
        of |= {"attempts": attempts, "submitted_time": how(job.submit_s)}
        return json.dumps(of | {"user": "ce2f4c"})

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        def how(time_s: int | None) -> str | None:
            if time_s is None and missing in (None, "null"):
                return None
            return stamp(time_s, offset_min, missing or "", "%Y-%m-%d %H:%M:%S")

        ran = job.start_s is not None
        attempts = [self._attempt(job, job.start_s, job.end_s, how)] if ran else []
        return self._object(job, attempts, how)

    def parts(self, job: Job) -> list[str]:
        def how(time_s: int | None) -> str | None:
            return stamp(time_s, 0, "", "%Y-%m-%d %H:%M:%S")

        third = (job.end_s - job.start_s) // 3
        first = self._attempt(job, job.start_s, job.start_s + third, how)
        wait_s = 500
        second = self._attempt(
            job, job.start_s + third + wait_s, job.end_s + wait_s, how
        )
        return [self._object(job, [first, second], how)]

    def text_lines(self, rows: Sequence[str]) -> list[str]:
        return ["[", *(f"{row}," for row in rows[:-1]), *rows[-1:], "]"]


class Alibaba2020(LogWriter):
    name = "alibaba-2020"
    states: ClassVar = {
        "completed": "Terminated",
        "failed": "Failed",
        "other": "Running",
    }
    zone = "header"
    missing = ("", "nan")
    options: ClassVar = {"gpus_per_node": 8}
    has_nodes = False
    has_submission = False

    header = (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,"
        "plan_gpu,gpu_type"
    )

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        return self._task(job, job.kind, 1.0, job.n_gpus * 100, missing or "")

    def _task(
        self, job: Job, task: str, n: float, percent: float, missing: str = ""
    ) -> str:
        start, end = (
            missing if time_s is None else f"{ORIGIN_S + time_s}.0"
            for time_s in (job.start_s, job.end_s)
        )
        gpus = "" if percent == 0 else f"{percent}"
        status = self.states[job.state]
        return f"{job.name},{task},{n},{status},{start},{end},600.0,29.29,{gpus},MISC"

    def parts(self, job: Job) -> list[str]:
        workers = self._task(job, job.kind, 2.0, job.n_gpus * 50)
        return [self._task(job, "ps", 3.0, 0), workers]


class Openb(LogWriter):
    name = "openb"
    states: ClassVar = {
        "completed": "Succeeded",
        "failed": "Failed",
        "other": "Running",
    }
    zone = "none"
    missing = ("", "NaN", "-1")

    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
        "creation_time,deletion_time,scheduled_time"
    )

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        submit, start, end = (
            (missing or "") if time_s is None else time_s
            for time_s in (job.submit_s, job.start_s, job.end_s)
        )
        whole = -int(-job.n_gpus // 1)
        milli = round(job.n_gpus * 1000) if whole == 1 else 1000 if whole else 0
        return (
            f"{job.name},12000,16384,{whole},{milli},,{job.kind},"
            f"{self.states[job.state]},{submit},{end},{start}"
        )


class PlainCsv(LogWriter):
    name = "csv"
    states: ClassVar = {
        "completed": "done",
        "failed": "Error",
        "cancelled": "killed",
        "timeout": "timeout",
        "other": "?",
    }
    zone = "option"
    missing = ("", "NULL", "n/a", "-1")
    options: ClassVar = {
        "columns": {
            "id": "Job",
            "submit": "Eingereicht",
            "start": "Von",
            "end": "Bis",
            "nodes": "Knoten",
            "gpus": "GPUs",
            "type": "Art",
            "state": "Zustand",
        }
    }

    header = 'Job;Eingereicht;"Von";Bis;Knoten;GPUs;Art;Zustand;Bemerkung'

    def row(self, job: Job, offset_min: int = 0, missing: str | None = None) -> str:
        times = ";".join(
            stamp(time_s, offset_min, missing or "", "%Y-%m-%d %H:%M:%S")
            for time_s in (job.submit_s, job.start_s, job.end_s)
        )
        return (
            f'{job.name};{times};{job.n_nodes};{job.n_gpus:g};"{job.kind}";'
            f'{self.states[job.state]};"eins; ""zwei"""'
        )


WRITERS: tuple[LogWriter, ...] = (
    Swf(),
    Slurm(),
    Acme(),
    Philly(),
    Alibaba2020(),
    Openb(),
    PlainCsv(),
)
