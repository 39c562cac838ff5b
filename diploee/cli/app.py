"""The commands. Heavy modules are imported inside them, so that ``--help`` is quick."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee import __version__
from diploee.cli.benchmark import benchmark_app
from diploee.cli.deconvolve import deconvolve_command
from diploee.cli.export import export_command
from diploee.cli.fit import fit_command
from diploee.cli.fit_requests import fit_requests_command
from diploee.cli.limits import limits_command
from diploee.cli.profiles import profiles_app
from diploee.cli.report import report_command
from diploee.cli.sweep import ensemble_command, sweep_command
from diploee.cli.zeus import zeus_command

app = typer.Typer(
    name="diploee",
    help="Year-long power load of AI data centers from measured job profiles.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(profiles_app, name="profiles")
app.add_typer(benchmark_app, name="benchmark")


class EngineName(StrEnum):
    """Scheduling engines; both give the same start times."""

    simpy = "simpy"
    compiled = "compiled"


ScenarioArgument = Annotated[
    str, typer.Argument(help="A scenario file, or a shipped name such as colocation_10mw.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a dotted key; may be repeated."),
]
ProfilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help="Folder of power profiles instead of the shipped 'reference'; may be repeated.",
    ),
]
TargetOption = Annotated[
    float | None,
    typer.Option(help="Mean node occupancy to reach, 0-1, of the scenario's only stream."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of every random draw.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"diploee {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command("run")
def run_command(
    scenario: ScenarioArgument,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/<scenario>-<hash> by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a run folder at --out.")] = False,
    target_utilization: TargetOption = None,
    seed: SeedOption = None,
    engine: Annotated[
        EngineName, typer.Option(help="Scheduler; both give the same start times.")
    ] = EngineName.simpy,
    profiles: ProfilesOption = None,
    set_: SetOption = None,
    zooms: Annotated[
        bool, typer.Option("--zooms", help="Also keep the worst windows at 0.1 s, in zooms/.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Compute the power on a Dask cluster, such as tcp://10.0.0.1:8786; for long runs "
            "at 0.1 s.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print folder, warnings and metrics as JSON.")
    ] = False,
) -> None:
    """Simulate a scenario and write its run folder."""
    from diploee.cli.display import ProgressWatch, show_run
    from diploee.profiles import ProfileLibrary
    from diploee.run import simulate
    from diploee.watch import Watch

    resolved = _load(scenario, set_, target_utilization, seed)
    library = ProfileLibrary.open(*(profiles or ()))
    show = not quiet and not as_json
    with _executor(dask) as executor:
        result = simulate(
            resolved,
            out,
            library=library,
            engine=engine.value,
            force=force,
            zooms=zooms,
            executor=executor,
            watch=ProgressWatch() if show else Watch(),
        )
    if as_json:
        content = {
            "folder": str(result.folder),
            "warnings": result.manifest["warnings"],
            "metrics": result.metrics,
        }
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    elif show:
        show_run(result)


def _executor(address: str | None) -> AbstractContextManager[Any]:
    if address is None:
        return nullcontext()
    from diploee.sweep.cluster import cluster_executor

    return cluster_executor(address)


@app.command()
def validate(
    scenario: ScenarioArgument,
    target_utilization: TargetOption = None,
    seed: SeedOption = None,
    profiles: ProfilesOption = None,
    set_: SetOption = None,
) -> None:
    """Check a scenario and its profiles without running it."""
    from diploee.profiles import ProfileLibrary
    from diploee.run import check

    resolved = _load(scenario, set_, target_utilization, seed)
    n_classes = check(resolved, ProfileLibrary.open(*(profiles or ())))
    typer.echo(
        f"{resolved.name}: valid; {resolved.facility.n_nodes:,} nodes, {n_classes} job classes, "
        f"{resolved.n_intervals:,} intervals of {resolved.resolution_ms / 1000:g} s, "
        f"hash {resolved.sha256()[:8]}"
    )


@app.command()
def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A reference of every key as Markdown instead.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Of sweep and ensemble files instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files, or a reference of their keys."""
    from diploee.scenario import Scenario
    from diploee.scenario.base import Model
    from diploee.scenario.reference import markdown_reference

    model: type[Model] = Scenario
    if sweep:
        from diploee.sweep import SweepSpec

        model = SweepSpec
    if markdown:
        title = "Every key of a sweep file" if sweep else "Every key of a scenario file"
        command = f"diploee schema {'--sweep ' if sweep else ''}--markdown"
        typer.echo(markdown_reference(model, title, command), nl=False)
    else:
        typer.echo(json.dumps(model.model_json_schema(), indent=2))


def _load(
    scenario: str, overrides: list[str] | None, target_utilization: float | None, seed: int | None
) -> Any:
    from diploee.scenario import load_scenario, target_values

    values: dict[str, Any] = {}
    if seed is not None:
        values["seed"] = seed
    if target_utilization is not None:
        values |= target_values(load_scenario(scenario, overrides or ()), target_utilization)
    return load_scenario(scenario, overrides or (), values)


# In the order of the help, after the commands above.
app.command("report")(report_command)
app.command("export")(export_command)
app.command("limits")(limits_command)
app.command("sweep")(sweep_command)
app.command("ensemble")(ensemble_command)
app.command("fit")(fit_command)
app.command("fit-requests")(fit_requests_command)
app.command("deconvolve")(deconvolve_command)
app.command("zeus")(zeus_command)
