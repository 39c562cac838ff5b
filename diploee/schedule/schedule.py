"""Scheduling of a run's jobs, window by window: pools, engines and warm-up.

`Cluster` schedules the jobs of all pools. `Transient` determines how long it takes
until the pools of a run that starts empty are full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Literal, NoReturn, Protocol

import numpy as np

from diploee.base.clock import RunClock, WallClock
from diploee.base.column_specs import Column
from diploee.base.errors import WorkloadError, did_you_mean, one_of, shown
from diploee.base.tables import BoolArray, Int64Array, concat
from diploee.base.units import SLOTS_PER_GPU
from diploee.profiles.derived import CapLevels
from diploee.scenario.models import Scenario
from diploee.scenario.pools import InstalledNodes, Pool
from diploee.schedule.context import RUN_TIME, Context
from diploee.schedule.job_table import DRAW_MS, JobTable
from diploee.schedule.policies.easy import StrictFifo
from diploee.schedule.policy import (
    Policy,
    are_starts,
    checked_method,
    compiled_engine_for,
    policy_error,
)
from diploee.schedule.started import NEVER_MS, Schedule, check_widths

Engine = Literal["simpy", "compiled"]
"""Name of a scheduling engine."""


class PoolEngine(Protocol):
    """Protocol of one pool's engine: it numbers jobs in the order added."""

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Add the jobs submitted since the last call, and simulate up to a time.

        Returns the numbers of the jobs that started since the last call, and their
        starts [ms].
        """
        ...


QUEUE_COLUMNS = (
    Column(
        "queued_jobs",
        "jobs",
        "facility",
        "instant",
        None,
        "jobs submitted but not started",
    ),
)
"""Column of the number of waiting jobs."""


class _PoolSchedule:
    """Schedule of one pool, built window by window; nodes are counted in slots."""

    def __init__(
        self, engine: PoolEngine, n_nodes: int, horizon_ms: int, slots_per_node: int = 1
    ) -> None:
        self._pool_engine, self._n_nodes, self._horizon_ms = engine, n_nodes, horizon_ms
        expected = "numbers of jobs and their starts [ms], two arrays of int64"
        self._advance_engine = checked_method(engine, "advance", are_starts, expected)
        self._has_started = False
        self._slots_per_node = slots_per_node
        self._waiting = JobTable.empty()
        self._numbers = np.empty(0, dtype=np.int64)
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> Schedule:
        """Add jobs and return those that start before a time.

        See `PoolEngine.advance` for the parameters.
        """
        check_widths(jobs, self._n_nodes, self._slots_per_node)
        numbers, start_ms = self._advance_engine(jobs, until_ms)
        waiting = concat([self._waiting, jobs])
        new = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        waiting_numbers = np.concatenate([self._numbers, new])
        self._n_jobs += len(jobs)
        if numbers.size and not self._has_started:
            self._check_starts(
                numbers, start_ms, waiting_numbers, waiting.submit_ms, until_ms
            )
        rows: slice | Int64Array
        still_waiting: Int64Array | BoolArray
        # Started in the order of submission: nothing to copy
        if np.array_equal(numbers, waiting_numbers[: numbers.size]):
            rows, still_waiting = (
                slice(numbers.size),
                np.arange(numbers.size, len(waiting)),
            )
        else:
            rows, still_waiting = (
                np.searchsorted(waiting_numbers, numbers),
                np.ones(len(waiting), np.bool_),
            )
            still_waiting[rows] = False
        self._waiting, self._numbers = (
            waiting.take(still_waiting),
            waiting_numbers[still_waiting],
        )
        return Schedule(waiting.take(rows), start_ms, self._horizon_ms)

    def _check_starts(
        self,
        numbers: Int64Array,
        start_ms: Int64Array,
        waiting: Int64Array,
        submit_ms: Int64Array,
        until_ms: int,
    ) -> None:
        """Raise an error if an engine's first starts are impossible."""
        self._has_started = True
        make_error = policy_error(self._pool_engine)
        rows = np.searchsorted(waiting, numbers)
        if (
            rows.max() == waiting.size
            or (waiting[rows] != numbers).any()
            or np.bincount(rows).max() > 1
        ):
            raise make_error(
                ": advance starts jobs which do not wait; they are numbered from 0 in "
                "the order in which it takes them in, and start once"
            )
        submitted_ms = submit_ms[rows]
        wrong_rows = np.flatnonzero((start_ms < submitted_ms) | (start_ms >= until_ms))
        for row in wrong_rows[:1]:
            raise make_error(
                f": advance starts job {numbers[row]} at {start_ms[row]} ms, expected "
                f"{submitted_ms[row]}, when it is submitted, or later, and before "
                f"{until_ms} ms"
            )


class Cluster:
    """All pools of a run, each with its own queue.

    The order of the pools gives the `pool_id` of jobs. Both engines give the same
    starts for every job. `policies` by pool replace those of `Pool.scheduler`.
    `installed` are the installed nodes, `context` has the facility data for preemptive
    policies and the controller, and `slots_per_node` is the unit in which the `n_nodes`
    of jobs count.
    """

    def __init__(
        self,
        pools: Mapping[str, Pool],
        horizon_ms: int,
        engine: Engine = "simpy",
        policies: Mapping[str, Policy] | None = None,
        begin_ms: int = 0,
        installed: Mapping[str, InstalledNodes] | None = None,
        context: Context | None = None,
        slots_per_node: Mapping[str, int] | None = None,
    ) -> None:
        self._horizon_ms = horizon_ms
        slots = dict.fromkeys(pools, 1) | dict(slots_per_node or {})
        installed_by_pool = {
            name: InstalledNodes(pool.n_nodes) for name, pool in pools.items()
        }
        installed_by_pool.update(installed or {})
        policy_by_pool = chosen_policies(pools, policies)
        self.is_preemptive = needs_preemption(policy_by_pool.values(), context)
        for name in pools:
            if slots[name] > 1 and (
                self.is_preemptive or type(policy_by_pool[name]) is not StrictFifo
            ):
                raise WorkloadError(
                    f"pool '{name}': allocate: gpus goes with strict FIFO alone, not "
                    "with other policies or a controller; set allocate: nodes"
                )
        if self.is_preemptive:
            if engine == "compiled":
                _raise_no_compiled_engine(policy_by_pool)
            from diploee.schedule.preemptive_engine import PreemptiveEngine

            self._preemptive = PreemptiveEngine(
                policy_by_pool,
                installed_by_pool,
                context or Context(),
                begin_ms,
                horizon_ms,
            )
            return
        clock = (context or Context()).clock
        self._pools = [
            _PoolSchedule(
                _pool_engine(
                    name,
                    installed_by_pool[name],
                    engine,
                    policy_by_pool[name],
                    begin_ms,
                    slots[name],
                    clock,
                ),
                installed_by_pool[name].n_at_end * slots[name],
                horizon_ms,
                slots[name],
            )
            for name in pools
        ]

    @classmethod
    def from_scenario(
        cls,
        scenario: Scenario,
        engine: Engine,
        policies: Mapping[str, Policy] | None,
        context: Context | None = None,
    ) -> Cluster:
        """Return the cluster of a scenario."""
        return cls(
            scenario.facility.pools,
            scenario.horizon_ms,
            engine,
            policies,
            scenario.clock.begin_ms,
            scenario.installed_nodes(),
            replace(context or Context(), clock=scenario.clock.wall),
            scenario.facility.slots,
        )

    def advance(self, jobs: JobTable, until_ms: int) -> Schedule:
        """Return the jobs of all pools that start before a time, pool after pool.

        With preemptive policies, the result is a `PreemptiveSchedule` of all that jobs
        did before that time.
        """
        if self.is_preemptive:
            return self._preemptive.advance(jobs, until_ms)
        if len(self._pools) == 1:
            return self._pools[0].advance(jobs, until_ms)
        started = [
            pool.advance(jobs.take(jobs.pool_id == pool_id), until_ms)
            for pool_id, pool in enumerate(self._pools)
        ]
        return Schedule(
            concat([schedule.jobs for schedule in started]),
            np.concatenate([schedule.start_ms for schedule in started]),
            self._horizon_ms,
        )


def chosen_policies(
    pools: Mapping[str, Pool], custom: Mapping[str, Policy] | None = None
) -> dict[str, Policy]:
    """Return the policy of each pool: a custom policy, or that of its scheduler."""
    custom = custom or {}
    for name, policy in custom.items():
        if name not in pools:
            raise WorkloadError(
                f"policies: unknown pool {shown(name)} (have: {one_of(pools)})"
                f"{did_you_mean(str(name), pools)}"
            )
        can_choose = hasattr(policy, "select") or hasattr(policy, "decide")
        if isinstance(policy, type) or not can_choose:
            raise WorkloadError(
                f"policies: pool '{name}' needs an object with select(view) or "
                f"decide(view), found {shown(policy)}"
            )
    return {
        name: custom.get(name) or pool.scheduler.open() for name, pool in pools.items()
    }


def cap_levels_for(
    policies: Iterable[object], controller: object | None = None
) -> CapLevels:
    """Return the power cap levels that a run needs.

    If all policies and the controller have ``uses_levels = False``, there is only level
    0. Every level needs a variant of each profile, which takes time and memory.
    """
    preemptive = [policy for policy in policies if hasattr(policy, "decide")]
    preemptive += [] if controller is None else [controller]
    has_levels = any(getattr(subject, "uses_levels", True) for subject in preemptive)
    return CapLevels() if has_levels else CapLevels((1.0,))


def needs_preemption(
    policies: Iterable[object], context: Context | None = None
) -> bool:
    """Return True if a policy is preemptive or there is a controller."""
    if context is not None and context.controller is not None:
        return True
    return any(hasattr(policy, "decide") for policy in policies)


def _raise_no_compiled_engine(policies: Mapping[str, Policy]) -> NoReturn:
    """Raise an error: the compiled engine lacks a policy, or has no controller."""
    for name, policy in policies.items():
        if hasattr(policy, "decide"):
            raise WorkloadError(_NO_COMPILED_ENGINE.format(name, type(policy).__name__))
    raise WorkloadError("the compiled engine has no controller; use --engine simpy")


_NO_COMPILED_ENGINE = (
    "pool '{}': the compiled engine has no twin of policy {}; use --engine simpy"
)


def _pool_engine(
    name: str,
    installed: InstalledNodes,
    engine: Engine,
    policy: Policy,
    begin_ms: int,
    slots_per_node: int = 1,
    clock: WallClock = RUN_TIME,
) -> PoolEngine:
    """Return the engine of a pool."""
    if slots_per_node > 1:
        from diploee.schedule.kernels import open_gpus

        gpus = open_gpus(installed.first, slots_per_node // SLOTS_PER_GPU)
        if engine == "compiled":
            from diploee.schedule.compiled import CompiledQueue

            return CompiledQueue(policy, installed.first, begin_ms, gpus=gpus)
        from diploee.schedule.simpy_engine import SimpyGpus

        return SimpyGpus(gpus, begin_ms)
    if engine == "compiled":
        if (compiled := compiled_engine_for(policy)) is None:
            raise WorkloadError(_NO_COMPILED_ENGINE.format(name, type(policy).__name__))
        return compiled(policy, installed.first, begin_ms, installed.added)
    from diploee.schedule.simpy_engine import SimpyCluster

    return SimpyCluster(installed.first, policy, begin_ms, installed.added, clock)


def in_order_of_submission(
    parts: Sequence[Schedule], jobs: JobTable, horizon_ms: int
) -> Schedule:
    """Join the schedules of a run's windows into one, with jobs numbered from 0."""
    from diploee.schedule.execution_intervals import PreemptiveSchedule, join_windows

    preemptive = [part for part in parts if isinstance(part, PreemptiveSchedule)]
    if preemptive:
        return join_windows(preemptive, jobs, horizon_ms)
    start_ms = np.full(len(jobs), NEVER_MS, dtype=np.int64)
    for part in parts:
        start_ms[part.jobs.job_id] = part.start_ms
    return Schedule(jobs, start_ms, horizon_ms)


def simulated_utilization(
    scenario: Scenario,
    pool: str,
    policy: Policy | None,
    context: Context | None,
    spans: Iterable[JobTable],
) -> float:
    """Return the mean node occupancy of one pool, scheduled without controller, 0-1.

    `spans` are tables of the jobs that each draw span submits. A copy of the policy is
    used, as it may have a state.
    """
    pool_spec, clock = scenario.facility.pools[pool], scenario.clock
    policy_copy = pool_spec.scheduler.open() if policy is None else deepcopy(policy)
    installed, slots_per_node = (
        pool_spec.installed(clock),
        scenario.facility.slots_per_node(pool),
    )
    cluster = Cluster(
        {"": pool_spec},
        clock.horizon_ms,
        "simpy" if compiled_engine_for(policy_copy) is None else "compiled",
        {"": policy_copy},
        clock.begin_ms,
        {"": installed},
        replace(context or Context(), controller=None, clock=clock.wall),
        {"": slots_per_node},
    )
    node_ms = 0
    for number, jobs in enumerate(spans, clock.begin_ms // DRAW_MS + 1):
        jobs_alone = replace(jobs, pool_id=np.zeros(len(jobs), np.int16))
        started = cluster.advance(jobs_alone, min(number * DRAW_MS, clock.horizon_ms))
        node_ms += int(started.node_ms.sum())
    return node_ms / (installed.node_ms(clock.horizon_ms) * slots_per_node)


class Transient:
    """Time in which the pools of a run fill up, from its schedule.

    A pool has filled up when its busy nodes first reach the mean that its jobs request,
    or when a job first has to wait. The run has filled up when every pool has, at the
    latest after half of the run.

    `asked_nodes` is the mean number of nodes requested by the jobs of each pool, by its
    index. A run with a warm-up starts filled.
    """

    def __init__(self, clock: RunClock, asked_nodes: Mapping[int, float]) -> None:
        self._step_ms = clock.step_ms
        self._latest_ms = clock.horizon_ms // 2 // clock.step_ms * clock.step_ms
        self._filling = {} if clock.warm_up_ms else dict(asked_nodes)
        self._running = np.zeros((3, 0), dtype=np.int64)
        self._pool_id = np.zeros(0, dtype=np.int64)
        self._end_ms = 0

    @property
    def end_ms(self) -> int:
        """End of the transient, a whole number of intervals [ms].

        Until the transient has ended, the value is its latest possible end.
        """
        return self._latest_ms if self._filling else min(self._end_ms, self._latest_ms)

    def update(self, started: Schedule, until_ms: int) -> None:
        """Add the jobs that started since the last call and before a time [ms]."""
        if not self._filling:
            return
        *occupied, new_pool_id = started.occupancy()
        jobs = np.concatenate([self._running, np.stack(occupied)], axis=1)
        pool_id = np.concatenate([self._pool_id, new_pool_id])
        has_waited = started.first & (started.wait_ms > 0)
        waited_ms = np.where(has_waited, started.start_ms, np.iinfo(np.int64).max)
        for pool_index, n_nodes in list(self._filling.items()):
            candidates_ms = [
                *waited_ms[started.jobs.pool_id == pool_index],
                *_first_time_at(jobs[:, pool_id == pool_index], n_nodes, until_ms),
            ]
            filled_ms = int(min(candidates_ms, default=until_ms))
            if filled_ms < until_ms:
                del self._filling[pool_index]
                self._end_ms = max(
                    self._end_ms, -(-filled_ms // self._step_ms) * self._step_ms
                )
        is_running = jobs[1] > until_ms
        self._running, self._pool_id = jobs[:, is_running], pool_id[is_running]


def _first_time_at(jobs: Int64Array, n_nodes: float, until_ms: int) -> Int64Array:
    """Return the first time at which jobs occupy a number of nodes [ms].

    The result is empty if there is no such time before `until_ms`.
    """
    start_ms, end_ms, job_nodes = jobs
    times_ms = np.concatenate([end_ms, start_ms])  # of equal times the ends come first
    order = np.argsort(times_ms, kind="stable")
    busy_nodes = np.cumsum(np.concatenate([-job_nodes, job_nodes])[order])
    times_ms = times_ms[order]
    return times_ms[(busy_nodes >= n_nodes) & (times_ms < until_ms)][:1]
