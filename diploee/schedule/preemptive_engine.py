"""Scheduling engine for policies that suspend, cap or resize running jobs.

All pools of a run share one SimPy environment, so that the facility's power cap and its
controller see all of them at each time. At each time job ends come first, then
submissions, added nodes and decisions that a policy has scheduled for this time; then
the controller decides, then the policy of each pool once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from diploee.base.boundary import named_errors
from diploee.base.errors import one_of, shown
from diploee.base.tables import Int64Array, concat
from diploee.scenario.pools import InstalledNodes
from diploee.schedule.actions import Action, Preempt, Resize, Resume, SetLevel, Start
from diploee.schedule.context import (
    Context,
    FacilityScope,
    FacilityView,
    PreemptiveJob,
    PreemptivePool,
)
from diploee.schedule.execution_intervals import (
    CHECKPOINT,
    PAUSED,
    RESTART,
    RUN,
    ExecutionIntervals,
    PreemptiveSchedule,
)
from diploee.schedule.job_table import DRAW_MS, JobTable
from diploee.schedule.policy import (
    EXACT,
    JOBS,
    are_actions,
    are_job_numbers,
    are_pairs,
    checked_method,
    estimated_ms,
    policy_error,
    wake_ms,
)
from diploee.schedule.simpy_loop import SimpyLoop
from diploee.schedule.started import NEVER_MS, check_widths

SIZE_EXPONENT = 0.9
"""Exponent of the speed of a shrunk job: on a fraction x of its nodes it works at the
rate x^0.9. Assumed."""

ACTIONS = "actions of diploee.schedule.actions with whole numbers"
"""Description of the results of a policy's `decide`, for errors."""
PAIRS = "pairs of a pool's name and an action of diploee.schedule.actions"
"""Description of the results of a controller, for errors."""

IntervalRow = tuple[int, int, int, int, int, int, int, int, float]
"""Job, start and end [ms], nodes, work before and after [ms], cap level, kind and power
[W] of an execution interval."""


class PreemptiveEngine(SimpyLoop):
    """Engine of all pools of a run, simulated by SimPy in one environment.

    Jobs are numbered in the order in which they are added.
    """

    _rule = f"{SimpyLoop._rule}, and acts on jobs of view.running"

    def __init__(
        self,
        policies: Mapping[str, Any],
        installed: Mapping[str, InstalledNodes],
        context: Context,
        begin_ms: int,
        horizon_ms: int,
    ) -> None:
        super().__init__(begin_ms)
        self.context, self._horizon_ms = context, horizon_ms
        self.jobs: dict[int, PreemptiveJob] = {}
        # Policies see only the known part of a signal.
        self.signals = {
            name: signal.known_at(lambda: self.now_ms)
            for name, signal in context.signals.items()
        }
        self.scope, self._view = FacilityScope(self), FacilityView(self)
        self.pools = {
            name: PreemptivePool(self, name, installed[name].first, policy)
            for name, policy in policies.items()
        }
        self._by_id = list(self.pools.values())
        self._asks = {
            pool.name: checked_method(pool.policy, "decide", are_actions, ACTIONS)
            if pool.decides
            else checked_method(pool.policy, "select", are_job_numbers, JOBS)
            for pool in self._by_id
        }
        controller = context.controller
        self._controls = [
            checked_method(controller, method, are_pairs, PAIRS)
            for method in ("decide", "settled")
            if hasattr(controller, method)
        ]
        self._max_nodes = [installed[name].n_at_end for name in policies]
        for pool, idle_w in zip(self._by_id, context.idle_power_w, strict=False):
            pool.idle_w = idle_w
        # Jobs that wait or have nodes, and their first starts, in the same order
        self._n_jobs, self._table = 0, JobTable.empty()
        self._numbers, self._start_ms = np.empty((2, 0), dtype=np.int64)
        self._clear_window()
        for name, pool in self.pools.items():
            for time_ms, n_added in installed[name].added:
                self._later(time_ms, self._add_nodes, pool, n_added)
                pool.wakes_ms.append(time_ms)
        wakes_ms = {*context.wakes_ms, *(event.issued_ms for event in context.events)}
        for time_ms in sorted(wakes_ms):
            if begin_ms < time_ms < horizon_ms:
                self._later(time_ms, self._wake_all)
        if context.controller is not None or any(
            pool.wants_idle for pool in self._by_id
        ):
            self._later(begin_ms, self._wake, None)

    def _clear_window(self) -> None:
        """Clear the records of a window.

        They are intervals, first starts, ends and requeued jobs.
        """
        self._intervals: list[IntervalRow] = []
        self._starts_ms: dict[int, int] = {}
        self._ends_ms: dict[int, int] = {}
        self._requeued_ms: list[int] = []
        self._restarted_ms: list[int] = []

    def advance(self, jobs: JobTable, until_ms: int) -> PreemptiveSchedule:
        """Add jobs and return what all jobs did before a time.

        See `_PoolSchedule.advance` for the parameters.
        """
        estimate_ms = jobs.duration_ms.copy()
        for pool_id, pool in enumerate(self._by_id):
            rows = jobs.pool_id == pool_id
            pool_jobs = jobs.take(rows)
            check_widths(pool_jobs, self._max_nodes[pool_id])
            estimate_ms[rows] = estimated_ms(
                getattr(pool.policy, "estimate", EXACT), pool_jobs
            )
        numbers = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._table = concat([self._table, jobs])
        self._numbers = np.append(self._numbers, numbers)
        self._start_ms = np.append(self._start_ms, np.full(len(jobs), NEVER_MS))
        entering = self._enter(jobs, estimate_ms)
        self._run_until(until_ms, entering, jobs.submit_ms)
        for job in self.jobs.values():
            if job.n_allocated:
                self._record(job, until_ms)
        for pool in self._by_id:
            self._check_starving(pool, until_ms)
        return self._window_schedule(until_ms)

    def _window_schedule(self, until_ms: int) -> PreemptiveSchedule:
        """Return the jobs active in a window, and remove those that ended."""
        n_rows = len(self._table)
        is_new, has_ended = np.zeros((2, n_rows), dtype=np.bool_)
        started, ended = (
            self._table_rows(self._starts_ms),
            self._table_rows(self._ends_ms),
        )
        self._start_ms[started] = list(self._starts_ms.values())
        is_new[started], has_ended[ended] = True, True
        end_ms = np.full(n_rows, NEVER_MS)
        end_ms[ended] = list(self._ends_ms.values())
        if until_ms >= self._horizon_ms:
            for row in np.flatnonzero(
                (self._start_ms != NEVER_MS) & ~has_ended
            ).tolist():
                end_ms[row] = self._planned_end_ms(int(self._numbers[row]))
        intervals = ExecutionIntervals.empty()
        if self._intervals:  # sorted by start and job
            columns = [
                np.array(values) for values in zip(*self._intervals, strict=True)
            ]
            columns[0] = np.searchsorted(self._numbers, columns[0])
            intervals = ExecutionIntervals(*columns).take(
                np.lexsort((columns[0], columns[1]))
            )
        is_active = is_new | (end_ms != NEVER_MS)
        is_active[intervals.job] = True
        schedule = PreemptiveSchedule(
            self._table,
            self._start_ms.copy(),
            self._horizon_ms,
            ended_ms=end_ms,
            runs=intervals,
            new=is_new,
            requeued_ms=np.array(self._requeued_ms, dtype=np.int64),
            restarted_ms=np.array(self._restarted_ms, dtype=np.int64),
        ).take(is_active)
        self._table, self._numbers = (
            self._table.take(~has_ended),
            self._numbers[~has_ended],
        )
        self._start_ms = self._start_ms[~has_ended]
        self._clear_window()
        return schedule

    def _table_rows(self, by_job: Mapping[int, int]) -> Int64Array:
        """Return the rows of jobs in the job table."""
        return np.searchsorted(
            self._numbers, np.fromiter(by_job, np.int64, len(by_job))
        )

    def _planned_end_ms(self, number: int) -> int:
        """Return the planned end of a started job [ms].

        For a job that is not running, it is the end if the job continued now.
        """
        job = self.jobs[number]
        if job.kind == RUN and job.n_allocated:
            return int(job.end_ms)
        return int(self.now_ms + job.duration_ms - job.work_ms)

    def rate(self, job: PreemptiveJob, level: int, n_nodes: int | None = None) -> float:
        """Return a job's work rate, by default at its present cap level and nodes.

        The rate is relative to an uncapped run on the requested nodes.
        """
        rate = self.context.levels.speed(job.flexible.kind, level) if level else 1.0
        fraction = (n_nodes or job.n_nodes) / job.n_requested
        return float(rate if fraction == 1 else rate * fraction**SIZE_EXPONENT)

    def power_w(self, job: PreemptiveJob, level: int | None = None) -> float:
        """Return a running job's power at a cap level, by default its level [W]."""
        power = self.context.power
        if power is None:
            return 0.0
        level = job.level if level is None else level
        cap = self.context.levels.power(job.flexible.kind, level) if level else 1.0
        return power.job_power_w(
            job.class_id, job.profile_id, job.n_nodes, job.power_factor, cap
        )

    def wake_at(self, time_ms: int, pool: PreemptivePool | None) -> None:
        """Request a decision at a time [ms], of a pool's policy or the controller."""
        subject = self.context.controller if pool is None else pool.policy
        time_ms = wake_ms(subject, time_ms, self.now_ms)
        self._later(time_ms, self._wake, pool)
        if pool is not None:
            pool.wakes_ms.append(time_ms)

    # Events: submissions, ends, added nodes, requested decisions.

    def _enter(
        self, jobs: JobTable, estimate_ms: Int64Array
    ) -> list[tuple[PreemptiveJob, PreemptivePool]]:
        """Add jobs to the engine; return them with their pools."""
        columns = (
            jobs.submit_ms,
            jobs.n_nodes,
            jobs.duration_ms,
            estimate_ms,
            jobs.class_id,
            jobs.profile_id,
            jobs.power_factor,
            jobs.user_id,
            jobs.priority,
        )
        rows = zip(*(values.tolist() for values in columns), strict=True)
        entering = []
        for row, pool_id in zip(rows, jobs.pool_id.tolist(), strict=True):
            job = PreemptiveJob(self._n_jobs, self.context.flexibility_of(row[4]), *row)
            self.jobs[job.number] = job
            self._n_jobs += 1
            entering.append((job, self._by_id[pool_id]))
        return entering

    def _submit(self, entering: tuple[PreemptiveJob, PreemptivePool]) -> None:
        """Put a job into the queue of its pool."""
        job, pool = entering
        number = job.number
        pool.waiting.append(number)
        if pool.queue is not pool.waiting:
            pool.queue.append(number)
        pool.job_n_nodes[number] = job.n_requested
        pool.job_estimate_ms[number] = job.estimate_ms
        pool.job_submit_ms[number] = job.submit_ms
        pool.job_user[number] = job.user_id
        pool.job_class[number] = job.class_id
        pool.job_profile_id[number] = job.profile_id
        self._wake(pool)

    def _add_nodes(self, pool: PreemptivePool, n_added: int) -> None:
        """Add nodes to a pool."""
        pool.n_nodes += n_added
        pool.free_nodes += n_added
        pool.last_busy_ms = self.now_ms
        self._wake(pool)

    def _wake(self, pool: PreemptivePool | None) -> None:
        """Request a decision now of the controller, and of the policy of a pool."""
        self._is_due = True
        if pool is not None:
            pool.due = True

    def _wake_all(self) -> None:
        """Request a decision now of the controller and all policies."""
        for pool in self._by_id:
            self._wake(pool)

    def _end_interval(
        self, job: PreemptiveJob, pool: PreemptivePool, turn: int
    ) -> None:
        """End an interval of known length: a run, a checkpoint or a restart."""
        if turn != job.turn:
            return  # the job was stopped, slowed or resized before
        self._record(job, self.now_ms)
        if job.kind == RUN:
            self._ends_ms[job.number] = self.now_ms
            self._release(job, pool)
            self._remove(job, pool)
        elif job.kind == RESTART:
            self._run(job, pool)
        elif job.resized:
            del pool.stopping[job.number]
            pool.free_nodes += job.n_allocated - job.resized
            job.n_allocated, job.n_nodes, job.resized = job.resized, job.resized, 0
            pool.job_n_nodes[job.number] = job.n_nodes
            self._restart(job, pool)
        else:
            del pool.stopping[job.number]
            self._requeue(job, pool)
        self._wake(pool)

    # Execution intervals of jobs. Each is recorded at its end, so that none is
    # recorded twice.

    def _record(self, job: PreemptiveJob, until_ms: int) -> None:
        """Record a job's intervals up to a time, cut every `DRAW_MS`.

        The cuts do not depend on the windows of the run.
        """
        begin_ms = job.reported_until_ms
        while begin_ms < until_ms:
            end_ms = min((begin_ms // DRAW_MS + 1) * DRAW_MS, until_ms)
            self._intervals.append(
                (
                    job.number,
                    begin_ms,
                    end_ms,
                    job.n_nodes,
                    job.work_at(begin_ms),
                    job.work_at(end_ms),
                    job.level,
                    job.kind,
                    job.held_w,
                )
            )
            begin_ms = end_ms
        job.reported_until_ms = max(job.reported_until_ms, until_ms)

    def _begin_interval(
        self, job: PreemptiveJob, pool: PreemptivePool, kind: int, length_ms: int | None
    ) -> None:
        """Begin an interval of a kind; it ends after `length_ms` if given."""
        now_ms = self.now_ms
        job.kind, job.since_ms, job.reported_until_ms = kind, now_ms, now_ms
        job.turn += 1
        job.held_w = 0.0 if kind == RUN else self._stopped_power_w(job, kind)
        power_w = self.power_w(job) if kind == RUN else job.held_w
        self._set_power(job, pool, job.n_nodes, round(power_w * 1000))
        if length_ms is not None:
            job.end_ms = now_ms + length_ms
            self._later(job.end_ms, self._end_interval, job, pool, job.turn)

    def _set_power(
        self, job: PreemptiveJob, pool: PreemptivePool, nodes: int, power_mw: int
    ) -> None:
        """Update the nodes in use and the power of a job.

        Power is in whole mW, so that rounding errors do not accumulate in the sum.
        """
        pool.in_use += nodes - job.n_used
        pool.power_mw += power_mw - job.power_mw
        job.n_used, job.power_mw = nodes, power_mw

    def _stopped_power_w(self, job: PreemptiveJob, kind: int) -> float:
        """Return the power of a job that is suspended, saving or restarting [W]."""
        power, flexible = self.context.power, job.flexible
        if power is None:
            return 0.0
        idle_w = power.idle_w(job.class_id) * job.n_nodes
        fraction = {
            CHECKPOINT: flexible.stop_share,
            RESTART: flexible.restart_share,
        }.get(kind, 0.0)
        return float(max(idle_w, fraction * self.power_w(job, level=0)))

    def _run(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Run a job at its cap level and on its nodes, from now on."""
        job.rate = self.rate(job, job.level)
        remaining_ms = job.duration_ms - job.work_ms
        self._begin_interval(
            job,
            pool,
            RUN,
            remaining_ms if job.rate == 1 else ceil(remaining_ms / job.rate),
        )
        self._set_expected_end(job, pool, 0)

    def _restart(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Restart a job from its last checkpoint, then run it."""
        restart_ms = job.flexible.restart_ms
        if not restart_ms:
            self._run(job, pool)
            return
        self._begin_interval(job, pool, RESTART, restart_ms)
        self._set_expected_end(job, pool, restart_ms)

    def _set_expected_end(
        self, job: PreemptiveJob, pool: PreemptivePool, before_ms: int
    ) -> None:
        """Set the expected end of a job that works again after `before_ms`."""
        remaining_ms = max(job.estimate_ms - job.work_ms, 1)
        length_ms = before_ms + ceil(remaining_ms / self.rate(job, job.level))
        pool.running[job.number] = self.now_ms + length_ms

    def _stop_work(self, job: PreemptiveJob) -> None:
        """Record a job up to now, and save its amount of work."""
        self._record(job, self.now_ms)
        job.work_ms = job.work_at(self.now_ms)

    def _save(self, job: PreemptiveJob, pool: PreemptivePool, resized: int) -> None:
        """Write a checkpoint, then resize the job or put it back into the queue."""
        self._stop_work(job)
        job.saved_ms, job.resized = job.work_ms, resized
        pool.stopping[job.number] = None
        pool.suspended.pop(job.number, None)
        self._begin_interval(job, pool, CHECKPOINT, job.flexible.stop_ms)
        self._set_expected_end(
            job, pool, job.flexible.stop_ms + job.flexible.restart_ms
        )

    def _requeue(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Release a job's nodes and put it back into the queue, by submission."""
        job.turn += 1
        job.work_ms, job.level = job.saved_ms, 0
        self._release(job, pool)
        pool.suspended.pop(job.number, None)
        job.n_nodes = pool.job_n_nodes[job.number] = job.n_requested
        remaining_ms = max(job.estimate_ms - job.work_ms, 1)
        pool.job_estimate_ms[job.number] = job.flexible.restart_ms + remaining_ms
        insort(pool.waiting, job.number)
        if pool.queue is not pool.waiting:
            insort(pool.queue, job.number)
        self._requeued_ms.append(self.now_ms)

    def _release(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Release the nodes of a job."""
        del pool.running[job.number]
        pool.job_level.pop(job.number, None)
        pool.free_nodes += job.n_allocated
        pool.last_busy_ms = self.now_ms
        self._set_power(job, pool, 0, 0)
        job.n_allocated = 0

    def _remove(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Remove an ended job from the tables."""
        del self.jobs[job.number]
        for table in (
            pool.job_n_nodes,
            pool.job_estimate_ms,
            pool.job_submit_ms,
            pool.job_user,
            pool.job_class,
            pool.job_profile_id,
        ):
            del table[job.number]

    # Decisions: the controller, then each pool's policy, once at each time.

    def _decide(self) -> None:
        """Let the controller decide, then the policy of each pool."""
        controller, controls = self.context.controller, self._controls
        if controls:
            self._control(controller, controls[0](self._view))
        for pool in self._by_id:
            # A preemptive policy may use power that another pool frees; one that only
            # starts jobs waits for an event of its own pool.
            is_due = pool.due or pool.decides
            pool.due = False
            self._hide_delayed(pool)
            if not is_due or not (pool.queue or pool.wants_idle):
                continue
            for result in self._asks[pool.name](pool):
                action = result if pool.decides else Start(result)
                self._act(pool, action, pool.policy)
        for settled in controls[1:]:
            while actions := list(settled(self._view)):
                self._control(controller, actions)

    def _control(
        self, controller: object, actions: Sequence[tuple[str, Action]]
    ) -> None:
        """Take the actions of the controller."""
        for name, action in actions:
            if name not in self.pools:
                self._refuse(
                    controller, f"acts on pool {shown(name)}", one_of(self.pools)
                )
            self._act(self.pools[name], action, controller)

    def _hide_delayed(self, pool: PreemptivePool) -> None:
        """Hide from a pool's policy the waiting jobs that the controller delays.

        The controller is asked again at each time.
        """
        controller = self.context.controller
        if controller is None or not getattr(controller, "holds", True):
            pool.queue = pool.waiting
            return
        with named_errors("may_start", policy_error(controller)):
            startable = [
                n
                for n in pool.waiting
                if controller.may_start(self._view, pool.name, n)
            ]
        pool.due |= len(startable) < len(pool.waiting)
        pool.queue = deque(startable) if pool.due else pool.waiting

    def _act(self, pool: PreemptivePool, action: Action, subject: object) -> None:
        """Take one action of a policy or controller."""
        match action:
            case Start(number, n_nodes, level):
                self._start(pool, number, n_nodes, level, subject)
            case Preempt(number, how):
                self._preempt(
                    pool, self._running(pool, number, "preempts", subject), how, subject
                )
            case Resume(number):
                job = self._running(pool, number, "resumes", subject)
                if number not in pool.suspended:
                    self._refuse(
                        subject, f"resumes job {number}, which is not suspended"
                    )
                del pool.suspended[number]
                self._stop_work(job)
                self._run(job, pool)
            case Resize(number, n_nodes):
                self._resize(
                    pool,
                    self._running(pool, number, "resizes", subject),
                    n_nodes,
                    subject,
                )
            case SetLevel(number, level):
                job = self._running(pool, number, "caps", subject)
                self._check_level(level, number, subject)
                if level != job.level:
                    self._stop_work(job)
                    job.level = pool.job_level[number] = level
                    if job.kind == RUN:
                        self._run(job, pool)
            case _:
                self._refuse(subject, f"answers {shown(action)}, which is no action")

    def _start(
        self,
        pool: PreemptivePool,
        number: int,
        n_nodes: int | None,
        level: int,
        subject: object,
    ) -> None:
        """Start a waiting job, or restart a requeued one."""
        queue = pool.queue
        if not _drop_from_queue(queue, number):
            self._refuse(subject, f"starts job {number}, which does not wait")
        if queue is not pool.waiting:
            _drop_from_queue(pool.waiting, number)
        job = self.jobs[number]
        n_nodes = job.n_requested if n_nodes is None else n_nodes
        self._check_size(job, n_nodes, "starts", subject)
        if n_nodes > pool.free_nodes:
            free_text = f"{pool.free_nodes} are free"
            self._refuse(
                subject, f"starts job {number} on {n_nodes} nodes, {free_text}"
            )
        self._check_level(level, number, subject)
        pool.free_nodes -= n_nodes
        job.n_allocated = job.n_nodes = pool.job_n_nodes[number] = n_nodes
        job.level = pool.job_level[number] = level
        if job.turn == 0:
            self._starts_ms[number] = self.now_ms
            self._run(job, pool)
        else:
            self._restarted_ms.append(self.now_ms)
            self._restart(job, pool)

    def _preempt(
        self, pool: PreemptivePool, job: PreemptiveJob, how: str, subject: object
    ) -> None:
        """Suspend a job, or put it back into the queue."""
        number = job.number
        if not job.flexible.pausable:
            self._refuse(subject, f"preempts job {number}, whose class is not pausable")
        if how == "suspend":
            if job.kind != RUN:
                self._refuse(subject, f"suspends job {number}, which does not work now")
            self._stop_work(job)
            pool.suspended[number] = None
            self._begin_interval(job, pool, PAUSED, None)
        elif how == "checkpoint" and job.kind != RESTART and job.flexible.stop_ms:
            self._save(job, pool, 0)
        elif how in ("checkpoint", "kill"):
            saved_ms = job.work_at(self.now_ms) if how == "checkpoint" else None
            job.saved_ms = job.saved_at(self.now_ms) if saved_ms is None else saved_ms
            self._stop_work(job)
            self._requeue(job, pool)
            pool.due = True
        else:
            choices = one_of(("checkpoint", "kill", "suspend"))
            self._refuse(
                subject, f"preempts job {number} by {shown(how)} (have: {choices})"
            )

    def _resize(
        self, pool: PreemptivePool, job: PreemptiveJob, n_nodes: int, subject: object
    ) -> None:
        """Save a running job to continue it on another number of nodes."""
        number = job.number
        if job.kind != RUN:
            self._refuse(subject, f"resizes job {number}, which does not work now")
        self._check_size(job, n_nodes, "resizes", subject)
        if n_nodes == job.n_nodes:
            return
        n_more = max(n_nodes - job.n_allocated, 0)
        if n_more > pool.free_nodes:
            free_text = f"{pool.free_nodes} more are free"
            self._refuse(
                subject, f"resizes job {number} to {n_nodes} nodes, {free_text}"
            )
        # Additional nodes are allocated now; others are released after the checkpoint
        pool.free_nodes -= n_more
        job.n_allocated += n_more
        self._save(job, pool, n_nodes)

    def _running(
        self, pool: PreemptivePool, number: int, verb: str, subject: object
    ) -> PreemptiveJob:
        """Return a job that has nodes and accepts actions."""
        if number not in pool.running:
            self._refuse(subject, f"{verb} job {shown(number)}, which does not run")
        if number in pool.stopping:
            self._refuse(
                subject,
                f"{verb} job {number}, which is being saved (see view.stopping)",
            )
        return self.jobs[number]

    def _check_level(self, level: int, number: int, subject: object) -> None:
        """Raise an error if a cap level does not exist."""
        n_levels = len(self.context.levels)
        if not 0 <= level < n_levels:
            self._refuse(
                subject,
                f"runs job {number} at level {level}; levels are 0 to {n_levels - 1}",
            )

    def _check_size(
        self, job: PreemptiveJob, n_nodes: int, verb: str, subject: object
    ) -> None:
        """Raise an error if a number of nodes is outside of a job's limits."""
        min_nodes = max(1, ceil(job.flexible.least_share * job.n_requested))
        if not min_nodes <= n_nodes <= job.n_requested:
            self._refuse(
                subject,
                (
                    f"{verb} job {job.number} on {n_nodes} nodes; it takes {min_nodes} "
                    f"to {job.n_requested}"
                ),
            )


def _drop_from_queue(queue: deque[int], number: int) -> bool:
    """Remove a job from a sorted queue; return True if it was there."""
    if queue and number == queue[0]:
        queue.popleft()
        return True
    position = bisect_left(queue, number)
    if position == len(queue) or queue[position] != number:
        return False
    del queue[position]
    return True
