"""`Context` and views: the state that preemptive policies and controllers can see.

A policy sees its own pool and queue, and the power, signals and events of the facility.
A controller sees all pools. Neither sees the true run times of jobs, or signals and
events that are not yet known.
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
    """State of a job that waits or has nodes."""

    number: int
    flexible: ClassFlexibility
    submit_ms: int
    n_requested: int
    duration_ms: int
    estimate_ms: int
    class_id: int
    profile_id: int
    power_factor: float
    user_id: int
    priority: float
    n_allocated: int = 0  # nodes allocated in the pool; `n_nodes`: nodes in use
    n_nodes: int = 0
    kind: int = RUN
    level: int = 0
    rate: float = 1.0
    work_ms: int = 0  # work done by `since_ms`; `saved_ms`: by the last checkpoint
    saved_ms: int = 0
    since_ms: int = 0
    reported_until_ms: int = 0
    end_ms: int = 0
    turn: int = 0  # number of the interval; events of earlier ones are obsolete
    resized: int = 0  # nodes to continue on after a checkpoint; 0 = back to the queue
    n_used: int = 0
    power_mw: int = 0
    held_w: float = 0.0

    def __post_init__(self) -> None:
        self.n_nodes = self.n_requested

    def work_at(self, time_ms: int) -> int:
        """Return the work done by a time in the present interval [ms]."""
        if self.kind != RUN:
            return self.work_ms
        if time_ms >= self.end_ms:
            return self.duration_ms
        elapsed_ms = time_ms - self.since_ms
        done_ms = elapsed_ms if self.rate == 1 else int(elapsed_ms * self.rate)
        return min(self.work_ms + done_ms, self.duration_ms)

    def saved_at(self, time_ms: int) -> int:
        """Return the work saved in the last checkpoint before a time [ms]."""
        period_ms = self.flexible.checkpoint_every_ms
        return max(self.saved_ms, self.work_at(time_ms) // period_ms * period_ms)


class Engine(Protocol):
    """Protocol of the engine that policies and controllers see through views."""

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
        """Return the rate of a job's work, relative to an uncapped run."""
        ...

    def power_w(self, job: PreemptiveJob, level: int | None = None) -> float:
        """Return the power of a job [W]."""
        ...

    def wake_at(self, time_ms: int, pool: PreemptivePool | None) -> None:
        """Request a decision at a time [ms], of a pool or the controller."""
        ...


class _FacilityState:
    """Base of all views: time, service power, signals and events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def now_ms(self) -> int:
        """Time since the start of the run [ms], negative in its warm-up."""
        return self._engine.now_ms

    @property
    def clock(self) -> WallClock:
        """Local time of the site; ``clock.at(now_ms)`` is the present local time."""
        return self._engine.context.clock

    def service_power_w(self, time_ms: int) -> float:
        """Return the planned power of services above their nodes' idle power [W]."""
        return self._engine.context.service_power_w(time_ms)

    @property
    def signals(self) -> Mapping[str, Any]:
        """External signals by name."""
        return self._engine.signals

    @property
    def events_known(self) -> Sequence[RunEvent]:
        """Demand-response events that have been issued."""
        now_ms = self.now_ms
        return [
            event for event in self._engine.context.events if event.issued_ms <= now_ms
        ]


class FacilityScope(_FacilityState):
    """View of the whole facility for a pool's policy: power, signals and events.

    It has no queues.
    """

    @property
    def power_w(self) -> float:
        """Present mean power of all devices [W]: jobs, services and idle nodes."""
        pools_w = sum(pool.pool_power_w for pool in self._engine.pools.values())
        return pools_w + self.service_power_w(self.now_ms)


class FacilityView(FacilityScope):
    """View of a controller: the facility and all pools, with their queues."""

    @property
    def pools(self) -> Mapping[str, PreemptivePool]:
        """Pools by name."""
        return self._engine.pools

    def wake_at(self, time_ms: int) -> None:
        """Request another decision at a time after the present [ms]."""
        self._engine.wake_at(time_ms, None)


class PreemptivePool(_FacilityState):
    """State of one pool and its queue, as the pool's policy sees it.

    Jobs are numbered over all pools.
    """

    def __init__(self, engine: Engine, name: str, n_nodes: int, policy: Any) -> None:
        super().__init__(engine)
        self.name, self.policy = name, policy
        self.n_nodes = self.free_nodes = n_nodes
        self.waiting: deque[int] = deque()
        self.queue = self.waiting
        """Waiting jobs in the order of submission, without those that the controller
        delays."""
        self.running: dict[int, int] = {}
        """Jobs that have nodes, each with its expected end [ms]."""
        self.suspended: dict[int, None] = {}
        """Jobs in `running` that are suspended."""
        self.stopping: dict[int, None] = {}
        """Jobs in `running` that are saving a checkpoint; until its end they accept no
        other action."""
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
        """View of the whole facility: power, signals and events."""
        return self._engine.scope

    @property
    def pool_power_w(self) -> float:
        """Present mean power of the pool's jobs and idle nodes [W].

        Services are not included.
        """
        return self.power_mw / 1000 + (self.n_nodes - self.in_use) * self.idle_w

    @property
    def n_levels(self) -> int:
        """Number of power cap levels; level 0 is uncapped."""
        return len(self._engine.context.levels)

    def expected_end_ms(self, job: int) -> int:
        """Return the expected end of a job that has nodes [ms], after the present."""
        return max(self.running[job], self.now_ms + 1)

    def works(self, job: int) -> bool:
        """Return True if a job is running, not suspended, saved or restarting."""
        return self._engine.jobs[job].kind == RUN

    def work_ms(self, job: int) -> int:
        """Return the work that a job has done [ms of an uncapped run]."""
        return self._engine.jobs[job].work_at(self.now_ms)

    def saved_ms(self, job: int) -> int:
        """Return the work that a job would keep if killed now [ms].

        Work is in ms of an uncapped run.
        """
        return self._engine.jobs[job].saved_at(self.now_ms)

    def flexibility(self, job: int) -> ClassFlexibility:
        """Return the flexibility of a job's class."""
        return self._engine.jobs[job].flexible

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        return self._engine.jobs[job].priority

    def deadline_ms(self, job: int) -> int:
        """Return the deadline of a job by its class [ms].

        The deadline is a date, or the submission time plus the estimate and slack.
        """
        state = self._engine.jobs[job]
        flexible = state.flexible
        if flexible.deadline_ms is not None:
            return flexible.deadline_ms
        if flexible.slack is None:
            return sys.maxsize
        return int(state.submit_ms + (1 + flexible.slack) * state.estimate_ms)

    def speed(self, job: int, level: int, n_nodes: int | None = None) -> float:
        """Return the rate of a job's work at a cap level and on a number of nodes.

        The rate is relative to an uncapped run on the requested nodes.
        """
        return self._engine.rate(self._engine.jobs[job], level, n_nodes)

    def power_w(self, job: int, level: int = 0) -> float:
        """Return the power of a job at a cap level, on its nodes [W]."""
        return self._engine.power_w(self._engine.jobs[job], level)

    def wake_at(self, time_ms: int) -> None:
        """Request another decision at a time after the present [ms]."""
        self._engine.wake_at(time_ms, self)


class Controller(Protocol):
    """Protocol of a controller that acts on all pools before their policies.

    A controller decides once at each time with an event. If its attribute ``holds`` is
    false, all jobs may start and `may_start` is not called. If it has a method
    ``settled(view)``, that method is called after all decisions at a time, and again
    after the actions that it returned.
    """

    def decide(self, view: FacilityView) -> Sequence[tuple[str, Action]]:
        """Return the actions to take, in order, each with the name of its pool."""
        ...

    def may_start(self, view: FacilityView, pool: str, job: int) -> bool:
        """Return True if a waiting job may start now.

        A pool's policy does not see jobs that may not start.
        """
        ...

    def settled(self, view: FacilityView) -> Sequence[tuple[str, Action]]:
        """Return further actions at a time, after all decisions.

        The result is empty in most cases.
        """
        ...


RUN_TIME = WallClock(datetime(1970, 1, 1, tzinfo=UTC))
"""Clock of a schedule without a site, in UTC."""


@dataclass(frozen=True)
class Context:
    """Facility data for preemptive policies and a controller."""

    # Power of jobs; None counts as 0 W, as in tests of a schedule alone
    power: JobPower | None = None
    # Flexibility by `class_id`; further classes have the defaults
    flexibility: Sequence[ClassFlexibility] = ()
    levels: CapLevels = field(default_factory=CapLevels)  # levels of the power cap
    idle_power_w: Sequence[float] = ()  # idle power of a node of each pool [W]
    # Planned power of all services at a time [ms], above their nodes' idle power [W]
    service_power_w: Callable[[int], float] = lambda _: 0.0
    # External signals by name
    signals: Mapping[str, Signal] = field(default_factory=dict)
    # All events of the run; a policy sees those that were issued
    events: Sequence[RunEvent] = ()
    # Times of further decisions of all [ms], such as changes of signals
    wakes_ms: Sequence[int] = ()
    controller: Controller | None = None  # acts before the policies of the pools
    clock: WallClock = RUN_TIME  # local time of the site

    def flexibility_of(self, class_id: int) -> ClassFlexibility:
        """Return the flexibility of a job class, by its index."""
        if class_id < len(self.flexibility):
            return self.flexibility[class_id]
        return BY_DEFAULT
