"""The section "Limits": verdicts of runs, or the share of a sweep's runs in violation."""

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
from diploee.metric import NONE, number
from diploee.metrics.limits import LimitReport, LimitResult, Limits, check_limits, load_limits
from diploee.metrics.limits.check import NotAssessable
from diploee.metrics.limits.report import seen_by
from diploee.outputs import open_run
from diploee.outputs.parquet_files import FACILITY_FILE
from diploee.reports.content import PageTable, Section
from diploee.reports.data import RunData
from diploee.reports.grid_data import POWER_LEVEL, LimitLine
from diploee.reports.sweep_data import RUNS_FOLDER, SweepData, short_name, value_text
from diploee.reports.words import interval, moment

_HEADER = (
    *("Key", "Limit", "Verdict", "Allowed", "Worst", "When", "Violations"),
    "Coverage, source, cause",
)
WIDTH = 18
"""Characters of a line of a name below its bar."""

VERDICTS = ("violated", "not assessable", "kept")
_MEANING = (
    "Kept: all that a limit speaks of is seen, and nothing beyond it. Not assessable: the profiles "
    "or the resolution show a part alone, and nothing there is beyond the limit: necessary, not "
    "sufficient."
)


def limits_section(runs: Sequence[RunData], names: Sequence[str]) -> Section | None:
    """Return the verdicts on each of the limits; None where none are asked for."""
    if not names:
        return None
    content: list[Chart | PageTable] = []
    notes = [_MEANING]
    many = len(runs) > 1
    for k, limits in enumerate(map(load_limits, names)):
        reports = [check_limits(run.run, limits) for run in runs]
        told = list(zip(runs, reports, strict=True))
        notes += [f"{f'{r.label}: ' if many else ''}{report.verdict_line()}" for r, report in told]
        rows = [
            (*([run.label] if many else []), *row)
            for run, report in told
            for row in _rows(report, run.resolution_ms)
        ]
        title = limits.name or names[k]
        header = (*(["Run"] if many else []), *_HEADER)
        note = " ".join(f"{line}." for line in reports[0].head()[1:])
        content += _chart(f"limits-{k + 1}", title, runs, reports)
        content.append(PageTable(title, header, tuple(rows), note, numeric=False))
    return Section("limits", "Limits", tuple(content), tuple(notes))


def _rows(report: LimitReport, step_ms: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            result.key,
            result.text,
            result.verdict,
            f"{result.limit:.6g} {result.unit}",
            f"{result.value:.6g} {result.unit}",
            moment(result.time or None, step_ms),
            f"{result.violations:,}",
            "; ".join(filter(None, (result.note, result.source, result.cause))),
        )
        for result in report.results
    ]
    return rows + [
        (key, text, "not assessable", *[NONE] * 4, why) for key, text, why in report.unchecked
    ]


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


def _chart(
    id_: str, title: str, runs: Sequence[RunData], reports: Sequence[LimitReport]
) -> list[Chart]:
    """Return the worst of every limit, in percent of it; nothing where none was assessed."""
    named = [_named(report) for report in reports]
    names = sorted({name for found in named for name in found})
    if not names:
        return []
    bars = []
    for k, (run, found) in enumerate(zip(runs, named, strict=True)):
        used = {name: _used_percent(result) for name, result in found.items()}
        y = np.array([used.get(name, np.nan) for name in names], dtype=np.float32)
        bars.append(Bars(np.array(names), y, run.label, colour(k), "%", 1))
    limit = Line(
        np.array(names),
        np.full(len(names), 100.0),
        "limit",
        INK,
        "%",
        0,
        "dash",
        markers=True,
        level=True,
    )
    y_axis = Axis("Worst, of the limit [%]", from_zero=True)
    return [
        Chart(
            id_,
            f"Worst of each limit: {title}",
            "The worst value that is seen, in percent of its limit (of a least allowed value, the "
            "limit in percent of it). Above the dashed line is a violation; below it is kept only "
            "where the table says so.",
            (Panel(Axis("Limit", "category"), y_axis, (*bars, limit)),),
        )
    ]


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
        found = (str(row["run"]), check_limits(open_run(place), limits))
        grouped.setdefault(tuple(row[axis] for axis in sweep.axes), []).append(found)
    return SweepVerdicts(limits, list(grouped), list(grouped.values()))


def sweep_limits_section(sweep: SweepData, names: Sequence[str]) -> Section | None:
    """Return the share of runs in violation at each point; None where no limits are asked for."""
    if not names:
        return None
    tables, notes = [], [_MEANING]
    for name in names:
        found = sweep_verdicts(sweep, load_limits(name))
        notes += filter(None, (found.limits.origin, *found.limits.notes))
        rows = []
        for k, point in enumerate(found.points):
            counts, n_runs = found.counts(k), len(found.verdicts[k])
            share = number(counts["violated"] / n_runs, "{:.1f}", 100)
            texts = map(value_text, point or ("all",))
            rows.append((*texts, str(n_runs), *(str(counts[v]) for v in VERDICTS), share))
        axes = tuple(map(short_name, sweep.axes)) or ("runs",)
        header = (*axes, "runs", *VERDICTS, "share violated [%]")
        title = f"{found.limits.name or name}: {share_line(found)}"
        tables.append(PageTable(title, header, tuple(rows), n_names=len(axes)))
    return Section("limits", "Limits", tuple(tables), tuple(notes))


def share_line(found: SweepVerdicts) -> str:
    """Return how many of all runs have each verdict."""
    counts = found.counts()
    n_runs = sum(counts.values())
    others = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in VERDICTS[1:])
    share = 100 * counts["violated"] / n_runs
    return f"violated in {counts['violated']} of {plural(n_runs, 'run')} ({share:.1f} %), {others}"
