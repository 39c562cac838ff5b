"""Spectral lines: where the mean spectrum stands out of its own floor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from diploee.measures.series import QUANTA_PER_MW
from diploee.tables import Float64Array

N_LINES = 5
"""Lines that are reported at most."""

FALSE_ALARM = 1e-3
"""Probability that Gaussian noise alone shows a line anywhere in the spectrum."""

MIN_OVER_FLOOR = 2.0
"""A line stands out of the floor at least by this factor, however long the run."""

MOST_OVER_FLOOR = 1e12
"""Beyond, the load is strictly periodic: the floor is nothing but the rounding of a transform."""

_HALF_FLOOR_BINS = 15
_HALF_LINE_BINS = 2  # half the main lobe of the Hann window
_FIRST_BIN = 3  # below, detrending and the window shape the spectrum


def welch_degrees_of_freedom(n_windows: int) -> float:
    """Return the degrees of freedom of the mean over Hann windows that overlap by half.

    ``36 m^2 / (19 m - 1)`` (Percival and Walden 1993, section 6.17).
    """
    return 36 * n_windows**2 / (19 * n_windows - 1)


class Line(NamedTuple):
    """A spectral line; `over_floor` is None where there is no floor."""

    frequency_hz: float
    rms_mw: float
    over_floor: float | None


def strongest_lines(
    frequency_hz: Float64Array,
    psd: Float64Array,
    n_windows: int,
    high_hz: float,
    low_hz: float = 0.0,
) -> list[Line]:
    """Return the strongest lines of a mean spectrum between two frequencies, by their rms.

    A line is a local maximum over the local floor (the median over 31 bins) by more than noise
    would show, and no smaller than what power is rounded to. Its rms is that of the five bins of
    the Hann window's main lobe above the floor, its frequency their centroid.
    """
    width_hz = frequency_hz[1] - frequency_hz[0]
    end = int(np.searchsorted(frequency_hz, high_hz, side="right"))
    floor = scipy.ndimage.median_filter(psd, 2 * _HALF_FLOOR_BINS + 1, mode="nearest")
    freedom = welch_degrees_of_freedom(n_windows)
    # A Welch estimate of noise is chi-square over its degrees of freedom; the floor is a median.
    # Bonferroni: each of the bins may alarm by its share of the probability.
    noise = scipy.stats.chi2.isf(FALSE_ALARM / psd.size, freedom) / scipy.stats.chi2.median(freedom)
    least = max(float(noise), MIN_OVER_FLOOR)
    tops, _ = scipy.signal.find_peaks(psd, distance=2 * _HALF_LINE_BINS)
    found = []
    for top in tops[(tops >= _FIRST_BIN) & (tops < end)]:
        if psd[top] <= least * floor[top]:
            continue
        bins = slice(top - _HALF_LINE_BINS, top + _HALF_LINE_BINS + 1)
        above = np.maximum(psd[bins] - floor[bins], 0.0)
        centre_hz = float((frequency_hz[bins] * above).sum() / above.sum())
        rms_mw = float(np.sqrt(above.sum() * width_hz))
        if centre_hz < low_hz or rms_mw < 1 / QUANTA_PER_MW:
            continue
        has_floor = floor[top] * MOST_OVER_FLOOR > psd[top]
        found.append(Line(centre_hz, rms_mw, float(psd[top] / floor[top]) if has_floor else None))
    return sorted(found, key=lambda line: -line.rms_mw)[:N_LINES]
