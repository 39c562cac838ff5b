"""Charts of a sweep: every main metric against each axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.drawing.charts import (
    Axis,
    Band,
    Carpet,
    Chart,
    Line,
    Panel,
    colour,
    dash,
    log_axis,
)
from diploee.errors import plural
from diploee.metric import Metric
from diploee.metrics.catalogue import metrics_of_runs
from diploee.outputs.sections import Figure, Table
from diploee.outputs.words import listed
from diploee.reports.aggregate import round_edges
from diploee.reports.common import histogram_layers
from diploee.reports.sweep_data import (
    MEAN_POWER,
    SweepData,
    moving_axes,
    point_name,
    short_name,
    value_text,
)
from diploee.tables import Float64Array
from diploee.units import W_PER_MW, power_unit

if TYPE_CHECKING:
    import pandas as pd

MAX_GROUPS = 8
"""Of an axis with more values than this no line or panel each is drawn."""
MAX_LINES = 3
"""Of more values each has a panel of its own, not a line among others."""
MAX_MULTIPLES = 4
"""Metrics that are drawn so, each in a chart."""
LEAST_RATIO = 8.0
"""Of the largest to the smallest value of a logarithmic axis."""
MAX_ROWS = 60
MAX_METRICS = 9
"""Metrics that are drawn, the first; the table has all, and a sweep's `metrics` set the order."""
MIN_SPREAD = 5
"""Fewer runs show no distribution."""


def present_metrics(sweep: SweepData) -> list[Metric]:
    """Return the sweep's metrics that the summary holds, powers in the unit of their size."""
    found = sweep.finished
    unit = power_unit(found.get("power.max_mw", found[MEAN_POWER]).max() * W_PER_MW)
    main = (metric.sized(unit) for metric in metrics_of_runs(sweep.metrics))
    return [m for m in main if m.key in found and found[m.key].any()]


def _moving_metrics(sweep: SweepData) -> list[Metric]:
    """Return the metrics that differ between runs; all of them where none does."""
    present = present_metrics(sweep)
    moving = [m for m in present if len(sweep.finished[m.key].dropna().unique()) > 1]
    return (moving or present)[:MAX_METRICS]


def _flat_words(sweep: SweepData) -> str:
    """Say which metrics are not drawn: the same in all runs, or beyond the first ones."""
    drawn, groups = _moving_metrics(sweep), {True: list[str](), False: list[str]()}
    for metric in (m for m in present_metrics(sweep) if m not in drawn):
        is_flat = sweep.finished[metric.key].dropna().nunique() < 2
        groups[is_flat].append(metric.label)
    words = (" The same in all runs, so not drawn: ", " In the table alone: ")
    named = zip(words, groups.values(), strict=True)
    return "".join(f"{text}{listed(names)}." for text, names in named if names)


def sweep_charts(sweep: SweepData) -> list[Chart]:
    """Return one chart for each axis of more than one value: a panel for each metric.

    Of axes that move in step (zipped ones) the first stands for all. Of more than a few values of
    another axis each has panels of its own. Two axes also give a map of each metric. A sweep of
    seeds or draws alone gives one chart of how the metrics spread.
    """
    moving = moving_axes(sweep.finished, sweep.axes)
    if not moving:
        return [_spread_chart(sweep)] if len(sweep.finished) >= MIN_SPREAD else []
    charts: list[Chart] = []
    multiplied: set[tuple[str, str]] = set()
    for number_, axis in enumerate(moving):
        others = [other for other in moving if other != axis]
        group = next((o for o in others if sweep.finished[o].nunique() <= MAX_GROUPS), None)
        pooled = [short_name(o) for o in others if o != group]
        if group is not None and sweep.finished[group].nunique() > MAX_LINES:
            if (group, axis) not in multiplied:  # the same numbers, seen from the other side
                charts += _multiples(sweep, axis, group, pooled, f"axis-{number_ + 1}")
                multiplied.add((axis, group))
            continue
        charts.append(
            Chart(
                f"axis-{number_ + 1}",
                f"Metrics against {short_name(axis)}",
                _caption(sweep, axis, group, pooled),
                tuple(_panel(sweep, metric, axis, group) for metric in _moving_metrics(sweep)),
            )
        )
    maps = [_maps(sweep, moving)] if len(moving) > 1 else []
    return [*maps, *charts] if multiplied else [*charts, *maps]


def _multiples(
    sweep: SweepData, axis: str, group: str, pooled: list[str], chart_id: str
) -> list[Chart]:
    """Return a chart for each of the first metrics, with a panel for each value of a group."""
    charts = []
    parts = sweep.finished.groupby(group, sort=_is_numeric(sweep.finished[group]))
    for k, metric in enumerate(_moving_metrics(sweep)[:MAX_MULTIPLES], start=1):
        values = sweep.finished[metric.key].dropna() * metric.factor
        spare = 0.05 * (values.max() - values.min())
        alike = (float(values.min() - spare), float(values.max() + spare))
        panels = [_panel(replace(sweep, finished=part), metric, axis, None) for _, part in parts]
        titles = (f"{short_name(group)} {value_text(value)}" for value, _ in parts)
        charts.append(
            Chart(
                f"{chart_id}-{k}",
                f"{metric.name} against {short_name(axis)}",
                f"A panel for each {short_name(group)}, all of one scale. "
                + _caption(sweep, axis, None, pooled),
                tuple(
                    replace(panel, title=title, y=replace(panel.y, range=alike), small=True)
                    for panel, title in zip(panels, titles, strict=True)
                ),
            )
        )
    return charts


def _maps(sweep: SweepData, moving: list[str]) -> Chart:
    """Return a map of each metric over the first two axes."""
    across, up = moving[:2]
    panels = []
    for metric in _moving_metrics(sweep):
        table = sweep.finished.pivot_table(
            values=metric.key, index=up, columns=across, aggfunc="median",
            sort=_is_numeric(sweep.finished[up]) and _is_numeric(sweep.finished[across]),
        )  # fmt: skip
        z = table.to_numpy(float) * metric.factor
        x, y = (np.array([value_text(v) for v in names]) for names in (table.columns, table.index))
        low, high = float(np.nanmin(z)), float(np.nanmax(z))
        carpet = Carpet(x, y, z.astype(np.float32), metric.suffix, low, high, metric.heading)
        x_axis, y_axis = (Axis(short_name(a).capitalize(), "category") for a in (across, up))
        panels.append(Panel(x_axis, y_axis, (carpet,), metric.name, small=True))
    over = [*([plural(sweep.n_seeds, "seed")] if sweep.n_seeds > 1 else [])]
    over += [short_name(axis) for axis in moving[2:]]
    return Chart(
        "map",
        f"Metrics over {short_name(across)} and {short_name(up)}",
        f"Colour and number: {f'median over {listed(over)}' if over else 'the value of the run'}."
        f"{_flat_words(sweep)}",
        tuple(panels),
    )


def _spread_chart(sweep: SweepData) -> Chart:
    panels = []
    for metric in _moving_metrics(sweep):
        values = sweep.finished[metric.key].dropna().to_numpy(float) * metric.factor
        edges = round_edges(float(values.min()), float(values.max()), 20)
        bars = histogram_layers([(0, "runs", values)], edges, "% of runs")
        title = metric.name
        panels.append(
            Panel(Axis(metric.heading), Axis("Share of the runs [%]", from_zero=True), bars, title)
        )
    return Chart(
        "spread",
        "Spread of the metrics",
        f"Share of the {plural(len(sweep.finished), 'run')} in each bin. The runs differ in their "
        f"seed and in the drawn parameters, where there are any.{_flat_words(sweep)}",
        tuple(panels),
    )


def _caption(sweep: SweepData, axis: str, group: str | None, pooled: list[str]) -> str:
    words = f"Horizontal axis: the key {axis}. Each small point is a run."
    if sweep.n_seeds > 1 or pooled:
        over = [*([plural(sweep.n_seeds, "seed")] if sweep.n_seeds > 1 else []), *pooled]
        numeric = _is_numeric(sweep.finished[axis])
        what = "Lines join the" if numeric else "Large points are"
        words += f" {what} medians over {listed(over)}"
        band = numeric and group is None
        words += f"; the {'band reaches' if band else 'bars reach'} from P5 to P95."
    if group is not None:
        words += f" Colour: {short_name(group)}."
    return words + _flat_words(sweep)


def _panel(sweep: SweepData, metric: Metric, axis: str, group: str | None) -> Panel:
    rows = sweep.finished[sweep.finished[metric.key].notna()]
    numeric = _is_numeric(rows[axis])
    parts = [("", rows)]
    if group is not None:
        grouped = rows.groupby(group, sort=_is_numeric(rows[group]))
        parts = [(value_text(v), part) for v, part in grouped]
    layers: list[Line | Band] = []
    for index, (name, part) in enumerate(parts):
        legend = f"{short_name(group)} {name}" if group is not None else "median"
        layers += _layers(part, metric, axis, legend, index, group is None)
    label = short_name(axis).capitalize()
    return Panel(
        _number_axis(label, rows[axis].to_numpy(float)) if numeric else Axis(label, "category"),
        Axis(metric.heading),
        tuple(layers),
        metric.name,
    )


def _layers(
    rows: pd.DataFrame, metric: Metric, axis: str, name: str, index: int, alone: bool
) -> list[Line | Band]:
    values = rows[metric.key] * metric.factor
    numeric = _is_numeric(rows[axis])  # else there is nothing between two values to join over
    grouped = values.groupby(rows[axis], sort=numeric)
    middle, low, high = (grouped.quantile(share) for share in (0.5, 0.05, 0.95))
    x = _axis_values(middle.index)
    main = colour(index)
    layers: list[Line | Band] = []
    if alone and numeric and len(values) > len(middle):
        layers.append(Band(x, low.to_numpy(), high.to_numpy(), "P5 to P95", main, 0.14))
    bars = len(values) > len(middle) and not layers
    layers.append(
        Line(x, middle.to_numpy(), name, main, metric.suffix, metric.digits, dash(index),
             2.0 if numeric else 0.0, markers=True, legend=not alone,
             limits=(low.to_numpy(), high.to_numpy()) if bars else None)
    )  # fmt: skip
    if len(values) > len(middle):
        layers.append(
            Line(_axis_values(rows[axis]), values.to_numpy(), name, main, metric.suffix,
                 metric.digits, markers_only=True, legend=False)
        )  # fmt: skip
    return layers


def _number_axis(label: str, values: Float64Array) -> Axis:
    """Return a logarithmic axis for values whose ratios are more alike than their distances."""
    places = np.unique(values)
    if places.size < 3 or places[0] <= 0 or places[-1] / places[0] < LEAST_RATIO:
        return Axis(label)
    uneven = [np.ptp(np.diff(p)) / np.diff(p).mean() for p in (places, np.log(places))]
    return log_axis(label, places) if uneven[1] < uneven[0] else Axis(label)


def _is_numeric(values: pd.Series[Any]) -> bool:
    return values.dtype.kind in "iuf"


def _axis_values(values: Any) -> Any:
    array = np.asarray(values)
    return array if array.dtype.kind in "iuf" else array.astype(str)


def sweep_table(sweep: SweepData) -> Table:
    """Return the medians over seeds for each point of the axes."""
    metrics, axes = present_metrics(sweep), list(sweep.axes)
    by: Any = axes or (lambda _: "all")
    figures: list[Figure] = []
    points = list(sweep.finished.groupby(by, sort=False))  # in the order of the sweep's file
    moving = moving_axes(sweep.finished, sweep.axes)
    for _, part in points[:MAX_ROWS]:
        item = point_name(part.iloc[0], moving)
        figures.append(Figure(item or "all", len(part), quantity="runs", pattern="{:,.0f}"))
        figures += [
            Figure(item or "all", float(part[m.key].median()) * m.factor, m.suffix,
                   quantity=m.name, key=m.key, pattern=m.format)
            for m in metrics
        ]  # fmt: skip
    over = f", medians over {sweep.n_seeds} seeds" if sweep.n_seeds > 1 else ""
    note = f"{plural(len(sweep.finished), 'run')}{over}."
    if len(points) > MAX_ROWS:
        note += f" The first {MAX_ROWS} of {len(points)} points; summary.parquet holds all."
    return Table("Points of the sweep", tuple(figures), note, "Point")
