"""`Segments -> PowerBlock`: the facility's power, block by block, in bounded memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from diploee.power.block_source import BlockSource, Method, PowerBlock, cheapest_way
from diploee.power.remote import RemoteRun, in_order, on_executor
from diploee.power.segments import Segments, longest_ms, overlapping, sorted_by_start
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario

MAX_THREADS = 4
"""Blocks computed at the same time by default at most; each takes some tens of megabytes."""


def power_blocks(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    block_intervals: int | None = None,
    method: Method = "auto",
    step_ms: int | None = None,
    span_ms: tuple[int, int] | None = None,
    n_threads: int | None = None,
    executor: Executor | None = None,
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
    executor : concurrent.futures.Executor, optional
        Computes the blocks instead of threads: a process pool, or a Dask client's ``get_executor``.
        Its workers must reach the files of the library's profiles.

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
    way = cheapest_way(active, scenario, library, method, dt_ms, n_intervals)
    size = min(block_intervals or way.block_intervals, way.block_intervals)
    spans = [
        (begin_ms + first * dt_ms, min(size, n_intervals - first))
        for first in range(0, n_intervals, size)
    ]
    if executor is not None:
        run = RemoteRun.of(scenario, library, way, dt_ms)
        yield from on_executor(executor, run, active, spans, dt_ms)
        return
    source = BlockSource(active, scenario, library, way, dt_ms)
    # Blocks are independent, and their sums run outside the interpreter lock.
    n_threads = min(n_threads or min(MAX_THREADS, os.cpu_count() or 1), len(spans))
    if n_threads < 2:
        yield from itertools.starmap(source.block, spans)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        yield from in_order((threads.submit(source.block, *span) for span in spans), n_threads)


__all__ = ["Method", "PowerBlock", "power_blocks"]
