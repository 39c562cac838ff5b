"""Comparison of runs: differences in metrics, settings and warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.base.arguments import as_list
from diploee.base.errors import Brief, InputError, plural
from diploee.base.metric import (
    NONE,
    Metric,
    find_metric,
    flatten,
    format_short,
    is_plain_number,
)
from diploee.base.units import W_PER_MW, power_unit
from diploee.grid.limits.report import get_reports
from diploee.metrics.catalogue import declared_metrics
from diploee.reports.data import differing_settings, run_labels, stage_keys
from diploee.runs.lower_bounds import is_lower_bound
from diploee.runs.metric_order import sort_by_rank
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic, as_html

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS, MAX_SETTINGS = 10, 3
"""Maximum numbers of differences and of keys in a short list."""

ALWAYS = (
    "power.max_mw",
    "power.energy_mwh",
    "jobs.mean_queue_time_queued_h",
    "jobs.unstarted",
    "jobs.queued_fraction",
)
"""Metrics at the top of the list, even if equal in all runs."""

PerRun = Mapping[str, tuple[Any, ...]]
"""Values of each run by name; None if a run has no value."""


@dataclass(frozen=True)
class MetricRow:
    """Values of a metric in all runs."""

    metric: Metric  # declaration, with the display unit
    # Stored value of each run; None if a run has none
    values: tuple[float | None, ...]
    bounds: tuple[bool, ...] = ()  # True for values that are lower bounds

    def change(self, run: int) -> float | None:
        """Return a run's relative change from the first run; None without a value."""
        first, value = self.values[0], self.values[run]
        if not first or value is None:
            return None
        return value / first - 1

    def change_text(self, run: int) -> str:
        """Return the relative change as text; percentages change in percentage points.

        The text is empty if the change is smaller than the printed digits.
        """
        first, value = self.values[0], self.values[run]
        if (
            first is None
            or value is None
            or self.metric.show(first) == self.metric.show(value)
        ):
            return ""
        if self.metric.suffix == "%":
            return f"{(value - first) * self.metric.factor:+.{self.metric.digits}f} pp"
        change = self.change(run)
        if change is None:
            return NONE
        return (
            f"{100 * change:+,.1f} %"
            if abs(change) >= 0.0005
            else f"{100 * change:+.1g} %"
        )

    @property
    def display_values(self) -> list[float | None]:
        """Values in the display unit."""
        factor = self.metric.factor
        return [None if value is None else value * factor for value in self.values]

    @property
    def changes(self) -> list[float | None]:
        """Relative changes of all further runs from the first run."""
        return [self.change(run) for run in range(1, len(self.values))]

    @property
    def cells(self) -> tuple[str, ...]:
        """Values of all runs as text, then the changes from the first run."""
        runs = range(len(self.values))
        return (*map(self.value_text, runs), *map(self.change_text, runs[1:]))

    def value_text(self, run: int) -> str:
        """Return a run's value as text, marked if it is a lower bound."""
        mark = "≥ " if any(self.bounds[run : run + 1]) else ""
        return f"{mark}{self.metric.show(self.values[run])}"

    @property
    def has_equal_text(self) -> bool:
        """True if all runs have the same printed value."""
        return len({self.metric.show(value) for value in self.values}) == 1


@dataclass(frozen=True)
class Comparison(Brief):
    """Differences between runs, in the order of the runs."""

    labels: tuple[str, ...]  # unique labels of the runs
    rows: tuple[MetricRow, ...]  # metrics of any run, the most important first
    settings: PerRun  # scenario keys with different values
    stages: PerRun  # sizes of stages that some runs lack
    verdicts: PerRun  # limits with different verdicts
    # Labels of runs by warning
    warnings: Mapping[str, tuple[str, ...]]

    def brief(self) -> str:
        """Return the runs and the number of differences as text."""
        return (
            f"{', '.join(self.labels)}: {len(self.rows)} metrics; "
            f"{plural(len(self.settings), 'setting')} and "
            f"{plural(len(self.verdicts), 'verdict')} differ"
        )

    def __getitem__(self, key: str) -> MetricRow:
        """Return the row of a metric by its key, such as ``"power.max_mw"``."""
        return {row.metric.key: row for row in self.rows}[key]

    def frame(self) -> pd.DataFrame:
        """Return the metrics as a table: name, unit, a column per run, and changes."""
        import pandas as pd

        changes = [f"{label}: change" for label in self.labels[1:]]
        columns = ("metric", "unit", *self.labels, *changes)
        table = {
            row.metric.key: (
                row.metric.name,
                row.metric.suffix,
                *row.display_values,
                *row.changes,
            )
            for row in self.rows
        }
        frame = pd.DataFrame.from_dict(table, orient="index", columns=columns)
        return frame.rename_axis("key")

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison in plain types, for JSON."""
        metrics = {
            row.metric.key: {
                "unit": row.metric.suffix,
                "values": row.display_values,
                "changes": row.changes,
                **({"lower_bounds": row.bounds} if any(row.bounds) else {}),
            }
            for row in self.rows
        }
        return {
            "runs": self.labels,
            "settings": {
                key: [str(v) for v in of] for key, of in self.settings.items()
            },
            "stages": self.stages,
            "verdicts": self.verdicts,
            "metrics": metrics,
            "warnings": [{"text": t, "runs": of} for t, of in self.warnings.items()],
        }

    def sections(self, everything: bool = True) -> list[Section]:
        """Return tables of all differences, or only of the main differences."""
        first = [row for row in self.rows if row.metric.key in ALWAYS]
        first.sort(key=lambda row: ALWAYS.index(row.metric.key))
        same = [row for row in self.rows if row.has_equal_text]
        listed = first + [r for r in self.rows if r not in same and r not in first]
        rows = self.rows if everything else listed[:MAX_ROWS]
        settings = list(self.settings.items())
        n_keys = len(settings) if everything else MAX_SETTINGS
        changes = [f"change of {label}" for label in self.labels[1:]]
        metrics: dict[str, tuple[str, ...]] = {}
        for row in rows:
            name = row.metric.heading
            metrics[f"{name}: {row.metric.key}" if name in metrics else name] = (
                row.cells
            )
        tables = (
            self._table("Stages", self.stages),
            self._table(f"Settings, {len(settings)} differ", dict(settings[:n_keys])),
            self._table("Verdicts", self.verdicts),
            self._table("Metrics", metrics, changes),
        )
        notes = [
            f"warning ({'all' if len(of) == len(self.labels) else ', '.join(of)}): "
            f"{text}"
            for text, of in self.warnings.items()
        ]
        if not everything:
            left = len(listed) - len(rows)
            notes = [
                f"{plural(left, 'more metric differs', 'more metrics differ')}, "
                f"{len(same)} are equal; --all shows them, all settings and warnings."
            ]
        filled_tables = tuple(table for table in tables if table.figures)
        return [
            Section("comparison", "Differences", (), filled_tables, (), tuple(notes))
        ]

    def _table(
        self, title: str, found: PerRun, more: Sequence[str] = ()
    ) -> SectionTable:
        """Return a table of text cells with a column per run, and extra columns."""
        columns = (*self.labels, *more)
        cells = (
            Statistic(item, NONE if value is None else str(value), quantity=column)
            for item, values in found.items()
            for column, value in zip(columns, values, strict=True)
        )
        return SectionTable(title, tuple(cells))

    def _repr_html_(self) -> str:
        return as_html(f"{len(self.labels)} runs compared", self.sections())


def compare(
    *runs: RunFolder | Path | str | Sequence[RunFolder | Path | str],
    labels: Sequence[str] = (),
) -> Comparison:
    """Compare runs with the first of them.

    Parameters
    ----------
    *runs : RunFolder or path
        Runs, or their folders; or one list of these.
    labels : sequence of str, optional
        A name for each run; by default the settings that differ, or the folder names.

    Returns
    -------
    Comparison
        Differences in metrics, settings, stages, compliance and warnings.

    Raises
    ------
    InputError
        If fewer than two runs are given, or a folder is no run.

    Examples
    --------
    >>> found = compare("runs/today", "runs/next-year")  # doctest: +SKIP
    >>> found["power.max_mw"].change(1)  # doctest: +SKIP
    0.12
    """
    paths = [run for item in runs for run in as_list(item)]
    if len(paths) < 2:
        raise InputError(
            f"{plural(len(paths), 'run')} given, two or more are compared; give others"
        )
    if labels and len(labels) != len(paths):
        raise InputError(
            f"labels: must be one for each of {len(paths)} runs, found {len(labels)}"
        )
    opened = [*map(RunFolder.open, paths)]
    labels, stages = labels or run_labels(opened), _differing_stages(opened)
    settings = {
        key: values
        for key, values in differing_settings(opened).items()
        if not any(f"{key}.".startswith(f"{_STAGES}.{name}.") for name in stages)
        and not (key == _STAGES and stages)
    }
    return Comparison(
        tuple(labels),
        tuple(_metric_rows(opened)),
        settings,
        stages,
        _differing_verdicts(opened),
        runs_by_warning(opened, labels),
    )


_STAGES = "facility.stages"
_SIZES = {"mw": "MW", "mwh": "MWh", "mva": "MVA"}


def _differing_stages(runs: Sequence[RunFolder]) -> dict[str, tuple[str | None, ...]]:
    """Return the stages that some runs lack, with their sizes in each run."""
    named = [stage_keys(run) for run in runs]
    return {
        name: tuple(_size_text(of[name]) if name in of else None for of in named)
        for name in dict.fromkeys(chain(*named))
        if not all(name in of for of in named)
    }


def _size_text(stage: Mapping[str, Any]) -> str:
    """Return the sizes of a stage as text, such as ``0.05 MW, 0.05 MWh``."""
    sizes = ", ".join(
        f"{format_short(value)} {unit}"
        for key, unit in _SIZES.items()
        for name, value in stage.items()
        if name.rpartition("_")[2] == key and isinstance(value, int | float)
    )
    return sizes or "yes"


def _differing_verdicts(runs: Sequence[RunFolder]) -> dict[str, tuple[str, ...]]:
    """Return the limits with different verdicts, with the result of each run."""
    results_by_run = [_limit_results(run) for run in runs]
    none = "", "not checked", "not checked"
    result = {}
    for place in dict.fromkeys(chain(*results_by_run)):
        cells = [of.get(place, none) for of in results_by_run]
        texts, verdicts, hows = zip(*cells, strict=True)
        if len(set(verdicts)) > 1:
            result[next(filter(None, texts))] = hows
    return result


def _limit_results(run: RunFolder) -> dict[tuple[str, ...], tuple[str, str, str]]:
    """Return text, verdict and result of each limit of a run."""
    result: dict[tuple[str, ...], tuple[str, str, str]] = {}
    for report in get_reports(run):
        name = report.name or "limits"
        result[name,] = name, report.verdict, report.verdict
        for limit_result in report.results:
            how = (
                f"{limit_result.verdict}, {format_short(limit_result.value)} of "
                f"{format_short(limit_result.limit)} {limit_result.unit}"
            )
            text = f"{name}: {limit_result.text.partition(' (')[0]}"
            result[name, limit_result.key, str(limit_result.number)] = (
                text,
                limit_result.verdict,
                how.rstrip(),
            )
        for left in report.unchecked:
            text, said = f"{name}: {left.text}", "inconclusive"
            result[name, left.key, "0"] = text, said, said
    return result


def runs_by_warning(
    runs: Sequence[RunFolder], labels: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the labels of the runs that have each warning, by warning."""
    result: dict[str, tuple[str, ...]] = {}
    for label, run in zip(labels, runs, strict=True):
        for warning in dict.fromkeys(map(str, run.manifest.get("warnings") or ())):
            result[warning] = (*result.get(warning, ()), label)
    return result


def _metric_rows(runs: Sequence[RunFolder]) -> list[MetricRow]:
    """Return the declared metrics of all runs, the most important first."""
    values = [dict(flatten(run.metrics)) for run in runs]
    declared = (*declared_metrics(), *(m for run in runs for m in run.stage_metrics))
    largest_mw = max(float(of.get("power.max_mw") or 0) for of in values)
    unit, rows = power_unit(largest_mw * W_PER_MW), []
    for key in sort_by_rank(dict.fromkeys(key for of in values for key in of)):
        result = tuple(_number(of.get(key)) for of in values)
        if any(value is not None for value in result) and (
            metric := find_metric(key, declared)
        ):
            bounds = tuple(is_lower_bound(of, key) for of in values)
            rows.append(MetricRow(metric.sized(unit), result, bounds))
    return rows


def _number(value: object) -> float | None:
    return float(value) if is_plain_number(value) else None
