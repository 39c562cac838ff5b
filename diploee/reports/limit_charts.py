"""Limits in figures: their bounds as lines, the worst of each, and the verdicts on a sweep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from diploee.drawing.charts import INK, Axis, Bars, Chart, Line, Panel, colour
from diploee.errors import InputError, plural
from diploee.metrics.limits import LimitReport, LimitResult, Limits, load_limits
from diploee.metrics.limits.check import NotAssessable
from diploee.metrics.limits.report import seen_by
from diploee.outputs import open_run
from diploee.outputs.parquet_files import FACILITY_FILE
from diploee.outputs.sections import Figure, Section, Table
from diploee.outputs.words import interval
from diploee.reports.data import RunData
from diploee.reports.sweep_data import RUNS_FOLDER, SweepData, moving_axes, point_name

WIDTH = 18
"""Characters of a line of a name below its bar."""

VERDICTS = ("not met", "inconclusive", "met")
POWER_LEVEL = "power"
"""Kind of a limit on power itself."""


@dataclass(frozen=True)
class LimitLine:
    """Bound of a limit: `kind` is ramps, of a way if it has one, swings, or `POWER_LEVEL`."""

    kind: str
    name: str
    length_ms: int
    size_mw: float


def limit_lines(run: RunData, names: Sequence[str]) -> list[LimitLine]:
    """Return what limits allow, for lines in the figures of power, of ramps and of swings."""
    shown, found = seen_by(run.run), []
    for name in names:
        limits = load_limits(name)
        of = limits.name or name
        drawn = (line for _, spec in limits.each() for line in spec.drawn(shown.clock.step_ms))
        for kind, amount, factor, length_ms in drawn:
            with suppress(NotAssessable):  # a part of what this run does not tell
                size_mw = amount.of(shown)[0] * factor
                way = "over" if kind == POWER_LEVEL else "within"
                name = f"{of}, {size_mw:.4g} MW {way} {interval(length_ms)}"
                found.append(LimitLine(kind, name, length_ms, size_mw))
    return found


def limit_charts(runs: Sequence[RunData], verdicts: Sequence[Sequence[LimitReport]]) -> list[Chart]:
    """Return for each limits the worst of every limit, in percent of it, where any was assessed."""
    charts = []
    for k, reports in enumerate(zip(*verdicts, strict=True), start=1):
        named = [_named(report) for report in reports]
        names = sorted({name for found in named for name in found})
        if not names:
            continue
        x, bars = np.array(names), []
        for index, (run, found) in enumerate(zip(runs, named, strict=True)):
            used = {name: _used_percent(result) for name, result in found.items()}
            y = np.array([used.get(name, np.nan) for name in names], dtype=np.float32)
            bars.append(Bars(x, y, run.label, colour(index), "%", 1))
        full = np.full(len(names), 100.0)
        limit = Line(x, full, "limit", INK, "%", 0, "dash", markers=True, level=True)
        y_axis = Axis("Worst, of the limit [%]", from_zero=True)
        charts.append(
            Chart(
                f"limits-{k}",
                f"Worst of each limit: {reports[0].name or 'limits'}",
                "The worst value that is seen, in percent of its limit (of a least allowed value, "
                "the limit in percent of it). Above the dashed line is a violation; below it is "
                "met only where the table says so.",
                (Panel(Axis("Limit", "category"), y_axis, (*bars, limit)),),
            )
        )
    return charts


def _named(report: LimitReport) -> dict[str, LimitResult]:
    """Return the results by the limit's words, with its key where these are of several."""
    found: dict[str, LimitResult] = {}
    for result in report.results:
        # How an amount came about and what a filter is stand in the table.
        name = re.split(r" \(|, without the first|: the whole load|, lesser of", result.text)[0]
        if result.note.startswith("worst windows only"):
            name += ", in event windows"
        if fill(name, WIDTH) in found:
            name += f" ({result.key})"
        found[fill(name, WIDTH)] = result
    return found


def _used_percent(result: LimitResult) -> float:
    parts = (result.limit, result.value) if result.least else (result.value, result.limit)
    return 100 * parts[0] / parts[1] if parts[1] > 0 else np.nan


@dataclass(frozen=True)
class SweepVerdicts:
    """The verdict on every run of a sweep."""

    limits: Limits  # that they were checked against
    points: list[tuple[Any, ...]]  # axis values of every point, in the order of the sweep
    verdicts: list[list[tuple[str, LimitReport]]]  # name and report of the runs of each

    def counts(self, point: int | None = None) -> Counter[str]:
        """Return how many runs of a point, or of all, have each verdict."""
        chosen = self.verdicts if point is None else [self.verdicts[point]]
        return Counter(report.verdict for runs in chosen for _, report in runs)


def sweep_verdicts(sweep: SweepData, limits: Limits) -> SweepVerdicts:
    """Hold every finished run of a sweep against limits."""
    grouped: dict[tuple[Any, ...], list[tuple[str, LimitReport]]] = {}
    for _, row in sweep.finished.iterrows():
        place = sweep.folder / RUNS_FOLDER / str(row["run"])
        if not (place / FACILITY_FILE).is_file():
            raise InputError(
                f"{place}: keeps no power series to check against limits; sweep with 'keep: series'"
            )
        found = (str(row["run"]), open_run(place).limits(limits))
        grouped.setdefault(tuple(row[axis] for axis in sweep.axes), []).append(found)
    return SweepVerdicts(limits, list(grouped), list(grouped.values()))


def sweep_limits_section(sweep: SweepData, names: Sequence[str]) -> Section | None:
    """Return the share of runs in violation at each point; None where no limits are asked for."""
    tables, notes = [], list[str]()
    for name in names:
        found = sweep_verdicts(sweep, load_limits(name))
        notes += filter(None, (found.limits.origin, *found.limits.notes))
        figures: list[Figure] = []
        moving = moving_axes(sweep.finished, sweep.axes)
        for k, point in enumerate(found.points):
            counts, n_runs = found.counts(k), len(found.verdicts[k])
            item = point_name(dict(zip(sweep.axes, point, strict=True)), moving)
            cells: dict[str, float] = {"runs": n_runs, **{v: counts[v] for v in VERDICTS}}
            figures += [
                *(Figure(item or "all", n, quantity=name, pattern="{:,.0f}")
                  for name, n in cells.items()),
                Figure(item or "all", 100 * counts["not met"] / n_runs, "%",
                       quantity="share not met", pattern="{:.1f}"),
            ]  # fmt: skip
        title = f"{found.limits.name or name}: {share_line(found)}"
        tables.append(Table(title, tuple(figures), first="Point"))
    return Section("limits", "Limits", (), tuple(tables), (), tuple(notes)) if tables else None


def share_line(found: SweepVerdicts) -> str:
    """Return how many of all runs have each verdict."""
    counts = found.counts()
    n_runs = sum(counts.values())
    others = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in VERDICTS[1:])
    share = 100 * counts["not met"] / n_runs
    return f"not met in {counts['not met']} of {plural(n_runs, 'run')} ({share:.1f} %), {others}"
