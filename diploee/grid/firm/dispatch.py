"""Dispatch of jobs under a firm level, step by step (compiled).

Jobs start when they do in the undisturbed year, unless a call or a job before them
holds them. In each step of a call, jobs that tolerate it are capped by a common
fraction of their headroom; starts that all caps together can't absorb wait; then jobs
are paused, those that tolerate most and have most time first. Before a call that is
known, jobs that would run into it and can't be paused wait where it would not have
them. What waits starts in its order as soon as nodes and the level allow it; others
pass a job that waits for nodes until it is an hour late.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import BoolArray, Float64Array, Int64Array

ROUNDING = 1e-9
"""Relative tolerance of sums of powers."""

PASSED_MS = 3_600_000
"""ASSUMPTION: how late a job may be before none passes it [J]."""

NEVER_MS = 1 << 62
"""Deadline of a job that has none [ms]."""


class Jobs(NamedTuple):
    """Jobs of the pools in which some can wait, by undisturbed start, shape (n,)."""

    start_ms: Int64Array  # in the undisturbed year
    end_ms: Int64Array
    n_nodes: Int64Array  # or GPU slots, as the pool allocates them
    pool: Int64Array  # row of the capacity
    kind: Int64Array  # row of `Kinds`
    n_gpus: Float64Array
    power_w: Float64Array  # mean power above that of its idle nodes
    least_w: Float64Array  # the same at the lowest cap that it tolerates
    deadline_ms: Int64Array  # `NEVER_MS` without


class Kinds(NamedTuple):
    """What the classes of jobs tolerate, shape (C,)."""

    tier: Int64Array
    pausable: BoolArray
    checkpoint_ms: Int64Array  # between two checkpoints
    stop_ms: Int64Array  # to write one
    restart_ms: Int64Array
    # Fraction of the headroom given, and speed, at each cap, shape (C, L), ascending
    given: Float64Array
    speed: Float64Array


class Calls(NamedTuple):
    """Limits of the steps of a year, shape (K,)."""

    room_w: Float64Array  # that jobs may draw above the undisturbed year; inf: no call
    end_ms: Int64Array  # of the call that a step belongs to
    ahead_ms: Int64Array  # start of the next call that is known and needs relief, or -1
    ahead_w: Float64Array  # least that its jobs may draw


class Dispatched(NamedTuple):
    """What a dispatch did."""

    change_w: Float64Array  # mean power of jobs above the undisturbed year, shape (K,)
    # Work of the undisturbed year in a step that is done later [GPU ms], shape (K,)
    delayed: Float64Array
    repeated: Float64Array  # work since the last checkpoint, lost [GPU ms], shape (K,)
    restarts: Float64Array  # time of restarts [GPU ms], shape (K,)
    end_ms: Int64Array  # end of each job, shape (n,)


@njit()
def undisturbed_w(jobs: Jobs, step_ms: int, n_steps: int) -> Float64Array:
    """Return the mean power of jobs above idle in each step [W], shape (K,)."""
    power_w = np.zeros(n_steps)
    for j in range(jobs.start_ms.size):
        begin_ms = max(jobs.start_ms[j], 0)
        end_ms = min(jobs.end_ms[j], n_steps * step_ms)
        for k in range(begin_ms // step_ms, -(-end_ms // step_ms)):
            inside_ms = min(end_ms, (k + 1) * step_ms) - max(begin_ms, k * step_ms)
            power_w[k] += jobs.power_w[j] * (inside_ms / step_ms)
    return power_w


@njit()
def _planned_ms(jobs: Jobs, j: int, begin_ms: int, end_ms: int) -> int:
    """Return how long a job runs between two times in the undisturbed year [ms]."""
    inside_ms = min(jobs.end_ms[j], end_ms) - max(jobs.start_ms[j], begin_ms)
    return int(max(inside_ms, 0))


@njit()
def _lowest_w(
    jobs: Jobs, kinds: Kinds, j: int, left_ms: int, room_ms: int, step_ms: int
) -> float:
    """Return the mean power in a step of a job at its lowest cap, which ends later."""
    slowed_ms = left_ms / kinds.speed[jobs.kind[j], -1]
    return float(jobs.least_w[j] * min(slowed_ms, room_ms) / step_ms)


@njit()
def _speed(given: Float64Array, speed: Float64Array, fraction: float) -> float:
    """Return the speed at a fraction of the headroom, linear between caps."""
    for level in range(1, given.size):
        if fraction <= given[level]:
            width = given[level] - given[level - 1]
            part = (fraction - given[level - 1]) / width if width > 0 else 1.0
            return float(speed[level - 1] + part * (speed[level] - speed[level - 1]))
    return float(speed[-1])


@njit()
def _capped(
    jobs: Jobs,
    kinds: Kinds,
    running: Int64Array,
    tolerates: BoolArray,
    begin_ms: Int64Array,
    end_ms: Int64Array,
    span_ms: tuple[int, int],
    fraction: float,
    speeds: Float64Array,
) -> float:
    """Return the mean power of running jobs that give a fraction of headroom [W]."""
    for kind in range(speeds.size):
        speeds[kind] = _speed(kinds.given[kind], kinds.speed[kind], fraction)
    total_w, step_ms = 0.0, span_ms[1] - span_ms[0]
    for i in range(running.size):
        j = running[i]
        from_ms = max(begin_ms[j], span_ms[0])
        room_ms, left_ms = span_ms[1] - from_ms, end_ms[j] - from_ms
        speed, job_w = 1.0, jobs.power_w[j]
        if tolerates[i]:
            speed = speeds[jobs.kind[j]]
            job_w -= fraction * (job_w - jobs.least_w[j])
        total_w += job_w * min(left_ms / speed, room_ms) / step_ms
    return total_w


@njit()
def dispatch(
    jobs: Jobs,
    kinds: Kinds,
    calls: Calls,
    capacity: Int64Array,
    twin_w: Float64Array,
    step_ms: int,
    notice_ms: int,
) -> Dispatched:
    """Return what jobs do under the calls of a year.

    `capacity` are the nodes of each pool in each step, shape (P, K), and `twin_w` is
    the power of the jobs in the undisturbed year, from `undisturbed_w`.
    """
    n_jobs, n_steps = jobs.start_ms.size, twin_w.size
    change_w, delayed = np.zeros(n_steps), np.zeros(n_steps)
    repeated, restarts = np.zeros(n_steps), np.zeros(n_steps)
    begin_ms, end_ms = jobs.start_ms.copy(), jobs.end_ms.copy()
    ready_ms = np.zeros(n_jobs, dtype=np.int64)
    running, waiting = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int64)
    n_running = n_waiting = n_seen = n_kept = 0
    n_pools = capacity.shape[0]
    speeds = np.ones(kinds.tier.size)
    is_shifted = False
    for k in range(n_steps):
        t0, t1 = k * step_ms, (k + 1) * step_ms
        first = n_seen
        while n_seen < n_jobs and jobs.start_ms[n_seen] < t1:
            n_seen += 1
        n_new = n_seen - first
        is_calm = n_waiting == 0 and not is_shifted and calls.ahead_ms[k] < 0
        if is_calm and calls.room_w[k] >= 0:
            running[n_running : n_running + n_new] = np.arange(first, n_seen)
            n_running += n_new
            if n_running > 2 * n_kept + 1000:
                n_kept = 0
                for i in range(n_running):
                    if end_ms[running[i]] > t1:
                        running[n_kept] = running[i]
                        n_kept += 1
                n_running = n_kept
            continue
        limit_w = twin_w[k] + calls.room_w[k]
        most_w = limit_w + ROUNDING * (abs(limit_w) + twin_w[k])
        tolerates = np.zeros(n_running + n_waiting + n_new, np.bool_)
        used_ms, at_end = np.zeros(n_pools, np.int64), np.zeros(n_pools, np.int64)
        is_full = np.zeros(n_pools, np.bool_)
        full_w = least_w = ahead_w = 0.0
        # Jobs that run
        n_kept = 0
        for i in range(n_running):
            j = running[i]
            if end_ms[j] <= t0:
                continue
            from_ms = max(begin_ms[j], t0)
            inside_ms = min(end_ms[j], t1) - from_ms
            job_w = jobs.power_w[j] * (inside_ms / step_ms)
            tolerant = (
                kinds.tier[jobs.kind[j]] > 0
                and jobs.deadline_ms[j] - end_ms[j] >= step_ms
            )
            full_w += job_w
            if tolerant:
                left_ms = end_ms[j] - from_ms
                job_w = _lowest_w(jobs, kinds, j, left_ms, t1 - from_ms, step_ms)
            least_w += job_w
            is_free = tolerant and kinds.pausable[jobs.kind[j]]
            if end_ms[j] > calls.ahead_ms[k] and not is_free:
                ahead_w += jobs.least_w[j] if tolerant else jobs.power_w[j]
            used_ms[jobs.pool[j]] += jobs.n_nodes[j] * inside_ms
            at_end[jobs.pool[j]] += jobs.n_nodes[j] * (end_ms[j] > t1)
            running[n_kept], tolerates[n_kept] = j, tolerant
            n_kept += 1
        n_running = n_kept
        # Starts: intolerant ones count before those that may wait for power
        is_shared = n_waiting > 0 or is_shifted
        waiting[n_waiting : n_waiting + n_new] = np.arange(first, n_seen)
        n_asked, n_waiting = n_waiting + n_new, 0
        for i in range(n_asked):
            j = waiting[i]
            if kinds.tier[jobs.kind[j]] == 0:
                inside_ms = min(end_ms[j], t1) - max(begin_ms[j], t0)
                full_w += jobs.power_w[j] * (inside_ms / step_ms)
                least_w += jobs.power_w[j] * (inside_ms / step_ms)
        for i in range(n_asked):
            j, pool = waiting[i], jobs.pool[waiting[i]]
            from_ms = max(begin_ms[j], t0)
            inside_ms = min(end_ms[j], t1) - from_ms
            full_job_w = job_w = jobs.power_w[j] * (inside_ms / step_ms)
            is_tier_0 = kinds.tier[jobs.kind[j]] == 0
            tolerant = not is_tier_0 and jobs.deadline_ms[j] - end_ms[j] >= step_ms
            is_free = tolerant and kinds.pausable[jobs.kind[j]]
            lowest_w = jobs.least_w[j] if tolerant else jobs.power_w[j]
            if tolerant:
                left_ms = end_ms[j] - from_ms
                job_w = _lowest_w(jobs, kinds, j, left_ms, t1 - from_ms, step_ms)
            may = ready_ms[j] <= t0
            if may and is_shared:
                nodes = jobs.n_nodes[j]
                room_ms = capacity[pool, k] * step_ms - used_ms[pool]
                fits = nodes * inside_ms <= room_ms and (
                    end_ms[j] <= t1 or at_end[pool] + nodes <= capacity[pool, k]
                )
                may = fits and not is_full[pool]
                is_full[pool] |= not fits and t0 - jobs.start_ms[j] >= PASSED_MS
            waits = False
            if may and tolerant:
                waits = least_w + job_w > most_w
                if 0 <= calls.ahead_ms[k] < end_ms[j] and not is_free:
                    waits |= ahead_w + lowest_w > calls.ahead_w[k]
            if may and not waits:
                running[n_running], tolerates[n_running] = j, tolerant
                n_running += 1
                used_ms[pool] += jobs.n_nodes[j] * inside_ms
                at_end[pool] += jobs.n_nodes[j] * (end_ms[j] > t1)
                if end_ms[j] > calls.ahead_ms[k] and not is_free:
                    ahead_w += lowest_w
                if not is_tier_0:
                    full_w += full_job_w
                    least_w += job_w
                continue
            if is_tier_0:
                full_w -= full_job_w
                least_w -= job_w
            delayed[k] += jobs.n_gpus[j] * _planned_ms(jobs, j, t0, t1)
            end_ms[j] += t1 - from_ms
            begin_ms[j] = t1
            waiting[n_waiting] = j
            n_waiting += 1
        # Pauses
        if least_w > most_w:
            order = np.full(n_running, np.inf)
            for i in range(n_running):
                j = running[i]
                kind, slack_ms = jobs.kind[j], jobs.deadline_ms[j] - end_ms[j]
                needed_ms = calls.end_ms[k] - t0 + kinds.restart_ms[kind]
                if tolerates[i] and kinds.pausable[kind] and slack_ms >= needed_ms:
                    order[i] = -kinds.tier[kind] - slack_ms / NEVER_MS / 2
            is_paused = np.zeros(n_running, np.bool_)
            for i in np.argsort(order, kind="mergesort"):
                if least_w <= most_w or order[i] == np.inf:
                    break
                j, kind = running[i], jobs.kind[running[i]]
                from_ms = max(begin_ms[j], t0)
                left_ms, room_ms = end_ms[j] - from_ms, t1 - from_ms
                full_w -= jobs.power_w[j] * (min(left_ms, room_ms) / step_ms)
                least_w -= _lowest_w(jobs, kinds, j, left_ms, room_ms, step_ms)
                delayed[k] += jobs.n_gpus[j] * _planned_ms(jobs, j, t0, t1)
                length_ms = jobs.end_ms[j] - jobs.start_ms[j]
                lost_ms = 0
                if notice_ms < kinds.stop_ms[kind]:
                    done_ms = max(length_ms - (end_ms[j] - from_ms), 0)
                    lost_ms = done_ms % kinds.checkpoint_ms[kind]
                repeated[k] += jobs.n_gpus[j] * lost_ms
                restarts[k] += jobs.n_gpus[j] * kinds.restart_ms[kind]
                end_ms[j] += t1 - from_ms + lost_ms + kinds.restart_ms[kind]
                begin_ms[j], ready_ms[j] = t1, calls.end_ms[k]
                is_paused[i] = True
                place = n_waiting
                while place > 0 and waiting[place - 1] > j:
                    waiting[place] = waiting[place - 1]
                    place -= 1
                waiting[place] = j
                n_waiting += 1
            n_kept = 0
            for i in range(n_running):
                if not is_paused[i]:
                    running[n_kept], tolerates[n_kept] = running[i], tolerates[i]
                    n_kept += 1
            n_running = n_kept
        # Caps
        runs = running[:n_running]
        total_w, fraction = full_w, 0.0
        if full_w > most_w:
            for _ in range(3):  # jobs that end in the step end later at a cap
                if full_w - least_w > most_w - limit_w:
                    fraction += (total_w - limit_w) / (full_w - least_w)
                else:
                    fraction = 1.0
                fraction = min(max(fraction, 0.0), 1.0)
                total_w = _capped(
                    jobs,
                    kinds,
                    runs,
                    tolerates,
                    begin_ms,
                    end_ms,
                    (t0, t1),
                    fraction,
                    speeds,
                )
        change_w[k] = total_w - twin_w[k]
        is_shifted = False
        for i in range(n_running):
            j = runs[i]
            if fraction > 0 and tolerates[i]:
                speed = speeds[jobs.kind[j]]
                from_ms = max(begin_ms[j], t0)
                room_ms, left_ms = t1 - from_ms, end_ms[j] - from_ms
                done_ms = min(left_ms, room_ms * speed)
                put_off_ms = max(_planned_ms(jobs, j, t0, t1) - done_ms, 0.0)
                delayed[k] += jobs.n_gpus[j] * put_off_ms
                if left_ms > done_ms:
                    end_ms[j] += round(room_ms - done_ms)
                else:
                    end_ms[j] = from_ms + round(left_ms / speed)
            is_shifted |= end_ms[j] != jobs.end_ms[j]
    return Dispatched(change_w, delayed, repeated, restarts, end_ms)
