"""Panels as plotly figures: plain dictionaries, with arrays as base64 as plotly reads them."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any, Literal

import numpy as np

from diploee.drawing.charts import (
    CIVIDIS,
    GRID,
    INK,
    MUTED,
    Array,
    Axis,
    Band,
    Bars,
    Carpet,
    Layer,
    Line,
    Marks,
    Panel,
    log_ticks,
)
from diploee.units import MS_PER_DAY

Json = dict[str, Any]

_FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
_STYLE = json.loads(
    Template(Path(__file__).with_suffix(".json").read_text("utf-8")).substitute(
        font=_FONT, ink=INK, muted=MUTED, grid=GRID
    )
)
"""Settings of every figure, and of every axis of a kind."""


def plotly_figure(panel: Panel) -> Json:
    """Return the figure of one panel: `data` and `layout`."""
    data = [trace for layer in panel.layers for trace in _traces(layer)]
    return {"data": data, "layout": _layout(panel)}


def encoded(values: Array) -> Any:
    """Return an array as plotly reads it: numbers in base64, texts and dates as a list."""
    if values.dtype.kind == "M":
        days = values.dtype == np.dtype("datetime64[D]")
        return np.datetime_as_string(values, unit="D" if days else _unit_of(values)).tolist()
    if values.dtype.kind in "USO":
        return [html.escape(str(value)).replace("\n", "<br>") for value in values]
    numbers = np.ascontiguousarray(values, dtype="<f4" if values.dtype.kind == "f" else "<i4")
    content: Json = {
        "dtype": numbers.dtype.str[1:],
        "bdata": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }
    if numbers.ndim == 2:
        content["shape"] = ", ".join(map(str, numbers.shape))
    return content


def _unit_of(times: Array) -> Literal["s", "ms"]:
    """Return milliseconds where a time needs them."""
    whole = times.astype("datetime64[ms]") == times.astype("datetime64[s]")
    return "s" if whole.all() else "ms"


def _along(name: str, values: Array) -> Json:
    """Return the coordinates of a trace; even dates as a start and a step."""
    if values.dtype.kind == "M" and values.size > 1:
        steps = np.diff(values.astype("datetime64[ms]").astype(np.int64))
        if (steps == steps[0]).all():
            start = np.datetime_as_string(values[0], unit=_unit_of(values[:1]))
            return {f"{name}0": str(start), f"d{name}": int(steps[0])}
    return {name: encoded(values)}


def _traces(layer: Layer) -> Iterable[Json]:
    match layer:
        case Band():
            return _band(layer)
        case Line():
            return [_line(layer)]
        case Bars():
            return [_bars(layer)]
        case Marks():
            return [_marks(layer)]
        case Carpet():
            return [_carpet(layer)]


def _line(line: Line) -> Json:
    name = html.escape(line.name)
    mode = "markers" if line.markers_only else "lines+markers" if line.markers else "lines"
    return {
        "type": "scatter",
        "mode": mode,
        **_along("x", line.x),
        "y": encoded(line.y),
        "name": name,
        "legendgroup": name,
        "showlegend": line.legend,
        "line": {"color": line.colour, "width": line.width, "dash": line.dash,
                 "shape": "hv" if line.steps else "linear"},
        "marker": _LEVEL | {"line": {"width": 3, "color": line.colour}} if line.is_dash else
                  {"color": line.colour, "size": 5 if line.markers_only else 6,
                   "opacity": 0.45 if line.markers_only else 1},
        "hovertemplate": _hover(name, line.unit, ".3~g" if line.significant else line.digits),
        **_error_bars(line),
    }  # fmt: skip


_LEVEL: Json = {"symbol": "line-ew", "size": 30}


def _error_bars(line: Line) -> Json:
    if line.limits is None:
        return {}
    low, high = line.limits
    sizes = {"array": encoded(high - line.y), "arrayminus": encoded(line.y - low)}
    return {"error_y": {"type": "data", "symmetric": False, **sizes}}


def _hover(name: str, unit: str, form: int | str) -> str:
    """Return what hovering tells; a value has `form` decimals, or a format of its own."""
    form = f",.{form}f" if isinstance(form, int) else form
    return f"{name}: %{{y:{form}}} {html.escape(unit)}<extra></extra>"


def _marks(marks: Marks) -> Json:
    name = html.escape(marks.name)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": encoded(marks.x),
        "y": encoded(marks.y),
        "text": [html.escape(text) for text in marks.texts],
        "textposition": "top center",
        "textfont": {"size": 11, "color": marks.colour},
        "cliponaxis": False,
        "name": name,
        "showlegend": marks.legend,
        "marker": {"color": marks.colour, "size": 7,
                   "symbol": "circle-open" if marks.hollow else "circle"},
        "hovertemplate": _hover(f"{name}, %{{text}}", marks.unit, ".3~g"),
    }  # fmt: skip


def _band(band: Band) -> Iterator[Json]:
    name = html.escape(band.name)
    common = {
        "type": "scatter",
        "mode": "lines",
        **_along("x", band.x),
        "legendgroup": name,
        "line": {"color": band.colour, "width": 0, "shape": "hv" if band.steps else "linear"},
    }
    for values, edge, fill in ((band.low, band.low_name, False), (band.high, band.high_name, True)):
        trace = {**common, "y": encoded(values), "name": name, "showlegend": fill and band.legend}
        hover = {"hovertemplate": _hover(edge, band.unit, band.digits)}
        trace |= hover if edge else {"hoverinfo": "skip"}
        if fill:
            trace |= {"fill": "tonexty", "fillcolor": _transparent(band.colour, band.opacity)}
        yield trace


def _transparent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def _bars(bars: Bars) -> Json:
    name = html.escape(bars.name)
    trace: Json = {
        "type": "bar",
        "x": encoded(bars.x),
        "y": encoded(bars.y),
        "name": name,
        "marker": {"color": bars.colour, "line": {"width": 0}},
        "hovertemplate": _hover(name, bars.unit, bars.digits),
    }
    if bars.texts:
        trace["text"] = [html.escape(text) for text in bars.texts]
        trace |= {"textposition": "outside", "textfont": {"size": 11}, "cliponaxis": False}
    return trace


def _carpet(carpet: Carpet) -> Json:
    unit = html.escape(carpet.unit)
    # From a start alone plotly takes the width of one day as 1 ms of 1970.
    alone = {"x0": str(carpet.x[0]), "dx": MS_PER_DAY}
    names = carpet.x.dtype.kind == "U"
    days = alone if carpet.x.size == 1 and not names else _along("x", carpet.x)
    place = "%{x}, %{y}" if names else "%{x|%a %d %b %Y}, %{y|%H:%M}"
    return {
        "type": "heatmap",
        **days,
        **_along("y", carpet.y),
        **({"texttemplate": "%{z:,.3~r}"} if names else {"xtype": "scaled", "ytype": "scaled"}),
        "z": encoded(carpet.z),
        "zmin": carpet.low,
        "zmax": carpet.high,
        "colorscale": [[i / (len(CIVIDIS) - 1), c] for i, c in enumerate(CIVIDIS)],
        "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {
            "text": html.escape(carpet.colour_label), "side": "right", "font": {"size": 12}}},
        "hoverongaps": False,
        "hovertemplate": f"{place}<br><b>%{{z:.3f}} {unit}</b><extra></extra>",
    }  # fmt: skip


def _layout(panel: Panel) -> Json:
    layers = panel.layers
    carpet = any(isinstance(layer, Carpet) for layer in layers)
    touching = any(isinstance(layer, Bars) and layer.touching for layer in layers)
    points = any(isinstance(y, Marks) or getattr(y, "markers_only", False) for y in layers)
    few = {"nticks": 5} if panel.small and panel.x.kind == "time of day" else {}
    n_named = sum(getattr(y, "legend", not isinstance(y, Carpet)) for y in layers)
    return {
        **_STYLE["layout"],
        "hovermode": "closest" if carpet or points else "x unified",
        # Names lie far apart: each answers from anywhere nearer to it than to the others.
        "hoverdistance": -1 if panel.x.kind == "category" else 20,
        "bargap": 0.0 if touching else 0.25,
        "showlegend": n_named > 1,
        "xaxis": _axis(panel.x, showgrid=not carpet, showline=True) | few,
        "yaxis": _axis(panel.y, showgrid=not carpet, showline=False),
    }


def _axis(axis: Axis, **shown: bool) -> Json:
    """Return the layout of one axis."""
    title = {"text": html.escape(axis.label), "standoff": 8, "font": {"size": 12.5}}
    result: Json = {**_STYLE["axis"], **shown, "title": title}
    if axis.from_zero:
        result["rangemode"] = "tozero"
    if axis.kind == "log":
        return result | _log_axis(axis)
    result |= _STYLE["kinds"][axis.kind]
    if axis.range is not None:
        result["range"] = [_plain(value) for value in axis.range]
        if axis.kind == "date":  # a few days
            day = str(axis.range[0].astype("datetime64[D]"))
            result |= {"tick0": day, "dtick": MS_PER_DAY, "tickformat": "%-d %b %Y"}
    return result


def _log_axis(axis: Axis) -> Json:
    """Return what is different on a logarithmic axis: plotly wants its range as powers of ten."""
    low, high = (float(value) for value in axis.range or (1.0, 10.0))
    values, texts = log_ticks(low, high)
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickmode": "array",
        "tickvals": values,
        "ticktext": texts,
        "hoverformat": ".4~g",
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value.astype("datetime64[ms]"), unit="s"))
    return float(value)
