"""`diploee limits`: hold a finished run against a file of limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Json
from diploee.metrics.grid.limit_report import check_limits
from diploee.metrics.grid.limits import load_limits
from diploee.outputs import open_run

EXIT_VIOLATED = 3


def limits_command(
    limits: Annotated[Path, typer.Argument(help="YAML file of limits.", metavar="LIMITS.yaml")],
    run_dir: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    fail: Annotated[
        bool,
        typer.Option(
            "--fail", help="Exit with 3 if a limit is violated or can't be checked on this run."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold a run against limits on ramps, swings, band levels, peak and daily energy."""
    report = check_limits(open_run(run_dir), load_limits(limits))
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        for line in report.lines():
            typer.echo(line)
        typer.echo(f"Power boundary: {report.boundary}.")
    if fail and not report.kept:
        raise typer.Exit(EXIT_VIOLATED)
