"""`diploee coincident`: demand at the peaks of a system, and tests on minimum take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Force, Json, Quiet, place_option
from diploee.metrics.limits import Limits
from diploee.reports.coincident import at_peaks, write_demands
from diploee.reports.peak_intervals import read_peak_intervals

COLUMNS = "CSV with start, end or duration_min, and optionally name; local or with an offset."


def coincident_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_DIR...", help="Run folders, or sweep folders."),
    ],
    peaks: Annotated[Path, typer.Argument(metavar="PEAKS", help=COLUMNS)],
    minimum_take: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Test that each month's 15-minute demand is at least so much of the contract "
            "(contract_mva, else rated power).",
            min=0.001,
            max=100,
        ),
    ] = None,
    load_factor: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Test the run's load factor of its own 15-minute demand.",
            min=0.001,
            max=100,
        ),
    ] = None,
    out: Annotated[Path | None, place_option("CSV file of the demands.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell the demand at coincident peaks (1CP, 4CP, 12CP), over seeds with P5 and P95."""
    tests = {
        "minimum_take": [{"min_mw": {"percent_of_nominal": minimum_take}}],
        "load_factor": [{"min": (load_factor or 0) / 100}],
    }
    asked = {
        key: tests[key]
        for key, value in (("minimum_take", minimum_take), ("load_factor", load_factor))
        if value is not None
    }
    limits = Limits.model_validate(asked) if asked else None
    groups = at_peaks(folders, read_peak_intervals(peaks), limits)
    if out is not None:
        write_demands(groups, out, force=force, inputs=[*folders, peaks])
    if as_json:
        found = [
            {
                "label": group.label,
                "seeds": [run.manifest.get("seed") for run in group.runs],
                "boundary": group.boundary,
                "demands": group.rows(),
                "limits": [report.as_dict() for report in group.reports],
            }
            for group in groups
        ]
        typer.echo(json.dumps(found, indent=2))
    elif not quiet:
        for line in (line for group in groups for line in group.lines()):
            typer.echo(line)
