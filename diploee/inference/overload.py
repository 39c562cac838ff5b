"""What happens to requests above capacity: rejected, or kept in a backlog and served later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from diploee.inference.instances import rolling_max, suffice, whole_instances
from diploee.tables import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True)
class ScalingRules:
    """How one service scales.

    Parameters
    ----------
    max_rate_rps : float
        Rate that an instance is given at most [1/s].
    completion_rate_rps : float
        Rate that an instance completes at most [1/s].
    n_max, n_min : int
        Most instances, by the reserved nodes, and fewest.
    startup_steps, cooldown_steps : int
        Start-up and cool-down time in planning steps.
    degrade : bool
        Keep a backlog instead of rejecting.
    """

    max_rate_rps: float
    completion_rate_rps: float
    n_max: int
    n_min: int = 0
    startup_steps: int = 0
    cooldown_steps: int = 0
    degrade: bool = False

    @property
    def scaling_rate_rps(self) -> float:
        """Rate per instance that Eq. 4 scales by [1/s].

        R_max; with `degrade` at most what an instance completes, as what it is given beyond that
        would wait beside idle nodes.
        """
        if self.degrade:
            return min(self.max_rate_rps, self.completion_rate_rps)
        return self.max_rate_rps


@dataclass(frozen=True, eq=False)
class ServedRequests:
    """Instances and served requests of one service in every planning step.

    Requests are conserved: over the span, offered = served + unserved + backlog at the end.

    Parameters
    ----------
    n_instances : numpy.ndarray, shape (T,), int64
        Instances that are up, starting ones included.
    n_serving : numpy.ndarray, shape (T,), int64
        Instances that serve.
    served_rps, unserved_rps : numpy.ndarray, shape (T,), float64
        Rates of served and of rejected requests [1/s].
    backlog_requests : numpy.ndarray, shape (T + 1,), float64
        Requests that wait at the edges of the steps.
    """

    n_instances: Int64Array
    n_serving: Int64Array
    served_rps: Float64Array
    unserved_rps: Float64Array
    backlog_requests: Float64Array


def serve_requests(
    rate_rps: Float64Array, step_s: Float64Array, rules: ScalingRules
) -> ServedRequests:
    """Scale and serve one service step by step (Eqs. 4 and 6).

    With `reject` what is above ``K R_max`` is unserved, R_incomplete of Eq. 6. With `degrade` it
    waits, first in first out as a fluid; Eq. 4 counts the waiting requests in and scales by no more
    than an instance completes, so that free nodes work the backlog off. Requests wait only while
    all nodes are taken or instances start up.

    An instance is up while it is needed and for its cool-down time; it serves once it has been up
    for its start-up time (ASSUMPTION: what the first step needs is up at the start of the run).
    What instances lack by rounding alone they serve.

    Parameters
    ----------
    rate_rps : numpy.ndarray, shape (T,), float64
        Offered request rate [1/s].
    step_s : numpy.ndarray, shape (T,), float64
        Length of the steps [s].
    rules : ScalingRules
        Capacity and limits.
    """
    n_steps = rate_rps.size
    occupied = np.zeros(n_steps, dtype=np.int64)
    serving = np.zeros_like(occupied)
    served, unserved = np.zeros(n_steps), np.zeros(n_steps)
    backlog = np.zeros(n_steps + 1)
    _serve(
        rate_rps,
        step_s,
        rules.scaling_rate_rps,
        rules.completion_rate_rps,
        rules.n_max,
        min(rules.n_min, rules.n_max),
        rules.startup_steps,
        rules.cooldown_steps,
        rules.degrade,
        occupied,
        serving,
        served,
        unserved,
        backlog,
    )
    return ServedRequests(occupied, serving, served, unserved, backlog)


@njit(cache=True, nogil=True)
def _serve(
    rate_rps: Float64Array,
    step_s: Float64Array,
    scaling_rate_rps: float,
    completion_rate_rps: float,
    n_max: int,
    n_min: int,
    startup_steps: int,
    cooldown_steps: int,
    degrade: bool,
    occupied: Int64Array,
    serving: Int64Array,
    served_rps: Float64Array,
    unserved_rps: Float64Array,
    backlog: Float64Array,
) -> None:
    n_steps = rate_rps.size
    needed, absent = np.empty(n_steps, dtype=np.int64), np.empty(n_steps, dtype=np.int64)
    lately_needed, lately_absent = np.empty_like(needed), np.empty_like(needed)
    needed_ends, absent_ends = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for t in range(n_steps):
        demand = rate_rps[t] + backlog[t] / step_s[t]
        needed[t] = max(n_min, whole_instances(demand, scaling_rate_rps, n_max))
        occupied[t] = rolling_max(needed, t, cooldown_steps, lately_needed, needed_ends)
        absent[t] = n_max - occupied[t]
        serving[t] = n_max - rolling_max(absent, t, startup_steps, lately_absent, absent_ends)
        served_rps[t] = demand
        if not suffice(serving[t], demand, completion_rate_rps):
            served_rps[t] = serving[t] * completion_rate_rps
        if degrade:
            backlog[t + 1] = (demand - served_rps[t]) * step_s[t]
        else:
            unserved_rps[t] = demand - served_rps[t]


def fifo_wait_s(
    edges_s: Float64Array,
    rate_rps: Float64Array,
    served_rps: Float64Array,
    final_rate_rps: float,
) -> Float64Array:
    """Return how long the requests of each step wait in the backlog.

    First in, first out, as a fluid: the wait of a step is that of its middle request, from its
    arrival until as many requests are served as had arrived.

    Parameters
    ----------
    edges_s : numpy.ndarray, shape (T + 1,), float64
        Edges of the steps [s].
    rate_rps, served_rps : numpy.ndarray, shape (T,), float64
        Arriving and served requests [1/s].
    final_rate_rps : float
        Rate at which what still waits at the end is served [1/s] (ASSUMPTION: all instances).

    Returns
    -------
    numpy.ndarray, shape (T,), float64
        Wait [s].
    """
    step_s = np.diff(edges_s)
    arrived = np.concatenate([[0.0], np.cumsum(rate_rps * step_s)])
    served = np.concatenate([[0.0], np.cumsum(served_rps * step_s)])
    if arrived[-1] == 0:
        return np.zeros(rate_rps.size)
    left = max(0.0, arrived[-1] - served[-1])
    leaving_s = np.append(edges_s, edges_s[-1] + left / final_rate_rps)
    served = np.append(served, served[-1] + left)
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    middle = (arrived[:-1] + arrived[1:]) / 2
    # Where nothing is served for a while, its later edge is the one at which serving resumes.
    rising = np.append(np.diff(served) > 0, True)
    served_at_s = np.interp(middle, served[rising], leaving_s[rising])
    # Without a backlog a request is served as it comes, but for rounding.
    wait_s: Float64Array = np.where(_waits(arrived, served), served_at_s - middle_s, 0.0)
    return np.maximum(wait_s, 0.0)


def _waits(arrived: Float64Array, served: Float64Array) -> BoolArray:
    """Return the steps at whose start or end requests wait, beyond rounding."""
    n_edges = arrived.size
    waiting = arrived - served[:n_edges] > 1e-9 * max(1.0, float(arrived[-1]))
    either: BoolArray = waiting[:-1] | waiting[1:]
    return either
