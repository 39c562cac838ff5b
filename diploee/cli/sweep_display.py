"""The display of a sweep: its sections, what failed, and where its files are."""

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
"""Of a column in the tables; metrics that do not fit the terminal are left to the file."""  # noqa: E501


def show_sweep(result: SweepResult, ids: Collection[str]) -> None:
    """Print sections of a sweep, failed runs, the number done, places of files."""
    console = Console()
    for section in result.sections():
        if section.id in ids:
            for table in section.tables:
                shown = _fitting(table, console.width)
                console.print()
                show_lines(
                    shown.title, (shown.first, *shown.headings), [*shown.lines()]
                )
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


def _fitting(table: SectionTable, width: int) -> SectionTable:
    """Return a table with those of its columns that a terminal has room for."""
    names = list(table.units)[: max(5, width // COLUMN_WIDTH)]
    return replace(
        table, figures=tuple(of for of in table.figures if of.quantity in names)
    )
