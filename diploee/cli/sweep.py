"""`diploee sweep` and `diploee ensemble`: many runs with a summary."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from pydantic import Field, PositiveInt

from diploee.base.errors import InputError
from diploee.base.model import Model, default, unset
from diploee.base.progress import Progress
from diploee.cli import EXIT_FAILED, Interrupted
from diploee.cli.display import ProgressBars
from diploee.cli.options import options, print_result, shipped_names
from diploee.cli.sweep_display import show_sweep
from diploee.schedule.schedule import Engine
from diploee.sweeps.dask_cluster import run_on_dask
from diploee.sweeps.execute import SweepResult, forecast, run_sweep
from diploee.sweeps.loading import Sweep, load_ensemble, load_sweep
from diploee.sweeps.local_processes import run_locally, usable_cores
from diploee.sweeps.task import Executor, in_process


class ExecutionOptions(Model):
    """Execution options of a sweep: folder, workers, engine and output."""

    out: str | None = unset(
        "Folder, sweeps/<name> by default; complete runs in it are not repeated."
    )
    workers: Annotated[int, Field(ge=0)] | None = unset(
        "Number of processes, by default one per core if memory allows; 0 to use this "
        "process."
    )
    dask: str | None = unset(
        "Address of a Dask scheduler for the runs, such as tcp://10.0.0.1:8786."
    )
    engine: Engine | None = unset(
        "Scheduler, with equal results; compiled by default where available."
    )
    max_runs: PositiveInt = default(10_000, "Refuse a sweep with more runs.")
    profiles: tuple[str, ...] = default(
        (),
        "Folder of power profiles (default 'reference'); may be repeated.",
    )
    dry_run: bool = default(
        False, "Only check all runs and forecast their time, memory and disk."
    )
    quiet: bool = default(False, "Print errors only.")
    as_json: bool = default(False, "Print the result as JSON.")


class EnsembleOptions(ExecutionOptions):
    """Options of an ensemble: number of seeds, and sampling of assumptions."""

    seeds: Annotated[int, Field(ge=2)] | None = unset(
        "Number of seeds; 20 for a scenario."
    )
    accuracy: float | None = unset(
        "Relative half-width of 95 % confidence intervals, for which the number of "
        "seeds is determined."
    )
    assumed: bool = default(
        False,
        ("Sample the scenario's assumed values as well, within their ranges."),
    )


@options(out="--out DIR")
def sweep_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A sweep file, or the name of a built-in sweep.",
            autocompletion=shipped_names("sweep"),
        ),
    ],
    running: ExecutionOptions,
) -> None:
    """Run a scenario over values of its keys; a stopped sweep is resumed."""
    sweep = load_sweep(file)
    _run_or_forecast(
        sweep, running, ("sweep", "ensemble") if sweep.spec.draw else ("sweep",)
    )


@options(out="--out DIR", seeds="--seeds --runs")
def ensemble_command(
    scenario: Annotated[
        str,
        typer.Argument(
            help="A scenario or sweep file, or the name of a built-in one.",
            autocompletion=shipped_names("scenario", "sweep"),
        ),
    ],
    running: EnsembleOptions,
) -> None:
    """Run a scenario with many seeds, to show the spread of its results."""
    options = (running.seeds, running.accuracy, running.assumed, running.profiles)
    _run_or_forecast(load_ensemble(scenario, *options), running, ("ensemble",))


def _run_or_forecast(
    sweep: Sweep, running: ExecutionOptions, ids: Collection[str]
) -> None:
    """Forecast a sweep, or run it and print sections and failed runs."""
    if running.dry_run:
        _forecast(sweep, running)
        return
    result = _run(sweep, running)
    if not running.quiet and not running.as_json:
        show_sweep(result, ids)
    _finish(result, running)


def _forecast(sweep: Sweep, running: ExecutionOptions) -> None:
    n_workers = 1 if running.workers == 0 else running.workers or usable_cores()
    n_runs, result = forecast(sweep, n_workers, running.profiles, running.max_runs)
    if running.as_json:
        print_result({"n_runs": n_runs, **asdict(result)})
    else:
        amount = f"{n_runs:,} runs on {n_workers} of {usable_cores()} cores"
        typer.echo(f"{sweep.name}: {amount} take {result.text()}; nothing was run")


def _run(sweep: Sweep, running: ExecutionOptions) -> SweepResult:
    try:
        return run_sweep(
            sweep,
            running.out,
            executor=_executor(running),
            profiles=running.profiles,
            engine=running.engine,
            max_runs=running.max_runs,
            progress=Progress() if running.quiet or running.as_json else ProgressBars(),
        )
    except (Interrupted, KeyboardInterrupt):
        sys.stderr.write(
            "diploee: finished runs are kept; the same command goes on from there\n"
        )
        raise


def _executor(running: ExecutionOptions) -> Executor:
    if running.dask is not None:
        if running.workers is not None:
            raise InputError(
                "--workers and --dask exclude each other: the workers of a cluster "
                "are started with 'dask worker'; leave one out"
            )
        return partial(run_on_dask, address=running.dask)
    if running.workers == 0:
        return in_process
    return partial(run_locally, n_workers=running.workers or usable_cores())


def _finish(result: SweepResult, running: ExecutionOptions) -> None:
    """Print the result as JSON if requested; list failed runs and exit with 1."""
    if running.as_json:
        content = {
            "target": result.target,
            "n_runs": len(result.runs),
            "n_computed": result.n_computed,
            "failed": result.failed,
            "runs": result.summary.to_pylist(),
        }
        print_result(content)
    for run, error in result.failed.items() if running.quiet or running.as_json else ():
        sys.stderr.write(f"diploee: run {run} failed: {error}\n")
    if result.failed:
        raise typer.Exit(EXIT_FAILED)
