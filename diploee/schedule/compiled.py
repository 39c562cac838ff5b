"""Compiled engine of a queue, for any job order and backfill depth.

The engine gives the same start times as that of SimPy. At each time with an event, it
processes all job ends and additions of nodes, then all submissions, and then decides
once which waiting jobs start. Strict FIFO is EASY backfilling with a depth of one job,
and shortest job first is FIFO in another order. Tables that a discipline does not need
are None, and numba compiles no code for them.
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
    """Compiled queue and nodes of one pool, for a policy with an order and a depth.

    The policy's `order` is ``submission``, ``sjbf`` (shortest first, after the head),
    ``sjf`` (shortest first, of all) or ``reservation``; its `depth` is the number of
    jobs that are considered. `added` are additions of nodes at increasing times [ms].
    With `gpus`, jobs may occupy a part of a node; this requires strict FIFO.
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
        self._n_added, self._gpus = len(added), gpus
        self._max_slots = n_nodes + sum(n_more for _, n_more in added)
        if gpus is not None:
            self._max_slots *= gpus.per_node * SLOTS_PER_GPU
        running = heap(len(added))
        for row, (time_ms, n_more) in enumerate(added):
            running[:, row] = time_ms, n_more, NEVER_MS
        self._pool = PoolHeap(
            np.array([len(added), n_nodes, 0], dtype=np.int64), running
        )
        has_backfill = self._depth > 1
        self._expected = (
            np.empty((2, self._max_slots), dtype=np.int64) if has_backfill else None
        )
        self._profile = None
        if self._order == "reservation":
            empty = np.empty(0, dtype=np.int64)
            state = np.array([1, NEVER_MS, 0])
            self._profile = AvailabilityProfile(
                np.array([[begin_ms], [n_nodes]]), state, empty
            )
        self._waiting: tuple[Any, ...] = ()
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Add jobs to the queue; return jobs and start times before a time [ms].

        See `PoolEngine`.
        """
        numbers = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._n_jobs += len(jobs)
        columns: tuple[Any, ...] = (
            jobs.submit_ms,
            jobs.n_nodes,
            estimated_ms(self._estimate, jobs),
            jobs.duration_ms,
            numbers,
            np.full(len(jobs) if self._profile else 0, NEVER_MS),
        )
        n_waiting = 0
        if self._waiting:
            n_waiting = self._waiting[0].size
            columns = tuple(
                map(np.concatenate, zip(self._waiting, columns, strict=True))
            )
        *job_columns, numbers, reserved_ms = columns
        n_jobs = numbers.size
        if self._profile is not None:
            self._profile = self._profile._replace(reserved_ms=reserved_ms)
        started = np.empty((2, n_jobs), dtype=np.int64)
        expected_ends = None
        if self._expected is not None:
            expected_ends = ExpectedEnds(
                self._expected, np.arange(1, n_jobs + 1), self._depth
            )
        n_started = find_starts(
            QueuedJobs(*job_columns, *started),
            self._grow_tables(n_jobs),
            n_waiting,
            until_ms,
            self._gpus,
            *self._estimate_ranks(job_columns[2]),
            expected_ends,
            self._profile,
        )
        rows, start_ms = started[0, :n_started], started[1, :n_started]
        is_waiting = np.ones(n_jobs, dtype=np.bool_)
        is_waiting[rows] = False
        self._waiting = tuple(values[is_waiting[: values.size]] for values in columns)
        return numbers[rows], start_ms

    def _grow_tables(self, n_jobs: int) -> PoolHeap:
        """Return the pool, with tables long enough for n more jobs."""
        state, running = self._pool
        n_entries = int(state[N_RUNNING])
        needed = min(n_entries + n_jobs, self._max_slots + self._n_added) + 1
        if needed > running.shape[1]:
            larger = heap(2 * needed)
            larger[:, :n_entries] = running[:, :n_entries]
            self._pool = PoolHeap(state, larger)
        if self._profile is not None:  # a job adds two steps at most
            steps = self._profile.steps
            larger = np.empty(
                (2, max(2 * (self._max_slots + n_jobs) + 4, steps.shape[1])), np.int64
            )
            larger[:, : steps.shape[1]] = steps
            self._profile = self._profile._replace(steps=larger)
        return self._pool

    def _estimate_ranks(
        self, estimate_ms: Int64Array
    ) -> tuple[Ranks | None, Ranks | None]:
        """Return the ranks of jobs for the whole queue, and for backfill.

        Unused ranks are None.
        """
        if self._order not in ("sjf", "sjbf"):
            return None, None
        rank = np.empty(estimate_ms.size, dtype=np.int64)
        rank[np.argsort(estimate_ms, kind="stable")] = np.arange(estimate_ms.size)
        ranks = Ranks(rank, heap(estimate_ms.size))
        return (ranks, None) if self._order == "sjf" else (None, ranks)
