"""`Segments -> PowerBlock`: the facility's power, block by block, in bounded memory."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.power.direct import DirectSum, direct_cost_s
from diploee.power.occupancy import node_occupancy
from diploee.power.segments import Segments, longest_ms, overlapping, sorted_by_start
from diploee.power.spectral import SpectralSum, plays_whole_profile, spectral_cost_s
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S

Method = Literal["auto", "direct", "spectral"]

MAX_THREADS = 4
"""Blocks computed at the same time by default at most; each takes some tens of megabytes."""


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
    n_threads: int | None = None,
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
    n_threads : int, optional
        Blocks computed at the same time; as many as there are cores, at most four, by default.

    Yields
    ------
    PowerBlock
        Blocks in the order of time.

    Raises
    ------
    ValueError
        If the span is not whole intervals.
    """
    dt_ms = step_ms or scenario.resolution_ms
    begin_ms, finish_ms = span_ms or (0, scenario.horizon_ms)
    if begin_ms % dt_ms or finish_ms % dt_ms:
        raise ValueError(f"span {begin_ms}-{finish_ms} ms is no multiple of {dt_ms} ms")
    n_intervals = (finish_ms - begin_ms) // dt_ms
    segments = sorted_by_start(segments)
    active = overlapping(segments, longest_ms(segments), begin_ms, finish_ms)
    sums, largest_block = _sums(active, scenario, library, method, dt_ms, n_intervals)
    source = _BlockSource(active, scenario, sums, dt_ms)
    size = min(block_intervals or largest_block, largest_block)
    spans = [
        (begin_ms + first * dt_ms, min(size, n_intervals - first))
        for first in range(0, n_intervals, size)
    ]
    # Blocks are independent, and their sums run outside the interpreter lock.
    n_threads = min(n_threads or min(MAX_THREADS, os.cpu_count() or 1), len(spans))
    if n_threads < 2:
        yield from itertools.starmap(source.block, spans)
        return
    with ThreadPoolExecutor(n_threads) as executor:
        ahead: deque[Future[PowerBlock]] = deque()
        for span in spans:
            ahead.append(executor.submit(source.block, *span))
            if len(ahead) > n_threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class _BlockSource:
    """Computes any block of a run on its own."""

    def __init__(
        self,
        segments: Segments,
        scenario: Scenario,
        sums: Sequence[DirectSum | SpectralSum],
        dt_ms: int,
    ) -> None:
        facility, pools = scenario.facility, scenario.pool_names()
        self._segments = segments
        self._longest_ms = longest_ms(segments)
        self._sums = sums
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
            jobs = segments if whole.all() else segments.take(whole)
            spectral_s = spectral_cost_s(jobs, library, n_intervals)
            if method == "spectral" or spectral_s < direct_cost_s(jobs, step_ms):
                spectral = SpectralSum(jobs, library, step_ms)
                rest = DirectSum(segments.take(~whole), library, step_ms)
                return [spectral, rest], spectral.block_intervals
    return [DirectSum(segments, library, step_ms)], DirectSum.block_intervals
