"""`diploee export`: write a run's power in the formats of grid planning tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.base.errors import one_of
from diploee.base.progress import Progress
from diploee.cli.display import ProgressBars
from diploee.cli.options import Force, Json, Quiet, options, path_option, print_written
from diploee.grid.export.base import Options
from diploee.grid.export.registry import FORMATS, export_run
from diploee.grid.export.series import ReactiveTable
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.importers.site_tables import read_reactive_table


def _table(text: str) -> ReactiveTable:
    return ReactiveTable(Path(text), *read_reactive_table(Path(text)))


@options(
    {"q_table": _table, "peaks": read_peak_intervals},
    first="--from",
    until="--to",
    event_window="--event-window --zoom",
    q_table="--q-table PATH",
    peaks="--peaks CSV",
)
def export_command(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"{one_of(FORMATS)}.")
    ],
    run_dir: Annotated[Path, typer.Argument(help="Run folder.")],
    chosen: Options,
    out: Annotated[
        Path | None, path_option("File or folder; <run folder>-<format> by default.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a run's power in the file format of a grid planning tool.

    Coarser steps are exact means, so the energy is unchanged. A JSON sidecar states
    units, time zone, interval convention, leap-day rule and source.
    """
    progress = Progress() if quiet or as_json else ProgressBars()
    path = export_run(run_dir, format_name, out, chosen, force=force, progress=progress)
    print_written([path], as_json, quiet)
