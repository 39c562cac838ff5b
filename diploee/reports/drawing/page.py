"""Charts on an HTML page: elements, shared data columns, and the drawing script.

Equal columns are stored once. Long columns are stored as 16-bit integers, scaled to
their minimum and maximum. Tooltips show no more decimals than this resolves.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from diploee.reports.drawing.alt_text import alt_text, caption
from diploee.reports.drawing.charts import GRID, INK, MUTED, Array, Chart, Panel
from diploee.reports.drawing.engine import run_vl_convert
from diploee.reports.drawing.vega import Json, config, milliseconds, panel_spec

_HERE = Path(__file__).resolve().parent
_LONG = 500
_LEVELS = 65_534
_GAP = -32_768
_MAX_JUMPS = 8
DARK = {
    INK: "#e6ebef",
    MUTED: "#a3b3c0",
    GRID: "#34414c",
    "#0072B2": "#3992c3",
    "#D55E00": "#d96e1a",
    "#5B5B5B": "#8c8c8c",
    "#A50026": "#ce7388",
}
"""Colours on a dark page: mixed with white, for a contrast of 4.5."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:"
)
"""Content security policy of a page, which forbids all requests."""


class Figures:
    """Charts of one page, with their shared columns and colours."""

    def __init__(self) -> None:
        self._columns: dict[str, Json] = {}
        self._colours: dict[str, None] = {}

    def figure(self, chart: Chart) -> str:
        """Return the HTML element of a chart."""
        panels = [(panel, self._content(panel)) for panel in chart.panels]
        texts = {"alt": alt_text(chart), "caption": caption(chart)}
        return render_template(
            "figure.html", chart=chart, panels=panels, json=_json, **texts
        )

    def scripts(self) -> str:
        """Return the scripts of the page: colours, columns, Vega and drawing code."""
        return render_template(
            "scripts.html",
            json=_json,
            columns=list(self._columns.values()),
            colours=list(self._colours),
            dark=DARK,
            style=(_HERE / "page.css").read_text("utf-8"),
            vega=_vega_source(),
            script=(_HERE / "page.js").read_text("utf-8"),
        )

    def page(self, chart: Chart) -> str:
        """Return an HTML page of one chart."""
        return render_template("chart.html", chart=chart, figures=self, policy=POLICY)

    def _content(self, panel: Panel) -> Json:
        spec, panel_layers = panel_spec(panel, "width", self._paint)
        for k, layer in enumerate(spec["layer"][: len(panel_layers.columns)]):
            layer["data"] = {"name": f"d{k}"}
        spec |= {
            "width": "container",
            "autosize": {"type": "fit-x", "contains": "padding"},
            "config": config(self._paint, None),
        }
        domain = None
        if panel.x.kind != "category":
            domain = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
            spec["params"] = [{"name": "shown", "value": domain}]
            for layer in spec["layer"]:
                if "x" in layer["encoding"]:
                    x = layer["encoding"]["x"]
                    scale = {k: v for k, v in x["scale"].items() if k != "domain"}
                    layer["encoding"]["x"] = x | {
                        "scale": scale | {"domainRaw": {"expr": "shown"}}
                    }
        return {
            "spec": spec,
            "layers": [
                {
                    "how": how,
                    "columns": {n: self._column_index(v) for n, v in columns.items()},
                }
                for columns, how in panel_layers.columns
            ],
            "hover": [
                line
                | {
                    "columns": {
                        n: self._column_index(v) for n, v in line["columns"].items()
                    }
                }
                for line in panel_layers.hover
            ],
            "kind": panel.x.kind,
            "label": panel.x.label,
            "domain": domain,
        }

    def _column_index(self, values: Array) -> int:
        """Store a column once, and return its index."""
        content = np.ascontiguousarray(values)
        data = (
            "\0".join(map(str, values)).encode()
            if values.dtype.kind in "UO"
            else content.tobytes()
        )
        key = hashlib.sha256(data).hexdigest() + str(values.dtype)
        if key not in self._columns:
            self._columns[key] = _encode_column(values)
        return list(self._columns).index(key)

    def _paint(self, colour: str) -> str:
        self._colours[colour] = None
        return f"var(--c{colour[1:]})"


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([_HERE, _HERE.parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_template(template: str, **values: Any) -> str:
    """Return the text of a jinja2 template, with all values escaped except HTML."""
    text: str = _templates().get_template(template).render(**values)
    return text


@cache
def _vega_source() -> str:
    """Return the JavaScript source of Vega; building it takes about two seconds."""
    (program,) = run_vl_convert(
        "javascript_bundle", [(("window.vegaEmbed = vegaEmbed;",), {})]
    )
    # `</script` would end the script element
    return program.decode().replace("</script", "<\\/script")


def _json(content: Any) -> str:
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, default=float)
    return text.replace("<", "\\u003c")


def _encode_column(values: Array) -> Json:
    """Return a column for JSON: texts, a start and step, or base64 numbers."""
    if values.dtype.kind in "UO":
        return {"list": [str(value) for value in values]}
    if values.dtype.kind == "M":
        values = milliseconds(values)
    n, numbers = values.size, values.astype(np.float64)
    if n > 2 and values.dtype.kind in "iu":  # times: even except at clock changes
        steps, step = np.diff(numbers), float(np.median(np.diff(numbers)))
        (uneven,) = np.nonzero(steps != step)
        if uneven.size <= _MAX_JUMPS:
            jumps = [[int(k) + 1, steps[k] - step] for k in uneven]
            return {"start": numbers[0], "step": step, "n": n, "jumps": jumps}
    if n and (numbers == numbers[0]).all():
        return {"start": numbers[0], "step": 0, "n": n, "jumps": []}
    finite = numbers[np.isfinite(numbers)]
    if values.dtype.kind in "iu" or n < _LONG or not finite.size:
        code = "f8" if values.dtype.kind in "iu" else "f4"
        return {code: _base64(numbers.astype(f"<{code}"))}
    low, step = float(finite.min()), float(np.ptp(finite)) / _LEVELS or 1.0
    codes = np.where(
        np.isfinite(numbers), np.nan_to_num((numbers - low) / step) - _LEVELS / 2, _GAP
    )
    return {"i2": _base64(np.rint(codes).astype("<i2")), "low": low, "step": step}


def _base64(values: Array) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
