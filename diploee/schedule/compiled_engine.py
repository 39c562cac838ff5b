"""The compiled twin of strict FIFO: the same start times as SimPy, from one heap of ends."""

from __future__ import annotations

import numpy as np
from numba import njit

from diploee.tables import Int32Array, Int64Array


@njit(cache=True)
def fifo_start_ms(
    submit_ms: Int64Array,
    n_nodes: Int32Array,
    duration_ms: Int64Array,
    pool_n_nodes: int,
    horizon_ms: int,
) -> Int64Array:
    """Return the start of each job under strict FIFO.

    A job starts at the first time, not before its submission nor before the start of the job ahead
    of it, at which enough nodes are free.

    Parameters
    ----------
    submit_ms : numpy.ndarray, shape (n,), int64
        Submissions [ms], non-decreasing.
    n_nodes : numpy.ndarray, shape (n,), int32
        Nodes of each job, at most `pool_n_nodes`.
    duration_ms : numpy.ndarray, shape (n,), int64
        Run times [ms].
    pool_n_nodes : int
        Nodes of the pool.
    horizon_ms : int
        Jobs that would start at or after it never start.

    Returns
    -------
    numpy.ndarray, shape (n,), int64
        Start times [ms], -1 where a job never starts.
    """
    n_jobs = submit_ms.size
    start_ms = np.full(n_jobs, -1, dtype=np.int64)
    heap_end_ms = np.empty(pool_n_nodes + 1, dtype=np.int64)  # at most one job per node
    heap_n_nodes = np.empty(pool_n_nodes + 1, dtype=np.int64)
    heap_size = 0
    free_nodes = pool_n_nodes
    now_ms = 0
    for job in range(n_jobs):
        now_ms = max(now_ms, submit_ms[job])
        while heap_size and (heap_end_ms[0] <= now_ms or free_nodes < n_nodes[job]):
            now_ms = max(now_ms, heap_end_ms[0])
            free_nodes += heap_n_nodes[0]
            heap_size -= 1
            _sift_down(heap_end_ms, heap_n_nodes, heap_size)
        if now_ms >= horizon_ms:
            break
        start_ms[job] = now_ms
        free_nodes -= n_nodes[job]
        _sift_up(heap_end_ms, heap_n_nodes, heap_size, now_ms + duration_ms[job], n_nodes[job])
        heap_size += 1
    return start_ms


@njit(cache=True)
def _sift_up(
    heap_end_ms: Int64Array, heap_n_nodes: Int64Array, size: int, end_ms: int, n_nodes: int
) -> None:
    """Insert an end into a heap of `size` entries."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap_end_ms[parent] <= end_ms:
            break
        heap_end_ms[place] = heap_end_ms[parent]
        heap_n_nodes[place] = heap_n_nodes[parent]
        place = parent
    heap_end_ms[place] = end_ms
    heap_n_nodes[place] = n_nodes


@njit(cache=True)
def _sift_down(heap_end_ms: Int64Array, heap_n_nodes: Int64Array, size: int) -> None:
    """Fill the root of a heap with its entry at `size`, which leaves the heap."""
    end_ms, n_nodes = heap_end_ms[size], heap_n_nodes[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap_end_ms[child + 1] < heap_end_ms[child]:
            child += 1
        if heap_end_ms[child] >= end_ms:
            break
        heap_end_ms[place] = heap_end_ms[child]
        heap_n_nodes[place] = heap_n_nodes[child]
        place = child
    heap_end_ms[place] = end_ms
    heap_n_nodes[place] = n_nodes
