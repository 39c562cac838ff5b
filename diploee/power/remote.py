"""Blocks computed by the workers of an executor: a process pool, or a Dask cluster."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from diploee.power.blocks import PowerBlock, PowerModel
    from diploee.power.segments import Segments

_lock = Lock()
_worker: dict[str, PowerModel] = {}
"""In a worker: the run that it works on, with the tables and transforms of its profiles."""


@dataclass(frozen=True)
class RemoteRun:
    """The model of a run, pickled once for all its blocks."""

    token: str
    pickled: bytes

    @classmethod
    def of(cls, model: PowerModel) -> RemoteRun:
        """Pickle a model."""
        return cls(uuid4().hex, pickle.dumps(model))


def remote_block(
    run: RemoteRun, segments: Segments, t0_ms: int, n_steps: int, spectral: bool
) -> PowerBlock:
    """Compute a block in a worker; arguments as in `PowerModel.block`."""
    with _lock:  # a worker may have several threads
        if run.token not in _worker:
            _worker.clear()
            _worker[run.token] = pickle.loads(run.pickled)
        model = _worker[run.token]
        if spectral:
            model.prepare(segments, t0_ms, n_steps)
    return model.block(segments, t0_ms, n_steps, spectral)
