"""Node occupancy of a pool from its segments, at instants and as means over intervals."""

from __future__ import annotations

import numpy as np

from diploee.power.segments import Segments
from diploee.tables import Float64Array, Int64Array


class Occupancy:
    """Busy nodes of one pool over time.

    Parameters
    ----------
    segments : Segments
        Segments of the pool.
    """

    def __init__(self, segments: Segments) -> None:
        self._starts = _Steps(segments.start_ms, segments.n_nodes.astype(np.int64))
        self._ends = _Steps(segments.end_ms, segments.n_nodes.astype(np.int64))

    def at(self, times_ms: Int64Array) -> Int64Array:
        """Return the busy nodes at instants; a segment counts from its start to before its end."""
        return self._starts.until(times_ms) - self._ends.until(times_ms)

    def mean(self, t0_ms: int, step_ms: int, n_steps: int) -> Float64Array:
        """Return the mean busy nodes over each of `n_steps` intervals from `t0_ms` on."""
        rises = self._starts.node_ms(t0_ms, step_ms, n_steps)
        falls = self._ends.node_ms(t0_ms, step_ms, n_steps)
        busy_ms = int(self.at(np.array([t0_ms]))[0]) * step_ms
        mean: Float64Array = (busy_ms + rises - falls) / step_ms
        return mean


class _Steps:
    """A sum of upward steps: `n_nodes` at each of `times_ms`."""

    def __init__(self, times_ms: Int64Array, n_nodes: Int64Array) -> None:
        order = np.argsort(times_ms, kind="stable")
        self.times_ms = times_ms[order]
        self.n_nodes = n_nodes[order]
        self.total = np.concatenate([[0], np.cumsum(self.n_nodes)])

    def until(self, times_ms: Int64Array) -> Int64Array:
        """Height at instants, steps at the very instant included."""
        reached: Int64Array = self.total[np.searchsorted(self.times_ms, times_ms, side="right")]
        return reached

    def node_ms(self, t0_ms: int, step_ms: int, n_steps: int) -> Float64Array:
        """Integral over each interval of what rose after `t0_ms` [node ms]; whole numbers."""
        low, high = np.searchsorted(self.times_ms, [t0_ms, t0_ms + n_steps * step_ms], side="right")
        at, into_ms = np.divmod(self.times_ms[low:high] - t0_ms, step_ms)
        # A step exactly at the end of the last interval adds nothing to it.
        at, into_ms = np.minimum(at, n_steps - 1), np.where(at == n_steps, step_ms, into_ms)
        n_nodes = self.n_nodes[low:high]
        in_own = np.bincount(at, n_nodes * (step_ms - into_ms), minlength=n_steps)
        risen = np.bincount(at, n_nodes, minlength=n_steps)
        later: Float64Array = in_own + (np.cumsum(risen) - risen) * step_ms
        return later
