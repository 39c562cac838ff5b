"""Charts of a sweep: every main metric against each axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.report.aggregate import round_edges
from diploee.report.charts import Axis, Band, Chart, Line, Panel, Table
from diploee.report.common import histogram_layers
from diploee.report.style import colour, dash
from diploee.report.sweep_data import Sweep, moving_axes, short_name, value_text
from diploee.report.words import listed, number, plural

if TYPE_CHECKING:
    import pandas as pd

MAX_GROUPS = 8
"""Of an axis with more values than this no line each is drawn."""
MAX_ROWS = 60
MIN_SPREAD = 5
"""Fewer runs show no distribution."""


@dataclass(frozen=True)
class SweepMetric:
    """A metric: its column, its name with unit, its unit, a factor and the digits to show."""

    column: str
    label: str
    unit: str
    factor: float = 1
    digits: int = 3


METRICS = (
    SweepMetric("power.mean_mw", "Mean power [MW]", "MW"),
    SweepMetric("power.max_mw", "Maximum power [MW]", "MW"),
    SweepMetric("power.peak_to_average_ratio", "Peak-to-average ratio [1]", ""),
    SweepMetric("utilization.mean", "Mean node occupancy [%]", "%", 100, 2),
    SweepMetric("jobs.queued_fraction", "Jobs that queued [%]", "%", 100, 2),
    SweepMetric("jobs.mean_queue_time_queued_h", "Mean queue time of queued jobs [h]", "h"),
    SweepMetric("requests.incoming_rps", "Incoming requests [1/s]", "1/s", 1, 1),
    SweepMetric("requests.incomplete_rps", "Unserved requests [1/s]", "1/s", 1, 2),
)


def present_metrics(sweep: Sweep) -> list[SweepMetric]:
    """Return the metrics that the summary holds."""
    return [m for m in METRICS if m.column in sweep.finished and sweep.finished[m.column].any()]


def _moving_metrics(sweep: Sweep) -> list[SweepMetric]:
    """Return the metrics that differ between runs; all of them where none does."""
    present = present_metrics(sweep)
    moving = [m for m in present if len(sweep.finished[m.column].dropna().unique()) > 1]
    return moving or present


def _flat_words(sweep: Sweep) -> str:
    """Say which metrics are the same in all runs, and so not drawn."""
    drawn = _moving_metrics(sweep)
    flat = [m.label.partition(" [")[0].lower() for m in present_metrics(sweep) if m not in drawn]
    return f" The same in all runs, so not drawn: {listed(flat)}." if flat else ""


def sweep_charts(sweep: Sweep) -> list[Chart]:
    """Return one chart for each axis of more than one value: a panel for each metric.

    Of axes that move in step (zipped ones) the first stands for all. A sweep of seeds or draws
    alone gives one chart of how the metrics spread.
    """
    moving = moving_axes(sweep.finished, sweep.axes)
    if not moving:
        return [_spread_chart(sweep)] if len(sweep.finished) >= MIN_SPREAD else []
    charts = []
    for number_, axis in enumerate(moving):
        others = [other for other in moving if other != axis]
        group = next((o for o in others if sweep.finished[o].nunique() <= MAX_GROUPS), None)
        pooled = [short_name(o) for o in others if o != group]
        charts.append(
            Chart(
                f"axis-{number_ + 1}",
                f"Metrics against {short_name(axis)}",
                _caption(sweep, axis, group, pooled),
                tuple(_panel(sweep, metric, axis, group) for metric in _moving_metrics(sweep)),
            )
        )
    return charts


def _spread_chart(sweep: Sweep) -> Chart:
    panels = []
    for metric in _moving_metrics(sweep):
        values = sweep.finished[metric.column].dropna().to_numpy(float) * metric.factor
        edges = round_edges(float(values.min()), float(values.max()), 20)
        bars = histogram_layers([(0, "runs", values)], edges, "% of runs")
        title = metric.label.partition(" [")[0]
        panels.append(
            Panel(Axis(metric.label), Axis("Share of the runs [%]", from_zero=True), bars, title)
        )
    return Chart(
        "spread",
        "Spread of the metrics",
        f"Share of the {plural(len(sweep.finished), 'run')} in each bin. The runs differ in their "
        f"seed and in the drawn parameters, where there are any.{_flat_words(sweep)}",
        tuple(panels),
    )


def _caption(sweep: Sweep, axis: str, group: str | None, pooled: list[str]) -> str:
    words = f"Horizontal axis: the key {axis}. Each small point is a run."
    if sweep.n_seeds > 1 or pooled:
        over = [*([plural(sweep.n_seeds, "seed")] if sweep.n_seeds > 1 else []), *pooled]
        numeric = _is_numeric(sweep.finished[axis])
        what = "Lines join the" if numeric else "Large points are"
        words += f" {what} medians over {listed(over)}"
        band = numeric and group is None
        words += "; the band reaches from the lowest to the highest." if band else "."
    if group is not None:
        words += f" Colour: {short_name(group)}."
    return words + _flat_words(sweep)


def _panel(sweep: Sweep, metric: SweepMetric, axis: str, group: str | None) -> Panel:
    rows = sweep.finished[sweep.finished[metric.column].notna()]
    numeric = _is_numeric(rows[axis])
    parts = [("", rows)]
    if group is not None:
        grouped = rows.groupby(group, sort=_is_numeric(rows[group]))
        parts = [(value_text(v), part) for v, part in grouped]
    layers: list[Line | Band] = []
    for index, (name, part) in enumerate(parts):
        legend = f"{short_name(group)} {name}" if group is not None else "median"
        layers += _layers(part, metric, axis, legend, index, group is None)
    return Panel(
        Axis(short_name(axis).capitalize(), "linear" if numeric else "category"),
        Axis(metric.label),
        tuple(layers),
        metric.label.partition(" [")[0],
    )


def _layers(
    rows: pd.DataFrame, metric: SweepMetric, axis: str, name: str, index: int, alone: bool
) -> list[Line | Band]:
    values = rows[metric.column] * metric.factor
    numeric = _is_numeric(rows[axis])  # else there is nothing between two values to join over
    grouped = values.groupby(rows[axis], sort=numeric)
    middle, low, high = grouped.median(), grouped.min(), grouped.max()
    x = _axis_values(middle.index)
    main = colour(index)
    layers: list[Line | Band] = []
    if alone and numeric and len(values) > len(middle):
        layers.append(Band(x, low.to_numpy(), high.to_numpy(), "range", main, 0.14))
    layers.append(
        Line(x, middle.to_numpy(), name, main, metric.unit, metric.digits, dash(index),
             2.0 if numeric else 0.0, markers=True, legend=not alone)
    )  # fmt: skip
    if len(values) > len(middle):
        layers.append(
            Line(_axis_values(rows[axis]), values.to_numpy(), name, main, metric.unit,
                 metric.digits, markers_only=True, legend=False)
        )  # fmt: skip
    return layers


def _is_numeric(values: pd.Series[Any]) -> bool:
    return values.dtype.kind in "iuf"


def _axis_values(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "iuf" else array.astype(str)


def sweep_table(sweep: Sweep) -> Table:
    """Return the medians over seeds for each point of the axes."""
    metrics = present_metrics(sweep)
    axes = list(sweep.axes)
    by: Any = axes or (lambda _: "all")
    grouped = sweep.finished.groupby(by, sort=False)  # in the order of the sweep's file
    rows = []
    for key, part in grouped:
        keys = key if isinstance(key, tuple) else (key,)
        cells = [
            number(float(part[m.column].median()), f"{{:,.{m.digits}f}}", m.factor) for m in metrics
        ]
        rows.append((*map(value_text, keys), str(len(part)), *cells))
    cut = len(rows) > MAX_ROWS
    over = f", medians over {sweep.n_seeds} seeds" if sweep.n_seeds > 1 else ""
    note = f"{plural(len(sweep.finished), 'run')}{over}."
    if cut:
        note += f" The first {MAX_ROWS} of {len(rows)} points; summary.parquet holds all."
    names = tuple(short_name(axis) for axis in axes) or ("runs",)
    return Table(
        "Points of the sweep",
        (*names, "runs", *(m.label for m in metrics)),
        tuple(rows[:MAX_ROWS]),
        note,
        len(names),
    )
