"""`Context` and views: the state that preemptive policies and controllers see.

A policy sees its own pool with its queue, and power, signals and events of the
facility; the controller sees all pools. All of it is known ahead or up to now: nothing
tells a job's true run time.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from diploee.base.clock import WallClock
from diploee.profiles.derived import CapLevels
from diploee.scenario.flexibility import RunEvent
from diploee.schedule.actions import Action
from diploee.schedule.execution_intervals import RUN
from diploee.schedule.job_table import BY_DEFAULT, ClassFlexibility, JobPower
from diploee.schedule.signals import Signal


@dataclass(eq=False, slots=True)
class PreemptiveJob:
    """A job that waits or holds nodes."""

    number: int
    flexible: ClassFlexibility
    submit_ms: int
    asked: int
    duration_ms: int
    estimate_ms: int
    class_id: int
    profile_id: int
    power_factor: float
    user_id: int
    priority: float
    held: int = 0  # nodes taken from the pool; `nodes` are those in use
    nodes: int = 0
    kind: int = RUN
    level: int = 0
    rate: float = 1.0
    work_ms: int = 0  # at `since_ms`; `saved_ms` in the last checkpoint
    saved_ms: int = 0
    since_ms: int = 0
    reported_until_ms: int = 0
    end_ms: int = 0
    turn: int = 0  # an event of another turn is out of date
    resized: int = 0  # nodes to go on with after a checkpoint; 0 = back into the queue
    used: int = 0
    power_mw: int = 0
    held_w: float = 0.0

    def __post_init__(self) -> None:
        self.nodes = self.asked

    def work_at(self, time_ms: int) -> int:
        """Return the work done by a time of the present stretch [ms]."""
        if self.kind != RUN:
            return self.work_ms
        if time_ms >= self.end_ms:
            return self.duration_ms
        passed_ms = time_ms - self.since_ms
        done_ms = passed_ms if self.rate == 1 else int(passed_ms * self.rate)
        return min(self.work_ms + done_ms, self.duration_ms)

    def saved_at(self, time_ms: int) -> int:
        """Return the work in its last checkpoint by a time [ms]."""
        every_ms = self.flexible.checkpoint_every_ms
        return max(self.saved_ms, self.work_at(time_ms) // every_ms * every_ms)


class Engine(Protocol):
    """The engine behind the views."""

    context: Context
    jobs: dict[int, PreemptiveJob]
    pools: dict[str, PreemptivePool]
    scope: FacilityScope
    signals: dict[str, Any]

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms]."""
        ...

    def rate(self, job: PreemptiveJob, level: int, n_nodes: int | None = None) -> float:
        """Return the rate of a job's work."""
        ...

    def power_w(self, job: PreemptiveJob, level: int | None = None) -> float:
        """Return the power of a job [W]."""
        ...

    def wake_at(self, time_ms: int, pool: PreemptivePool | None) -> None:
        """Ask a pool's policy, or the controller, at a time [ms]."""
        ...


class _Sight:
    """The view that all share: time, services, signals and events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return self._engine.now_ms

    @property
    def clock(self) -> WallClock:
        """Local time of the site: ``clock.at(now_ms)`` is the time there."""
        return self._engine.context.clock

    def service_power_w(self, time_ms: int) -> float:
        """Return services' planned power beyond their nodes' idle power [W]."""
        return self._engine.context.service_power_w(time_ms)

    @property
    def signals(self) -> Mapping[str, Any]:
        """Outside signals by name."""
        return self._engine.signals

    @property
    def events_known(self) -> Sequence[RunEvent]:
        """Events issued by now."""
        now_ms = self.now_ms
        return [
            event for event in self._engine.context.events if event.issued_ms <= now_ms
        ]


class FacilityScope(_Sight):
    """The whole facility in the view of a pool's policy: power, signals, events.

    No queues.
    """

    @property
    def power_w(self) -> float:
        """Mean power of all devices as they are now [W]: jobs, services, idle nodes."""
        pools_w = sum(pool.pool_power_w for pool in self._engine.pools.values())
        return pools_w + self.service_power_w(self.now_ms)


class FacilityView(FacilityScope):
    """View of a controller: all pools, with their queues."""

    @property
    def pools(self) -> Mapping[str, PreemptivePool]:
        """The pools by name."""
        return self._engine.pools

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms], after now."""
        self._engine.wake_at(time_ms, None)


class PreemptivePool(_Sight):
    """One pool with its queue, as its policy sees it.

    Jobs are numbered over all pools.
    """

    def __init__(self, engine: Engine, name: str, n_nodes: int, policy: Any) -> None:
        super().__init__(engine)
        self.name, self.policy = name, policy
        self.n_nodes = self.free_nodes = n_nodes
        self.waiting: deque[int] = deque()
        self.queue = self.waiting
        """Waiting jobs that the controller does not hold, in the order of submission."""  # noqa: E501
        self.running: dict[int, int] = {}
        """Jobs that hold nodes, each with the time at which it is expected to end [ms]."""  # noqa: E501
        self.suspended: dict[int, None] = {}
        """Those of them that are suspended."""
        self.stopping: dict[int, None] = {}
        """Those of them that are being saved: nothing else can be done with them until
        then."""
        self.job_n_nodes: dict[int, int] = {}
        self.job_estimate_ms: dict[int, int] = {}
        self.job_submit_ms: dict[int, int] = {}
        self.job_user: dict[int, int] = {}
        self.job_class: dict[int, int] = {}
        self.job_profile_id: dict[int, int] = {}
        self.job_level: dict[int, int] = {}
        self.decides = hasattr(policy, "decide")
        self.wants_idle = bool(getattr(policy, "wants_idle", False))
        self.due = self.wants_idle
        self.idle_w = 0.0
        self.in_use, self.power_mw = 0, 0
        self.last_busy_ms = engine.now_ms
        self.wakes_ms: list[int] = []

    @property
    def facility(self) -> FacilityScope:
        """Power, signals and events of the whole facility."""
        return self._engine.scope

    @property
    def pool_power_w(self) -> float:
        """Mean power of its jobs as they are now, and of its idle nodes [W].

        Without services.
        """
        return self.power_mw / 1000 + (self.n_nodes - self.in_use) * self.idle_w

    @property
    def n_levels(self) -> int:
        """Number of cap levels; 0 is none."""
        return len(self._engine.context.levels)

    def expected_end_ms(self, job: int) -> int:
        """Return when a job that holds nodes is expected to end [ms], after now."""
        return max(self.running[job], self.now_ms + 1)

    def works(self, job: int) -> bool:
        """Return whether a job that holds nodes works now.

        Not suspended, saved or restarting.
        """
        return self._engine.jobs[job].kind == RUN

    def work_ms(self, job: int) -> int:
        """Return the work that a job has done by now [ms of an uncapped run]."""
        return self._engine.jobs[job].work_at(self.now_ms)

    def saved_ms(self, job: int) -> int:
        """Return the work that a job would keep if it were killed now [ms]."""
        return self._engine.jobs[job].saved_at(self.now_ms)

    def flexibility(self, job: int) -> ClassFlexibility:
        """Return how a job bends."""
        return self._engine.jobs[job].flexible

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        return self._engine.jobs[job].priority

    def deadline_ms(self, job: int) -> int:
        """Return when a job is due [ms], by its class.

        A date, or its estimate and some slack.
        """
        of = self._engine.jobs[job]
        flexible = of.flexible
        if flexible.deadline_ms is not None:
            return flexible.deadline_ms
        if flexible.slack is None:
            return sys.maxsize
        return int(of.submit_ms + (1 + flexible.slack) * of.estimate_ms)

    def speed(self, job: int, level: int, n_nodes: int | None = None) -> float:
        """Return the rate of a job's work at a level and on a number of nodes."""
        return self._engine.rate(self._engine.jobs[job], level, n_nodes)

    def power_w(self, job: int, level: int = 0) -> float:
        """Return the power of a job that runs at a level, on its nodes [W]."""
        return self._engine.power_w(self._engine.jobs[job], level)

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms], after now."""
        self._engine.wake_at(time_ms, self)


class Controller(Protocol):
    """Acts on all pools of a facility, before their own policies, once at each instant.

    One with ``holds`` that is false lets all jobs start and is not asked of each. One
    with a method ``settled(view)`` is asked when all is decided at an instant, and
    again after what it answers.
    """

    def decide(self, view: FacilityView) -> Sequence[tuple[str, Action]]:
        """Return actions, each with the name of its pool, in order."""
        ...

    def may_start(self, view: FacilityView, pool: str, job: int) -> bool:
        """Return whether a pool may start a waiting job now.

        One that it may not is not seen.
        """
        ...

    def settled(self, view: FacilityView) -> Sequence[tuple[str, Action]]:
        """Return what else is to be done at an instant, after all have decided.

        Mostly nothing.
        """
        ...


RUN_TIME = WallClock(datetime(1970, 1, 1, tzinfo=UTC))
"""The clock of a schedule alone, which has no site: its time is UTC."""


@dataclass(frozen=True)
class Context:
    """Data of a facility for acting policies and a controller, besides its queues."""

    # 0 W where it is not known, as in tests of a schedule alone
    power: JobPower | None = None
    flexibility: Sequence[
        ClassFlexibility
    ] = ()  # by `class_id`; the defaults beyond it
    levels: CapLevels = field(default_factory=CapLevels)  # caps that jobs may be run at
    idle_power_w: Sequence[float] = ()  # idle power of a node of each pool [W]
    # Planned power of all services at a time [ms], beyond idle power of their nodes [W]
    service_power_w: Callable[[int], float] = lambda _: 0.0
    # Outside signals by name
    signals: Mapping[str, Signal] = field(default_factory=dict)
    # All of the run; a policy sees those that were issued
    events: Sequence[RunEvent] = ()
    # when all are asked [ms], such as at changes of signals; events wake too
    wakes_ms: Sequence[int] = ()
    controller: Controller | None = None  # acts before the policies of the pools
    clock: WallClock = RUN_TIME  # local time of the site

    def flexibility_of(self, class_id: int) -> ClassFlexibility:
        """Return how the jobs of a class bend."""
        if class_id < len(self.flexibility):
            return self.flexibility[class_id]
        return BY_DEFAULT
