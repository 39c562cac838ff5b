"""One block of a run: which sums add its segments, and the block itself, computed on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.power.direct import DirectSum, direct_cost_s
from diploee.power.occupancy import node_occupancy
from diploee.power.segments import Segments, longest_ms, overlapping
from diploee.power.spectral import (
    Spectra,
    SpectralSum,
    fft_lengths,
    plays_whole_profile,
    spectra_bytes,
    spectral_cost_s,
)
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S

Method = Literal["auto", "direct", "spectral"]

MAX_SPECTRA_BYTES = 1 << 30
"""Memory for the transforms of all profiles, beyond which jobs are added directly."""


@dataclass(frozen=True, eq=False)
class PowerBlock:
    """Power and occupancy over `B` intervals of `K` pools.

    Parameters
    ----------
    t0_ms, dt_ms : int
        Start of the first interval and length of each [ms].
    it_power_w : numpy.ndarray, shape (K, B), float64
        Mean device power of each pool over each interval [W], idle nodes included.
    busy_nodes : numpy.ndarray, shape (K, B), int64
        Busy nodes of each pool at the interval's start.
    mean_busy_nodes : numpy.ndarray, shape (K, B), float64
        Busy nodes of each pool, mean over the interval.
    facility_power_w : numpy.ndarray, shape (B,), float64
        Power of the facility [W]; equals the device power as no conversion or cooling is modelled.
    """

    t0_ms: int
    dt_ms: int
    it_power_w: Float64Array
    busy_nodes: Int64Array
    mean_busy_nodes: Float64Array
    facility_power_w: Float64Array

    @property
    def starts_ms(self) -> Int64Array:
        """Start of each interval [ms], shape (B,)."""
        return self.t0_ms + np.arange(self.facility_power_w.size, dtype=np.int64) * self.dt_ms


@dataclass(frozen=True)
class Way:
    """How segments are added.

    Parameters
    ----------
    fft_lengths : tuple of int or None
        Intervals of history and length of the transforms; None where all are added directly.
    block_intervals : int
        Intervals that a block may have.
    """

    fft_lengths: tuple[int, int] | None
    block_intervals: int


class BlockSource:
    """Computes any block of a run on its own."""

    def __init__(
        self,
        segments: Segments,
        scenario: Scenario,
        library: ProfileLibrary,
        way: Way,
        dt_ms: int,
        spectra: Spectra | None = None,
    ) -> None:
        facility, pools = scenario.facility, scenario.pool_names()
        self._segments = segments
        self._longest_ms = longest_ms(segments)
        self._sums = _sums(segments, scenario, library, way, dt_ms, spectra)
        self._dt_ms = dt_ms
        self._n_nodes = np.array([[pool.n_nodes] for pool in facility.pools.values()])
        node_types = [facility.node_type_of(pool) for pool in pools]
        self._idle_power_w = np.array([[node_type.idle_power_w] for node_type in node_types])
        self._busy_factor = np.array([[node_type.busy_power_factor] for node_type in node_types])

    def block(self, t0_ms: int, n_steps: int) -> PowerBlock:
        """Return the block of `n_steps` intervals from `t0_ms` on."""
        n_pools = self._n_nodes.size
        energy_j = np.zeros((n_pools, n_steps))
        for part in self._sums:
            part.add(t0_ms, energy_j)
        energy_j *= self._busy_factor
        end_ms = t0_ms + n_steps * self._dt_ms
        active = overlapping(self._segments, self._longest_ms, t0_ms, end_ms)
        busy_nodes, mean_busy = node_occupancy(active, n_pools, t0_ms, self._dt_ms, n_steps)
        idle_w = (self._n_nodes - mean_busy) * self._idle_power_w
        it_power_w = energy_j * (MS_PER_S / self._dt_ms) + idle_w
        return PowerBlock(
            t0_ms, self._dt_ms, it_power_w, busy_nodes, mean_busy, it_power_w.sum(axis=0)
        )


def cheapest_way(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    method: Method,
    step_ms: int,
    n_intervals: int,
) -> Way:
    """Choose how to add segments, by the estimated time and memory."""
    if method != "direct":
        whole = plays_whole_profile(segments, library, step_ms, scenario.horizon_ms)
        if whole.any():
            jobs = segments if whole.all() else segments.take(whole)
            cheaper = spectral_cost_s(jobs, library, n_intervals) < direct_cost_s(jobs, step_ms)
            fits = spectra_bytes(jobs, library) <= MAX_SPECTRA_BYTES
            if method == "spectral" or (cheaper and fits):
                history, length = fft_lengths(jobs, library)
                return Way((history, length), length - history)
    return Way(None, DirectSum.block_intervals)


def _sums(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    way: Way,
    step_ms: int,
    spectra: Spectra | None,
) -> list[DirectSum | SpectralSum]:
    """Return the sums that together add up all segments."""
    if way.fft_lengths is None:
        return [DirectSum(segments, library, step_ms)]
    whole = plays_whole_profile(segments, library, step_ms, scenario.horizon_ms)
    jobs = segments if whole.all() else segments.take(whole)
    spectral = SpectralSum(jobs, library, step_ms, way.fft_lengths, spectra)
    return [spectral, DirectSum(segments.take(~whole), library, step_ms)]
