"""Charts of the grid metrics: ramps, swings, and the spectrum with its bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from diploee.drawing.charts import (
    INK,
    PALETTE,
    PEAK,
    Array,
    Axis,
    Bars,
    Chart,
    Line,
    Marks,
    Panel,
    colour,
    dash,
)
from diploee.errors import plural
from diploee.measures.spectrum import window_spectra
from diploee.metrics.changes import SIZES
from diploee.outputs import METRICS_FILE
from diploee.outputs.words import interval, listed
from diploee.reports.data import POWER, RunData
from diploee.reports.limit_charts import LimitLine
from diploee.tables import Float64Array
from diploee.units import MS_PER_S, W_PER_MW, PowerUnit

Entry = dict[str, Any]


@dataclass(frozen=True)
class GridView:
    """The grid metrics of one run."""

    run: RunData  # the run
    unit: PowerUnit  # unit of power that the page uses
    levels: Sequence[LimitLine] = ()  # what limits allow
    block: Entry = field(default_factory=dict)  # the `grid` block of its metrics

    @property
    def means(self) -> str:
        """Interval of the means that all values were taken of, in words."""
        return f"{interval(self.run.resolution_ms)} means"

    @property
    def per_mw(self) -> float:
        """Size of a megawatt in the page's unit."""
        return W_PER_MW / self.unit.watts

    def sized(self, values_mw: Iterable[object]) -> Array:
        """Return powers [MW] in the page's unit; what is no number as NaN."""
        return np.array(
            [v * self.per_mw if isinstance(v, int | float) else np.nan for v in values_mw],
            dtype=np.float32,
        )


def grid_view(run: RunData, unit: PowerUnit, levels: Sequence[LimitLine] = ()) -> GridView | None:
    """Return the grid metrics of a run; None for one of an older version, which has none."""
    block = run.metrics.get("grid")
    return GridView(run, unit, levels, block) if isinstance(block, dict) else None


def ramps_chart(run: RunData, unit: PowerUnit, levels: Sequence[LimitLine]) -> Chart | None:
    """Return the ramps up and down by their length; None for fewer than two lengths."""
    view = grid_view(run, unit, levels)
    entries = view.block["ramps"]["intervals"] if view else []
    if view is None or len(entries) < 2:
        return None
    x = np.array([_bounded(entry, "interval_s") for entry in entries])
    lengths_s = [entry["interval_s"] for entry in entries]
    top = max(entry[side]["max_mw"] for entry in entries for side in ("up", "down"))
    limits = {
        side: _limits(view, ("ramps", f"ramps {side}"), x, lengths_s, top)
        for side in ("up", "down")
    }
    drawn = [float(np.nanmax(line.y)) for lines, _ in limits.values() for line in lines]
    y_axis = Axis(f"Ramp [{unit.power}]", range=(0, max(top * view.per_mw, *drawn, 0) * 1.05 or 1))
    panels = tuple(
        Panel(
            Axis("Length of the ramp", "category"),
            y_axis,
            (*_sizes(view, x, [entry[side] for entry in entries]), *limits[side][0]),
            f"Ramps {side}",
        )
        for side in ("up", "down")
    )
    words = dict.fromkeys(text for _, text in limits.values())
    bound = any(entry["lower_bound"] for entry in entries)
    at_least = " At least: a lower bound, as profiles, or weather, are averages over a longer time."
    return Chart(
        "ramps",
        "Ramps by their length",
        "Difference of the means of two adjacent intervals of the length given, at every start of "
        f"an interval of the run; of {view.means}.{at_least if bound else ''}{''.join(words)}",
        panels,
    )


def _sizes(view: GridView, x: Array, entries: Sequence[Entry]) -> list[Line]:
    """Return the largest and the percentiles as lines."""
    return [
        Line(
            x, view.sized(entry[f"{key}_mw"] for entry in entries), name, colour(k),
            view.unit.power, significant=True, dash=dash(7 * k), markers=True,
        )
        for k, (key, name) in enumerate(SIZES.items())
    ]  # fmt: skip


def swings_chart(run: RunData, unit: PowerUnit, levels: Sequence[LimitLine]) -> Chart | None:
    """Return the rolling ranges by window and the counted swings by size; None without both."""
    view = grid_view(run, unit, levels)
    if view is None:
        return None
    windows, panels, words = view.block["rolling_range"]["windows"], [], ""
    if windows:
        x = np.array([_bounded(entry, "window_s") for entry in windows])
        lengths_s = [entry["window_s"] for entry in windows]
        lines, words = _limits(view, ("swings",), x, lengths_s, max(e["max_mw"] for e in windows))
        y_axis = Axis(f"Rolling range [{unit.power}]", from_zero=True)
        axis, layers = Axis("Length of the window", "category"), (*_sizes(view, x, windows), *lines)
        panels.append(Panel(axis, y_axis, layers, "Largest less smallest value within a window"))
        words = f"Rolling range: at every start of an interval of the run.{words} "
    flow = view.block["rainflow"]
    if flow["swings"]:
        names = np.array([_class_name(view, entry) for entry in flow["classes"]])
        counts = np.array([e["swings"] or np.nan for e in flow["classes"]], dtype=np.float32)
        texts = tuple("" if np.isnan(n) else f"{n:,.0f}" for n in counts)
        bars = Bars(names, counts, "closed swings", PALETTE[2], "", 0, texts=texts)
        y_axis = Axis("Closed swings in the run", "log", (0.5, float(np.nanmax(counts)) * 4.0))
        x_axis = Axis(f"Size of the swing [{unit.power}]", "category")
        panels.append(Panel(x_axis, y_axis, (bars,), "Rainflow-counted swings"))
        threshold = flow["threshold_mw"] * view.per_mw
        words += (
            "Rainflow-counted: swings that rise and fall back (or fall and rise back), closed by "
            f"the four-point rule, of {threshold:.3g} {unit.power} or more. "
        )
    if not panels:
        return None
    return Chart("swings", "Swings", f"{words}Of {view.means}.", tuple(panels))


FAR = 3
"""A limit above this many times the largest value is named, as its line would flatten the rest."""


def _limits(
    view: GridView, kinds: Sequence[str], x: Array, lengths_s: Sequence[float], top_mw: float
) -> tuple[list[Line], str]:
    """Return lines at what limits allow, up to their own time, and which are not drawn."""
    lines: list[Line] = []
    left: list[str] = []
    for level in (level for level in view.levels if level.kind in kinds):
        within = np.array(lengths_s) * MS_PER_S <= level.length_ms
        if level.size_mw > FAR * top_mw or not within.any():
            left.append(level.name)
            continue
        y = np.where(within, level.size_mw * view.per_mw, np.nan).astype(np.float32)
        lines.append(
            Line(
                x, y, f"limit: {level.name}", INK, view.unit.power, 3, dash=dash(7 * len(lines)),
                markers=True, level=True,
            )
        )  # fmt: skip
    words = " Lines up to their own time: limits." if lines else ""
    return lines, words + (f" Limits beyond what is drawn: {listed(left)}." if left else "")


def _class_name(view: GridView, entry: Entry) -> str:
    low, high = view.sized([entry["from_mw"], entry["to_mw"]])
    return f"from {low:.3g}" if np.isnan(high) else f"{low:.3g}\N{EN DASH}{high:.3g}"


def _bounded(entry: Entry, key: str) -> str:
    length = interval(round(entry[key] * MS_PER_S))
    return f"{length}{' (at least)' if entry['lower_bound'] else ''}"


CLOSE = 1.8
"""Lines with a lower ratio of their frequencies have their texts at different heights."""


def spectrum_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return the mean spectrum and each band in its worst window; None without a spectrum."""
    view = grid_view(run, unit)
    if view is None:
        return None
    block = view.block["spectrum"]
    density = _density(view)
    if not block["bands"] or not (density > 0).any():
        return None
    frequency_hz = np.arange(1, density.size + 1) * block["frequency_resolution_hz"]
    worst = [
        layer for k, band in enumerate(block["bands"]) for layer in _worst_window(view, band, k)
    ]
    top = max(float(y.max()) for y in (density, *(layer.y for layer in worst)))
    low = float(density[density > 0].min()) / 10
    mean = Line(
        frequency_hz, density.astype(np.float32), "mean of all windows", PEAK, _unit(view),
        significant=True, width=2.4,
    )  # fmt: skip
    lines = _pins(view, frequency_hz, density, top * 2)
    axis = Axis("Frequency [Hz]", "log", (frequency_hz[0] * 0.9, frequency_hz[-1] * 1.1))
    y_axis = Axis(f"Power spectral density [{_unit(view)}]", "log", (low, top * 80))
    return Chart(
        "spectrum",
        "Spectrum of the load",
        f"Power spectral density of 10-minute windows of {view.means}. Grey: mean over "
        f"all {plural(block['windows'], 'window')}{_pin_words(bool(lines))}. Coloured: each band "
        "in the window where that band was worst (the table says when); a ring marks its strongest "
        "bin. A single window scatters about its level by much more than the mean. Both scales are "
        "logarithmic.",
        (Panel(axis, y_axis, (*worst, mean, *lines), wide=True),),
    )


def _density(view: GridView) -> Array:
    """Return the mean density by frequency in the page's unit, squared, over Hz."""
    psd = view.block["spectrum"].get("mean_psd_mw2_per_hz") or ()
    return np.array(psd, dtype=np.float64) * view.per_mw**2


def _unit(view: GridView) -> str:
    return f"{view.unit.power}²/Hz"


def _worst_window(view: GridView, band: Entry, k: int) -> list[Line | Marks]:
    """Return a band's part of the spectrum of its worst window, computed from the series."""
    frequency_hz, psd = worst_window_psd(view, band)
    if not psd.size:
        return []
    y = psd * view.per_mw**2
    top = slice(int(np.argmax(y)), int(np.argmax(y)) + 1)
    flagged = " (flagged)" if band["flagged"] else ""
    name = f"worst of {band['low_hz']:g} to {band['high_hz']:g} Hz{flagged}"
    return [
        Line(
            frequency_hz, y.astype(np.float32), name, colour(k),
            _unit(view), significant=True, width=1.3,
        ),
        Marks(
            frequency_hz[top], y[top], ("",), "strongest bin", colour(k), _unit(view),
            hollow=True, legend=False,
        ),
    ]  # fmt: skip


def worst_window_psd(view: GridView, band: Entry) -> tuple[Array, Array]:
    """Return the bins [Hz] of a band and the density there [MW²/Hz] in the band's worst window.

    Nothing is returned where the series does not hold the window.
    """
    run, block = view.run, view.block["spectrum"]
    n_values = round(block["window_s"] * MS_PER_S) // run.resolution_ms
    power_mw = power_from(run, band["worst_window"], n_values) / W_PER_MW
    if power_mw.size < n_values:
        return np.empty(0), np.empty(0)
    frequency_hz, psd = window_spectra((power_mw - power_mw[0])[None], run.resolution_ms)
    slack = block["frequency_resolution_hz"] * 1e-6
    low, high = np.searchsorted(frequency_hz, [band["low_hz"] - slack, band["high_hz"] - slack])
    return frequency_hz[low:high], psd[0, low:high]


def _pins(view: GridView, frequency_hz: Array, density: Array, height: float) -> list[Line | Marks]:
    """Return the lines of the mean as pins with their periods, those close at two heights."""
    lines = sorted(view.block["spectrum"]["lines"], key=lambda line: line["frequency_hz"])
    if not lines:
        return []
    x = np.array([line["frequency_hz"] for line in lines])
    y = np.full(x.size, height)
    for k in range(1, x.size):
        if x[k] < CLOSE * x[k - 1] and y[k - 1] == height:
            y[k] = height * 6
    at = np.clip(np.rint(x / frequency_hz[0]).astype(int) - 1, 0, density.size - 1)
    nothing = np.full(x.size, np.nan)
    stems_x, stems_y = (
        np.stack(corners, axis=1).ravel().astype(np.float32)
        for corners in ((x, x, nothing), (density[at], y, nothing))
    )
    texts = tuple(f"{line['period_s']:.3g} s" for line in lines)
    return [
        Line(stems_x, stems_y, "", INK, _unit(view), dash="dot", width=1.0, legend=False,
             significant=True),
        Marks(x, y, texts, "lines of the mean", INK, _unit(view)),
    ]  # fmt: skip


def _pin_words(drawn: bool) -> str:
    return ", pins: its strongest lines with their periods" if drawn else ""


def power_from(run: RunData, begin: str, n_values: int) -> Float64Array:
    """Return consecutive values of the run's own series, read from their row groups alone [W]."""
    series = run.run.series()
    where = f"{run.run.folder / METRICS_FILE}: grid.spectrum"
    first = series.row_at(datetime.fromisoformat(begin), where)
    rows = (first, min(first + n_values, series.n_rows))
    return series.read([POWER], rows).columns[POWER]
