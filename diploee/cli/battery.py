"""`diploee battery`: the battery that keeps a run within limits, with what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Json, shipped_names
from diploee.metrics.limits import load_limits
from diploee.metrics.limits.mitigation import mitigate
from diploee.outputs import open_run


def battery_command(
    limits: Annotated[
        str,
        typer.Argument(
            help="Name of a preset, or a YAML file of limits.",
            metavar="LIMITS",
            autocompletion=shipped_names("limits"),
        ),
    ],
    run_dir: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: Json = False,
) -> None:
    """Find the smallest battery that keeps a run's ramps, swings, bands and lines within limits."""
    found = mitigate(open_run(run_dir), load_limits(limits))
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        for line in found.lines():
            typer.echo(line)
