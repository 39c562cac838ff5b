"""Limits in figures: their bounds as lines, and the worst of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import fill

import numpy as np

from diploee.drawing.charts import INK, Axis, Bars, Chart, Line, Panel, colour
from diploee.metrics.limits import LimitReport, LimitResult, load_limits
from diploee.metrics.limits.check import NotAssessable
from diploee.metrics.limits.report import seen_by
from diploee.outputs.words import interval
from diploee.reports.data import RunData

WIDTH = 18
"""Characters of a line of a name below its bar."""

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
