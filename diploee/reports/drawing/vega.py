"""Vega-Lite specifications of chart panels, for pages and files.

A layer's data are columns: `x`, `y`, and `y2` for the second edge of an area. Files
contain rows, thinned to the number of pixels. Pages contain columns, which the page's
script thins anew after each zoom.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diploee.reports.drawing.axis_extents import (
    thin_columns,
    x_extent,
    x_range,
    x_step,
    y_range,
)
from diploee.reports.drawing.charts import (
    CIVIDIS,
    GRID,
    HEIGHT_PX,
    INK,
    MUTED,
    Area,
    Array,
    Axis,
    Bars,
    Carpet,
    Chart,
    Line,
    Panel,
    Stack,
    log_ticks,
)

Json = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "Liberation Sans, Helvetica Neue, Helvetica, Arial, sans-serif"
WIDTH_PX = 900
GAP_PX = 90
"""Gap between panels of a row, with the right panel's axis labels [px]."""

MARGINS_PX = 80
"""Maximum sum of the left and right margins of axes on a page [px]."""

MAX_CHARACTERS = 80
"""Total length of category names above which they are drawn at an angle."""

FEW = 200
"""Number of points up to which each point is drawn as a marker."""

_DASHES = {"solid": [1, 0], "dash": [7, 4], "dot": [2, 3]}
_ALWAYS = {
    "year": "%Y",
    "quarter": "%b",
    "month": "%b",
    "week": "%-d %b",
    "day": "%-d %b",
}
_CLOCK = {
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S.%L",
}
_TIMES: dict[str, Json] = {
    "date": {"format": _ALWAYS | {"date": "%-d %b"} | _CLOCK},
    "clock": {"format": "%H:%M:%S", "tickCount": 6},
    "time of day": {"format": "%H:%M", "tickCount": 8},
    "time of week": {
        "format": dict.fromkeys((*_ALWAYS, "date"), "%a") | _CLOCK,
        "tickCount": 7,
    },
}

Paint = Callable[[str], str]
"""Function that maps a colour to its text in files or to a CSS variable on a page."""


@dataclass
class PanelSpec:
    """Panel as Vega-Lite layers without data, with their columns and tooltips."""

    layers: list[Json] = field(default_factory=list)
    columns: list[tuple[dict[str, Array], str]] = field(default_factory=list)
    hover: list[Json] = field(default_factory=list)

    def add(
        self, mark: Json, columns: dict[str, Array], how: str = "", **encoding: Any
    ) -> None:
        """Add a layer: mark, columns, and thinning method."""
        channels: Json = {"x": {"field": "x"}, "y": {"field": "y"}} | encoding
        self.layers.append({"mark": mark, "encoding": channels})
        self.columns.append((_to_float32(columns), how))

    def add_tooltip(
        self, name: str, unit: str, digits: int | None, how: str, **columns: Array
    ) -> None:
        """Add a tooltip line; its value has three significant digits by default."""
        self.hover.append(
            {
                "name": name,
                "unit": unit,
                "digits": digits,
                "how": how,
                "columns": _to_float32(columns),
            }
        )


def _to_float32(columns: dict[str, Array]) -> dict[str, Array]:
    """Return columns with 32-bit numbers, precise enough for images."""
    return {
        name: values.astype(np.float32) if values.dtype.kind == "f" else values
        for name, values in columns.items()
    }


def config(paint: Paint, background: str | None) -> Json:
    """Return the Vega-Lite configuration of all charts."""
    ink, muted, grid = paint(INK), paint(MUTED), paint(GRID)
    return {
        "background": background,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "tickColor": muted,
            "domainColor": muted,
            "gridColor": grid,
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelOverlap": True,
            "labelSeparation": 6,
        },
        "axisY": {"domain": False, "minExtent": 34, "tickCount": 6},
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "labelLimit": 0,
            "titleLimit": 0,
            "offset": 8,
        },
        "title": {
            "color": ink,
            "anchor": "start",
            "fontSize": 12,
            "fontWeight": "normal",
            "subtitleColor": muted,
        },
        "text": {"fontSize": 10.5},
        "aria": False,
    }


def chart_spec(chart: Chart) -> Json:
    """Return the specification of a chart, with data thinned to its pixels."""
    n = chart.n_columns
    width = (WIDTH_PX - (n - 1) * GAP_PX) // n
    return {
        "$schema": SCHEMA,
        "title": {
            "text": chart.title.split("\n"),
            "fontSize": 15,
            "fontWeight": "bold",
            "offset": 12,
        },
        "concat": [_with_rows(panel, width) for panel in chart.panels],
        "columns": n,
        "spacing": 28,
        "resolve": {
            "scale": dict.fromkeys(
                ("color", "opacity", "strokeDash", "strokeWidth", "xOffset"),
                "independent",
            )
        },
        "config": config(str, "#ffffff"),
    }


def _with_rows(panel: Panel, width: int) -> Json:
    spec, panel_layers = panel_spec(panel, width, str)
    for layer, (columns, how) in zip(spec["layer"], panel_layers.columns, strict=False):
        layer["data"] = {"values": _rows(thin_columns(columns, how, 2 * width))}
    spec["title"] = panel.title
    return spec


def _rows(columns: dict[str, Array]) -> list[Json]:
    plain = {name: _plain(values) for name, values in columns.items()}
    return [
        dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)
    ]


def _plain(values: Array) -> list[Any]:
    if values.dtype.kind == "M":
        return list(milliseconds(values).tolist())
    if values.dtype.kind != "f":
        return list(values.tolist())
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in values.tolist()]


def milliseconds(values: Any) -> Any:
    """Return times as milliseconds since 1970."""
    return np.asarray(values).astype("datetime64[ms]").astype(np.int64)


def panel_spec(panel: Panel, width: int | str, paint: Paint) -> tuple[Json, PanelSpec]:
    """Return the specification of a panel without data, and its layers' columns."""
    panel_layers = PanelSpec()
    low, high = y_range(panel)
    bars = [
        layer.name
        for layer in panel.layers
        if isinstance(layer, Bars) and not layer.touching
    ]
    for layer in panel.layers:
        match layer:
            case Line():
                _line(panel_layers, layer, paint)
            case Area():
                _band(panel_layers, layer, paint)
            case Stack():
                _stack(panel_layers, layer, paint)
            case Bars():
                _bars(
                    panel_layers,
                    layer,
                    paint,
                    bars,
                    low if panel.y.kind == "log" else 0.0,
                )
            case Carpet():
                _carpet(panel_layers, layer)
    carpet = any(isinstance(layer, Carpet) for layer in panel.layers)
    x, y = _x_axis(panel), _y_axis(panel, (low, high))
    if carpet:
        x["axis"]["grid"] = y["axis"]["grid"] = False
    for encoding in (layer["encoding"] for layer in panel_layers.layers):
        encoding["x"] = x | encoding["x"]
        encoding["y"] = y | encoding["y"]
    layers = [*panel_layers.layers, *_legend_layers(panel, width, paint)]
    height = HEIGHT_PX if not panel.small else HEIGHT_PX - (140 if panel.wide else 60)
    return {"width": width, "height": height, "layer": layers}, panel_layers


def _x_axis(panel: Panel) -> Json:
    axis = panel.x
    if axis.kind == "category":
        return {"type": "nominal", **_category_axis(panel, "x")}
    low, high = x_range(panel)
    if not low < high:
        low, high = (low - x_step(np.array([low])), high + x_step(np.array([low])))
    style: Json = {"title": axis.label, "tickCount": 10 if panel.wide else 6}
    return _continuous(axis, low, high, style)


def _y_axis(panel: Panel, ends: tuple[float, float]) -> Json:
    if panel.y.kind == "category" or any(
        isinstance(layer, Carpet) and layer.y.dtype.kind == "U"
        for layer in panel.layers
    ):
        return {"type": "nominal", **_category_axis(panel, "y")}
    style: Json = {"title": panel.y.label}
    if panel.y.bare:
        style |= {"labels": False, "ticks": False}
    if panel.y.kind in _TIMES:  # from the first to the last row of a carpet
        style |= _TIMES[panel.y.kind]
        return {
            "type": "temporal",
            "axis": style,
            "scale": {"type": "utc", "nice": False},
        }
    return _continuous(panel.y, *ends, style)


def _continuous(axis: Axis, low: Any, high: Any, style: Json) -> Json:
    if axis.kind in _TIMES:
        style |= _TIMES[axis.kind]
        if axis.kind == "date" and axis.range is not None:  # a few days
            style |= {
                "tickCount": {"interval": "day", "step": 1},
                "format": "%-d %b %Y",
            }
        ends = [int(milliseconds(value)) for value in (low, high)]
        return {
            "type": "temporal",
            "axis": style,
            "scale": {"type": "utc", "domain": ends, "nice": False},
        }
    scale: Json = {"domain": [float(low), float(high)], "nice": False}
    if axis.kind == "log":
        values, texts = log_ticks(float(low), float(high))
        style |= {
            "values": values,
            "labelExpr": f"{texts!r}[indexof({values!r}, datum.value)]",
        }
        scale["type"] = "log"
    else:
        scale["zero"] = False
    return {"type": "quantitative", "axis": style, "scale": scale}


def _category_axis(panel: Panel, side: str) -> Json:
    """Return the axis of categories, in the order of the layers.

    Long names are drawn at an angle.
    """
    names = list(
        dict.fromkeys(str(v) for layer in panel.layers for v in getattr(layer, side))
    )
    angle = (
        -40
        if side == "x"
        and axis_width_characters(names) > MAX_CHARACTERS / (1 + panel.small)
        else 0
    )
    label = panel.x.label if side == "x" else panel.y.label
    return {
        "scale": {"domain": names[:: -1 if side == "y" else 1]},
        "sort": None,
        "axis": {
            "title": label or None,
            "labelAngle": angle,
            "grid": False,
            "labelLimit": 0,
            "labelExpr": "split(datum.label, '\\n')",
            "labelOverlap": False,
        },
    }


def axis_width_characters(names: list[str]) -> int:
    """Return the width of an axis of names in characters.

    It is the sum of the names' longest lines, plus two for each gap.
    """
    return sum(max(map(len, name.split("\n"))) + 2 for name in names)


def _line(panel_layers: PanelSpec, line: Line, paint: Paint) -> None:
    colour = paint(line.colour)
    columns, has_gaps = {"x": line.x, "y": line.y}, bool(np.isnan(line.y).any())
    how = "" if has_gaps or _is_names(line.x) else "means" if line.means else "ends"
    if line.limits is not None:
        low, high = line.limits
        panel_layers.add(
            {"type": "rule", "color": colour, "strokeWidth": 1.5},
            {"x": line.x, "y": high, "y2": low},
            y2={"field": "y2"},
        )
    point = {"type": "point", "filled": True, "color": colour, "opacity": 1}
    if line.markers_only:
        bold = line.limits is not None or line.texts or line.x.size < FEW
        point |= {"size": 30 if bold else 14, "opacity": 1 if bold else 0.45}
        panel_layers.add(point, columns)
        if line.texts:
            texts = columns | {"text": np.array(line.texts)}
            panel_layers.add(
                {"type": "text", "dy": -9, "color": colour},
                texts,
                text={"field": "text"},
            )
    else:
        panel_layers.add(
            {
                "type": "line",
                "color": colour,
                "strokeWidth": line.width * 0.8,
                "clip": True,
                "strokeDash": _DASHES[line.dash],
                "strokeJoin": "round",
                "order": False,
                "interpolate": "step-after" if line.steps else "linear",
            },
            columns,
            how,
        )
        if line.markers:
            panel_layers.add(point | {"size": 30}, columns)
    digits = None if line.significant else line.digits
    kind = "point" if line.markers_only else "step" if line.steps else "near"
    panel_layers.add_tooltip(line.name, line.unit, digits, kind, **columns)


def _is_names(x: Array) -> bool:
    return x.dtype.kind in "UO"


def _band(panel_layers: PanelSpec, band: Area, paint: Paint) -> None:
    columns = {"x": band.x, "y": band.high, "y2": band.low}
    panel_layers.add(
        {
            "type": "area",
            "color": paint(band.colour),
            "fillOpacity": band.opacity,
            "clip": True,
            "strokeWidth": 0,
            "line": False,
            "interpolate": "step-after" if band.steps else "linear",
        },
        columns,
        "ends",
        y2={"field": "y2"},
    )
    kind = "step" if band.steps else "near"
    for values, name in ((band.high, band.high_name), (band.low, band.low_name)):
        if name:
            panel_layers.add_tooltip(
                name, band.unit, band.digits, kind, x=band.x, y=values
            )


def _stack(panel_layers: PanelSpec, stack: Stack, paint: Paint) -> None:
    low = np.zeros(stack.x.size)
    for colour, part in zip(stack.colours, stack.parts, strict=True):
        high = low + part
        panel_layers.add(
            {
                "type": "area",
                "color": paint(colour),
                "fillOpacity": 0.6,
                "clip": True,
                "interpolate": "step-after" if stack.steps else "linear",
            },
            {"x": stack.x, "y": high, "y2": low},
            "means",
            y2={"field": "y2"},
        )
        low = high
    kind = "step" if stack.steps else "near"
    for name, part in zip(stack.names, stack.parts, strict=True):
        panel_layers.add_tooltip(
            name, stack.unit, stack.digits, kind, x=stack.x, y=part
        )
    total = stack.parts.sum(axis=0)
    panel_layers.add_tooltip(
        stack.total, stack.unit, stack.digits, kind, x=stack.x, y=total
    )


def _bars(
    panel_layers: PanelSpec, bars: Bars, paint: Paint, names: list[str], foot: float
) -> None:
    colour, columns = paint(bars.colour), {"x": bars.x, "y": bars.y}
    if bars.touching:
        half = x_step(bars.x) / 2
        panel_layers.add(
            {"type": "bar", "color": colour, "clip": True, "binSpacing": 0.5},
            {"x": bars.x - half, "x2": bars.x + half, "y": bars.y},
            x2={"field": "x2"},
            y2={"datum": foot},
        )
        panel_layers.add_tooltip(bars.name, bars.unit, bars.digits, "near", **columns)
        return
    offset: Json = {}
    if len(names) > 1:
        offset = {"xOffset": {"datum": bars.name, "scale": {"domain": names}}}
    panel_layers.add(
        {"type": "bar", "color": colour}, columns, y2={"datum": foot}, **offset
    )
    panel_layers.add_tooltip(bars.name, bars.unit, bars.digits, "near", **columns)
    if any(bars.texts):
        texts = columns | {"text": np.array(bars.texts)}
        panel_layers.add(
            {"type": "text", "dy": -7, "color": paint(INK)},
            texts,
            text={"field": "text"},
            **offset,
        )


def _carpet(panel_layers: PanelSpec, carpet: Carpet) -> None:
    colour: Json = {
        "field": "z",
        "type": "quantitative",
        "scale": {
            "domain": [carpet.low, carpet.high],
            "range": list(CIVIDIS),
            "clamp": True,
        },
        "legend": {
            "title": carpet.colour_label,
            "orient": "top",
            "direction": "horizontal",
            "gradientLength": 160,
            "gradientThickness": 10,
            "tickCount": 4,
            "titleOrient": "top" if _is_names(carpet.x) else "left",
        },
    }
    if _is_names(carpet.x):
        _draw_cells(panel_layers, carpet, colour)
        return
    (left, right), (bottom, top) = (
        x_extent(carpet),
        (carpet.y[0], carpet.y[-1] + x_step(carpet.y)),
    )
    extent = {
        "x": np.array([left]),
        "x2": np.array([right]),
        "y": np.array([top]),
        "y2": np.array([bottom]),
    }
    panel_layers.add(
        {"type": "image", "aspect": False, "smooth": False, "clip": True},
        extent | {"url": np.array([_carpet_png_url(carpet)])},
        x2={"field": "x2"},
        y2={"field": "y2"},
        url={"field": "url"},
    )
    ends = np.array([carpet.low, carpet.high])
    panel_layers.add(
        {"type": "point", "opacity": 0},
        {"x": np.repeat(extent["x"], 2), "y": np.repeat(extent["y2"], 2), "z": ends},
        color=colour,
    )
    panel_layers.hover.append(
        {
            "name": carpet.colour_label.partition(" [")[0],
            "unit": carpet.unit,
            "digits": 3,
            "how": "cell",
            "columns": {"x": carpet.x, "y": carpet.y, "z": carpet.z.ravel()},
        }
    )


def _draw_cells(panel_layers: PanelSpec, carpet: Carpet, colour: Json) -> None:
    """Add a coloured cell with its value as text for each value."""
    x, y = np.tile(carpet.x, carpet.y.size), np.repeat(carpet.y, carpet.x.size)
    z = carpet.z.ravel()
    is_finite = np.isfinite(z)
    columns = {"x": x[is_finite], "y": y[is_finite], "z": z[is_finite]}
    panel_layers.add({"type": "rect"}, columns, color=colour)
    texts = np.array([f"{float(f'{v:.4g}'):,.10g}" for v in z[is_finite]])
    middle = (carpet.low + carpet.high) / 2
    panel_layers.add(
        {"type": "text", "color": {"expr": f"datum.z < {middle:g} ? '#fff' : '#000'"}},
        columns | {"text": texts},
        text={"field": "text"},
    )
    panel_layers.add_tooltip(carpet.colour_label, carpet.unit, None, "cell", **columns)


def _carpet_png_url(carpet: Carpet) -> str:
    """Return the values as a PNG of palette colours, as a data URL.

    The first row is at the bottom; gaps are transparent.
    """
    n = 255
    positions = np.linspace(0, len(CIVIDIS) - 1, n)
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in CIVIDIS])
    palette = np.stack(
        [np.interp(positions, np.arange(len(CIVIDIS)), rgb[:, k]) for k in range(3)],
        axis=1,
    )
    span = (carpet.high - carpet.low) or 1.0
    level = np.clip((carpet.z[::-1] - carpet.low) / span, 0, 1) * (n - 1)
    index = np.where(np.isfinite(level), np.nan_to_num(level).round(), n).astype(
        np.uint8
    )
    rows = np.hstack([np.zeros((index.shape[0], 1), np.uint8), index]).tobytes()
    size = struct.pack(">IIBBBBB", index.shape[1], index.shape[0], 8, 3, 0, 0, 0)
    colours = palette.round().astype(np.uint8).tobytes() + b"\0\0\0"
    chunks = (
        (b"IHDR", size),
        (b"PLTE", colours),
        (b"tRNS", b"\xff" * n + b"\0"),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return (
        "data:image/png;base64,"
        + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
    )


def _legend_layers(panel: Panel, width: int | str, paint: Paint) -> Iterator[Json]:
    """Yield a layer that only draws the legend, if there are several names."""
    entries: dict[str, tuple[str, list[int], float, float]] = {}
    for layer in panel.layers:
        match layer:
            case Stack():
                for name, colour in zip(layer.names, layer.colours, strict=True):
                    entries.setdefault(name, (colour, [1, 0], 0.6, 10))
            case Line() if layer.legend:
                is_line = layer.width and not layer.markers_only
                style = _DASHES[layer.dash], 1.0, 2 if is_line else 10
                entries.setdefault(layer.name, (layer.colour, *style))
            case Area(legend=True) | Bars():
                opacity = getattr(layer, "opacity", 1.0)
                entries.setdefault(layer.name, (layer.colour, [1, 0], opacity, 10))
    if len(entries) < 2:
        return
    colours, dashes, opacities, widths = zip(*entries.values(), strict=True)
    names = list(entries)
    entry_px = 44 + 6 * max(map(len, names))
    legend = {
        "orient": "top",
        "direction": "horizontal",
        "title": None,
        "symbolType": "stroke",
        # Of the element, not of `width`, which shrinks once the legend's height is
        # taken.
        "symbolSize": 350,
        "columns": {
            "expr": "max(1, floor((0 * width + containerSize()[0] - "
            f"{MARGINS_PX}) / {entry_px}))"
        }
        if isinstance(width, str)
        else max(1, int(width // entry_px)),
    }
    ranges = {
        "color": [paint(c) for c in colours],
        "strokeDash": list(dashes),
        "opacity": list(opacities),
        "strokeWidth": list(widths),
    }
    yield {
        "data": {"values": [{"name": name} for name in names]},
        "mark": "line",
        "encoding": {
            channel: {
                "field": "name",
                "type": "ordinal",
                "sort": None,
                "legend": legend,
                "scale": {"type": "ordinal", "domain": names, "range": values},
            }
            for channel, values in ranges.items()
        },
    }
