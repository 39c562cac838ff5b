"""``diploee report``: one self-contained page from run folders or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Force, Quiet, place_option
from diploee.reports import write_report


def report_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_DIR...", help="Run folders to compare, or one sweep folder."),
    ],
    out: Annotated[
        Path, place_option("The page; a diploee report that stands there is replaced.")
    ] = Path("report.html"),
    png: Annotated[
        Path | None, place_option("Also write each figure as PNG to a folder.", "--png", "DIR")
    ] = None,
    svg: Annotated[
        Path | None, place_option("Also write each figure as SVG to a folder.", "--svg", "DIR")
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMITS",
            help="Add the verdicts on a preset of 'diploee limits --list', or on a file of limits; "
            "may be repeated.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page, which needs no network, from run folders or a sweep."""
    written = write_report(folders, out, png=png, svg=svg, force=force, limits=limits or ())
    if quiet:
        return
    typer.echo(f"{written[0]}: {written[0].stat().st_size / 1e6:.1f} MB")
    for folder, kind in ((png, "PNG"), (svg, "SVG")):
        if folder is not None:
            count = sum(1 for path in written[1:] if path.suffix == f".{kind.lower()}")
            typer.echo(f"{folder}: {count} figures as {kind}")
