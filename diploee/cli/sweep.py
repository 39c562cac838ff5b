"""`diploee sweep` and `diploee ensemble`: many runs, a summary, the spread over the seeds."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.cli import EXIT_FAILED, Interrupted

if TYPE_CHECKING:
    from diploee.sweep import Executor, Sweep, SweepResult


class SweepEngine(StrEnum):
    """Scheduling engines; both give the same start times."""

    simpy = "simpy"
    compiled = "compiled"


OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIR_OR_URL",
        help="Folder, or a URL that fsspec knows, such as s3://bucket/sweep; sweeps/<name> by "
        "default. Runs that are complete there are not repeated.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Processes on this machine, all its cores by default; fewer run where memory is "
        "short; 0 means in this process.",
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Hand the runs to this Dask scheduler, such as tcp://10.0.0.1:8786.",
    ),
]
EngineOption = Annotated[
    SweepEngine, typer.Option(help="Scheduler; both give the same results, compiled sooner.")
]
MaxRunsOption = Annotated[int, typer.Option(min=1, help="Refuse a sweep of more runs.")]
ProfilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help="Folder of power profiles instead of the shipped 'reference'; may be repeated.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def sweep_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A sweep file, or a shipped sweep's name.")
    ],
    out: OutOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    engine: EngineOption = SweepEngine.compiled,
    max_runs: MaxRunsOption = 10_000,
    profiles: ProfilesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario over axes and seeds; go on where an interrupted sweep stopped."""
    from diploee.cli.sweep_display import show_ensemble, show_sweep
    from diploee.sweep import load_sweep

    sweep = load_sweep(file)
    result = _run(sweep, out, workers, dask, engine, max_runs, profiles, quiet or as_json)
    if as_json:
        _print_json(result)
    elif not quiet:
        show_sweep(sweep, result)
        if sweep.spec.draw and result.ensemble is not None:
            show_ensemble(result.ensemble)
    _end(result, told=not quiet and not as_json)


def ensemble_command(
    scenario: Annotated[
        str,
        typer.Argument(help="A scenario or a sweep file, or the name of a shipped one."),
    ],
    seeds: Annotated[
        int | None, typer.Option(min=2, help="Number of seeds; 20 for a scenario.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="Relative half-width of a 95 % confidence interval to count the seeds for."
        ),
    ] = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    engine: EngineOption = SweepEngine.compiled,
    max_runs: MaxRunsOption = 10_000,
    profiles: ProfilesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run many seeds (and draws); show percentiles, the seeds needed and the causes of spread."""
    from diploee.cli.sweep_display import show_ensemble, show_failures
    from diploee.sweep import load_ensemble

    sweep = load_ensemble(scenario, seeds, accuracy)
    result = _run(sweep, out, workers, dask, engine, max_runs, profiles, quiet or as_json)
    if as_json:
        _print_json(result)
    elif not quiet:
        if result.ensemble is not None:
            show_ensemble(result.ensemble)
        show_failures(result)
    _end(result, told=not quiet and not as_json)


def _run(
    sweep: Sweep,
    out: str | None,
    workers: int | None,
    dask: str | None,
    engine: SweepEngine,
    max_runs: int,
    profiles: list[str] | None,
    quiet: bool,
) -> SweepResult:
    from diploee.cli.sweep_display import SweepProgress
    from diploee.sweep import SweepWatch, run_sweep

    try:
        return run_sweep(
            sweep,
            out,
            executor=_executor(workers, dask, out),
            profiles=profiles or (),
            engine=engine.value,
            max_runs=max_runs,
            watch=SweepWatch() if quiet else SweepProgress(),
        )
    except (Interrupted, KeyboardInterrupt):
        sys.stderr.write("diploee: finished runs are kept; the same command goes on from there\n")
        raise


def _executor(workers: int | None, dask: str | None, out: str | None) -> Executor:
    from functools import partial

    from diploee.errors import InputError
    from diploee.sweep import in_process, run_locally, run_on_dask, usable_cores

    if dask is not None:
        if workers is not None:
            raise InputError(
                "--workers and --dask exclude each other: the workers of a cluster are started "
                "with 'dask worker'; leave one out"
            )
        return partial(run_on_dask, address=dask)
    if workers == 0:
        return in_process
    if out is not None and out.startswith("memory:"):
        raise InputError(
            f"--out {out}: other processes do not see this process's memory; choose a folder or "
            "another URL, or --workers 0"
        )
    return partial(run_locally, n_workers=workers or usable_cores())


def _print_json(result: SweepResult) -> None:
    content = {
        "target": result.target,
        "n_runs": len(result.runs),
        "n_computed": result.n_computed,
        "failed": result.failed,
        "runs": result.summary.to_pylist(),
    }
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def _end(result: SweepResult, told: bool) -> None:
    """Exit with 1 where runs failed, saying why unless the tables did."""
    if not result.failed:
        return
    for run, error in result.failed.items() if not told else ():
        sys.stderr.write(f"diploee: run {run} failed: {error}\n")
    raise typer.Exit(EXIT_FAILED)
