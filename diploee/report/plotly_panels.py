"""Panels as plotly figures: plain dictionaries, with arrays as base64 as plotly reads them."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from diploee.report.charts import (
    Array,
    Band,
    Bars,
    Carpet,
    Layer,
    Line,
    Marks,
    Panel,
)
from diploee.report.plotly_axes import Json, plotly_axis
from diploee.report.style import CIVIDIS, INK, MUTED
from diploee.units import MS_PER_DAY

FONT = '"Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif'


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
        return [html.escape(str(value)) for value in values]
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


def _traces(layer: Layer) -> Iterator[Json]:
    if isinstance(layer, Band):
        yield from _band(layer)
    elif isinstance(layer, Line):
        yield _line(layer)
    elif isinstance(layer, Bars):
        yield _bars(layer)
    elif isinstance(layer, Marks):
        yield _marks(layer)
    else:
        yield _carpet(layer)


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
        "line": {
            "color": line.colour,
            "width": line.width,
            "dash": line.dash,
            "shape": "hv" if line.steps else "linear",
        },
        "marker": {"color": line.colour, "size": 5 if line.markers_only else 6,
                   "opacity": 0.45 if line.markers_only else 1},
        "hovertemplate": _hover(name, line.unit, ".3~g" if line.significant else line.digits),
    }  # fmt: skip


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
        "marker": {
            "color": marks.colour,
            "size": 7,
            "symbol": "circle-open" if marks.hollow else "circle",
        },
        "hovertemplate": _hover(f"{name}, %{{text}}", marks.unit, ".3~g"),
    }


def _band(band: Band) -> Iterator[Json]:
    name = html.escape(band.name)
    common = {
        "type": "scatter",
        "mode": "lines",
        **_along("x", band.x),
        "legendgroup": name,
        "line": {"color": band.colour, "width": 0},
    }
    for values, edge, fill in ((band.low, band.low_name, False), (band.high, band.high_name, True)):
        trace = {
            **common,
            "y": encoded(values),
            "name": name,
            "showlegend": fill and band.legend,
        }
        if edge:
            trace["hovertemplate"] = _hover(edge, band.unit, band.digits)
        else:
            trace["hoverinfo"] = "skip"
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
    days = alone if carpet.x.size == 1 else _along("x", carpet.x)
    return {
        "type": "heatmap",
        **days,
        **_along("y", carpet.y),
        "xtype": "scaled",
        "ytype": "scaled",
        "z": encoded(carpet.z),
        "zmin": carpet.low,
        "zmax": carpet.high,
        "colorscale": [[i / (len(CIVIDIS) - 1), c] for i, c in enumerate(CIVIDIS)],
        "colorbar": {
            "title": {"text": carpet.colour_label, "side": "right", "font": {"size": 12}},
            "thickness": 12,
            "outlinewidth": 0,
        },
        "hoverongaps": False,
        "hovertemplate": f"%{{x|%a %d %b %Y}}, %{{y|%H:%M}}<br><b>%{{z:.3f}} {unit}</b>"
        "<extra></extra>",
    }


def _layout(panel: Panel) -> Json:
    carpet = any(isinstance(layer, Carpet) for layer in panel.layers)
    touching = any(isinstance(layer, Bars) and layer.touching for layer in panel.layers)
    markers = any(
        isinstance(layer, Marks) or (isinstance(layer, Line) and layer.markers_only)
        for layer in panel.layers
    )
    return {
        "autosize": True,
        "margin": {"l": 58, "r": 14, "t": 12, "b": 50},
        "font": {"family": FONT, "size": 12.5, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "hovermode": "closest" if carpet or markers else "x unified",
        # Names lie far apart: each answers from anywhere nearer to it than to the others.
        "hoverdistance": -1 if panel.x.kind == "category" else 20,
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "namelength": -1},
        "barmode": "group",
        "bargap": 0.0 if touching else 0.25,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#a9b4bd", "activecolor": MUTED},
        "showlegend": _n_named(panel) > 1,
        "legend": {
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
            "font": {"size": 12}, "bgcolor": "rgba(0,0,0,0)", "traceorder": "normal",
        },
        "xaxis": plotly_axis(panel.x, grid=not carpet, horizontal=True),
        "yaxis": plotly_axis(panel.y, grid=not carpet, horizontal=False),
    }  # fmt: skip


def _n_named(panel: Panel) -> int:
    return sum(
        1 for layer in panel.layers if getattr(layer, "legend", not isinstance(layer, Carpet))
    )
