"""Scheduling of a run's jobs, window by window: pools, engines and warm-up.

`Cluster` finds them, pool by pool and window by window. `Transient` sees from them how
long a run that begins empty fills up.
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
    asked,
    compiled_engine_for,
    refusal,
)
from diploee.schedule.started import NEVER_MS, Schedule, check_widths

Engine = Literal["simpy", "compiled"]


class PoolEngine(Protocol):
    """Schedules one pool; jobs are numbered in the order in which it takes them in."""

    def advance(self, jobs: JobTable, until_ms: int) -> tuple[Int64Array, Int64Array]:
        """Take in the jobs submitted since the last call and before a time.

        Simulate up to it. Returns the numbers of the jobs that started since the last
        call, and when [ms].
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


class _PoolSchedule:
    """The schedule of one pool as it comes about; nodes are counted in slots."""

    def __init__(
        self, engine: PoolEngine, n_nodes: int, horizon_ms: int, slots_per_node: int = 1
    ) -> None:
        self._engine, self._n_nodes, self._horizon_ms = engine, n_nodes, horizon_ms
        expected = "numbers of jobs and their starts [ms], two arrays of int64"
        self._ask = asked(engine, "advance", are_starts, expected)
        self._has_started = False
        self._slots_per_node = slots_per_node
        self._waiting = JobTable.empty()
        self._numbers = np.empty(0, dtype=np.int64)
        self._n_jobs = 0

    def advance(self, jobs: JobTable, until_ms: int) -> Schedule:
        """Return the jobs that start before a time.

        Arguments as in `PoolEngine.advance`.
        """
        check_widths(jobs, self._n_nodes, self._slots_per_node)
        numbers, start_ms = self._ask(jobs, until_ms)
        waiting = concat([self._waiting, jobs])
        new = np.arange(self._n_jobs, self._n_jobs + len(jobs))
        waiting_numbers = np.concatenate([self._numbers, new])
        self._n_jobs += len(jobs)
        if numbers.size and not self._has_started:
            self._check_starts(
                numbers, start_ms, waiting_numbers, waiting.submit_ms, until_ms
            )
        rows: slice | Int64Array
        still: Int64Array | BoolArray
        # In turn: nothing to copy
        if np.array_equal(numbers, waiting_numbers[: numbers.size]):
            rows, still = slice(numbers.size), np.arange(numbers.size, len(waiting))
        else:
            rows, still = (
                np.searchsorted(waiting_numbers, numbers),
                np.ones(len(waiting), np.bool_),
            )
            still[rows] = False
        self._waiting, self._numbers = waiting.take(still), waiting_numbers[still]
        return Schedule(waiting.take(rows), start_ms, self._horizon_ms)

    def _check_starts(
        self,
        numbers: Int64Array,
        start_ms: Int64Array,
        waiting: Int64Array,
        submit_ms: Int64Array,
        until_ms: int,
    ) -> None:
        """Refuse first starts that the jobs can't have."""
        self._has_started = True
        refuse = refusal(self._engine)
        place = np.searchsorted(waiting, numbers)
        if (
            place.max() == waiting.size
            or (waiting[place] != numbers).any()
            or np.bincount(place).max() > 1
        ):
            raise refuse(
                ": advance starts jobs which do not wait; they are numbered from 0 in "
                "the order in which it takes them in, and start once"
            )
        first_ms = submit_ms[place]
        wrong = np.flatnonzero((start_ms < first_ms) | (start_ms >= until_ms))
        for at in wrong[:1]:
            raise refuse(
                f": advance starts job {numbers[at]} at {start_ms[at]} ms, expected "
                f"{first_ms[at]}, when it is submitted, or later, and before "
                f"{until_ms} ms"
            )


class Cluster:
    """All pools of a run, each with its own queue.

    Their order gives the `pool_id` of jobs. Both engines give the same starts, job for
    job. `policies` by pool replace what `Pool.scheduler` names, `standing` has the
    nodes that stand, `context` what policies that act know besides their queues, with a
    controller, and `slots_per_node` those in which the `n_nodes` of jobs count.
    """

    def __init__(
        self,
        pools: Mapping[str, Pool],
        horizon_ms: int,
        engine: Engine = "simpy",
        policies: Mapping[str, Policy] | None = None,
        begin_ms: int = 0,
        standing: Mapping[str, InstalledNodes] | None = None,
        context: Context | None = None,
        slots_per_node: Mapping[str, int] | None = None,
    ) -> None:
        self._horizon_ms = horizon_ms
        slots = dict.fromkeys(pools, 1) | dict(slots_per_node or {})
        stand = {name: InstalledNodes(pool.n_nodes) for name, pool in pools.items()}
        stand.update(standing or {})
        chosen = chosen_policies(pools, policies)
        self.acts = acts(chosen.values(), context)
        for name in pools:
            if slots[name] > 1 and (self.acts or type(chosen[name]) is not StrictFifo):
                raise WorkloadError(
                    f"pool '{name}': allocate: gpus goes with strict FIFO alone, not "
                    "with other policies or a controller; set allocate: nodes"
                )
        if self.acts:
            if engine == "compiled":
                _refuse_acting(chosen)
            from diploee.schedule.preemptive_engine import PreemptiveEngine

            self._acting = PreemptiveEngine(
                chosen, stand, context or Context(), begin_ms, horizon_ms
            )
            return
        clock = (context or Context()).clock
        self._pools = [
            _PoolSchedule(
                _engine(
                    name,
                    stand[name],
                    engine,
                    chosen[name],
                    begin_ms,
                    slots[name],
                    clock,
                ),
                stand[name].most * slots[name],
                horizon_ms,
                slots[name],
            )
            for name in pools
        ]

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        engine: Engine,
        policies: Mapping[str, Policy] | None,
        context: Context | None = None,
    ) -> Cluster:
        """Return the pools of a scenario."""
        return cls(
            scenario.facility.pools,
            scenario.horizon_ms,
            engine,
            policies,
            scenario.clock.begin_ms,
            scenario.standing_nodes(),
            replace(context or Context(), clock=scenario.clock.wall),
            scenario.facility.slots,
        )

    def advance(self, jobs: JobTable, until_ms: int) -> Schedule:
        """Return the jobs of all pools that start before a time, pool after pool.

        Where policies act, an `PreemptiveSchedule` of what jobs did before that time.
        """
        if self.acts:
            return self._acting.advance(jobs, until_ms)
        if len(self._pools) == 1:
            return self._pools[0].advance(jobs, until_ms)
        started = [
            pool.advance(jobs.take(jobs.pool_id == pool_id), until_ms)
            for pool_id, pool in enumerate(self._pools)
        ]
        return Schedule(
            concat([of_pool.jobs for of_pool in started]),
            np.concatenate([of_pool.start_ms for of_pool in started]),
            self._horizon_ms,
        )


def chosen_policies(
    pools: Mapping[str, Pool], own: Mapping[str, Policy] | None = None
) -> dict[str, Policy]:
    """Return the policy of each pool: an own one, or that which the pool names."""
    own = own or {}
    for name, policy in own.items():
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
        name: own.get(name) or pool.scheduler.open() for name, pool in pools.items()
    }


def levels_of(
    policies: Iterable[object], controller: object | None = None
) -> CapLevels:
    """Return the cap levels that a run needs.

    None where all that act say ``uses_levels = False``. Every level has a variant of
    each profile, which costs time and memory.
    """
    acting = [policy for policy in policies if hasattr(policy, "decide")]
    acting += [] if controller is None else [controller]
    used = any(getattr(one, "uses_levels", True) for one in acting)
    return CapLevels() if used else CapLevels((1.0,))


def acts(policies: Iterable[object], context: Context | None = None) -> bool:
    """Return whether policies decide on more than starts, or a controller does."""
    if context is not None and context.controller is not None:
        return True
    return any(hasattr(policy, "decide") for policy in policies)


def _refuse_acting(chosen: Mapping[str, Policy]) -> NoReturn:
    for name, policy in chosen.items():
        if hasattr(policy, "decide"):
            raise WorkloadError(_NO_TWIN.format(name, type(policy).__name__))
    raise WorkloadError("the compiled engine has no controller; use --engine simpy")


_NO_TWIN = "pool '{}': the compiled engine has no twin of policy {}; use --engine simpy"


def _engine(
    name: str,
    standing: InstalledNodes,
    engine: Engine,
    policy: Policy,
    begin_ms: int,
    slots_per_node: int = 1,
    clock: WallClock = RUN_TIME,
) -> PoolEngine:
    if slots_per_node > 1:
        from diploee.schedule.kernels import open_gpus

        gpus = open_gpus(standing.first, slots_per_node // SLOTS_PER_GPU)
        if engine == "compiled":
            from diploee.schedule.compiled import CompiledQueue

            return CompiledQueue(policy, standing.first, begin_ms, gpus=gpus)
        from diploee.schedule.simpy_engine import SimpyGpus

        return SimpyGpus(gpus, begin_ms)
    if engine == "compiled":
        if (twin := compiled_engine_for(policy)) is None:
            raise WorkloadError(_NO_TWIN.format(name, type(policy).__name__))
        return twin(policy, standing.first, begin_ms, standing.added)
    from diploee.schedule.simpy_engine import SimpyCluster

    return SimpyCluster(standing.first, policy, begin_ms, standing.added, clock)


def in_order_of_submission(
    parts: Sequence[Schedule], jobs: JobTable, horizon_ms: int
) -> Schedule:
    """Return all jobs of a run, numbered from 0, with their starts."""
    from diploee.schedule.execution_intervals import PreemptiveSchedule, acted_in_order

    acted = [part for part in parts if isinstance(part, PreemptiveSchedule)]
    if acted:
        return acted_in_order(acted, jobs, horizon_ms)
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
    """Return the mean node occupancy (0-1) of a pool alone, uncontrolled.

    `spans` are those that are drawn at once; a copy of the policy is asked, as it may
    have a state.
    """
    of_pool, clock = scenario.facility.pools[pool], scenario.clock
    chosen = of_pool.scheduler.open() if policy is None else deepcopy(policy)
    standing, slots_per_node = (
        of_pool.standing(clock),
        scenario.facility.slots_per_node(pool),
    )
    cluster = Cluster(
        {"": of_pool},
        clock.horizon_ms,
        "simpy" if compiled_engine_for(chosen) is None else "compiled",
        {"": chosen},
        clock.begin_ms,
        {"": standing},
        replace(context or Context(), controller=None, clock=clock.wall),
        {"": slots_per_node},
    )
    node_ms = 0
    for number, jobs in enumerate(spans, clock.begin_ms // DRAW_MS + 1):
        jobs_alone = replace(jobs, pool_id=np.zeros(len(jobs), np.int16))
        started = cluster.advance(jobs_alone, min(number * DRAW_MS, clock.horizon_ms))
        node_ms += int(started.node_ms.sum())
    return node_ms / (standing.node_ms(clock.horizon_ms) * slots_per_node)


class Transient:
    """The time in which pools fill up, as their schedule comes about.

    A pool has filled up when its busy nodes first reach the mean that its jobs ask for,
    or a job first has to wait. The whole has when every pool has, at the latest after
    half the run.

    `asked_nodes` are the nodes that the jobs of each pool, by its index, ask for on
    average. A run with a warm-up begins filled.
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
        """Its end, a whole number of intervals [ms]; while it lasts, the latest one."""
        return self._latest_ms if self._filling else min(self._end_ms, self._latest_ms)

    def see(self, started: Schedule, until_ms: int) -> None:
        """Take in the jobs that started since the last call and before a time [ms]."""
        if not self._filling:
            return
        *new, new_pool_id = started.occupied()
        jobs = np.concatenate([self._running, np.stack(new)], axis=1)
        pool_id = np.concatenate([self._pool_id, new_pool_id])
        late = started.first & (started.wait_ms > 0)
        late_ms = np.where(late, started.start_ms, np.iinfo(np.int64).max)
        for of_pool, n_nodes in list(self._filling.items()):
            reached_ms = [
                *late_ms[started.jobs.pool_id == of_pool],
                *_first_with(jobs[:, pool_id == of_pool], n_nodes, until_ms),
            ]
            filled_ms = int(min(reached_ms, default=until_ms))
            if filled_ms < until_ms:
                del self._filling[of_pool]
                self._end_ms = max(
                    self._end_ms, -(-filled_ms // self._step_ms) * self._step_ms
                )
        still = jobs[1] > until_ms
        self._running, self._pool_id = jobs[:, still], pool_id[still]


def _first_with(jobs: Int64Array, n_nodes: float, until_ms: int) -> Int64Array:
    """Return the first time before another when jobs take `n_nodes`, if any."""
    start_ms, end_ms, of_job = jobs
    times_ms = np.concatenate([end_ms, start_ms])  # of equal times the ends come first
    order = np.argsort(times_ms, kind="stable")
    level = np.cumsum(np.concatenate([-of_job, of_job])[order])
    times_ms = times_ms[order]
    return times_ms[(level >= n_nodes) & (times_ms < until_ms)][:1]
