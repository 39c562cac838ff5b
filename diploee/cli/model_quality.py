"""`diploee model-quality`: a planner's tests of a site's dynamic model.

The tests are the model quality tests (MQT) that grid operators require: flat start,
steps of voltage and frequency, and ride-through curves.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from diploee.api import open_run
from diploee.base.files import check_output_file
from diploee.cli.display import show_sections
from diploee.cli.options import (
    TIME_FORMATS,
    Force,
    Json,
    Quiet,
    path_option,
    print_result,
)
from diploee.cli.ride_through import settings_of
from diploee.cli.run import SetOption
from diploee.reports.build import is_report
from diploee.reports.model_quality_page import check_page_name, write_model_quality
from diploee.runs.folder import run_files
from diploee.runs.sections import as_dict


def model_quality_command(
    run_dir: Annotated[Path, typer.Argument(help="Run folder.")],
    at: Annotated[
        datetime | None,
        typer.Option(
            formats=TIME_FORMATS,
            metavar="TIME",
            help="Interval whose load is held, local time; else that of the peak.",
        ),
    ] = None,
    set_: SetOption = None,
    out: Annotated[
        Path | None, path_option("HTML page; replaces an earlier one.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Test a site as a dynamic model: flat start, steps, ride-through by curves.

    Each test is pass, fail or not covered. --set changes facility.ride_through alone.
    """
    run = open_run(run_dir)
    if out is not None:  # before any work
        check_page_name(out)
        inputs = run_files(run_dir)
        check_output_file(out, force, inputs=inputs, replaces=is_report)
    settings = settings_of(run, set_ or ())
    result = run.model_quality(at, settings=settings)
    if out is not None:
        write_model_quality(result, out, force)
    sections = result.sections()
    if as_json:
        print_result({"at": result.at.isoformat(), "sections": as_dict(sections)})
    elif not quiet:
        show_sections(sections)
