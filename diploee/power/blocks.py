"""`Segments -> PowerBlock`: the device power of a run, block by block, in bounded memory.

Blocks lie on a grid that the profiles and the interval set. A block is put together from parts,
each computed as soon as the segments that reach into it are known; an interval's value is the same
whatever part it is computed in, so that windows, threads and workers change no bit of it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from itertools import chain

from diploee.power.block_source import PowerBlock, PowerModel, joined
from diploee.power.remote import RemoteRun, remote_block
from diploee.power.segments import ActiveSegments, Segments

MAX_THREADS = 4
"""Parts computed at the same time by default at most; each takes some tens of megabytes."""

BLOCKS_AHEAD = 32
"""Parts handed to an executor beyond the one waited for."""

Window = tuple[Segments, int]
"""Segments that start before a time [ms] and after those of the window before; that time."""

Part = tuple[Segments, int, int, bool]
"""Arguments of `PowerModel.block`."""


def power_stream(
    model: PowerModel,
    windows: Iterable[Window],
    *,
    span_ms: tuple[int, int] | None = None,
    n_threads: int | None = None,
    executor: Executor | None = None,
    block_intervals: int | None = None,
) -> Iterator[PowerBlock]:
    """Sum segments and idle nodes into device power while the segments come in, block by block.

    The time of the last window is the end of the run; `span_ms` is another start and end, multiples
    of the interval. Parts are computed by `n_threads` at the same time, while the next window is
    made: as many as there are cores by default, at most four; with 0 in turn, on one core. An
    `executor` computes them instead: a process pool, or a Dask client's ``get_executor``, whose
    workers must reach the files of the library's profiles. `block_intervals` are those of a block
    where no transform sets them.
    """
    sums = PowerSums(model, span_ms, block_intervals)
    n_workers = default_threads() if n_threads is None else max(n_threads, 1)
    # Holds no window while the next one is made.
    parts = chain.from_iterable(map(partial(sums.parts, n_workers=n_workers), windows))
    if executor is not None:
        run = RemoteRun.of(model)
        share = getattr(executor, "share", None)  # sends it to every worker once
        shared = run if share is None else share(run)
        tasks = (executor.submit(remote_block, shared, *part) for part in parts)
        yield from filter(None, map(sums.put, _in_order(tasks, BLOCKS_AHEAD)))
        return
    if n_threads == 0:
        yield from filter(None, map(sums.put, (model.block(*part) for part in parts)))
        return
    # Parts are independent, and their sums run outside the interpreter lock.
    with ThreadPoolExecutor(n_workers) as threads:
        tasks = (threads.submit(model.block, *part) for part in parts)
        yield from filter(None, map(sums.put, _in_order(tasks, n_workers)))


class PowerSums:
    """Cuts a run into parts that can be computed on their own, and joins them to blocks."""

    def __init__(
        self,
        model: PowerModel,
        span_ms: tuple[int, int] | None = None,
        block_intervals: int | None = None,
    ) -> None:
        self._begin_ms, self._end_ms = span_ms or (0, model.horizon_ms)
        if self._begin_ms % model.dt_ms or self._end_ms % model.dt_ms:
            raise ValueError(
                f"span {self._begin_ms}-{self._end_ms} ms is no multiple of {model.dt_ms} ms"
            )
        size = min(block_intervals or model.block_intervals, model.block_intervals)
        self._model, self._block_ms = model, size * model.dt_ms
        self._active = ActiveSegments()
        self._cut_ms = self._begin_ms
        self._held: list[PowerBlock] = []

    def parts(self, window: Window, n_workers: int) -> Iterator[Part]:
        """Yield the arguments of `PowerModel.block` for each part that a window settles."""
        segments, until_ms = window
        self._active.add(segments)
        model = self._model
        known_ms = min(until_ms // model.dt_ms * model.dt_ms, self._end_ms)
        while self._cut_ms < known_ms:
            begin_ms, end_ms = self._cut_ms, self._block_end(self._cut_ms)
            n_parts = n_workers
            if model.fft_lengths is not None:
                if end_ms > known_ms:
                    break  # a transform takes the whole block
                n_parts = 1
            self._cut_ms = end_ms = min(end_ms, known_ms)
            for t0_ms, n_steps in _shares(begin_ms, end_ms, model.dt_ms, n_parts):
                inside = self._active.within(t0_ms, t0_ms + n_steps * model.dt_ms)
                if model.fft_lengths is not None:
                    # A transform spreads rounding over its block: nothing that ended before may
                    # take part in it, as what else is held depends on the windows.
                    inside = inside.take(inside.end_ms > t0_ms)
                yield inside, t0_ms, n_steps, model.prepare(inside, t0_ms, n_steps)
        self._active.drop_before(self._cut_ms)

    def put(self, part: PowerBlock) -> PowerBlock | None:
        """Take in the next part; returns the block that it completes."""
        self._held.append(part)
        if part.end_ms < self._block_end(self._held[0].t0_ms):
            return None
        block, self._held = joined(self._held), []
        return block

    def advance(self, window: Window, threads: ThreadPoolExecutor) -> list[PowerBlock]:
        """Return the blocks that a window completes."""
        parts = list(self.parts(window, default_threads()))
        done = threads.map(lambda part: self._model.block(*part), parts)
        return [block for block in map(self.put, done) if block is not None]

    def _block_end(self, time_ms: int) -> int:
        """Return the end of the block that holds a time [ms]."""
        number = (time_ms - self._begin_ms) // self._block_ms
        return min(self._begin_ms + (number + 1) * self._block_ms, self._end_ms)


def default_threads() -> int:
    """Return how many parts are computed at the same time where nobody says."""
    return min(MAX_THREADS, os.cpu_count() or 1)


LEAST_SHARE = 1 << 10
"""Intervals of a part at least, below which it costs more than it computes."""


def _shares(begin_ms: int, end_ms: int, dt_ms: int, n_parts: int) -> Iterator[tuple[int, int]]:
    """Cut a span into parts for the workers; yields start [ms] and number of intervals of each."""
    n_steps = (end_ms - begin_ms) // dt_ms
    size = n_steps if n_parts == 1 else max(-(-n_steps // n_parts), LEAST_SHARE)
    for first in range(0, n_steps, size):
        yield begin_ms + first * dt_ms, min(size, n_steps - first)


def _in_order(submitted: Iterator[Future[PowerBlock]], n_ahead: int) -> Iterator[PowerBlock]:
    """Yield results in order, with so many under way beyond the one that is waited for."""
    waiting: deque[Future[PowerBlock]] = deque()
    try:
        for future in submitted:
            waiting.append(future)
            if len(waiting) > n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
