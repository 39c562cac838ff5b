"""`Segments -> PowerBlock`: the facility's power, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diploee.power.kernel import EnergyTables, mean_power_w
from diploee.power.occupancy import Occupancy
from diploee.power.segments import Segments
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import Float64Array, Int64Array

BLOCK_INTERVALS = 1 << 18
"""Intervals per block; a block of one pool takes a few tens of megabytes."""


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
    block_intervals: int = BLOCK_INTERVALS,
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
    block_intervals : int
        Intervals per block; it bounds the memory and does not change the values.

    Yields
    ------
    PowerBlock
        Blocks in the order of time, from the start to the horizon.
    """
    dt_ms = scenario.resolution_ms
    used = np.unique(segments.profile_id).tolist()
    tables = EnergyTables.build({index: library[index] for index in used}, dt_ms)
    pools = scenario.pool_names()
    by_start = np.argsort(segments.start_ms, kind="stable")
    segments = segments.take(by_start)
    longest_ms = int((segments.end_ms - segments.start_ms).max(initial=0))
    occupancy = [Occupancy(segments.take(segments.pool_id == k)) for k in range(len(pools))]
    n_nodes = np.array([pool.n_nodes for pool in scenario.facility.pools.values()])
    idle_power_w = np.array([scenario.facility.node_type_of(pool).idle_power_w for pool in pools])

    for first in range(0, scenario.n_intervals, block_intervals):
        n_steps = min(block_intervals, scenario.n_intervals - first)
        t0_ms = first * dt_ms
        t1_ms = t0_ms + n_steps * dt_ms
        low, high = np.searchsorted(segments.start_ms, [t0_ms - longest_ms, t1_ms])
        energy_j = np.zeros((len(pools), n_steps))
        tables.add(segments.take(slice(low, high)), t0_ms, energy_j)

        starts_ms = t0_ms + np.arange(n_steps, dtype=np.int64) * dt_ms
        busy_nodes = np.stack([of_pool.at(starts_ms) for of_pool in occupancy])
        mean_busy = np.stack([of_pool.mean(t0_ms, dt_ms, n_steps) for of_pool in occupancy])
        idle_w = (n_nodes[:, None] - mean_busy) * idle_power_w[:, None]
        it_power_w = mean_power_w(energy_j, dt_ms) + idle_w
        yield PowerBlock(t0_ms, dt_ms, it_power_w, busy_nodes, mean_busy, it_power_w.sum(axis=0))
