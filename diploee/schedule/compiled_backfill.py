"""The compiled twins of shortest job first and of EASY backfilling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.jit import njit
from diploee.schedule.compiled_engine import _sift_down, _sift_up
from diploee.schedule.compiled_queue import (
    FREE_NODES,
    HEAP_SIZE,
    N_FREE_SLOTS,
    NEVER_MS,
    CompiledQueue,
    end_first,
    first_from,
    ranks,
    start_job,
)
from diploee.schedule.policies.easy import EasyBackfill
from diploee.tables import Int64Array


class CompiledShortestFirst(CompiledQueue):
    """Twin of `diploee.schedule.policies.sjf.ShortestJobFirst`."""

    def _starts(
        self, rows: Int64Array, n_waiting: int, until_ms: int
    ) -> tuple[Int64Array, Int64Array]:
        return _shortest_first(
            rows, ranks(rows[2]), n_waiting, until_ms,
            self._heap, self._slots, self._free_slots, self._state,
        )  # fmt: skip


class CompiledEasy(CompiledQueue):
    """Twin of `diploee.schedule.policies.easy.EasyBackfill`."""

    def __init__(
        self,
        policy: EasyBackfill,
        n_nodes: int,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__(policy, n_nodes, begin_ms, added)
        self._depth = NEVER_MS if policy.depth is None else policy.depth
        self._by_estimate = policy.order == "sjbf"
        self._expected = np.empty((2, self._most), dtype=np.int64)  # ends in their order, nodes

    def _starts(
        self, rows: Int64Array, n_waiting: int, until_ms: int
    ) -> tuple[Int64Array, Int64Array]:
        rank = ranks(rows[2] if self._by_estimate else rows[2, :0])
        return _easy(
            rows, n_waiting, until_ms, self._depth, rank, self._expected,
            self._heap, self._slots, self._free_slots, self._state,
        )  # fmt: skip


@njit()
def _shortest_first(
    rows: Int64Array,
    rank: Int64Array,
    n_waiting: int,
    until_ms: int,
    heap: Int64Array,
    slots: Int64Array,
    free_slots: Int64Array,
    state: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    submit_ms, n_nodes, estimate_ms, duration_ms = rows[0], rows[1], rows[2], rows[3]
    n_jobs = submit_ms.size
    waiting = np.empty((2, n_jobs), dtype=np.int64)  # a heap of ranks and rows
    for row in range(n_waiting):
        _sift_up(waiting[0], waiting[1], row, rank[row], row)
    n_queued, arrived = n_waiting, n_waiting
    started = np.empty(n_jobs, dtype=np.int64)
    start_ms = np.empty(n_jobs, dtype=np.int64)
    n_started = 0
    while True:
        now_ms = NEVER_MS if arrived == n_jobs else submit_ms[arrived]
        if state[HEAP_SIZE]:
            now_ms = min(now_ms, heap[0, 0])
        if now_ms >= until_ms:
            break
        while state[HEAP_SIZE] and heap[0, 0] == now_ms:
            end_first(heap, slots, free_slots, state)
        while arrived < n_jobs and submit_ms[arrived] == now_ms:
            _sift_up(waiting[0], waiting[1], n_queued, rank[arrived], arrived)
            n_queued += 1
            arrived += 1
        while n_queued and n_nodes[waiting[1, 0]] <= state[FREE_NODES]:
            row = waiting[1, 0]
            n_queued -= 1
            _sift_down(waiting[0], waiting[1], n_queued)
            start_job(
                now_ms, n_nodes[row], estimate_ms[row], duration_ms[row],
                heap, slots, free_slots, state,
            )  # fmt: skip
            started[n_started], start_ms[n_started] = row, now_ms
            n_started += 1
    return started[:n_started], start_ms[:n_started]


@njit()
def _easy(
    rows: Int64Array,
    n_waiting: int,
    until_ms: int,
    depth: int,
    rank: Int64Array,
    expected: Int64Array,
    heap: Int64Array,
    slots: Int64Array,
    free_slots: Int64Array,
    state: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    submit_ms, n_nodes, estimate_ms = rows[0], rows[1], rows[2]
    n_jobs = submit_ms.size
    started = np.empty(n_jobs, dtype=np.int64)
    start_ms = np.empty(n_jobs, dtype=np.int64)
    # The queue as a list of rows, each with the next; behind the last stands the next to arrive.
    behind = np.arange(1, n_jobs + 1)
    has_passed = np.zeros(n_jobs, dtype=np.bool_)
    eligible = np.empty(n_jobs, dtype=np.int64)
    ranked = np.empty((2, rank.size), dtype=np.int64)  # a heap of ranks and rows
    head, arrived, n_started = 0, n_waiting, 0
    narrowest = 1  # no job of the queue has fewer nodes
    while True:
        now_ms = NEVER_MS if arrived == n_jobs else submit_ms[arrived]
        if state[HEAP_SIZE]:
            now_ms = min(now_ms, heap[0, 0])
        if now_ms >= until_ms:
            break
        while state[HEAP_SIZE] and heap[0, 0] == now_ms:
            n_running = slots.shape[1] - state[N_FREE_SLOTS]
            expected_ms, nodes = end_first(heap, slots, free_slots, state)
            if expected_ms != NEVER_MS:
                _forget(expected, n_running, expected_ms, nodes)
        while arrived < n_jobs and submit_ms[arrived] == now_ms:
            narrowest = min(narrowest, n_nodes[arrived])
            arrived += 1
        if state[FREE_NODES] < narrowest:
            continue
        while head < arrived and n_nodes[head] <= state[FREE_NODES]:
            _run(rows, head, now_ms, expected, heap, slots, free_slots, state)
            started[n_started], start_ms[n_started] = head, now_ms
            n_started += 1
            head = behind[head]
        narrowest = NEVER_MS
        if head == arrived:
            continue

        n_running = slots.shape[1] - state[N_FREE_SLOTS]
        free_nodes, wanted = state[FREE_NODES], n_nodes[head]
        shadow_ms, extra_nodes = _shadow(expected, n_running, now_ms, free_nodes, wanted)
        # What can't pass by what is free now can't by what those before it leave of that.
        row, place, n_eligible, narrowest = behind[head], 1, 0, wanted
        while row < arrived and place < depth:
            narrowest = min(narrowest, n_nodes[row])
            ends_in_time = now_ms + estimate_ms[row] <= shadow_ms
            if n_nodes[row] <= free_nodes and (ends_in_time or n_nodes[row] <= extra_nodes):
                eligible[n_eligible] = row
                n_eligible += 1
            row = behind[row]
            place += 1
        if row < arrived:
            narrowest = 1  # those beyond the depth were not looked at
        if rank.size:
            for n_ranked in range(n_eligible):
                row = eligible[n_ranked]
                _sift_up(ranked[0], ranked[1], n_ranked, rank[row], row)
            for n_sorted in range(n_eligible):
                eligible[n_sorted] = ranked[1, 0]
                _sift_down(ranked[0], ranked[1], n_eligible - n_sorted - 1)
        n_to_pass = n_started
        for row in eligible[:n_eligible]:
            if n_nodes[row] > state[FREE_NODES]:
                continue
            if now_ms + estimate_ms[row] > shadow_ms:
                if n_nodes[row] > extra_nodes:
                    continue
                extra_nodes -= n_nodes[row]
            _run(rows, row, now_ms, expected, heap, slots, free_slots, state)
            started[n_started], start_ms[n_started] = row, now_ms
            n_started += 1
            has_passed[row] = True
        n_to_pass, row = n_started - n_to_pass, head
        while n_to_pass:
            if has_passed[behind[row]]:
                behind[row] = behind[behind[row]]
                n_to_pass -= 1
            else:
                row = behind[row]
    return started[:n_started], start_ms[:n_started]


@njit()
def _run(
    rows: Int64Array,
    row: int,
    now_ms: int,
    expected: Int64Array,
    heap: Int64Array,
    slots: Int64Array,
    free_slots: Int64Array,
    state: Int64Array,
) -> None:
    """Let a job run, its expected end among those of the others."""
    n_nodes, estimate_ms, duration_ms = rows[1, row], rows[2, row], rows[3, row]
    n_running = slots.shape[1] - state[N_FREE_SLOTS]
    place = first_from(expected[0], n_running, now_ms + estimate_ms)
    for later in range(n_running, place, -1):
        expected[0, later] = expected[0, later - 1]
        expected[1, later] = expected[1, later - 1]
    expected[0, place], expected[1, place] = now_ms + estimate_ms, n_nodes
    start_job(now_ms, n_nodes, estimate_ms, duration_ms, heap, slots, free_slots, state)


@njit()
def _forget(expected: Int64Array, n_running: int, expected_ms: int, n_nodes: int) -> None:
    """Take one such job from the expected ends."""
    place = first_from(expected[0], n_running, expected_ms)
    while expected[1, place] != n_nodes:  # of several that are expected to end then
        place += 1
    for later in range(place, n_running - 1):
        expected[0, later] = expected[0, later + 1]
        expected[1, later] = expected[1, later + 1]


@njit()
def _shadow(
    expected: Int64Array, n_running: int, now_ms: int, free_nodes: int, wanted: int
) -> tuple[int, int]:
    """Return when so many nodes are expected to be free [ms], and how many more are free then."""
    shadow_ms = NEVER_MS
    for job in range(n_running):
        end_ms = max(expected[0, job], now_ms + 1)
        if end_ms > shadow_ms:
            break
        free_nodes += expected[1, job]
        if free_nodes >= wanted:
            shadow_ms = end_ms
    return shadow_ms, free_nodes - wanted if shadow_ms < NEVER_MS else 0
