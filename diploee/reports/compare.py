"""Differences between runs: every metric, their settings, their warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.errors import Brief, InputError, plural
from diploee.metric import NONE, Metric, find_metric, flatten
from diploee.metrics.catalogue import declared_metrics
from diploee.outputs import Run, open_run
from diploee.outputs.lower_bounds import is_lower_bound
from diploee.outputs.ranked import ranks
from diploee.reports.data import differing_settings, run_labels
from diploee.units import W_PER_MW, power_unit

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MetricRow:
    """A metric of all runs."""

    metric: Metric  # what it is, in the unit that it is shown in
    values: tuple[float | None, ...]  # as stored, a value per run; None where a run has none
    bounds: tuple[bool, ...] = ()  # whether each is a lower bound

    def change(self, run: int) -> float | None:
        """Return how far a run's value lies from the first's, as a fraction of that."""
        first, value = self.values[0], self.values[run]
        if not first or value is None:
            return None
        return value / first - 1

    def change_text(self, run: int) -> str:
        """Return the change as text, of % in percentage points; nothing below the shown digits."""
        first, value = self.values[0], self.values[run]
        if first is None or value is None or self.metric.show(first) == self.metric.show(value):
            return ""
        if self.metric.suffix == "%":
            return f"{(value - first) * self.metric.factor:+.{self.metric.digits}f} pp"
        change = self.change(run)
        if change is None:
            return NONE
        return f"{100 * change:+,.1f} %" if abs(change) >= 0.0005 else f"{100 * change:+.1g} %"

    def shown(self, run: int) -> str:
        """Return a run's value as text, marked where it is a lower bound."""
        mark = "≥ " if any(self.bounds[run : run + 1]) else ""
        return f"{mark}{self.metric.show(self.values[run])}"

    @property
    def is_shown_equal(self) -> bool:
        """Whether all runs show the same number."""
        return len({self.metric.show(value) for value in self.values}) == 1


@dataclass(frozen=True)
class Comparison(Brief):
    """Differences between runs, in the order in which they were given."""

    labels: tuple[str, ...]  # names of the runs, all different
    rows: tuple[MetricRow, ...]  # all metrics that a run has, the most asked for first
    # Keys of the scenarios that differ, with the value of each run; None where a run has none
    settings: Mapping[str, tuple[Any, ...]]
    warnings: Mapping[str, tuple[str, ...]]  # each warning once, with the runs that have it

    def __getitem__(self, key: str) -> MetricRow:
        """Return the row of a metric by its key, such as ``"power.max_mw"``."""
        found = next((row for row in self.rows if row.metric.key == key), None)
        if found is None:
            raise KeyError(key)
        return found

    def frame(self) -> pd.DataFrame:
        """Return the metrics by key: name, unit, a column per run in that unit, and changes."""
        import pandas as pd

        table: dict[str, list[Any]] = {
            "metric": [row.metric.name for row in self.rows],
            "unit": [row.metric.suffix for row in self.rows],
        }
        for k, label in enumerate(self.labels):
            table[label] = [
                None if row.values[k] is None else row.values[k] * row.metric.factor  # type: ignore[operator]
                for row in self.rows
            ]
        for k, label in list(enumerate(self.labels))[1:]:
            table[f"{label}: change"] = [row.change(k) for row in self.rows]
        return pd.DataFrame(table, index=pd.Index([r.metric.key for r in self.rows], name="key"))

    def _repr_html_(self) -> str:
        return self.frame().to_html(float_format="{:.4g}".format)


def compare(*runs: Run | Path | str) -> Comparison:
    """Compare runs with the first of them.

    Parameters
    ----------
    *runs : Run or path
        Runs, or their folders.

    Examples
    --------
    >>> found = compare("runs/today", "runs/next-year")  # doctest: +SKIP
    >>> found["power.max_mw"].change(1)  # doctest: +SKIP
    0.12
    """
    if len(runs) < 2:
        raise InputError(f"{plural(len(runs), 'run')} given, two or more are compared; give others")
    opened = [run if isinstance(run, Run) else open_run(run) for run in runs]
    labels = run_labels(opened)
    return Comparison(
        tuple(labels), tuple(_rows(opened)), differing_settings(opened), by_warning(opened, labels)
    )


def by_warning(runs: Sequence[Run], labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return each warning of runs once, with the labels of those that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for label, run in zip(labels, runs, strict=True):
        for warning in dict.fromkeys(map(str, run.manifest.get("warnings") or ())):
            found[warning] = (*found.get(warning, ()), label)
    return found


def _rows(runs: Sequence[Run]) -> list[MetricRow]:
    """Return the declared numbers of all runs, those that people ask for first at the top."""
    values = [dict(flatten(run.metrics)) for run in runs]
    declared = (*declared_metrics(), *(m for run in runs for m in run.stage_metrics))
    largest_mw = max(float(of.get("power.max_mw") or 0) for of in values)
    unit, rows = power_unit(largest_mw * W_PER_MW), []
    for key in ranks(dict.fromkeys(key for of in values for key in of)):
        found = tuple(_number(of.get(key)) for of in values)
        if any(value is not None for value in found) and (metric := find_metric(key, declared)):
            bounds = tuple(is_lower_bound(of, key) for of in values)
            rows.append(MetricRow(metric.sized(unit), found, bounds))
    return rows


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
