"""Blocks computed by the workers of an executor: a process pool, or a Dask cluster."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import uuid4

from diploee.power.block_source import BlockSource, PowerBlock, Way
from diploee.power.segments import Segments, longest_ms, overlapping
from diploee.power.spectral import Spectra
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario

BLOCKS_AHEAD = 32
"""Blocks handed to an executor beyond the one waited for."""


@dataclass(frozen=True)
class RemoteRun:
    """What every block of a run needs besides its segments, to be sent to a worker."""

    token: str
    pickled: bytes

    @classmethod
    def of(cls, scenario: Scenario, library: ProfileLibrary, way: Way, dt_ms: int) -> RemoteRun:
        """Pickle a run once for all its blocks."""
        return cls(uuid4().hex, pickle.dumps((scenario, library, way, dt_ms)))


_lock = Lock()
_worker: dict[str, tuple[Any, Spectra]] = {}
"""In a worker: the run that it works on, with the transforms of its profiles."""


def _remote_block(run: RemoteRun, segments: Segments, t0_ms: int, n_steps: int) -> PowerBlock:
    with _lock:  # a worker may have several threads
        if run.token not in _worker:
            _worker.clear()
            _worker[run.token] = (pickle.loads(run.pickled), {})
        (scenario, library, way, dt_ms), spectra = _worker[run.token]
    source = BlockSource(segments, scenario, library, way, dt_ms, spectra)
    return source.block(t0_ms, n_steps)


def on_executor(
    executor: Executor, run: RemoteRun, segments: Segments, spans: list[tuple[int, int]], dt_ms: int
) -> Iterator[PowerBlock]:
    """Compute the blocks on workers, each with the segments that overlap it."""
    longest = longest_ms(segments)
    share = getattr(executor, "share", None)  # sends it to every worker once
    shared = run if share is None else share(run)

    def submitted() -> Iterator[Future[PowerBlock]]:
        for t0_ms, n_steps in spans:
            active = overlapping(segments, longest, t0_ms, t0_ms + n_steps * dt_ms)
            yield executor.submit(_remote_block, shared, active, t0_ms, n_steps)

    yield from in_order(submitted(), BLOCKS_AHEAD)


def in_order(submitted: Iterator[Future[PowerBlock]], n_ahead: int) -> Iterator[PowerBlock]:
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
