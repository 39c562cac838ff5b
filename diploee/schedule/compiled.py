"""The compiled loop of a queue, with an order and a depth.

The same start times as SimPy's. It goes from event to event: at each instant all ends
and additions of nodes, then all submissions, then one decision while jobs wait. Strict
FIFO is EASY that looks at one job, and shortest job first is that in another order. A
discipline passes None for tables that it does not need; numba leaves out the code
behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Int32Array, Int64Array
from diploee.base.units import SLOTS_PER_GPU
from diploee.schedule.compiled_gpus import Gpus, fits_gpus, free_gpus, take_gpus
from diploee.schedule.compiled_plan import (
    EARLIEST_MS,
    NEVER_MS,
    Plan,
    first_from,
    give_back,
    heap,
    reserve,
    sift_down,
    sift_up,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.policy import EXACT, estimated_ms

N_RUNNING, FREE_NODES, N_EXPECTED = range(3)
"""Indices into the state of a pool: entries of its heap, free nodes, expected ends."""


class _Pool(NamedTuple):
    """Nodes, and a heap of true ends, nodes (or place) and expected ends [ms].

    Nodes that will be added are in it, too: their expected end is `NEVER_MS`.
    """

    state: Int64Array
    running: Int64Array


class _Queue(NamedTuple):
    """Jobs in the order of submission, and room for those that start."""

    submit_ms: Int64Array
    n_nodes: Int32Array
    estimate_ms: Int64Array
    duration_ms: Int64Array
    started: Int64Array
    start_ms: Int64Array


class _Ranks(NamedTuple):
    """Rank of each job by its estimate, and a heap of ranks and jobs."""

    rank: Int64Array
    heap: Int64Array


class _Ahead(NamedTuple):
    """Expected ends [ms] of running jobs in their order, their nodes.

    The next of each job.
    """

    expected: Int64Array
    behind: Int64Array


class CompiledQueue:
    """One pool of nodes under the twin of a policy with an order and a depth.

    The policy's `order` is ``submission``, ``sjbf`` (the shortest of those behind the
    head first), ``sjf`` (of all) or ``reservation``, its `depth` the jobs that are
    looked at. Nodes are `added` at increasing times [ms]. With `gpus` jobs may have a
    part of a node, under strict FIFO alone.
    """

    def __init__(
        self,
        policy: Any,
        n_nodes: int,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
        gpus: Gpus | None = None,
    ) -> None:
        self._estimate = getattr(policy, "estimate", EXACT)
        self._order, depth = policy.order, policy.depth
        self._depth = NEVER_MS if depth is None else depth
        self._added, self._gpus = len(added), gpus
        self._most = n_nodes + sum(more for _, more in added)
        if gpus is not None:
            self._most *= gpus.per_node * SLOTS_PER_GPU
        running = heap(len(added))
        for row, (time_ms, more) in enumerate(added):
            running[:, row] = time_ms, more, NEVER_MS
        self._pool = _Pool(np.array([len(added), n_nodes, 0], dtype=np.int64), running)
        looks_behind = self._depth > 1
        self._expected = (
            np.empty((2, self._most), dtype=np.int64) if looks_behind else None
        )
        self._plan = None
        if self._order == "reservation":
            self._plan = Plan(
                np.array([[begin_ms], [n_nodes]]), np.array([1, NEVER_MS, 0])
            )
        self._waiting: tuple[Any, ...] = ()
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time; see `PoolEngine`."""
        numbers = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._n_jobs += len(jobs)
        columns: tuple[Any, ...] = (
            jobs.submit_ms,
            jobs.n_nodes,
            estimated_ms(self._estimate, jobs),
            jobs.duration_ms,
            numbers,
            np.full(len(jobs) if self._plan else 0, NEVER_MS),
        )
        n_waiting = 0
        if self._waiting:
            n_waiting = self._waiting[0].size
            columns = tuple(
                map(np.concatenate, zip(self._waiting, columns, strict=True))
            )
        *of_jobs, numbers, reserved_ms = columns
        n_jobs = numbers.size
        started = np.empty((2, n_jobs), dtype=np.int64)
        ahead = None
        if self._expected is not None:
            ahead = _Ahead(self._expected, np.arange(1, n_jobs + 1))
        n_started = _starts(
            _Queue(*of_jobs, *started),
            self._room_for(n_jobs),
            n_waiting,
            until_ms,
            self._depth,
            self._gpus,
            *self._ranks(of_jobs[2]),
            ahead,
            self._plan,
            reserved_ms,
        )
        rows, start_ms = started[0, :n_started], started[1, :n_started]
        still = np.ones(n_jobs, dtype=np.bool_)
        still[rows] = False
        self._waiting = tuple(values[still[: values.size]] for values in columns)
        return numbers[rows], start_ms

    def _room_for(self, n_jobs: int) -> _Pool:
        """Return the pool with room for n more jobs in its tables."""
        state, running = self._pool
        n_entries = int(state[N_RUNNING])
        needed = min(n_entries + n_jobs, self._most + self._added) + 1
        if needed > running.shape[1]:
            room = heap(2 * needed)
            room[:, :n_entries] = running[:, :n_entries]
            self._pool = _Pool(state, room)
        if self._plan is not None:  # a job adds two steps at most
            steps = self._plan.steps
            room = np.empty(
                (2, max(2 * (self._most + n_jobs) + 4, steps.shape[1])), np.int64
            )
            room[:, : steps.shape[1]] = steps
            self._plan = Plan(room, self._plan.known)
        return self._pool

    def _ranks(self, estimate_ms: Int64Array) -> tuple[_Ranks | None, _Ranks | None]:
        """Return the ranks for the whole queue, or for those behind its head."""
        if self._order not in ("sjf", "sjbf"):
            return None, None
        rank = np.empty(estimate_ms.size, dtype=np.int64)
        rank[np.argsort(estimate_ms, kind="stable")] = np.arange(estimate_ms.size)
        ranks = _Ranks(rank, heap(estimate_ms.size))
        return (ranks, None) if self._order == "sjf" else (None, ranks)


@njit()
def _starts(
    queue: _Queue,
    pool: _Pool,
    n_waiting: int,
    until_ms: int,
    depth: int,
    gpus: Gpus | None,
    of_all: _Ranks | None,
    of_behind: _Ranks | None,
    ahead: _Ahead | None,
    plan: Plan | None,
    reserved_ms: Int64Array,
) -> int:
    """Fill in the jobs that start before a time, and return their number."""
    submit_ms, n_nodes, state, running = (
        queue.submit_ms,
        queue.n_nodes,
        pool.state,
        pool.running,
    )
    # The queue is a list of jobs, each with the next; behind the last is the next to
    # arrive.
    head, arrived, n_started = 0, n_waiting, 0
    narrowest = 1  # no job of the queue has fewer nodes
    if of_all is not None:
        for row in range(n_waiting):
            sift_up(of_all.heap, row, of_all.rank[row], row, 0)
    while True:
        now_ms = NEVER_MS if arrived == submit_ms.size else submit_ms[arrived]
        if state[N_RUNNING]:
            now_ms = min(now_ms, running[0, 0])
        if now_ms >= until_ms:
            return n_started
        has_ended = False
        while state[N_RUNNING] and running[0, 0] == now_ms:
            has_ended = True
            _end_first(pool, now_ms, gpus, ahead, plan)
        first_new = arrived
        while arrived < submit_ms.size and submit_ms[arrived] == now_ms:
            if of_all is not None:
                sift_up(
                    of_all.heap, arrived - n_started, of_all.rank[arrived], arrived, 0
                )
            narrowest = min(narrowest, n_nodes[arrived])
            arrived += 1
        if n_started == arrived:
            continue
        if plan is not None and ahead is not None:
            reserve(
                plan,
                n_nodes,
                queue.estimate_ms,
                reserved_ms,
                ahead.behind,
                ahead.expected,
                state[N_EXPECTED],
                state[FREE_NODES],
                head,
                first_new,
                arrived,
                now_ms,
                has_ended,
            )
            head, n_started = _start_reserved(
                queue, pool, head, arrived, n_started, now_ms, ahead, plan, reserved_ms
            )
            continue
        if ahead is not None and state[FREE_NODES] < narrowest:
            continue
        while n_started < arrived:
            row = head if of_all is None else of_all.heap[1, 0]
            if not _fits(pool, n_nodes[row], gpus):
                break
            n_started = _start(queue, pool, row, n_started, now_ms, gpus, ahead)
            head = head + 1 if ahead is None else ahead.behind[head]
            if of_all is not None:
                sift_down(of_all.heap, arrived - n_started)
        if ahead is not None:
            narrowest = NEVER_MS
            if n_started < arrived:
                n_started, narrowest = _backfill(
                    queue,
                    pool,
                    head,
                    arrived,
                    n_started,
                    now_ms,
                    depth,
                    ahead,
                    of_behind,
                )


@njit()
def _fits(pool: _Pool, n_nodes: int, gpus: Gpus | None) -> bool:
    """Return whether a job fits now."""
    if gpus is not None:
        return fits_gpus(gpus, n_nodes)
    return bool(pool.state[FREE_NODES] >= n_nodes)


@njit()
def _start(
    queue: _Queue,
    pool: _Pool,
    row: int,
    n_started: int,
    now_ms: int,
    gpus: Gpus | None,
    ahead: _Ahead | None,
) -> int:
    """Let a job run, and return how many have started then."""
    held, expected_ms = int(queue.n_nodes[row]), now_ms + queue.estimate_ms[row]
    if gpus is not None:
        held = take_gpus(gpus, held)
    else:
        pool.state[FREE_NODES] -= held
    end_ms = now_ms + queue.duration_ms[row]
    sift_up(pool.running, pool.state[N_RUNNING], end_ms, held, expected_ms)
    pool.state[N_RUNNING] += 1
    if ahead is not None:
        expected, n_expected = ahead.expected, pool.state[N_EXPECTED]
        place = first_from(expected[0], n_expected, expected_ms)
        for later in range(n_expected, place, -1):
            expected[0, later], expected[1, later] = (
                expected[0, later - 1],
                expected[1, later - 1],
            )
        expected[0, place], expected[1, place] = expected_ms, held
        pool.state[N_EXPECTED] += 1
    queue.started[n_started], queue.start_ms[n_started] = row, now_ms
    return n_started + 1


@njit()
def _end_first(
    pool: _Pool, now_ms: int, gpus: Gpus | None, ahead: _Ahead | None, plan: Plan | None
) -> None:
    """End the job that ends first, or add nodes."""
    held, expected_ms = pool.running[1, 0], pool.running[2, 0]
    pool.state[N_RUNNING] -= 1
    sift_down(pool.running, pool.state[N_RUNNING])
    if gpus is not None:
        free_gpus(gpus, held)
    else:
        pool.state[FREE_NODES] += held
    if ahead is not None and expected_ms != NEVER_MS:
        expected, n_expected = ahead.expected, pool.state[N_EXPECTED]
        place = first_from(expected[0], n_expected, expected_ms)
        while expected[1, place] != held:  # of several that are expected to end then
            place += 1
        for later in range(place, n_expected - 1):
            expected[0, later], expected[1, later] = (
                expected[0, later + 1],
                expected[1, later + 1],
            )
        pool.state[N_EXPECTED] -= 1
    if plan is not None and expected_ms > now_ms:
        give_back(plan, now_ms, expected_ms, held)


@njit()
def _backfill(
    queue: _Queue,
    pool: _Pool,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    depth: int,
    ahead: _Ahead,
    ranks: _Ranks | None,
) -> tuple[int, int]:
    """Start what does not delay the head.

    Return how many have started, and the fewest nodes.
    """
    n_nodes, estimate_ms, behind = queue.n_nodes, queue.estimate_ms, ahead.behind
    free_nodes, before = pool.state[FREE_NODES], n_started
    shadow_ms, extra_nodes = _shadow(ahead.expected, pool, now_ms, n_nodes[head])
    # Jobs that don't fit now can't once others before them have started.
    eligible = np.empty(min(depth, arrived - n_started), dtype=np.int64)
    row, place, n_eligible, narrowest = behind[head], 1, 0, int(n_nodes[head])
    while row < arrived and place < depth:
        narrowest = min(narrowest, n_nodes[row])
        in_time = now_ms + estimate_ms[row] <= shadow_ms
        if n_nodes[row] <= free_nodes and (in_time or n_nodes[row] <= extra_nodes):
            eligible[n_eligible] = row
            n_eligible += 1
        row = behind[row]
        place += 1
    if row < arrived:
        narrowest = 1  # those beyond the depth were not looked at
    if ranks is not None:
        for n in range(n_eligible):
            sift_up(ranks.heap, n, ranks.rank[eligible[n]], eligible[n], 0)
        for n in range(n_eligible):
            eligible[n] = ranks.heap[1, 0]
            sift_down(ranks.heap, n_eligible - n - 1)
    for row in eligible[:n_eligible]:
        if n_nodes[row] > pool.state[FREE_NODES]:
            continue
        if now_ms + estimate_ms[row] > shadow_ms:
            if n_nodes[row] > extra_nodes:
                continue
            extra_nodes -= n_nodes[row]
        n_started = _start(queue, pool, row, n_started, now_ms, None, ahead)
        behind[row] = -behind[row]  # it leaves the list
    n_gone, row = n_started - before, head
    while n_gone:
        after = behind[row]
        if behind[after] < 0:
            behind[row] = -behind[after]
            n_gone -= 1
        else:
            row = after
    return n_started, narrowest


@njit()
def _shadow(
    expected: Int64Array, pool: _Pool, now_ms: int, wanted: int
) -> tuple[int, int]:
    """Return when `wanted` nodes should be free [ms], and the surplus then."""
    free_nodes, n_expected, shadow_ms = (
        pool.state[FREE_NODES],
        pool.state[N_EXPECTED],
        NEVER_MS,
    )
    for job in range(n_expected):
        end_ms = max(expected[0, job], now_ms + 1)
        if end_ms > shadow_ms:
            break
        free_nodes += expected[1, job]
        if free_nodes >= wanted:
            shadow_ms = end_ms
    return shadow_ms, free_nodes - wanted if shadow_ms < NEVER_MS else 0


@njit()
def _start_reserved(
    queue: _Queue,
    pool: _Pool,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    ahead: _Ahead,
    plan: Plan,
    reserved_ms: Int64Array,
) -> tuple[int, int]:
    """Start the jobs whose reservation is now.

    Return the head, and how many have started.
    """
    behind, earliest_ms, row, before = ahead.behind, NEVER_MS, head, -1
    while row < arrived:
        if reserved_ms[row] == now_ms:
            n_started = _start(queue, pool, row, n_started, now_ms, None, ahead)
            if before < 0:
                head = behind[row]
            else:
                behind[before] = behind[row]
        else:
            earliest_ms = min(earliest_ms, reserved_ms[row])
            before = row
        row = behind[row]
    plan.known[EARLIEST_MS] = earliest_ms
    return head, n_started
