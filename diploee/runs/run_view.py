"""A run's values as the figures, tables and sections that `RANKED` declares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from diploee.base.metric import Metric, find_metric, is_plain_number, number
from diploee.base.units import MS_PER_MIN, MS_PER_S, W_PER_MW, PowerUnit, power_unit
from diploee.metrics.catalogue import declared_metrics
from diploee.runs.formatting import interval, moment, pattern_for
from diploee.runs.ranked import Part, Pivot
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic

WAITS = (
    "queued_fraction",
    "mean_queue_time_queued_h",
    "mean_queue_time_all_h",
    "max_queue_time_h",
)
"""Names of metrics of jobs that started, beside which stands how many never did."""

_SIGNED = (
    "poi.peak.reactive_mvar",
    "poi.reactive.max_mvar",
    "poi.reactive.min_mvar",
    "poi.peak.power_factor",
)
"""Keys that are drawn or supplied, lagging or leading, by the sign of reactive power."""  # noqa: E501


class RunView:
    """A run's values with what is declared of them, in the page's unit of power."""

    def __init__(self, run: RunFolder, unit: PowerUnit | None = None) -> None:
        self.run, self.values = run, run.values
        self.step_ms = run.scenario.resolution_ms
        self.unit = unit or power_unit(run.metrics["power"]["max_mw"] * W_PER_MW)
        declared = declared_metrics()
        known = {metric.key for metric in declared}
        self.stages = tuple(
            metric for metric in run.stage_metrics if metric.key not in known
        )
        self.declared = (*declared, *self.stages)
        blocks = {f"{spec.kind}." for spec in run.scenario.facility.stages}
        blocks |= {f"{metric.key.partition('.')[0]}." for metric in run.stage_metrics}
        self.of_stages = blocks - {"measures."}  # which are of the whole site

    def metric(self, key: str) -> Metric | None:
        """Return the metric of a key, in the page's unit."""
        result = find_metric(key, self.declared)
        return result.sized(self.unit) if result else None

    def figure(
        self, key: str, item: str = "", note: str | None = None
    ) -> Statistic | None:
        """Return the figure of a key; None where the run has none."""
        value, metric = self.values.get(key), self.metric(key)
        if metric is None or not is_plain_number(value):
            return None
        about = (self.when(key) or metric.text) if note is None else note
        item = self.named(metric, item)
        unstarted = self.values.get(f"{key.rpartition('.')[0]}.unstarted")
        if key.rpartition(".")[2] in WAITS and unstarted is not None:
            about = "; ".join(
                filter(None, (about, f"{unstarted:,} jobs never started"))
            )
        pattern = "" if metric.is_power else metric.format
        result = Statistic(
            item, value * metric.factor, metric.suffix, about, "", key, pattern
        )
        bands = self.run.bands.ends if self.run.bands else {}
        if key not in bands:
            return result
        low, high = (end * metric.factor for end in bands[key])
        form = pattern or pattern_for([low, high])
        words = [about, f"P5-P95 {number(low, form)} to {number(high, form)}"]
        signed = bands.get(
            "poi.peak.reactive_mvar" if key == "poi.peak.power_factor" else key
        )
        if key in _SIGNED and signed and signed[0] < 0 < signed[1]:
            words.append("sign not known")
        return replace(result, note="; ".join(filter(None, words)), band=(low, high))

    def named(self, metric: Metric, item: str = "") -> str:
        """Return a name, by default its metric's, with the interval of its means."""
        of_means = f", {interval(self.step_ms)} means" if metric.of_means else ""
        return f"{item or metric.name}{of_means}"

    def when(self, key: str) -> str:
        """Return when an extreme was, as text."""
        group, _, name = key.rpartition(".")
        time = self.values.get(f"{group}.{name}_time")
        if time is None and name in ("max_mw", "min_mw", "max_mva"):
            time = self.values.get(f"{group}.time")
        if time is None and key in ("power.max_mw", "power.min_mw"):
            of = "peak" if name == "max_mw" else "minimum"
            time = self.values.get(f"grid.{of}.time")
        return moment(time, self.step_ms) if time else ""

    def section(self, part: Part) -> Section:
        """Return a section of the run."""
        result: dict[str, Statistic] = {}
        for wanted in part.keys:
            for key in self._keys(wanted):
                if key not in result and (figure := self.figure(key)):
                    result[key] = figure
        tables = tuple(filter(None, (self.table(pivot) for pivot in part.tables)))
        notes = (part.note,) if part.note else ()
        figures = tuple(result.values())
        return Section(
            part.id, part.title, figures, tables, part.charts, notes, part.folded
        )

    def _keys(self, wanted: str) -> Iterator[str]:
        """Yield the keys of a prefix that stand in tables, or a key itself."""
        prefixes = tuple(self.of_stages) if wanted == "*stages*" else (wanted,)
        if not all(prefix.endswith(".") for prefix in prefixes):
            yield wanted
            return
        for metric in self.declared:
            shown = metric.view != "detail" or wanted == "measures."
            if shown and "<" not in metric.key and metric.key.startswith(prefixes):
                yield metric.key

    def table(self, pivot: Pivot) -> SectionTable | None:
        """Return the table of a pivot; None where the run has no such keys."""
        before, after = pivot.key.split("<row>")
        columns = "|".join(
            re.escape(name).replace(r"\*", r"(?:[^.]+)") for name in pivot.columns
        )
        result = re.compile(rf"{re.escape(before)}(.+?){re.escape(after)}({columns})")
        cells: dict[str, dict[str, Statistic]] = {}
        for key in self.values:
            if match := result.fullmatch(key):
                self._put(cells, pivot, match[1], match[2], key)
        if pivot.whole:
            start = before.partition(".")[0]
            whole = re.compile(rf"{start}\.({columns})")
            for key in self.values:
                if match := whole.fullmatch(key):
                    self._put(cells, pivot, pivot.whole, match[1], key)
        used = [name for name in _ordered(pivot, cells) if _is_shown(cells, name)]
        figures = tuple(
            cells[row][name] for row in cells for name in used if name in cells[row]
        )
        return (
            SectionTable(pivot.title, figures, pivot.note, pivot.first)
            if figures
            else None
        )

    def _put(
        self,
        cells: dict[str, dict[str, Statistic]],
        pivot: Pivot,
        row: str,
        column: str,
        key: str,
    ) -> None:
        value, heading = self.values[key], pivot.columns.get(column, "")
        item = _length(row)
        if isinstance(value, str):
            text = (
                moment(value, self.step_ms)
                if re.match(r"\d{4}-\d\d-\d\dT", value)
                else value
            )
            cell = Statistic(item, text, quantity=heading or column)
        elif (figure := self.figure(key, note="")) is None:
            return
        else:
            if not heading:  # named by its metric, without the row
                name = figure.item.partition(",")[0] if heading is None else ""
                part = column.rpartition(".")[2].removesuffix("_mwh").replace("_", " ")
                heading = name or part.capitalize()
            kept = figure.pattern if column.endswith("power_factor") else ""
            cell = replace(figure, item=item, quantity=heading, pattern=kept, note="")
        cells.setdefault(item, {})[column] = cell


def _ordered(pivot: Pivot, cells: Mapping[str, Mapping[str, Statistic]]) -> list[str]:
    """Return the columns in the order of the pivot; those of a ``*`` as they come."""
    seen = dict.fromkeys(name for row in cells.values() for name in row)
    result = []
    for wanted in pivot.columns:
        before, star, after = wanted.partition("*")
        result += [
            name
            for name in seen
            if name == wanted
            or (star and name.startswith(before) and name.endswith(after))
        ]
    return list(dict.fromkeys(result))


def _is_shown(cells: Mapping[str, Mapping[str, Statistic]], name: str) -> bool:
    """Return whether a row is above nothing in a column, or a factor of 1.00."""
    nothing = (None, 0.0, "")
    result = [
        row[name]
        for row in cells.values()
        if name in row and row[name].value not in nothing
    ]
    if name.endswith("power_factor"):
        return any(
            isinstance(of.value, float) and round(of.value, 2) != 1 for of in result
        )
    return bool(result)


def _length(row: str) -> str:
    """Return a part of a key that is a length, in words."""
    if result := re.fullmatch(r"([\d.]+)(s|min)", row):
        return interval(
            round(float(result[1]) * (MS_PER_S if result[2] == "s" else MS_PER_MIN))
        )
    if result := re.fullmatch(r"([\d.]+)-([\d.]+|inf)Hz", row):
        return f"{result[1]} to {result[2]} Hz"
    return row
