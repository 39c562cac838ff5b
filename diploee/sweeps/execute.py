"""Execution of a sweep: missing runs are simulated, and all runs are summarized."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import pyarrow as pa
from pydantic import Field, InstanceOf

from diploee.api.sites import AnyScenario, Values, site_of, with_values
from diploee.base.arguments import (
    AnyDuration,
    AnyTime,
    allowed,
    as_list,
    checked_arguments,
)
from diploee.base.errors import (
    Brief,
    InputError,
    OutputError,
    OutputExistsError,
    counted,
    one_line,
    one_of,
    shown,
)
from diploee.base.progress import Progress, stage, usual_progress
from diploee.base.version import full_version
from diploee.profiles.library import REFERENCE, ProfileLibrary
from diploee.runs.sections import Section, as_html
from diploee.schedule.schedule import Engine
from diploee.simulation.cost_forecast import Forecast
from diploee.simulation.prepared import RunOptions
from diploee.simulation.run import check
from diploee.sweeps.dask_cluster import run_on_dask
from diploee.sweeps.ensemble import Ensemble, write_ensemble
from diploee.sweeps.expand import MAX_RUNS, PlannedRun, expand
from diploee.sweeps.folder import MANIFEST, lock_folder, sweep_folder, write_file
from diploee.sweeps.loading import (
    Sweep,
    is_sweep,
    load_ensemble,
    load_sweep,
    sweep_from_dict,
)
from diploee.sweeps.local_processes import run_locally
from diploee.sweeps.record import (
    SUMMARY_FILE,
    SWEEP_FILE,
    json_bytes,
    read_results,
    recorded_sweep,
    summary_table,
    sweep_content,
    table_bytes,
)
from diploee.sweeps.task import Executor, Outcome, RunTask, in_process

if TYPE_CHECKING:
    import pandas as pd

MAX_CHECKED = 8
"""Runs that are looked at, evenly over the sweep; the others go by their cost."""
AnySweep: TypeAlias = Annotated[
    InstanceOf[Sweep] | Mapping[str, Any] | Path | str,
    allowed("a sweep, its name or file, or its content as a dict"),
]
Seeds: TypeAlias = Annotated[
    int | Sequence[int], allowed("a whole number of seeds, or a list of seeds")
]

METRICS_MB = 0.2
"""ASSUMPTION: size of the files of a run without its series [MB]."""

GONE = "it was done, but its files are damaged or gone; the same command does it again"


@dataclass(frozen=True)
class SweepResult(Brief):
    """Result of a sweep after its runs: summary table, statistics and failed runs."""

    target: str  # its folder
    runs: list[PlannedRun]  # all runs
    summary: pa.Table  # the content of ``summary.parquet``
    failed: dict[str, str] = field(default_factory=dict)  # error by the run's name
    n_computed: int = 0  # runs that were done now; the others were complete before
    # Statistics over the seeds, where points have at least two finished ones
    ensemble: Ensemble | None = None
    # Each once, with the number of runs
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        n_runs, n_failed = len(self.runs), len(self.failed)
        counts = f"{n_runs:,} runs, {n_failed:,} failed"
        return one_line(f"<SweepResult: {counts}, in {shown(self.target)}>")

    def frame(self) -> pd.DataFrame:
        """Return a row per run: point, axes, draws, seed, status, metrics."""
        frame: pd.DataFrame = self.summary.to_pandas()
        return frame

    def sections(self) -> list[Section]:
        """Return the sections on points and spread; empty if no run has finished."""
        from diploee.reports.sweep_charts import sweep_sections
        from diploee.reports.sweep_data import read_sweep

        done = len(self.failed) < len(self.runs)
        return sweep_sections(read_sweep(Path(self.target)), ()) if done else []

    def _repr_html_(self) -> str:
        return as_html(self.target, self.sections())


def run_sweep(
    sweep: Sweep | str | Path,
    out: str | Path | None = None,
    *,
    executor: Executor = in_process,
    profiles: Sequence[str] = (),
    engine: Engine | None = None,
    max_runs: int = MAX_RUNS,
    progress: Progress | None = None,
) -> SweepResult:
    """Execute the missing runs of a sweep and write its summary.

    Parameters
    ----------
    sweep : Sweep, str or pathlib.Path
        A loaded sweep, its file, or the name of a shipped one.
    out : str or pathlib.Path, optional
        Folder of the sweep; ``sweeps/<name>`` by default. Complete runs in it are kept.
    executor : callable
        Function that executes the runs: `in_process` by default, or `run_locally` or
        `run_on_dask` with their other arguments bound.
    profiles : sequence of str
        Profile folders; the shipped profiles if empty.
    engine : {"simpy", "compiled"}, optional
        Scheduler; both give the same results. By default the faster for each run.
    max_runs : int
        Maximum number of runs.
    progress : Progress, optional
        Called after each run.

    Raises
    ------
    InputError
        If the sweep, its values, the profiles or the output are not usable; no run is
        then done.
    OutputError
        If the folder can't be written. If that is detected before the first run, no
        run is done; finished runs are kept in any case.
    """
    sweep = sweep if isinstance(sweep, Sweep) else load_sweep(sweep)
    progress = progress or Progress()
    folders = tuple(f if f == REFERENCE else os.path.realpath(f) for f in profiles)
    runs = expand(sweep, ProfileLibrary.open(*folders), max_runs)
    target = str(out) if out is not None else f"sweeps/{sweep.name}"
    folder = sweep_folder(target)
    with lock_folder(folder):
        recorded, now = recorded_sweep(folder), full_version()
        before = recorded.diploee_version if recorded else now
        if (folder / MANIFEST).is_file():
            raise OutputExistsError(f"{target}: is a run; choose another --out")
        if recorded and recorded.is_other(sweep, runs):
            raise OutputExistsError(
                f"{target}: holds another sweep, which has none of these runs; choose "
                "another --out, or remove the folder"
            )
        results = read_results(folder, (run.run for run in runs), sweep.spec.keep)
        missing = {
            run.run: RunTask(
                run.run,
                run.scenario,
                str(folder),
                folders,
                engine,
                sweep.spec.keep,
                run.own,
            )
            for run in runs
            if run.run not in results
        }
        # The costliest first, so that none is left alone at the end
        tasks = sorted(missing.values(), key=lambda task: -task.cost)
        ended: dict[str, str] = {}

        def write(failed: dict[str, str]) -> pa.Table:
            options = {
                "base": sweep.spec.base,
                "engine": engine,
                "profiles": list(folders),
            }
            content = sweep_content(sweep, runs, results, failed, **options)
            write_file(folder / SWEEP_FILE, json_bytes(content))
            summary = summary_table(sweep, runs, results, failed)
            write_file(folder / SUMMARY_FILE, table_bytes(summary))
            return summary

        # A cluster that is not there: nothing is written
        outcomes = executor(tasks) if tasks else iter(())
        with ExitStack() as stack:
            stack.callback(_close, outcomes)
            if tasks and before != now:
                progress.tell(
                    f"{target}: begun with diploee {before}, this is {now}; what that "
                    "version computed is not used, its runs are done anew"
                )
            try:  # a bad place shows before hours of work
                write({})
            except (OutputError, OutputExistsError) as error:
                raise type(error)(f"{error}; nothing was run") from error
            try:
                _execute_runs(tasks, len(runs), outcomes, ended, progress)
            finally:  # an interrupt also leaves a summary of what there is
                results |= read_results(
                    folder, (task.run for task in tasks), sweep.spec.keep
                )
                failed = {
                    run: error or GONE
                    for run, error in ended.items()
                    if run not in results
                }
                summary = write(failed)
        n_computed = sum(task.run in results for task in tasks)
        with stage("statistics", progress):
            ensemble = write_ensemble(folder, sweep, runs, results)
    warned = counted(
        (result.warnings for result in results.values()), len(results), "run"
    )
    return SweepResult(target, runs, summary, failed, n_computed, ensemble, warned)


def _close(outcomes: Iterator[Outcome]) -> None:
    """Close a generator of outcomes, which stops its workers now."""
    close: Callable[[], None] = getattr(outcomes, "close", lambda: None)
    close()


def _execute_runs(
    tasks: Sequence[RunTask],
    n_runs: int,
    outcomes: Iterator[Outcome],
    ended: dict[str, str],
    progress: Progress,
) -> None:
    """Execute runs, and record the error (or an empty text) of each that ends."""
    if not tasks:
        return
    cost, done = {task.run: task.cost for task in tasks}, 0.0
    whole, n_failed = sum(cost.values()), 0
    with stage("sweep", progress) as update:
        update(0.0, f"{n_runs - len(tasks):,}/{n_runs:,} runs")
        for outcome in outcomes:
            ended[outcome.run] = outcome.error
            done += cost[outcome.run]
            n_failed += bool(outcome.error)
            failed = f", {n_failed:,} failed" if n_failed else ""
            n_ended = n_runs - len(tasks) + len(ended)
            update(done / whole, f"{n_ended:,}/{n_runs:,} runs{failed}")


@stage("forecast")
def forecast(
    sweep: Sweep,
    n_workers: int = 1,
    profiles: Sequence[str] = (),
    max_runs: int = MAX_RUNS,
) -> tuple[int, Forecast]:
    """Return the number of runs of a sweep and their expected cost."""
    library = ProfileLibrary.open(*profiles)
    tasks = [
        RunTask(run.run, run.scenario, "") for run in expand(sweep, library, max_runs)
    ]
    looked_at = tasks[:: -(-len(tasks) // MAX_CHECKED)]
    options = RunOptions(engine="compiled", jobs_file=sweep.spec.keep == "all")
    result = [
        check(site_of(task.scenario, library, options)).forecast for task in looked_at
    ]
    share = sum(task.cost for task in looked_at) / sum(task.cost for task in tasks)
    series_mb = (
        0.0
        if sweep.spec.keep == "metrics"
        else sum(each.disk_mb for each in result) / share
    )
    at_once = max(1, min(n_workers, len(tasks)))
    return len(tasks), Forecast(
        sum(each.time_s for each in result) / share / at_once,
        max(each.memory_mb for each in result) * at_once,
        series_mb + METRICS_MB * len(tasks),
    )


@checked_arguments
def sweep(
    sweep: AnySweep,
    out: Path | str | None = None,
    *,
    workers: Annotated[int, Field(ge=0)] = 0,
    dask: Any = None,
    profiles: Path | str | Sequence[Path | str] = (),
    engine: Engine | None = None,
    max_runs: int = MAX_RUNS,
    progress: InstanceOf[Progress] | None = None,
) -> SweepResult:
    """Run a scenario over axes and seeds; complete runs in `out` are not repeated.

    Parameters
    ----------
    sweep : Sweep, mapping, path or str
        A loaded sweep, the content of a sweep file as a dict, the file, or the name of
        a shipped sweep.
    out : path, optional
        Folder; ``sweeps/<name>`` by default.
    workers : int
        Number of worker processes on this machine. With 0, runs are in this process.
    dask : str or distributed.Client, optional
        Address or client of a Dask cluster that executes the runs.
    profiles : path or sequence of path
        Folders of power profiles instead of the shipped ones.
    engine : {"simpy", "compiled"}, optional
        Scheduler; both give the same results. By default the faster for each run.
    max_runs : int
        Maximum number of runs.
    progress : Progress, optional
        Called after each run.

    Returns
    -------
    SweepResult
        Its `frame()` has a row per run with every metric by dotted key.

    Raises
    ------
    InputError
        If the sweep, its values, the profiles or the output are not usable, or workers
        can't import your own code; no run is then done.
    OutputError
        If the folder can't be written. If that is detected before the first run, no
        run is done; finished runs are kept in any case.
    """
    if isinstance(sweep, Mapping):
        sweep = sweep_from_dict(sweep, "sweep")
    executor: Executor = in_process
    if dask is not None:
        executor = partial(run_on_dask, address=dask)
    elif workers:
        executor = partial(run_locally, n_workers=workers)
    return run_sweep(
        sweep,
        out,
        executor=executor,
        profiles=[str(folder) for folder in as_list(profiles)],
        engine=engine,
        max_runs=max_runs,
        progress=progress or usual_progress(),
    )


@checked_arguments
def ensemble(
    scenario: AnyScenario,
    out: Path | str | None = None,
    *,
    start: AnyTime | None = None,
    duration: AnyDuration | None = None,
    resolution: AnyDuration | None = None,
    step: AnyDuration | None = None,
    values: Values = (),
    seeds: Seeds | None = None,
    accuracy: float | None = None,
    assumed: bool = False,
    workers: Annotated[int, Field(ge=0)] = 0,
    dask: Any = None,
    profiles: Path | str | Sequence[Path | str] = (),
    engine: Engine | None = None,
    max_runs: int = MAX_RUNS,
    progress: InstanceOf[Progress] | None = None,
) -> SweepResult:
    """Run many seeds of a scenario or sweep; `SweepResult.ensemble` has the spread.

    Parameters
    ----------
    scenario : Scenario, mapping, path or str
        A scenario, its content, or the name or file of a scenario or of a sweep.
    out : path, optional
        Folder to write.
    start, duration, resolution, step, values
        Keys of the scenario, as in `diploee.run`; a sweep has its own.
    seeds : int or sequence of int, optional
        Seeds of each point, or their number; by default as in the sweep.
    accuracy : float, optional
        Required relative half-width of the mean's confidence interval, 0-1. The
        required number of seeds is computed from it.
    assumed : bool
        Draw each value that the scenario leaves to an assumption from its range; see
        `Scenario.ranges`.
    workers, dask, profiles, engine, max_runs, progress
        As in `diploee.sweep`.
    """
    folders = [str(folder) for folder in as_list(profiles)]
    keys = {
        "start": start,
        "duration": duration,
        "resolution": resolution,
        "step": step,
    }
    changes = {key: value for key, value in keys.items() if value is not None}
    if changes or values or not isinstance(scenario, Path | str):
        if is_sweep(scenario):
            raise InputError(
                f"{one_of([*changes] or ['values'])}: {scenario} is a sweep; set keys "
                "of its base under 'set:' there"
            )
        scenario = with_values(scenario, values, changes)
    return sweep(
        load_ensemble(scenario, seeds, accuracy, assumed, folders),
        out,
        workers=workers,
        dask=dask,
        profiles=folders,
        engine=engine,
        max_runs=max_runs,
        progress=progress,
    )
