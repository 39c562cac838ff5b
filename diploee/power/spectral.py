"""Adding whole jobs in the frequency domain: start impulses per profile, overlap-save.

The load of a block is the sum over profiles of the convolution of the profile with the impulses at
which its jobs start. One transform per profile and one inverse per block do the sum for any number
of jobs, so that the cost does not grow with the facility. A start between two samples splits its
impulse linearly over them, which is what differencing the cumulative energy gives as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.power.segments import Segments
from diploee.profiles import ProfileLibrary
from diploee.tables import BoolArray, Float64Array, Int32Array, Int64Array
from diploee.units import MS_PER_S

FFT_LENGTH = 1 << 18
"""Length of a transform at least; a block is what remains of it beyond the longest profile."""

Spectra = dict[int, npt.NDArray[np.complexfloating[Any, Any]]]

NS_PER_POINT = 0.44
"""Cost of a real transform per point and binary order of its length [ns], measured."""


def fft_lengths(profile_ids: Sequence[int], library: ProfileLibrary) -> tuple[int, int]:
    """Return the intervals of history that a block needs, and the length of its transforms."""
    entries = [library.entries[index] for index in profile_ids]
    history = 1 + max(entry.duration_ms // entry.dt_ms for entry in entries)
    return history, max(FFT_LENGTH, 1 << int(np.ceil(log2(2 * history))))


def spectra_bytes(n_profiles: int, length: int) -> int:
    """Return the memory of the transforms of n profiles [bytes]."""
    return n_profiles * (length // 2 + 1) * 16


def spectral_cost_s(segments: Segments, length: int) -> float:
    """Estimate the time to add segments to one block on one core [s]."""
    n_impulse_rows = len(np.unique(segments.profile_id)) * len(np.unique(segments.pool_id))
    return (n_impulse_rows + 1) * length * log2(length) * NS_PER_POINT * 1e-9


def add_spectra(
    spectra: Spectra,
    profile_ids: Iterable[int],
    library: ProfileLibrary,
    length: int,
    kind: type[np.complexfloating[Any, Any]] = np.complex128,
) -> None:
    """Add the transforms of profiles that lack, in double or single precision."""
    lacking = [index for index in profile_ids if index not in spectra]

    def transform(index: int) -> npt.NDArray[np.complexfloating[Any, Any]]:
        return np.fft.rfft(library[index].power_w.astype(np.float64), length).astype(kind)

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        spectra.update(zip(lacking, executor.map(transform, lacking), strict=True))


def add_spectrally(
    segments: Segments,
    spectra: Spectra,
    lengths: tuple[int, int],
    step_ms: int,
    t0_ms: int,
    readings_j: Sequence[Float64Array],
    ac_profile_id: Int32Array | None = None,
) -> None:
    """Add the energy of segments that each play a whole profile, sampled at the run's interval."""
    history, length = lengths
    n_steps = readings_j[0].shape[1]
    origin_ms = t0_ms - history * step_ms
    # A start before the history has ended before the block.
    rows = (segments.start_ms >= origin_ms) & (segments.start_ms < t0_ms + n_steps * step_ms)
    inside = segments.take(rows)
    for pool_id in np.unique(inside.pool_id).tolist():
        of_pool = inside.take(inside.pool_id == pool_id)
        # Overlap-save: P(f) = sum over profiles p of D_p(f) S_p(f), with D_p the transform of the
        # starts of p and S_p that of its power. The transform is circular: the first `history`
        # values, into which the end of the row wraps, are dropped.
        spectra_of = [np.zeros(length // 2 + 1, dtype=np.complex128) for _ in readings_j]
        for profile_id in np.unique(of_pool.profile_id).tolist():
            own = of_pool.profile_id == profile_id
            start_ms, weight = of_pool.start_ms[own], of_pool.weight[own]
            impulses = _impulses(start_ms - origin_ms, weight, step_ms, length)
            starts_of = np.fft.rfft(impulses)
            indices = [profile_id]
            if ac_profile_id is not None:  # the same starts, another power
                indices.append(int(ac_profile_id[pool_id, profile_id]))
            for spectrum, index in zip(spectra_of, indices, strict=True):
                spectrum += starts_of * spectra[index]
        for energy_j, spectrum in zip(readings_j, spectra_of, strict=True):
            power_w = np.fft.irfft(spectrum, length)
            energy_j[pool_id] += power_w[history : history + n_steps] * (step_ms / MS_PER_S)


def _impulses(into_ms: Int64Array, weight: Float64Array, step_ms: int, length: int) -> Float64Array:
    # A start r of a step after sample n, 0 <= r < 1, gives (1 - r) p[k - n] + r p[k - n - 1]: what
    # E(k + 1 - n - r) - E(k - n - r) is, as the cumulative energy E is linear within a sample.
    sample, rest_ms = np.divmod(into_ms, step_ms)
    late = weight * rest_ms / step_ms
    impulses = np.zeros(length + 1)
    np.add.at(impulses, sample, weight - late)
    np.add.at(impulses, sample + 1, late)
    return impulses[:length]


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
