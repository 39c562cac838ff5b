"""Charts as PNG or SVG files, and the one door to matplotlib, which opens with the first of them.

Plotly's own export needs a browser at run time; matplotlib draws the same charts wherever diploee
is installed.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diploee.drawing.charts import (
    GRID,
    INK,
    MUTED,
    SEQUENTIAL,
    Axis,
    Band,
    Bars,
    Carpet,
    Chart,
    Line,
    Marks,
    Panel,
    log_ticks,
)
from diploee.errors import OutputError
from diploee.files import Writing, whole_file, writing

Kind = Literal["png", "svg"]

DPI = 150
MAX_CHARACTERS = 62
"""Longer names of categories, all together, are written at an angle."""

_SETTINGS: Any = {"font.size": 9, "svg.hashsalt": "diploee", "text.parse_math": False}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}


def write_pictures(
    charts: Mapping[str, Chart],
    folder: Path,
    kind: Kind = "png",
    force: bool = False,
    joins: Writing | None = None,
    option: str = "--plots",
) -> list[Path]:
    """Write one picture of each chart into a folder, all together; equal charts give equal files.

    Parameters
    ----------
    charts : mapping of str to Chart
        What to draw, by the names of the files without ending.
    folder : pathlib.Path
        Where; made if it does not exist.
    kind : {"png", "svg"}
        Format.
    force : bool
        Replace files of these names.
    joins : Writing, optional
        Results that they are to appear with.
    option : str
        The option that names the folder, for errors.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    InputError
        If a file of these names stands there.
    OutputError
        If one can't be written.
    """
    places = [folder / f"{name}.{kind}" for name in charts]
    with writing(force, joins=joins) as files:
        paths = [files.file(place, option=option) for place in places]
        for path, chart in zip(paths, charts.values(), strict=True):
            _save(chart, path, kind)
    return places


def write_picture(chart: Chart, place: Path, force: bool = False) -> None:
    """Write a chart to a PNG file, whole or not at all."""
    with whole_file(place, force) as path:
        _save(chart, path, "png")


@dataclass(frozen=True)
class Picture:
    """A chart that a notebook draws."""

    chart: Chart  # its panels hold the arrays that are drawn

    def save(self, place: Path | str, force: bool = False) -> None:
        """Write it to a PNG file."""
        write_picture(self.chart, Path(place), force)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        _save(self.chart, file, "png")
        return file.getvalue()


def _save(chart: Chart, path: Path | io.BytesIO, kind: Kind) -> None:
    metadata: Any = {"Date": None} if kind == "svg" else None
    with _matplotlib():
        _draw_chart(chart).savefig(path, format=kind, dpi=DPI, metadata=metadata)


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Import matplotlib and set it up, without its words about folders and fonts.

    Without a home that it can write it takes a temporary folder, private and removed at the end.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        import matplotlib.font_manager
    except OSError as error:
        raise OutputError(
            "no folder for matplotlib's settings can be written; set MPLCONFIGDIR to one that can"
        ) from error
    finally:
        log.setLevel(level)
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names in any script
        yield


def _draw_chart(chart: Chart) -> Any:
    """Return a chart as a matplotlib figure."""
    from matplotlib.figure import Figure

    n_columns = chart.n_columns
    n_rows = -(-len(chart.panels) // n_columns)
    figure = Figure(figsize=(10, 0.5 + 3.3 * n_rows), layout="constrained")
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
            names |= dict(zip(labels, handles, strict=True)) | names
    if names:
        n_columns = max(1, min(len(names), 6, 110 // (max(map(len, names)) + 6)))
        figure.legend(
            names.values(), names.keys(), loc="outside lower center", ncols=n_columns,
            fontsize=8, frameon=False, handlelength=1.8, columnspacing=1.4,
        )  # fmt: skip


def _draw_panel(axes: Any, panel: Panel) -> None:
    bars = [layer for layer in panel.layers if isinstance(layer, Bars)]
    for layer in panel.layers:
        label = getattr(layer, "name", None) if getattr(layer, "legend", True) else None
        match layer:
            case Line():
                _draw_line(axes, layer, label)
            case Band():
                axes.fill_between(
                    layer.x, layer.low, layer.high, step="post" if layer.steps else None,
                    color=layer.colour, alpha=layer.opacity, linewidth=0, label=label,
                )  # fmt: skip
            case Bars():
                _draw_bars(axes, layer, bars.index(layer), len(bars))
            case Marks():
                _draw_marks(axes, layer, label)
            case Carpet():
                _draw_carpet(axes, layer)
    axes.set_title(panel.title, fontsize=9, color=MUTED, loc="left")
    axes.set_axisbelow(True)
    if not any(isinstance(layer, Carpet) for layer in panel.layers):
        axes.grid(color=GRID, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    _style_axis(axes, "x", panel.x, every_h=6 if panel.small else 3)
    _style_axis(axes, "y", panel.y)
    if panel.x.kind == "category" and _n_characters(panel) > MAX_CHARACTERS:
        axes.tick_params(axis="x", rotation=40)
        for text in axes.xaxis.get_ticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def _n_characters(panel: Panel) -> int:
    """Return how many characters the names' widest lines take, with two between them."""
    names = {str(name) for layer in panel.layers for name in layer.x}
    return sum(max(map(len, name.split("\n"))) + 2 for name in names)


def _draw_line(axes: Any, line: Line, label: str | None) -> None:
    style = {"color": line.colour, "label": label}
    if line.limits is not None:
        low, high = line.limits
        spread = np.maximum([line.y - low, high - line.y], 0)
        axes.errorbar(line.x, line.y, spread, fmt="none", ecolor=line.colour, capsize=2)
    if line.markers_only:
        axes.plot(line.x, line.y, "o", markersize=3, alpha=0.45 if line.limits is None else 1,
                  **style)  # fmt: skip
        return
    axes.plot(
        line.x, line.y, _DASHES[line.dash], linewidth=line.width * 0.75,
        drawstyle="steps-post" if line.steps else "default",
        marker="_" if line.is_dash else "o" if line.markers else "",
        markersize=20 if line.is_dash else 3.5, **style,
    )  # fmt: skip


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
        if text:
            axes.annotate(
                text, (x, y), xytext=(0, 4), textcoords="offset points",
                ha="center", va="bottom", fontsize=7.5, color=marks.colour,
            )  # fmt: skip


def _draw_carpet(axes: Any, carpet: Carpet) -> None:
    x, y, z = carpet.x, carpet.y, carpet.z
    if x.dtype.kind == "U":
        axes.set_xticks(np.arange(x.size), x)
        x = np.arange(x.size)
        for row, column in zip(*np.nonzero(np.isfinite(z)), strict=True):
            dark = z[row, column] < (carpet.low + carpet.high) / 2
            text = f"{float(f'{z[row, column]:.3g}'):,.10g}"
            shade = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=shade)
    elif x.size == 1:  # a column alone has no width
        x, z = x + np.array([-6, 6], dtype="timedelta64[h]"), np.repeat(z, 2, axis=1)
    if y.dtype.kind == "U":
        axes.set_yticks(np.arange(y.size), y)
        y = np.arange(y.size)
    mesh = axes.pcolormesh(
        x, y, z,
        cmap=SEQUENTIAL, vmin=carpet.low, vmax=carpet.high, shading="nearest", rasterized=True,
    )  # fmt: skip
    colour_bar = axes.figure.colorbar(mesh, ax=axes, pad=0.01, aspect=25)
    colour_bar.set_label(carpet.colour_label)
    colour_bar.outline.set_visible(False)


def _style_axis(axes: Any, name: Literal["x", "y"], axis: Axis, every_h: int = 3) -> None:
    part = axes.xaxis if name == "x" else axes.yaxis
    part.set_label_text(axis.label)
    axes.tick_params(axis=name, color=MUTED, labelcolor=INK)
    limits = axes.set_xlim if name == "x" else axes.set_ylim
    if axis.kind == "log":
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
        low, high = axis.range or (1.0, 10.0)
        part.set_ticks(*log_ticks(low, high))
        part.set_ticks([], minor=True)
    if axis.range is not None:
        limits(*axis.range)
    elif axis.from_zero:
        limits(min(0.0, (part.get_data_interval())[0]))
    _set_times(part, axis, every_h)


def _set_times(part: Any, axis: Axis, every_h: int) -> None:
    """Set the ticks of an axis of times."""
    import matplotlib.dates

    dates: Any = matplotlib.dates
    clock, locator = "", None
    if axis.kind == "time of day":
        clock, locator = "%H:%M", dates.HourLocator(byhour=range(0, 24, every_h))
    elif axis.kind == "time of week":
        clock, locator = "%a", dates.DayLocator()
    elif axis.kind == "clock":
        clock, locator = "%H:%M:%S", dates.AutoDateLocator(minticks=4, maxticks=7)
    elif axis.kind == "date" and axis.range is not None:
        clock, locator = "%d %b %Y", dates.DayLocator()
    elif axis.kind == "date":
        part.set_major_formatter(dates.ConciseDateFormatter(part.get_major_locator()))
    if locator is not None:
        part.set_major_locator(locator)
        part.set_major_formatter(dates.DateFormatter(clock))
