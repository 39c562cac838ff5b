"""How two libraries differ, class by class.

Mean, spread, duration and spectrum of their profiles. Used to say what changes when
measured profiles take the place of the reference ones.
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
"""Up to here a reading that is averaged over 1 s is trusted (gain 0.90) [Hz]."""
SWING_HZ = 0.02
"""Swings within a phase lie above, the phases of a job below [Hz]."""
SEGMENT_S = 256.0
"""Length of the averaged spectra [s]: lines 0.004 Hz apart are resolved."""
SEGMENTS = 4
"""A line is looked for in profiles of at least this number of segments, then maybe
shorter."""
LINE_OVER_FLOOR = 10.0
"""A line stands this much above the median of the octave on either side [power ratio]."""  # noqa: E501


@dataclass(frozen=True)
class ProfileStatistics:
    """Figures of one profile, or their means over the profiles of a class."""

    mean_w: float  # mean power of the job [W]
    std_w: float  # population standard deviation in time [W]
    duration_s: float  # length [s]
    # Root mean square of all swings above 0 and up to `BAND_HZ` [W]; NaN where the step
    # is too long for it
    band_rms_w: float
    # The same from `SWING_HZ` on, without the slow phases of the job [W]
    swing_rms_w: float
    # Frequency of the strongest line between the two [Hz]; NaN where no line stands out
    line_hz: float


@dataclass(frozen=True)
class _ClassFigures:
    """A job class of a library."""

    n_profiles: int  # profiles of the class
    n_lines: int  # profiles of them with a line
    # Means over the profiles; of the line over those that have one
    figures: ProfileStatistics
    boundaries: tuple[str, ...]  # what the power of its profiles includes


@dataclass(frozen=True)
class ClassDifference:
    """A job class in two libraries."""

    workload: str  # kind of work
    n_nodes: int  # nodes of the job
    # The class in either library; None where it has none
    first: _ClassFigures | None
    second: _ClassFigures | None

    @property
    def boundaries_differ(self) -> bool:
        """Whether both libraries have the class, with power of different boundaries."""
        if self.first is None or self.second is None:
            return False
        return self.first.boundaries != self.second.boundaries


def figures_of(profile: PowerProfile) -> ProfileStatistics:
    """Return the figures of one profile."""
    step_s = profile.dt_ms / MS_PER_S
    frequency_hz, power_w2 = scipy.signal.periodogram(
        np.asarray(profile.power_w, np.float64), 1 / step_s, scaling="spectrum"
    )
    in_band = (frequency_hz > 0) & (frequency_hz <= BAND_HZ)
    reaches = 0.5 / step_s >= BAND_HZ
    return ProfileStatistics(
        mean_w=profile.mean_power_w,
        std_w=float(np.std(profile.power_w, dtype=np.float64)),
        duration_s=profile.duration_ms / MS_PER_S,
        band_rms_w=_rms(power_w2[in_band]) if reaches else np.nan,
        swing_rms_w=_rms(power_w2[in_band & (frequency_hz >= SWING_HZ)])
        if reaches
        else np.nan,
        line_hz=strongest_line_hz(profile.power_w, step_s),
    )


def _class_figures(library: ProfileLibrary) -> dict[tuple[str, int], _ClassFigures]:
    """Return the figures of each class of a library, by workload and nodes."""
    by_class: dict[tuple[str, int], list[ProfileStatistics]] = {}
    boundaries: dict[tuple[str, int], set[str]] = {}
    for index, entry in enumerate(library.entries):
        job_class = entry.workload, entry.n_nodes
        by_class.setdefault(job_class, []).append(figures_of(library[index]))
        boundaries.setdefault(job_class, set()).add(entry.provenance.power_boundary)
    return {
        job_class: _mean(result, boundaries[job_class])
        for job_class, result in sorted(by_class.items())
    }


def compare(first: ProfileLibrary, second: ProfileLibrary) -> list[ClassDifference]:
    """Compare two libraries."""
    one, other = _class_figures(first), _class_figures(second)
    return [
        ClassDifference(*job_class, one.get(job_class), other.get(job_class))
        for job_class in sorted({*one, *other})
    ]


def strongest_line_hz(power_w: Float32Array, step_s: float) -> float:
    """Return the frequency of the strongest line between `SWING_HZ` and `BAND_HZ` [Hz].

    Averaged spectra (Welch's method, Hann window) are searched for peaks that stand out
    from the octaves around them; the highest one's place is refined by a parabola
    through its logarithm.
    """
    n_segment = int(min(SEGMENT_S / step_s, power_w.size / SEGMENTS))
    # The lowest octave that is looked at needs a few bins below the lowest line.
    if n_segment * step_s * SWING_HZ < 2 or step_s > 0.5 / BAND_HZ:
        return np.nan
    frequency_hz, density = scipy.signal.welch(
        np.asarray(power_w, np.float64), 1 / step_s, nperseg=n_segment
    )
    peaks, _ = scipy.signal.find_peaks(density, LINE_OVER_FLOOR * _floor(density))
    line_hz = frequency_hz[peaks]
    peaks = peaks[(line_hz >= SWING_HZ) & (line_hz <= BAND_HZ)]
    if peaks.size == 0:
        return np.nan
    peak = int(peaks[np.argmax(density[peaks])])
    left, top, right = np.log(density[peak - 1 : peak + 2] + np.finfo(np.float64).tiny)
    shift = (left - right) / (2 * (left - 2 * top + right))
    return float((peak + shift) * frequency_hz[1])


def _floor(density: Float64Array) -> Float64Array:
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
    return float(np.sqrt(power_w2.sum()))


def _mean(found: Iterable[ProfileStatistics], boundaries: set[str]) -> _ClassFigures:
    rows = np.array([list(vars(figures).values()) for figures in found])
    there = ~np.isnan(rows)
    n_there = there.sum(axis=0)
    sums = np.where(there, rows, 0.0).sum(axis=0)
    means = np.where(n_there > 0, sums / np.maximum(n_there, 1), np.nan)
    figures = ProfileStatistics(*means.tolist())
    return _ClassFigures(
        len(rows), int(n_there[-1]), figures, tuple(sorted(boundaries))
    )
