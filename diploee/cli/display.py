"""Terminal display of runs: progress bars per stage, and tables of results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table

from diploee.base.metric import NONE
from diploee.base.progress import Progress, Update
from diploee.base.units import MS_PER_S
from diploee.grid.limits.check import Need
from diploee.grid.limits.file import LIMITS, load_limits
from diploee.grid.limits.mitigation import sizing_steps_ms
from diploee.grid.limits.report import LimitReport
from diploee.runs.reader import RunFolder

if TYPE_CHECKING:
    from diploee.api import Run
    from diploee.runs.sections import Section, SectionTable


class ProgressBars(Progress):
    """Progress bars on standard error: fraction done, date, time elapsed and left."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Show a bar during a stage; in a file or pipe, print a line at its end."""
        if not self._console.is_terminal:
            with self._line(name) as update:
                yield update
            return
        columns = (
            SpinnerColumn(finished_text="[green]done"),
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
        )
        # Time left from the mean speed since the start, not over the last 30 s.
        with RichProgress(
            *columns, console=self._console, speed_estimate_period=inf
        ) as progress:
            task = progress.add_task(name, total=None, text="")

            def update(fraction: float, text: str) -> None:
                elapsed_s = progress.tasks[task].elapsed or 0.0
                progress.update(
                    task,
                    total=1.0,
                    completed=fraction,
                    text=_with_rate(text, elapsed_s),
                )

            yield update
            progress.update(task, total=1.0, completed=1.0)

    def tell(self, text: str) -> None:
        """Print a warning on standard error."""
        self._console.print(
            f"[yellow]Warning:[/yellow] {escape(text)}", highlight=False
        )

    def forecast(self, text: str) -> None:
        """Print the forecast time and memory on standard error."""
        self._console.print(f"Forecast: {escape(text)}", highlight=False)

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
    """Append the rate to a count of jobs, such as ``2018-03-01  120,000 jobs``."""
    words = text.split()
    if elapsed_s < 0.5 or len(words) < 2 or words[-1] != "jobs":
        return text
    per_s = int(words[-2].replace(",", "")) / elapsed_s
    return f"{text}  {per_s:,.0f} jobs/s"


def show_run(run: Run, limits: Sequence[str] = ()) -> None:
    """Print a run's compliance results, main statistics, pools, warnings and paths.

    `limits` are the names of the checked limits, if known.
    """
    from diploee.runs.metric_order import BY_POOL
    from diploee.runs.run_view import RunView

    console, (answer, *sections) = Console(), run.sections()
    show_sections([section for section in sections if section.id == "limits"])
    for name, report in zip(
        limits or ["LIMITS"] * len(run.verdicts), run.verdicts, strict=True
    ):
        for line in next_steps(report, name, run.folder):
            console.print(escape(line), soft_wrap=True)
    show_statistics(run.scenario.name, answer)
    if pools := RunView(run).table(BY_POOL):
        show_tables([pools])
    pool_text = (
        f"; of a pool: {run.boundary('it_power_w')}" if run.metrics.get("pools") else ""
    )
    console.print(f"Boundary: {escape(run.boundary() + pool_text)}.")
    for warning in run.manifest["warnings"]:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    folder = escape(str(run.folder))
    console.print(
        f"Files in [bold]{folder}[/]; all figures: diploee report {folder}",
        soft_wrap=True,
    )


def next_steps(report: LimitReport, limits: str, run_dir: Path) -> Iterator[str]:
    """Yield commands that help to meet violated limits and decide inconclusive ones."""
    kinds = {result.key.partition(".")[0] for result in report.not_met}
    if any(LIMITS.by_name[kind].is_sized_for for kind in kinds):
        scenario = RunFolder.open(run_dir).scenario
        most_ms, shows_all_ms = sizing_steps_ms(load_limits(limits), scenario)
        battery = f"diploee battery {run_dir} --limits {limits}"
        if scenario.resolution_ms > most_ms:
            step = f"{min(most_ms, shows_all_ms) / MS_PER_S:g} s"
            battery = (
                f"diploee run SITE --set 'resolution={step}', then diploee battery on "
                "that run"
            )
        yield f"next: {battery}"
    verdicts = [report.verdict, *(result.verdict for result in report.results)]
    if "inconclusive" in verdicts:
        yield f"next: {_settling_steps(report, limits)}"


def _settling_steps(report: LimitReport, limits: str) -> str:
    needs = {limit.need for limit in report.unchecked}
    needs |= {
        result.need for result in report.results if result.verdict == "inconclusive"
    }
    steps = ["change what the reasons above name"] if Need.OTHER in needs else []
    year = (
        ", of a whole year"
        if Need.LONGER in needs or report.is_shorter_than_year
        else ""
    )
    step = ", at the step that it needs" if Need.FINER in needs else ""
    return ", then ".join([*steps, f"diploee run SITE --limits {limits}{year}{step}"])


def show_sections(sections: Iterable[Section]) -> None:
    """Print sections of a result: statistics, tables and notes."""
    for section in sections:
        if section.figures:
            show_statistics(section.title, section)
        show_tables(section.tables)
        console = Console(highlight=False)
        console.print()
        for note in (*(table.note for table in section.tables), *section.notes):
            if note:
                console.print(escape(f"- {note}"), soft_wrap=True)


def show_statistics(title: str, section: Section) -> None:
    """Print the statistics of a section: names, values, units and notes."""
    table = titled_table(title, ("", "", "", ""), 1, show_header=False, box=None)
    table.columns[0].max_width = NAMES
    table.columns[3].justify, table.columns[3].no_wrap = "left", False
    for figure in section.figures:
        table.add_row(
            *map(escape, (figure.item, figure.shown, figure.unit, figure.note))
        )
    Console().print(table)


def show_tables(tables: Iterable[SectionTable]) -> None:
    """Print tables of sections, each after an empty line.

    Text columns too wide for the terminal are printed below the table, row by row.
    """
    console = Console(highlight=False)
    width = console.width if sys.stdout.isatty() else WIDE
    for table in tables:
        heads, below = (table.first, *table.headings), list[tuple[str, ...]]()
        columns = [*zip(heads, *table.lines(), strict=True)]
        lengths = {column: max(map(len, column)) for column in columns}
        lengths[columns[0]] = min(lengths[columns[0]], NAMES)
        while sum(lengths[column] + 1 for column in columns) > width:
            longest = max(columns[1:], key=lambda column: lengths[column])
            if lengths[longest] <= LONG:
                break
            columns.remove(longest)
            below.insert(0, longest)
        header, *rows = zip(*columns, strict=True)
        console.print()
        show_lines(table.title, header, rows)
        for head, *cells in below:
            for (item, *_), cell in zip(rows, cells, strict=True):
                if cell not in ("", NONE):
                    line = escape(f"{item}, {head}: {cell}")
                    console.print(line, soft_wrap=True)


def show_lines(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table of text cells: numbers right-aligned, text wrapped."""
    numeric = (
        k > 0 and all(row[k][:1] in NUMERIC for row in rows) for k in range(len(header))
    )
    _show(title, zip(header, numeric, strict=True), rows)


def _show(
    title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]
) -> None:
    """Print a table without lines; a column is a name and whether it has numbers."""
    table = titled_table(title, (), 0, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, numeric in columns:
        table.add_column(
            escape(name), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(escape, row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def titled_table(
    title: str, header: Sequence[str], n_names: int, **looks: Any
) -> Table:
    """Return an empty table of `n_names` text columns, then right-aligned numbers."""
    table = Table(
        title=escape(title), title_justify="left", title_style="bold", **looks
    )
    for name in header[:n_names]:
        table.add_column(escape(name).replace("_", "_\u200b"), overflow="fold")
    for name in header[n_names:]:
        table.add_column(
            escape(name).replace("_", "_\u200b"), justify="right", no_wrap=True
        )
    return table


NUMERIC = f"-+0123456789{NONE}"
"""First characters of the cells of a numeric column."""

LONG, NAMES = 30, 40
"""Width above which a text column moves below its table, and maximum width of row
names [characters]."""

WIDE = 200
"""Width of tables that are printed to a file or pipe [characters]."""


def show_table(
    title: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    """Print a plain table with right-aligned numbers; files and pipes don't wrap."""
    numeric = [isinstance(value, int | float) for value in (rows or [header])[0]]
    texts = (
        (f"{v:,.1f}" if isinstance(v, float) else str(v) for v in row) for row in rows
    )
    _show(title, zip(header, numeric, strict=True), texts)
