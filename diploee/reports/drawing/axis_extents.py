"""Axis extents of chart layers, and thinning to the points that fit the pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from diploee.reports.drawing.charts import (
    Area,
    Array,
    Bars,
    Carpet,
    Layer,
    Line,
    Panel,
    Stack,
)


def y_values(layer: Layer) -> Iterator[Array]:
    """Yield the arrays of a layer's y values."""
    match layer:
        case Area():
            yield from (layer.low, layer.high)
        case Stack():
            yield layer.parts.sum(axis=0)
        case Line() if layer.limits is not None:
            yield from (layer.y, *layer.limits)
        case Carpet():
            return
        case _:
            yield layer.y


def y_range(panel: Panel) -> tuple[float, float]:
    """Return the y range of a panel, with a margin if the axis has no fixed range."""
    if panel.y.range is not None:
        return float(panel.y.range[0]), float(panel.y.range[1])
    zero = panel.y.from_zero or any(isinstance(y, Bars | Stack) for y in panel.layers)
    ends = [0.0] if zero else list[float]()
    for layer in panel.layers:
        for values in y_values(layer):
            finite = np.asarray(values, np.float64)
            finite = finite[np.isfinite(finite)]
            ends += [float(finite.min()), float(finite.max())] if finite.size else []
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - (0.0 if zero and low == 0 else margin), high + margin


def x_range(panel: Panel) -> tuple[Any, Any]:
    """Return the x range of a panel without categories."""
    if panel.x.range is not None:
        return panel.x.range[0], panel.x.range[1]
    ends = [end for layer in panel.layers if layer.x.size for end in x_extent(layer)]
    return min(ends), max(ends)


def x_extent(layer: Layer) -> tuple[Any, Any]:
    """Return the x extent of a layer: bars add half a step, carpets a step."""
    x = layer.x
    if isinstance(layer, Bars) and layer.touching:
        half = x_step(x) / 2
        return x[0] - half, x[-1] + half
    if isinstance(layer, Carpet):
        return x[0], x[-1] + x_step(x)
    return x.min(), x.max()


def x_step(x: Array) -> Any:
    """Return the step of equally spaced x values; for a single value, a day or 1."""
    if x.size > 1:
        return x[1] - x[0]
    return np.timedelta64(1, "D") if x.dtype.kind == "M" else 1.0


def thin_columns(
    columns: dict[str, Array], how: str, max_points: int
) -> dict[str, Array]:
    """Return columns thinned to about `max_points` points.

    `how` is "means" for means of several points, or "ends" for their extremes (with
    minima of `y2`). If it is empty, columns are unchanged.
    """
    import pandas as pd

    x = columns["x"]
    size = -(-x.size // max(max_points // (4 if how == "means" else 2), 1))
    if not how or x.size <= max_points or size < 2:
        return columns
    if how == "means" and x.dtype.kind == "M":
        n_day = int(np.timedelta64(1, "D") / x_step(x))
        size = -(-size // n_day) * n_day if 2 * size > n_day > 1 else size
    frame = pd.DataFrame(columns)
    rest = frame[:-1]  # the last point is an end: it stays
    blocks = rest.groupby(np.arange(len(rest)) // size)
    if how == "means":
        thinned = blocks.mean().assign(x=blocks["x"].first())
    elif "y2" in columns:
        thinned = blocks.agg({"x": "first", "y": "max", "y2": "min"})
    else:
        rows = np.unique([blocks["y"].idxmin(), blocks["y"].idxmax()])
        thinned = rest.loc[rows]
    result = pd.concat([thinned, frame[-1:]])
    return {name: result[name].to_numpy() for name in columns}
