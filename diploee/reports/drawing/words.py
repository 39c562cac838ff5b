"""A figure in words: its alternative text, and the parts of its caption that its data give."""  # noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.reports.drawing.charts import (
    HEIGHT_PX,
    LEAST_PX,
    Area,
    Array,
    Axis,
    Bars,
    Carpet,
    Chart,
    Layer,
    Line,
    Panel,
    Stack,
)
from diploee.reports.drawing.places import y_range

_MOST_NAMED = 4
_LONG_DAYS = 70


def alt_text(chart: Chart) -> str:
    """Return what a figure shows.

    Of the first layers the highest and lowest values, and where.
    """
    said = []
    for panel in chart.panels:
        layers = [layer for layer in panel.layers if not isinstance(layer, Area)]
        title = f"{panel.title}: " if panel.title else ""
        said += [
            title + text for layer in layers if (text := _extremes(layer, panel.x))
        ]
    more = f" And {len(said) - _MOST_NAMED} more." if len(said) > _MOST_NAMED else ""
    return f"{chart.alt or chart.title}. {' '.join(said[:_MOST_NAMED])}{more}".strip()


def caption(chart: Chart) -> str:
    """Return the caption, with what the layers' sizes and gaps add."""
    notes = dict.fromkeys(note for panel in chart.panels for note in _notes(panel))
    return " ".join([chart.caption, *notes]).strip()


def _extremes(layer: Layer, axis: Axis) -> str:
    name, unit, values, x = "", "", np.zeros(0), layer.x
    match layer:
        case Line() | Bars():
            name, unit, values = layer.name, layer.unit, layer.y
        case Stack():
            name, unit, values = "total", layer.unit, layer.parts.sum(axis=0)
        case Carpet():
            name, unit, values = (
                layer.colour_label.partition(" [")[0],
                layer.unit,
                layer.z.ravel(),
            )
            x = np.tile(layer.x, layer.y.size)
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).any():
        return ""
    top, low = int(np.nanargmax(numbers)), int(np.nanargmin(numbers))
    if numbers[top] == numbers[low]:
        return f"{name} is {_number(numbers[top])} {unit}".rstrip() + "."
    text = f"{name} peaks at {_number(numbers[top])} {unit}".rstrip()
    text += f" {_place(x[top], axis)}, lowest {_lowest(x, numbers, low, axis, unit)}."
    return text


def _lowest(x: Array, values: Array, low: int, axis: Axis, unit: str) -> str:
    """Return where values are lowest: of a long time the month of the lowest mean."""
    if axis.kind == "date" and x[-1] - x[0] > np.timedelta64(_LONG_DAYS, "D"):
        months = x.astype("datetime64[M]")
        names, of_month = np.unique(months, return_inverse=True)
        seen = np.isfinite(values)
        sums = np.bincount(of_month[seen], values[seen], names.size)
        means = sums / np.maximum(np.bincount(of_month[seen], minlength=names.size), 1)
        return f"in {names[int(np.argmin(means))].item():%B}"
    return f"{_number(values[low])} {unit}".rstrip() + f" {_place(x[low], axis)}"


def _place(value: Any, axis: Axis) -> str:
    if isinstance(value, np.datetime64):
        time: Any = value.astype("datetime64[ms]").item()
        day = f"{time.day} {time:%B %Y}"
        return {
            "time of day": f"at {time:%H:%M}",
            "time of week": f"on {time:%A at %H:%M}",
            "clock": f"at {time:%H:%M:%S}",
        }.get(axis.kind, f"on {day}")
    if axis.kind == "category":
        return f"for {value}".replace("\n", " ")
    name, _, unit = axis.label.rstrip("]").partition(" [")
    return (
        f"at {_number(float(value))} {unit}".rstrip()
        if unit
        else f"at {name} {value:.4g}"
    )


def _number(value: float) -> str:
    return f"{float(f'{value:.4g}'):,.10g}"


def _notes(panel: Panel) -> list[str]:
    notes = []
    low, high = y_range(panel)
    px = HEIGHT_PX / (high - low) if high > low else 0.0
    for layer in panel.layers:
        match layer:
            case Area() if panel.y.kind != "log" and layer.high.size:
                spread = np.abs(np.asarray(layer.high, float) - layer.low)
                if (
                    np.isfinite(spread).any()
                    and np.nanmedian(spread) * px < LEAST_PX - 1
                ):
                    mostly = "mostly " if np.nanmax(spread) * px >= LEAST_PX - 1 else ""
                    notes.append(
                        f"{layer.name}: spread {mostly}below the line's width."
                    )
            case Stack():
                joined = [group for group, _ in layer.thick(px) if len(group) > 1]
                if joined:
                    names = "; ".join(
                        " with ".join(layer.names[k] for k in group) for group in joined
                    )
                    notes.append(
                        f"Drawn as one area, being thinner than {LEAST_PX} pixels "
                        f"alone: {names}; hovering shows each."
                    )
            case Carpet() if layer.x.dtype.kind == "M" and layer.y.dtype.kind == "M":
                notes += _skipped(layer)
    return notes


def _skipped(carpet: Carpet) -> list[str]:
    """Name the hours that the clock skips.

    Gaps within a day, with values before and after.
    """
    missing = ~np.isfinite(carpet.z)
    notes = []
    for k in np.flatnonzero(missing.any(axis=0)):
        rows = np.flatnonzero(missing[:, k])
        if rows[0] > 0 and rows[-1] < carpet.y.size - 1:
            day, hour = (
                carpet.x[k].astype("datetime64[D]").item(),
                carpet.y[rows[0]].item(),
            )
            notes.append(
                f"The gap at {hour:%H:%M} on {day.day} {day:%B %Y} is the hour that "
                "the clock change skips."
            )
    return notes
