"""Alternative text and captions of charts."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.reports.drawing.charts import (
    Area,
    Array,
    Axis,
    Carpet,
    Chart,
    Layer,
    Stack,
)

_MAX_NAMED = 4
_TIMES = {
    "time of day": "at %H:%M",
    "time of week": "on %A at %H:%M",
    "clock": "at %H:%M:%S",
}


def alt_text(chart: Chart) -> str:
    """Return the alternative text: the highest and lowest values of a few layers."""
    sentences = []
    for panel in chart.panels:
        title = f"{panel.title}: " if panel.title else ""
        texts = (_extremes(layer, panel.x) for layer in panel.layers)
        sentences += [title + text for text in texts if text]
    more = (
        f" And {len(sentences) - _MAX_NAMED} more."
        if len(sentences) > _MAX_NAMED
        else ""
    )
    return f"{chart.title}. {' '.join(sentences[:_MAX_NAMED])}{more}".strip()


def _extremes(layer: Layer, axis: Axis) -> str:
    match layer:
        case Area():
            return ""
        case Stack():
            name, values, x = "total", layer.parts.sum(axis=0), layer.x
        case Carpet():
            name, values = layer.colour_label.partition(" [")[0], layer.z.ravel()
            x = np.tile(layer.x, layer.y.size)
        case _:
            name, values, x = layer.name, layer.y, layer.x
    if not np.isfinite(values).any():
        return ""
    top, low = int(np.nanargmax(values)), int(np.nanargmin(values))
    if values[top] == values[low]:
        return f"{name} is {_number(values[top], layer.unit)}."
    highest, lowest = (
        f"{_number(values[k], layer.unit)} {_position_text(x[k], axis)}"
        for k in (top, low)
    )
    return f"{name} peaks at {highest}, lowest {lowest}."


def _position_text(value: Any, axis: Axis) -> str:
    if isinstance(value, np.datetime64):
        time: Any = value.astype("datetime64[ms]").item()
        form = _TIMES.get(axis.kind, f"on {time.day} %B %Y")
        return f"{time:{form}}"
    if axis.kind == "category":
        return f"for {value}".replace("\n", " ")
    name, _, unit = axis.label.rstrip("]").partition(" [")
    return f"at {_number(value, unit)}" if unit else f"at {name} {value:.4g}"


def _number(value: Any, unit: str) -> str:
    return f"{float(f'{value:.4g}'):,.10g} {unit}".rstrip()


def caption(chart: Chart) -> str:
    """Return the caption, with a note on hours that the clock skips."""
    layers = [layer for panel in chart.panels for layer in panel.layers]
    notes = dict.fromkeys(
        f"The gap at {hour:%H:%M} on {day.day} {day:%B %Y} is the hour that the clock "
        "change skips."
        for layer in layers
        if isinstance(layer, Carpet) and layer.y.dtype.kind == "M"
        for day, hour in _skipped_hours(layer)
    )
    return " ".join([chart.caption, *notes]).strip()


def _skipped_hours(carpet: Carpet) -> list[tuple[Any, Any]]:
    """Return day and hour of each gap within a day, as of a change to summer time."""
    missing: Array = ~np.isfinite(carpet.z)
    gaps = missing.argmax(axis=0)
    within = missing.any(axis=0) & ~missing[0] & ~missing[-1]
    return [
        (carpet.x[k].astype("datetime64[D]").item(), carpet.y[gaps[k]].item())
        for k in np.flatnonzero(within)
    ]
