"""Differences between runs: every metric, their settings, their warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.base.errors import Brief, InputError, plural
from diploee.base.metric import (
    NONE,
    Metric,
    find_metric,
    flatten,
    is_plain_number,
    short,
)
from diploee.base.units import W_PER_MW, power_unit
from diploee.grid.limits.report import reports_of
from diploee.metrics.catalogue import declared_metrics
from diploee.reports.data import differing_settings, run_labels, stages_of
from diploee.runs.lower_bounds import is_lower_bound
from diploee.runs.ranked import ranks
from diploee.runs.reader import RunFolder

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MetricRow:
    """A metric of all runs."""

    metric: Metric  # what it is, in the unit that it is shown in
    # As stored, a value per run; None where a run has none
    values: tuple[float | None, ...]
    bounds: tuple[bool, ...] = ()  # whether each is a lower bound

    def change(self, run: int) -> float | None:
        """Return how far a run's value lies from the first's, as a fraction of that."""
        first, value = self.values[0], self.values[run]
        if not first or value is None:
            return None
        return value / first - 1

    def change_text(self, run: int) -> str:
        """Return the change as text, of % in percentage points.

        Nothing below the shown digits.
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
    # Keys of the scenarios that differ, with the value of each run; None where a run
    # has none
    settings: Mapping[str, tuple[Any, ...]]
    # Each warning once, with the runs that have it
    warnings: Mapping[str, tuple[str, ...]]
    # Stages that a run has beyond the first, or lacks, with their sizes
    stages: tuple[str, ...] = ()
    # Limits with other verdicts than in the first run: what each run has of them
    verdicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __getitem__(self, key: str) -> MetricRow:
        """Return the row of a metric by its key, such as ``"power.max_mw"``."""
        found = next((row for row in self.rows if row.metric.key == key), None)
        if found is None:
            raise KeyError(key)
        return found

    def frame(self) -> pd.DataFrame:
        """Return the metrics by key.

        Name, unit, a column per run in that unit, and changes.
        """
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
        return pd.DataFrame(
            table, index=pd.Index([r.metric.key for r in self.rows], name="key")
        )

    def _repr_html_(self) -> str:
        return self.frame().to_html(float_format="{:.4g}".format)


def compare(*runs: RunFolder | Path | str) -> Comparison:
    """Compare runs with the first of them.

    Parameters
    ----------
    *runs : RunFolder or path
        Runs, or their folders.

    Examples
    --------
    >>> found = compare("runs/today", "runs/next-year")  # doctest: +SKIP
    >>> found["power.max_mw"].change(1)  # doctest: +SKIP
    0.12
    """
    if len(runs) < 2:
        raise InputError(
            f"{plural(len(runs), 'run')} given, two or more are compared; give others"
        )
    opened = [*map(RunFolder.open, runs)]
    labels, stages = run_labels(opened), _stages(opened)
    settings = {
        key: values
        for key, values in differing_settings(opened).items()
        if not any(f"{key}.".startswith(f"{_STAGES}.{name}.") for name in stages)
        and not (key == _STAGES and stages)
    }
    lines = (
        f"{labels[k]}: {line}" if len(opened) > 2 else line
        for of in stages.values()
        for k, line in of.items()
    )
    return Comparison(
        tuple(labels),
        tuple(_rows(opened)),
        settings,
        by_warning(opened, labels),
        tuple(lines),
        _verdicts(opened),
    )


_STAGES = "facility.stages"
_SIZES = {"mw": "MW", "mwh": "MWh", "mva": "MVA"}


def _stages(runs: Sequence[RunFolder]) -> dict[str, dict[int, str]]:
    """Return stages by name that a run has beyond the first, or lacks.

    By run, in words.
    """
    named = [stages_of(run) for run in runs]
    found: dict[str, dict[int, str]] = {}
    for k, stages in enumerate(named[1:], start=1):
        for name in dict.fromkeys([*named[0], *stages]):
            if (name in stages) != (name in named[0]):
                did, stage = (
                    ("added", stages) if name in stages else ("removed", named[0])
                )
                sizes = (
                    f"{short(value)} {unit}"
                    for key, unit in _SIZES.items()
                    for name_, value in stage[name].items()
                    if name_.rpartition("_")[2] == key
                    and isinstance(value, int | float)
                )
                words = ", ".join(sizes)
                found.setdefault(name, {})[k] = f"stage {did}: {name} {words}".rstrip()
    return found


def _verdicts(runs: Sequence[RunFolder]) -> dict[str, tuple[str, ...]]:
    """Return the limits with different verdicts, each source's first ones first."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    names: dict[tuple[str, ...], str] = {}
    for k, run in enumerate(runs):
        for report in reports_of(run):
            name = report.name or "limits"
            entries: list[tuple[tuple[str, ...], str, str, str]]
            entries = [((name,), name, report.verdict, report.verdict)]
            for of in report.results:
                how = (
                    f"{of.verdict}, {short(of.value)} of {short(of.limit)} {of.unit}"
                ).rstrip()
                text = f"{name}: {of.text.partition(' (')[0]}"
                entries.append(((name, of.key, str(of.number)), text, of.verdict, how))
            for left in report.unchecked:
                said = "inconclusive"
                entries.append(
                    ((name, left.key, "0"), f"{name}: {left.text}", said, said)
                )
            for place, text, verdict, how in entries:
                names.setdefault(place, text)
                of_runs = found.setdefault(
                    place, [("not checked", "not checked")] * len(runs)
                )
                of_runs[k] = verdict, how
    return {
        names[place]: tuple(how for _, how in of_runs)
        for place, of_runs in found.items()
        if len({verdict for verdict, _ in of_runs}) > 1
    }


def by_warning(
    runs: Sequence[RunFolder], labels: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return each warning of runs once, with the labels of those that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for label, run in zip(labels, runs, strict=True):
        for warning in dict.fromkeys(map(str, run.manifest.get("warnings") or ())):
            found[warning] = (*found.get(warning, ()), label)
    return found


def _rows(runs: Sequence[RunFolder]) -> list[MetricRow]:
    """Return the declared numbers of all runs, the most wanted on top."""
    values = [dict(flatten(run.metrics)) for run in runs]
    declared = (*declared_metrics(), *(m for run in runs for m in run.stage_metrics))
    largest_mw = max(float(of.get("power.max_mw") or 0) for of in values)
    unit, rows = power_unit(largest_mw * W_PER_MW), []
    for key in ranks(dict.fromkeys(key for of in values for key in of)):
        found = tuple(_number(of.get(key)) for of in values)
        if any(value is not None for value in found) and (
            metric := find_metric(key, declared)
        ):
            bounds = tuple(is_lower_bound(of, key) for of in values)
            rows.append(MetricRow(metric.sized(unit), found, bounds))
    return rows


def _number(value: object) -> float | None:
    return float(value) if is_plain_number(value) else None
