"""`diploee datasheet`: one page on a load for its interconnection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Force, Quiet, place_option
from diploee.reports.datasheet_files import write_datasheet


def datasheet_command(
    run_dir: Annotated[Path, typer.Argument(help="A run folder, as 'run' writes it.")],
    limits: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMITS",
            help="Add the verdicts on a preset of 'diploee limits --list', or on a file of limits; "
            "may be repeated.",
        ),
    ] = None,
    peaks: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Add the demand at a system's peaks: a table with start, end or duration_min, "
            "and optionally name; local time or with an offset.",
        ),
    ] = None,
    out: Annotated[
        Path, place_option("The page; one of diploee that stands there is replaced.")
    ] = Path("datasheet.html"),
    csv: Annotated[Path | None, place_option("Also as CSV, a row for a figure.", "--csv")] = None,
    xlsx: Annotated[Path | None, place_option("Also as a workbook.", "--xlsx")] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write what an interconnection asks of a load on one page: demand, ramps, limits, sources."""
    written = write_datasheet(
        run_dir, out, csv_file=csv, xlsx=xlsx, limits=limits or (), peaks=peaks,
        force=force,
    )  # fmt: skip
    if not quiet:
        for place in written:
            typer.echo(str(place))
