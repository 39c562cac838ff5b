"""Power spectral density of 10-minute windows: band rms, mean spectrum, spectral lines.

Welch's method: each 10-minute window is detrended linearly and multiplied by a Hann
window, and its one-sided periodogram is scaled to density; windows overlap by half. The
result equals `scipy.signal.periodogram` (tests compare both). `numpy.fft` is used
directly because SciPy's takes four times as long on 315 million values. A band's rms
is ``sqrt(sum PSD(f) df)`` over the bins f = k/600 Hz with low <= f < high; over all
bins the sum is the variance weighted by the Hann window (Parseval). The mean over
windows is the Welch estimate of the whole run. Windows start at multiples of 5 minutes
since the run's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view

from diploee.base.measures.streaming import QUANTA_PER_MW, Chunk, Signal, SignalChunk
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_MIN, MS_PER_S

WINDOW_MS = 10 * MS_PER_MIN
STRIDE_MS = WINDOW_MS // 2
RESOLUTION_HZ = MS_PER_S / WINDOW_MS

_ROWS = 16  # windows per transform, so that they stay in cache

Band = tuple[float, float]
"""Frequency band: lower edge (inclusive) and upper edge (exclusive) [Hz]."""


def window_spectra(
    power_mw: Float64Array, step_ms: int
) -> tuple[Float64Array, Float64Array]:
    """Return frequencies [Hz] and spectral densities [MW²/Hz] of windows (rows)."""
    n = power_mw.shape[-1]
    taper = 0.5 + 0.5 * np.cos(np.linspace(-np.pi, np.pi, n + 1))[:-1]
    spectrum = np.fft.rfft(_detrend(power_mw) * taper, axis=-1)
    # S(f) = 2 dt |X(f)|^2 / sum of w^2, one-sided, w the Hann window (Welch 1967).
    psd: Float64Array = np.square(spectrum.real) + np.square(spectrum.imag)
    psd *= 2 * step_ms / MS_PER_S / np.square(taper).sum()
    psd[..., 0] /= 2
    if n % 2 == 0:
        psd[..., -1] /= 2  # like 0 Hz, Nyquist has no negative twin
    return _frequencies_hz(n, step_ms), psd


def _frequencies_hz(n: int, step_ms: int) -> Float64Array:
    """Return the frequencies of the spectrum's bins [Hz]."""
    return np.fft.rfftfreq(n, step_ms / MS_PER_S).astype(np.float64)


def _detrend(values: Float64Array) -> Float64Array:
    """Subtract the least-squares line from every row."""
    n = values.shape[-1]
    t = np.arange(n) - (n - 1) / 2
    level: Float64Array = values - values.mean(axis=-1, keepdims=True)
    # slope = sum (t x) / sum t^2, with t counted from the middle, where its mean is 0.
    slope: Float64Array = np.einsum("...n,n", level, t / np.square(t).sum())
    level -= slope[..., None] * t
    return level


def _window_spectra(chunk: Chunk) -> Iterator[tuple[Int64Array, Float64Array]]:
    """Yield starts [ms] and densities [MW²/Hz] of windows that end in the new part."""
    step_ms = chunk.step_ms
    n_window, stride = WINDOW_MS // step_ms, STRIDE_MS // step_ms
    part = chunk.windows_of(n_window)
    skipped = -part.begin_ms % STRIDE_MS // step_ms
    if part.values.size < skipped + n_window:
        return
    windows = sliding_window_view(part.values, n_window)[skipped::stride]
    starts_ms = (
        part.begin_ms + (skipped + np.arange(windows.shape[0]) * stride) * step_ms
    )
    for begin in range(0, windows.shape[0], _ROWS):
        rows = slice(begin, begin + _ROWS)
        # Less their first value, so that a large mean costs no digits.
        power_mw = (windows[rows] - windows[rows, :1]) / QUANTA_PER_MW
        yield starts_ms[rows], window_spectra(power_mw, step_ms)[1]


class BandRms(NamedTuple):
    """Spectra of all windows; rms and strongest bin have shape (windows, bands)."""

    frequency_hz: Float64Array  # frequencies of the bins
    mean_psd: Float64Array  # mean of the windows' densities [MW^2/Hz]
    starts_ms: Int64Array  # start of each window
    rms_mw: Float64Array  # rms of each window and band
    strongest_hz: Float64Array  # strongest bin of each window and band


class Spectrum:
    """Spectra of 10-minute windows; the step [ms] must divide 5 minutes."""

    def __init__(self, step_ms: int, bands_hz: tuple[Band, ...]) -> None:
        self.n_window = WINDOW_MS // step_ms
        self._frequency_hz = _frequencies_hz(self.n_window, step_ms)
        edges = np.array(bands_hz).reshape(-1, 2) - RESOLUTION_HZ * 1e-6
        self._bins = np.searchsorted(self._frequency_hz, edges)
        self._sum = np.zeros(self._frequency_hz.size)
        none = np.empty((0, len(bands_hz)))
        self._parts = [(np.empty(0, dtype=np.int64), none, none.astype(np.int64))]

    def add(self, chunk: Chunk) -> None:
        """Add the windows that end in the new part of a chunk."""
        for starts_ms, psd in _window_spectra(chunk):
            for (
                window_psd
            ) in psd:  # one by one, so that blocks of any size sum the same
                self._sum += window_psd
            bands = [psd[:, low:high] for low, high in self._bins]
            power = np.stack(
                [band.sum(axis=1) * RESOLUTION_HZ for band in bands], axis=1
            )
            strongest = [band.argmax(axis=1) for band in bands]
            self._parts.append(
                (starts_ms, power, self._bins[:, 0] + np.stack(strongest, axis=1))
            )

    def result(self) -> BandRms:
        """Return the mean density and the rms of bands."""
        starts_ms, power, strongest = (
            np.concatenate(part) for part in zip(*self._parts, strict=True)
        )
        mean_psd = self._sum / max(starts_ms.size, 1)
        strongest_hz = self._frequency_hz[strongest]
        return BandRms(
            self._frequency_hz, mean_psd, starts_ms, np.sqrt(power), strongest_hz
        )


def band_rms(band_hz: Band) -> Signal:
    """Return the signal of a band's rms in 10-minute windows [MW]."""

    def signal(chunk: Chunk) -> SignalChunk | None:
        spectrum = Spectrum(chunk.step_ms, (band_hz,))
        spectrum.add(chunk)
        result = spectrum.result()
        if not result.starts_ms.size:
            return None
        return SignalChunk(result.rms_mw[:, 0], int(result.starts_ms[0]))

    return signal


def line_amplitude(band_hz: Band) -> Signal:
    """Return the signal of the strongest line's amplitude in a band [MW].

    A line's amplitude in a 10-minute window is that of a sine wave, √2 times its rms.
    It is 0 in a window without a line.
    """
    low_hz, high_hz = band_hz

    def strongest_mw(bins_hz: Float64Array, psd: Float64Array) -> float:
        lines = strongest_lines(bins_hz, psd, 1, high_hz, low_hz)
        return float(np.sqrt(2) * lines[0].rms_mw) if lines else 0.0

    def signal(chunk: Chunk) -> SignalChunk | None:
        bins_hz = _frequencies_hz(WINDOW_MS // chunk.step_ms, chunk.step_ms)
        # The floor reaches 15 bins beyond
        end = int(np.searchsorted(bins_hz, high_hz)) + 20
        amplitudes = [
            (int(at_ms), strongest_mw(bins_hz[:end], psd[:end]))
            for starts_ms, psds in _window_spectra(chunk)
            for at_ms, psd in zip(starts_ms, psds, strict=True)
        ]
        return (
            SignalChunk(np.array([mw for _, mw in amplitudes]), amplitudes[0][0])
            if amplitudes
            else None
        )

    return signal


N_LINES = 5
"""Maximum number of reported spectral lines."""

FALSE_ALARM = 1e-3
"""Probability of a false line anywhere in the spectrum of pure Gaussian noise."""

MIN_OVER_FLOOR = 2.0
"""Minimum ratio of a line's density to the noise floor, whatever the run's length."""

MAX_OVER_FLOOR = 1e12
"""Ratio to the floor above which the load is strictly periodic: the floor is only the
transform's rounding error."""

_HALF_FLOOR_BINS = 15
_HALF_LINE_BINS = 2  # half the main lobe of the Hann window
_FIRST_BIN = 3  # below, detrending and the window shape the spectrum


class SpectralLine(NamedTuple):
    """A spectral line: frequency [Hz], rms [MW], and ratio to the noise floor.

    `over_floor` is None if there is no noise floor.
    """

    frequency_hz: float
    rms_mw: float
    over_floor: float | None


def strongest_lines(
    frequency_hz: Float64Array,
    psd: Float64Array,
    n_windows: int,
    high_hz: float,
    low_hz: float = 0.0,
) -> list[SpectralLine]:
    """Return the strongest spectral lines of a mean spectrum between two frequencies.

    A line is a local maximum of the density that is too far above the floor (the median
    over 31 bins) to be noise, and is not below the rounding of power. The rms of a line
    is calculated from the density above the floor in five bins, the main lobe of the
    Hann window; the line's frequency is the centroid of these bins.
    """
    width_hz = frequency_hz[1] - frequency_hz[0]
    end = int(np.searchsorted(frequency_hz, high_hz, side="right"))
    floor = scipy.ndimage.median_filter(psd, 2 * _HALF_FLOOR_BINS + 1, mode="nearest")
    # A Welch estimate of noise is chi-square over its degrees of freedom, for Hann
    # windows that overlap by half these (Percival and Walden 1993, section 6.17); the
    # floor is a median.
    freedom = 36 * n_windows**2 / (19 * n_windows - 1)
    # Bonferroni: the false-alarm probability is divided by the number of bins.
    # The functions of scipy.stats.chi2 take a hundred times as long.
    median = 2 * scipy.special.gammaincinv(freedom / 2, 0.5)
    noise = scipy.special.chdtri(freedom, FALSE_ALARM / psd.size) / median
    min_ratio = max(float(noise), MIN_OVER_FLOOR)
    peaks, _ = scipy.signal.find_peaks(psd, distance=2 * _HALF_LINE_BINS)
    lines = []
    for peak in peaks[(peaks >= _FIRST_BIN) & (peaks < end)]:
        if psd[peak] <= min_ratio * floor[peak]:
            continue
        bins = slice(peak - _HALF_LINE_BINS, peak + _HALF_LINE_BINS + 1)
        excess = np.maximum(psd[bins] - floor[bins], 0.0)
        centre_hz = float((frequency_hz[bins] * excess).sum() / excess.sum())
        rms_mw = float(np.sqrt(excess.sum() * width_hz))
        if centre_hz < low_hz or rms_mw < 1 / QUANTA_PER_MW:
            continue
        has_floor = floor[peak] * MAX_OVER_FLOOR > psd[peak]
        lines.append(
            SpectralLine(
                centre_hz, rms_mw, float(psd[peak] / floor[peak]) if has_floor else None
            )
        )
    return sorted(lines, key=lambda line: -line.rms_mw)[:N_LINES]
