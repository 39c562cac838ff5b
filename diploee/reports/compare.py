"""Differences between runs: every metric, the calendar weeks that they share, their warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.errors import Brief, InputError, plural
from diploee.metric import NONE, Metric, find_metric, flatten
from diploee.metrics.catalogue import declared_metrics
from diploee.outputs import Run, open_run
from diploee.outputs.ranked import ranks
from diploee.reports.data import differing_settings, run_labels
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_MIN, MS_PER_WEEK, W_PER_MW, power_unit

if TYPE_CHECKING:
    import pandas as pd

MONDAY_MS = 4 * MS_PER_DAY
"""1970-01-05 was a Monday [ms since 1970]."""
MEANS_MS = 15 * MS_PER_MIN
"""Peaks of weeks are of means over this [ms], or the resolution where it is longer."""


@dataclass(frozen=True)
class MetricRow:
    """A metric of all runs."""

    metric: Metric  # what it is, in the unit that it is shown in
    values: tuple[float | None, ...]  # as stored, a value per run; None where a run has none

    @property
    def is_equal(self) -> bool:
        """Whether all runs have the same value."""
        return len(set(self.values)) == 1

    def change(self, run: int) -> float | None:
        """Return how far a run's value lies from the first's, as a fraction of that."""
        first, value = self.values[0], self.values[run]
        if not first or value is None:
            return None
        return value / first - 1

    def change_text(self, run: int) -> str:
        """Return the change as text: points of percentages; nothing below the shown digits."""
        first, value = self.values[0], self.values[run]
        if first is None or value is None or self.metric.show(first) == self.metric.show(value):
            return ""
        if self.metric.suffix == "%":
            return f"{(value - first) * self.metric.factor:+.{self.metric.digits}f} points"
        change = self.change(run)
        if change is None:
            return NONE
        return f"{100 * change:+,.1f} %" if abs(change) >= 0.0005 else f"{100 * change:+.1g} %"

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
    # Mean and largest power of the whole calendar weeks that all runs cover, by Monday: ``<run>
    # mean [MW]`` and ``<run> max [MW]``. Empty where they share none.
    weeks: pd.DataFrame
    means_ms: int  # length of the means that the weeks' largest powers are of [ms]
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

    def furthest_weeks(self, n: int = 3) -> pd.DataFrame:
        """Return the weeks whose means lie furthest apart, the furthest first."""
        means = self.weeks[[f"{label} mean [MW]" for label in self.labels]]
        apart = (means.max(axis=1) - means.min(axis=1)).sort_values(ascending=False)
        return self.weeks.loc[apart.index[:n]]


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
    weeks, means_ms = _weeks(opened, labels)
    told: dict[str, list[str]] = {}
    for label, run in zip(labels, opened, strict=True):
        for warning, _ in Counter(map(str, run.manifest.get("warnings") or ())).items():
            told.setdefault(warning, []).append(label)
    return Comparison(
        tuple(labels),
        tuple(_rows(opened)),
        differing_settings(opened),
        weeks,
        means_ms,
        {warning: tuple(of) for warning, of in told.items()},
    )


def _rows(runs: Sequence[Run]) -> list[MetricRow]:
    """Return the declared numbers of all runs, those that people ask for first at the top."""
    values = [dict(flatten(run.metrics)) for run in runs]
    declared = (*declared_metrics(), *(m for run in runs for m in run.stage_metrics))
    largest_mw = max(float(of.get("power.max_mw") or 0) for of in values)
    unit, rows = power_unit(largest_mw * W_PER_MW), []
    for key in ranks(dict.fromkeys(key for of in values for key in of)):
        found = tuple(_number(of.get(key)) for of in values)
        if any(value is not None for value in found) and (metric := find_metric(key, declared)):
            rows.append(MetricRow(metric.sized(unit), found))
    return rows


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _weeks(runs: Sequence[Run], labels: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """Return means and peaks of the whole weeks of local time that all cover, and the means."""
    import pandas as pd

    steps_ms = [run.scenario.resolution_ms for run in runs]
    means_ms = max(step_ms * max(1, MEANS_MS // step_ms) for step_ms in steps_ms)
    columns: dict[str, Any] = {}
    for run, label, step_ms in zip(runs, labels, steps_ms, strict=True):
        each_ms = step_ms * max(1, means_ms // step_ms)
        week, mean_w, max_w = _by_week(run, each_ms)
        monday = pd.to_datetime(week * MS_PER_WEEK + MONDAY_MS, unit="ms")
        columns[f"{label} mean [MW]"] = pd.Series(mean_w / W_PER_MW, monday)
        columns[f"{label} max [MW]"] = pd.Series(max_w / W_PER_MW, monday)
    return pd.DataFrame(columns).dropna().rename_axis("week of"), means_ms


def _by_week(run: Run, step_ms: int) -> tuple[Int64Array, Float64Array, Float64Array]:
    """Return the whole weeks of a run, and the mean and largest power of each [W]."""
    series = run.series()
    weeks, powers_w = [], []
    for block in run.blocks(["facility_power_w"], step_ms):
        weeks.append((series.local_ms(block.starts_ms) - MONDAY_MS) // MS_PER_WEEK)
        powers_w.append(block.columns["facility_power_w"])
    week, power_w = np.concatenate(weeks), np.concatenate(powers_w)
    found, first, count = np.unique(week, return_index=True, return_counts=True)
    mean_w = np.add.reduceat(power_w, first) / count
    max_w: Float64Array = np.maximum.reduceat(power_w, first)
    # A week of a clock that is set forward lacks an hour.
    whole = count * step_ms >= MS_PER_WEEK - MS_PER_DAY / 24
    return found[whole], mean_w[whole], max_w[whole]
