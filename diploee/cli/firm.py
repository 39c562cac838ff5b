"""`diploee firm`: relief, delayed work and equivalent battery of firm levels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from diploee.base.errors import InputError
from diploee.base.files import check_output_file, whole_file
from diploee.base.progress import Progress
from diploee.cli.display import ProgressBars, show_sections
from diploee.cli.options import (
    Force,
    Json,
    Profiles,
    Quiet,
    options,
    path_option,
    print_result,
)
from diploee.cli.run import ScenarioArgument, SetOption
from diploee.reports.drawing.pictures import picture_kind, write_picture
from diploee.reports.firm import firm_chart
from diploee.runs.sections import as_dict
from diploee.scenario.loading import load_scenario
from diploee.sweeps.firm import FirmOptions, firm


@options(peaks="--peaks FILE", level="--level MW", at_most="--at-most MINUTES")
def firm_command(
    site: ScenarioArgument,
    firm_options: FirmOptions,
    set_: SetOption = None,
    profiles: Profiles = None,
    out: Annotated[
        Path | None,
        path_option("Also write a CSV row per seed, level, set of calls and notice."),
    ] = None,
    picture: Annotated[
        Path | None,
        path_option("Also draw a PNG, SVG or HTML file.", "--picture"),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare firm levels of a load: relief, delayed work and battery size."""
    for path in filter(None, (out, picture)):
        check_output_file(path, force)  # before any work
    if picture is not None:
        picture_kind(picture)
    if out is not None and out.suffix.lower() != ".csv":
        raise InputError(f"--out: must end in .csv, found '{out.name}'")
    scenario = load_scenario(site, set_ or ())
    bars = Progress() if quiet or as_json else ProgressBars()
    study = firm(
        scenario, **firm_options.model_dump(), profiles=profiles or (), progress=bars
    )
    if out is not None:
        with whole_file(out, force) as path:
            study.frame().to_csv(path, index=False)
    if picture is not None:
        write_picture(firm_chart(study.name, study.results), picture, force)
    if as_json:
        content = {
            "recommendation": study.recommendation,
            "results": study.frame().to_dict("records"),
            "sections": as_dict(study.sections()),
        }
        print_result(content)
    elif not quiet:
        show_sections(study.sections())
