"""Requests served by one service over time, and the number of its instances.

Time is divided into intervals: within one, the number of instances is constant and the
request rate is linear. Arrays of shape (P,) have one value per interval.

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
"""Relative rounding error that requires no further instance."""

MAX_GROUPS = 256
"""Maximum number of groups in which a service starts and stops its instances."""

# Time of an event that never happens [ms]
NEVER_MS = np.iinfo(np.int64).max


class ScalingRules(NamedTuple):
    """Rules that scale a service's instances, and handle requests above capacity."""

    max_rate_rps: float  # rate per instance in Eq. 4 [1/s]
    # Highest rate that an instance completes [1/s]; infinite if it serves all
    completion_rate_rps: float
    n_max: int  # maximum number of instances on the reserved nodes
    n_min: int = 0  # minimum number of instances
    startup_ms: int = 0  # time from the start of an instance to its first request
    cooldown_ms: int = 0  # time from the last need of an instance to its stop
    interval_ms: int = 0  # time between scaling decisions; 0: at any time
    phase_ms: int = 0  # time of one of these decisions
    # Time in which a backlog is to be served [s]: Eq. 4 adds the backlog over this time
    # to the rate. 0: no backlog, requests above capacity are rejected
    drain_s: float = 0.0

    @property
    def has_memory(self) -> bool:
        """Whether the number of instances depends on past request rates."""
        return bool(
            self.startup_ms or self.cooldown_ms or self.interval_ms or self.drain_s
        )

    def needed(self, rate_rps: Float64Array, n_max: int) -> Float64Array:
        """Return the needed instances at rates, for rules without memory (Eq. 4)."""
        whole = np.ceil(rate_rps / self.max_rate_rps * (1 - ROUNDING))
        return np.asarray(np.minimum(np.maximum(whole, self.n_min), n_max))


@dataclass(frozen=True, eq=False)
class ServedRequests:
    """Instances and served requests of one service over P time intervals.

    Requests are conserved over the whole time: backlog at its start + offered = served
    + unserved + backlog at its end.
    """

    edges_ms: Int64Array  # edges of the intervals [ms], shape (P + 1,)
    rate_rps: Float64Array  # mean rate of offered requests [1/s], shape (P,)
    served_rps: Float64Array  # mean rate of served requests [1/s], shape (P,)
    unserved_rps: Float64Array  # mean rate of rejected requests [1/s], shape (P,)
    backlog_requests: Float64Array  # requests waiting at the edges, shape (P + 1,)
    n_instances: Int32Array  # instances that are up, starting ones included
    n_serving: Int32Array  # instances that are up and serve

    @cached_property
    def step_s(self) -> Float64Array:
        """Length of each interval [s], shape (P,)."""
        return np.diff(self.edges_ms) / MS_PER_S

    @cached_property
    def has_backlog(self) -> bool:
        """Whether requests wait at any time."""
        return bool((self.backlog_requests > 0).any())

    def from_time(self, time_ms: int) -> ServedRequests:
        """Return the requests and instances after a time [ms].

        An interval that includes the time is cut there.
        """
        if self.edges_ms[0] >= time_ms:
            return self
        first = int(np.searchsorted(self.edges_ms, time_ms, side="right")) - 1
        later = self.intervals(first, self.rate_rps.size)
        edges_ms, backlog = later.edges_ms.copy(), later.backlog_requests.copy()
        backlog[0] = np.interp(time_ms, edges_ms[:2], backlog[:2])
        edges_ms[0] = time_ms
        return replace(later, edges_ms=edges_ms, backlog_requests=backlog)

    def intervals(self, first: int, stop: int) -> ServedRequests:
        """Return the intervals `first` to `stop` - 1."""
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
    times_ms: Int64Array, rate_rps: Float64Array, max_rate_rps: float, n_max: int
) -> tuple[Int64Array, Float64Array]:
    """Cut time where a rate crosses a multiple of one instance's rate (Eq. 4).

    The rate is linear between the times `times_ms`. Multiples above `n_max` are
    ignored. Returns edges [ms], which are the times `times_ms` and the crossings, and
    the mean rate of each interval between edges [1/s]. Assumed: instances beyond
    `MAX_GROUPS` start and stop in groups of equal size, so the crossings are those of
    multiples of a group's rate.
    """
    n_groups = max(1, min(n_max, MAX_GROUPS))
    group_rps = max_rate_rps * max(1, n_max) / n_groups
    # Levels above this limit cause no crossing
    level = np.minimum(rate_rps / group_rps, n_groups + 2.0)
    max_edges = int(np.abs(np.diff(np.floor(level))).sum()) + 2 * level.size
    edges_ms, mean_rps = np.empty(max_edges, dtype=np.int64), np.empty(max_edges)
    n = _find_edges(times_ms, rate_rps, level, group_rps, n_groups, edges_ms, mean_rps)
    return edges_ms[: n + 1], mean_rps[:n]


@njit()
def _find_edges(
    times_ms: Int64Array,
    rate_rps: Float64Array,
    level: Float64Array,
    group_rps: float,
    n_groups: int,
    edges_ms: Int64Array,
    mean_rps: Float64Array,
) -> int:
    """Fill `edges_ms` and `mean_rps` with the intervals between crossings.

    Returns the number of intervals.
    """
    n, last_point = -1, times_ms.size - 1
    start_ms, start_rps, slope = times_ms[0], 0.0, 0.0  # line at the last edge
    for k in range(times_ms.size):
        edge_ms, n_cuts, first, step = times_ms[k], 0, 0, 1
        rise_rps = length_ms = 0.0
        if k < last_point:
            rise_rps, length_ms = (
                rate_rps[k + 1] - rate_rps[k],
                float(times_ms[k + 1] - edge_ms),
            )
            low, high = level[k], level[k + 1]
            if rise_rps < 0:
                low, high = high, low
            # A level that is whole except for rounding is not crossed.
            first = int(np.floor(low * (1 + ROUNDING))) + 1
            last = int(np.ceil(high * (1 - ROUNDING))) - 1
            last = n_groups if last > n_groups else last
            n_cuts = last - first + 1
            if rise_rps < 0:
                first, step = last, -1
        for cut in range(n_cuts + 1 if n_cuts > 0 else 1):
            if cut:
                fraction = (
                    (first + step * (cut - 1)) * group_rps - rate_rps[k]
                ) / rise_rps
                edge_ms = times_ms[k] + int(np.rint(fraction * length_ms))
            # Of edges at the same time only the last one, of the later step, remains.
            if n < 0 or edge_ms > edges_ms[n]:
                if n >= 0:
                    mean_rps[n] = start_rps + slope * (
                        (edges_ms[n] + edge_ms) / 2 - start_ms
                    )
                n += 1
            edges_ms[n] = edge_ms
            if k < last_point:
                start_ms, start_rps, slope = (
                    times_ms[k],
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
    """Simulate the instances and served requests of one service (Eqs. 4 and 6).

    An instance is up while it is needed and for the cool-down time after that. It
    serves after it has been up for its start-up time; assumed: instances needed at the
    beginning have been up before. Requests above the capacity of the serving instances
    are rejected (R_incomplete of Eq. 6), or wait in a first-in-first-out queue, modeled
    as a fluid. Requests above capacity by rounding alone are served.

    `n_max` is the maximum number of instances in each given interval and never falls;
    `speed` is the speed of an instance relative to `rules`. The given intervals are cut
    further at times when instances start or stop or when the queue becomes empty.
    """
    if n_max is None:
        n_max = np.full(rate_rps.size, rules.n_max)
    if speed is None:
        speed = np.ones(rate_rps.size)
    rules = rules._replace(  # integers would compile another variant of the kernel
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
        # Stacks of the needed instances and of those not up, out of the maximum, each
        # with the times at which a value expires. An instance serves once it has been
        # up during the whole start-up time.
        needed, absent = np.empty((2, 2, size + 2), dtype=np.int64)
        n_pieces = _simulate(
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
        _compact_copy(lost[:n_pieces]),
        _compact_copy(waiting[: n_pieces + 1]),
        up[:n_pieces].astype(np.int32),
        serving[:n_pieces].astype(np.int32),
    )


def _compact_copy(values: Float64Array) -> Float64Array:
    """Return a copy of values; the copy takes no memory if all values are 0."""
    return values.copy() if values.any() else np.zeros(values.size)


@njit(inline="always")
def whole_instances(rate_rps: float, max_rate_rps: float, n_max: int) -> int:
    """Return the number of instances for a rate [1/s] (Eq. 4).

    The number is ``K = min(ceil(R / R_max), N_max)``; a rate of ``k R_max``, within
    rounding, gives ``k``.
    """
    quotient = rate_rps / max_rate_rps * (1 - ROUNDING)
    return n_max if quotient >= n_max else ceil(quotient)


@njit(inline="always")
def _complete_rate(
    n_instances: int, rate_rps: float, completion_rate_rps: float
) -> bool:
    """Return True if instances complete a rate.

    The expression is that of `whole_instances`, so the instances that it returns always
    complete the rate.
    """
    return bool(rate_rps / completion_rate_rps * (1 - ROUNDING) <= n_instances)


@njit(inline="always")
def _push_value(
    value: int, retain_ms: int, now_ms: int, stack: Int64Array, first: int, last: int
) -> tuple[int, int]:
    """Push a value onto a stack whose first value is the maximum over a time window.

    Returns the index of the first and of the last value. A value expires `retain_ms`
    after a smaller one has followed it. The stack contains the unexpired values and
    their times of expiry: values fall and times rise along it, so that the first value
    is always the largest of the last `retain_ms`.
    """
    if value < stack[0, last]:
        stack[1, last] = now_ms + retain_ms
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
def _serve_interval(
    rate: float,
    serving: int,
    instance_rps: float,
    backlog: float,
    drain_s: float,
    now_ms: int,
    next_ms: int,
) -> tuple[int, float, float, float]:
    """Return an interval's end [ms], served and rejected rates [1/s] and backlog.

    The backlog is that at the end of the interval.
    """
    is_enough = rate <= 0 or (
        serving > 0 and _complete_rate(serving, rate, instance_rps)
    )
    capacity = serving * instance_rps if serving > 0 else 0.0
    if not (drain_s > 0 and (backlog > 0 or not is_enough)):
        served_rps = rate if is_enough else capacity
        return next_ms, served_rps, rate - served_rps, 0.0
    if backlog > 0 and rate < capacity:
        empties_ms = now_ms + int(np.ceil(backlog / (capacity - rate) * 1000.0))
        next_ms = min(next_ms, max(empties_ms, now_ms + 1))
    length_s = (next_ms - now_ms) / 1000.0
    end_backlog = max(0.0, backlog + (rate - capacity) * length_s)
    return next_ms, rate + (backlog - end_backlog) / length_s, 0.0, end_backlog


@njit()
def _simulate(
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
    """Fill `whole` and `amounts` with the intervals between events.

    Returns the number of intervals, or -1 if the arrays are too short. Rows of `whole`:
    start [ms], instances up, instances serving. Rows of `amounts`: rates offered,
    served and rejected [1/s], and backlog at the start.
    """
    size, n_installed = amounts.shape[1] - 1, rules.n_max
    needed_first = needed_last = absent_first = absent_last = 0
    needed[1, 0] = absent[1, 0] = NEVER_MS
    now_ms, step, n_pieces, backlog, n_needed = edges_ms[0], 0, 0, 0.0, 0
    decision_ms, last_decision_ms, n_arrived = NEVER_MS, now_ms, 0.0
    if rules.interval_ms > 0:
        decision_ms = now_ms + (rules.phase_ms - now_ms) % rules.interval_ms
        if decision_ms == now_ms:
            decision_ms += rules.interval_ms
    end_ms = edges_ms[-1]
    while now_ms < end_ms:
        if n_pieces == size:
            return -1
        rate = rate_rps[step]
        # Eq. 4 with the present rate, or the mean rate since the last decision.
        scaling_rps = rate
        is_decision = rules.interval_ms == 0 or n_pieces == 0
        if now_ms == decision_ms:
            scaling_rps = n_arrived / ((now_ms - last_decision_ms) / 1000.0)
            n_arrived, last_decision_ms = 0.0, now_ms
            decision_ms += rules.interval_ms
            is_decision = True
        if is_decision:
            if rules.drain_s > 0:
                scaling_rps += backlog / rules.drain_s
            n_limit, scaling_rate_rps = n_max[step], rules.max_rate_rps * speed[step]
            n_needed = max(
                min(rules.n_min, n_limit),
                whole_instances(scaling_rps, scaling_rate_rps, n_limit),
            )
        if n_pieces == 0:
            needed[0, 0], absent[0, 0] = n_needed, n_installed - n_needed
        needed_first, needed_last = _push_value(
            n_needed, rules.cooldown_ms, now_ms, needed, needed_first, needed_last
        )
        n_up = needed[0, needed_first]
        absent_first, absent_last = _push_value(
            n_installed - n_up,
            rules.startup_ms,
            now_ms,
            absent,
            absent_first,
            absent_last,
        )
        n_serving = n_installed - absent[0, absent_first]
        next_ms = min(edges_ms[step + 1], decision_ms)
        next_ms = min(next_ms, needed[1, needed_first], absent[1, absent_first])
        next_ms, served_rps, rejected_rps, end_backlog = _serve_interval(
            rate,
            n_serving,
            rules.completion_rate_rps * speed[step],
            backlog,
            rules.drain_s,
            now_ms,
            next_ms,
        )
        whole[0, n_pieces], whole[1, n_pieces], whole[2, n_pieces] = (
            now_ms,
            n_up,
            n_serving,
        )
        amounts[0, n_pieces], amounts[1, n_pieces] = rate, served_rps
        amounts[2, n_pieces], amounts[3, n_pieces] = rejected_rps, backlog
        n_pieces += 1
        n_arrived += rate * ((next_ms - now_ms) / 1000.0)
        backlog, now_ms = end_backlog, next_ms
        if now_ms == edges_ms[step + 1]:
            step += 1
    whole[0, n_pieces], amounts[3, n_pieces] = end_ms, backlog
    return n_pieces


def fifo_wait_s(
    edges_s: Float64Array,
    rate_rps: Float64Array,
    served_rps: Float64Array,
    final_rate_rps: float,
    fraction: float = 0.5,
) -> Float64Array:
    """Return the waiting time in the queue for the requests of each interval [s].

    The queue is first in, first out, and modeled as a fluid: a request waits from its
    arrival until as many requests have been served as had arrived before it. `fraction`
    selects the request within each interval: 0 is the first, 0.5 the middle, 1 the
    last. Assumed: requests that still wait at the end are served at `final_rate_rps`,
    the rate of all instances.
    """
    step_s = np.diff(edges_s)
    arrived = np.concatenate([[0.0], np.cumsum(rate_rps * step_s)])
    served = np.concatenate([[0.0], np.cumsum(served_rps * step_s)])
    if arrived[-1] == 0:
        return np.zeros(rate_rps.size)
    end_backlog = max(0.0, arrived[-1] - served[-1])
    served_edges_s = np.append(edges_s, edges_s[-1] + end_backlog / final_rate_rps)
    served = np.append(served, served[-1] + end_backlog)
    arrival_s = edges_s[:-1] * (1 - fraction) + edges_s[1:] * fraction
    arrival_number = arrived[:-1] * (1 - fraction) + arrived[1:] * fraction
    # For a time without service only its end is used, at which service resumes.
    increases = np.append(np.diff(served) > 0, True)
    departure_s = np.interp(
        arrival_number, served[increases], served_edges_s[increases]
    )
    # Without a backlog the waiting time is 0; interpolation would give rounding errors.
    wait_s: Float64Array = np.where(
        _has_backlog(arrived, served), departure_s - arrival_s, 0.0
    )
    return np.maximum(wait_s, 0.0)


def _has_backlog(arrived: Float64Array, served: Float64Array) -> BoolArray:
    """Return the intervals with a backlog at their start or end, as a mask.

    A backlog within rounding does not count.
    """
    n_edges = arrived.size
    waiting = arrived - served[:n_edges] > 1e-9 * max(1.0, float(arrived[-1]))
    return waiting[:-1] | waiting[1:]
