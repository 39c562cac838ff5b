"""`diploee ride-through`: response of a site to voltage dips of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from diploee.api import Run, open_run
from diploee.api import run as run_scenario
from diploee.base.errors import InputError
from diploee.base.files import check_output_file, whole_file
from diploee.base.progress import Progress
from diploee.base.units import S_PER_MIN
from diploee.cli.display import ProgressBars, show_sections
from diploee.cli.options import (
    TIME_FORMATS,
    Force,
    Json,
    Profiles,
    Quiet,
    path_option,
    print_result,
)
from diploee.cli.run import AT_MOST_MIN, SetOption
from diploee.reports.drawing.pictures import write_picture
from diploee.reports.ride_through_chart import ride_through_chart
from diploee.scenario.loading import load_scenario, scenario_from_dict, with_overrides
from diploee.scenario.ride_through import RideThrough

SETTINGS = "facility.ride_through"


def settings_of(run: Run, overrides: Sequence[str]) -> dict[str, RideThrough] | None:
    """Return a run's ride-through settings, with keys changed by texts KEY=VALUE."""
    if other := [text for text in overrides if not text.strip().startswith(SETTINGS)]:
        raise InputError(
            f"--set {other[0]}: of a run only {SETTINGS} can be set; simulate again"
        )
    data, _ = with_overrides(run.manifest["scenario"], overrides)
    return scenario_from_dict(
        data, lambda at: f"--set {'.'.join(map(str, at))}"
    ).facility.ride_through


def ride_through_command(
    site: Annotated[
        str,
        typer.Argument(
            metavar="SITE|RUN_DIR",
            help="Folder of a finished run, or a scenario to simulate first.",
        ),
    ],
    event: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="nerc_2024_07_10, or a CSV file t_s,voltage_pu[,frequency_hz].",
        ),
    ],
    at: Annotated[
        datetime | None,
        typer.Option(
            formats=TIME_FORMATS,
            metavar="TIME",
            help="Start in local time; by default at P5, P50 and P95 of the load.",
        ),
    ] = None,
    set_: SetOption = None,
    profiles: Profiles = None,
    out: Annotated[
        Path | None,
        path_option("Also write power over time, by block, to a Parquet file."),
    ] = None,
    picture: Annotated[
        Path | None,
        path_option("Also draw a PNG, SVG or HTML file.", "--picture"),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Report the load lost and restored in a dip, and the curves that are met.

    Settings are the scenario's facility.ride_through. For a run, --set changes only
    these.
    """
    for path in filter(None, (out, picture)):
        check_output_file(path, force)  # before any work
    if out is not None and out.suffix != ".parquet":
        raise InputError(f"--out: must end in .parquet, found '{out.name}'")
    with TemporaryDirectory() as folder:
        if Path(site).is_dir():
            run = open_run(site)
            settings = settings_of(run, set_ or ())
        else:
            scenario = load_scenario(site, set_ or ())
            settings = scenario.facility.ride_through
            run = run_scenario(
                scenario,
                Path(folder) / scenario.name,
                profiles=profiles or (),
                engine="compiled",
                progress=Progress() if quiet or as_json else ProgressBars(),
                at_most_s=AT_MOST_MIN * S_PER_MIN,
            )
        result = run.answer(event, at=at, settings=settings or {})
    if out is not None:
        with whole_file(out, force) as path:
            result.write(path)
    if picture is not None:
        write_picture(ride_through_chart(result), picture, force)
    if not quiet and not as_json:
        show_sections([result.section()])
    print_result(result.as_dict() if as_json else None, as_json=as_json)
