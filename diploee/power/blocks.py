"""`Segments -> PowerBlock`: the facility's power, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.power.direct import DirectSum, direct_cost_s
from diploee.power.occupancy import node_occupancy
from diploee.power.segments import Segments, longest_ms, overlapping, sorted_by_start
from diploee.power.spectral import SpectralSum, plays_whole_profile
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S

Method = Literal["auto", "direct", "spectral"]


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


def power_blocks(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    block_intervals: int | None = None,
    method: Method = "auto",
    step_ms: int | None = None,
    span_ms: tuple[int, int] | None = None,
) -> Iterator[PowerBlock]:
    """Sum segments and idle nodes into the facility's power.

    Parameters
    ----------
    segments : Segments
        Loads of all pools.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.
    block_intervals : int, optional
        Intervals per block; it bounds the memory and does not change the values.
    method : {"auto", "direct", "spectral"}
        How whole jobs at their profile's sampling step are added; ``auto`` takes the cheaper.
    step_ms : int, optional
        Interval [ms] other than the scenario's resolution.
    span_ms : tuple of int, optional
        Start and end [ms] other than the whole run, multiples of the interval.

    Yields
    ------
    PowerBlock
        Blocks in the order of time.
    """
    dt_ms = step_ms or scenario.resolution_ms
    begin_ms, finish_ms = span_ms or (0, scenario.horizon_ms)
    n_intervals = (finish_ms - begin_ms) // dt_ms
    pools = scenario.pool_names()
    segments = sorted_by_start(segments)
    longest = longest_ms(segments)
    active = overlapping(segments, longest, begin_ms, finish_ms)
    sums, largest_block = _sums(active, scenario, library, method, dt_ms, n_intervals)
    n_nodes = np.array([pool.n_nodes for pool in scenario.facility.pools.values()])
    idle_power_w = np.array([scenario.facility.node_type_of(pool).idle_power_w for pool in pools])

    block_intervals = min(block_intervals or largest_block, largest_block)
    for first in range(0, n_intervals, block_intervals):
        n_steps = min(block_intervals, n_intervals - first)
        t0_ms = begin_ms + first * dt_ms
        energy_j = np.zeros((len(pools), n_steps))
        for part in sums:
            part.add(t0_ms, energy_j)
        active = overlapping(segments, longest, t0_ms, t0_ms + n_steps * dt_ms)
        busy_nodes, mean_busy = node_occupancy(active, len(pools), t0_ms, dt_ms, n_steps)
        idle_w = (n_nodes[:, None] - mean_busy) * idle_power_w[:, None]
        it_power_w = energy_j * (MS_PER_S / dt_ms) + idle_w
        yield PowerBlock(t0_ms, dt_ms, it_power_w, busy_nodes, mean_busy, it_power_w.sum(axis=0))


def _sums(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    method: Method,
    step_ms: int,
    n_intervals: int,
) -> tuple[list[DirectSum | SpectralSum], int]:
    """Return the sums that add up all segments, and the largest block that they can fill."""
    if method != "direct":
        whole = plays_whole_profile(segments, library, step_ms, scenario.horizon_ms)
        if whole.any():
            jobs = segments.take(whole)
            spectral = SpectralSum(jobs, library, step_ms)
            cheaper = spectral.cost_s(n_intervals) < direct_cost_s(jobs, step_ms)
            if method == "spectral" or cheaper:
                rest = DirectSum(segments.take(~whole), library, step_ms)
                return [spectral, rest], spectral.block_intervals
    return [DirectSum(segments, library, step_ms)], DirectSum.block_intervals
