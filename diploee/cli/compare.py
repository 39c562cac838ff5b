"""`diploee compare`: differences between runs, metric by metric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Force, Json, path_option, print_result


def compare_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR...", help="Run folders; the first is the base."
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="All metrics, settings and warnings.")
    ] = False,
    out: Annotated[
        Path | None, path_option("CSV file of all metrics and changes.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare the metrics, settings and warnings of runs."""
    from diploee.base.errors import spreadsheet_cell
    from diploee.base.files import check_output_file, whole_file
    from diploee.cli.display import show_tables
    from diploee.reports.compare import compare

    if out is not None:
        check_output_file(out, force, inputs=folders)
    result = compare(*folders)
    if out is not None:
        with whole_file(out, force, inputs=folders) as path:
            result.frame().rename(columns=spreadsheet_cell).to_csv(path)
    if as_json:
        print_result(result.as_dict())
        return
    for section in result.sections(everything):
        show_tables(section.tables)
        for note in section.notes:
            typer.echo(note)
