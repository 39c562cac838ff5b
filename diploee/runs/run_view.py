"""A run's values as statistics, tables and sections, in the order of display."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from diploee.base.metric import Metric, find_metric, format_number, is_plain_number
from diploee.base.units import MS_PER_MIN, MS_PER_S, W_PER_MW, PowerUnit, power_unit
from diploee.metrics.catalogue import declared_metrics
from diploee.runs.formatting import format_time, interval, number_format
from diploee.runs.metric_order import Pivot, SectionSpec
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic

WAITS = (
    "queued_fraction",
    "mean_queue_time_queued_h",
    "mean_queue_time_all_h",
    "max_queue_time_h",
)
"""Metrics of started jobs, which are shown with the number of jobs never started."""

_SIGNED = (
    "poi.peak.reactive_mvar",
    "poi.reactive.max_mvar",
    "poi.reactive.min_mvar",
    "poi.peak.power_factor",
)
"""Keys whose sense (lagging or leading) depends on the sign of reactive power."""


class RunView:
    """A run's values with their declarations, in one unit of power for a whole page."""

    def __init__(self, run: RunFolder, unit: PowerUnit | None = None) -> None:
        self.run, self.values = run, run.values
        self.step_ms = run.scenario.resolution_ms
        self.unit = unit or power_unit(run.metrics["power"]["max_mw"] * W_PER_MW)
        declared = declared_metrics()
        declared_keys = {metric.key for metric in declared}
        self.stages = tuple(
            metric for metric in run.stage_metrics if metric.key not in declared_keys
        )
        self.declared = (*declared, *self.stages)
        blocks = {f"{spec.kind}." for spec in run.scenario.facility.stages}
        blocks |= {f"{metric.key.partition('.')[0]}." for metric in run.stage_metrics}
        self.stage_prefixes = blocks - {"measures."}  # measures are of the whole site

    def metric(self, key: str) -> Metric | None:
        """Return the declaration of a key, in the page's unit of power."""
        declaration = find_metric(key, self.declared)
        return declaration.sized(self.unit) if declaration else None

    def statistic(
        self, key: str, item: str = "", note: str | None = None
    ) -> Statistic | None:
        """Return the statistic of a key, or None if the run has no such number."""
        value, metric = self.values.get(key), self.metric(key)
        if metric is None or not is_plain_number(value):
            return None
        note_text = (self.time_text(key) or metric.text) if note is None else note
        item = self.display_name(metric, item)
        unstarted = self.values.get(f"{key.rpartition('.')[0]}.unstarted")
        if key.rpartition(".")[2] in WAITS and unstarted is not None:
            note_text = "; ".join(
                filter(None, (note_text, f"{unstarted:,} jobs never started"))
            )
        pattern = "" if metric.is_power else metric.format
        result = Statistic(
            item, value * metric.factor, metric.suffix, note_text, "", key, pattern
        )
        bands = self.run.bands.ends if self.run.bands else {}
        if key not in bands:
            return result
        low, high = (end * metric.factor for end in bands[key])
        form = pattern or number_format([low, high])
        notes = [
            note_text,
            f"P5-P95 {format_number(low, form)} to {format_number(high, form)}",
        ]
        reactive_band = bands.get(
            "poi.peak.reactive_mvar" if key == "poi.peak.power_factor" else key
        )
        if key in _SIGNED and reactive_band and reactive_band[0] < 0 < reactive_band[1]:
            notes.append("sign not known")
        return replace(result, note="; ".join(filter(None, notes)), band=(low, high))

    def display_name(self, metric: Metric, item: str = "") -> str:
        """Return a statistic's name, with its averaging interval.

        The name is that of its metric by default.
        """
        means_text = f", {interval(self.step_ms)} means" if metric.of_means else ""
        return f"{item or metric.name}{means_text}"

    def time_text(self, key: str) -> str:
        """Return the time of an extreme as text, or ""."""
        group, _, name = key.rpartition(".")
        time = self.values.get(f"{group}.{name}_time")
        if time is None and name in ("max_mw", "min_mw", "max_mva"):
            time = self.values.get(f"{group}.time")
        if time is None and key in ("power.max_mw", "power.min_mw"):
            extreme = "peak" if name == "max_mw" else "minimum"
            time = self.values.get(f"grid.{extreme}.time")
        return format_time(time, self.step_ms) if time else ""

    def section(self, part: SectionSpec) -> Section:
        """Return a section of the run's results."""
        figures: dict[str, Statistic] = {}
        for pattern in part.keys:
            for key in self._keys(pattern):
                if key not in figures and (figure := self.statistic(key)):
                    figures[key] = figure
        tables = tuple(filter(None, (self.table(pivot) for pivot in part.tables)))
        notes = (part.note,) if part.note else ()
        statistics = tuple(figures.values())
        return Section(
            part.id, part.title, statistics, tables, part.charts, notes, part.folded
        )

    def _keys(self, pattern: str) -> Iterator[str]:
        """Yield the keys of a pattern: all keys under a prefix, or a single key."""
        prefixes = tuple(self.stage_prefixes) if pattern == "*stages*" else (pattern,)
        if not all(prefix.endswith(".") for prefix in prefixes):
            yield pattern
            return
        for metric in self.declared:
            is_shown = metric.view != "detail" or pattern == "measures."
            if is_shown and "<" not in metric.key and metric.key.startswith(prefixes):
                yield metric.key

    def table(self, pivot: Pivot) -> SectionTable | None:
        """Return the table of a pivot, or None if the run has no such keys."""
        prefix, suffix = pivot.key.split("<row>")
        columns = "|".join(
            re.escape(name).replace(r"\*", r"(?:[^.]+)") for name in pivot.columns
        )
        row_pattern = re.compile(
            rf"{re.escape(prefix)}(.+?){re.escape(suffix)}({columns})"
        )
        cells: dict[str, dict[str, Statistic]] = {}
        for key in self.values:
            if match := row_pattern.fullmatch(key):
                self._add_cell(cells, pivot, match[1], match[2], key)
        if pivot.whole:
            start = prefix.partition(".")[0]
            whole = re.compile(rf"{start}\.({columns})")
            for key in self.values:
                if match := whole.fullmatch(key):
                    self._add_cell(cells, pivot, pivot.whole, match[1], key)
        used = [
            name for name in _ordered_columns(pivot, cells) if _has_values(cells, name)
        ]
        figures = tuple(
            cells[row][name] for row in cells for name in used if name in cells[row]
        )
        return (
            SectionTable(pivot.title, figures, pivot.note, pivot.first)
            if figures
            else None
        )

    def _add_cell(
        self,
        cells: dict[str, dict[str, Statistic]],
        pivot: Pivot,
        row: str,
        column: str,
        key: str,
    ) -> None:
        """Add the table cell of a key, if it has a number or text."""
        value, heading = self.values[key], pivot.columns.get(column, "")
        item = _format_row(row)
        if isinstance(value, str):
            text = (
                format_time(value, self.step_ms)
                if re.match(r"\d{4}-\d\d-\d\dT", value)
                else value
            )
            cell = Statistic(item, text, quantity=heading or column)
        elif (figure := self.statistic(key, note="")) is None:
            return
        else:
            if not heading:  # named by its metric, without the row
                name = figure.item.partition(",")[0] if heading is None else ""
                part = column.rpartition(".")[2].removesuffix("_mwh").replace("_", " ")
                heading = name or part.capitalize()
            kept_format = figure.pattern if column.endswith("power_factor") else ""
            cell = replace(
                figure, item=item, quantity=heading, pattern=kept_format, note=""
            )
        cells.setdefault(item, {})[column] = cell


def _ordered_columns(
    pivot: Pivot, cells: Mapping[str, Mapping[str, Statistic]]
) -> list[str]:
    """Return the columns in the order of the pivot.

    The matches of a ``*`` in it are in the order of the values.
    """
    names = dict.fromkeys(name for row in cells.values() for name in row)
    result = []
    for pattern in pivot.columns:
        prefix, star, suffix = pattern.partition("*")
        result += [
            name
            for name in names
            if name == pattern
            or (star and name.startswith(prefix) and name.endswith(suffix))
        ]
    return list(dict.fromkeys(result))


def _has_values(cells: Mapping[str, Mapping[str, Statistic]], name: str) -> bool:
    """Return True if a column has a nonzero value, or a factor other than 1.00."""
    empty = (None, 0.0, "")
    cells_shown = [
        row[name]
        for row in cells.values()
        if name in row and row[name].value not in empty
    ]
    if name.endswith("power_factor"):
        return any(
            isinstance(cell.value, float) and round(cell.value, 2) != 1
            for cell in cells_shown
        )
    return bool(cells_shown)


def _format_row(row: str) -> str:
    """Return a length or frequency band in a key as text, such as ``10 min``."""
    if match := re.fullmatch(r"([\d.]+)(s|min)", row):
        return interval(
            round(float(match[1]) * (MS_PER_S if match[2] == "s" else MS_PER_MIN))
        )
    if match := re.fullmatch(r"([\d.]+)-([\d.]+|inf)Hz", row):
        return f"{match[1]} to {match[2]} Hz"
    return row
