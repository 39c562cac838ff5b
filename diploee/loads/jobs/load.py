"""`JobsLoad`: the job streams of a site, scheduled and lowered to segments."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, tee
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.column_specs import Columns
from diploee.base.progress import Progress, Stopwatch
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_WEEK
from diploee.facility.base import Block, Values
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.lowering import JobLoad, lower_jobs
from diploee.loads.jobs.preempted_lowering import lower_preempted_jobs, with_levels
from diploee.loads.jobs.queue import QueueLength, QueueMetrics
from diploee.loads.jobs.rates import HourlyRates, hourly_rates
from diploee.loads.jobs.source import Utilization
from diploee.loads.jobs.synchronous_metrics import SynchronousMetrics
from diploee.loads.services.instance_groups import InstanceGroup
from diploee.power.segments import Segments
from diploee.profiles.derived import CapLevels
from diploee.profiles.profile import PowerProfile
from diploee.scenario.flexibility import JobFlexibilitySpec
from diploee.scenario.models import Scenario
from diploee.scenario.times import span_ms
from diploee.schedule.context import Context, Controller
from diploee.schedule.execution_intervals import PreemptiveSchedule
from diploee.schedule.job_table import DRAW_MS, ClassFlexibility, JobPower, JobTable
from diploee.schedule.policy import Policy
from diploee.schedule.schedule import (
    QUEUE_COLUMNS,
    Cluster,
    Engine,
    Transient,
    cap_levels_for,
    chosen_policies,
    simulated_utilization,
)
from diploee.schedule.signals import Signal
from diploee.schedule.started import Schedule

if TYPE_CHECKING:
    from diploee.loads.inputs import Inputs

JOBS_PER_WINDOW = 200_000
"""Number of jobs that a window should have; its length is between one draw span and
four weeks."""

JOBS_PER_FINE_WINDOW = 25_000
"""Number of jobs that a window should have in runs with steps below a minute, without
preemptive policies."""

# Maximum number of draw spans in a window
MAX_DRAWS = 4 * MS_PER_WEEK // DRAW_MS

_Submitted = tuple[JobTable, int]
"""Jobs submitted in a window, and the window's end [ms]."""


@dataclass(frozen=True, eq=False)
class JobWindow:
    """Jobs and segments of one window."""

    submitted: JobTable  # jobs submitted in the window
    started: Schedule  # jobs that started or ran in the window
    segments: Segments  # power segments of these jobs
    # Energy of each job, or of each execution interval of a `PreemptiveSchedule` [J]
    energy_j: Float64Array
    end_ms: int  # end of the window [ms]


class JobsLoad:
    """Load of all job streams of a site, with their job counts determined."""

    def __init__(
        self,
        scenario: Scenario,
        inputs: Inputs,
        engine: Engine = "simpy",
        policies: Mapping[str, Policy] | None = None,
        controller: Controller | None = None,
    ) -> None:
        self._scenario, self._engine = scenario, engine
        self.sinks: list[Callable[[JobWindow], None]] = []
        """Functions that receive each window, such as that of a file or a metric."""
        self.watch = Stopwatch(Progress())
        self.other_loads_w: Callable[[int], float] = lambda _: 0.0
        """Function that returns the power of other loads at a time [ms], above their
        nodes' idle power [W]."""
        # A weak reference, so that the load's memory is freed at once
        weak_self = weakref.proxy(self)
        self.n_drawn = 0
        self._submitted = JobTable.empty()
        self._windows: Iterator[_Submitted] | None = None
        self.streams = JobStreams(scenario, inputs)
        chosen = chosen_policies(scenario.facility.pools, policies)
        levels = cap_levels_for(chosen.values(), controller)
        self._context = replace(
            _policy_context(scenario, self.streams, levels, inputs.signals),
            service_power_w=lambda time_ms: weak_self.other_loads_w(time_ms),
        )
        self.streams.set_job_counts(simulations(scenario, policies, self._context))
        context = replace(self._context, controller=controller)
        self.cluster = Cluster.from_scenario(scenario, engine, chosen, context)
        self.columns: Columns = QUEUE_COLUMNS
        self.groups: Sequence[InstanceGroup] = ()
        self.ac_profiles: Mapping[int, PowerProfile] = {}
        self._set_library()
        self.profile_ids = self.profiles_of(range(len(self.streams.classes)))
        self._reset_counts()

    def _set_library(self) -> None:
        """Set the profile library, with capped profiles if jobs can be capped."""
        self.library, classes = self.streams.library, self.streams.classes
        if self.cluster.is_preemptive:
            kinds = [self._context.flexibility_of(k).kind for k in range(len(classes))]
            self.library, self._levels = with_levels(
                self.library, classes, self.streams.nodes, kinds, self._context.levels
            )

    def profiles_of(self, class_ids: Iterable[int]) -> set[int]:
        """Return the profiles that jobs of the given classes may replay."""
        classes = self.streams.classes
        profile_ids = {i for k in class_ids for i in classes[k].profile_ids}
        if self.cluster.is_preemptive:
            profile_ids |= set(
                self._levels.variant[..., list(profile_ids)].ravel().tolist()
            )
        return profile_ids

    def at_end(self, scenario: Scenario, inputs: Inputs) -> JobsLoad:
        """Return the same jobs, with the synchronous jobs of another scenario.

        The result can only convert schedules to segments.
        """
        other = copy(self)
        other.sinks, other._scenario = [], scenario
        other.streams = JobStreams(scenario, inputs)
        other._set_library()
        return other

    def _reset_counts(self) -> None:
        """Reset the queue metrics and counters."""
        scenario, streams = self._scenario, self._scenario.streams
        self.queue = QueueMetrics(scenario.horizon_ms, bool(streams))
        with_jobs = {spec.pool for spec in streams.values()}
        self.queues = {
            pool: QueueMetrics(scenario.horizon_ms, pool in with_jobs)
            for pool in scenario.facility.pools
        }
        names = [name for name, spec in streams.items() if spec.synchronous is not None]
        self._synchronous = SynchronousMetrics(self.streams, names) if names else None
        self._queue_length = QueueLength()
        requested = {
            p: self.streams.asked_nodes(n)
            for p, n in enumerate(scenario.facility.pools)
        }
        self.transient = Transient(
            scenario.written_clock, {p: n for p, n in requested.items() if n > 0}
        )

    @property
    def context(self) -> Context:
        """Facts of the jobs before they run: their power, and what they tolerate."""
        return self._context

    @property
    def calendars(self) -> dict[str, HourlyRates]:
        """Mean submission rate of each random stream, used to explain events."""
        clock, seed = self._scenario.clock, self._scenario.seed
        return {
            name: hourly_rates(spec.calendar, clock, seed, "workload", name)
            for name, spec in self._scenario.streams.items()
            if spec.replay is None
            and spec.synchronous is None
            and (spec.zeus is None or spec.zeus.groups is None)
        }

    def undisturbed(self, policies: Mapping[str, Policy] | None) -> JobsLoad:
        """Return the same jobs without a load controller, as a baseline."""
        other = copy(self)
        self._windows, other._windows = tee(self._submitted_windows(None))
        other.sinks = []
        other.watch = Stopwatch(Progress())
        other.cluster = Cluster.from_scenario(
            self._scenario, self._engine, policies, self._context
        )
        other._reset_counts()
        return other

    # Windows

    def window_ms(self, window_days: float | None = None) -> int:
        """Return the window length [ms], a multiple of the draw span."""
        if window_days is not None:
            return max(1, round(window_days * MS_PER_DAY / DRAW_MS)) * DRAW_MS
        per_draw = max(self.streams.jobs_per_day * DRAW_MS / MS_PER_DAY, 1.0)
        return max(1, min(MAX_DRAWS, int(JOBS_PER_WINDOW / per_draw))) * DRAW_MS

    def edges(self, window_days: float | None = None) -> Iterator[int]:
        """Yield the end of each window [ms], in the order that `between` needs."""
        windows = self._windows or self._submitted_windows(window_days)
        for self._submitted, end_ms in windows:
            yield end_ms

    def _submitted_windows(self, window_days: float | None) -> Iterator[_Submitted]:
        """Yield the submitted jobs by window, and split windows with too many jobs."""
        spans_per_window = self.window_ms(window_days) // DRAW_MS
        from_ms, horizon_ms = self._scenario.clock.begin_ms, self._scenario.horizon_ms
        for jobs in self._timed_windows(self.streams.windows(spans_per_window)):
            until_ms = min(
                (from_ms // DRAW_MS + spans_per_window) * DRAW_MS, horizon_ms
            )
            max_jobs = JOBS_PER_WINDOW
            if (
                self._scenario.step_ms < MS_PER_MIN
            ):  # beside blocks that fill the memory
                max_jobs = JOBS_PER_FINE_WINDOW
            n_parts = (
                1 if self.cluster.is_preemptive else max(1, -(-len(jobs) // max_jobs))
            )
            part_ms = -(-(until_ms - from_ms) // (n_parts * MS_PER_H)) * MS_PER_H
            ends_ms = [*range(from_ms + part_ms, until_ms, part_ms), until_ms]
            bounds = [
                0,
                *np.searchsorted(jobs.submit_ms, ends_ms[:-1]).tolist(),
                len(jobs),
            ]
            for (first, last), end_ms in zip(pairwise(bounds), ends_ms, strict=True):
                yield jobs.take(slice(first, last)), end_ms
            from_ms = until_ms
            del jobs  # frees memory first: those of a gigawatt take some 50 MB

    def _timed_windows(self, windows: Iterator[JobTable]) -> Iterator[JobTable]:
        """Yield windows of jobs, and measure the time to generate them."""
        while True:
            with self.watch.lap("generate jobs"):
                jobs = next(windows, None)
            if jobs is None:
                return
            yield jobs
            del jobs

    def between(self, begin_ms: int, end_ms: int) -> Segments:  # noqa: ARG002
        """Schedule the jobs of a window of `edges`; return their segments."""
        submitted, self._submitted = self._submitted, JobTable.empty()
        self.n_drawn += len(submitted)
        with self.watch.lap("schedule"):
            started = self.cluster.advance(submitted, end_ms)
        with self.watch.lap("segments and jobs"):
            load = self.lower(started)
            energy_j = load.energy_j(self.library)
            window = JobWindow(submitted, started, load.segments, energy_j, end_ms)
            self._count_window(window)
            for sink in self.sinks:
                sink(window)
        return load.segments

    def lower(self, started: Schedule) -> JobLoad:
        """Return the segments of started jobs."""
        facility, sections = self._scenario.facility, self.streams.sections
        if isinstance(started, PreemptiveSchedule):
            return lower_preempted_jobs(
                started, self.library, self._levels, facility, sections
            )
        return lower_jobs(started, self.library, facility, sections)

    # Counters

    def _count_window(self, window: JobWindow) -> None:
        """Add a window to the queue metrics and counters."""
        jobs, started = window.submitted, window.started
        self.transient.update(started, window.end_ms)
        if self._synchronous is not None:
            self._synchronous.add(started)
        submit_ms, start_ms = jobs.submit_ms, started.start_ms[started.first]
        if isinstance(started, PreemptiveSchedule):
            submit_ms = np.concatenate([submit_ms, started.requeued_ms])
            start_ms = np.concatenate([start_ms, started.restarted_ms])
        self._queue_length.add(submit_ms, start_ms)
        if window.end_ms <= 0:  # jobs that started before the run are not stored
            self._queue_length.at(np.array([window.end_ms - 1]))
        in_run = jobs.pool_id[jobs.submit_ms >= 0]
        self.queue.add(in_run.size, started)
        for pool_id, queue in enumerate(self.queues.values()):
            pool_jobs = started
            if len(self.queues) > 1:
                pool_jobs = started.take(started.jobs.pool_id == pool_id)
            queue.add(int(np.count_nonzero(in_run == pool_id)), pool_jobs)

    def values(self, block: Block) -> Values:
        """Return the waiting jobs at the start of each interval of a block."""
        return {"queued_jobs": self._queue_length.at(block.starts_ms)}

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `jobs` and `synchronous` blocks for one pool or for all pools."""
        queue = self.queue if pool is None else self.queues[pool]
        jobs = {"jobs": queue.block()} if queue.has_streams else {}
        if pool is not None or self._synchronous is None:
            return jobs
        return jobs | self._synchronous.block()


def _policy_context(
    scenario: Scenario,
    streams: JobStreams,
    levels: CapLevels,
    signals: Mapping[str, Signal],
) -> Context:
    """Return the facility data for preemptive policies, without services."""
    facility = scenario.facility
    pools = [facility.node_type_of(name) for name in facility.pools]
    context = Context(
        power=JobPower(
            streams.library,
            streams.nodes,
            [
                stream_class.job_class.duration is not None
                or scenario.streams[stream_class.stream].replay is not None
                for stream_class in streams.classes
            ],
        ),
        flexibility=[
            job_flexibility_from_spec(
                stream_class.job_class.flexibility,
                stream_class.job_class.n_nodes,
                scenario,
            )
            for stream_class in streams.classes
        ],
        levels=levels,
        idle_power_w=[node.idle_power_w for node in pools],
    )
    if scenario.flexibility is None:
        return context
    changes = [signal.times_ms for signal in signals.values()]
    begin_ms, horizon_ms = scenario.clock.begin_ms, scenario.horizon_ms
    wakes_ms = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *changes]))
    return replace(
        context,
        signals=signals,
        events=scenario.flexibility.events_in(scenario.clock),
        wakes_ms=wakes_ms[(wakes_ms > begin_ms) & (wakes_ms < horizon_ms)].tolist(),
    )


def job_flexibility_from_spec(
    spec: JobFlexibilitySpec | None, n_nodes: int, scenario: Scenario
) -> ClassFlexibility:
    """Return the flexibility of a class's jobs in the engine's form."""
    if spec is None:
        return ClassFlexibility()
    return ClassFlexibility(
        tier=spec.tier,
        kind=spec.work,
        pausable=spec.pausable,
        least_share=(spec.min_nodes or n_nodes) / n_nodes,
        checkpoint_every_ms=span_ms(spec.checkpoint_interval),
        stop_ms=span_ms(spec.stop),
        restart_ms=span_ms(spec.restart),
        stop_share=spec.restart_power,
        restart_share=spec.restart_power,
        slack=spec.slack,
        deadline_ms=scenario.clock.wall.time_ms(spec.deadline)
        if spec.deadline
        else None,
    )


def simulations(
    scenario: Scenario,
    policies: Mapping[str, Policy] | None = None,
    context: Context | None = None,
) -> dict[str, Utilization]:
    """Return the occupancy simulation of each stream with ``match: simulated``.

    A simulation returns the occupancy of the stream's own pool.
    """
    return {
        name: partial(
            simulated_utilization,
            scenario,
            spec.pool,
            (policies or {}).get(spec.pool),
            context,
        )
        for name, spec in scenario.streams.items()
        if spec.match == "simulated"
    }
