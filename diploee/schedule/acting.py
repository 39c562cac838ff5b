"""Jobs into the acting engine, and what happened to them out of it, window by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diploee.scenario.pools import StandingNodes
from diploee.schedule.acting_engine import ActingEngine, Happened
from diploee.schedule.context import Context, JobTable
from diploee.schedule.policy import EXACT, estimated_ms
from diploee.schedule.runs import ActedSchedule, Runs
from diploee.schedule.schedule import NEVER_MS, check_widths
from diploee.tables import Int64Array, concat


class ActingPools:
    """All pools of a run whose jobs may be stopped, slowed or resized."""

    def __init__(
        self,
        policies: Mapping[str, Any],
        standing: Mapping[str, StandingNodes],
        context: Context,
        begin_ms: int,
        horizon_ms: int,
    ) -> None:
        self._policies = list(policies.values())
        self._most = [standing[name].most for name in policies]
        self._horizon_ms = horizon_ms
        self._engine = ActingEngine(
            {n: (standing[n].first, policy, standing[n].added) for n, policy in policies.items()},
            context,
            begin_ms,
            horizon_ms,
        )
        self._jobs = JobTable.empty()
        self._numbers = np.empty(0, dtype=np.int64)
        self._start_ms = np.empty(0, dtype=np.int64)
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> ActedSchedule:
        """Return what happened before a time; arguments and errors as in `PoolSchedule.advance`."""
        for pool_id, most in enumerate(self._most):
            check_widths(jobs.take(jobs.pool_id == pool_id), most)
        happened = self._engine.advance(jobs, self._estimates_ms(jobs), until_ms)
        self._jobs = concat([self._jobs, jobs])
        new = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._n_jobs += len(jobs)
        self._numbers = np.concatenate([self._numbers, new])
        self._start_ms = np.append(self._start_ms, np.full(len(jobs), NEVER_MS, dtype=np.int64))
        return self._seen(happened, until_ms)

    def _estimates_ms(self, jobs: JobTable) -> Int64Array:
        """Return how long jobs are thought to run: by the policy of their pool."""
        found = jobs.duration_ms.copy()
        for pool_id, policy in enumerate(self._policies):
            rows = jobs.pool_id == pool_id
            found[rows] = estimated_ms(getattr(policy, "estimate", EXACT), jobs.take(rows))
        return found

    def _seen(self, happened: Happened, until_ms: int) -> ActedSchedule:
        """Return the jobs that did something in a window, and forget those that ended."""
        numbers, n_rows = self._numbers, len(self._jobs)
        started = self._rows(happened.starts_ms)
        self._start_ms[started] = list(happened.starts_ms.values())
        new = np.zeros(n_rows, dtype=np.bool_)
        new[started] = True
        end_ms = np.full(n_rows, NEVER_MS, dtype=np.int64)
        ended = self._rows(happened.ends_ms)
        end_ms[ended] = list(happened.ends_ms.values())
        gone = np.zeros(n_rows, dtype=np.bool_)
        gone[ended] = True
        if until_ms >= self._horizon_ms:
            for row in np.flatnonzero((self._start_ms != NEVER_MS) & ~gone).tolist():
                end_ms[row] = self._engine.planned_end_ms(int(numbers[row]))
        runs = self._runs(happened.stretches)
        touched = new | (end_ms != NEVER_MS)
        touched[runs.job] = True
        seen = ActedSchedule(
            self._jobs,
            self._start_ms.copy(),
            self._horizon_ms,
            ended_ms=end_ms,
            runs=runs,
            new=new,
            requeued_ms=np.array(happened.requeued_ms, dtype=np.int64),
            restarted_ms=np.array(happened.restarted_ms, dtype=np.int64),
        ).take(touched)
        self._jobs, self._numbers = self._jobs.take(~gone), numbers[~gone]
        self._start_ms = self._start_ms[~gone]
        return seen

    def _rows(self, of: Mapping[int, int]) -> Int64Array:
        return np.searchsorted(self._numbers, np.fromiter(of, np.int64, len(of)))

    def _runs(self, stretches: Sequence[tuple[Any, ...]]) -> Runs:
        """Return stretches as a table, in the order of their starts and then of their jobs."""
        if not stretches:
            return Runs.empty()
        columns = [np.array(values) for values in zip(*stretches, strict=True)]
        columns[0] = np.searchsorted(self._numbers, columns[0])
        return Runs(*columns).take(np.lexsort((columns[0], columns[1])))
