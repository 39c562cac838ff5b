"""Pictures of the figures as PNG or SVG, drawn by matplotlib.

Plotly's own export needs a browser at run time; matplotlib is here already and draws the same
charts, so that `--png` and `--svg` work wherever diploee is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from diploee.errors import OutputError
from diploee.files import whole_file
from diploee.report.charts import (
    Axis,
    Band,
    Bars,
    Carpet,
    Chart,
    Layer,
    Line,
    Marks,
    Panel,
    Report,
    log_ticks,
)
from diploee.report.style import GRID, INK, MUTED, SEQUENTIAL

DPI = 150
MAX_CHARACTERS = 62
"""Longer names of categories, all together, are written at an angle."""

_SETTINGS: Any = {"font.size": 9, "svg.hashsalt": "diploee", "text.parse_math": False}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}


def write_pictures(report: Report, folder: Path, kind: Literal["png", "svg"]) -> list[Path]:
    """Write one picture of each chart, named by its place and its id.

    Parameters
    ----------
    report : Report
        What to draw.
    folder : pathlib.Path
        Where; made if it does not exist. Pictures of the same name are replaced.
    kind : {"png", "svg"}
        Format.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    OutputError
        If one can't be written.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; --{kind} names a folder")
    from matplotlib import rc_context

    metadata = {"Date": None} if kind == "svg" else None  # equal runs give equal files
    written = []
    for index, chart in enumerate(report.charts, start=1):
        place = folder / f"{index:02d}-{chart.id}.{kind}"
        figure = draw_chart(chart)
        with whole_file(place) as partial, rc_context(_SETTINGS):
            figure.savefig(partial, format=kind, dpi=DPI, metadata=metadata)
        written.append(place)
    return written


def draw_chart(chart: Chart) -> Any:
    """Return a chart as a matplotlib figure."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    n_columns = 1 if len(chart.panels) == 1 or chart.panels[0].wide else 2
    n_rows = -(-len(chart.panels) // n_columns)
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(10, 0.5 + 3.3 * n_rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        figure.suptitle(chart.title, fontsize=12, x=0.01, ha="left", color=INK, weight="bold")
        for axes, panel in zip(grid, chart.panels, strict=False):
            _draw_panel(axes, panel)
        for axes in grid[len(chart.panels) :]:
            axes.set_visible(False)
        _draw_legend(figure, grid)
    return figure


def _draw_legend(figure: Any, grid: Any) -> None:
    """Draw one legend below all panels: the names of all of them, each once."""
    names: dict[str, Any] = {}
    for axes in grid:
        handles, labels = axes.get_legend_handles_labels()
        if len(labels) > 1:
            names = dict(zip(labels, handles, strict=True)) | names
    if names:
        n_columns = max(1, min(len(names), 6, 110 // (max(map(len, names)) + 6)))
        figure.legend(
            names.values(), names.keys(), loc="outside lower center", ncols=n_columns,
            fontsize=8, frameon=False, handlelength=1.8, columnspacing=1.4,
        )  # fmt: skip


def _draw_panel(axes: Any, panel: Panel) -> None:
    bars = [layer for layer in panel.layers if isinstance(layer, Bars)]
    for layer in panel.layers:
        index = bars.index(layer) if isinstance(layer, Bars) else 0
        _draw_layer(axes, layer, index, len(bars))
    axes.set_title(panel.title, fontsize=9, color=MUTED, loc="left")
    axes.set_axisbelow(True)
    if not any(isinstance(layer, Carpet) for layer in panel.layers):
        axes.grid(color=GRID, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    _style_axis(axes, "x", panel.x)
    _style_axis(axes, "y", panel.y)
    if panel.x.kind == "category" and _n_characters(panel) > MAX_CHARACTERS:
        axes.tick_params(axis="x", rotation=40)
        for text in axes.xaxis.get_ticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def _n_characters(panel: Panel) -> int:
    """Return how many characters the names along the axis take, with two between them."""
    names = {str(name) for layer in panel.layers for name in layer.x}
    return sum(len(name) + 2 for name in names)


def _draw_layer(axes: Any, layer: Layer, index: int, n_bars: int) -> None:
    label = layer.name if not isinstance(layer, Carpet) and getattr(layer, "legend", True) else None
    if isinstance(layer, Line):
        style = {"color": layer.colour, "label": label}
        if layer.markers_only:
            axes.plot(layer.x, layer.y, "o", markersize=3, alpha=0.45, **style)
            return
        axes.plot(
            layer.x, layer.y, _DASHES[layer.dash], linewidth=layer.width * 0.75,
            drawstyle="steps-post" if layer.steps else "default",
            marker="o" if layer.markers else "", markersize=3.5, **style,
        )  # fmt: skip
    elif isinstance(layer, Band):
        axes.fill_between(
            layer.x, layer.low, layer.high,
            color=layer.colour, alpha=layer.opacity, linewidth=0, label=label,
        )  # fmt: skip
    elif isinstance(layer, Bars):
        _draw_bars(axes, layer, index, n_bars)
    elif isinstance(layer, Marks):
        _draw_marks(axes, layer, label)
    else:
        _draw_carpet(axes, layer)


def _draw_bars(axes: Any, bars: Bars, index: int, n_bars: int) -> None:
    """Draw bars; those of several layers stand side by side."""
    if bars.touching:
        width = float(np.diff(bars.x[:2])[0]) if bars.x.size > 1 else 1.0
        axes.bar(bars.x, bars.y, width, color=bars.colour, label=bars.name)
        return
    width = 0.75 / n_bars
    at = np.arange(bars.x.size) + (index - (n_bars - 1) / 2) * width
    drawn = axes.bar(at, bars.y, width, color=bars.colour, label=bars.name)
    axes.bar_label(drawn, bars.texts or [""] * bars.x.size, fontsize=8, color=INK, padding=2)
    axes.set_xticks(np.arange(bars.x.size), bars.x)
    axes.set_xlim(-0.6, bars.x.size - 0.4)  # bars without a height have their place too


def _draw_marks(axes: Any, marks: Marks, label: str | None) -> None:
    face = "none" if marks.hollow else marks.colour
    axes.plot(
        marks.x, marks.y, "o", markersize=4.5, color=marks.colour, markerfacecolor=face, label=label
    )
    for x, y, text in zip(marks.x, marks.y, marks.texts, strict=True):
        if not text:
            continue
        axes.annotate(
            text, (x, y), xytext=(0, 4), textcoords="offset points",
            ha="center", va="bottom", fontsize=7.5, color=marks.colour,
        )  # fmt: skip


def _draw_carpet(axes: Any, carpet: Carpet) -> None:
    x, z = carpet.x, carpet.z
    if x.size == 1:  # a column alone has no width
        x, z = x + np.array([-6, 6], dtype="timedelta64[h]"), np.repeat(z, 2, axis=1)
    mesh = axes.pcolormesh(
        x, carpet.y, z,
        cmap=SEQUENTIAL, vmin=carpet.low, vmax=carpet.high, shading="nearest", rasterized=True,
    )  # fmt: skip
    colour_bar = axes.figure.colorbar(mesh, ax=axes, pad=0.01, aspect=25)
    colour_bar.set_label(carpet.colour_label)
    colour_bar.outline.set_visible(False)


def _style_axis(axes: Any, name: Literal["x", "y"], axis: Axis) -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates
    part = axes.xaxis if name == "x" else axes.yaxis
    part.set_label_text(axis.label)
    axes.tick_params(axis=name, color=MUTED, labelcolor=INK)
    limits = axes.set_xlim if name == "x" else axes.set_ylim
    if axis.kind == "log":
        _set_log(axes, name, axis)
    if axis.range is not None:
        limits(*axis.range)
    elif axis.from_zero:
        limits(0)
    if axis.kind == "time of day":
        part.set_major_locator(dates.HourLocator(byhour=range(0, 24, 3)))
        part.set_major_formatter(dates.DateFormatter("%H:%M"))
    elif axis.kind == "time of week":
        part.set_major_locator(dates.DayLocator())
        part.set_major_formatter(dates.DateFormatter("%a"))
    elif axis.kind == "clock":
        part.set_major_locator(dates.AutoDateLocator(minticks=4, maxticks=7))
        part.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    elif axis.kind == "date" and axis.range is not None:
        part.set_major_locator(dates.DayLocator())
        part.set_major_formatter(dates.DateFormatter("%d %b %Y"))
    elif axis.kind == "date":
        part.set_major_formatter(dates.ConciseDateFormatter(part.get_major_locator()))


def _set_log(axes: Any, name: Literal["x", "y"], axis: Axis) -> None:
    low, high = axis.range or (1.0, 10.0)
    values, texts = log_ticks(low, high)
    if name == "x":
        axes.set_xscale("log")
        axes.set_xticks(values, texts)
        axes.set_xticks([], minor=True)
    else:
        axes.set_yscale("log")
        axes.set_yticks(values, texts)
        axes.set_yticks([], minor=True)
