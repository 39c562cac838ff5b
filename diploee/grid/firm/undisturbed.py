"""The undisturbed year of a site: power, and the jobs and services that can wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.errors import InputError
from diploee.base.progress import Update
from diploee.base.tables import Float64Array, Int64Array, concat
from diploee.base.units import MS_PER_S
from diploee.facility.base import POWER, Block
from diploee.grid.firm.dispatch import NEVER_MS, Jobs, Kinds, undisturbed_w
from diploee.loads.jobs.load import JobsLoad, JobWindow
from diploee.loads.services.load import ServicesLoad
from diploee.loads.services.service_plan import service_labels
from diploee.profiles.derived import CapLevels
from diploee.scenario.flexibility import (
    TOLERATED_LOSS,
    DemandResponseEvent,
    EventTarget,
    Flexibility,
)
from diploee.scenario.models import Scenario
from diploee.schedule.execution_intervals import PreemptiveSchedule
from diploee.schedule.job_table import ClassFlexibility, JobTable
from diploee.schedule.started import Schedule
from diploee.simulation.cost_forecast import forecast_run
from diploee.simulation.pipeline import Pipeline, power_model
from diploee.simulation.prepared import PreparedSite

REQUESTS = ("incoming_rps", "unserved_rps")


@dataclass(frozen=True, eq=False)
class ServiceCaps:
    """What the caps of flexible services change, where they hold, shape (K,)."""

    relief_w: Float64Array  # at the meter
    requests: Float64Array  # that arrive at capped services in a step
    rejected: Float64Array  # rejected in a step beyond those without caps


@dataclass(frozen=True, eq=False)
class UndisturbedYear:
    """A site's simulated time without calls, in steps."""

    wall: WallClock
    step_ms: int
    power_w: Float64Array  # mean power at the meter, shape (K,)
    gain: Float64Array  # devices' power over that at the meter, shape (K,)
    jobs: Jobs
    kinds: Kinds
    slack_ms: Float64Array  # by which each job may end later, shape (n,)
    capacity: Int64Array  # nodes, shape (P, K)
    jobs_w: Float64Array  # mean power of `jobs` above idle, shape (K,)
    services: ServiceCaps | None = None

    @property
    def starts_ms(self) -> Int64Array:
        """Start of each step [ms]."""
        return np.arange(self.power_w.size, dtype=np.int64) * self.step_ms


def simulate_year(
    site: PreparedSite,
    step_ms: int,
    update: Update = lambda *_: None,
    forecast: Callable[[float, int], None] = lambda *_: None,
) -> UndisturbedYear:
    """Simulate a site without events, and keep what calls could change.

    `forecast` is called with the time that this takes [s] and the number of steps.

    Raises
    ------
    InputError
        If the step is no multiple of the site's, or a policy acts on running jobs.
    """
    if step_ms % site.scenario.step_ms or site.scenario.horizon_ms % step_ms:
        raise InputError(
            f"step: must divide the run and be a multiple of its "
            f"{site.scenario.step_ms / MS_PER_S:g} s, found {step_ms / MS_PER_S:g} s"
        )
    pipeline = Pipeline.open(site.with_fresh_state())
    capped = _with_capped_services(site)
    per_day = pipeline.jobs.streams.jobs_per_day
    n_runs = 1 if capped is None else 2
    forecast(
        n_runs * forecast_run(site, per_day, pipeline.plans).time_s,
        site.scenario.horizon_ms // step_ms,
    )
    tolerant = _pools_that_wait(pipeline.jobs, site.scenario)
    parts = list[Schedule]()

    def take(window: JobWindow) -> None:
        if isinstance(window.started, PreemptiveSchedule):
            raise InputError(
                "facility.pools: a policy acts on running jobs; a firm level needs "
                "policies that only start them"
            )
        ran = window.started.started & (window.started.end_ms > 0)
        ran &= np.isin(window.started.jobs.pool_id, tolerant)
        parts.append(window.started.take(ran))

    pipeline.jobs.sinks.append(take)
    names = _request_columns(pipeline)
    power_w, devices_w, *requests = _series(
        pipeline, site, step_ms, names, lambda x, text: update(x / n_runs, text)
    )
    jobs, kinds, slack_ms = _jobs_of(
        pipeline.jobs, parts, tolerant, site.scenario, step_ms
    )
    starts_ms = np.arange(power_w.size, dtype=np.int64) * step_ms
    pools = list(site.scenario.facility.pools.items())
    capacity = [
        pools[p][1].standing(site.scenario.clock).at(starts_ms)
        * site.scenario.facility.slots_per_node(pools[p][0])
        for p in tolerant
    ]
    services = None
    if capped is not None:
        others = _series(
            capped, site, step_ms, names, lambda x, text: update((1 + x) / 2, text)
        )
        n = len(names) // 2
        step_s = step_ms / MS_PER_S
        services = ServiceCaps(
            power_w - others[0],
            sum(others[2 : 2 + n], np.zeros(power_w.size)) * step_s,
            (sum(others[2 + n :]) - sum(requests[n:])) * step_s,
        )
    return UndisturbedYear(
        site.scenario.written_clock.wall,
        step_ms,
        power_w,
        devices_w / np.where(power_w > 0, power_w, np.inf),
        jobs,
        kinds,
        slack_ms,
        np.array(capacity, dtype=np.int64).reshape(len(tolerant), power_w.size),
        undisturbed_w(jobs, step_ms, power_w.size),
        services,
    )


def _series(
    pipeline: Pipeline,
    site: PreparedSite,
    step_ms: int,
    names: Sequence[str],
    update: Update,
) -> list[Float64Array]:
    """Return means over steps of power at the meter, of devices, and of columns."""
    columns = POWER, "it_power_w", *names
    parts: list[list[Float64Array]] = [[] for _ in columns]
    held: Block | None = None
    windows = pipeline.windows(site.options.window_days, update)
    n = step_ms // site.scenario.step_ms
    kept: Mapping[str, Float64Array] = dict.fromkeys(columns, np.empty(0))
    for held in pipeline.blocks(windows, site.options.n_threads):
        whole = {
            name: np.append(kept[name], held.columns[name].astype(np.float64))
            for name in columns
        }
        end = whole[POWER].size // n * n
        for name, values in zip(columns, parts, strict=True):
            values.append(whole[name][:end].reshape(-1, n).mean(axis=1))
        kept = {name: values[end:] for name, values in whole.items()}
    return [np.concatenate(values) for values in parts]


def _request_columns(pipeline: Pipeline) -> list[str]:
    """Return the columns of requests of flexible services, arrivals before rejects."""
    labels = [
        label
        for plan, of_plan in zip(
            pipeline.plans, service_labels(pipeline.plans), strict=True
        )
        for service, label in zip(plan.services, of_plan, strict=True)
        if service.cap is not None
    ]
    return [f"{name}.{label}" for name in REQUESTS for label in labels]


def _with_capped_services(site: PreparedSite) -> Pipeline | None:
    """Return the site with its flexible services capped throughout, if it has any."""
    scenario = site.scenario
    specs = scenario.request_streams.values()
    if not any(s.flexibility for spec in specs for s in spec.services.values()):
        return None
    if scenario.replica_streams or site.options.loads:
        raise InputError(
            "request_streams: caps of services can't be counted next to "
            "replica_streams or own loads"
        )
    clock = scenario.clock
    event = DemandResponseEvent(
        id="call",
        start=clock.wall.at(clock.begin_ms),
        end=clock.wall.at(clock.horizon_ms),
        target=EventTarget(mw=0.0),
        ramp_down="0 s",
        ramp_up="0 s",
    )
    called = scenario.model_copy(update={"flexibility": Flexibility(events=(event,))})
    pipeline = Pipeline.open(site.with_fresh_state())
    library = pipeline.jobs.library
    services = ServicesLoad(called, site.inputs, library, answering=True)
    used = pipeline.jobs.profile_ids | set(services.profile_ids)
    model = power_model(
        scenario, services.library, used, ac_profiles=services.ac_profiles
    )
    return replace(pipeline, services=services, model=model)


def _pools_that_wait(jobs: JobsLoad, scenario: Scenario) -> list[int]:
    """Return the rows of the pools with jobs that tolerate something."""
    pools, context = list(scenario.facility.pools), jobs.context
    of_class = enumerate(jobs.streams.classes)
    return sorted(
        {
            pools.index(scenario.streams[of.stream].pool)
            for k, of in of_class
            if context.flexibility_of(k).tier
        }
    )


def _jobs_of(
    load: JobsLoad,
    parts: Sequence[Schedule],
    pools: Sequence[int],
    scenario: Scenario,
    step_ms: int,
) -> tuple[Jobs, Kinds, Float64Array]:
    """Return the jobs in the order of their starts, their kinds, and slack [ms]."""
    power, context = load.context.power, load.context
    assert power is not None
    table = concat([part.jobs for part in parts] or [JobTable.empty()])
    empty = [np.empty(0, dtype=np.int64)]
    start_ms = np.concatenate([part.start_ms for part in parts] or empty)
    end_ms = np.concatenate([part.end_ms for part in parts] or empty)
    order = np.lexsort((table.submit_ms, start_ms))
    table, start_ms, end_ms = table.take(order), start_ms[order], end_ms[order]
    of_class = [context.flexibility_of(k) for k in range(len(load.streams.classes))]
    levels = [_tolerated_levels(flexible) for flexible in of_class]
    # Power of a node, without a cap, at the lowest, and idle, of each class and profile
    pairs, row = np.unique(
        np.stack([table.class_id, table.profile_id]), axis=1, return_inverse=True
    )
    node_w = np.array(
        [
            [
                power.of(k, profile, 1, 1.0, cap)
                for cap in (1.0, CAPS.power(of_class[k].kind, levels[k]))
            ]
            for k, profile in pairs.T.tolist()
        ]
    ).reshape(-1, 2)
    scale = table.n_nodes * table.power_factor
    slots = np.array(list(scenario.facility.slots.values()))[table.pool_id]
    idle = np.array([power.idle_w(k) for k in range(len(of_class))])
    idle_w = idle[table.class_id] * table.n_nodes / slots
    n_gpus = np.array([node.n_gpus for node in load.streams.nodes])
    full_w, least_w = node_w[row.ravel()].T * scale / slots - idle_w
    length_ms = end_ms - start_ms
    slack_ms, deadline_ms = _slack(of_class, table, length_ms, end_ms, step_ms)
    jobs = Jobs(
        start_ms,
        end_ms,
        table.n_nodes.astype(np.int64),
        np.searchsorted(pools, table.pool_id).astype(np.int64),
        table.class_id.astype(np.int64),
        n_gpus[table.class_id] * table.n_nodes / slots,
        full_w,
        np.minimum(least_w, full_w),
        deadline_ms,
    )
    return jobs, _kinds(of_class, levels), slack_ms


CAPS = CapLevels()


def _tolerated_levels(flexible: ClassFlexibility) -> int:
    """Return the lowest cap level that a class tolerates."""
    least = 1 - TOLERATED_LOSS[flexible.tier]
    return max(k for k in range(len(CAPS)) if CAPS.speed(flexible.kind, k) >= least)


def _kinds(of_class: Sequence[ClassFlexibility], levels: Sequence[int]) -> Kinds:
    given, speed = np.ones((2, len(of_class), len(CAPS)))
    for k, (flexible, lowest) in enumerate(zip(of_class, levels, strict=True)):
        steps = np.minimum(np.arange(len(CAPS)), lowest)
        powers = np.array([CAPS.power(flexible.kind, int(n)) for n in steps])
        depth = 1 - powers[-1]
        given[k] = (1 - powers) / depth if depth else np.linspace(0, 1, len(CAPS))
        speed[k] = [CAPS.speed(flexible.kind, int(n)) for n in steps]
    return Kinds(
        np.array([f.tier for f in of_class], dtype=np.int64),
        np.array([f.pausable for f in of_class], dtype=np.bool_),
        np.array([f.checkpoint_every_ms for f in of_class], dtype=np.int64),
        np.array([f.stop_ms for f in of_class], dtype=np.int64),
        np.array([f.restart_ms for f in of_class], dtype=np.int64),
        given,
        speed,
    )


def _slack(
    of_class: Sequence[ClassFlexibility],
    table: JobTable,
    length_ms: Int64Array,
    end_ms: Int64Array,
    step_ms: int,
) -> tuple[Float64Array, Int64Array]:
    """Return by how much each job may end later [ms], and its deadline [ms].

    A step at least, which is what a dispatch resolves. ASSUMPTION: a class without
    `slack` and `deadline` tolerates the time that its tier's loss of throughput adds
    to a job.
    """
    by_slack = np.array([np.nan if f.slack is None else f.slack for f in of_class])
    dates = [NEVER_MS if f.deadline_ms is None else f.deadline_ms for f in of_class]
    lost = np.array([TOLERATED_LOSS[f.tier] for f in of_class])
    k = table.class_id
    has_slack = ~np.isnan(by_slack[k])
    due_ms = table.submit_ms + np.rint(
        (1 + np.nan_to_num(by_slack[k])) * table.duration_ms
    ).astype(np.int64)
    dates_ms = np.array(dates, dtype=np.int64)[k]
    deadline_ms = np.where(dates_ms < NEVER_MS, dates_ms, NEVER_MS)
    deadline_ms = np.where((dates_ms == NEVER_MS) & has_slack, due_ms, deadline_ms)
    by_tier_ms = np.maximum(lost[k] / (1 - lost[k]) * length_ms, step_ms)
    # One that is late without calls is not made late by them
    spare_ms = np.maximum(deadline_ms - end_ms, step_ms)
    spare_ms = np.where(end_ms <= deadline_ms, spare_ms, np.inf)
    return np.where(deadline_ms < NEVER_MS, spare_ms, by_tier_ms), deadline_ms
