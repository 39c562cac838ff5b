"""The compiled twin of strict FIFO: the same start times as SimPy, from one heap of ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.jit import njit
from diploee.schedule.job_table import JobTable
from diploee.schedule.policy import Policy
from diploee.tables import Int32Array, Int64Array


class CompiledFifo:
    """One pool of nodes under strict FIFO, advanced window by window.

    Parameters
    ----------
    policy : Policy
        Whose twin it is; strict FIFO has nothing to set.
    n_nodes : int
        Nodes of the pool.
    begin_ms : int
        Time at which the simulation begins [ms].
    added : sequence of (int, int)
        When further nodes are added [ms], increasing, and how many.
    """

    def __init__(
        self,
        policy: Policy,  # noqa: ARG002
        n_nodes: int,
        begin_ms: int = 0,
        added: Sequence[tuple[int, int]] = (),
    ) -> None:
        most = n_nodes + sum(more for _, more in added)
        self._heap = np.empty((2, most + 1), dtype=np.int64)  # ends, nodes; a job has a node
        # Nodes not there yet are as good as nodes of jobs that run until they are.
        self._heap[:, : len(added)] = np.array(added, dtype=np.int64).reshape(-1, 2).T
        self._state = np.array(
            [len(added), n_nodes, begin_ms], dtype=np.int64
        )  # running jobs, free nodes, time
        self._queue = JobTable.empty().columns("submit_ms", "n_nodes", "duration_ms")
        self._n_started = 0

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time, as `PoolEngine` says."""
        new = jobs.columns("submit_ms", "n_nodes", "duration_ms")
        self._queue = tuple(np.concatenate(pair) for pair in zip(self._queue, new, strict=True))
        submit_ms, n_nodes, duration_ms = self._queue
        heap_end_ms, heap_n_nodes = self._heap
        start_ms = _fifo_start_ms(
            submit_ms, n_nodes, duration_ms, heap_end_ms, heap_n_nodes, self._state, until_ms
        )
        # Copies: a view would hold all jobs of the window until the next.
        self._queue = tuple(values[start_ms.size :].copy() for values in self._queue)
        numbers = np.arange(self._n_started, self._n_started + start_ms.size)
        self._n_started += start_ms.size
        return numbers, start_ms


@njit()
def _fifo_start_ms(
    submit_ms: Int64Array,
    n_nodes: Int32Array,
    duration_ms: Int64Array,
    heap_end_ms: Int64Array,
    heap_n_nodes: Int64Array,
    state: Int64Array,
    until_ms: int,
) -> Int64Array:
    """Return the starts of the jobs at the head of the queue that start before a time.

    A job starts at the first time, not before its submission nor before the start of the job ahead
    of it, at which enough nodes are free. No later job can change that: its start is final.

    Parameters
    ----------
    submit_ms : numpy.ndarray, shape (n,), int64
        Submissions [ms], non-decreasing, before `until_ms`.
    n_nodes : numpy.ndarray, shape (n,), int32
        Nodes of each job, at most those of the pool.
    duration_ms : numpy.ndarray, shape (n,), int64
        Run times [ms].
    heap_end_ms, heap_n_nodes : numpy.ndarray, int64
        Ends [ms] and nodes of the running jobs, the earliest end first; changed in place.
    state : numpy.ndarray, shape (3,), int64
        Running jobs, free nodes, and the time reached [ms]; changed in place.
    until_ms : int
        A job that would start at or after it waits for the next call.

    Returns
    -------
    numpy.ndarray, shape (m,), int64
        Start times [ms] of the first m jobs.
    """
    start_ms = np.empty(submit_ms.size, dtype=np.int64)
    n_started = 0
    heap_size, free_nodes, now_ms = state
    for job in range(submit_ms.size):
        now_ms = max(now_ms, submit_ms[job])
        # Ends up to now free their nodes; while too few are free, time goes on to the next end. In
        # strict FIFO the head holds up all behind it, so that `now_ms` never steps back.
        while heap_size and (heap_end_ms[0] <= now_ms or free_nodes < n_nodes[job]):
            if heap_end_ms[0] >= until_ms:
                break
            now_ms = max(now_ms, heap_end_ms[0])
            free_nodes += heap_n_nodes[0]
            heap_size -= 1
            _sift_down(heap_end_ms, heap_n_nodes, heap_size)
        if free_nodes < n_nodes[job]:
            break
        start_ms[job] = now_ms
        n_started += 1
        free_nodes -= n_nodes[job]
        _sift_up(heap_end_ms, heap_n_nodes, heap_size, now_ms + duration_ms[job], n_nodes[job])
        heap_size += 1
    state[0], state[1], state[2] = heap_size, free_nodes, now_ms
    return start_ms[:n_started]


@njit()
def _sift_up(
    heap_end_ms: Int64Array, heap_n_nodes: Int64Array, size: int, end_ms: int, n_nodes: int
) -> None:
    """Insert an end into a heap of `size` entries."""
    slot = size
    while slot > 0:
        parent = (slot - 1) >> 1
        if heap_end_ms[parent] <= end_ms:
            break
        heap_end_ms[slot] = heap_end_ms[parent]
        heap_n_nodes[slot] = heap_n_nodes[parent]
        slot = parent
    heap_end_ms[slot] = end_ms
    heap_n_nodes[slot] = n_nodes


@njit()
def _sift_down(heap_end_ms: Int64Array, heap_n_nodes: Int64Array, size: int) -> None:
    """Fill the root of a heap with its entry at `size`, which leaves the heap."""
    end_ms, n_nodes = heap_end_ms[size], heap_n_nodes[size]
    slot = 0
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        if child + 1 < size and heap_end_ms[child + 1] < heap_end_ms[child]:
            child += 1
        if heap_end_ms[child] >= end_ms:
            break
        heap_end_ms[slot] = heap_end_ms[child]
        heap_n_nodes[slot] = heap_n_nodes[child]
        slot = child
    heap_end_ms[slot] = end_ms
    heap_n_nodes[slot] = n_nodes
