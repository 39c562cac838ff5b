"""The display of a run: a progress bar per stage, and a table of the result."""

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
    """Draws each stage on standard error.

    What is done, the date, the time taken and left.
    """

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
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
        )
        # The time left by all that was done, not by the last half minute of it.
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
        """Say it on standard error."""
        self._console.print(
            f"[yellow]Warning:[/yellow] {escape(text)}", highlight=False
        )

    def forecast(self, text: str) -> None:
        """Print the expected time and memory on standard error."""
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
    """Add the rate to a count, such as ``2018-03-01  120,000 jobs``."""
    words = text.split()
    if elapsed_s < 0.5 or len(words) < 2 or words[-1] != "jobs":
        return text
    per_s = int(words[-2].replace(",", "")) / elapsed_s
    return f"{text}  {per_s:,.0f} jobs/s"


def show_run(run: Run, limits: Sequence[str] = ()) -> None:
    """Print verdicts, first answers, pools, warnings, and places of the files.

    `limits` are the names of what the run was checked against, where they are known.
    """
    from diploee.runs.ranked import BY_POOL
    from diploee.runs.run_view import RunView

    console, (answer, *sections) = Console(), run.sections()
    show_sections([section for section in sections if section.id == "limits"])
    for name, report in zip(
        limits or ["LIMITS"] * len(run.verdicts), run.verdicts, strict=True
    ):
        for line in next_steps(report, name, run.folder):
            console.print(escape(line), soft_wrap=True)
    show_figures(run.scenario.name, answer)
    if pools := RunView(run).table(BY_POOL):
        show_texts([pools])
    of_pools = (
        f"; of a pool: {run.boundary('it_power_w')}" if run.metrics.get("pools") else ""
    )
    console.print(f"Boundary: {escape(run.boundary() + of_pools)}.")
    for warning in run.manifest["warnings"]:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    place = escape(str(run.folder))
    console.print(
        f"Files in [bold]{place}[/]; all figures: diploee report {place}",
        soft_wrap=True,
    )


def next_steps(report: LimitReport, limits: str, run_dir: Path) -> Iterator[str]:
    """Yield what would meet missed limits, and what settles open ones."""
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
    if "inconclusive" in (report.verdict, *(of.verdict for of in report.results)):
        yield f"next: {_settled_by(report, limits)}"


def _settled_by(report: LimitReport, limits: str) -> str:
    needs = {of.need for of in report.unchecked}
    needs |= {of.need for of in report.results if of.verdict == "inconclusive"}
    steps = ["change what the reasons above name"] if Need.OTHER in needs else []
    year = ", of a whole year" if Need.LONGER in needs or report.is_part else ""
    step = ", at the step that it needs" if Need.FINER in needs else ""
    return ", then ".join([*steps, f"diploee run SITE --limits {limits}{year}{step}"])


def show_sections(sections: Iterable[Section]) -> None:
    """Print sections: figures, tables, and what a reader must know of them."""
    for section in sections:
        if section.figures:
            show_figures(section.title, section)
        show_texts(section.tables)
        console = Console(highlight=False)
        console.print()
        for note in (*(table.note for table in section.tables), *section.notes):
            if note:
                console.print(escape(f"- {note}"), soft_wrap=True)


def show_figures(title: str, section: Section) -> None:
    """Print the figures of a section: names, numbers, units, notes."""
    table = titled_table(title, ("", "", "", ""), 1, show_header=False, box=None)
    table.columns[0].max_width = NAMES
    table.columns[3].justify, table.columns[3].no_wrap = "left", False
    for figure in section.figures:
        table.add_row(
            *map(escape, (figure.item, figure.shown, figure.unit, figure.note))
        )
    Console().print(table)


def show_texts(tables: Iterable[SectionTable]) -> None:
    """Print tables of sections, each below an empty line.

    Columns of words for which there is no room stand below, row by row.
    """
    console = Console(highlight=False)
    width = console.width if sys.stdout.isatty() else WIDE
    for table in tables:
        heads, below = (table.first, *table.headings), list[tuple[str, ...]]()
        columns = [*zip(heads, *table.lines(), strict=True)]
        lengths = {of: max(map(len, of)) for of in columns}
        lengths[columns[0]] = min(lengths[columns[0]], NAMES)
        while sum(lengths[of] + 1 for of in columns) > width:
            longest = max(columns[1:], key=lambda of: lengths[of])
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
    """Print a table of texts, numbers to the right.

    Cells of words are broken into lines.
    """
    numeric = (
        k > 0 and all(row[k][:1] in NUMERIC for row in rows) for k in range(len(header))
    )
    _show(title, zip(header, numeric, strict=True), rows)


def _show(
    title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]
) -> None:
    """Print a table without lines, its columns by name and if they hold numbers."""
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
    """Return an empty table: `n_names` columns of names, then numbers to the right."""
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
"""How the cells of a column of numbers begin."""

LONG, NAMES = 30, 40
"""A column of words that are longer may stand below its table, and names of rows are
broken to be as wide [characters]."""

WIDE = 200
"""Width of tables that nobody looks at in a terminal [characters]."""


def show_table(
    title: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    """Print a plain table; numbers to the right.

    Into a file or pipe, no line is broken.
    """
    numeric = [isinstance(value, int | float) for value in (rows or [header])[0]]
    texts = (
        (f"{v:,.1f}" if isinstance(v, float) else str(v) for v in row) for row in rows
    )
    _show(title, zip(header, numeric, strict=True), texts)
