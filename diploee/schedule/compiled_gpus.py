"""Strict FIFO over nodes of which jobs may have a part: first fit, the same schedule as SimPy's.

What is the first GPU with so many free slots, and the first node with so many free GPUs, is found
in two binary trees whose knots hold the most of a GPU, of a node, below them. The GPUs of a job
that has them as a whole are chained, as no other job is on them.
"""

from __future__ import annotations

import numpy as np

from diploee.jit import njit
from diploee.schedule.compiled_engine import _sift_down, _sift_up
from diploee.schedule.job_table import JobTable
from diploee.tables import Int32Array, Int64Array
from diploee.units import SLOTS_PER_GPU

RUNNING, FREE_NODES, NOW_MS = range(3)
"""Places in the state: running jobs, wholly free nodes, and the time reached [ms]."""


class CompiledGpus:
    """One pool that allocates GPUs, under strict FIFO, advanced window by window.

    Parameters
    ----------
    n_nodes, gpus_per_node : int
        Nodes of the pool and GPUs of each.
    begin_ms : int
        Time at which the simulation begins [ms].
    """

    def __init__(self, n_nodes: int, gpus_per_node: int, begin_ms: int = 0) -> None:
        self._n_gpus = n_nodes * gpus_per_node
        self._gpus = _tree(np.full(self._n_gpus, SLOTS_PER_GPU))
        self._nodes = _tree(np.full(n_nodes, gpus_per_node))
        self._next_gpu = np.full(self._n_gpus, -1)
        # Ends; and the first GPU of a job, with its slots there.
        self._heap = np.empty((2, 0), dtype=np.int64)
        self._state = np.array([0, n_nodes, begin_ms], dtype=np.int64)
        self._per_node = gpus_per_node
        self._queue = JobTable.empty().columns("submit_ms", "n_nodes", "duration_ms")
        self._n_started = 0

    @property
    def free_slots(self) -> Int64Array:
        """Free slots of each GPU, node after node, at the end of the last window, shape (n,)."""
        n_leaves = self._gpus.size // 2
        return self._gpus[n_leaves : n_leaves + self._n_gpus]

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time, as `PoolEngine` says."""
        new = jobs.columns("submit_ms", "n_nodes", "duration_ms")
        self._queue = tuple(np.concatenate(pair) for pair in zip(self._queue, new, strict=True))
        submit_ms, n_slots, duration_ms = self._queue
        needed = int(self._state[RUNNING]) + submit_ms.size + 1
        if needed > self._heap.shape[1]:
            more = np.empty((2, 2 * needed), dtype=np.int64)
            more[:, : self._heap.shape[1]] = self._heap
            self._heap = more
        start_ms = _start_ms(
            submit_ms, n_slots, duration_ms, self._per_node, self._gpus, self._nodes,
            self._next_gpu, self._heap[0], self._heap[1], self._state, until_ms,
        )  # fmt: skip
        self._queue = tuple(values[start_ms.size :] for values in self._queue)
        numbers = np.arange(self._n_started, self._n_started + start_ms.size)
        self._n_started += start_ms.size
        return numbers, start_ms


def _tree(leaves: Int64Array) -> Int64Array:
    """Return a tree of maxima: the root at 1, the two below knot k at 2 k and 2 k + 1."""
    n_leaves = 1 << (leaves.size - 1).bit_length()
    tree = np.zeros(2 * n_leaves, dtype=np.int64)
    tree[n_leaves : n_leaves + leaves.size] = leaves
    for knot in range(n_leaves - 1, 0, -1):
        tree[knot] = tree[2 * knot : 2 * knot + 2].max()
    return tree


@njit()
def _start_ms(
    submit_ms: Int64Array,
    n_slots: Int32Array,
    duration_ms: Int64Array,
    per_node: int,
    gpus: Int64Array,
    nodes: Int64Array,
    next_gpu: Int64Array,
    heap_end_ms: Int64Array,
    heap_place: Int64Array,
    state: Int64Array,
    until_ms: int,
) -> Int64Array:
    """Return the starts of the jobs at the head of the queue that start before a time.

    Parameters
    ----------
    submit_ms, n_slots, duration_ms : numpy.ndarray, shape (n,)
        Submissions [ms], non-decreasing, slots and run times [ms] of the jobs.
    per_node : int
        GPUs of a node.
    gpus, nodes : numpy.ndarray, int64
        Trees of the free slots of GPUs and of the wholly free GPUs of nodes; changed.
    next_gpu : numpy.ndarray, shape (n_gpus,), int64
        Further GPU of the job that has a GPU as a whole, -1 = none; changed.
    heap_end_ms, heap_place : numpy.ndarray, int64
        Ends [ms] of the running jobs, the earliest first, and where they run; changed.
    state : numpy.ndarray, shape (3,), int64
        As `RUNNING`, `FREE_NODES` and `NOW_MS` say; changed.
    until_ms : int
        A job that would start at or after it waits for the next call.

    Returns
    -------
    numpy.ndarray, shape (m,), int64
        Start times [ms] of the first m jobs.
    """
    start_ms = np.empty(submit_ms.size, dtype=np.int64)
    n_started = 0
    for job in range(submit_ms.size):
        asked = n_slots[job]
        state[NOW_MS] = max(state[NOW_MS], submit_ms[job])
        # All ends of an instant come before its starts: which GPU is first depends on them.
        while state[RUNNING] and heap_end_ms[0] < until_ms:
            if heap_end_ms[0] > state[NOW_MS] and _fits(asked, per_node, gpus, nodes, state):
                break
            state[NOW_MS] = max(state[NOW_MS], heap_end_ms[0])
            _end_first(per_node, gpus, nodes, next_gpu, heap_end_ms, heap_place, state)
        if not _fits(asked, per_node, gpus, nodes, state):
            break
        part, first = min(asked, SLOTS_PER_GPU), -1
        if asked < SLOTS_PER_GPU:
            first = _first_with(gpus, asked)
            _change(first, -asked, per_node, gpus, nodes, state)
        else:
            wanted = -(-asked // SLOTS_PER_GPU)
            gpu = _first_with(nodes, min(wanted, per_node)) * per_node
            for _ in range(wanted):
                if gpu % per_node == 0 and wanted > per_node:
                    gpu = _first_with(nodes, per_node) * per_node
                while gpus[gpus.size // 2 + gpu] < SLOTS_PER_GPU:
                    gpu += 1
                _change(gpu, -SLOTS_PER_GPU, per_node, gpus, nodes, state)
                next_gpu[gpu], first = first, gpu
                gpu += 1
        end_ms = state[NOW_MS] + duration_ms[job]
        place = first * (SLOTS_PER_GPU + 1) + part
        _sift_up(heap_end_ms, heap_place, state[RUNNING], end_ms, place)
        state[RUNNING] += 1
        start_ms[n_started] = state[NOW_MS]
        n_started += 1
    # Later jobs come later: these ends are settled.
    while state[RUNNING] and heap_end_ms[0] < until_ms:
        _end_first(per_node, gpus, nodes, next_gpu, heap_end_ms, heap_place, state)
    return start_ms[:n_started]


@njit()
def _fits(
    asked: int, per_node: int, gpus: Int64Array, nodes: Int64Array, state: Int64Array
) -> bool:
    """Return whether a job fits now."""
    if asked < SLOTS_PER_GPU:
        return bool(gpus[1] >= asked)
    wanted = -(-asked // SLOTS_PER_GPU)
    if wanted < per_node:
        return bool(nodes[1] >= wanted)
    return bool(state[FREE_NODES] * per_node >= wanted)


@njit()
def _end_first(
    per_node: int,
    gpus: Int64Array,
    nodes: Int64Array,
    next_gpu: Int64Array,
    heap_end_ms: Int64Array,
    heap_place: Int64Array,
    state: Int64Array,
) -> None:
    """Free the GPUs of the job that ends first."""
    gpu, part = heap_place[0] // (SLOTS_PER_GPU + 1), heap_place[0] % (SLOTS_PER_GPU + 1)
    state[RUNNING] -= 1
    _sift_down(heap_end_ms, heap_place, state[RUNNING])
    while gpu >= 0:
        _change(gpu, part, per_node, gpus, nodes, state)
        gpu = next_gpu[gpu] if part == SLOTS_PER_GPU else -1


@njit()
def _first_with(tree: Int64Array, least: int) -> int:
    """Return the first leaf of at least so much; there is one."""
    n_leaves, knot = tree.size // 2, 1
    while knot < n_leaves:
        knot = 2 * knot if tree[2 * knot] >= least else 2 * knot + 1
    return knot - n_leaves


@njit()
def _add(tree: Int64Array, leaf: int, more: int) -> int:
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
def _change(
    gpu: int, n_slots: int, per_node: int, gpus: Int64Array, nodes: Int64Array, state: Int64Array
) -> None:
    """Free so many slots of a GPU, or take them where negative."""
    held = _add(gpus, gpu, n_slots)
    freed = int(held == SLOTS_PER_GPU) - int(held - n_slots == SLOTS_PER_GPU)
    if freed:
        n_free = _add(nodes, gpu // per_node, freed)
        state[FREE_NODES] += int(n_free == per_node) - int(n_free - freed == per_node)
