"""Comparison of two profile libraries, job class by job class.

It shows how mean, spread, duration and spectrum change if measured profiles replace
reference profiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from diploee.base.tables import Float32Array, Float64Array
from diploee.base.units import MS_PER_S
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile

BAND_HZ = 0.25
"""Maximum frequency of trusted readings averaged over 1 s, gain 0.90 [Hz]."""
SWING_HZ = 0.02
"""Frequency below which are phases of a job, above swings within a phase [Hz]."""
SEGMENT_S = 256.0
"""Length of the averaged segments [s]: lines 0.004 Hz apart are resolved."""
SEGMENTS = 4
"""Minimum number of segments per profile; shorter profiles have shorter segments."""
LINE_OVER_FLOOR = 10.0
"""Minimum ratio of a line's power to the median of the octaves around it."""


@dataclass(frozen=True)
class ProfileStatistics:
    """Statistics of one profile, or their means over the profiles of a class."""

    mean_w: float  # mean power of the job [W]
    std_w: float  # population standard deviation in time [W]
    duration_s: float  # length [s]
    # Rms of fluctuations above 0 and up to `BAND_HZ` [W]; NaN if the step is too long
    band_rms_w: float
    # Rms from `SWING_HZ` to `BAND_HZ`, without the slow phases of the job [W]
    swing_rms_w: float
    # Frequency of the strongest line from `SWING_HZ` to `BAND_HZ` [Hz]; NaN if none
    line_hz: float


@dataclass(frozen=True)
class _ClassStatistics:
    """Statistics of a job class of a library."""

    n_profiles: int  # number of profiles of the class
    n_lines: int  # number of profiles with a spectral line
    # Means over the profiles; the line's over profiles with a line
    figures: ProfileStatistics
    boundaries: tuple[str, ...]  # power boundaries of the profiles


@dataclass(frozen=True)
class ClassDifference:
    """The statistics of a job class in two libraries."""

    workload: str  # kind of work
    n_nodes: int  # nodes of the job
    # Statistics in each library; None if the library lacks the class
    first: _ClassStatistics | None
    second: _ClassStatistics | None

    @property
    def boundaries_differ(self) -> bool:
        """True if both libraries have the class, with different power boundaries."""
        if self.first is None or self.second is None:
            return False
        return self.first.boundaries != self.second.boundaries


def profile_statistics(profile: PowerProfile) -> ProfileStatistics:
    """Return the statistics of one profile."""
    step_s = profile.dt_ms / MS_PER_S
    frequency_hz, power_w2 = scipy.signal.periodogram(
        np.asarray(profile.power_w, np.float64), 1 / step_s, scaling="spectrum"
    )
    in_band = (frequency_hz > 0) & (frequency_hz <= BAND_HZ)
    is_resolved = 0.5 / step_s >= BAND_HZ
    return ProfileStatistics(
        mean_w=profile.mean_power_w,
        std_w=float(np.std(profile.power_w, dtype=np.float64)),
        duration_s=profile.duration_ms / MS_PER_S,
        band_rms_w=_rms(power_w2[in_band]) if is_resolved else np.nan,
        swing_rms_w=_rms(power_w2[in_band & (frequency_hz >= SWING_HZ)])
        if is_resolved
        else np.nan,
        line_hz=strongest_line_hz(profile.power_w, step_s),
    )


def _class_statistics(
    library: ProfileLibrary,
) -> dict[tuple[str, int], _ClassStatistics]:
    """Return the statistics of each class of a library, by workload and node count."""
    by_class: dict[tuple[str, int], list[ProfileStatistics]] = {}
    boundaries: dict[tuple[str, int], set[str]] = {}
    for index, entry in enumerate(library.entries):
        job_class = entry.workload, entry.n_nodes
        by_class.setdefault(job_class, []).append(profile_statistics(library[index]))
        boundaries.setdefault(job_class, set()).add(entry.provenance.power_boundary)
    return {
        job_class: _mean_statistics(statistics, boundaries[job_class])
        for job_class, statistics in sorted(by_class.items())
    }


def compare_libraries(
    first: ProfileLibrary, second: ProfileLibrary
) -> list[ClassDifference]:
    """Compare two libraries, and return the difference of each class."""
    first_classes, second_classes = _class_statistics(first), _class_statistics(second)
    return [
        ClassDifference(
            *job_class, first_classes.get(job_class), second_classes.get(job_class)
        )
        for job_class in sorted({*first_classes, *second_classes})
    ]


def strongest_line_hz(power_w: Float32Array, step_s: float) -> float:
    """Return the frequency of the strongest line from `SWING_HZ` to `BAND_HZ` [Hz].

    A line is a peak of the averaged spectrum (Welch's method, Hann window) that exceeds
    the median of the octaves around it. Its frequency is refined by a parabola through
    the logarithms of three bins. The result is NaN if there is no line or the profile
    is too short.
    """
    n_segment = int(min(SEGMENT_S / step_s, power_w.size / SEGMENTS))
    # The octave below the lowest line needs a few bins
    if n_segment * step_s * SWING_HZ < 2 or step_s > 0.5 / BAND_HZ:
        return np.nan
    frequency_hz, density = scipy.signal.welch(
        np.asarray(power_w, np.float64), 1 / step_s, nperseg=n_segment
    )
    peaks, _ = scipy.signal.find_peaks(density, LINE_OVER_FLOOR * _local_floor(density))
    line_hz = frequency_hz[peaks]
    peaks = peaks[(line_hz >= SWING_HZ) & (line_hz <= BAND_HZ)]
    if peaks.size == 0:
        return np.nan
    peak = int(peaks[np.argmax(density[peaks])])
    below, centre, above = np.log(
        density[peak - 1 : peak + 2] + np.finfo(np.float64).tiny
    )
    shift = (below - above) / (2 * (below - 2 * centre + above))
    return float((peak + shift) * frequency_hz[1])


def _local_floor(density: Float64Array) -> Float64Array:
    """Return the median of the octave below and the octave above each bin."""
    bins = np.arange(density.size)
    low, high = np.maximum(bins // 2, 1), np.minimum(2 * bins, density.size - 1)
    return np.array(
        [
            np.median(density[a : b + 1]) if b >= a else 0.0
            for a, b in zip(low, high, strict=True)
        ]
    )


def _rms(power_w2: Float64Array) -> float:
    """Return the rms of a power spectrum's bins [W]."""
    return float(np.sqrt(power_w2.sum()))


def _mean_statistics(
    statistics: Iterable[ProfileStatistics], boundaries: set[str]
) -> _ClassStatistics:
    """Return the mean statistics of a class."""
    rows = np.array([list(vars(figures).values()) for figures in statistics])
    is_valid = ~np.isnan(rows)
    n_valid = is_valid.sum(axis=0)
    sums = np.where(is_valid, rows, 0.0).sum(axis=0)
    means = np.where(n_valid > 0, sums / np.maximum(n_valid, 1), np.nan)
    figures = ProfileStatistics(*means.tolist())
    return _ClassStatistics(
        len(rows), int(n_valid[-1]), figures, tuple(sorted(boundaries))
    )
