"""``diploee report`` and ``diploee datasheet``.

One self-contained page from run folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.display import show_run
from diploee.cli.options import (
    Force,
    Json,
    Quiet,
    place_option,
    print_result,
    print_written,
)
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.reports.build import build_report, write_report
from diploee.reports.datasheet import write_datasheet
from diploee.runs.sections import as_dict

Verdicts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LIMITS",
        help=(
            "Add the verdicts on a preset of 'diploee limits --list', or on a file of "
            "limits; may be repeated."
        ),
    ),
]


Bands = Annotated[
    Path | None,
    typer.Option(
        metavar="ENSEMBLE_DIR",
        help=(
            "Show P5 to P95 beside each headline number, over an ensemble of the "
            "run's scenario: 'diploee ensemble SITE --assumed --runs 40'."
        ),
    ),
]


def report_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR...", help="Run folders to compare, or one sweep folder."
        ),
    ],
    out: Annotated[
        Path, place_option("The page; a diploee report that stands there is replaced.")
    ] = Path("report.html"),
    png: Annotated[
        Path | None,
        place_option("Also write each figure as PNG to a folder.", "--png", "DIR"),
    ] = None,
    svg: Annotated[
        Path | None,
        place_option("Also write each figure as SVG to a folder.", "--svg", "DIR"),
    ] = None,
    limits: Verdicts = None,
    by_load: Annotated[
        bool,
        typer.Option(
            "--by-load",
            help="Split the power by stream and service, of 'run --by-load'.",
        ),
    ] = False,
    bands: Bands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw runs or a sweep on one HTML page, which needs no network."""
    if as_json:
        result = build_report(folders, limits or (), drawn=False, bands=bands)
        content = {"title": result.title, "sections": as_dict(result.sections)}
        print_result({**content, "warnings": result.warnings})
        return
    written = write_report(
        folders,
        out,
        png=png,
        svg=svg,
        force=force,
        limits=limits or (),
        by_load=by_load,
        bands=bands,
    )
    if quiet:
        return
    if bands is not None:
        from diploee.api import open_run

        show_run(open_run(folders[0]).with_bands(bands))
    typer.echo(f"{written[0]}: {written[0].stat().st_size / 1e6:.1f} MB")
    for folder, kind in ((png, "PNG"), (svg, "SVG")):
        if folder is not None:
            count = sum(1 for path in written[1:] if path.suffix == f".{kind.lower()}")
            typer.echo(f"{folder}: {count} figures as {kind}")


def datasheet_command(
    run_dir: Annotated[Path, typer.Argument(help="A run folder, as 'run' writes it.")],
    limits: Verdicts = None,
    peaks: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help=(
                "Add the demand at a system's peaks: a table with start, end or "
                "duration_min, and optionally name; local time or with an offset."
            ),
        ),
    ] = None,
    bands: Bands = None,
    out: Annotated[
        Path, place_option("The page; one of diploee that stands there is replaced.")
    ] = Path("datasheet.html"),
    csv: Annotated[
        Path | None, place_option("Also as CSV, a row for a figure.", "--csv")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the page that a utility asks of a load: demand, ramps, limits, sources."""
    written = write_datasheet(
        run_dir,
        out,
        csv_file=csv,
        limits=limits or (),
        peaks=read_peak_intervals(peaks) if peaks else (),
        bands=bands,
        force=force,
    )
    print_written(written, as_json, quiet)
