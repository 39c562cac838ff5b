"""The chart of the spectrum: the mean over the run, and every band where it was worst."""

from __future__ import annotations

import numpy as np

from diploee.metrics.grid.spectrum import window_spectra
from diploee.report.charts import Array, Axis, Chart, Line, Marks, Panel
from diploee.report.grid_data import Block, GridView, power_from, values_in
from diploee.report.grid_tables import band_name
from diploee.report.style import INK, PEAK, colour
from diploee.report.words import plural
from diploee.units import W_PER_MW

CLOSE = 1.8
"""Lines with a lower ratio of their frequencies have their texts at different heights."""


def spectrum_chart(view: GridView) -> Chart | None:
    """Return the mean spectrum and each band in its worst window; None without a spectrum."""
    block = view.block["spectrum"]
    density = np.array(block.get("mean_psd_mw2_per_hz") or (), dtype=np.float64) * view.per_mw**2
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
        f"Power spectral density of 10-minute windows of {view.resolution} means. Grey: mean over "
        f"all {plural(block['windows'], 'window')}{_pin_words(bool(lines))}. Coloured: each band "
        "in the window where that band was worst (the table says when); a ring marks its strongest "
        "bin. A single window scatters about its level by much more than the mean. Both scales are "
        "logarithmic.",
        (Panel(axis, y_axis, (*worst, mean, *lines), wide=True),),
    )


def _unit(view: GridView) -> str:
    return f"{view.unit.power}²/Hz"


def _worst_window(view: GridView, band: Block, k: int) -> list[Line | Marks]:
    """Return a band's part of the spectrum of its worst window, computed from the series."""
    frequency_hz, psd = worst_window_psd(view, band)
    if not psd.size:
        return []
    y = psd * view.per_mw**2
    top = slice(int(np.argmax(y)), int(np.argmax(y)) + 1)
    flagged = " (flagged)" if band["flagged"] else ""
    return [
        Line(
            frequency_hz, y.astype(np.float32), f"worst of {band_name(band)}{flagged}", colour(k),
            _unit(view), significant=True, width=1.3,
        ),
        Marks(
            frequency_hz[top], y[top], ("",), "strongest bin", colour(k), _unit(view),
            hollow=True, legend=False,
        ),
    ]  # fmt: skip


def worst_window_psd(view: GridView, band: Block) -> tuple[Array, Array]:
    """Return the bins [Hz] of a band and the density there [MW²/Hz] in the band's worst window.

    Nothing is returned where the series does not hold the window.
    """
    run, block = view.run, view.block["spectrum"]
    n_values = values_in(block["window_s"], run)
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
