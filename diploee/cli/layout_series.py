"""`diploee series`: power series of racks, rows and halls of a run's site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.api import open_run
from diploee.api.sites import site_of_run
from diploee.cli.options import (
    Force,
    Json,
    Profiles,
    Quiet,
    options,
    path_option,
    print_written,
)
from diploee.profiles.library import ProfileLibrary
from diploee.simulation.layout_power import LayoutSpan, write_parts


@options(first="--from", until="--to")
def series_command(
    run_dir: Annotated[Path, typer.Argument(help="Run folder.")],
    span: LayoutSpan,
    out: Annotated[
        Path | None,
        path_option(
            "File in .parquet or .csv; <run folder>-<part>.parquet by default."
        ),
    ] = None,
    profiles: Profiles = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the power of one node, chassis, rack, row or hall of a run, or of each.

    The run's loads are simulated again up to the end of the period, at any step of at
    least 0.1 s. All nodes of a load have equal power. Racks, rows and halls are those
    of facility.layout. The scenario's input files must still exist.
    """
    run = open_run(run_dir)
    site = site_of_run(run, ProfileLibrary.open(*(profiles or ())))
    path = write_parts(run, site, span, out, force)
    print_written([path], as_json, quiet)
