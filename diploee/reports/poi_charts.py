"""The load in place: what the point of interconnection draws, of what it is made, and why.

Parts are stacked from the devices up; ratio, power and reactive power are shown against the
weather and the load, since these two are what they follow. They are of the whole facility alone: a
pool has neither a cooling plant nor a power factor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diploee.columns import Column
from diploee.drawing.charts import INK, Axis, Chart, Line, Panel, Stack, closed, colour
from diploee.reports.common import LEAST_SPAN
from diploee.reports.data import RunData, stack_columns
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, PowerUnit

DEVICES = "it_power_w"
AC, POI, REACTIVE, WET_BULB = "it_ac_power_w", "poi_power_w", "poi_reactive_var", "t_wetbulb_c"

WORDS = {DEVICES: "devices", AC: "nodes: fans, supplies, all else"}

ROUNDING = 1e-5
"""Of the power: what is added up is stored in single precision."""

MAX_STACKED = 400
MAX_POINTS = 3_000
LOADS = ("low load", "medium load", "high load")
"""Thirds of the hours by the nodes' AC power."""


def poi_charts(run: RunData, unit: PowerUnit) -> list[Chart]:
    """Return the charts of a run with a point of interconnection."""
    stored = run.run.series().check()
    with_role = [c for c in run.run.columns if c.role is not None and c.name in stored]
    taken_off = [column.name for column in with_role if column.sign < 0]
    parts = _devices_by_part(run) | {c.name: _words(c) for c in with_role if c.sign > 0}
    weather = [WET_BULB] if any(c.name == WET_BULB for c in run.run.columns) else []
    local_ms, hourly, step_ms = _means(run, [*parts, POI, REACTIVE, *weather, *taken_off])
    points = _thirds(hourly[AC])
    gross_w = hourly[POI] + sum(hourly[name] for name in taken_off)
    return [
        _stack(local_ms, hourly, parts, step_ms, unit),
        *([_against_weather(hourly, gross_w, points, unit)] if weather else []),
        _plane(hourly, points, unit),
    ]


def _words(column: Column) -> str:
    return WORDS.get(column.name, f"{column.label} load" if column.role == "load" else column.label)


def _devices_by_part(run: RunData) -> dict[str, str]:
    """Return the columns of the devices by load where asked, else of each of several pools."""
    if run.by_load:
        return {column: load for load, (column, *_) in stack_columns(run).items()}
    pools = run.run.scenario.facility.pools
    return {f"{DEVICES}.{pool}": f"devices: {pool}" for pool in pools} if len(pools) > 1 else {}


def _means(run: RunData, names: list[str]) -> tuple[Int64Array, dict[str, Float64Array], int]:
    """Return local times [ms], columns by name as means of an hour, and the hour's length [ms]."""
    span_ms = run.resolution_ms * run.run.series().n_rows
    hour_ms = max(run.resolution_ms, MS_PER_H if span_ms >= MS_PER_DAY else run.resolution_ms)
    blocks = list(run.run.blocks(names, hour_ms))
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    columns = {
        name: np.concatenate([block.columns[name] for block in blocks]).astype(np.float64)
        for name in names
    }
    return run.run.series().local_ms(starts_ms), columns, hour_ms


def _stack(
    local_ms: Int64Array,
    hourly: dict[str, Float64Array],
    parts: dict[str, str],
    step_ms: int,
    unit: PowerUnit,
) -> Chart:
    size = -(-local_ms.size // MAX_STACKED)
    days = max(1, MS_PER_DAY // step_ms)
    if size > 1:
        size = -(-size // days) * days
    edges = np.arange(0, local_ms.size, size)
    counts = np.diff(np.append(edges, local_ms.size))
    times = closed(local_ms[edges].astype("datetime64[ms]"))
    times[-1] = (local_ms[-1:] + step_ms).astype("datetime64[ms]")[0]
    is_split = next(iter(parts)) != DEVICES
    stacked = {name: words for name, words in parts.items() if not is_split or name != DEVICES}
    power_w = (hourly[name] - (hourly[DEVICES] if name == AC else 0.0) for name in stacked)
    heights = np.stack([np.add.reduceat(part_w, edges) / counts / unit.watts for part_w in power_w])
    colours = tuple(colour(index) for index in range(len(stacked)))
    layers: list[Stack | Line] = [
        Stack(times, np.append(heights, heights[:, -1:], axis=1), tuple(stacked.values()), colours,
              unit.power, 3)
    ]  # fmt: skip
    low = heights.sum(axis=0)
    top = "the top is the power at the point of interconnection."
    drawn = np.add.reduceat(hourly[POI], edges) / counts / unit.watts
    if np.abs(drawn - low).max() > ROUNDING * np.abs(low).max():
        name = "point of interconnection"
        layers.append(
            Line(times, closed(drawn).astype(np.float32), name, INK, unit.power, 3, steps=True)
        )
        top = (
            "the line is the power at the point of interconnection: below the top by what sources "
            "and stores give and what is held back of the load, above it by what stores take."
        )
    length = "day" if size * step_ms == MS_PER_DAY else f"{size * step_ms / MS_PER_H:g} h"
    return Chart(
        "poi-parts",
        "Power at the point of interconnection, by part",
        f"Mean of each {length}, stacked from the devices up; {top}",
        (Panel(Axis("Day", "date"), Axis(f"Power [{unit.power}]", from_zero=True), tuple(layers),
               wide=True),),
    )  # fmt: skip


def _thirds(load_w: Float64Array) -> list[Int64Array]:
    """Return the hours of low, medium and high load, thinned evenly to what a figure takes."""
    every = -(-load_w.size // MAX_POINTS)
    rows = np.arange(0, load_w.size, every)
    edges = np.quantile(load_w[rows], [1 / 3, 2 / 3])
    third = np.searchsorted(edges, load_w[rows], side="left")
    return [rows[third == k] for k in range(len(LOADS))]


def _points(
    x: Float64Array, y: Float64Array, points: list[Int64Array], unit: str, digits: int
) -> Iterator[Line]:
    for index, (rows, name) in enumerate(zip(points, LOADS, strict=True)):
        if rows.size:
            yield Line(
                x[rows].astype(np.float32), y[rows].astype(np.float32), name, colour(index), unit,
                digits, markers_only=True,
            )  # fmt: skip


def _against_weather(
    hourly: dict[str, Float64Array],
    gross_w: Float64Array,
    points: list[Int64Array],
    unit: PowerUnit,
) -> Chart:
    wet_bulb_c, ratio = hourly[WET_BULB], gross_w / np.where(hourly[AC] > 0, hourly[AC], np.nan)
    axis = Axis("Wet-bulb temperature [°C]")
    return Chart(
        "poi-weather",
        "PUE and power against weather and load",
        "Hourly means. PUE: gross power, with that of sources and stores, over the nodes' AC "
        "power, from 1, where nothing is lost. "
        "Power: at the point of interconnection. Colours: thirds of the hours by the nodes' "
        "power.",
        (
            Panel(axis, _pue_axis(ratio), tuple(_points(wet_bulb_c, ratio, points, "", 3)), "PUE"),
            Panel(
                axis,
                Axis(f"Power [{unit.power}]", from_zero=True),
                tuple(_points(wet_bulb_c, hourly[POI] / unit.watts, points, unit.power, 3)),
                "Power",
            ),
        ),
    )


def _pue_axis(ratio: Float64Array) -> Axis:
    """Return the axis from 1, where nothing is lost.

    It spans a tenth at least, so that half a percent is no cliff.
    """
    low, high = (float(most(np.append(ratio, 1.0))) for most in (np.nanmin, np.nanmax))
    return Axis("PUE", range=(low, max(high + 0.05 * (high - low), low + LEAST_SPAN)))


def _from_zero(label: str, values: Float64Array) -> Axis:
    """Return an axis that holds zero and all values."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    return Axis(label, range=(1.05 * low, 1.05 * high or 1.0))


def _plane(hourly: dict[str, Float64Array], points: list[Int64Array], unit: PowerUnit) -> Chart:
    active, reactive = hourly[POI] / unit.watts, hourly[REACTIVE] / unit.watts
    var = unit.power.replace("W", "var")
    return Chart(
        "poi-plane",
        "Active and reactive power",
        "Hourly means at the point of interconnection; reactive power above zero is drawn "
        "(lagging), below it is supplied (leading). Modelled from the stages' parameters, not "
        "measured.",
        (
            Panel(
                _from_zero(f"Active power [{unit.power}]", active),
                _from_zero(f"Reactive power [{var}]", reactive),
                tuple(_points(active, reactive, points, var, 3)),
                wide=True,
            ),
        ),
    )
