"""Frequency-domain summation of profile slices, by overlap-save convolution.

A slice is a whole profile, or one of the parts that a job of another run time replays:
the part before the shutdown, the loop, or the shutdown. The power of all segments that
replay a slice is the convolution of the slice with impulses at the starts of these
segments. One Fourier transform per slice and one inverse transform per block give the
sum for any number of segments, so that the cost hardly grows with the size of the
facility. If a segment starts between two samples, its impulse is split linearly over
both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log2
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from diploee.base.tables import Float64Array, Int32Array, Int64Array
from diploee.base.units import MS_PER_S
from diploee.power.segments import Segments
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.looping import find_phases

FFT_LENGTH = 1 << 18
"""Minimum length of a transform; a block is its length minus the longest profile."""

N_KINDS = 4
"""Maximum number of slices of a profile."""

Slice = tuple[int, int, int]
"""Profile by library index, offset and length within it [ms]."""

Spectra = dict[Slice, npt.NDArray[np.complexfloating[Any, Any]]]
"""Transforms of slices."""

NS_PER_POINT = 0.44
"""Cost of a real transform per point and binary order of its length [ns], measured."""


def fft_lengths(profile_ids: Sequence[int], library: ProfileLibrary) -> tuple[int, int]:
    """Return the length of the history that a block needs, and of its transforms.

    Both are in intervals.
    """
    entries = [library.entries[index] for index in profile_ids]
    history = 1 + max(entry.duration_ms // entry.dt_ms for entry in entries)
    return history, max(FFT_LENGTH, 1 << int(np.ceil(log2(2 * history))))


def spectra_bytes(n_slices: int, length: int) -> int:
    """Return the memory of the transforms of n slices [bytes]."""
    return n_slices * (length // 2 + 1) * 16


class Slices(NamedTuple):
    """Profile slices that segments may replay as a whole, by index and kind."""

    # Offset in the profile and length [ms], shape (n, N_KINDS); length 0: no slice
    offset_ms: Int64Array
    length_ms: Int64Array

    @classmethod
    def build(
        cls, profile_ids: Iterable[int], library: ProfileLibrary, max_slices: int | None
    ) -> Slices:
        """Return the longest slices of profiles, at most `max_slices`."""
        ranked: list[tuple[int, int, int, int]] = []
        for index in profile_ids:
            phases = find_phases(library[index])
            loop_ms, end_ms = (
                phases.ending_ms - phases.steady_ms,
                phases.duration_ms - phases.ending_ms,
            )
            edges = (
                (0, phases.duration_ms),
                (0, phases.ending_ms),
                (phases.steady_ms, loop_ms),
                (phases.ending_ms, end_ms),
            )
            for kind, (offset_ms, length_ms) in enumerate(edges):
                if length_ms and (offset_ms, length_ms) not in edges[:kind]:
                    ranked.append((-length_ms, kind, index, offset_ms))
        tables = np.zeros((2, len(library.entries), N_KINDS), dtype=np.int64)
        for minus_length_ms, kind, index, offset_ms in sorted(ranked)[:max_slices]:
            tables[:, index, kind] = offset_ms, -minus_length_ms
        return cls(*tables)

    def slice_kinds(self, segments: Segments, horizon_ms: int) -> Int64Array:
        """Return the slice kind that each segment replays to its end, else -1.

        The shape is (n,).
        """
        profile_id, start_ms = segments.profile_id, segments.start_ms
        kind = np.full(len(segments), -1)
        for k in reversed(range(N_KINDS)):
            length_ms = self.length_ms[profile_id, k]
            kind[
                (length_ms > 0)
                & (segments.offset_ms == self.offset_ms[profile_id, k])
                & (segments.end_ms == np.minimum(start_ms + length_ms, horizon_ms))
            ] = k
        return kind

    def at(self, profile_id: int, kind: int) -> tuple[int, int]:
        """Return the offset and length of a slice [ms]."""
        return int(self.offset_ms[profile_id, kind]), int(
            self.length_ms[profile_id, kind]
        )


def slice_codes(segments: Segments, kind: Int64Array) -> Int64Array:
    """Return a number for the profile and kind of each segment's slice."""
    code: Int64Array = segments.profile_id.astype(np.int64) * N_KINDS + kind
    return code


def spectral_cost_s(segments: Segments, kind: Int64Array, length: int) -> float:
    """Estimate the time to add segments to one block on one core [s]."""
    rows = np.unique(
        segments.pool_id.astype(np.int64) << 40 | slice_codes(segments, kind)
    )
    n_transforms = rows.size + np.unique(segments.pool_id).size
    return float(n_transforms * length * log2(length) * NS_PER_POINT * 1e-9)


def add_spectra(
    spectra: Spectra,
    slices: Iterable[Slice],
    library: ProfileLibrary,
    length: int,
    dtype: type[np.complexfloating[Any, Any]] = np.complex128,
) -> None:
    """Add the missing transforms of slices, in double or single precision."""
    missing = [key for key in slices if key not in spectra]

    def transform(key: Slice) -> npt.NDArray[np.complexfloating[Any, Any]]:
        """Return the transform of a slice's power."""
        index, offset_ms, length_ms = key
        profile = library[index]
        first, n_samples = offset_ms // profile.dt_ms, length_ms // profile.dt_ms
        power_w = profile.power_w[first : first + n_samples]
        return np.fft.rfft(power_w.astype(np.float64), length).astype(dtype)

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        spectra.update(zip(missing, executor.map(transform, missing), strict=True))


def add_spectrally(
    segments: Segments,
    kind: Int64Array,
    slices: Slices,
    spectra: Spectra,
    lengths: tuple[int, int],
    step_ms: int,
    t0_ms: int,
    energies_j: Sequence[Float64Array],
    ac_profile_id: Int32Array | None = None,
) -> None:
    """Add the energy of segments that each replay a whole slice.

    `energies_j` is the energy by pool and interval of device power and, if modeled, of
    AC power.
    """
    history, length = lengths
    n_steps = energies_j[0].shape[1]
    origin_ms = t0_ms - history * step_ms
    # A start before the history has ended before the block.
    rows = (segments.start_ms >= origin_ms) & (
        segments.start_ms < t0_ms + n_steps * step_ms
    )
    overlapping, kind = segments.take(rows), kind[rows]
    for pool_id in np.unique(overlapping.pool_id).tolist():
        in_pool = overlapping.pool_id == pool_id
        pool_segments = overlapping.take(in_pool)
        codes = slice_codes(pool_segments, kind[in_pool])
        # Overlap-save: P(f) = sum over slices s of D_s(f) S_s(f), with D_s the
        # transform of the starts of s and S_s that of its power. The transform is
        # circular: the first `history` values, into which the end of the row wraps, are
        # dropped.
        spectra_by_quantity = [
            np.zeros(length // 2 + 1, dtype=np.complex128) for _ in energies_j
        ]
        for code in np.unique(codes).tolist():
            is_code, profile_id = codes == code, code // N_KINDS
            start_ms, weight = (
                pool_segments.start_ms[is_code],
                pool_segments.weight[is_code],
            )
            impulses = _start_impulses(start_ms - origin_ms, weight, step_ms, length)
            starts_spectrum = np.fft.rfft(impulses)
            indices = [profile_id]
            if ac_profile_id is not None:  # AC power has the same starts
                indices.append(int(ac_profile_id[pool_id, profile_id]))
            for spectrum, index in zip(spectra_by_quantity, indices, strict=True):
                spectrum += (
                    starts_spectrum
                    * spectra[index, *slices.at(profile_id, code % N_KINDS)]
                )
        for energy_j, spectrum in zip(energies_j, spectra_by_quantity, strict=True):
            power_w = np.fft.irfft(spectrum, length)
            energy_j[pool_id] += power_w[history : history + n_steps] * (
                step_ms / MS_PER_S
            )


def _start_impulses(
    into_ms: Int64Array, weight: Float64Array, step_ms: int, length: int
) -> Float64Array:
    """Return the impulses at the starts of segments, by sample."""
    # A start by r of a step after sample n, 0 <= r < 1, adds (1 - r) p[k - n] +
    # r p[k - n - 1]. This equals E(k + 1 - n - r) - E(k - n - r), as the cumulative
    # energy E is linear within a sample.
    sample, rest_ms = np.divmod(into_ms, step_ms)
    next_weight = weight * rest_ms / step_ms
    impulses = np.zeros(length + 1)
    np.add.at(impulses, sample, weight - next_weight)
    np.add.at(impulses, sample + 1, next_weight)
    return impulses[:length]
