"""Ordered data of the compiled loop: heaps, and the plan of conservative backfilling.

A heap is binary, in three rows of an array, the smallest of the first row on top; the
plan is the nodes that are free from now on, with reservations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Int32Array, Int64Array


def heap(size: int) -> Int64Array:
    """Return room for a heap."""
    return np.empty((3, size), dtype=np.int64)


@njit()
def sift_up(heap: Int64Array, size: int, key: int, value: int, other: int) -> None:
    """Insert an entry into a heap of `size` entries."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[0, parent] <= key:
            break
        heap[0, place], heap[1, place], heap[2, place] = (
            heap[0, parent],
            heap[1, parent],
            heap[2, parent],
        )
        place = parent
    heap[0, place], heap[1, place], heap[2, place] = key, value, other


@njit()
def sift_down(heap: Int64Array, size: int) -> None:
    """Fill the root of a heap with its entry at `size`, which leaves the heap."""
    key, place = heap[0, size], 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[0, child + 1] < heap[0, child]:
            child += 1
        if heap[0, child] >= key:
            break
        heap[0, place], heap[1, place], heap[2, place] = (
            heap[0, child],
            heap[1, child],
            heap[2, child],
        )
        place = child
    heap[0, place], heap[1, place], heap[2, place] = key, heap[1, size], heap[2, size]


@njit()
def first_from(rising: Int64Array, n_values: int, least: int) -> int:
    """Return the first index, among `n_values`, of a value no less."""
    first, end = 0, n_values
    while first < end:
        middle = (first + end) >> 1
        if rising[middle] < least:
            first = middle + 1
        else:
            end = middle
    return first


NEVER_MS = 2**62

N_STEPS, EARLIEST_MS, HAS_HOLES = range(3)


class Plan(NamedTuple):
    """Times [ms] and the nodes that are free from each on.

    `known` holds the number of these steps, the earliest reservation of a job that
    waits [ms], and whether one might move to an earlier hole.
    """

    steps: Int64Array
    known: Int64Array


@njit()
def reserve(
    plan: Plan,
    n_nodes: Int32Array,
    estimate_ms: Int64Array,
    reserved_ms: Int64Array,
    behind: Int64Array,
    expected: Int64Array,
    n_expected: int,
    free_nodes: int,
    head: int,
    first_new: int,
    arrived: int,
    now_ms: int,
    has_ended: bool,
) -> None:
    """Reserve nodes for new jobs, and for others where they may start earlier."""
    known, row = plan.known, first_new
    if has_ended and known[HAS_HOLES]:
        row = head
        known[HAS_HOLES] = 0
    outran = n_expected > 0 and expected[0, 0] <= now_ms
    if outran or known[EARLIEST_MS] < now_ms:
        _plan_anew(plan, expected, n_expected, free_nodes, now_ms)
        first_new = row = head
    else:
        _begin(plan, now_ms)
    while row < arrived:
        before_ms = reserved_ms[row]
        if row < first_new:
            _take(plan, before_ms, estimate_ms[row], -n_nodes[row])
        reserved_ms[row] = _earliest_ms(plan, estimate_ms[row], n_nodes[row])
        _take(plan, reserved_ms[row], estimate_ms[row], n_nodes[row])
        if row < first_new and reserved_ms[row] != before_ms:
            known[HAS_HOLES] = 1
        row = behind[row]


@njit()
def give_back(plan: Plan, now_ms: int, expected_ms: int, n_nodes: int) -> None:
    """Free nodes from now until a job was expected to end.

    For good where they are added.
    """
    plan.known[HAS_HOLES] = 1
    _begin(plan, now_ms)
    if expected_ms == NEVER_MS:
        for step in range(plan.known[N_STEPS]):
            plan.steps[1, step] += n_nodes
    else:
        _take(plan, now_ms, expected_ms - now_ms, -n_nodes)


@njit()
def _plan_anew(
    plan: Plan, expected: Int64Array, n_expected: int, free_nodes: int, now_ms: int
) -> None:
    """Plan with the running jobs alone.

    Those that outran their estimates end the next ms.
    """
    steps, last = plan.steps, 0
    steps[0, 0], steps[1, 0] = now_ms, free_nodes
    for job in range(n_expected):
        end_ms = max(expected[0, job], now_ms + 1)
        if steps[0, last] < end_ms:
            last += 1
            steps[0, last], steps[1, last] = end_ms, steps[1, last - 1]
        steps[1, last] += expected[1, job]
    plan.known[N_STEPS] = last + 1


@njit()
def _begin(plan: Plan, now_ms: int) -> None:
    """Forget what the plan had before a time."""
    steps, known = plan.steps, plan.known
    past = first_from(steps[0], known[N_STEPS], now_ms + 1) - 1
    if past > 0:
        known[N_STEPS] -= past
        for step in range(known[N_STEPS]):
            steps[0, step], steps[1, step] = (
                steps[0, step + past],
                steps[1, step + past],
            )
    steps[0, 0] = now_ms


@njit()
def _take(plan: Plan, start_ms: int, length_ms: int, n_nodes: int) -> None:
    """Take nodes for a time; negative: give them back."""
    if start_ms == NEVER_MS:
        return
    steps, known = plan.steps, plan.known
    first, end = _cut(plan, start_ms), _cut(plan, start_ms + length_ms)
    for step in range(first, end):
        steps[1, step] -= n_nodes
    for step in (end, first):
        if step and steps[1, step] == steps[1, step - 1]:
            known[N_STEPS] -= 1
            for later in range(step, known[N_STEPS]):
                steps[0, later], steps[1, later] = (
                    steps[0, later + 1],
                    steps[1, later + 1],
                )


@njit()
def _cut(plan: Plan, time_ms: int) -> int:
    """Return the step that starts at a time."""
    steps, n_steps = plan.steps, plan.known[N_STEPS]
    step = first_from(steps[0], n_steps, time_ms)
    if step == n_steps or steps[0, step] != time_ms:
        for later in range(n_steps, step, -1):
            steps[0, later], steps[1, later] = steps[0, later - 1], steps[1, later - 1]
        steps[0, step], steps[1, step] = time_ms, steps[1, step - 1]
        plan.known[N_STEPS] += 1
    return step


@njit()
def _earliest_ms(plan: Plan, length_ms: int, n_nodes: int) -> int:
    """Return the earliest time with enough free nodes for a duration."""
    steps, start_ms = plan.steps, NEVER_MS
    for step in range(plan.known[N_STEPS]):
        if steps[0, step] - start_ms >= length_ms:
            break
        start_ms = (
            min(start_ms, steps[0, step]) if steps[1, step] >= n_nodes else NEVER_MS
        )
    return start_ms
