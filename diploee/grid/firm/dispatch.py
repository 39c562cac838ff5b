"""Dispatch of jobs under a firm level, step by step (compiled).

A job starts when it does in the undisturbed year, unless a call or a waiting job delays
it. In a step of a call:

1. A job that would start waits if the level would be exceeded even with all jobs at the
   lowest caps that they tolerate.
2. If jobs that already run exceed it even so, jobs are paused: the highest tier first,
   within a tier the job with most time to its deadline.
3. The power of each tolerant job is reduced by the same fraction of the difference
   between its full power and its power at its lowest cap.

Once a call is announced, a job that can't be paused and would still run in the call
waits if its power would exceed the level there. Waiting jobs start in the order of
their undisturbed starts, as soon as nodes and the level allow. A job that waits for
nodes may be overtaken by others until it is an hour late.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import BoolArray, Float64Array, Int64Array

ROUNDING = 1e-9
"""Relative tolerance of sums of powers."""

PASSED_MS = 3_600_000
"""ASSUMPTION: delay from which a job that waits for nodes is not overtaken [ms]."""

MAX_TESTED = 1000
"""ASSUMPTION: waiting jobs of a pool that a step tests for a start, the first in order;
schedulers limit them too (Slurm's default_queue_depth is 100). Work that is put off by
later ones is counted when they are tested."""

NEVER_MS = 1 << 62
"""Deadline of a job that has none [ms]."""


class DispatchedJobs(NamedTuple):
    """Jobs of all pools that have tolerant jobs, by undisturbed start, shape (n,)."""

    start_ms: Int64Array  # in the undisturbed year
    end_ms: Int64Array
    n_nodes: Int64Array  # or GPU slots, as the pool allocates them
    pool: Int64Array  # row of the capacity
    kind: Int64Array  # row of `JobKinds`
    n_gpus: Float64Array
    power_w: Float64Array  # mean power above that of its idle nodes
    least_w: Float64Array  # the same at the lowest cap that it tolerates
    deadline_ms: Int64Array  # `NEVER_MS` without


class JobKinds(NamedTuple):
    """Tolerance of each job class to caps and pauses, shape (C,)."""

    tier: Int64Array
    pausable: BoolArray
    checkpoint_ms: Int64Array  # between two checkpoints
    stop_ms: Int64Array  # to write one
    restart_ms: Int64Array
    # By class and cap level, from no cap down to the lowest that the class tolerates,
    # shape (C, L): power saved over that saved at the lowest cap, and relative speed
    saved_fraction: Float64Array
    speed: Float64Array


class CallLimits(NamedTuple):
    """Power limits on jobs, from calls to reduce load, for each step, shape (K,)."""

    room_w: Float64Array  # jobs' allowed power minus their undisturbed; inf: no call
    end_ms: Int64Array  # end of the call that the step belongs to
    ahead_ms: Int64Array  # start of the next announced call that needs relief, or -1
    ahead_w: Float64Array  # lowest power that jobs may draw in a step of that call


class Dispatched(NamedTuple):
    """Changes of jobs' power and work that calls cause."""

    change_w: Float64Array  # mean power of jobs minus undisturbed, shape (K,)
    # Undisturbed work of a step that is done later [GPU ms], shape (K,)
    delayed: Float64Array
    repeated: Float64Array  # work since the last checkpoint, lost [GPU ms], shape (K,)
    restarts: Float64Array  # time of restarts [GPU ms], shape (K,)
    end_ms: Int64Array  # end of each job, shape (n,)


@njit()
def undisturbed_w(jobs: DispatchedJobs, step_ms: int, n_steps: int) -> Float64Array:
    """Return the sum of jobs' mean power above idle in each step [W], shape (K,)."""
    power_w = np.zeros(n_steps)
    for j in range(jobs.start_ms.size):
        begin_ms = max(jobs.start_ms[j], 0)
        end_ms = min(jobs.end_ms[j], n_steps * step_ms)
        for k in range(begin_ms // step_ms, -(-end_ms // step_ms)):
            inside_ms = min(end_ms, (k + 1) * step_ms) - max(begin_ms, k * step_ms)
            power_w[k] += jobs.power_w[j] * (inside_ms / step_ms)
    return power_w


@njit()
def dispatch(
    jobs: DispatchedJobs,
    kinds: JobKinds,
    calls: CallLimits,
    capacity: Int64Array,
    twin_w: Float64Array,
    step_ms: int,
    notice_ms: int,
) -> Dispatched:
    """Simulate the jobs of a year step by step under the limits of calls.

    `capacity` has the nodes of each pool in each step, shape (P, K), and `twin_w` the
    power of the jobs in the undisturbed year [W], from `undisturbed_w`.
    """
    n_steps, n_jobs = twin_w.size, jobs.start_ms.size
    change_w, (delayed, repeated, restarts) = np.zeros(n_steps), np.zeros((3, n_steps))
    begin, end, ready = jobs.start_ms.copy(), jobs.end_ms.copy(), jobs.end_ms * 0
    # Jobs that run or wait, in the order of their undisturbed starts, and of each in a
    # step: time left, time in the step, mean power without and with the lowest cap
    queue, left, room = np.empty((3, n_jobs), np.int64)
    full_w, low_w = np.empty((2, n_jobs))
    bends, goes = np.empty((2, n_jobs), np.bool_)
    n_queue, is_shifted = 0, False
    used, at_end, waiting, seen = np.zeros((4, capacity.shape[0]), np.int64)
    by_pool = np.argsort(jobs.pool, kind="mergesort")  # each pool's by start
    pool_end = np.bincount(jobs.pool, minlength=used.size).cumsum()
    seen[1:] = pool_end[:-1]
    speeds = np.ones(kinds.tier.size)
    for k in range(n_steps):
        t0, t1, ahead_ms = k * step_ms, (k + 1) * step_ms, calls.ahead_ms[k]
        if not is_shifted and calls.room_w[k] >= 0 and ahead_ms < 0:
            continue
        was_shifted, is_shifted, n = is_shifted, False, 0
        used[:], at_end[:], waiting[:] = 0, 0, 0
        for j in queue[:n_queue]:
            if end[j] > t0:
                queue[n], n = j, n + 1
                waiting[jobs.pool[j]] += begin[j] >= t0
        for p in range(used.size):
            while seen[p] < pool_end[p] and jobs.start_ms[by_pool[seen[p]]] < t1:
                if was_shifted and waiting[p] == MAX_TESTED:
                    is_shifted = True
                    break
                j, at, seen[p] = by_pool[seen[p]], n, seen[p] + 1
                if was_shifted and begin[j] < t0:  # waited untested
                    delayed[k] += jobs.n_gpus[j] * (min(end[j], t0) - begin[j])
                    begin[j], end[j] = t0, t0 + end[j] - begin[j]
                if end[j] > t0:
                    while at and queue[at - 1] > j:
                        queue[at], at = queue[at - 1], at - 1
                    queue[at], n = j, n + 1
                    waiting[p] += 1
        n_queue, total_w, least_w, ahead_w = n, 0.0, 0.0, 0.0
        for n in range(n_queue):
            j = queue[n]
            kind, p, from_ms = jobs.kind[j], jobs.pool[j], max(begin[j], t0)
            left[n], room[n] = end[j] - from_ms, t1 - from_ms
            in_time = jobs.deadline_ms[j] - end[j] >= step_ms
            bends[n], goes[n] = kinds.tier[kind] > 0 and in_time, begin[j] < t0
            full_w[n] = jobs.power_w[j] * min(left[n], room[n]) / step_ms
            low_w[n] = full_w[n]
            if bends[n]:
                slowed = min(left[n] / kinds.speed[kind, -1], room[n])
                low_w[n] = jobs.least_w[j] * slowed / step_ms
            if goes[n] or not bends[n]:  # intolerant starts before others
                least_w += low_w[n]
            if goes[n]:
                nodes = jobs.n_nodes[j]
                used[p] += nodes * min(left[n], room[n])
                at_end[p] += nodes * (left[n] > room[n])
                if end[j] > ahead_ms and not (bends[n] and kinds.pausable[kind]):
                    ahead_w += jobs.least_w[j] if bends[n] else jobs.power_w[j]
        # Starts for which there are nodes and the limit has room
        limit_w = twin_w[k] + calls.room_w[k]
        most_w = limit_w + ROUNDING * (abs(limit_w) + twin_w[k])
        is_full = used < 0
        for i in range(n_queue):
            if goes[i]:
                continue
            j = queue[i]
            p, nodes = jobs.pool[j], jobs.n_nodes[j]
            node_ms, stays = nodes * min(left[i], room[i]), nodes * (left[i] > room[i])
            fits = used[p] + node_ms <= capacity[p, k] * step_ms
            fits = not was_shifted or (fits and at_end[p] + stays <= capacity[p, k])
            goes[i] = fits and not is_full[p] and ready[j] <= t0
            is_full[p] |= not fits and t0 - jobs.start_ms[j] >= PASSED_MS
            job_w = 0.0  # in the call ahead, where it can't be paused
            if end[j] > ahead_ms and not (bends[i] and kinds.pausable[jobs.kind[j]]):
                job_w = jobs.least_w[j] if bends[i] else jobs.power_w[j]
            if bends[i]:
                is_held = ahead_ms >= 0 and job_w > max(calls.ahead_w[k] - ahead_w, 0.0)
                goes[i] &= least_w + low_w[i] <= most_w and not is_held
            if goes[i] == bends[i]:
                least_w += low_w[i] if goes[i] else -low_w[i]
            if goes[i]:
                used[p], at_end[p] = used[p] + node_ms, at_end[p] + stays
                ahead_w += job_w
        # Pauses
        if least_w > most_w:
            until_ms, order = calls.end_ms[k], np.full(n_queue, np.inf)
            for i in range(n_queue):
                kind = jobs.kind[queue[i]]
                slack = jobs.deadline_ms[queue[i]] - end[queue[i]]
                may = goes[i] and bends[i] and kinds.pausable[kind]
                if may and slack >= until_ms - t0 + kinds.restart_ms[kind]:
                    order[i] = -kinds.tier[kind] - slack / (2.0 * NEVER_MS)
            for i in np.argsort(order, kind="mergesort"):
                if least_w <= most_w or order[i] == np.inf:
                    break
                j, kind = queue[i], jobs.kind[queue[i]]
                goes[i], ready[j] = False, until_ms
                least_w -= low_w[i]
                if notice_ms < kinds.stop_ms[kind]:
                    done = max(jobs.end_ms[j] - jobs.start_ms[j] - left[i], 0)
                    lost = done % kinds.checkpoint_ms[kind]
                    repeated[k] += jobs.n_gpus[j] * lost
                    left[i] += lost
                restarts[k] += jobs.n_gpus[j] * kinds.restart_ms[kind]
                left[i] += kinds.restart_ms[kind]
        # Caps by a common fraction of headroom, then the work that each job does
        fraction, speeds[:] = 0.0, 1.0
        plain_w = (full_w[:n_queue] * goes[:n_queue]).sum()
        for turn in range(4):  # jobs that end in the step end later at a cap
            if turn:
                added = (total_w - limit_w) / max(plain_w - least_w, most_w - limit_w)
                fraction = min(max(fraction + added, 0.0), 1.0)
                for kind in range(speeds.size):
                    speeds[kind] = np.interp(
                        fraction, kinds.saved_fraction[kind], kinds.speed[kind]
                    )
            total_w = 0.0
            for i in range(n_queue):
                if goes[i]:
                    j, speed = queue[i], speeds[jobs.kind[queue[i]]]
                    job_w = jobs.power_w[j]
                    if bends[i]:
                        job_w -= fraction * (job_w - jobs.least_w[j])
                        total_w += job_w * min(left[i] / speed, room[i]) / step_ms
                    else:
                        total_w += full_w[i]
            if total_w <= most_w:
                break
        change_w[k] = total_w - twin_w[k]
        for i in range(n_queue):
            j, rate = queue[i], 0.0
            if goes[i]:
                rate = speeds[jobs.kind[j]] if bends[i] else 1.0
            if rate < 1:
                done = room[i] * rate
                is_last = left[i] <= done
                done = left[i] if is_last else done
                planned = min(jobs.end_ms[j], t1) - max(jobs.start_ms[j], t0)
                delayed[k] += jobs.n_gpus[j] * max(planned - done, 0.0)
                later = left[i] / rate - room[i] if is_last else left[i] - done
                end[j] = t1 + int(later + 0.5)
                if not goes[i]:
                    begin[j] = t1
            is_shifted |= end[j] != jobs.end_ms[j]
    for p in range(used.size if is_shifted else 0):
        for j in by_pool[seen[p] : pool_end[p]]:
            if begin[j] < t1:
                delayed[-1] += jobs.n_gpus[j] * (min(end[j], t1) - begin[j])
                end[j] += t1 - begin[j]
    return Dispatched(change_w, delayed, repeated, restarts, end)
