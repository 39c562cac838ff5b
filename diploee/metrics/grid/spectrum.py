"""Power spectral density of 10-minute windows: band levels, worst windows, the mean spectrum.

Welch's method: a linear trend is taken from every 10-minute window, a Hann window applied, and the
one-sided periodogram scaled to density, windows overlapping by half. It is what
`scipy.signal.periodogram` gives (tests hold it against that), on `numpy.fft` directly because the
former takes four times as long on 315 million values.
A band's rms is ``sqrt(sum PSD(f) df)`` over the bins f = k/600 Hz with low <= f < high; over all
bins the sum is the variance (Parseval), weighted by the Hann window. The mean over the windows is
the Welch estimate of the whole run. Windows lie on multiples of 5 minutes since the run's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from diploee.metric import Metric
from diploee.metrics.grid.bandwidth import BANDS_HZ, Support
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.lines import strongest_lines
from diploee.metrics.grid.quanta import QUANTA_PER_MW, Stretch
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S

WINDOW_MS = 10 * MS_PER_MIN
STRIDE_MS = WINDOW_MS // 2
RESOLUTION_HZ = MS_PER_S / WINDOW_MS

METHOD = (
    "Welch: linear detrend, Hann window, one-sided periodogram, windows overlap by half; a band "
    "holds the bins k/600 Hz from its lower edge to below its upper; the mean over the windows is "
    "listed from k = 1 on; not corrected for gain"
)
SLOW_BAND_NOTE = (
    "a 10-minute window resolves 1/600 Hz and loses its trend: of 0.001-0.01 Hz the five bins from "
    "0.0017 to 0.0083 Hz are counted, slower content is left out"
)
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
_ROWS = 16  # windows per transform, so that they stay in cache


def why_no_spectrum(clock: Clock) -> str:
    """Return why there is no spectrum at a resolution, or an empty string."""
    if STRIDE_MS % clock.step_ms:
        return f"the run's resolution of {clock.step_s:g} s does not divide 5 minutes"
    return ""


def window_spectra(power_mw: Float64Array, step_ms: int) -> tuple[Float64Array, Float64Array]:
    """Return the power spectral density of windows.

    Parameters
    ----------
    power_mw : numpy.ndarray, shape (m, n)
        Windows of power [MW].
    step_ms : int
        Interval of the values [ms].

    Returns
    -------
    frequency_hz : numpy.ndarray, shape (n // 2 + 1,)
    psd : numpy.ndarray, shape (m, n // 2 + 1)
        One-sided density [MW^2/Hz]; its sum times the bin width is the weighted variance.
    """
    n = power_mw.shape[-1]
    taper = 0.5 + 0.5 * np.cos(np.linspace(-np.pi, np.pi, n + 1))[:-1]
    spectrum = np.fft.rfft(_without_trend(power_mw) * taper, axis=-1)
    # S(f) = 2 dt |X(f)|^2 / sum of w^2, one-sided, w the Hann window (Welch 1967).
    psd: Float64Array = np.square(spectrum.real) + np.square(spectrum.imag)
    psd *= 2 * step_ms / MS_PER_S / np.square(taper).sum()
    psd[..., 0] /= 2
    if n % 2 == 0:
        psd[..., -1] /= 2  # like 0 Hz, Nyquist has no negative twin
    return frequencies_hz(n, step_ms), psd


def frequencies_hz(n: int, step_ms: int) -> Float64Array:
    """Return the bins of a window of n values [Hz]."""
    return np.fft.rfftfreq(n, step_ms / MS_PER_S).astype(np.float64)


def _without_trend(values: Float64Array) -> Float64Array:
    """Take the straight line of least squares from every row."""
    n = values.shape[-1]
    t = np.arange(n) - (n - 1) / 2
    level: Float64Array = values - values.mean(axis=-1, keepdims=True)
    # slope = sum (t x) / sum t^2, with t counted from the middle, where its mean is 0.
    slope: Float64Array = np.einsum("...n,n", level, t / np.square(t).sum())
    level -= slope[..., None] * t
    return level


def spectra_of(stretch: Stretch) -> Iterator[tuple[Int64Array, Float64Array]]:
    """Yield starts [ms] and densities of the windows that end in the new part, some at a time."""
    step_ms = stretch.step_ms
    n_window, stride = WINDOW_MS // step_ms, STRIDE_MS // step_ms
    part = stretch.windows_of(n_window)
    skipped = -part.begin_ms % STRIDE_MS // step_ms
    if part.values.size < skipped + n_window:
        return
    windows = sliding_window_view(part.values, n_window)[skipped::stride]
    starts_ms = part.begin_ms + (skipped + np.arange(windows.shape[0]) * stride) * step_ms
    for begin in range(0, windows.shape[0], _ROWS):
        rows = slice(begin, begin + _ROWS)
        # Less their first value, so that a large mean costs no digits.
        power_mw = (windows[rows] - windows[rows, :1]) / QUANTA_PER_MW
        yield starts_ms[rows], window_spectra(power_mw, step_ms)[1]


class Spectrum:
    """Accumulates the spectra of the 10-minute windows.

    Parameters
    ----------
    step_ms : int
        Interval of the series [ms]; it must divide 5 minutes.
    bands_hz : sequence of (float, float)
        Bands to follow, each window's level is kept.
    """

    def __init__(self, step_ms: int, bands_hz: tuple[tuple[float, float], ...]) -> None:
        self.n_window = WINDOW_MS // step_ms
        self.bands_hz = bands_hz
        self.frequency_hz = frequencies_hz(self.n_window, step_ms)
        edges = np.array(bands_hz).reshape(-1, 2) - RESOLUTION_HZ * 1e-6
        self._bins = np.searchsorted(self.frequency_hz, edges)
        self._sum = np.zeros(self.frequency_hz.size)
        self._power: list[Float64Array] = []
        self._strongest: list[Int64Array] = []
        self._starts_ms: list[Int64Array] = []

    def see(self, stretch: Stretch) -> None:
        """Add the windows that end in the new part of a stretch."""
        for starts_ms, psd in spectra_of(stretch):
            self._add(psd, starts_ms)

    def _add(self, psd: Float64Array, starts_ms: Int64Array) -> None:
        for of_window in psd:  # one by one, so that blocks of any size sum the same
            self._sum += of_window
        power = np.zeros((psd.shape[0], len(self.bands_hz)))
        strongest = np.zeros_like(power, dtype=np.int64)
        for k, (low, high) in enumerate(self._bins):
            power[:, k] = psd[:, low:high].sum(axis=1) * RESOLUTION_HZ
            strongest[:, k] = low + psd[:, low:high].argmax(axis=1)
        self._power.append(power)
        self._strongest.append(strongest)
        self._starts_ms.append(starts_ms)

    @property
    def n_windows(self) -> int:
        """Windows seen."""
        return sum(part.size for part in self._starts_ms)

    @property
    def mean_psd(self) -> Float64Array:
        """Mean of the windows' densities [MW^2/Hz], shape of `frequency_hz`."""
        return self._sum / max(self.n_windows, 1)

    def band_rms_mw(self) -> tuple[Int64Array, Float64Array]:
        """Return the windows' starts [ms], shape (m,), and their band levels [MW], (m, bands)."""
        if not self._starts_ms:
            return np.empty(0, dtype=np.int64), np.empty((0, len(self.bands_hz)))
        return np.concatenate(self._starts_ms), np.sqrt(np.concatenate(self._power))

    def block(self, clock: Clock, support: Support) -> dict[str, Any]:
        """Return the `spectrum` block; bands that are not supported are absent with the reason."""
        head = {
            "window_s": WINDOW_MS / MS_PER_S,
            "windows": self.n_windows,
            "resolution_s": clock.step_s,
            "frequency_resolution_hz": RESOLUTION_HZ,
            "method": METHOD,
        }
        if not self.n_windows:
            reason = "the run holds no whole 10-minute window"
            return {**head, "bands": [], "absent": absent_bands(support, reason), "lines": []}
        return {
            **head,
            "bands": self._bands(clock, support),
            "absent": absent_bands(support),
            "lines": strongest_lines(self.frequency_hz, self.mean_psd, self.n_windows, support),
            "mean_psd_mw2_per_hz": self.mean_psd[1 : self._n_claimed(support)].tolist(),
        }

    def _n_claimed(self, support: Support) -> int:
        """Return the number of bins up to the flagged frequency."""
        return int(np.searchsorted(self.frequency_hz, support.flagged_hz, side="right"))

    def _bands(self, clock: Clock, support: Support) -> list[dict[str, Any]]:
        starts_ms, rms_mw = self.band_rms_mw()
        strongest = np.concatenate(self._strongest)
        entries = []
        for k, (low_hz, high_hz) in enumerate(self.bands_hz):
            status, reason = support.band(high_hz)
            p50_mw, p99_mw = np.percentile(rms_mw[:, k], [50, 99])
            worst = int(np.argmax(rms_mw[:, k]))
            entry: dict[str, Any] = {
                "low_hz": low_hz,
                "high_hz": high_hz,
                "rms_p50_mw": float(p50_mw),
                "rms_p99_mw": float(p99_mw),
                "rms_max_mw": float(rms_mw[worst, k]),
                "worst_window": clock.iso(int(starts_ms[worst])),
                "worst_window_strongest_hz": float(self.frequency_hz[strongest[worst, k]]),
                "gain_at_high": support.gain(high_hz),
                "flagged": status == "flagged",
            }
            if reason:
                entry["flag_reason"] = reason
            if low_hz < RESOLUTION_HZ:
                entry["note"] = SLOW_BAND_NOTE
            entries.append(entry)
        return entries


def reported_bands(support: Support) -> tuple[tuple[float, float], ...]:
    """Return the bands that are supported, flagged ones included."""
    return tuple(band for band in BANDS_HZ if support.band(band[1])[0] != "absent")


def absent_bands(support: Support, reason: str = "") -> list[dict[str, Any]]:
    """Return the bands that are not reported, each with the reason (a common one if given)."""
    return [
        {"low_hz": low, "high_hz": high, "reason": reason or support.band(high)[1]}
        for low, high in BANDS_HZ
        if reason or support.band(high)[0] == "absent"
    ]
