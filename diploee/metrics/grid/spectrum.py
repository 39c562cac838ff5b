"""The `spectrum` block: levels of bands over 10-minute windows, and the strongest lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.clock import WallClock
from diploee.measures.spectrum import RESOLUTION_HZ, WINDOW_MS, BandRms, strongest_lines
from diploee.metric import Metric
from diploee.metrics.grid.bandwidth import BANDS_HZ, Support
from diploee.units import MS_PER_S

METHOD = (
    "Welch: linear detrend, Hann window, one-sided periodogram, windows overlap by half; a band "
    "holds the bins k/600 Hz from its lower edge to below its upper; the mean over the windows is "
    "listed from k = 1 on; not corrected for gain"
)
SLOW_BAND_NOTE = (
    "a 10-minute window resolves 1/600 Hz and loses its trend: of 0.001-0.01 Hz the five bins from "
    "0.0017 to 0.0083 Hz are counted, slower content is left out"
)
NO_FLOOR = "a strictly periodic load: there is no floor beside the line"
BAND = "rms in {}"
_BAND = "grid.spectrum.bands.<band>"
_LINE = "grid.spectrum.lines.<rank>"
SPECTRUM_METRICS = (
    Metric("grid.spectrum.window_s", "s", "length of the windows", "{:g}"),
    Metric("grid.spectrum.windows", "windows", "windows seen", "{:,.0f}"),
    Metric("grid.spectrum.frequency_resolution_hz", "Hz", "width of a bin", "{:.4f}"),
    Metric(f"{_BAND}.rms_p50_mw", "MW", f"P50 {BAND.format('<band>')}", text="over the windows"),
    Metric(f"{_BAND}.rms_p99_mw", "MW", f"P99 {BAND.format('<band>')}", text="over the windows"),
    Metric(
        f"{_BAND}.rms_max_mw", "MW", f"largest {BAND.format('<band>')}", text="over the windows"
    ),
    Metric(f"{_BAND}.worst_window_strongest_hz", "Hz", "strongest of <band> there", "{:.4f}"),
    Metric(f"{_LINE}.frequency_hz", "Hz", "frequency of line <rank>", "{:.4f}"),
    Metric(f"{_LINE}.period_s", "s", "period of line <rank>", "{:.3g}"),
    Metric(f"{_LINE}.rms_mw", "MW", "rms of line <rank>"),
    Metric(f"{_LINE}.over_floor", "1", "line <rank> over the floor beside it", "{:.1f}",
           "null where a strictly periodic load has no floor"),
    Metric(f"{_BAND}.gain_at_high", "1", "gain at the upper edge of <band>", "{:.2f}"),
)  # fmt: skip


def spectrum_block(
    found: BandRms | None, clock: WallClock, support: Support, reason: str
) -> dict[str, Any]:
    """Return the `spectrum` block; bands that are not supported are absent with the reason."""
    resolution = {"resolution_s": clock.step_s}
    if found is None:
        return {**resolution, "bands": [], "absent": _absent_bands(support, reason), "lines": []}
    n = found.starts_ms.size
    head = {
        "window_s": WINDOW_MS / MS_PER_S,
        "windows": n,
        **resolution,
        "frequency_resolution_hz": RESOLUTION_HZ,
        "method": METHOD,
    }
    if not n:
        reason = "the run holds no whole 10-minute window"
        return {**head, "bands": [], "absent": _absent_bands(support, reason), "lines": []}
    n_claimed = int(np.searchsorted(found.frequency_hz, support.flagged_hz, side="right"))
    return {
        **head,
        "bands": _bands(found, clock, support),
        "absent": _absent_bands(support),
        "lines": [
            {
                "frequency_hz": line.frequency_hz,
                "period_s": 1 / line.frequency_hz,
                "rms_mw": line.rms_mw,
                "over_floor": line.over_floor,
                "flagged": line.frequency_hz > support.trusted_hz,
                **({"reason": NO_FLOOR} if line.over_floor is None else {}),
            }
            for line in strongest_lines(found.frequency_hz, found.mean_psd, n, support.flagged_hz)
        ],
        "mean_psd_mw2_per_hz": found.mean_psd[1:n_claimed].tolist(),
    }


def _bands(found: BandRms, clock: WallClock, support: Support) -> list[dict[str, Any]]:
    entries = []
    for k, (low_hz, high_hz) in enumerate(reported_bands(support)):
        status, reason = support.band(high_hz)
        rms_mw = found.rms_mw[:, k]
        p50_mw, p99_mw = np.percentile(rms_mw, [50, 99])
        worst = int(np.argmax(rms_mw))
        entry: dict[str, Any] = {
            "low_hz": low_hz,
            "high_hz": high_hz,
            "rms_p50_mw": float(p50_mw),
            "rms_p99_mw": float(p99_mw),
            "rms_max_mw": float(rms_mw[worst]),
            "worst_window": clock.iso(int(found.starts_ms[worst])),
            "worst_window_strongest_hz": float(found.strongest_hz[worst, k]),
            "gain_at_high": support.gain(high_hz),
            "flagged": status == "flagged",
        }
        entry |= {"flag_reason": reason} if reason else {}
        entry |= {"note": SLOW_BAND_NOTE} if low_hz < RESOLUTION_HZ else {}
        entries.append(entry)
    return entries


def reported_bands(support: Support) -> tuple[tuple[float, float], ...]:
    """Return the bands that are supported, flagged ones included."""
    return tuple(band for band in BANDS_HZ if support.band(band[1])[0] != "absent")


def _absent_bands(support: Support, reason: str = "") -> list[dict[str, Any]]:
    """Return the bands that are not reported, each with the reason (a common one if given)."""
    return [
        {"low_hz": low, "high_hz": high, "reason": reason or support.band(high)[1]}
        for low, high in BANDS_HZ
        if reason or support.band(high)[0] == "absent"
    ]
