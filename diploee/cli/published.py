"""``diploee published``: the program held against what was published and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli import EXIT_FAILED
from diploee.cli.display import ProgressBars
from diploee.cli.options import Force, Quiet, place_option
from diploee.errors import InputError, one_of, shown
from diploee.files import check_file, whole_file
from diploee.profiles import ProfileLibrary
from diploee.progress import Progress
from diploee.published import SECTIONS, sections, validation_page


def published_command(
    out: Annotated[Path | None, place_option("Markdown page; printed where not given.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What to compare: {', '.join(SECTIONS)}; all by default. May be repeated.",
        ),
    ] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Library of imported measurements to compare with the shipped profiles; may be "
            "repeated.",
        ),
    ] = None,
    facility_power: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Published year of a colocation facility (timestamp, power_W, utilization) whose "
            "median week to compare; may be repeated.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Hold the program against published tables and measurements; exit code 1 if a row is missed.

    It simulates the years of the paper's tables and of the sites with meters, in a few minutes.
    """
    for name in only or ():
        if name not in SECTIONS:
            raise InputError(f"--only {shown(name)}: unknown; have {one_of(SECTIONS)}")
    curves = facility_power or []
    if out is not None:
        check_file(out, force, inputs=curves)
    library = ProfileLibrary.open(*measured) if measured else None
    progress = Progress() if quiet or out is None else ProgressBars()
    found = list(sections(only or SECTIONS, library, curves, progress))
    page = validation_page(found)
    if out is None:
        typer.echo(page, nl=False)
    else:
        with whole_file(out, force, inputs=curves) as path:
            path.write_text(page, "utf-8")
    if any(check.holds is False for section in found for check in section.checks):
        raise typer.Exit(EXIT_FAILED)
