"""Compiled kernels of the schedulers: heaps, reservations, GPUs, queues and placement.

The kernels call each other, so they are in one file: numba keeps machine code until the
file of the called kernel changes, and does not check other files.

A heap is a binary heap in an array of three rows, sorted by the first row. The
availability profile of conservative backfilling is the number of nodes that are free
and not reserved, from now on. A GPU has `SLOTS_PER_GPU` slots. The first
GPU with n free slots and the first node with n free GPUs are found in two binary trees,
whose inner nodes have the maximum of the leaves below. The GPUs of a job that occupies
whole GPUs are a linked list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Int32Array, Int64Array
from diploee.base.units import SLOTS_PER_GPU


def heap(size: int) -> Int64Array:
    """Return an empty heap for `size` entries."""
    return np.empty((3, size), dtype=np.int64)


@njit()
def sift_up(heap: Int64Array, size: int, key: int, value: int, other: int) -> None:
    """Insert an entry into a heap of `size` entries."""
    position = size
    while position > 0:
        parent = (position - 1) >> 1
        if heap[0, parent] <= key:
            break
        heap[0, position], heap[1, position], heap[2, position] = (
            heap[0, parent],
            heap[1, parent],
            heap[2, parent],
        )
        position = parent
    heap[0, position], heap[1, position], heap[2, position] = key, value, other


@njit()
def sift_down(heap: Int64Array, size: int) -> None:
    """Replace the root of a heap with its last entry, at index `size`."""
    key, position = heap[0, size], 0
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and heap[0, child + 1] < heap[0, child]:
            child += 1
        if heap[0, child] >= key:
            break
        heap[0, position], heap[1, position], heap[2, position] = (
            heap[0, child],
            heap[1, child],
            heap[2, child],
        )
        position = child
    heap[0, position], heap[1, position], heap[2, position] = (
        key,
        heap[1, size],
        heap[2, size],
    )


@njit()
def first_from(sorted_values: Int64Array, n_values: int, min_value: int) -> int:
    """Return the index of the first sorted value that is at least a minimum.

    Only the first `n_values` values are considered.
    """
    first, stop = 0, n_values
    while first < stop:
        middle = (first + stop) >> 1
        if sorted_values[middle] < min_value:
            first = middle + 1
        else:
            stop = middle
    return first


NEVER_MS = 2**62
"""Time of an event that never happens [ms]."""

N_RUNNING, FREE_NODES, N_EXPECTED = range(3)
"""Indices into the state of a pool: heap entries, free nodes, expected ends."""


class PoolHeap(NamedTuple):
    """State of a pool, and a heap of its running jobs.

    The rows of the heap are the true end [ms], the number of nodes (or the position in
    the GPU tables) and the expected end [ms]. The heap also contains later additions of
    nodes, with the expected end `NEVER_MS`.
    """

    state: Int64Array
    running: Int64Array


class QueuedJobs(NamedTuple):
    """Jobs in the order of submission, and arrays for the jobs that start."""

    submit_ms: Int64Array
    n_nodes: Int32Array
    estimate_ms: Int64Array
    duration_ms: Int64Array
    started: Int64Array
    start_ms: Int64Array


class Ranks(NamedTuple):
    """Rank of each job by its estimate, and a heap of ranks and jobs."""

    rank: Int64Array
    heap: Int64Array


class ExpectedEnds(NamedTuple):
    """Expected ends of running jobs, for policies that look beyond the queue's head."""

    expected: Int64Array  # rows: sorted ends [ms], and nodes
    behind: Int64Array  # next job in the queue after each job
    depth: int  # number of jobs of the queue that are considered


N_STEPS, EARLIEST_MS, HAS_HOLES = range(3)
"""Indices into `AvailabilityProfile.known`."""


class AvailabilityProfile(NamedTuple):
    """Free nodes over time with reservations, as a step function.

    Rows of `steps`: times [ms], and free nodes from each time on. `known` has the
    number of steps, the earliest reservation of a waiting job [ms], and 1 if a
    reservation might move to an earlier gap.
    """

    steps: Int64Array
    known: Int64Array
    reserved_ms: Int64Array  # reserved start of each job in the queue [ms]


@njit()
def reserve(
    queue: QueuedJobs,
    pool: PoolHeap,
    ahead: ExpectedEnds,
    plan: AvailabilityProfile,
    head: int,
    first_new: int,
    arrived: int,
    now_ms: int,
    has_ended: bool,
) -> None:
    """Reserve nodes for new jobs, and for others that may start earlier."""
    n_nodes, estimate_ms, expected = queue.n_nodes, queue.estimate_ms, ahead.expected
    n_expected, reserved_ms = pool.state[N_EXPECTED], plan.reserved_ms
    profile_state, row = plan.known, first_new
    if has_ended and profile_state[HAS_HOLES]:
        row = head
        profile_state[HAS_HOLES] = 0
    is_overdue = n_expected > 0 and expected[0, 0] <= now_ms
    if is_overdue or profile_state[EARLIEST_MS] < now_ms:
        _rebuild_profile(plan, expected, n_expected, pool.state[FREE_NODES], now_ms)
        first_new = row = head
    else:
        _drop_past(plan, now_ms)
    while row < arrived:
        previous_ms = reserved_ms[row]
        if row < first_new:
            _occupy(plan, previous_ms, estimate_ms[row], -n_nodes[row])
        reserved_ms[row] = _earliest_ms(plan, estimate_ms[row], n_nodes[row])
        _occupy(plan, reserved_ms[row], estimate_ms[row], n_nodes[row])
        if row < first_new and reserved_ms[row] != previous_ms:
            profile_state[HAS_HOLES] = 1
        row = ahead.behind[row]


@njit()
def release_nodes(
    plan: AvailabilityProfile, now_ms: int, expected_ms: int, n_nodes: int
) -> None:
    """Free nodes from now to the expected end of a job.

    If the expected end is `NEVER_MS`, nodes are added and stay free.
    """
    plan.known[HAS_HOLES] = 1
    _drop_past(plan, now_ms)
    if expected_ms == NEVER_MS:
        for step in range(plan.known[N_STEPS]):
            plan.steps[1, step] += n_nodes
    else:
        _occupy(plan, now_ms, expected_ms - now_ms, -n_nodes)


@njit()
def _rebuild_profile(
    plan: AvailabilityProfile,
    expected: Int64Array,
    n_expected: int,
    free_nodes: int,
    now_ms: int,
) -> None:
    """Rebuild the profile from the running jobs alone, without reservations.

    Jobs that exceeded their estimates count as ending in the next ms.
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
def _drop_past(plan: AvailabilityProfile, now_ms: int) -> None:
    """Drop the steps of a profile before a time."""
    steps, known = plan.steps, plan.known
    n_past = first_from(steps[0], known[N_STEPS], now_ms + 1) - 1
    if n_past > 0:
        known[N_STEPS] -= n_past
        for step in range(known[N_STEPS]):
            steps[0, step], steps[1, step] = (
                steps[0, step + n_past],
                steps[1, step + n_past],
            )
    steps[0, 0] = now_ms


@njit()
def _occupy(
    plan: AvailabilityProfile, start_ms: int, length_ms: int, n_nodes: int
) -> None:
    """Occupy nodes for a duration; negative numbers free them."""
    if start_ms == NEVER_MS:
        return
    steps, known = plan.steps, plan.known
    first, stop = _insert_step(plan, start_ms), _insert_step(plan, start_ms + length_ms)
    for step in range(first, stop):
        steps[1, step] -= n_nodes
    for step in (stop, first):
        if step and steps[1, step] == steps[1, step - 1]:
            known[N_STEPS] -= 1
            for row in range(step, known[N_STEPS]):
                steps[0, row], steps[1, row] = (
                    steps[0, row + 1],
                    steps[1, row + 1],
                )


@njit()
def _insert_step(plan: AvailabilityProfile, time_ms: int) -> int:
    """Return the step that starts at a time, inserted if absent."""
    steps, n_steps = plan.steps, plan.known[N_STEPS]
    step = first_from(steps[0], n_steps, time_ms)
    if step == n_steps or steps[0, step] != time_ms:
        for row in range(n_steps, step, -1):
            steps[0, row], steps[1, row] = steps[0, row - 1], steps[1, row - 1]
        steps[0, step], steps[1, step] = time_ms, steps[1, step - 1]
        plan.known[N_STEPS] += 1
    return step


@njit()
def _earliest_ms(plan: AvailabilityProfile, length_ms: int, n_nodes: int) -> int:
    """Return the earliest start with enough free nodes for a duration [ms]."""
    steps, start_ms = plan.steps, NEVER_MS
    for step in range(plan.known[N_STEPS]):
        if steps[0, step] - start_ms >= length_ms:
            break
        start_ms = (
            min(start_ms, steps[0, step]) if steps[1, step] >= n_nodes else NEVER_MS
        )
    return start_ms


class Gpus(NamedTuple):
    """Free slots of the GPUs of a pool, and GPUs of jobs."""

    per_node: int  # GPUs per node
    # Trees of the free slots of each GPU, and of the completely free GPUs of each node
    gpus: Int64Array
    nodes: Int64Array
    next_gpu: Int64Array  # next GPU of the job that occupies a whole GPU, -1 = none
    free_nodes: Int64Array  # number of completely free nodes, shape (1,)


def open_gpus(n_nodes: int, per_node: int) -> Gpus:
    """Return the GPUs of a pool, all of them free."""
    n_gpus = n_nodes * per_node
    gpus, nodes = (
        max_tree(np.full(n_gpus, SLOTS_PER_GPU)),
        max_tree(np.full(n_nodes, per_node)),
    )
    return Gpus(per_node, gpus, nodes, np.full(n_gpus, -1), np.array([n_nodes]))


def max_tree(leaves: Int64Array) -> Int64Array:
    """Return a binary tree of maxima over leaves.

    The root has index 1; the two children of k have the indices 2 k and 2 k + 1.
    """
    n_leaves = 1 << (leaves.size - 1).bit_length()
    tree = np.zeros(2 * n_leaves, dtype=np.int64)
    tree[n_leaves : n_leaves + leaves.size] = leaves
    for tree_node in range(n_leaves - 1, 0, -1):
        tree[tree_node] = tree[2 * tree_node : 2 * tree_node + 2].max()
    return tree


@njit()
def fits_gpus(gpus: Gpus, n_slots: int) -> bool:
    """Return True if a job with a number of slots fits into the free GPUs."""
    if n_slots < SLOTS_PER_GPU:
        return bool(gpus.gpus[1] >= n_slots)
    n_gpus = -(-n_slots // SLOTS_PER_GPU)
    if n_gpus < gpus.per_node:
        return bool(gpus.nodes[1] >= n_gpus)
    return bool(gpus.free_nodes[0] * gpus.per_node >= n_gpus)


@njit()
def take_gpus(gpus: Gpus, n_slots: int) -> int:
    """Occupy slots for a job that fits.

    Returns the job's position, which `free_gpus` needs to free the slots.
    """
    gpu_slots, first = min(n_slots, SLOTS_PER_GPU), -1
    if n_slots < SLOTS_PER_GPU:
        first = first_with(gpus.gpus, n_slots)
        _change_slots(gpus, first, -n_slots)
    else:
        n_gpus = -(-n_slots // SLOTS_PER_GPU)
        gpu = first_with(gpus.nodes, min(n_gpus, gpus.per_node)) * gpus.per_node
        for _ in range(n_gpus):
            if gpu % gpus.per_node == 0 and n_gpus > gpus.per_node:
                gpu = first_with(gpus.nodes, gpus.per_node) * gpus.per_node
            while gpus.gpus[gpus.gpus.size // 2 + gpu] < SLOTS_PER_GPU:
                gpu += 1
            _change_slots(gpus, gpu, -SLOTS_PER_GPU)
            gpus.next_gpu[gpu], first = first, gpu
            gpu += 1
    return first * (SLOTS_PER_GPU + 1) + gpu_slots


@njit()
def free_gpus(gpus: Gpus, position: int) -> None:
    """Free the GPUs of a job, by its position from `take_gpus`."""
    gpu, gpu_slots = position // (SLOTS_PER_GPU + 1), position % (SLOTS_PER_GPU + 1)
    while gpu >= 0:
        _change_slots(gpus, gpu, gpu_slots)
        gpu = gpus.next_gpu[gpu] if gpu_slots == SLOTS_PER_GPU else -1


@njit(inline="always")
def first_with(tree: Int64Array, min_value: int) -> int:
    """Return the first leaf with at least a given value; there must be such a leaf."""
    n_leaves, tree_node = tree.size // 2, 1
    while tree_node < n_leaves:
        tree_node = (
            2 * tree_node if tree[2 * tree_node] >= min_value else 2 * tree_node + 1
        )
    return tree_node - n_leaves


@njit(inline="always")
def add_to(tree: Int64Array, leaf: int, added: int) -> int:
    """Add to a leaf of a tree; return its new value."""
    tree_node = tree.size // 2 + leaf
    tree[tree_node] += added
    value = tree[tree_node]
    while tree_node > 1:
        tree_node //= 2
        maximum = max(tree[2 * tree_node], tree[2 * tree_node + 1])
        if tree[tree_node] == maximum:
            break
        tree[tree_node] = maximum
    return int(value)


@njit()
def _change_slots(gpus: Gpus, gpu: int, n_slots: int) -> None:
    """Free slots of a GPU, or occupy them if negative."""
    n_free_slots = add_to(gpus.gpus, gpu, n_slots)
    n_freed = int(n_free_slots == SLOTS_PER_GPU) - int(
        n_free_slots - n_slots == SLOTS_PER_GPU
    )
    if n_freed:
        n_free_gpus = add_to(gpus.nodes, gpu // gpus.per_node, n_freed)
        gpus.free_nodes[0] += int(n_free_gpus == gpus.per_node) - int(
            n_free_gpus - n_freed == gpus.per_node
        )


@njit()
def find_starts(
    queue: QueuedJobs,
    pool: PoolHeap,
    n_waiting: int,
    until_ms: int,
    gpus: Gpus | None,
    ranks: Ranks | None,
    backfill_ranks: Ranks | None,
    expected_ends: ExpectedEnds | None,
    plan: AvailabilityProfile | None,
) -> int:
    """Fill in the jobs that start before a time; return their number."""
    submit_ms, n_nodes, state, running = (
        queue.submit_ms,
        queue.n_nodes,
        pool.state,
        pool.running,
    )
    # The queue is a linked list; the last job is followed by the next to arrive.
    head, arrived, n_started = 0, n_waiting, 0
    min_nodes = 1  # minimum number of nodes of the queued jobs
    if ranks is not None:
        for row in range(n_waiting):
            sift_up(ranks.heap, row, ranks.rank[row], row, 0)
    while True:
        now_ms = NEVER_MS if arrived == submit_ms.size else submit_ms[arrived]
        if state[N_RUNNING]:
            now_ms = min(now_ms, running[0, 0])
        if now_ms >= until_ms:
            return n_started
        has_ended = False
        while state[N_RUNNING] and running[0, 0] == now_ms:
            has_ended = True
            _end_first(pool, now_ms, gpus, expected_ends, plan)
        first_new = arrived
        while arrived < submit_ms.size and submit_ms[arrived] == now_ms:
            if ranks is not None:
                sift_up(
                    ranks.heap, arrived - n_started, ranks.rank[arrived], arrived, 0
                )
            min_nodes = min(min_nodes, n_nodes[arrived])
            arrived += 1
        if n_started == arrived:
            continue
        if plan is not None and expected_ends is not None:
            reserve(
                queue,
                pool,
                expected_ends,
                plan,
                head,
                first_new,
                arrived,
                now_ms,
                has_ended,
            )
            head, n_started = _start_reserved(
                queue, pool, head, arrived, n_started, now_ms, expected_ends, plan
            )
            continue
        if expected_ends is not None and state[FREE_NODES] < min_nodes:
            continue
        while n_started < arrived:
            row = head if ranks is None else ranks.heap[1, 0]
            if not _fits(pool, n_nodes[row], gpus):
                break
            n_started = _start(queue, pool, row, n_started, now_ms, gpus, expected_ends)
            head = head + 1 if expected_ends is None else expected_ends.behind[head]
            if ranks is not None:
                sift_down(ranks.heap, arrived - n_started)
        if expected_ends is not None:
            min_nodes = NEVER_MS
            if n_started < arrived:
                n_started, min_nodes = _backfill(
                    queue,
                    pool,
                    head,
                    arrived,
                    n_started,
                    now_ms,
                    expected_ends,
                    backfill_ranks,
                )


@njit()
def _fits(pool: PoolHeap, n_nodes: int, gpus: Gpus | None) -> bool:
    """Return True if a job fits into the free nodes or GPUs."""
    if gpus is not None:
        return fits_gpus(gpus, n_nodes)
    return bool(pool.state[FREE_NODES] >= n_nodes)


@njit()
def _start(
    queue: QueuedJobs,
    pool: PoolHeap,
    row: int,
    n_started: int,
    now_ms: int,
    gpus: Gpus | None,
    expected_ends: ExpectedEnds | None,
) -> int:
    """Start a job; return the number of jobs started."""
    occupied, expected_ms = int(queue.n_nodes[row]), now_ms + queue.estimate_ms[row]
    if gpus is not None:
        occupied = take_gpus(gpus, occupied)
    else:
        pool.state[FREE_NODES] -= occupied
    end_ms = now_ms + queue.duration_ms[row]
    sift_up(pool.running, pool.state[N_RUNNING], end_ms, occupied, expected_ms)
    pool.state[N_RUNNING] += 1
    if expected_ends is not None:
        expected, n_expected = expected_ends.expected, pool.state[N_EXPECTED]
        position = first_from(expected[0], n_expected, expected_ms)
        for index in range(n_expected, position, -1):
            expected[0, index], expected[1, index] = (
                expected[0, index - 1],
                expected[1, index - 1],
            )
        expected[0, position], expected[1, position] = expected_ms, occupied
        pool.state[N_EXPECTED] += 1
    queue.started[n_started], queue.start_ms[n_started] = row, now_ms
    return n_started + 1


@njit()
def _end_first(
    pool: PoolHeap,
    now_ms: int,
    gpus: Gpus | None,
    expected_ends: ExpectedEnds | None,
    plan: AvailabilityProfile | None,
) -> None:
    """End the job that ends first, or add nodes."""
    occupied, expected_ms = pool.running[1, 0], pool.running[2, 0]
    pool.state[N_RUNNING] -= 1
    sift_down(pool.running, pool.state[N_RUNNING])
    if gpus is not None:
        free_gpus(gpus, occupied)
    else:
        pool.state[FREE_NODES] += occupied
    if expected_ends is not None and expected_ms != NEVER_MS:
        expected, n_expected = expected_ends.expected, pool.state[N_EXPECTED]
        position = first_from(expected[0], n_expected, expected_ms)
        while expected[1, position] != occupied:  # several may have this expected end
            position += 1
        for row in range(position, n_expected - 1):
            expected[0, row], expected[1, row] = (
                expected[0, row + 1],
                expected[1, row + 1],
            )
        pool.state[N_EXPECTED] -= 1
    if plan is not None and expected_ms > now_ms:
        release_nodes(plan, now_ms, expected_ms, occupied)


@njit()
def _backfill(
    queue: QueuedJobs,
    pool: PoolHeap,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    expected_ends: ExpectedEnds,
    ranks: Ranks | None,
) -> tuple[int, int]:
    """Start jobs that do not delay the queue's head, by EASY backfilling.

    Returns the number of jobs started, and the minimum nodes of the jobs still waiting.
    """
    n_nodes, estimate_ms, behind = (
        queue.n_nodes,
        queue.estimate_ms,
        expected_ends.behind,
    )
    free_nodes, n_before = pool.state[FREE_NODES], n_started
    shadow_ms, extra_nodes = _shadow_time(
        expected_ends.expected, pool, now_ms, n_nodes[head]
    )
    # Jobs that don't fit now can't fit after others have started.
    depth = min(expected_ends.depth, arrived - n_started)
    eligible = np.empty(depth, dtype=np.int64)
    row, n_considered, n_eligible, min_nodes = behind[head], 1, 0, int(n_nodes[head])
    while row < arrived and n_considered < depth:
        min_nodes = min(min_nodes, n_nodes[row])
        ends_in_time = now_ms + estimate_ms[row] <= shadow_ms
        if n_nodes[row] <= free_nodes and (ends_in_time or n_nodes[row] <= extra_nodes):
            eligible[n_eligible] = row
            n_eligible += 1
        row = behind[row]
        n_considered += 1
    if row < arrived:
        min_nodes = 1  # jobs beyond the depth were not considered
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
        n_started = _start(queue, pool, row, n_started, now_ms, None, expected_ends)
        behind[row] = -behind[row]  # it leaves the list
    n_leaving, row = n_started - n_before, head
    while n_leaving:
        next_row = behind[row]
        if behind[next_row] < 0:
            behind[row] = -behind[next_row]
            n_leaving -= 1
        else:
            row = next_row
    return n_started, min_nodes


@njit()
def _shadow_time(
    expected: Int64Array, pool: PoolHeap, now_ms: int, n_nodes: int
) -> tuple[int, int]:
    """Return the time at which `n_nodes` become free [ms], and the surplus then."""
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
        if free_nodes >= n_nodes:
            shadow_ms = end_ms
    return shadow_ms, free_nodes - n_nodes if shadow_ms < NEVER_MS else 0


@njit()
def _start_reserved(
    queue: QueuedJobs,
    pool: PoolHeap,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    expected_ends: ExpectedEnds,
    plan: AvailabilityProfile,
) -> tuple[int, int]:
    """Start the jobs whose reservation is now.

    Returns the head of the queue, and the number of jobs started.
    """
    behind, reserved_ms = expected_ends.behind, plan.reserved_ms
    earliest_ms, row, previous_row = NEVER_MS, head, -1
    while row < arrived:
        if reserved_ms[row] == now_ms:
            n_started = _start(queue, pool, row, n_started, now_ms, None, expected_ends)
            if previous_row < 0:
                head = behind[row]
            else:
                behind[previous_row] = behind[row]
        else:
            earliest_ms = min(earliest_ms, reserved_ms[row])
            previous_row = row
        row = behind[row]
    plan.known[EARLIEST_MS] = earliest_ms
    return head, n_started


START, END, OWNER, FIRST, COUNT, SLOTS, INTO, NEXT = range(8)
"""Columns of a row of occupied nodes; see `HeldNodes`, and `NEXT` for linked rows."""
SPARE = -1
"""Number of slots in a spare row. The next of a spare row is another spare row; that of
an occupied row is another row of its interval, or -1."""


class Leaves(NamedTuple):
    """Free nodes of a pool, and an array for the nodes that an interval gets."""

    group: int  # nodes per leaf
    by_rack: bool  # True if an interval gets nodes of the fewest leaves
    free: Int64Array  # free nodes of each leaf, as bits
    tree: Int64Array  # a `max_tree` of the numbers of free nodes
    # Rows: first node, number of nodes and of slots of each contiguous range
    ranges: Int64Array


class Chain(NamedTuple):
    """Intervals, each with the previous and the next interval of its owner."""

    start_ms: Int64Array
    end_ms: Int64Array
    n_slots: Int64Array
    owner: Int64Array
    before: Int64Array
    after: Int64Array


@njit()
def place_intervals(
    leaves: Leaves,
    gpus: Gpus | None,
    n_before: int,
    intervals: Chain,
    ends: Int64Array,
    places: Int64Array,
    rows: Int64Array,
    spare_row: int,
    released: Int64Array,
) -> tuple[int, int, int]:
    """Place intervals on nodes one by one, by start; `ends` sorts them by end.

    Fills `rows` with occupied nodes, and `released` with released ones. Returns the
    number of ended intervals, the first spare row and the number of released rows. No
    array is created or replaced here, as numba would count its references in each loop.
    """
    start_ms, end_ms, n_slots, owner, previous, following = intervals
    head, positions, ranges = places[0], places[1], leaves.ranges
    n_ended = n_released = 0
    for interval in range(n_before, start_ms.size):
        now_ms, n_needed = start_ms[interval], n_slots[interval]
        while end_ms[ends[n_ended]] <= now_ms:
            ended = ends[n_ended]
            n_ended += 1
            next_interval, row = following[ended], head[ended]
            n_to_release = (
                n_slots[ended]
                if next_interval < 0
                else max(n_slots[ended] - n_slots[next_interval], 0)
            )
            if gpus is not None:
                free_gpus(gpus, positions[ended])
            while n_to_release > 0:  # those allocated last
                freed_row, row = row, rows[row, NEXT]
                # Release a part of a row; does not occur for jobs on GPUs
                if rows[freed_row, SLOTS] > n_to_release:
                    row = freed_row
                    freed_row, spare_row = spare_row, rows[spare_row, NEXT]
                    rows[freed_row] = rows[row]
                    n_kept = rows[row, COUNT] - n_to_release
                    rows[row, COUNT] = rows[row, SLOTS] = n_kept
                    rows[freed_row, FIRST] += n_kept
                    rows[freed_row, INTO] += n_kept
                    rows[freed_row, COUNT] = rows[freed_row, SLOTS] = n_to_release
                n_to_release -= rows[freed_row, SLOTS]
                if gpus is None:
                    _release_placed(
                        leaves, rows[freed_row, FIRST], rows[freed_row, COUNT]
                    )
                for k in range(NEXT):
                    released[k, n_released] = rows[freed_row, k]
                n_released += 1
                rows[freed_row, SLOTS], rows[freed_row, NEXT], spare_row = (
                    SPARE,
                    spare_row,
                    freed_row,
                )
            if next_interval >= 0:
                head[next_interval] = row
                while row >= 0:
                    rows[row, END] = end_ms[next_interval]
                    row = rows[row, NEXT]
        n_held = (
            min(n_slots[previous[interval]], n_needed) if previous[interval] >= 0 else 0
        )
        if gpus is None:
            n_ranges = _take_nodes(leaves, n_needed - n_held)
        else:
            positions[interval] = take_gpus(gpus, n_needed)
            n_ranges = _list_nodes(gpus, positions[interval], n_needed, ranges)
        if n_ranges < 0:
            return n_ranges, spare_row, n_released
        for range_index in range(n_ranges):
            row, spare_row = spare_row, rows[spare_row, NEXT]
            rows[row, START], rows[row, END], rows[row, OWNER] = (
                now_ms,
                end_ms[interval],
                owner[interval],
            )
            rows[row, FIRST], rows[row, COUNT] = (
                ranges[0, range_index],
                ranges[1, range_index],
            )
            rows[row, SLOTS], rows[row, INTO] = ranges[2, range_index], n_held
            rows[row, NEXT], head[interval] = head[interval], row
            n_held += ranges[2, range_index]
    return n_ended, spare_row, n_released


@njit()
def _take_nodes(leaves: Leaves, n_needed: int) -> int:
    """Allocate free nodes and list their contiguous ranges.

    Returns the number of ranges; a negative result is minus the number of lacking
    nodes.
    """
    group, by_rack, free, tree, ranges = leaves
    n_leaves, n_ranges, next_node = tree.size // 2, 0, -1
    while n_needed > 0:
        if not tree[1]:
            return -n_needed
        leaf = first_with(tree, min(n_needed, tree[1]) if by_rack else 1)
        n_taken = min(n_needed, tree[n_leaves + leaf])
        add_to(tree, leaf, -n_taken)
        n_needed -= n_taken
        while n_taken:
            first = _lowest_bit(free[leaf])
            count = min(_lowest_bit(~(free[leaf] >> first)), n_taken)
            free[leaf] ^= ((1 << count) - 1) << first
            n_taken -= count
            node = leaf * group + first
            if node != next_node:
                ranges[0, n_ranges], ranges[1, n_ranges] = node, 0
                n_ranges += 1
            ranges[1, n_ranges - 1] += count
            ranges[2, n_ranges - 1] = ranges[1, n_ranges - 1]
            next_node = node + count
    return n_ranges


@njit()
def _lowest_bit(bits: int) -> int:
    """Return the index of the lowest set bit.

    It is the exponent of that bit as a double.
    """
    return int((np.float64(bits & -bits).view(np.int64) >> 52) - 1023)


@njit()
def _release_placed(leaves: Leaves, node: int, n_nodes: int) -> None:
    """Release contiguous nodes."""
    group, free, tree = leaves.group, leaves.free, leaves.tree
    stop = node + n_nodes
    while node < stop:
        leaf = node // group
        count = min((leaf + 1) * group, stop) - node
        free[leaf] |= ((1 << count) - 1) << (node - leaf * group)
        add_to(tree, leaf, count)
        node += count


@njit()
def _list_nodes(gpus: Gpus, position: int, n_slots: int, ranges: Int64Array) -> int:
    """List the nodes of a job on GPUs, with its slots on each; return their number."""
    gpu, n_left, n_ranges = position // (SLOTS_PER_GPU + 1), n_slots, 0
    while gpu >= 0:
        node, n_here = gpu // gpus.per_node, min(n_left, SLOTS_PER_GPU)
        if not n_ranges or ranges[0, n_ranges - 1] != node:
            ranges[0, n_ranges], ranges[1, n_ranges], ranges[2, n_ranges] = node, 1, 0
            n_ranges += 1
        ranges[2, n_ranges - 1] += n_here
        n_left -= n_here
        gpu = gpus.next_gpu[gpu] if n_slots >= SLOTS_PER_GPU else -1
    return n_ranges
