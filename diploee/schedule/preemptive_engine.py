"""Scheduling engine for policies that suspend, cap or resize running jobs.

Jobs that are stopped, slowed and resized, all pools at once. All pools of a run share
one SimPy environment, so that a facility's cap and its controller see all of them at
each instant. At an instant ends come first, then submissions, added nodes and wakes;
then the controller is asked, then the policies, pool after pool, once each.
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
    are_jobs,
    are_pairs,
    asked,
    estimated_ms,
    refusal,
    wake_ms,
)
from diploee.schedule.simpy_loop import SimpyLoop
from diploee.schedule.started import NEVER_MS, check_widths

SIZE_EXPONENT = 0.9
"""A job on a share x of its nodes works at the rate x^0.9.
ASSUMPTION: the exponent [A]."""

ACTIONS = "actions of diploee.schedule.actions with whole numbers"
PAIRS = "pairs of a pool's name and an action of diploee.schedule.actions"

Stretch = tuple[int, int, int, int, int, int, int, int, float]
"""Job, start and end [ms], nodes, work before and after [ms], level, kind, power [W]."""  # noqa: E501


class PreemptiveEngine(SimpyLoop):
    """All pools of a run, simulated by SimPy in one environment.

    Its jobs are numbered in the order in which they are taken in.
    """

    _rule = f"{SimpyLoop._rule}, and acts on jobs of view.running"

    def __init__(
        self,
        policies: Mapping[str, Any],
        standing: Mapping[str, InstalledNodes],
        context: Context,
        begin_ms: int,
        horizon_ms: int,
    ) -> None:
        super().__init__(begin_ms)
        self.context, self._horizon_ms = context, horizon_ms
        self.jobs: dict[int, PreemptiveJob] = {}
        # Nobody sees further than what is known of a signal now.
        self.signals = {
            name: signal.known_at(lambda: self.now_ms)
            for name, signal in context.signals.items()
        }
        self.scope, self._view = FacilityScope(self), FacilityView(self)
        self.pools = {
            name: PreemptivePool(self, name, standing[name].first, policy)
            for name, policy in policies.items()
        }
        self._by_id = list(self.pools.values())
        self._asks = {
            pool.name: asked(pool.policy, "decide", are_actions, ACTIONS)
            if pool.decides
            else asked(pool.policy, "select", are_jobs, JOBS)
            for pool in self._by_id
        }
        controller = context.controller
        self._controls = [
            asked(controller, method, are_pairs, PAIRS)
            for method in ("decide", "settled")
            if hasattr(controller, method)
        ]
        self._most = [standing[name].most for name in policies]
        for pool, idle_w in zip(self._by_id, context.idle_power_w, strict=False):
            pool.idle_w = idle_w
        # The jobs that wait or hold nodes, and their first starts, row by row.
        self._n_jobs, self._table = 0, JobTable.empty()
        self._numbers, self._start_ms = np.empty((2, 0), dtype=np.int64)
        self._forget_window()
        for name, pool in self.pools.items():
            for time_ms, more in standing[name].added:
                self._later(time_ms, self._add, pool, more)
                pool.wakes_ms.append(time_ms)
        wakes_ms = {*context.wakes_ms, *(event.issued_ms for event in context.events)}
        for time_ms in sorted(wakes_ms):
            if begin_ms < time_ms < horizon_ms:
                self._later(time_ms, self._wake_all)
        if context.controller is not None or any(
            pool.wants_idle for pool in self._by_id
        ):
            self._later(begin_ms, self._wake, None)

    def _forget_window(self) -> None:
        """Begin to note what happens in a window.

        Stretches, first starts, ends, requeued jobs.
        """
        self._stretches: list[Stretch] = []
        self._starts_ms: dict[int, int] = {}
        self._ends_ms: dict[int, int] = {}
        self._requeued_ms: list[int] = []
        self._restarted_ms: list[int] = []

    def advance(self, jobs: JobTable, until_ms: int) -> PreemptiveSchedule:
        """Return what happened before a time.

        Arguments as in `_PoolSchedule.advance`.
        """
        estimate_ms = jobs.duration_ms.copy()
        for pool_id, pool in enumerate(self._by_id):
            rows = jobs.pool_id == pool_id
            of_pool = jobs.take(rows)
            check_widths(of_pool, self._most[pool_id])
            estimate_ms[rows] = estimated_ms(
                getattr(pool.policy, "estimate", EXACT), of_pool
            )
        numbers = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        self._table = concat([self._table, jobs])
        self._numbers = np.append(self._numbers, numbers)
        self._start_ms = np.append(self._start_ms, np.full(len(jobs), NEVER_MS))
        entering = self._enter(jobs, estimate_ms)
        self._run_until(until_ms, entering, jobs.submit_ms)
        for job in self.jobs.values():
            if job.held:
                self._tell(job, until_ms)
        for pool in self._by_id:
            self._check_starving(pool, until_ms)
        return self._seen(until_ms)

    def _seen(self, until_ms: int) -> PreemptiveSchedule:
        """Return the jobs active in a window, and forget those that ended."""
        n_rows = len(self._table)
        new, gone = np.zeros((2, n_rows), dtype=np.bool_)
        started, ended = self._rows(self._starts_ms), self._rows(self._ends_ms)
        self._start_ms[started] = list(self._starts_ms.values())
        new[started], gone[ended] = True, True
        end_ms = np.full(n_rows, NEVER_MS)
        end_ms[ended] = list(self._ends_ms.values())
        if until_ms >= self._horizon_ms:
            for row in np.flatnonzero((self._start_ms != NEVER_MS) & ~gone).tolist():
                end_ms[row] = self._planned_end_ms(int(self._numbers[row]))
        runs = ExecutionIntervals.empty()
        if self._stretches:  # in the order of their starts and then of their jobs
            columns = [
                np.array(values) for values in zip(*self._stretches, strict=True)
            ]
            columns[0] = np.searchsorted(self._numbers, columns[0])
            runs = ExecutionIntervals(*columns).take(
                np.lexsort((columns[0], columns[1]))
            )
        touched = new | (end_ms != NEVER_MS)
        touched[runs.job] = True
        seen = PreemptiveSchedule(
            self._table,
            self._start_ms.copy(),
            self._horizon_ms,
            ended_ms=end_ms,
            runs=runs,
            new=new,
            requeued_ms=np.array(self._requeued_ms, dtype=np.int64),
            restarted_ms=np.array(self._restarted_ms, dtype=np.int64),
        ).take(touched)
        self._table, self._numbers = self._table.take(~gone), self._numbers[~gone]
        self._start_ms = self._start_ms[~gone]
        self._forget_window()
        return seen

    def _rows(self, of: Mapping[int, int]) -> Int64Array:
        return np.searchsorted(self._numbers, np.fromiter(of, np.int64, len(of)))

    def _planned_end_ms(self, number: int) -> int:
        """Return when a job ends that has started: as it runs, or at once after now."""
        job = self.jobs[number]
        if job.kind == RUN and job.held:
            return int(job.end_ms)
        return int(self.now_ms + job.duration_ms - job.work_ms)

    def rate(self, job: PreemptiveJob, level: int, n_nodes: int | None = None) -> float:
        """Return a job's work rate at a level and on nodes, by default its own."""
        rate = self.context.levels.speed(job.flexible.kind, level) if level else 1.0
        share = (n_nodes or job.nodes) / job.asked
        return float(rate if share == 1 else rate * share**SIZE_EXPONENT)

    def power_w(self, job: PreemptiveJob, level: int | None = None) -> float:
        """Return a running job's power at a level, by default its own [W]."""
        power = self.context.power
        if power is None:
            return 0.0
        level = job.level if level is None else level
        cap = self.context.levels.power(job.flexible.kind, level) if level else 1.0
        return power.of(job.class_id, job.profile_id, job.nodes, job.power_factor, cap)

    def wake_at(self, time_ms: int, pool: PreemptivePool | None) -> None:
        """Ask a pool's policy, or the controller, at a time [ms]."""
        who = self.context.controller if pool is None else pool.policy
        time_ms = wake_ms(who, time_ms, self.now_ms)
        self._later(time_ms, self._wake, pool)
        if pool is not None:
            pool.wakes_ms.append(time_ms)

    # What happens: submissions, ends, added nodes, wakes.

    def _enter(
        self, jobs: JobTable, estimate_ms: Int64Array
    ) -> list[tuple[PreemptiveJob, PreemptivePool]]:
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
        job, pool = entering
        number = job.number
        pool.waiting.append(number)
        if pool.queue is not pool.waiting:
            pool.queue.append(number)
        pool.job_n_nodes[number] = job.asked
        pool.job_estimate_ms[number] = job.estimate_ms
        pool.job_submit_ms[number] = job.submit_ms
        pool.job_user[number] = job.user_id
        pool.job_class[number] = job.class_id
        pool.job_profile_id[number] = job.profile_id
        self._wake(pool)

    def _add(self, pool: PreemptivePool, more: int) -> None:
        pool.n_nodes += more
        pool.free_nodes += more
        pool.last_busy_ms = self.now_ms
        self._wake(pool)

    def _wake(self, pool: PreemptivePool | None) -> None:
        """Let the controller decide, and the policy of a pool."""
        self._is_due = True
        if pool is not None:
            pool.due = True

    def _wake_all(self) -> None:
        for pool in self._by_id:
            self._wake(pool)

    def _at_end(self, job: PreemptiveJob, pool: PreemptivePool, turn: int) -> None:
        """End a stretch whose length was known: a run, a checkpoint or a restart."""
        if turn != job.turn:
            return  # it was stopped, slowed or resized meanwhile
        self._tell(job, self.now_ms)
        if job.kind == RUN:
            self._ends_ms[job.number] = self.now_ms
            self._release(job, pool)
            self._forget(job, pool)
        elif job.kind == RESTART:
            self._run(job, pool)
        elif job.resized:
            del pool.stopping[job.number]
            pool.free_nodes += job.held - job.resized
            job.held, job.nodes, job.resized = job.resized, job.resized, 0
            pool.job_n_nodes[job.number] = job.nodes
            self._restart(job, pool)
        else:
            del pool.stopping[job.number]
            self._requeue(job, pool)
        self._wake(pool)

    # The outcome of a job. Each stretch is reported when it ends, so that none is
    # reported twice.

    def _tell(self, job: PreemptiveJob, until_ms: int) -> None:
        """Note what a job did up to a time, cut at every span.

        As windows of any length do.
        """
        begin_ms = job.reported_until_ms
        while begin_ms < until_ms:
            end_ms = min((begin_ms // DRAW_MS + 1) * DRAW_MS, until_ms)
            self._stretches.append(
                (
                    job.number,
                    begin_ms,
                    end_ms,
                    job.nodes,
                    job.work_at(begin_ms),
                    job.work_at(end_ms),
                    job.level,
                    job.kind,
                    job.held_w,
                )
            )
            begin_ms = end_ms
        job.reported_until_ms = max(job.reported_until_ms, until_ms)

    def _enters(
        self, job: PreemptiveJob, pool: PreemptivePool, kind: int, length_ms: int | None
    ) -> None:
        """Begin a stretch of a kind, which ends by itself after a time unless None."""
        now_ms = self.now_ms
        job.kind, job.since_ms, job.reported_until_ms = kind, now_ms, now_ms
        job.turn += 1
        job.held_w = 0.0 if kind == RUN else self._held_w(job, kind)
        power_w = self.power_w(job) if kind == RUN else job.held_w
        self._set_power(job, pool, job.nodes, round(power_w * 1000))
        if length_ms is not None:
            job.end_ms = now_ms + length_ms
            self._later(job.end_ms, self._at_end, job, pool, job.turn)

    def _set_power(
        self, job: PreemptiveJob, pool: PreemptivePool, nodes: int, power_mw: int
    ) -> None:
        """Count a job's nodes in use and power.

        Whole mW, so that the sum has no memory.
        """
        pool.in_use += nodes - job.used
        pool.power_mw += power_mw - job.power_mw
        job.used, job.power_mw = nodes, power_mw

    def _held_w(self, job: PreemptiveJob, kind: int) -> float:
        """Return the power of a job that is paused, saved or starts again [W]."""
        power, flexible = self.context.power, job.flexible
        if power is None:
            return 0.0
        idle_w = power.idle_w(job.class_id) * job.nodes
        share = {CHECKPOINT: flexible.stop_share, RESTART: flexible.restart_share}.get(
            kind, 0.0
        )
        return float(max(idle_w, share * self.power_w(job, level=0)))

    def _run(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Let a job work at its level on its nodes, from now on."""
        job.rate = self.rate(job, job.level)
        left_ms = job.duration_ms - job.work_ms
        self._enters(
            job, pool, RUN, left_ms if job.rate == 1 else ceil(left_ms / job.rate)
        )
        self._expect(job, pool, 0)

    def _restart(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Let a job start again from its last checkpoint, then work."""
        restart_ms = job.flexible.restart_ms
        if not restart_ms:
            self._run(job, pool)
            return
        self._enters(job, pool, RESTART, restart_ms)
        self._expect(job, pool, restart_ms)

    def _expect(self, job: PreemptiveJob, pool: PreemptivePool, before_ms: int) -> None:
        left_ms = max(job.estimate_ms - job.work_ms, 1)
        length_ms = before_ms + ceil(left_ms / self.rate(job, job.level))
        pool.running[job.number] = self.now_ms + length_ms

    def _stop_work(self, job: PreemptiveJob) -> None:
        """Tell what a job did up to now and hold its work."""
        self._tell(job, self.now_ms)
        job.work_ms = job.work_at(self.now_ms)

    def _save(self, job: PreemptiveJob, pool: PreemptivePool, resized: int) -> None:
        """Write a checkpoint, then resize the job or put it back into the queue."""
        self._stop_work(job)
        job.saved_ms, job.resized = job.work_ms, resized
        pool.stopping[job.number] = None
        pool.suspended.pop(job.number, None)
        self._enters(job, pool, CHECKPOINT, job.flexible.stop_ms)
        self._expect(job, pool, job.flexible.stop_ms + job.flexible.restart_ms)

    def _requeue(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        """Take a job's nodes and put it back into the queue by submission."""
        job.turn += 1
        job.work_ms, job.level = job.saved_ms, 0
        self._release(job, pool)
        pool.suspended.pop(job.number, None)
        job.nodes = pool.job_n_nodes[job.number] = job.asked
        left_ms = max(job.estimate_ms - job.work_ms, 1)
        pool.job_estimate_ms[job.number] = job.flexible.restart_ms + left_ms
        insort(pool.waiting, job.number)
        if pool.queue is not pool.waiting:
            insort(pool.queue, job.number)
        self._requeued_ms.append(self.now_ms)

    def _release(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        del pool.running[job.number]
        pool.job_level.pop(job.number, None)
        pool.free_nodes += job.held
        pool.last_busy_ms = self.now_ms
        self._set_power(job, pool, 0, 0)
        job.held = 0

    def _forget(self, job: PreemptiveJob, pool: PreemptivePool) -> None:
        del self.jobs[job.number]
        for of_jobs in (
            pool.job_n_nodes,
            pool.job_estimate_ms,
            pool.job_submit_ms,
            pool.job_user,
            pool.job_class,
            pool.job_profile_id,
        ):
            del of_jobs[job.number]

    # Decisions: the controller, then each pool's policy, once at each instant.

    def _decide(self) -> None:
        controller, controls = self.context.controller, self._controls
        if controls:
            self._control(controller, controls[0](self._view))
        for pool in self._by_id:
            # What another pool frees may serve a policy that acts; one that only starts
            # jobs waits for its own pool.
            is_due = pool.due or pool.decides
            pool.due = False
            self._hold(pool)
            if not is_due or not (pool.queue or pool.wants_idle):
                continue
            for answer in self._asks[pool.name](pool):
                action = answer if pool.decides else Start(answer)
                self._act(pool, action, pool.policy)
        for settled in controls[1:]:
            while actions := list(settled(self._view)):
                self._control(controller, actions)

    def _control(
        self, controller: object, actions: Sequence[tuple[str, Action]]
    ) -> None:
        for name, action in actions:
            if name not in self.pools:
                self._refuse(
                    controller, f"acts on pool {shown(name)}", one_of(self.pools)
                )
            self._act(self.pools[name], action, controller)

    def _hold(self, pool: PreemptivePool) -> None:
        """Hide the waiting jobs that the controller holds.

        The pool is asked again each time.
        """
        controller = self.context.controller
        if controller is None or not getattr(controller, "holds", True):
            pool.queue = pool.waiting
            return
        with named_errors("may_start", refusal(controller)):
            may = [
                n
                for n in pool.waiting
                if controller.may_start(self._view, pool.name, n)
            ]
        pool.due |= len(may) < len(pool.waiting)
        pool.queue = deque(may) if pool.due else pool.waiting

    def _act(self, pool: PreemptivePool, action: Action, who: object) -> None:
        match action:
            case Start(number, n_nodes, level):
                self._start(pool, number, n_nodes, level, who)
            case Preempt(number, how):
                self._preempt(
                    pool, self._running(pool, number, "preempts", who), how, who
                )
            case Resume(number):
                job = self._running(pool, number, "resumes", who)
                if number not in pool.suspended:
                    self._refuse(who, f"resumes job {number}, which is not suspended")
                del pool.suspended[number]
                self._stop_work(job)
                self._run(job, pool)
            case Resize(number, n_nodes):
                self._resize(
                    pool, self._running(pool, number, "resizes", who), n_nodes, who
                )
            case SetLevel(number, level):
                job = self._running(pool, number, "caps", who)
                self._check_level(level, number, who)
                if level != job.level:
                    self._stop_work(job)
                    job.level = pool.job_level[number] = level
                    if job.kind == RUN:
                        self._run(job, pool)
            case _:
                self._refuse(who, f"answers {shown(action)}, which is no action")

    def _start(
        self,
        pool: PreemptivePool,
        number: int,
        n_nodes: int | None,
        level: int,
        who: object,
    ) -> None:
        queue = pool.queue
        if not _drop(queue, number):
            self._refuse(who, f"starts job {number}, which does not wait")
        if queue is not pool.waiting:
            _drop(pool.waiting, number)
        job = self.jobs[number]
        n_nodes = job.asked if n_nodes is None else n_nodes
        self._check_size(job, n_nodes, "starts", who)
        if n_nodes > pool.free_nodes:
            free = f"{pool.free_nodes} are free"
            self._refuse(who, f"starts job {number} on {n_nodes} nodes, {free}")
        self._check_level(level, number, who)
        pool.free_nodes -= n_nodes
        job.held = job.nodes = pool.job_n_nodes[number] = n_nodes
        job.level = pool.job_level[number] = level
        if job.turn == 0:
            self._starts_ms[number] = self.now_ms
            self._run(job, pool)
        else:
            self._restarted_ms.append(self.now_ms)
            self._restart(job, pool)

    def _preempt(
        self, pool: PreemptivePool, job: PreemptiveJob, how: str, who: object
    ) -> None:
        number = job.number
        if not job.flexible.pausable:
            self._refuse(who, f"preempts job {number}, whose class is not pausable")
        if how == "suspend":
            if job.kind != RUN:
                self._refuse(who, f"suspends job {number}, which does not work now")
            self._stop_work(job)
            pool.suspended[number] = None
            self._enters(job, pool, PAUSED, None)
        elif how == "checkpoint" and job.kind != RESTART and job.flexible.stop_ms:
            self._save(job, pool, 0)
        elif how in ("checkpoint", "kill"):
            saved_ms = job.work_at(self.now_ms) if how == "checkpoint" else None
            job.saved_ms = job.saved_at(self.now_ms) if saved_ms is None else saved_ms
            self._stop_work(job)
            self._requeue(job, pool)
            pool.due = True
        else:
            hows = one_of(("checkpoint", "kill", "suspend"))
            self._refuse(who, f"preempts job {number} by {shown(how)} (have: {hows})")

    def _resize(
        self, pool: PreemptivePool, job: PreemptiveJob, n_nodes: int, who: object
    ) -> None:
        number = job.number
        if job.kind != RUN:
            self._refuse(who, f"resizes job {number}, which does not work now")
        self._check_size(job, n_nodes, "resizes", who)
        if n_nodes == job.nodes:
            return
        more = max(n_nodes - job.held, 0)
        if more > pool.free_nodes:
            free = f"{pool.free_nodes} more are free"
            self._refuse(who, f"resizes job {number} to {n_nodes} nodes, {free}")
        # Those to come are kept from now on, those to go until it is saved
        pool.free_nodes -= more
        job.held += more
        self._save(job, pool, n_nodes)

    def _running(
        self, pool: PreemptivePool, number: int, does: str, who: object
    ) -> PreemptiveJob:
        """Return a job that holds nodes and can be acted on."""
        if number not in pool.running:
            self._refuse(who, f"{does} job {shown(number)}, which does not run")
        if number in pool.stopping:
            self._refuse(
                who, f"{does} job {number}, which is being saved (see view.stopping)"
            )
        return self.jobs[number]

    def _check_level(self, level: int, number: int, who: object) -> None:
        n_levels = len(self.context.levels)
        if not 0 <= level < n_levels:
            self._refuse(
                who,
                f"runs job {number} at level {level}; levels are 0 to {n_levels - 1}",
            )

    def _check_size(
        self, job: PreemptiveJob, n_nodes: int, does: str, who: object
    ) -> None:
        least = max(1, ceil(job.flexible.least_share * job.asked))
        if not least <= n_nodes <= job.asked:
            self._refuse(
                who,
                (
                    f"{does} job {job.number} on {n_nodes} nodes; it takes {least} to "
                    f"{job.asked}"
                ),
            )


def _drop(queue: deque[int], number: int) -> bool:
    """Take a job out of an ordered queue, and return whether it was there."""
    if queue and number == queue[0]:
        queue.popleft()
        return True
    place = bisect_left(queue, number)
    if place == len(queue) or queue[place] != number:
        return False
    del queue[place]
    return True
