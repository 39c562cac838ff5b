"""`diploee report` and `diploee datasheet`: self-contained pages of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.display import show_run
from diploee.cli.options import (
    Force,
    Json,
    Quiet,
    path_option,
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
        help="Add verdicts on limits (preset or file); may be repeated.",
    ),
]


Bands = Annotated[
    Path | None,
    typer.Option(
        metavar="ENSEMBLE_DIR",
        help=(
            "Show P5 to P95 over an ensemble of the run's scenario next to each "
            "headline number."
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
        Path, path_option("HTML page; replaces an earlier report of the runs.")
    ] = Path("report.html"),
    png: Annotated[
        Path | None,
        path_option("Also write each figure as PNG to a folder.", "--png", "DIR"),
    ] = None,
    svg: Annotated[
        Path | None,
        path_option("Also write each figure as SVG to a folder.", "--svg", "DIR"),
    ] = None,
    limits: Verdicts = None,
    by_load: Annotated[
        bool,
        typer.Option(
            "--by-load",
            help="Split the power by stream and service; needs 'run --by-load'.",
        ),
    ] = False,
    bands: Bands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw runs or a sweep on one self-contained HTML page."""
    if as_json:
        result = build_report(folders, limits or (), with_charts=False, bands=bands)
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
    run_dir: Annotated[Path, typer.Argument(help="Run folder.")],
    limits: Verdicts = None,
    peaks: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help=(
                "Add the demand at a system's peaks: a table with start (local time or "
                "with an offset), end or duration_min, and optionally name."
            ),
        ),
    ] = None,
    bands: Bands = None,
    out: Annotated[
        Path, path_option("HTML page; replaces an earlier sheet of the run.")
    ] = Path("datasheet.html"),
    csv: Annotated[
        Path | None, path_option("Also write a CSV with a row per value.", "--csv")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a data sheet for a utility: demand, ramps, limits and sources."""
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
