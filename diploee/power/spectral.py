"""Adding whole jobs in the frequency domain: start impulses per profile, overlap-save.

The load of a block is the sum over profiles of the convolution of the profile with the impulses at
which its jobs start. One transform per profile and one inverse per block do the sum for any number
of jobs, so that the cost does not grow with the facility. A start between two samples splits its
impulse linearly over them, which is what differencing the cumulative energy gives as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import log2

import numpy as np
import numpy.typing as npt
from scipy import fft

from diploee.power.segments import Segments
from diploee.profiles import ProfileLibrary
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import MS_PER_S

FFT_LENGTH = 1 << 20
"""Length of a transform at least; a block is what remains of it beyond the longest profile."""

Spectra = dict[int, npt.NDArray[np.complex128]]

NS_PER_POINT = 0.44
"""Cost of a real transform per point and binary order of its length [ns], measured."""


def spectral_cost_s(segments: Segments, library: ProfileLibrary, n_intervals: int) -> float:
    """Estimate the time to sum segments over a run of intervals on one core [s]."""
    history, length = fft_lengths(segments, library)
    n_impulse_rows = len(np.unique(segments.profile_id)) * len(np.unique(segments.pool_id))
    per_block = (n_impulse_rows + 1) * length * log2(length) * NS_PER_POINT * 1e-9
    return per_block * max(1.0, n_intervals / (length - history))


def spectra_bytes(segments: Segments, library: ProfileLibrary) -> int:
    """Return the memory of the transforms of all profiles [bytes]."""
    _, length = fft_lengths(segments, library)
    return len(np.unique(segments.profile_id)) * (length // 2 + 1) * 16


def fft_lengths(segments: Segments, library: ProfileLibrary) -> tuple[int, int]:
    """Return the intervals of history that a block needs, and the length of its transforms."""
    used = np.unique(segments.profile_id).tolist()
    entries = library.entries
    history = 1 + max(entries[index].duration_ms // entries[index].dt_ms for index in used)
    return history, max(FFT_LENGTH, 1 << int(np.ceil(log2(4 * history))))


class SpectralSum:
    """Sums segments that each play a whole profile, sampled at the run's interval.

    Parameters
    ----------
    segments : Segments
        In the order of their starts; all of them must satisfy `plays_whole_profile`.
    library : ProfileLibrary
        Profiles that they refer to.
    step_ms : int
        Interval [ms], the sampling step of all profiles.
    lengths : tuple of int, optional
        Intervals of history and length of the transforms, of a larger set of segments that these
        are a part of; as `fft_lengths` gives them by default.
    spectra : dict, optional
        Transforms of profiles by index, of this length; those that lack are added.
    """

    def __init__(
        self,
        segments: Segments,
        library: ProfileLibrary,
        step_ms: int,
        lengths: tuple[int, int] | None = None,
        spectra: Spectra | None = None,
    ) -> None:
        self._step_ms = step_ms
        self._history, self._length = lengths or fft_lengths(segments, library)
        self._spectra = {} if spectra is None else spectra
        lacking = [k for k in np.unique(segments.profile_id).tolist() if k not in self._spectra]
        profiles = [library[index].power_w for index in lacking]
        with ThreadPoolExecutor(os.cpu_count()) as executor:
            found = executor.map(
                lambda power_w: fft.rfft(power_w.astype(np.float64), self._length), profiles
            )
            self._spectra.update(zip(lacking, found, strict=True))
        self._starts = dict(_starts_by_profile(segments))

    def add(self, t0_ms: int, energy_j: Float64Array) -> None:
        """Add the energy of all segments to intervals.

        Parameters
        ----------
        t0_ms : int
            Start of the first interval [ms], a multiple of the step.
        energy_j : numpy.ndarray, shape (K, B), float64
            Energy of each pool in each interval [J], at most as many as the transforms are longer
            than the history; changed in place.
        """
        n_steps = energy_j.shape[1]
        origin_ms = t0_ms - self._history * self._step_ms
        for pool_id in range(energy_j.shape[0]):
            spectrum = np.zeros(self._length // 2 + 1, dtype=np.complex128)
            for (pool, profile_id), (start_ms, weight) in self._starts.items():
                low, high = np.searchsorted(start_ms, [origin_ms, t0_ms + n_steps * self._step_ms])
                if pool == pool_id and high > low:
                    impulses = self._impulses(start_ms[low:high] - origin_ms, weight[low:high])
                    product = fft.rfft(impulses, overwrite_x=True)
                    product *= self._spectra[profile_id]
                    spectrum += product
            power_w = fft.irfft(spectrum, self._length, overwrite_x=True)
            energy_j[pool_id] += power_w[self._history : self._history + n_steps] * (
                self._step_ms / MS_PER_S
            )

    def _impulses(self, into_ms: npt.NDArray[np.int64], weight: Float64Array) -> Float64Array:
        sample, rest_ms = np.divmod(into_ms, self._step_ms)
        late = weight * rest_ms / self._step_ms
        impulses = np.zeros(self._length + 1)
        np.add.at(impulses, sample, weight - late)
        np.add.at(impulses, sample + 1, late)
        return impulses[: self._length]


def _starts_by_profile(
    segments: Segments,
) -> Iterator[tuple[tuple[int, int], tuple[Int64Array, Float64Array]]]:
    """Yield the start times [ms] and weights of each pool and profile, in the order of time."""
    for pool_id in np.unique(segments.pool_id).tolist():
        for profile_id in np.unique(segments.profile_id).tolist():
            rows = (segments.pool_id == pool_id) & (segments.profile_id == profile_id)
            if rows.any():
                yield (pool_id, profile_id), (segments.start_ms[rows], segments.weight[rows])


def plays_whole_profile(
    segments: Segments, library: ProfileLibrary, step_ms: int, horizon_ms: int
) -> BoolArray:
    """Return which segments `SpectralSum` can add, shape (n,).

    Those that start at their profile's start, end with it or with the run, and whose profile is
    sampled at the interval.
    """
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    dt_ms = np.array([entry.dt_ms for entry in library.entries])
    full_end_ms = np.minimum(segments.start_ms + duration_ms[segments.profile_id], horizon_ms)
    whole: BoolArray = (
        (segments.offset_ms == 0)
        & (segments.end_ms == full_end_ms)
        & (dt_ms[segments.profile_id] == step_ms)
    )
    return whole
