"""Terminal display of a sweep: sections, failed runs, and the path of its files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from rich.console import Console
from rich.markup import escape

from diploee.cli.display import show_lines
from diploee.runs.sections import SectionTable
from diploee.sweeps.execute import SweepResult

MAX_FAILURES = 10
COLUMN_WIDTH = 12
"""Width of a column [characters]; columns that do not fit are only in the file."""


def show_sweep(result: SweepResult, ids: Collection[str]) -> None:
    """Print sections of a sweep, failed runs, run counts, and the path of files."""
    console = Console()
    for section in result.sections():
        if section.id in ids:
            for table in section.tables:
                fitted = _fit_columns(table, console.width)
                header = (fitted.first, *fitted.headings)
                console.print()
                show_lines(fitted.title, header, [*fitted.lines()])
            notes = [*(table.note for table in section.tables), *section.notes]
            for note in filter(None, notes):
                console.print(escape(note), highlight=False)
    failed = [run for run in result.runs if run.run in result.failed]
    for run in failed[:MAX_FAILURES]:
        values = [
            f"{key} = {value}"
            for key, value in {**run.settings, "seed": run.seed}.items()
        ]
        console.print(
            f"[red]failed[/] {escape(', '.join(values))}: "
            f"{escape(result.failed[run.run])}"
        )
    if len(failed) > MAX_FAILURES:
        console.print(
            f"... and {len(failed) - MAX_FAILURES:,} more failed, see summary.parquet"
        )
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    console.print(
        f"{len(result.runs):,} runs, {result.n_computed:,} computed now; files in "
        f"[bold]{escape(result.target)}[/]",
        soft_wrap=True,
    )


def _fit_columns(table: SectionTable, width: int) -> SectionTable:
    """Return a table with as many of its columns as fit the terminal."""
    names = list(table.units)[: max(5, width // COLUMN_WIDTH)]
    return replace(
        table,
        figures=tuple(value for value in table.figures if value.quantity in names),
    )
