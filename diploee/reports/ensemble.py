"""The spread over seeds and draws: envelopes of the load, seeds needed, shares of the spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.drawing.charts import PEAK, Axis, Band, Bars, Chart, Line, Panel, colour, since_monday
from diploee.metric import Metric
from diploee.outputs.sections import Figure, Section, Table
from diploee.reports.common import WEEK_AXIS, near_range
from diploee.reports.sweep_charts import present_metrics
from diploee.reports.sweep_data import SweepData, moving_axes, point_name, short_name
from diploee.tables import Kind, open_parquet
from diploee.units import MS_PER_H, power_unit

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

ENSEMBLE_TABLE = "ensemble.parquet"
ENVELOPE_TABLE = "envelope.parquet"
SHARE = "share."
MAX_POINTS = 6
_PERCENTILES = ("p5", "p50", "p95")
_SPREAD: dict[str, Kind] = {
    "metric": "text",
    **dict.fromkeys(("point", "n", "mean", *_PERCENTILES), "number"),
    **dict.fromkeys(("seeds_for_mean", "seeds_for_p95"), "any"),
}
_LEVELS = ("p5_w", "p50_w", "p95_w", "min_w", "max_w")
_ENVELOPE: dict[str, Kind] = {"kind": "text", **dict.fromkeys(("point", "at", *_LEVELS), "number")}


def ensemble_section(sweep: SweepData) -> Section | None:
    """Return how the load and the metrics spread; None where a sweep has no ensemble."""
    if not (sweep.folder / ENSEMBLE_TABLE).is_file() or "point" not in sweep.finished:
        return None
    spread = _read(sweep.folder / ENSEMBLE_TABLE, _SPREAD)
    envelope = _read(sweep.folder / ENVELOPE_TABLE, _ENVELOPE)
    names = _point_names(sweep)
    points = [int(point) for point in spread["point"].unique() if point in names][:MAX_POINTS]
    metrics = present_metrics(sweep)
    tables = [_spread_table(spread[spread["point"] == p], names[p], metrics) for p in points]
    shares = _shares_chart(spread, points, names, metrics)
    cut = spread["point"].nunique() - len(points)
    return Section(
        "ensemble",
        "Spread over seeds and draws",
        (),
        tuple(tables),
        (*_envelope_charts(envelope, points, names), *([shares] if shares else [])),
        (f"{cut} more points stand in {ENSEMBLE_TABLE}.",) if cut else (),
    )


def _read(path: Path, columns: dict[str, Kind]) -> pd.DataFrame:
    with open_parquet(path, columns, remedy="run the sweep again") as file:
        frame: pd.DataFrame = file.read().to_pandas()
    return frame


def _point_names(sweep: SweepData) -> dict[int, str]:
    """Return by point the values of its axes in words."""
    rows = sweep.finished.drop_duplicates("point")
    moving = moving_axes(rows, sweep.axes)
    return {int(row["point"]): point_name(row, moving) for _, row in rows.iterrows()}


def _envelope_charts(
    envelope: pd.DataFrame, points: list[int], names: dict[int, str]
) -> list[Chart]:
    unit = power_unit(float(envelope["max_w"].max()))
    kinds = (
        ("hour_of_week_mean", "envelope-week", "The typical week and its spread", WEEK_AXIS,
         "Mean power by hour of the week"),
        ("duration_curve", "envelope-duration", "Load duration and its spread",
         Axis("Share of the time [%]", range=(0, 100)), "Power exceeded for a share of the time"),
    )  # fmt: skip
    charts = []
    for kind, chart_id, title, axis, what in kinds:
        panels = []
        of_kind = envelope[(envelope["kind"] == kind) & envelope["point"].isin(points)]
        ends = near_range(of_kind["min_w"].min() / unit.watts, of_kind["max_w"].max() / unit.watts)
        power = Axis(f"Facility power [{unit.power}]", range=ends)  # of all, to compare them
        for point in points:
            rows = of_kind[of_kind["point"] == point]
            at = rows["at"].to_numpy()
            x = since_monday((at * MS_PER_H).astype(np.int64)) if axis is WEEK_AXIS else at * 100
            p5, p50, p95, low, high = (rows[name].to_numpy() / unit.watts for name in _LEVELS)
            told = (unit.power, 3, "lowest", "highest")
            panels.append(
                Panel(axis, power, (
                    Band(x, low, high, "all members", PEAK, 0.18, *told),
                    Band(x, p5, p95, "P5 to P95", colour(0), 0.3, unit.power, 3, "P5", "P95"),
                    Line(x, p50, "median", colour(0), unit.power, 3),
                ), names[point])
            )  # fmt: skip
        if any(len(layer.x) > 1 for panel in panels for layer in panel.layers[:1]):
            text = f"{what}, over the members of a point, at each place of the axis for itself."
            charts.append(Chart(chart_id, title, text, tuple(panels)))
    return charts


def _spread_table(rows: pd.DataFrame, name: str, metrics: list[Metric]) -> Table:
    by_metric = rows.set_index("metric").to_dict("index")
    figures = [
        Figure(m.heading, float(of[column]) * factor, quantity=heading, pattern=pattern)
        for m in metrics
        if (of := by_metric.get(m.key))
        for column, heading, factor, pattern in (
            *((p, p.upper(), m.factor, m.format) for p in _PERCENTILES),
            ("seeds_for_mean", "seeds for the mean", 1, "{:,.0f}"),
            ("seeds_for_p95", "seeds for the P95", 1, "{:,.0f}"),
        )
    ]
    title = f"Spread over {int(rows['n'].max())} members" + (f": {name}" if name else "")
    return Table(
        title,
        tuple(figures),
        "Seeds that bring the 95 % confidence interval of the mean, or of the P95, to the accuracy "
        "that the sweep asks for (1 % by default); ensemble.json describes the method.",
    )


def _shares_chart(
    spread: pd.DataFrame, points: list[int], names: dict[int, str], metrics: list[Metric]
) -> Chart | None:
    """Return the share of the variance that each draw causes; None where nothing is drawn."""
    keys = [name for name in spread.columns if name.startswith(SHARE)]
    panels = []
    for point in points:
        rows = spread[spread["point"] == point].set_index("metric")
        found = [m for m in metrics if m.key in rows.index and rows.loc[m.key, keys].notna().all()]
        if not keys or not found:
            continue
        x = np.array([metric.label for metric in found])
        values: Any = rows.loc[[metric.key for metric in found], keys] * 100
        bars = [
            Bars(x, values[key].to_numpy(float), _source(key), colour(k), "%", 0)
            for k, key in enumerate(keys)
        ]
        y = Axis("Share of the variance [%]", range=(0, 100))
        panels.append(Panel(Axis("Metric", "category"), y, tuple(bars), names[point], wide=True))
    if not panels:
        return None
    text = (
        "How much of the variance over the members each draw causes alone, and what is left to the "
        "seed and to draws together."
    )
    return Chart("shares", "Causes of the spread", text, tuple(panels))


def _source(key: str) -> str:
    return short_name(key.removeprefix(SHARE))
