"""`diploee package`: folder with all documents that a planner requests for a site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.base.progress import Progress
from diploee.cli.display import ProgressBars
from diploee.cli.options import (
    Force,
    Json,
    Profiles,
    Quiet,
    path_option,
    print_written,
)
from diploee.cli.run import (
    AtMostOption,
    LimitsOption,
    ScenarioArgument,
    SetOption,
    longest_s,
)
from diploee.scenario.loading import load_scenario, locate_errors
from diploee.sweeps.planning import package


def package_command(
    site: ScenarioArgument,
    out: Annotated[Path, path_option("Folder to write.", metavar="DIR")],
    limits: LimitsOption = None,
    peaks: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Table of the grid's peak hours."),
    ] = None,
    excel: Annotated[
        bool,
        typer.Option("--excel", help="Also write the table by year as xlsx."),
    ] = False,
    set_: SetOption = None,
    profiles: Profiles = None,
    at_most: AtMostOption = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a folder with all documents that a planner requests for a site.

    Its README lists the file for each question, and the assumptions. With --force, it
    replaces an older package and adds a page of the changed keys and results.
    """
    scenario = load_scenario(site, set_ or ())
    with locate_errors(site):
        written = package(
            scenario,
            out,
            limits=limits or (),
            peaks=peaks,
            excel=excel,
            force=force,
            profiles=profiles or (),
            progress=Progress() if quiet or as_json else ProgressBars(),
            at_most_s=longest_s(at_most, bool(limits or scenario.limits)),
        )
    print_written([written], as_json, quiet)
