"""Compiled kernels of the schedulers.

Heaps, reservations and GPUs, the compiled loop, and nodes by number. They call each
other, so they stand in one file: numba keeps machine code until the file of the kernel
that was called changes, and looks at no other.

A heap is binary, in three rows of an array, the smallest of the first row on top; the
plan of conservative backfilling is the nodes that are free from now on, with
reservations. A GPU has `SLOTS_PER_GPU` slots: the first GPU with n free slots, and the
first node with n free GPUs, are found in two binary trees whose knots hold the most of
a GPU, of a node, below them. The GPUs of a job that has them as a whole are chained, as
no other job is on them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Int32Array, Int64Array
from diploee.base.units import SLOTS_PER_GPU


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

N_RUNNING, FREE_NODES, N_EXPECTED = range(3)
"""Indices into the state of a pool: entries of its heap, free nodes, expected ends."""


class PoolHeap(NamedTuple):
    """Nodes, and a heap of true ends, nodes (or place) and expected ends [ms].

    Nodes that will be added are in it, too: their expected end is `NEVER_MS`.
    """

    state: Int64Array
    running: Int64Array


class QueuedJobs(NamedTuple):
    """Jobs in the order of submission, and room for those that start."""

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
    """Running jobs as a policy that looks behind the head expects them to end."""

    expected: Int64Array  # ends [ms] in their order, and nodes
    behind: Int64Array  # next in the queue of each job
    depth: int  # jobs of the queue that are looked at


N_STEPS, EARLIEST_MS, HAS_HOLES = range(3)


class AvailabilityProfile(NamedTuple):
    """Times [ms] and the nodes that are free from each on.

    `known` holds the number of these steps, the earliest reservation of a job that
    waits [ms], and whether one might move to an earlier hole.
    """

    steps: Int64Array
    known: Int64Array
    reserved_ms: Int64Array  # of each job in the queue


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
    """Reserve nodes for new jobs, and for others where they may start earlier."""
    n_nodes, estimate_ms, expected = queue.n_nodes, queue.estimate_ms, ahead.expected
    n_expected, reserved_ms = pool.state[N_EXPECTED], plan.reserved_ms
    known, row = plan.known, first_new
    if has_ended and known[HAS_HOLES]:
        row = head
        known[HAS_HOLES] = 0
    outran = n_expected > 0 and expected[0, 0] <= now_ms
    if outran or known[EARLIEST_MS] < now_ms:
        _plan_anew(plan, expected, n_expected, pool.state[FREE_NODES], now_ms)
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
        row = ahead.behind[row]


@njit()
def give_back(
    plan: AvailabilityProfile, now_ms: int, expected_ms: int, n_nodes: int
) -> None:
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
    plan: AvailabilityProfile,
    expected: Int64Array,
    n_expected: int,
    free_nodes: int,
    now_ms: int,
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
def _begin(plan: AvailabilityProfile, now_ms: int) -> None:
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
def _take(
    plan: AvailabilityProfile, start_ms: int, length_ms: int, n_nodes: int
) -> None:
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
def _cut(plan: AvailabilityProfile, time_ms: int) -> int:
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
def _earliest_ms(plan: AvailabilityProfile, length_ms: int, n_nodes: int) -> int:
    """Return the earliest time with enough free nodes for a duration."""
    steps, start_ms = plan.steps, NEVER_MS
    for step in range(plan.known[N_STEPS]):
        if steps[0, step] - start_ms >= length_ms:
            break
        start_ms = (
            min(start_ms, steps[0, step]) if steps[1, step] >= n_nodes else NEVER_MS
        )
    return start_ms


class Gpus(NamedTuple):
    """GPUs of a pool."""

    per_node: int  # GPUs of a node
    # Trees of the free slots of GPUs and of the wholly free GPUs of nodes
    gpus: Int64Array
    nodes: Int64Array
    next_gpu: Int64Array  # further GPU of the job that has a GPU as a whole, -1 = none
    free_nodes: Int64Array  # number of wholly free nodes


def open_gpus(n_nodes: int, per_node: int) -> Gpus:
    """Return the GPUs of a pool, all of them free."""
    n_gpus = n_nodes * per_node
    gpus, nodes = (
        tree_of(np.full(n_gpus, SLOTS_PER_GPU)),
        tree_of(np.full(n_nodes, per_node)),
    )
    return Gpus(per_node, gpus, nodes, np.full(n_gpus, -1), np.array([n_nodes]))


def tree_of(leaves: Int64Array) -> Int64Array:
    """Return a tree of maxima.

    The root at 1, the two below knot k at 2 k and 2 k + 1.
    """
    n_leaves = 1 << (leaves.size - 1).bit_length()
    tree = np.zeros(2 * n_leaves, dtype=np.int64)
    tree[n_leaves : n_leaves + leaves.size] = leaves
    for knot in range(n_leaves - 1, 0, -1):
        tree[knot] = tree[2 * knot : 2 * knot + 2].max()
    return tree


@njit()
def fits_gpus(of: Gpus, asked: int) -> bool:
    """Return whether a job on some slots fits now."""
    if asked < SLOTS_PER_GPU:
        return bool(of.gpus[1] >= asked)
    wanted = -(-asked // SLOTS_PER_GPU)
    if wanted < of.per_node:
        return bool(of.nodes[1] >= wanted)
    return bool(of.free_nodes[0] * of.per_node >= wanted)


@njit()
def take_gpus(of: Gpus, asked: int) -> int:
    """Take slots for a job that fits.

    Return its place, from which `free_gpus` frees them.
    """
    part, first = min(asked, SLOTS_PER_GPU), -1
    if asked < SLOTS_PER_GPU:
        first = first_with(of.gpus, asked)
        _change(of, first, -asked)
    else:
        wanted = -(-asked // SLOTS_PER_GPU)
        gpu = first_with(of.nodes, min(wanted, of.per_node)) * of.per_node
        for _ in range(wanted):
            if gpu % of.per_node == 0 and wanted > of.per_node:
                gpu = first_with(of.nodes, of.per_node) * of.per_node
            while of.gpus[of.gpus.size // 2 + gpu] < SLOTS_PER_GPU:
                gpu += 1
            _change(of, gpu, -SLOTS_PER_GPU)
            of.next_gpu[gpu], first = first, gpu
            gpu += 1
    return first * (SLOTS_PER_GPU + 1) + part


@njit()
def free_gpus(of: Gpus, place: int) -> None:
    """Free the GPUs of a job."""
    gpu, part = place // (SLOTS_PER_GPU + 1), place % (SLOTS_PER_GPU + 1)
    while gpu >= 0:
        _change(of, gpu, part)
        gpu = of.next_gpu[gpu] if part == SLOTS_PER_GPU else -1


@njit(inline="always")
def first_with(tree: Int64Array, least: int) -> int:
    """Return the first leaf of at least so much; there is one."""
    n_leaves, knot = tree.size // 2, 1
    while knot < n_leaves:
        knot = 2 * knot if tree[2 * knot] >= least else 2 * knot + 1
    return knot - n_leaves


@njit(inline="always")
def add_to(tree: Int64Array, leaf: int, more: int) -> int:
    """Add to a leaf; return what it holds then."""
    knot = tree.size // 2 + leaf
    tree[knot] += more
    held = tree[knot]
    while knot > 1:
        knot //= 2
        most = max(tree[2 * knot], tree[2 * knot + 1])
        if tree[knot] == most:
            break
        tree[knot] = most
    return int(held)


@njit()
def _change(of: Gpus, gpu: int, n_slots: int) -> None:
    """Free a number of slots of a GPU, or take them where negative."""
    held = add_to(of.gpus, gpu, n_slots)
    freed = int(held == SLOTS_PER_GPU) - int(held - n_slots == SLOTS_PER_GPU)
    if freed:
        n_free = add_to(of.nodes, gpu // of.per_node, freed)
        of.free_nodes[0] += int(n_free == of.per_node) - int(
            n_free - freed == of.per_node
        )


@njit()
def find_starts(
    queue: QueuedJobs,
    pool: PoolHeap,
    n_waiting: int,
    until_ms: int,
    gpus: Gpus | None,
    of_all: Ranks | None,
    of_behind: Ranks | None,
    ahead: ExpectedEnds | None,
    plan: AvailabilityProfile | None,
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
                queue, pool, ahead, plan, head, first_new, arrived, now_ms, has_ended
            )
            head, n_started = _start_reserved(
                queue, pool, head, arrived, n_started, now_ms, ahead, plan
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
                    queue, pool, head, arrived, n_started, now_ms, ahead, of_behind
                )


@njit()
def _fits(pool: PoolHeap, n_nodes: int, gpus: Gpus | None) -> bool:
    """Return whether a job fits now."""
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
    ahead: ExpectedEnds | None,
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
    pool: PoolHeap,
    now_ms: int,
    gpus: Gpus | None,
    ahead: ExpectedEnds | None,
    plan: AvailabilityProfile | None,
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
    queue: QueuedJobs,
    pool: PoolHeap,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    ahead: ExpectedEnds,
    ranks: Ranks | None,
) -> tuple[int, int]:
    """Start what does not delay the head.

    Return how many have started, and the fewest nodes.
    """
    n_nodes, estimate_ms, behind = queue.n_nodes, queue.estimate_ms, ahead.behind
    free_nodes, before = pool.state[FREE_NODES], n_started
    shadow_ms, extra_nodes = _shadow(ahead.expected, pool, now_ms, n_nodes[head])
    # Jobs that don't fit now can't once others before them have started.
    depth = min(ahead.depth, arrived - n_started)
    eligible = np.empty(depth, dtype=np.int64)
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
    expected: Int64Array, pool: PoolHeap, now_ms: int, wanted: int
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
    queue: QueuedJobs,
    pool: PoolHeap,
    head: int,
    arrived: int,
    n_started: int,
    now_ms: int,
    ahead: ExpectedEnds,
    plan: AvailabilityProfile,
) -> tuple[int, int]:
    """Start the jobs whose reservation is now.

    Return the head, and how many have started.
    """
    behind, reserved_ms = ahead.behind, plan.reserved_ms
    earliest_ms, row, before = NEVER_MS, head, -1
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


START, END, OWNER, FIRST, COUNT, SLOTS, INTO, NEXT = range(8)
SPARE = -1
"""Slots of a row of nodes that holds nothing; its next is another spare row, that of
others another row of their stretch, or -1."""


class Leaves(NamedTuple):
    """Free nodes of a pool, and room for the pieces that a stretch takes."""

    group: int  # nodes of a leaf
    by_rack: bool  # whether a stretch gets the fewest leaves
    free: Int64Array  # free nodes of each leaf, as bits
    tree: Int64Array  # a `tree_of` their numbers
    pieces: Int64Array  # first nodes, nodes and slots, shape (3, nodes)


class Chain(NamedTuple):
    """Stretches, and of each the one of its owner that it follows and that follows."""

    start_ms: Int64Array
    end_ms: Int64Array
    n_slots: Int64Array
    owner: Int64Array
    before: Int64Array
    after: Int64Array


@njit()
def place_stretches(
    leaves: Leaves,
    gpus: Gpus | None,
    n_before: int,
    stretches: Chain,
    ends: Int64Array,
    places: Int64Array,
    rows: Int64Array,
    spare: int,
    gone: Int64Array,
) -> tuple[int, int, int]:
    """Place stretches in turn, whose `ends` are in order.

    Fill `rows`, and `gone` as they end. Returns how many ended, the first spare row,
    and the number of those gone. No array is made or replaced in here: numba would
    count who holds it at each turn of the loop.
    """
    start_ms, end_ms, n_slots, owner, before, after = stretches
    head, place, pieces = places[0], places[1], leaves.pieces
    n_ended = n_gone = 0
    for new in range(n_before, start_ms.size):
        now_ms, wanted = start_ms[new], n_slots[new]
        while end_ms[ends[n_ended]] <= now_ms:
            old = ends[n_ended]
            n_ended += 1
            then, row = after[old], head[old]
            more = n_slots[old] if then < 0 else max(n_slots[old] - n_slots[then], 0)
            if gpus is not None:
                free_gpus(gpus, place[old])
            while more > 0:  # what it took last
                given, row = row, rows[row, NEXT]
                # Of a row of nodes: jobs on GPUs keep what they have
                if rows[given, SLOTS] > more:
                    row = given
                    given, spare = spare, rows[spare, NEXT]
                    rows[given] = rows[row]
                    n_kept = rows[row, COUNT] - more
                    rows[row, COUNT] = rows[row, SLOTS] = n_kept
                    rows[given, FIRST] += n_kept
                    rows[given, INTO] += n_kept
                    rows[given, COUNT] = rows[given, SLOTS] = more
                more -= rows[given, SLOTS]
                if gpus is None:
                    _give_nodes_back(leaves, rows[given, FIRST], rows[given, COUNT])
                for k in range(NEXT):
                    gone[k, n_gone] = rows[given, k]
                n_gone += 1
                rows[given, SLOTS], rows[given, NEXT], spare = SPARE, spare, given
            if then >= 0:
                head[then] = row
                while row >= 0:
                    rows[row, END] = end_ms[then]
                    row = rows[row, NEXT]
        held = min(n_slots[before[new]], wanted) if before[new] >= 0 else 0
        if gpus is None:
            n_pieces = _take_nodes(leaves, wanted - held)
        else:
            place[new] = take_gpus(gpus, wanted)
            n_pieces = _nodes_of(gpus, place[new], wanted, pieces)
        if n_pieces < 0:
            return n_pieces, spare, n_gone
        for piece in range(n_pieces):
            row, spare = spare, rows[spare, NEXT]
            rows[row, START], rows[row, END], rows[row, OWNER] = (
                now_ms,
                end_ms[new],
                owner[new],
            )
            rows[row, FIRST], rows[row, COUNT] = pieces[0, piece], pieces[1, piece]
            rows[row, SLOTS], rows[row, INTO] = pieces[2, piece], held
            rows[row, NEXT], head[new] = head[new], row
            held += pieces[2, piece]
    return n_ended, spare, n_gone


@njit()
def _take_nodes(leaves: Leaves, wanted: int) -> int:
    """Take free nodes, list their pieces, and return the number of pieces."""
    group, by_rack, free, tree, pieces = leaves
    n_leaves, n_pieces, end = tree.size // 2, 0, -1
    while wanted > 0:
        if not tree[1]:
            return -wanted
        leaf = first_with(tree, min(wanted, tree[1]) if by_rack else 1)
        n_taken = min(wanted, tree[n_leaves + leaf])
        add_to(tree, leaf, -n_taken)
        wanted -= n_taken
        while n_taken:
            first = _lowest(free[leaf])
            count = min(_lowest(~(free[leaf] >> first)), n_taken)
            free[leaf] ^= ((1 << count) - 1) << first
            n_taken -= count
            node = leaf * group + first
            if node != end:
                pieces[0, n_pieces], pieces[1, n_pieces] = node, 0
                n_pieces += 1
            pieces[1, n_pieces - 1] += count
            pieces[2, n_pieces - 1] = pieces[1, n_pieces - 1]
            end = node + count
    return n_pieces


@njit()
def _lowest(bits: int) -> int:
    """Return the place of the lowest bit that is set.

    The exponent of that bit as a double.
    """
    return int((np.float64(bits & -bits).view(np.int64) >> 52) - 1023)


@njit()
def _give_nodes_back(leaves: Leaves, node: int, n_nodes: int) -> None:
    """Give back nodes side by side."""
    group, free, tree = leaves.group, leaves.free, leaves.tree
    end = node + n_nodes
    while node < end:
        leaf = node // group
        count = min((leaf + 1) * group, end) - node
        free[leaf] |= ((1 << count) - 1) << (node - leaf * group)
        add_to(tree, leaf, count)
        node += count


@njit()
def _nodes_of(gpus: Gpus, place: int, n_slots: int, pieces: Int64Array) -> int:
    """List the nodes that a job has GPUs of, and its slots there; return how many."""
    gpu, left, n_pieces = place // (SLOTS_PER_GPU + 1), n_slots, 0
    while gpu >= 0:
        node, n_here = gpu // gpus.per_node, min(left, SLOTS_PER_GPU)
        if not n_pieces or pieces[0, n_pieces - 1] != node:
            pieces[0, n_pieces], pieces[1, n_pieces], pieces[2, n_pieces] = node, 1, 0
            n_pieces += 1
        pieces[2, n_pieces - 1] += n_here
        left -= n_here
        gpu = gpus.next_gpu[gpu] if n_slots >= SLOTS_PER_GPU else -1
    return n_pieces
