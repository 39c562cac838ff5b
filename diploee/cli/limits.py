"""`diploee limits`: hold a finished run against limits, by name or from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Json
from diploee.errors import InputError
from diploee.metrics.limits import check_limits, load_limits, shipped_limits
from diploee.outputs import open_run

EXIT_VIOLATED = 3
EXIT_NOT_ASSESSABLE = 4


def limits_command(
    limits: Annotated[
        str | None,
        typer.Argument(help="Name of a preset, or a YAML file of limits.", metavar="LIMITS"),
    ] = None,
    run_dir: Annotated[Path | None, typer.Argument(help="Folder of a finished run.")] = None,
    presets: Annotated[
        bool, typer.Option("--list", help="Show the presets with source, date and status.")
    ] = False,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help="Exit with 3 if a limit is violated, else with 4 if one is not assessable.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold a run against limits on ramps, swings, bands, demand and reactive power."""
    if presets:
        _show_presets(as_json)
        return
    if limits is None or run_dir is None:
        raise InputError("limits: give LIMITS and RUN_DIR, or --list")
    report = check_limits(open_run(run_dir), load_limits(limits))
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        for line in (*report.head(), *report.lines()):
            typer.echo(line)
    if fail and not report.kept:
        raise typer.Exit(EXIT_VIOLATED if report.violated else EXIT_NOT_ASSESSABLE)


def _show_presets(as_json: bool) -> None:
    found = {name: load_limits(path) for name, path in shipped_limits().items()}
    if as_json:
        told = {name: limits.model_dump(exclude_defaults=True) for name, limits in found.items()}
        typer.echo(json.dumps(told, indent=2))
        return
    for name, limits in found.items():
        typer.echo(f"{name}: {limits.name}; {limits.origin or 'an example, no standard'}")
