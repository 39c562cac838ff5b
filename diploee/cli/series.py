"""`diploee series`: the power of racks, rows and other parts of a run's site, at any step."""  # noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.api import open_run, site_of_run
from diploee.cli.options import (
    Force,
    Json,
    Profiles,
    Quiet,
    options,
    place_option,
    print_written,
)
from diploee.profiles.library import ProfileLibrary
from diploee.simulation.layout_power import LayoutSpan, write_parts


@options(first="--from", until="--to")
def series_command(
    run_dir: Annotated[Path, typer.Argument(help="A run folder, as 'run' writes it.")],
    span: LayoutSpan,
    out: Annotated[
        Path | None,
        place_option(
            "File in .parquet or .csv; <run folder>-<part>.parquet by default."
        ),
    ] = None,
    profiles: Profiles = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the power of one node, chassis, rack, row or hall of a run, or of each.

    The run's loads are played again up to the end of the span, at any step from 0.1 s
    on. Nodes of a load draw alike. Parts are those of facility.layout, and files that
    the scenario names must be where the run found them.
    """
    run = open_run(run_dir)
    site = site_of_run(run, ProfileLibrary.open(*(profiles or ())))
    place = write_parts(run, site, span, out, force)
    print_written([place], as_json, quiet)
