"""Charts of a facility's power by component, and of power against the weather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose

import numpy as np

from diploee.base.column_specs import TAKEN_OFF, Column
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW, PowerUnit
from diploee.metrics.demand import rated_power
from diploee.reports.aggregate import block_means
from diploee.reports.chart_elements import MIN_SPAN, range_with_zero
from diploee.reports.data import REST, RunData
from diploee.reports.drawing.charts import (
    INK,
    MUTED,
    Area,
    Axis,
    Chart,
    Line,
    Panel,
    Stack,
    colour,
    repeat_last,
)
from diploee.reports.grid_charts import POWER_LEVEL, LimitLine
from diploee.runs.formatting import interval, listed

FAR = 2
"""Multiple of peak and rated power above which a line is named instead of drawn."""
SAME = 0.005
"""Relative difference below which two lines are merged."""
MAX_MEANS = 55_000
"""Maximum number of drawn means, as of ten minutes in a year."""
MAX_POINTS = 3_000
GIVEN = (
    " The line is below the top by what sources and stores give and what is held back "
    "of the load, above it by what stores take."
)
SPREAD = (
    " Band: from the lowest to the highest value within them. Coarser where there are "
    "more than pixels: zoom in to see all."
)
LIMIT = "#A50026"
"""Colour of contracts and limits, distinct from all pools."""
DEVICES, AC = "it_power_w", "it_ac_power_w"
POI, REACTIVE, WET_BULB = "poi_power_w", "poi_reactive_var", "t_wetbulb_c"
WORDS = {DEVICES: "devices", AC: "nodes: fans, supplies, all else"}
LOADS = ("low load", "medium load", "high load")
"""Labels of the thirds of the hours, ranked by the nodes' AC power."""


def overview_chart(
    run: RunData, unit: PowerUnit, limits: Sequence[LimitLine] = ()
) -> Chart:
    """Return the stacked power of a run, with lines at peak, ratings and limits.

    The areas are the nodes (or devices) of each pool, or the loads, with the rest of
    the facility above them. The top of the stack is the facility's power before the
    effects of sources, storage and curtailment.
    """
    every = _steps_per_mean(run, 10 * MS_PER_MIN)
    x, length = _mean_edges(run, every), interval(every * run.step_ms)
    total = repeat_last(block_means(run.power_w, every) / unit.watts)
    layers: list[Stack | Area | Line] = []
    tops = [total]
    if run.layers:
        coarse = _steps_per_mean(run, MS_PER_H) if run.parts else every
        parts = [
            block_means(layer.power_w, coarse) / unit.watts for layer in run.layers
        ]
        names = [layer.label for layer in run.layers]
        if run.taken_off_w.any():
            off = block_means(run.taken_off_w, coarse) / unit.watts
            parts, names = (
                ([*parts[:-1], parts[-1] + off], names)
                if names[-1] == REST
                else ([*parts, off], [*names, REST])
            )
        stacked, total_name = np.stack([repeat_last(part) for part in parts]), "total"
        if coarse != every:
            stack_length = interval(coarse * run.step_ms)
            total_name = f"total, {stack_length} mean"
            length = f"{stack_length} (areas) and {length} (line)"
        colours = tuple(map(colour, range(len(names))))
        layers.append(
            Stack(
                _mean_edges(run, coarse),
                stacked,
                tuple(names),
                colours,
                unit.power,
                3,
                total=total_name,
            )
        )
        tops.append(stacked.sum(axis=0))
    band = _spread_band(run, every, unit)
    layers += [*band, _mean_line(x, total, "facility", unit, bool(band))]
    levels = _level_lines(run, limits)
    far_w = FAR * max(
        run.max_w, rated_power(run.metrics, run.run.scenario.facility)[0] * W_PER_MW
    )
    for k, (name, watts, main) in enumerate(
        level for level in levels if level[1] <= far_w
    ):
        tops.append(np.full(2, watts / unit.watts))
        dashed = "dash" if k % 2 else "dot"
        layers.append(
            Line(x[[0, -1]], tops[-1], name, main, unit.power, 3, dashed, 1.4)
        )
    far = [
        f"{name} ({watts / unit.watts:,.4g} {unit.power})"
        for name, watts, _ in levels
        if watts > far_w
    ]
    ends = range_with_zero(float(total.min()), max(float(top.max()) for top in tops))
    part_names = (
        "stream and service",
        "the devices of each stream and service, and idle ones",
    )
    if not run.by_load:
        part_names = ("pool", "the pools, services in theirs")
    by = f" by {part_names[0]}" if run.parts else ""
    peak = (
        f" The peak is the highest {interval(run.resolution_ms)} mean, above the "
        "means drawn."
    )
    higher = peak if every * run.step_ms > run.resolution_ms else ""
    return Chart(
        "overview",
        f"The whole period{by}",
        (
            f"Means of {length}, stacked: {part_names[1]}, then what else the facility "
            f"takes.{higher}{SPREAD if band else ''}"
            f"{GIVEN if run.taken_off_w.any() else ''}"
            f"{f' Above the figure: {listed(far)}.' if far else ''}"
        ),
        (
            Panel(
                Axis("Day", "date"),
                Axis(f"Facility power [{unit.power}]", range=ends),
                tuple(layers),
                wide=True,
            ),
        ),
    )


def _steps_per_mean(run: RunData, mean_ms: int) -> int:
    """Return the number of steps per drawn mean."""
    span_ms = run.local_ms.size * run.step_ms
    aim_ms = mean_ms * max(1, -(-span_ms // (MAX_MEANS * mean_ms)))
    return max(1, (MS_PER_MIN if span_ms <= 2 * MS_PER_DAY else aim_ms) // run.step_ms)


def _mean_edges(run: RunData, every: int) -> np.ndarray:
    """Return the starts of the drawn means, and the end of the last."""
    ends_ms = np.append(run.local_ms[::every], run.local_ms[-1] + run.step_ms)
    return ends_ms.astype("datetime64[ms]")


def _mean_line(
    x: np.ndarray, y: Float64Array, name: str, unit: PowerUnit, thinned: bool
) -> Line:
    return Line(
        x,
        y,
        name,
        INK,
        unit.power,
        3,
        width=1.2,
        steps=True,
        means=thinned,
    )


def _spread_band(run: RunData, every: int, unit: PowerUnit) -> tuple[Area, ...]:
    """Return the area between minimum and maximum power within each drawn mean."""
    if every < 2:
        return ()
    first, names = np.arange(0, run.power_w.size, every), ("lowest", "highest")
    low, high = (
        repeat_last(most.reduceat(run.power_w, first) / unit.watts)
        for most in (np.minimum, np.maximum)
    )
    return (
        Area(
            _mean_edges(run, every),
            low,
            high,
            "lowest to highest",
            INK,
            0.22,
            unit.power,
            3,
            *names,
            steps=True,
        ),
    )


def _level_lines(
    run: RunData, limits: Sequence[LimitLine]
) -> list[tuple[str, float, str]]:
    """Return name, power [W] and colour of peak, ratings, contracts and limits."""
    facility = run.run.scenario.facility
    rated_mw, rated = rated_power(run.metrics, facility)
    result = [
        ("peak", run.max_w / W_PER_MW, MUTED),
        *([(rated, rated_mw, INK)] if rated_mw else []),
    ]
    for stage in facility.stages:
        if contract := getattr(stage, "contract", None):
            result.append((contract[1], contract[0], LIMIT))
        if least_mw := getattr(
            getattr(stage, "billing", None), "contract_minimum_mw", None
        ):
            result.append(("least demand billed", float(least_mw), LIMIT))
    result += [
        (f"limit: {x.name}", x.size_mw, LIMIT) for x in limits if x.kind == POWER_LEVEL
    ]
    merged: list[tuple[str, float, str]] = []
    for name, mw, main in result:  # equal lines would hide each other
        if merged and isclose(merged[-1][1], mw * W_PER_MW, rel_tol=SAME):
            name = f"{merged.pop()[0]}, {name}"
        merged.append((name, mw * W_PER_MW, main))
    return merged


def poi_charts(run: RunData, unit: PowerUnit) -> list[Chart]:
    """Return the charts of power at the point of interconnection, if modelled.

    They show the whole facility, as pools have no cooling plant or power factor.
    """
    stored = run.run.series().check()
    if POI not in stored:
        return []
    with_role = [c for c in run.run.columns if c.role is not None and c.name in stored]
    taken_off = [column.name for column in with_role if column.role in TAKEN_OFF]
    parts = {c.name: _component_name(c) for c in with_role if c.sign > 0}
    weather = [WET_BULB] if any(c.name == WET_BULB for c in run.run.columns) else []
    names = [*parts, POI, REACTIVE, *weather, *taken_off]
    span_ms = run.local_ms.size * run.step_ms
    hour_ms = max(
        run.resolution_ms, MS_PER_H if span_ms >= MS_PER_DAY else run.resolution_ms
    )
    blocks = list(run.run.blocks(names, hour_ms))
    hourly = {
        n: np.concatenate([b.columns[n] for b in blocks]).astype(float) for n in names
    }
    starts_ms = run.run.series().local_ms(
        np.concatenate([block.starts_ms for block in blocks])
    )
    points = _load_thirds(hourly[AC])
    gross_w = hourly[POI] + sum(hourly[name] for name in taken_off)
    return [
        _component_chart(starts_ms, hour_ms, hourly, parts, bool(taken_off), unit),
        *([_against_weather(hourly, gross_w, points, unit)] if weather else []),
        _pq_chart(hourly, points, unit),
    ]


def _component_name(column: Column) -> str:
    return WORDS.get(
        column.name, f"{column.label} load" if column.role == "load" else column.label
    )


def _component_chart(
    starts_ms: Int64Array,
    hour_ms: int,
    hourly: Mapping[str, Float64Array],
    parts: Mapping[str, str],
    is_given: bool,
    unit: PowerUnit,
) -> Chart:
    """Return the chart of stacked mean power by component, the devices first."""
    x = repeat_last(starts_ms)
    x[-1] += hour_ms
    heights = [hourly[n] - (hourly[DEVICES] if n == AC else 0.0) for n in parts]
    stacked = np.stack([repeat_last(height / unit.watts) for height in heights])
    times, colours = x.astype("datetime64[ms]"), tuple(map(colour, range(len(parts))))
    layers: list[Stack | Line] = [
        Stack(times, stacked, tuple(parts.values()), colours, unit.power, 3)
    ]
    words = " The top is the power at the point of interconnection."
    if is_given:
        name, y, words = (
            "point of interconnection",
            repeat_last(hourly[POI] / unit.watts),
            GIVEN,
        )
        layers.append(_mean_line(times, y, name, unit, True))
    return Chart(
        "poi-parts",
        "Power at the point of interconnection, by part",
        f"Means of {interval(hour_ms)}, stacked from the devices up.{words}",
        (
            Panel(
                Axis("Day", "date"),
                Axis(f"Power [{unit.power}]", from_zero=True),
                tuple(layers),
                wide=True,
            ),
        ),
    )


def _load_thirds(load_w: Float64Array) -> list[Int64Array]:
    """Return the hours of low, medium and high load, thinned evenly."""
    rows = np.arange(0, load_w.size, -(-load_w.size // MAX_POINTS))
    third = np.searchsorted(
        np.quantile(load_w[rows], [1 / 3, 2 / 3]), load_w[rows], side="left"
    )
    return [rows[third == k] for k in range(len(LOADS))]


def _points(
    x: Float64Array, y: Float64Array, points: list[Int64Array], unit: str
) -> tuple[Line, ...]:
    return tuple(
        Line(
            x[rows],
            y[rows],
            name,
            colour(index),
            unit,
            3,
            markers_only=True,
        )
        for index, (rows, name) in enumerate(zip(points, LOADS, strict=True))
        if rows.size
    )


def _against_weather(
    hourly: Mapping[str, Float64Array],
    gross_w: Float64Array,
    points: list[Int64Array],
    unit: PowerUnit,
) -> Chart:
    wet_bulb_c, ratio = (
        hourly[WET_BULB],
        gross_w / np.where(hourly[AC] > 0, hourly[AC], np.nan),
    )
    # From 1 (no losses); at least a tenth long, so that small differences look small
    low, high = (float(most(np.append(ratio, 1.0))) for most in (np.nanmin, np.nanmax))
    pue = Axis("PUE", range=(low, max(high + 0.05 * (high - low), low + MIN_SPAN)))
    axis, power = Axis("Wet-bulb temperature [°C]"), hourly[POI] / unit.watts
    y_axis = Axis(f"Power [{unit.power}]", from_zero=True)
    return Chart(
        "poi-weather",
        "PUE and power against weather and load",
        (
            "Hourly means. PUE: gross power, with that of sources and stores, over the "
            "nodes' AC power, from 1, where nothing is lost. Power: at the point of "
            "interconnection. Colours: thirds of the hours by the nodes' power."
        ),
        (
            Panel(axis, pue, _points(wet_bulb_c, ratio, points, ""), "PUE"),
            Panel(
                axis, y_axis, _points(wet_bulb_c, power, points, unit.power), "Power"
            ),
        ),
    )


def _pq_chart(
    hourly: Mapping[str, Float64Array], points: list[Int64Array], unit: PowerUnit
) -> Chart:
    var = unit.power.replace("W", "var")
    active, reactive = hourly[POI] / unit.watts, hourly[REACTIVE] / unit.watts
    x, y = (range_with_zero(float(v.min()), float(v.max())) for v in (active, reactive))
    axes = (
        Axis(f"Active power [{unit.power}]", range=x),
        Axis(f"Reactive power [{var}]", range=y),
    )
    return Chart(
        "poi-plane",
        "Active and reactive power",
        (
            "Hourly means at the point of interconnection; reactive power above zero "
            "is drawn (lagging), below it is supplied (leading). Modelled from the "
            "stages' parameters, not measured."
        ),
        (Panel(*axes, _points(active, reactive, points, var), wide=True),),
    )
