"""The compiled twin of conservative backfilling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.jit import njit
from diploee.schedule.compiled_engine import _sift_down, _sift_up
from diploee.schedule.compiled_queue import (
    FREE_NODES,
    HEAP_SIZE,
    N_OUTRUNNERS,
    NEVER_MS,
    CompiledQueue,
    end_first,
    first_from,
    start_job,
)
from diploee.schedule.policies.conservative import ConservativeBackfill
from diploee.tables import Int64Array

# Places in what a twin knows besides: steps of the plan, the earliest reservation, and whether a
# waiting job might move to an earlier hole.
N_STEPS, EARLIEST_MS, HAS_HOLES = range(3)


class CompiledConservative(CompiledQueue):
    """Twin of `diploee.schedule.policies.conservative.ConservativeBackfill`."""

    def __init__(
        self,
        policy: ConservativeBackfill,
        n_nodes: int,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__(policy, n_nodes, begin_ms, added)
        # Free nodes from now on, running jobs as they are expected to end: times, nodes.
        self._plan = np.array([[begin_ms], [n_nodes]], dtype=np.int64)
        self._known = np.array([1, NEVER_MS, 0], dtype=np.int64)

    def _starts(
        self, rows: Int64Array, n_waiting: int, until_ms: int
    ) -> tuple[Int64Array, Int64Array]:
        # A job adds two steps at most.
        n_steps = 2 * (self._most + rows.shape[1]) + 4
        plan = np.empty((2, max(n_steps, self._plan.shape[1])), dtype=np.int64)
        plan[:, : self._known[N_STEPS]] = self._plan[:, : self._known[N_STEPS]]
        self._plan = plan
        return _conservative(
            rows, n_waiting, until_ms, plan, self._known,
            self._heap, self._slots, self._free_slots, self._state,
        )  # fmt: skip


@njit()
def _conservative(
    rows: Int64Array,
    n_waiting: int,
    until_ms: int,
    plan: Int64Array,
    known: Int64Array,
    heap: Int64Array,
    slots: Int64Array,
    free_slots: Int64Array,
    state: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    submit_ms, n_nodes, estimate_ms, duration_ms = rows[0], rows[1], rows[2], rows[3]
    reserved_ms = rows[5]
    n_jobs = submit_ms.size
    started = np.empty(n_jobs, dtype=np.int64)
    start_ms = np.empty(n_jobs, dtype=np.int64)
    # The queue as a list of rows, each with the next; behind the last stands the next to arrive.
    behind = np.arange(1, n_jobs + 1)
    head, arrived, n_started = 0, n_waiting, 0
    while True:
        now_ms = NEVER_MS if arrived == n_jobs else submit_ms[arrived]
        if state[HEAP_SIZE]:
            now_ms = min(now_ms, heap[0, 0])
        if now_ms >= until_ms:
            break
        has_ended = False
        while state[HEAP_SIZE] and heap[0, 0] == now_ms:
            expected_ms, nodes = end_first(heap, slots, free_slots, state)
            has_ended = True
            if expected_ms > now_ms:  # where nodes are added, from now on
                known[HAS_HOLES] = 1
                _begin(plan, known, now_ms)
                if expected_ms == NEVER_MS:
                    for step in range(known[N_STEPS]):
                        plan[1, step] += nodes
                else:
                    _take(plan, known, now_ms, expected_ms - now_ms, -nodes)
        first_new = arrived
        while arrived < n_jobs and submit_ms[arrived] == now_ms:
            arrived += 1
        if head == arrived:
            continue

        outran = state[N_OUTRUNNERS] > 0 and _any_until(slots[0], now_ms)
        row = first_new
        if has_ended and known[HAS_HOLES]:
            row = head
            known[HAS_HOLES] = 0
        if outran or known[EARLIEST_MS] < now_ms:
            _plan_anew(plan, known, slots, state, now_ms)
            first_new = row = head
        else:
            _begin(plan, known, now_ms)
        while row < arrived:
            before_ms = reserved_ms[row]
            if row < first_new:
                _take(plan, known, before_ms, estimate_ms[row], -n_nodes[row])
            reserved_ms[row] = _earliest_ms(plan, known, estimate_ms[row], n_nodes[row])
            _take(plan, known, reserved_ms[row], estimate_ms[row], n_nodes[row])
            if row < first_new and reserved_ms[row] != before_ms:
                known[HAS_HOLES] = 1
            row = behind[row]

        known[EARLIEST_MS] = NEVER_MS
        row, before = head, -1
        while row < arrived:
            if reserved_ms[row] == now_ms:
                start_job(
                    now_ms, n_nodes[row], estimate_ms[row], duration_ms[row],
                    heap, slots, free_slots, state,
                )  # fmt: skip
                started[n_started], start_ms[n_started] = row, now_ms
                n_started += 1
                if before < 0:
                    head = behind[row]
                else:
                    behind[before] = behind[row]
            else:
                known[EARLIEST_MS] = min(known[EARLIEST_MS], reserved_ms[row])
                before = row
            row = behind[row]
    return started[:n_started], start_ms[:n_started]


@njit()
def _any_until(times_ms: Int64Array, now_ms: int) -> bool:
    for time_ms in times_ms:  # noqa: SIM110, which numba can't compile
        if time_ms <= now_ms:
            return True
    return False


@njit()
def _plan_anew(
    plan: Int64Array, known: Int64Array, slots: Int64Array, state: Int64Array, now_ms: int
) -> None:
    """Plan with the running jobs alone; those that outran their estimates end the next ms."""
    plan[0, 0], plan[1, 0] = now_ms, state[FREE_NODES]
    known[N_STEPS] = 1
    ends = np.empty((2, slots.shape[1]), dtype=np.int64)  # a heap of expected ends and nodes
    n_running = 0
    for slot in range(slots.shape[1]):
        if slots[0, slot] != NEVER_MS:
            _sift_up(ends[0], ends[1], n_running, slots[0, slot], slots[1, slot])
            n_running += 1
    while n_running:
        end_ms, n_nodes, last = max(ends[0, 0], now_ms + 1), ends[1, 0], known[N_STEPS] - 1
        n_running -= 1
        _sift_down(ends[0], ends[1], n_running)
        if plan[0, last] < end_ms:
            last += 1
            plan[0, last], plan[1, last] = end_ms, plan[1, last - 1]
            known[N_STEPS] += 1
        plan[1, last] += n_nodes


@njit()
def _begin(plan: Int64Array, known: Int64Array, now_ms: int) -> None:
    """Forget what the plan had before a time."""
    past = first_from(plan[0], known[N_STEPS], now_ms + 1) - 1
    if past > 0:
        known[N_STEPS] -= past
        for step in range(known[N_STEPS]):
            plan[0, step], plan[1, step] = plan[0, step + past], plan[1, step + past]
    plan[0, 0] = now_ms


@njit()
def _take(plan: Int64Array, known: Int64Array, start_ms: int, length_ms: int, n_nodes: int) -> None:
    """Take nodes for a time; negative: give them back."""
    if start_ms == NEVER_MS:
        return
    first, end = _cut(plan, known, start_ms), _cut(plan, known, start_ms + length_ms)
    for step in range(first, end):
        plan[1, step] -= n_nodes
    for step in (end, first):
        if step and plan[1, step] == plan[1, step - 1]:
            known[N_STEPS] -= 1
            for later in range(step, known[N_STEPS]):
                plan[0, later], plan[1, later] = plan[0, later + 1], plan[1, later + 1]


@njit()
def _cut(plan: Int64Array, known: Int64Array, time_ms: int) -> int:
    """Return the step that begins at a time."""
    n_steps = known[N_STEPS]
    step = first_from(plan[0], n_steps, time_ms)
    if step == n_steps or plan[0, step] != time_ms:
        for later in range(n_steps, step, -1):
            plan[0, later], plan[1, later] = plan[0, later - 1], plan[1, later - 1]
        plan[0, step], plan[1, step] = time_ms, plan[1, step - 1]
        known[N_STEPS] += 1
    return step


@njit()
def _earliest_ms(plan: Int64Array, known: Int64Array, length_ms: int, n_nodes: int) -> int:
    """Return the earliest time from which on so many nodes are free for so long."""
    start_ms = NEVER_MS
    for step in range(known[N_STEPS]):
        if plan[0, step] - start_ms >= length_ms:
            break
        start_ms = min(start_ms, plan[0, step]) if plan[1, step] >= n_nodes else NEVER_MS
    return start_ms
