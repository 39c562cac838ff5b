"""Requests served by one service over time, and its instances' starts and stops.

See also: docs/models/serving.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import BoolArray, Float64Array, Int32Array, Int64Array
from diploee.base.units import MS_PER_S

ROUNDING = 1e-12
"""Relative rounding error that does not call for another instance."""

MAX_GROUPS = 256
"""A service of more instances starts and stops them in this number of groups."""

NEVER_MS = np.iinfo(np.int64).max


class ScalingRules(NamedTuple):
    """How one service scales, and what happens to requests above its capacity."""

    max_rate_rps: float  # rate per instance that Eq. 4 scales by [1/s]
    # Rate that an instance completes at most [1/s]; infinite where it serves all
    completion_rate_rps: float
    n_max: int  # most instances, by the reserved nodes
    n_min: int = 0  # fewest
    startup_ms: int = 0  # time from the start of an instance to its first request
    cooldown_ms: int = 0  # time from the last need of an instance to its end
    interval_ms: int = 0  # time between decisions to scale; 0: at once
    phase_ms: int = 0  # time of one of these decisions
    # What is not served at once waits; Eq. 4 counts what waits in, over this time [s].
    # 0: nothing waits, what is not served is rejected
    drain_s: float = 0.0

    @property
    def remember(self) -> bool:
        """Whether instances depend on more than the rate of the moment."""
        return bool(
            self.startup_ms or self.cooldown_ms or self.interval_ms or self.drain_s
        )

    def needed(self, rate_rps: Float64Array, n_max: int) -> Float64Array:
        """Return instances up at rates where these rules remember nothing (Eq. 4)."""
        whole = np.ceil(rate_rps / self.max_rate_rps * (1 - ROUNDING))
        return np.asarray(np.minimum(np.maximum(whole, self.n_min), n_max))


@dataclass(frozen=True, eq=False)
class ServedRequests:
    """Instances and served requests of one service, piece by piece of time (P of them).

    Requests are conserved: over the span, backlog at its start + offered =
    served + unserved + backlog at its end.
    """

    edges_ms: Int64Array  # edges of the pieces [ms], shape (P + 1,)
    rate_rps: Float64Array  # offered requests, means over each piece [1/s], shape (P,)
    served_rps: Float64Array  # served requests, likewise
    unserved_rps: Float64Array  # rejected requests, likewise
    backlog_requests: Float64Array  # requests that wait at the edges, shape (P + 1,)
    n_instances: Int32Array  # instances that are up, starting ones included
    n_serving: Int32Array  # those of them that serve

    @cached_property
    def step_s(self) -> Float64Array:
        """Length of each piece [s], shape (P,)."""
        return np.diff(self.edges_ms) / MS_PER_S

    @cached_property
    def has_backlog(self) -> bool:
        """Whether requests ever wait."""
        return bool((self.backlog_requests > 0).any())

    def since(self, time_ms: int) -> ServedRequests:
        """Return what happens from a time in the span [ms], cutting a piece there."""
        if self.edges_ms[0] >= time_ms:
            return self
        first = int(np.searchsorted(self.edges_ms, time_ms, side="right")) - 1
        later = self.pieces(first, self.rate_rps.size)
        edges_ms, backlog = later.edges_ms.copy(), later.backlog_requests.copy()
        backlog[0] = np.interp(time_ms, edges_ms[:2], backlog[:2])
        edges_ms[0] = time_ms
        return replace(later, edges_ms=edges_ms, backlog_requests=backlog)

    def pieces(self, first: int, stop: int) -> ServedRequests:
        """Return the pieces from one to before another."""
        return ServedRequests(
            self.edges_ms[first : stop + 1],
            self.rate_rps[first:stop],
            self.served_rps[first:stop],
            self.unserved_rps[first:stop],
            self.backlog_requests[first : stop + 1],
            self.n_instances[first:stop],
            self.n_serving[first:stop],
        )


def cut_at_crossings(
    nodes_ms: Int64Array, rate_rps: Float64Array, max_rate_rps: float, n_max: int
) -> tuple[Int64Array, Float64Array]:
    """Cut time where a rate passes a multiple of one instance's (Eq. 4).

    The rate is linear between its times `nodes_ms`; multiples above `n_max` are no
    matter. Returns edges [ms], the nodes and the crossings, and the mean rate of each
    piece between them [1/s]. ASSUMPTION: a large service scales in groups: beyond
    `MAX_GROUPS` instances the crossings are those of even groups of them.
    """
    n_groups = max(1, min(n_max, MAX_GROUPS))
    group_rps = max_rate_rps * max(1, n_max) / n_groups
    # Beyond it nothing changes
    level = np.minimum(rate_rps / group_rps, n_groups + 2.0)
    most = int(np.abs(np.diff(np.floor(level))).sum()) + 2 * level.size
    edges_ms, mean_rps = np.empty(most, dtype=np.int64), np.empty(most)
    n = _cut(nodes_ms, rate_rps, level, group_rps, n_groups, edges_ms, mean_rps)
    return edges_ms[: n + 1], mean_rps[:n]


@njit()
def _cut(
    nodes_ms: Int64Array,
    rate_rps: Float64Array,
    level: Float64Array,
    group_rps: float,
    n_groups: int,
    edges_ms: Int64Array,
    mean_rps: Float64Array,
) -> int:
    """Find the edges, and the mean rate from each to the next.

    Return the number of pieces.
    """
    n, last_node = -1, nodes_ms.size - 1
    node_ms, start_rps, slope = nodes_ms[0], 0.0, 0.0  # of the step of the last edge
    for k in range(nodes_ms.size):
        at_ms, n_cuts, first, step = nodes_ms[k], 0, 0, 1
        rise_rps = length_ms = 0.0
        if k < last_node:
            rise_rps, length_ms = (
                rate_rps[k + 1] - rate_rps[k],
                float(nodes_ms[k + 1] - at_ms),
            )
            low, high = level[k], level[k + 1]
            if rise_rps < 0:
                low, high = high, low
            # A level that is whole but for rounding is passed by none.
            first = int(np.floor(low * (1 + ROUNDING))) + 1
            last = int(np.ceil(high * (1 - ROUNDING))) - 1
            last = n_groups if last > n_groups else last
            n_cuts = last - first + 1
            if rise_rps < 0:
                first, step = last, -1
        for cut in range(n_cuts + 1 if n_cuts > 0 else 1):
            if cut:
                share = (
                    (first + step * (cut - 1)) * group_rps - rate_rps[k]
                ) / rise_rps
                at_ms = nodes_ms[k] + int(np.rint(share * length_ms))
            # Of equal times the last, of the later step
            if n < 0 or at_ms > edges_ms[n]:
                if n >= 0:
                    mean_rps[n] = start_rps + slope * (
                        (edges_ms[n] + at_ms) / 2 - node_ms
                    )
                n += 1
            edges_ms[n] = at_ms
            if k < last_node:
                node_ms, start_rps, slope = (
                    nodes_ms[k],
                    rate_rps[k],
                    rise_rps / length_ms,
                )
    return n


def serve_requests(
    edges_ms: Int64Array,
    rate_rps: Float64Array,
    rules: ScalingRules,
    n_max: Int64Array | None = None,
    speed: Float64Array | None = None,
) -> ServedRequests:
    """Scale and serve one service through time (Eqs. 4 and 6).

    An instance is up while it is needed and for its cool-down time; it serves once it
    has been up for its start-up time (ASSUMPTION: what is needed at the beginning is up
    then). Requests above what the serving instances complete are rejected (R_incomplete
    of Eq. 6), or wait as a fluid, first in first out. What instances lack by rounding
    alone they serve.

    `n_max` is the most instances in each piece, nowhere falling, and `speed` what an
    instance does over what it does by the rules. The pieces given are cut further where
    instances start or stop or the last request leaves the queue.
    """
    if n_max is None:
        n_max = np.full(rate_rps.size, rules.n_max)
    if speed is None:
        speed = np.ones(rate_rps.size)
    rules = rules._replace(  # of whole numbers another kernel would be compiled
        max_rate_rps=float(rules.max_rate_rps),
        completion_rate_rps=float(rules.completion_rate_rps),
        drain_s=float(rules.drain_s),
    )
    size = 2 * rate_rps.size + 16
    while True:
        whole, amounts = (
            np.empty((3, size + 1), dtype=np.int64),
            np.empty((4, size + 1)),
        )
        # What is needed, and when it ceases to count; what is missing of the most,
        # likewise: an instance serves once none of the last start-up time was without
        # it.
        needed, absent = np.empty((2, 2, size + 2), dtype=np.int64)
        n_pieces = _serve(
            edges_ms, rate_rps, n_max, speed, rules, needed, absent, whole, amounts
        )
        if n_pieces >= 0:
            break
        size *= 2
    (times_ms, up, serving), (rate, out, lost, waiting) = whole, amounts
    return ServedRequests(
        times_ms[: n_pieces + 1].copy(),
        rate[:n_pieces].copy(),
        out[:n_pieces].copy(),
        _kept(lost[:n_pieces]),
        _kept(waiting[: n_pieces + 1]),
        up[:n_pieces].astype(np.int32),
        serving[:n_pieces].astype(np.int32),
    )


def _kept(values: Float64Array) -> Float64Array:
    """Return a copy, which takes no memory where all are 0."""
    return values.copy() if values.any() else np.zeros(values.size)


@njit(inline="always")
def whole_instances(rate_rps: float, max_rate_rps: float, n_max: int) -> int:
    """Return ``K = min(ceil(R / R_max), N_max)`` (Eq. 4, whole and rounded up).

    A rate of exactly ``k R_max``, but for rounding, gives ``k``.
    """
    quotient = rate_rps / max_rate_rps * (1 - ROUNDING)
    return n_max if quotient >= n_max else ceil(quotient)


@njit(inline="always")
def _suffice(n_instances: int, rate_rps: float, completion_rate_rps: float) -> bool:
    """Return whether instances complete a rate, rounded as `whole_instances`.

    The same expression, so that instances scaled by a rate complete it.
    """
    return bool(rate_rps / completion_rate_rps * (1 - ROUNDING) <= n_instances)


@njit(inline="always")
def _keep(
    value: int, hold_ms: int, now_ms: int, stack: Int64Array, first: int, last: int
) -> tuple[int, int]:
    """Take a value into a stack of those that still count.

    Return where it begins and ends. Each value counts for `hold_ms` after a smaller one
    took its place: the stack has values and until when they count. Values fall along it
    and the times rise, so that the largest of the last `hold_ms` is always the first.
    """
    if value < stack[0, last]:
        stack[1, last] = now_ms + hold_ms
        last += 1
        stack[0, last], stack[1, last] = value, NEVER_MS
    elif value > stack[0, last]:
        while last > first and stack[0, last] <= value:
            last -= 1
        if stack[0, last] > value:
            last += 1
        stack[0, last], stack[1, last] = value, NEVER_MS
    while first < last and stack[1, first] <= now_ms:
        first += 1
    return first, last


@njit(inline="always")
def _served(
    rate: float,
    serving: int,
    each_rps: float,
    waiting: float,
    drain_s: float,
    now_ms: int,
    next_ms: int,
) -> tuple[int, float, float, float]:
    """Return a piece's end [ms], rates served and lost [1/s], and the wait."""
    enough = rate <= 0 or (serving > 0 and _suffice(serving, rate, each_rps))
    capacity = serving * each_rps if serving > 0 else 0.0
    if not (drain_s > 0 and (waiting > 0 or not enough)):
        out = rate if enough else capacity
        return next_ms, out, rate - out, 0.0
    if waiting > 0 and rate < capacity:
        empty_ms = now_ms + int(np.ceil(waiting / (capacity - rate) * 1000.0))
        next_ms = min(next_ms, max(empty_ms, now_ms + 1))
    length_s = (next_ms - now_ms) / 1000.0
    left = max(0.0, waiting + (rate - capacity) * length_s)
    return next_ms, rate + (waiting - left) / length_s, 0.0, left


@njit()
def _serve(
    edges_ms: Int64Array,
    rate_rps: Float64Array,
    n_max: Int64Array,
    speed: Float64Array,
    rules: ScalingRules,
    needed: Int64Array,
    absent: Int64Array,
    whole: Int64Array,
    amounts: Float64Array,
) -> int:
    """Go from event to event.

    Return the number of pieces, or -1 where they do not fit.
    """
    size, n_most = amounts.shape[1] - 1, rules.n_max
    needed_first = needed_last = absent_first = absent_last = 0
    needed[1, 0] = absent[1, 0] = NEVER_MS
    now_ms, step, n_pieces, waiting, wanted = edges_ms[0], 0, 0, 0.0, 0
    decision_ms, since_ms, arrived = NEVER_MS, now_ms, 0.0
    if rules.interval_ms > 0:
        decision_ms = now_ms + (rules.phase_ms - now_ms) % rules.interval_ms
        if decision_ms == now_ms:
            decision_ms += rules.interval_ms
    end_ms = edges_ms[-1]
    while now_ms < end_ms:
        if n_pieces == size:
            return -1
        rate = rate_rps[step]
        # Eq. 4, at once or as the mean of the last interval between decisions asks.
        asked = rate
        decides = rules.interval_ms == 0 or n_pieces == 0
        if now_ms == decision_ms:
            asked = arrived / ((now_ms - since_ms) / 1000.0)
            arrived, since_ms = 0.0, now_ms
            decision_ms += rules.interval_ms
            decides = True
        if decides:
            if rules.drain_s > 0:
                asked += waiting / rules.drain_s
            most, each_rps = n_max[step], rules.max_rate_rps * speed[step]
            wanted = max(min(rules.n_min, most), whole_instances(asked, each_rps, most))
        if n_pieces == 0:
            needed[0, 0], absent[0, 0] = wanted, n_most - wanted
        needed_first, needed_last = _keep(
            wanted, rules.cooldown_ms, now_ms, needed, needed_first, needed_last
        )
        up = needed[0, needed_first]
        absent_first, absent_last = _keep(
            n_most - up, rules.startup_ms, now_ms, absent, absent_first, absent_last
        )
        serving = n_most - absent[0, absent_first]
        next_ms = min(edges_ms[step + 1], decision_ms)
        next_ms = min(next_ms, needed[1, needed_first], absent[1, absent_first])
        next_ms, out, lost, left = _served(
            rate,
            serving,
            rules.completion_rate_rps * speed[step],
            waiting,
            rules.drain_s,
            now_ms,
            next_ms,
        )
        whole[0, n_pieces], whole[1, n_pieces], whole[2, n_pieces] = now_ms, up, serving
        amounts[0, n_pieces], amounts[1, n_pieces] = rate, out
        amounts[2, n_pieces], amounts[3, n_pieces] = lost, waiting
        n_pieces += 1
        arrived += rate * ((next_ms - now_ms) / 1000.0)
        waiting, now_ms = left, next_ms
        if now_ms == edges_ms[step + 1]:
            step += 1
    whole[0, n_pieces], amounts[3, n_pieces] = end_ms, waiting
    return n_pieces


def fifo_wait_s(
    edges_s: Float64Array,
    rate_rps: Float64Array,
    served_rps: Float64Array,
    final_rate_rps: float,
    at: float = 0.5,
) -> Float64Array:
    """Return how long the requests of each step wait in the backlog [s].

    First in, first out, as a fluid: the wait of a step is that of its middle request,
    or that at another part of it, from its arrival until as many requests are served as
    had arrived. ASSUMPTION: what still waits at the end is served at a final rate, that
    of all instances.
    """
    step_s = np.diff(edges_s)
    arrived = np.concatenate([[0.0], np.cumsum(rate_rps * step_s)])
    served = np.concatenate([[0.0], np.cumsum(served_rps * step_s)])
    if arrived[-1] == 0:
        return np.zeros(rate_rps.size)
    left = max(0.0, arrived[-1] - served[-1])
    leaving_s = np.append(edges_s, edges_s[-1] + left / final_rate_rps)
    served = np.append(served, served[-1] + left)
    middle_s = edges_s[:-1] * (1 - at) + edges_s[1:] * at
    middle = arrived[:-1] * (1 - at) + arrived[1:] * at
    # Where nothing is served for a while, its later edge is the one at which serving
    # resumes.
    rising = np.append(np.diff(served) > 0, True)
    served_at_s = np.interp(middle, served[rising], leaving_s[rising])
    # Without a backlog a request is served as it comes, but for rounding.
    wait_s: Float64Array = np.where(
        _waits(arrived, served), served_at_s - middle_s, 0.0
    )
    return np.maximum(wait_s, 0.0)


def _waits(arrived: Float64Array, served: Float64Array) -> BoolArray:
    """Return the steps at whose start or end requests wait, beyond rounding."""
    n_edges = arrived.size
    waiting = arrived - served[:n_edges] > 1e-9 * max(1.0, float(arrived[-1]))
    return waiting[:-1] | waiting[1:]
