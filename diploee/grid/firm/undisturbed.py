"""Simulation of a site without calls: power, flexible jobs and flexible services."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.errors import InputError
from diploee.base.progress import Update
from diploee.base.tables import Float64Array, Int64Array, concat
from diploee.base.units import MS_PER_S
from diploee.facility.base import POWER
from diploee.grid.firm.dispatch import NEVER_MS, DispatchedJobs, JobKinds, undisturbed_w
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
from diploee.scenario.models import Facility, Scenario
from diploee.schedule.execution_intervals import PreemptiveSchedule
from diploee.schedule.job_table import ClassFlexibility, JobTable
from diploee.schedule.started import Schedule
from diploee.simulation.cost_forecast import forecast_run
from diploee.simulation.pipeline import Pipeline, power_model
from diploee.simulation.prepared import PreparedSite

REQUESTS = ("incoming_rps", "unserved_rps")


@dataclass(frozen=True, eq=False)
class ServiceCaps:
    """Effect of capping all flexible services, in each step, shape (K,)."""

    relief_w: Float64Array  # at the meter
    requests: Float64Array  # that arrive at capped services in a step
    rejected: Float64Array  # rejected in a step beyond those without caps


@dataclass(frozen=True, eq=False)
class UndisturbedYear:
    """Simulated steps of a site without calls."""

    wall: WallClock
    step_ms: int
    power_w: Float64Array  # mean power at the meter, shape (K,)
    gain: Float64Array  # power of devices over power at the meter, shape (K,)
    jobs: DispatchedJobs
    kinds: JobKinds
    slack_ms: Float64Array  # by which each job may end later, shape (n,)
    capacity: Int64Array  # nodes, shape (P, K)
    jobs_w: Float64Array  # mean power of `jobs` above idle, shape (K,)
    services: ServiceCaps | None = None


def simulate_year(
    site: PreparedSite,
    update: Update = lambda *_: None,
    forecast: Callable[[float, int], None] | None = None,
) -> UndisturbedYear:
    """Simulate a site without calls, in steps of its resolution.

    `forecast` is called with the forecast computing time [s], and the number of nodes
    in pools that have tolerant jobs.

    Raises
    ------
    InputError
        If a policy acts on running jobs, or the effect of capped services can't be
        separated.
    """
    scenario, step_ms = site.scenario, site.scenario.resolution_ms
    pipeline = Pipeline.open(site.with_fresh_state())
    capped = _with_capped_services(site)
    tolerant = _pools_with_tolerance(pipeline.jobs, scenario)
    pools = [list(scenario.facility.pools)[p] for p in tolerant]
    n_runs = 1 if capped is None else 2
    if forecast is not None:
        per_day = pipeline.jobs.streams.jobs_per_day
        forecast(
            n_runs * forecast_run(site, per_day, pipeline.plans).time_s,
            sum(scenario.facility.pools[name].n_nodes for name in pools),
        )
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
    names = _arrival_and_rejection_columns(pipeline)
    power_w, devices_w, *requests = _mean_series(
        pipeline, site, names, lambda x, text: update(x / n_runs, text)
    )
    jobs, kinds, slack_ms = _dispatched_jobs(
        pipeline.jobs, parts, tolerant, scenario.facility, step_ms
    )
    starts_ms = np.arange(power_w.size, dtype=np.int64) * step_ms
    capacity = [
        scenario.facility.pools[name].installed(scenario.clock).at(starts_ms)
        * scenario.facility.slots_per_node(name)
        for name in pools
    ]
    services = None
    if capped is not None:
        capped_w, _, *served = _mean_series(
            capped, site, names, lambda x, text: update((1 + x) / 2, text)
        )
        n, step_s = len(names) // 2, step_ms / MS_PER_S
        services = ServiceCaps(
            power_w - capped_w,
            np.sum(served[:n], axis=0) * step_s,
            (np.sum(served[n:], axis=0) - np.sum(requests[n:], axis=0)) * step_s,
        )
    return UndisturbedYear(
        scenario.written_clock.wall,
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


def _mean_series(
    pipeline: Pipeline, site: PreparedSite, names: Sequence[str], update: Update
) -> Float64Array:
    """Return mean power at the meter, of devices, and N named columns, (2 + N, K)."""
    windows = pipeline.windows(site.options.window_days, update)
    blocks = pipeline.blocks(windows, site.options.n_threads)
    parts = [
        np.stack([block.columns[name] for name in (POWER, "it_power_w", *names)])
        for block in pipeline.averaged_blocks(blocks)
    ]
    return np.concatenate(parts, axis=1).astype(np.float64)


def _arrival_and_rejection_columns(pipeline: Pipeline) -> list[str]:
    """Return the request columns of flexible services: arrivals, then rejections."""
    labels = [
        label
        for plan, plan_labels in zip(
            pipeline.plans, service_labels(pipeline.plans), strict=True
        )
        for service, label in zip(plan.services, plan_labels, strict=True)
        if service.cap is not None
    ]
    return [f"{name}.{label}" for name in REQUESTS for label in labels]


def _with_capped_services(site: PreparedSite) -> Pipeline | None:
    """Return a pipeline with flexible services always capped; None without any."""
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
        start=clock.wall.at(clock.begin_ms).replace(tzinfo=None),
        end=clock.wall.at(clock.horizon_ms).replace(tzinfo=None),
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


def _pools_with_tolerance(jobs: JobsLoad, scenario: Scenario) -> list[int]:
    """Return the indices of the pools that have tolerant jobs (tier above 0)."""
    pools, context = list(scenario.facility.pools), jobs.context
    return sorted(
        {
            pools.index(scenario.streams[job_class.stream].pool)
            for k, job_class in enumerate(jobs.streams.classes)
            if context.flexibility_of(k).tier
        }
    )


def _dispatched_jobs(
    load: JobsLoad,
    parts: Sequence[Schedule],
    pools: Sequence[int],
    facility: Facility,
    step_ms: int,
) -> tuple[DispatchedJobs, JobKinds, Float64Array]:
    """Return jobs by start, kinds by job class, and slack of each job [ms]."""
    power, context = load.context.power, load.context
    assert power is not None
    table = concat([part.jobs for part in parts] or [JobTable.empty()])
    empty = [np.empty(0, dtype=np.int64)]
    start_ms = np.concatenate([part.start_ms for part in parts] or empty)
    end_ms = np.concatenate([part.end_ms for part in parts] or empty)
    order = np.lexsort((table.submit_ms, start_ms))
    table, start_ms, end_ms = table.take(order), start_ms[order], end_ms[order]
    flexibilities = [
        context.flexibility_of(k) for k in range(len(load.streams.classes))
    ]
    levels = [_tolerated_levels(flexible) for flexible in flexibilities]
    # Power of a node of each class and profile, without a cap and at the lowest
    pairs, row = np.unique(
        np.stack([table.class_id, table.profile_id]), axis=1, return_inverse=True
    )
    caps = [CAPS.power(f.kind, n) for f, n in zip(flexibilities, levels, strict=True)]
    node_w = np.array(
        [
            (
                power.job_power_w(k, profile, 1, 1.0, 1.0),
                power.job_power_w(k, profile, 1, 1.0, caps[k]),
            )
            for k, profile in pairs.T.tolist()
        ]
    ).reshape(-1, 2)
    n_nodes = table.n_nodes / np.array(list(facility.slots.values()))[table.pool_id]
    idle_w = np.array([node.idle_power_w for node in load.streams.nodes])
    n_gpus = np.array([node.n_gpus for node in load.streams.nodes])
    full_w, least_w = node_w[row.ravel()].T * (n_nodes * table.power_factor)
    job_idle_w = idle_w[table.class_id] * n_nodes
    slack_ms, deadline_ms = _slack_and_deadline(
        flexibilities, table, start_ms, end_ms, step_ms
    )
    jobs = DispatchedJobs(
        start_ms,
        end_ms,
        table.n_nodes.astype(np.int64),
        np.searchsorted(pools, table.pool_id).astype(np.int64),
        table.class_id.astype(np.int64),
        n_gpus[table.class_id] * n_nodes,
        full_w - job_idle_w,
        np.minimum(least_w, full_w) - job_idle_w,
        deadline_ms,
    )
    return jobs, _job_kinds(flexibilities, levels), slack_ms


CAPS = CapLevels()


def _tolerated_levels(flexible: ClassFlexibility) -> int:
    """Return the index of the lowest cap level that a class tolerates."""
    least = 1 - TOLERATED_LOSS[flexible.tier]
    return max(k for k in range(len(CAPS)) if CAPS.speed(flexible.kind, k) >= least)


def _job_kinds(
    flexibilities: Sequence[ClassFlexibility], levels: Sequence[int]
) -> JobKinds:
    saved_fraction, speed = np.ones((2, len(flexibilities), len(CAPS)))
    for k, (flexible, lowest) in enumerate(zip(flexibilities, levels, strict=True)):
        steps = [min(n, lowest) for n in range(len(CAPS))]
        speed[k] = [CAPS.speed(flexible.kind, n) for n in steps]
        saved = 1 - np.array([CAPS.power(flexible.kind, n) for n in steps])
        saved_fraction[k] = (
            saved / saved[-1] if saved[-1] else np.linspace(0, 1, saved.size)
        )
    columns = [
        (f.tier, f.pausable, f.checkpoint_every_ms, f.stop_ms, f.restart_ms)
        for f in flexibilities
    ]
    facts: Int64Array = np.array(columns, dtype=np.int64).reshape(-1, 5).T
    tier, pausable, checkpoint_ms, stop_ms, restart_ms = facts
    return JobKinds(
        tier, pausable > 0, checkpoint_ms, stop_ms, restart_ms, saved_fraction, speed
    )


def _slack_and_deadline(
    flexibilities: Sequence[ClassFlexibility],
    table: JobTable,
    start_ms: Int64Array,
    end_ms: Int64Array,
    step_ms: int,
) -> tuple[Float64Array, Int64Array]:
    """Return the delay that each job tolerates, and its deadline [ms].

    A delay of one step, the resolution of the dispatch, is always tolerated.
    ASSUMPTION: a class without `slack` and `deadline` tolerates the delay that its
    tier's loss of throughput would cause over the whole job.
    """
    slack = np.array([np.nan if f.slack is None else f.slack for f in flexibilities])
    dates = [
        NEVER_MS if f.deadline_ms is None else f.deadline_ms for f in flexibilities
    ]
    lost = np.array([TOLERATED_LOSS[f.tier] for f in flexibilities])[table.class_id]
    times = 1 + slack[table.class_id]
    due_ms = table.submit_ms + np.nan_to_num(times * table.duration_ms)
    deadline_ms = np.array(dates, dtype=np.int64)[table.class_id]
    is_dated = deadline_ms < NEVER_MS
    deadline_ms = np.where(is_dated | np.isnan(times), deadline_ms, np.rint(due_ms))
    # A job that misses its deadline even without calls tolerates any delay
    spare_ms = np.where(end_ms <= deadline_ms, deadline_ms - end_ms, np.inf)
    is_due = deadline_ms < NEVER_MS
    spare_ms = np.where(is_due, spare_ms, lost / (1 - lost) * (end_ms - start_ms))
    return np.maximum(spare_ms, step_ms), deadline_ms.astype(np.int64)
