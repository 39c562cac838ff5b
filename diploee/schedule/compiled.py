"""Compiled engine of a queue, for any order and backfill depth.

The same start times as SimPy's. It goes from event to event: at each instant all ends
and additions of nodes, then all submissions, then one decision while jobs wait. Strict
FIFO is EASY that looks at one job, and shortest job first is that in another order. A
discipline passes None for tables that it does not need; numba leaves out the code
behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diploee.base.tables import Int64Array
from diploee.base.units import SLOTS_PER_GPU
from diploee.schedule.job_table import JobTable
from diploee.schedule.kernels import (
    N_RUNNING,
    NEVER_MS,
    AvailabilityProfile,
    ExpectedEnds,
    Gpus,
    PoolHeap,
    QueuedJobs,
    Ranks,
    find_starts,
    heap,
)
from diploee.schedule.policy import EXACT, estimated_ms


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
        self._pool = PoolHeap(
            np.array([len(added), n_nodes, 0], dtype=np.int64), running
        )
        looks_behind = self._depth > 1
        self._expected = (
            np.empty((2, self._most), dtype=np.int64) if looks_behind else None
        )
        self._plan = None
        if self._order == "reservation":
            none = np.empty(0, dtype=np.int64)
            known = np.array([1, NEVER_MS, 0])
            self._plan = AvailabilityProfile(
                np.array([[begin_ms], [n_nodes]]), known, none
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
        if self._plan is not None:
            self._plan = self._plan._replace(reserved_ms=reserved_ms)
        started = np.empty((2, n_jobs), dtype=np.int64)
        ahead = None
        if self._expected is not None:
            ahead = ExpectedEnds(self._expected, np.arange(1, n_jobs + 1), self._depth)
        n_started = find_starts(
            QueuedJobs(*of_jobs, *started),
            self._room_for(n_jobs),
            n_waiting,
            until_ms,
            self._gpus,
            *self._ranks(of_jobs[2]),
            ahead,
            self._plan,
        )
        rows, start_ms = started[0, :n_started], started[1, :n_started]
        still = np.ones(n_jobs, dtype=np.bool_)
        still[rows] = False
        self._waiting = tuple(values[still[: values.size]] for values in columns)
        return numbers[rows], start_ms

    def _room_for(self, n_jobs: int) -> PoolHeap:
        """Return the pool with room for n more jobs in its tables."""
        state, running = self._pool
        n_entries = int(state[N_RUNNING])
        needed = min(n_entries + n_jobs, self._most + self._added) + 1
        if needed > running.shape[1]:
            room = heap(2 * needed)
            room[:, :n_entries] = running[:, :n_entries]
            self._pool = PoolHeap(state, room)
        if self._plan is not None:  # a job adds two steps at most
            steps = self._plan.steps
            room = np.empty(
                (2, max(2 * (self._most + n_jobs) + 4, steps.shape[1])), np.int64
            )
            room[:, : steps.shape[1]] = steps
            self._plan = self._plan._replace(steps=room)
        return self._pool

    def _ranks(self, estimate_ms: Int64Array) -> tuple[Ranks | None, Ranks | None]:
        """Return the ranks for the whole queue, or for those behind its head."""
        if self._order not in ("sjf", "sjbf"):
            return None, None
        rank = np.empty(estimate_ms.size, dtype=np.int64)
        rank[np.argsort(estimate_ms, kind="stable")] = np.arange(estimate_ms.size)
        ranks = Ranks(rank, heap(estimate_ms.size))
        return (ranks, None) if self._order == "sjf" else (None, ranks)
