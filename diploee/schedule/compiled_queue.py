"""What the compiled twins of policies that reorder the queue share: jobs kept between windows.

A twin lives through the events of the queue as SimPy does: at each instant all ends and additions
of nodes, then all submissions, then one decision while jobs wait. Running jobs stand in a heap by
their true ends, which a decision does not look at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from diploee.jit import njit
from diploee.schedule.compiled_engine import _sift_down, _sift_up
from diploee.schedule.estimates import estimated_ms
from diploee.schedule.job_table import JobTable
from diploee.tables import Int64Array

NEVER_MS = 2**62

# Places in the state of a twin.
HEAP_SIZE, FREE_NODES, N_FREE_SLOTS, N_OUTRUNNERS = range(4)


class CompiledQueue(ABC):
    """One pool under the twin of a policy with estimates, advanced window by window.

    Parameters
    ----------
    policy : Policy
        Whose twin it is; its `estimate` is asked.
    n_nodes : int
        Nodes of the pool.
    begin_ms : int
        Time at which the simulation begins [ms].
    added : sequence of (int, int)
        When further nodes are added [ms], increasing, and how many.
    """

    def __init__(
        self,
        policy: Any,
        n_nodes: int,
        begin_ms: int = 0,  # noqa: ARG002  # events alone move the time
        added: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._policy = policy
        self._most = n_nodes + sum(more for _, more in added)
        n_slots = self._most + 1  # a running job has a node
        self._heap = np.empty((2, n_slots + len(added)), dtype=np.int64)  # true ends, slots
        self._slots = np.full((2, n_slots), NEVER_MS)  # expected ends, nodes
        self._free_slots = np.arange(n_slots)
        # Nodes to be added stand among the ends, their number where a job has its slot, negative.
        for row, (time_ms, more) in enumerate(added):
            self._heap[:, row] = time_ms, -more
        self._state = np.array([len(added), n_nodes, n_slots, 0], dtype=np.int64)
        # Rows of submission, nodes, estimate, run time, number and reservation of those that wait.
        self._waiting = np.empty((6, 0), dtype=np.int64)
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in jobs and return those that start before a time, as `PoolEngine` says."""
        n_waiting = self._waiting.shape[1]
        numbers = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._n_jobs += len(jobs)
        estimate_ms = estimated_ms(self._policy.estimate, jobs)
        none = np.full(len(jobs), NEVER_MS)
        new = (jobs.submit_ms, jobs.n_nodes, estimate_ms, jobs.duration_ms, numbers, none)
        rows = np.concatenate([self._waiting, np.array(new, dtype=np.int64)], axis=1)
        started, start_ms = self._starts(rows, n_waiting, until_ms)
        still = np.ones(rows.shape[1], dtype=np.bool_)
        still[started] = False
        self._waiting = rows[:, still]
        return rows[4, started], start_ms

    @abstractmethod
    def _starts(
        self, rows: Int64Array, n_waiting: int, until_ms: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return the rows of the jobs that start before a time, in that order, and when [ms]."""


def ranks(values: Int64Array) -> Int64Array:
    """Return the place of each value when they are sorted; of equal ones the first comes first."""
    rank = np.empty(values.size, dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(values.size)
    return rank


# Below, loops stand for NumPy's functions where numba compiles those for longer than the rest.


@njit()
def first_from(rising: Int64Array, n_values: int, least: int) -> int:
    """Return where, among the first so many values, the first stands that is no less."""
    first, end = 0, n_values
    while first < end:
        middle = (first + end) >> 1
        if rising[middle] < least:
            first = middle + 1
        else:
            end = middle
    return first


@njit()
def start_job(
    now_ms: int,
    n_nodes: int,
    estimate_ms: int,
    duration_ms: int,
    heap: Int64Array,
    slots: Int64Array,
    free_slots: Int64Array,
    state: Int64Array,
) -> None:
    """Let a job run."""
    state[N_FREE_SLOTS] -= 1
    slot = free_slots[state[N_FREE_SLOTS]]
    slots[0, slot], slots[1, slot] = now_ms + estimate_ms, n_nodes
    _sift_up(heap[0], heap[1], state[HEAP_SIZE], now_ms + duration_ms, slot)
    state[HEAP_SIZE] += 1
    state[FREE_NODES] -= n_nodes
    if estimate_ms < duration_ms:
        state[N_OUTRUNNERS] += 1


@njit()
def end_first(
    heap: Int64Array, slots: Int64Array, free_slots: Int64Array, state: Int64Array
) -> tuple[int, int]:
    """End the job that ends first, or add nodes; return its expected end [ms] and its nodes.

    The expected end of nodes that are added is `NEVER_MS`.
    """
    end_ms, slot = heap[0, 0], heap[1, 0]
    state[HEAP_SIZE] -= 1
    _sift_down(heap[0], heap[1], state[HEAP_SIZE])
    if slot < 0:
        state[FREE_NODES] -= slot
        return NEVER_MS, -slot
    free_slots[state[N_FREE_SLOTS]] = slot
    state[N_FREE_SLOTS] += 1
    expected_ms, n_nodes = slots[0, slot], slots[1, slot]
    slots[0, slot] = NEVER_MS
    state[FREE_NODES] += n_nodes
    if expected_ms < end_ms:
        state[N_OUTRUNNERS] -= 1
    return expected_ms, n_nodes
