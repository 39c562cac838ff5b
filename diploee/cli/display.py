"""What a run shows: a progress bar per stage, and a table of the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from diploee.outputs import Run
from diploee.watch import Update, Watch


class ProgressWatch(Watch):
    """Draws each stage on standard error: what is done, the simulated date, the time taken."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Show a stage while it lasts; in a file or pipe, one line once it is done."""
        if not self._console.is_terminal:
            with self._line(name) as update:
                yield update
            return
        columns = (
            SpinnerColumn(finished_text="[green]done"),
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(name, total=None, text="")

            def update(fraction: float, text: str) -> None:
                elapsed_s = progress.tasks[task].elapsed or 0.0
                progress.update(
                    task, total=1.0, completed=fraction, text=_with_rate(text, elapsed_s)
                )

            yield update
            progress.update(task, total=1.0, completed=1.0)

    @contextmanager
    def _line(self, name: str) -> Iterator[Update]:
        started, last = time.perf_counter(), ""

        def update(_: float, text: str) -> None:
            nonlocal last
            last = _with_rate(text, time.perf_counter() - started)

        yield update
        taken = timedelta(seconds=int(time.perf_counter() - started))
        self._console.print(f"done {name:<14} {taken} {last}".rstrip(), highlight=False)


def _with_rate(text: str, elapsed_s: float) -> str:
    """Add the rate to a text that ends with a count, such as ``2018-03-01  120,000 jobs``."""
    words = text.split()
    if elapsed_s < 0.5 or len(words) < 2 or words[-1] != "jobs":
        return text
    per_s = int(words[-2].replace(",", "")) / elapsed_s
    return f"{text}  {per_s:,.0f} jobs/s"


def show_run(run: Run) -> None:
    """Print the result table, the warnings and where the files are."""
    console = Console()
    metrics = run.metrics
    table = Table(title=f"{run.scenario.name}", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("facility", justify="right")
    pools = metrics.get("pools", {})
    for pool in pools:
        table.add_column(pool, justify="right")
    parts = [metrics, *pools.values()]
    for section, rows in _ROWS.items():
        if section not in metrics:
            continue
        table.add_section()
        for label, key, pattern, factor in rows:
            values = [part.get(section, {}).get(key) for part in parts]
            shown = ["-" if v is None else pattern.format(v * factor) for v in values]
            if any(value is not None for value in values):
                table.add_row(escape(label), *shown)
    console.print(table)
    resolution = metrics["power"]["resolution_s"]
    console.print(
        f"Device power (GPUs and CPU packages); peaks and ratios are of {resolution:g} s means."
    )
    for warning in run.manifest["warnings"]:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    console.print(f"Files in [bold]{escape(str(run.folder))}[/]", soft_wrap=True)


WIDE = 200
"""Width of tables that nobody looks at in a terminal [characters]."""

_Row = tuple[str, str, str, float]
_ROWS: dict[str, tuple[_Row, ...]] = {
    "power": (
        ("mean power [MW]", "mean_mw", "{:.3f}", 1),
        ("standard deviation [MW]", "std_mw", "{:.3f}", 1),
        ("median power [MW]", "median_mw", "{:.3f}", 1),
        ("90th percentile [MW]", "p90_mw", "{:.3f}", 1),
        ("maximum power [MW]", "max_mw", "{:.3f}", 1),
        ("peak-to-average ratio", "peak_to_average_ratio", "{:.3f}", 1),
        ("load factor", "load_factor", "{:.3f}", 1),
        ("maximum over rated power [%]", "max_over_rated", "{:.1f}", 100),
        ("energy [MWh]", "energy_mwh", "{:,.0f}", 1),
    ),
    "utilization": (
        ("mean node occupancy [%]", "mean", "{:.2f}", 100),
        ("standard deviation [%]", "std", "{:.2f}", 100),
        ("median [%]", "median", "{:.2f}", 100),
        ("90th percentile [%]", "p90", "{:.2f}", 100),
        ("maximum [%]", "max", "{:.2f}", 100),
    ),
    "jobs": (
        ("jobs submitted per day", "submitted_per_day", "{:,.0f}", 1),
        ("jobs that queued [%]", "queued_fraction", "{:.2f}", 100),
        ("mean queue time of those [h]", "mean_queue_time_queued_h", "{:.3f}", 1),
        ("mean queue time of all [h]", "mean_queue_time_all_h", "{:.3f}", 1),
        ("jobs never started", "unstarted", "{:,.0f}", 1),
    ),
    "requests": (
        ("requests per day [million]", "per_day", "{:,.2f}", 1e-6),
        ("incoming requests [1/s]", "incoming_rps", "{:,.2f}", 1),
        ("served requests [1/s]", "effective_rps", "{:,.2f}", 1),
        ("incomplete requests [1/s]", "incomplete_rps", "{:,.2f}", 1),
    ),
}
"""Rows of the result table by block of the metrics: label, key, format, factor."""


def show_table(title: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print a plain table; numbers to the right. Into a file or pipe, no line is broken."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for index, name in enumerate(header):
        numeric = bool(rows) and isinstance(rows[0][index], int | float)
        table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{v:,.1f}" if isinstance(v, float) else escape(str(v)) for v in row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
