"""Axes as plotly lays them out: plain dictionaries."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

from diploee.report.charts import Axis, log_ticks
from diploee.report.style import GRID, MUTED
from diploee.units import MS_PER_DAY

Json = dict[str, Any]
_HOVER_FORMATS = {
    "time of day": "%H:%M",
    "time of week": "%A %H:%M",
    "date": "%a %d %b %Y",
    "clock": "%H:%M:%S.%1f",
}
_HOURS_OR_DAYS = [
    {"dtickrange": [None, 43_200_000], "value": "%H:%M"},
    {"dtickrange": [43_200_000, None], "value": "%a"},
]


def plotly_axis(axis: Axis, *, grid: bool, horizontal: bool) -> Json:
    """Return the layout of one axis."""
    result: Json = {
        "title": {"text": html.escape(axis.label), "standoff": 8, "font": {"size": 12.5}},
        "showgrid": grid,
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": MUTED,
        "showline": horizontal,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": MUTED,
        "automargin": True,
        "separatethousands": True,
    }
    if axis.from_zero:
        result["rangemode"] = "tozero"
    if axis.kind == "log":
        return result | _log_axis(axis)
    if axis.range is not None:
        result["range"] = [_plain(value) for value in axis.range]
    if axis.kind == "category":
        result["type"] = "category"
    elif axis.kind != "linear":
        result["type"] = "date"
        result["hoverformat"] = _HOVER_FORMATS[axis.kind]
    if axis.kind == "time of day":
        result |= {"tickformat": "%H:%M", "nticks": 9}
    elif axis.kind == "time of week":
        result |= {"tickformatstops": _HOURS_OR_DAYS, "nticks": 9}
    elif axis.kind == "date" and axis.range is not None:  # a few days
        day = str(axis.range[0].astype("datetime64[D]"))
        result |= {"tick0": day, "dtick": MS_PER_DAY, "tickformat": "%-d %b %Y"}
    elif axis.kind == "clock":
        result |= {"tickformat": "%H:%M:%S", "nticks": 7}
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
