"""Charts of grid metrics with limits: ramps, swings, spectrum and bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from diploee.base.errors import plural
from diploee.base.measures.spectrum import window_spectra
from diploee.base.units import MS_PER_S, W_PER_MW, PowerUnit
from diploee.grid.limits.check import NotAssessable
from diploee.grid.limits.file import load_limits
from diploee.grid.limits.report import run_context
from diploee.metrics.load_changes import SIZES
from diploee.reports.data import POWER, RunData
from diploee.reports.drawing.charts import (
    INK,
    PALETTE,
    PEAK,
    Array,
    Axis,
    Bars,
    Chart,
    Line,
    Panel,
    colour,
    dash,
)
from diploee.runs.folder import METRICS_FILE
from diploee.runs.formatting import interval, listed

POWER_LEVEL = "power"
"""Kind of a limit on power itself."""

Entry = dict[str, Any]

FAR = 3
"""Multiple of the largest value above which a limit is named instead of drawn."""
CLOSE = 2.4
"""Frequency ratio of spectral lines below which their labels are staggered. On 330 px
for 3.5 decades, a label is as wide as a ratio of 2.2."""


@dataclass(frozen=True)
class LimitLine:
    """Line of a limit in a chart; its `kind` is ramps, swings or `POWER_LEVEL`."""

    kind: str
    name: str
    length_ms: int
    size_mw: float


def limit_lines(run: RunData, names: Sequence[str]) -> list[LimitLine]:
    """Return the lines of limits on power, ramps and swings."""
    context, result = run_context(run.run), []
    for name in names:
        limits = load_limits(name)
        limits_name = limits.name or name
        lines_of_specs = (
            line
            for _, spec in limits.each()
            for line in spec.chart_lines(context.clock.step_ms)
        )
        for kind, amount, factor, length_ms in lines_of_specs:
            with suppress(NotAssessable):  # the run lacks a reference of the limit
                size_mw = amount.resolve(context)[0] * factor
                relation = "over" if kind == POWER_LEVEL else "within"
                name = (
                    f"{limits_name}, {size_mw:.4g} MW {relation} {interval(length_ms)}"
                )
                result.append(LimitLine(kind, name, length_ms, size_mw))
    return result


def ramps_chart(
    run: RunData, unit: PowerUnit, levels: Sequence[LimitLine]
) -> Chart | None:
    """Return a chart of ramps by length; None for fewer than two lengths."""
    entries = (run.metrics.get("grid") or {"ramps": {"intervals": []}})["ramps"][
        "intervals"
    ]
    if len(entries) < 2:
        return None
    panels, notes, highest = [], dict[str, None](), 0.0
    top = max(entry[side]["max_mw"] for entry in entries for side in ("up", "down"))
    for side in ("up", "down"):
        kinds, sizes = ("ramps", f"ramps {side}"), [entry[side] for entry in entries]
        layers, words = _size_lines(
            unit, entries, sizes, "interval_s", levels, kinds, top
        )
        notes[words] = None
        x_axis, y_axis = (
            Axis("Length of the ramp", "category"),
            Axis(f"Ramp [{unit.power}]"),
        )
        panels.append(Panel(x_axis, y_axis, layers, f"Ramps {side}"))
        highest = max(highest, *(float(np.nanmax(line.y)) for line in layers))
    axis = Axis(f"Ramp [{unit.power}]", range=(0, highest * 1.05 or 1))
    bound = any(entry["lower_bound"] for entry in entries)
    at_least = (
        " At least: a lower bound, as profiles, or weather, are averages over a "
        "longer time."
    )
    return Chart(
        "ramps",
        "Ramps by their length",
        (
            "Difference of the means of two adjacent intervals of the length given, at "
            f"every start of an interval of the run; of {interval(run.resolution_ms)} "
            f"means.{at_least if bound else ''}{''.join(notes)}"
        ),
        tuple(replace(panel, y=axis) for panel in panels),
    )


def swings_chart(
    run: RunData, unit: PowerUnit, levels: Sequence[LimitLine]
) -> Chart | None:
    """Return a chart of swings: rolling ranges by window, and cycles by size.

    Return None if the run has neither.
    """
    block = run.metrics.get("grid")
    if not block:
        return None
    windows, flow, panels, caption = (
        block["rolling_range"]["windows"],
        block["rainflow"],
        [],
        "",
    )
    per_mw = W_PER_MW / unit.watts
    if windows:
        top = max(entry["max_mw"] for entry in windows)
        layers, note = _size_lines(
            unit, windows, windows, "window_s", levels, ("swings",), top
        )
        y_axis, title = (
            Axis(f"Rolling range [{unit.power}]", from_zero=True),
            "Rolling range",
        )
        panels.append(
            Panel(Axis("Length of the window", "category"), y_axis, layers, title)
        )
        caption = (
            "Rolling range: largest less smallest value within a window, at every "
            f"start of an interval of the run.{note} "
        )
    if flow["swings"]:
        sizes = [(e["from_mw"] * per_mw, e["to_mw"]) for e in flow["classes"]]
        names = [
            f"{low:.3g}\N{EN DASH}{high * per_mw:.3g}" if high else f"from {low:.3g}"
            for low, high in sizes
        ]
        counts = np.array([e["swings"] or np.nan for e in flow["classes"]])
        texts = tuple("" if np.isnan(n) else f"{n:,.0f}" for n in counts)
        bars = Bars(
            np.array(names), counts, "closed swings", PALETTE[2], "", 0, texts=texts
        )
        y_axis = Axis(
            "Closed swings in the run", "log", (0.5, float(np.nanmax(counts)) * 4.0)
        )
        x_axis = Axis(f"Size of the swing [{unit.power}]", "category")
        panels.append(Panel(x_axis, y_axis, (bars,), "Rainflow-counted swings"))
        caption += (
            "Rainflow-counted: swings that rise and fall back (or fall and rise "
            "back), closed by the four-point rule, of "
            f"{flow['threshold_mw'] * per_mw:.3g} {unit.power} or more. "
        )
    caption += f"Of {interval(run.resolution_ms)} means."
    return Chart("swings", "Swings", caption, tuple(panels)) if panels else None


def _size_lines(
    unit: PowerUnit,
    entries: Sequence[Entry],
    sizes: Sequence[Entry],
    key: str,
    levels: Sequence[LimitLine],
    kinds: Sequence[str],
    top_mw: float,
) -> tuple[tuple[Line, ...], str]:
    """Return lines of maxima and percentiles by length, with limits, and a note."""
    per_mw, lengths_s = (
        W_PER_MW / unit.watts,
        np.array([entry[key] for entry in entries]),
    )
    x = np.array(
        [
            (
                f"{interval(round(entry[key] * MS_PER_S))}"
                f"{' (at least)' if entry['lower_bound'] else ''}"
            )
            for entry in entries
        ]
    )
    lines: list[Line] = []
    for k, (size, name) in enumerate(SIZES.items()):
        result = (
            np.array([entry[f"{size}_mw"] for entry in sizes], dtype=np.float64)
            * per_mw
        )
        lines.append(
            Line(
                x,
                result,
                name,
                colour(k),
                unit.power,
                significant=True,
                dash=dash(7 * k),
                markers=True,
            )
        )
    limit_layers, omitted = list[Line](), list[str]()
    for level in (level for level in levels if level.kind in kinds):
        within = lengths_s * MS_PER_S <= level.length_ms
        if level.size_mw > FAR * top_mw or not within.any():
            omitted.append(level.name)
            continue
        y = np.where(within, level.size_mw * per_mw, np.nan)
        limit_layers.append(
            Line(
                x,
                y,
                f"limit: {level.name}",
                INK,
                unit.power,
                3,
                dash=dash(7 * len(limit_layers)),
                markers=True,
            )
        )
    words = (
        " A limit is drawn up to the length that it is over." if limit_layers else ""
    )
    words += f" Limits beyond what is drawn: {listed(omitted)}." if omitted else ""
    return (*lines, *limit_layers), words


def spectrum_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return a chart of the mean spectrum, and of each band's worst window.

    Return None if the run has no spectrum.
    """
    block = (run.metrics.get("grid") or {}).get("spectrum") or {}
    per_mw2, psd_unit = (W_PER_MW / unit.watts) ** 2, f"{unit.power}²/Hz"
    density = (
        np.array(block.get("mean_psd_mw2_per_hz") or (), dtype=np.float64) * per_mw2
    )
    if not block.get("bands") or not (density > 0).any():
        return None
    frequency_hz = np.arange(1, density.size + 1) * block["frequency_resolution_hz"]
    layers: list[Line] = []
    top = float(density.max())
    for k, band in enumerate(block["bands"]):
        x, psd = worst_window_psd(run, band)
        if psd.size:
            y, at = psd * per_mw2, slice(int(np.argmax(psd)), int(np.argmax(psd)) + 1)
            top = max(top, float(y.max()))
            name = f"worst of {band['low_hz']:g} to {band['high_hz']:g} Hz"
            name += " (flagged)" if band["flagged"] else ""
            layers.append(
                Line(
                    x,
                    y,
                    name,
                    colour(k),
                    psd_unit,
                    significant=True,
                    width=1.3,
                )
            )
            layers.append(
                Line(
                    x[at],
                    y[at],
                    "strongest bin",
                    colour(k),
                    psd_unit,
                    significant=True,
                    markers_only=True,
                    legend=False,
                )
            )
    layers.append(
        Line(
            frequency_hz,
            density,
            "mean of all windows",
            PEAK,
            psd_unit,
            significant=True,
            width=2.4,
        )
    )
    pins = list(
        _spectral_line_pins(block["lines"], frequency_hz, density, top * 2, psd_unit)
    )
    axis = Axis(
        "Frequency [Hz]", "log", (frequency_hz[0] * 0.9, frequency_hz[-1] * 1.1)
    )
    low = float(density[density > 0].min()) / 10
    high = max((float(np.nanmax(pin.y)) for pin in pins), default=top * 2) * 6
    y_axis = Axis(f"Power spectral density [{psd_unit}]", "log", (low, high))
    return Chart(
        "spectrum",
        "Spectrum of the load",
        (
            "Power spectral density of 10-minute windows of "
            f"{interval(run.resolution_ms)} means. Grey: mean over all "
            f"{plural(block['windows'], 'window')}"
            f"{', pins: its strongest lines with their periods' if pins else ''}. "
            "Coloured: each band in the window where that band was worst (the table "
            "says when); a point marks its strongest bin. A single window scatters "
            "about its level by much more than the mean. Both scales are logarithmic."
        ),
        (Panel(axis, y_axis, (*layers, *pins), wide=True),),
    )


def worst_window_psd(run: RunData, band: Entry) -> tuple[Array, Array]:
    """Return frequencies [Hz] and power spectral density [MW²/Hz] in the worst window.

    Both cover the band, and are empty if the series ends within the window.
    """
    series, block = run.run.series(), run.metrics["grid"]["spectrum"]
    n_values = round(block["window_s"] * MS_PER_S) // run.resolution_ms
    where = f"{run.run.folder / METRICS_FILE}: grid.spectrum"
    first = series.row_at(datetime.fromisoformat(band["worst_window"]), where)
    # Reads only the row groups of the window
    power_mw = series.read(
        [POWER], (first, min(first + n_values, series.n_rows))
    ).columns[POWER]
    if power_mw.size < n_values:
        return np.empty(0), np.empty(0)
    power_mw = power_mw / W_PER_MW
    frequency_hz, psd = window_spectra(
        (power_mw - power_mw[0])[None], run.resolution_ms
    )
    slack = block["frequency_resolution_hz"] * 1e-6
    low, high = np.searchsorted(
        frequency_hz, [band["low_hz"] - slack, band["high_hz"] - slack]
    )
    return frequency_hz[low:high], psd[0, low:high]


def _spectral_line_pins(
    lines: Sequence[Entry],
    frequency_hz: Array,
    density: Array,
    height: float,
    unit: str,
) -> Iterator[Line]:
    """Yield a vertical line with its period for each spectral line of the mean."""
    lines = sorted(lines, key=lambda line: line["frequency_hz"])
    if not lines:
        return
    x, y = (
        np.array([line["frequency_hz"] for line in lines]),
        np.full(len(lines), height),
    )
    for k in range(1, x.size):
        while (y[:k][x[k] < CLOSE * x[:k]] == y[k]).any():
            y[k] *= 6
    at = np.clip(np.rint(x / frequency_hz[0]).astype(int) - 1, 0, density.size - 1)
    nothing = np.full(x.size, np.nan)
    stems = np.array([(x, x, nothing), (density[at], y, nothing)])
    stems_x, stems_y = stems.transpose(0, 2, 1).reshape(2, -1)
    texts = tuple(f"{line['period_s']:.3g} s" for line in lines)
    yield Line(
        stems_x,
        stems_y,
        "",
        INK,
        unit,
        dash="dot",
        width=1.0,
        legend=False,
        significant=True,
    )
    yield Line(
        x,
        y,
        "lines of the mean",
        INK,
        unit,
        significant=True,
        markers_only=True,
        texts=texts,
    )
