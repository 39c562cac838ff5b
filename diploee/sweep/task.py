"""One run of a sweep, as a function that any process on any machine can call."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import pyarrow.parquet as pq

from diploee.errors import DiploeeError, InputError, OutputError
from diploee.outputs import MANIFEST, METRICS_FILE, Run, write_json
from diploee.outputs.jobs_file import JOBS_FILE
from diploee.profiles import ProfileLibrary
from diploee.run import simulate
from diploee.scenario import Scenario
from diploee.schedule import Engine
from diploee.sweep.identity import NAME_DIGITS, run_hash
from diploee.sweep.shape import SHAPE_FILE, load_shape
from diploee.sweep.spec import KEPT_FILES, Keep
from diploee.sweep.store import RUNS, Store, open_store
from diploee.units import MS_PER_H
from diploee.watch import peak_memory_mb

RECORD_FILE = "record.json"
START_COST = 2e6
"""What a run without jobs costs, in node-hours of jobs."""


@dataclass(frozen=True)
class RunTask:
    """All that a process needs to know to do a run.

    Parameters
    ----------
    run : str
        Name of the run.
    scenario : Scenario
        As resolved.
    target : str
        Folder or URL of the sweep.
    profiles : tuple of str
        Profile folders; none means the shipped ones.
    engine : {"simpy", "compiled"}
        Scheduler.
    keep : {"metrics", "series", "all"}
        What stays of the run.
    """

    run: str
    scenario: Scenario
    target: str
    profiles: tuple[str, ...] = ()
    engine: Engine = "compiled"
    keep: Keep = "series"

    @property
    def node_hours(self) -> float:
        """Nodes times hours simulated: a measure of its memory."""
        return self.scenario.facility.n_nodes * self.scenario.horizon_ms / MS_PER_H

    @property
    def cost(self) -> float:
        """Node-hours that jobs are to take: a measure of its time, which grows with the jobs."""
        pools, hours = self.scenario.facility.pools, self.scenario.horizon_ms / MS_PER_H
        busy = sum(
            pools[stream.pool].n_nodes * (stream.target_utilization or 1.0)
            for stream in self.scenario.streams.values()
        )
        return START_COST + busy * hours


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `error` is one line where it failed."""

    run: str
    status: Literal["finished", "failed"]
    error: str = ""
    wall_s: float = 0.0
    peak_memory_mb: float = 0.0


Executor = Callable[[Sequence[RunTask]], Iterator[Outcome]]
"""Does runs and yields each outcome as it comes, in any order."""


def run_task(task: RunTask) -> Outcome:
    """Do a run, unless it is complete already; an error becomes its outcome."""
    started = time.perf_counter()
    error = ""
    try:
        _complete(task)
    except DiploeeError as problem:
        error = "; ".join(str(problem).splitlines())
    except Exception as problem:  # noqa: BLE001  # one failing run must not end the others
        error = f"internal error: {type(problem).__name__}: {' '.join(str(problem).split())}"
    status: Literal["finished", "failed"] = "failed" if error else "finished"
    return Outcome(task.run, status, error, time.perf_counter() - started, peak_memory_mb())


def in_process(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
    """Do runs one by one in this process."""
    return map(run_task, tasks)


def _complete(task: RunTask) -> None:
    store = open_store(task.target)
    if read_record(store, task.run, task.keep) is not None:
        return
    library = _library(task.profiles)
    if run_hash(task.scenario, library)[:NAME_DIGITS] != task.run:
        raise InputError(
            "the worker has another version of diploee, of the profiles or of the curve files "
            "than the sweep; install the same ones on every machine"
        )
    with store.staging(task.run) as staging:
        run = simulate(
            task.scenario,
            staging / RUNS,
            library=library,
            engine=task.engine,
            jobs_file=JOBS_FILE in KEPT_FILES[task.keep],
            n_threads=1,  # the other cores have runs of their own
        )
        _finish(run, task)
        try:
            store.put_run(run.folder, task.run)
        except OutputError:
            # Another worker was as fast: Dask does a run twice where it lost sight of a worker.
            if read_record(store, task.run, task.keep) is None:
                raise


def _finish(run: Run, task: RunTask) -> None:
    """Add the load's shape and the record, and drop the files that are not kept."""
    pq.write_table(load_shape(run.folder, task.scenario), run.folder / SHAPE_FILE)
    for name in set(KEPT_FILES["all"]) - set(KEPT_FILES[task.keep]):
        (run.folder / name).unlink(missing_ok=True)
    record = {
        "run": run_hash(task.scenario, _library(task.profiles)),
        "keep": task.keep,
        "warnings": run.manifest["warnings"],
    }
    write_json(run.folder / RECORD_FILE, record)


@lru_cache(maxsize=4)
def _library(folders: tuple[str, ...]) -> ProfileLibrary:
    """Open a library once per process."""
    return ProfileLibrary.open(*folders)


def read_record(store: Store, run: str, keep: Keep) -> dict[str, Any] | None:
    """Return the record of a run that is complete with all files that `keep` asks for."""
    if not store.exists(store.run_name(run, MANIFEST)):
        return None
    try:
        record: dict[str, Any] = json.loads(store.read(store.run_name(run, RECORD_FILE)))
    except (OSError, ValueError):
        return None
    kept = KEPT_FILES.get(record.get("keep", "metrics"), ())
    return record if set(KEPT_FILES[keep]) <= set(kept) else None


def read_metrics(store: Store, run: str) -> dict[str, Any]:
    """Return the metrics of a complete run."""
    metrics: dict[str, Any] = json.loads(store.read(store.run_name(run, METRICS_FILE)))
    return metrics


def read_shape(store: Store, run: str) -> Any:
    """Return the load shape of a complete run, an Arrow table."""
    return pq.read_table(io.BytesIO(store.read(store.run_name(run, SHAPE_FILE))))


__all__ = [
    "Executor",
    "Outcome",
    "RunTask",
    "in_process",
    "read_metrics",
    "read_record",
    "read_shape",
    "run_task",
]
