"""Plausibility warnings of a run: valid results that a planner should not rely on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, isclose
from typing import Any

import numpy as np

from diploee.base.clock import RunClock, offsets_ms
from diploee.base.errors import plural
from diploee.base.files.paths import shipped_folder
from diploee.base.metric import format_short
from diploee.base.units import HOURS_PER_DAY, MS_PER_DAY, MS_PER_H, MS_PER_S, W_PER_MW
from diploee.facility.weather import Weather
from diploee.loads.inputs import Inputs
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.queue import QueueMetrics
from diploee.loads.services.curves import Curves
from diploee.loads.services.samples import PROVENANCE
from diploee.loads.services.service_plan import ServicePlan
from diploee.profiles.derived import gpus_text, is_other_hardware, origin_gpus
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.profiles.library import Entry, ProfileLibrary
from diploee.profiles.profile import PLUS_CONSTANT, PowerBoundary
from diploee.scenario.models import Facility, Scenario
from diploee.simulation.pipeline import Pipeline

SHORTFALL = 0.01
"""Relative difference of simulated utilization from its target above which the run
warns."""

UNSTARTED = 0.01
"""Fraction of jobs that never start above which the run warns."""

RATED_OVER = 2.0
"""Ratio of the facility's rated power to its nodes' above which the run warns."""

RATED_NEAR = 0.05
"""Relative difference of a metered site's rated power from its nodes' above which the
run warns."""

ZONE_SHIFT_H = 2.0
"""Offset of the weather's clock from the site's above which the run warns [h], with
allowance for daylight saving."""

CONTRACT_OF_RATED = (0.5, 3.0)
"""Range of plausible ratios of contract power to the rated power at the meter."""

MIN_OVER_IDLE = 0.9
"""Minimum plausible mean power of a node with a job, relative to idle power."""

Pools = Mapping[str, str]
"""Name of the pool of each job stream."""


def run_warnings(
    pipeline: Pipeline, inputs: Inputs, metrics: dict[str, Any]
) -> list[str]:
    """Return the plausibility warnings of a run, one line each."""
    scenario, jobs, plans, curves = (
        pipeline.scenario,
        pipeline.jobs,
        pipeline.plans,
        inputs.curves,
    )
    facility, clock = scenario.facility, scenario.clock
    library, classes = jobs.streams.library, jobs.streams.classes
    pools = {name: spec.pool for name, spec in scenario.streams.items()}
    return [
        *_extrapolations(library, classes),
        *_implausible_profiles(facility, pools, library, classes),
        *_unused_profiles(library, classes),
        *_coarse_profiles(clock.step_ms, library, classes, curves),
        *_sharp_edges(scenario, library, classes),
        *_unknown_boundaries(facility, pools, library, classes, plans, curves),
        *_scaled_hardware(pools, library, classes),
        *_services_of_other_gpus(facility, plans, curves),
        *_rated_beyond_nodes(facility),
        *implausible_contracts(facility, metrics["power"]["rated_mw"] or 0.0),
        *_above_contract(metrics.get("poi") or {}),
        *_never_installed(facility),
        *_built_at_once(facility, clock),
        *_omitted_jobs(jobs.streams.dropped_jobs()),
        *_off_target(facility, clock, jobs.streams, jobs.queues),
        *_overload(metrics),
        *_idle_weather(facility),
        *_weather_of_another_zone(clock, inputs.weather),
        *unanswered_events(scenario, classes),
        *_typical_weather(facility, metrics),
        *_above_ratings(metrics),
        *_outside_cooling_model(metrics),
        *(warning for plan in plans for warning in plan.warnings),
    ]


def _extrapolations(
    library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for job classes whose profiles are scaled to more nodes."""
    classes_by_stream: dict[str, list[StreamClass]] = {}
    for c in classes:
        is_flat = library.entries[c.profile_ids[0]].workload == FLAT_WORKLOAD
        if c.extrapolation_ratio != 1 and not is_flat:
            classes_by_stream.setdefault(c.stream, []).append(c)
    for stream, classes in classes_by_stream.items():
        largest = max(classes, key=lambda c: c.extrapolation_ratio)
        others = (
            f" (and {len(classes) - 1} narrower classes)" if len(classes) > 1 else ""
        )
        yield (
            f"streams.{stream}: class '{largest.job_class.name}'{others} is scaled "
            f"linearly by {largest.extrapolation_ratio:g} from profiles of "
            f"{largest.job_class.profile_n_nodes} nodes: a coherent upper bound of the "
            "swings, not a forecast"
        )


def _implausible_profiles(
    facility: Facility,
    pools: Pools,
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
) -> Iterator[str]:
    """Yield a warning for profiles outside of their nodes' idle to rated power."""
    profile_pools = {
        (index, pools[c.stream]): None for c in classes for index in c.profile_ids
    }
    for index, pool in profile_pools:
        node_type, profile = facility.node_type_of(pool), library[index]
        if profile.workload == FLAT_WORKLOAD:  # scaled to each job's power
            continue
        node_w = profile.mean_power_w / profile.n_nodes
        idle_w, rated_w = node_type.idle_power_w, node_type.rated_power_w
        if profile.provenance.power_boundary == PowerBoundary.NODE_AC:
            if node_type.ac_power is None:  # another warning covers it
                continue
            idle_w, rated_w = (
                node_type.ac_power_w(idle_w),
                node_type.ac_power_w(rated_w),
            )
        if not MIN_OVER_IDLE * idle_w <= node_w <= rated_w:
            yield (
                f"profile '{profile.profile_id}' has a mean of {node_w:,.4g} W per "
                f"node, outside the {idle_w:,.6g} W idle to {rated_w:,.6g} W rated of "
                f"its nodes: is its power in W, and of all its {profile.n_nodes} "
                "nodes?"
            )


def _used_profiles(
    library: ProfileLibrary, classes: Iterable[StreamClass]
) -> list[Entry]:
    """Return the library's profiles that job classes replay."""
    return [
        library.entries[k] for k in sorted({k for c in classes for k in c.profile_ids})
    ]


def _unused_profiles(
    library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for measured profiles that no job class uses."""
    used = {(c.job_class.workload, c.job_class.profile_n_nodes) for c in classes}
    unused = [
        entry.profile_id
        for entry in library.entries
        if (entry.workload, entry.n_nodes) not in used
        and entry.provenance.kind == "measured"
    ]
    if unused and classes:
        yield (
            f"{len(unused)} measured profile(s) of the library belong to no job class "
            "and were not used: "
            f"{', '.join(unused[:5])}{', ...' if len(unused) > 5 else ''}"
        )


def _coarse_profiles(
    step_ms: int,
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
    curves: Curves,
) -> Iterator[str]:
    """Yield a warning for profiles with a step longer than the run's."""
    steps_ms = {
        entry.profile_id: entry.dt_ms for entry in _used_profiles(library, classes)
    }
    for (stream, name), service_curves in curves.items():
        for sample in service_curves.power.samples:
            steps_ms[f"{stream}.{name} at {sample.rate_rps:g} requests/s"] = (
                sample.dt_ms
            )
    coarse = {name: dt_ms for name, dt_ms in steps_ms.items() if dt_ms > step_ms}
    if coarse:
        dt_s = max(coarse.values()) / MS_PER_S
        yield (
            f"resolution {step_ms / MS_PER_S:g} s is finer than the samples of "
            f"{len(coarse)} profile(s), such as '{next(iter(coarse))}' (up to "
            f"{dt_s:g} s): their power is constant within a sample and nothing faster "
            f"is in the result; use {dt_s:g} s or more"
        )


def _sharp_edges(
    scenario: Scenario, library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for synchronous jobs whose power edges are not smoothed."""
    for name, c in {c.stream: c for c in reversed(classes)}.items():
        spec = scenario.streams[name]
        is_sharp = spec.synchronous is not None and spec.power_smoothing is None
        # Measured GPUs of a single node change their power level within 0.02 s.
        if is_sharp and library.entries[c.profile_ids[0]].n_nodes > 1:
            yield (
                f"streams.{name}: all GPUs of a job change level together, within "
                "edge_s, and nothing in the nodes softens it, edges that are sharper "
                "than a real site's: its swings, and ramps of some seconds, are an "
                "upper end, and limits that are not met are checked at the lower one "
                "of lag_s and edge_s too; power_smoothing softens them"
            )


def _unknown_boundaries(
    facility: Facility,
    pools: Pools,
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
    plans: Sequence[ServicePlan],
    curves: Curves,
) -> Iterator[str]:
    """Yield a warning for profiles not known to be of GPUs and CPU packages."""
    names_by_boundary: dict[tuple[str, bool, str], list[str]] = {}
    pool_by_stream = {**pools, **{plan.stream: plan.pool for plan in plans}}
    sources = [
        (c.stream, entry.profile_id, entry.provenance)
        for c in classes
        for entry in _used_profiles(library, [c])
    ] + [
        (
            stream,
            f"{stream}.{name} at {sample.rate_rps:g} requests/s",
            sample.provenance,
        )
        for (stream, name), service_curves in curves.items()
        for sample in service_curves.power.samples
    ]
    for stream, name, provenance in sources:
        if provenance.power_boundary != PowerBoundary.DEVICES:
            node_type = facility.pools[pool_by_stream[stream]].node_type
            has_ac = facility.node_types[node_type].ac_power is not None
            key = provenance.power_boundary, has_ac, node_type
            names_by_boundary.setdefault(key, []).append(name)
    for (boundary, has_ac, node_type), names in names_by_boundary.items():
        profiles_text = f"{len(set(names))} profile(s), such as '{min(names)}',"
        if boundary == PowerBoundary.NODE_AC and has_ac:
            continue  # they pass ac_power as they are
        if boundary == PowerBoundary.NODE_AC:
            yield (
                f"{profiles_text} hold the nodes' AC power and play on nodes "
                f"'{node_type}' without ac_power: busy nodes count supplies and fans, "
                "idle ones and ratings do not; give their ac_power"
            )
        elif has_ac:
            yield (
                f"{profiles_text} have another boundary than device power ({boundary}) "
                f"and pass the ac_power of nodes '{node_type}' as devices do: supplies "
                "and fans that they hold count twice; if it is the nodes' AC power, "
                "import them with --boundary node_ac"
            )
        else:
            is_known_sum = PLUS_CONSTANT in boundary
            remedy = (
                ""
                if is_known_sum
                else "; import them with --boundary or --add-w where known"
            )
            yield (
                f"{profiles_text} have another boundary than device power "
                f"({boundary}): idle nodes and the rated power count GPUs and CPU "
                f"packages{remedy}"
            )


def _scaled_hardware(
    pools: Pools, library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for pools with scaled profiles of other GPUs."""
    for pool in dict.fromkeys(pools.values()):
        used = _used_profiles(library, (c for c in classes if pools[c.stream] == pool))
        factors = [
            e.provenance.power_factor for e in used if e.provenance.power_factor != 1
        ]
        if factors:
            yield (
                f"pool '{pool}': {plural(len(factors), 'profile')} of other GPUs "
                f"scaled by the TDP, power times {min(factors):.4g} to "
                f"{max(factors):.4g}, run times as they are: an estimate"
            )


def _services_of_other_gpus(
    facility: Facility, plans: Sequence[ServicePlan], curves: Curves
) -> Iterator[str]:
    """Yield a warning for services measured on GPUs other than their pool's."""
    pool_by_stream = {plan.stream: plan.pool for plan in plans}
    for (stream, name), service_curves in curves.items():
        node = facility.node_type_of(pool_by_stream[stream])
        origins = [sample.provenance for sample in service_curves.power.samples]
        if any(
            file.path.is_relative_to(shipped_folder("profiles"))
            for file in service_curves.files
        ):
            origins.append(PROVENANCE)
        other = [origin for origin in origins if is_other_hardware(origin, node)]
        if other and node.busy_power_factor == 1:
            yield (
                f"request_streams.{stream}.services.{name}: its curves are of nodes "
                f"with {origin_gpus(other[0])}, pool '{pool_by_stream[stream]}' has "
                f"nodes with {gpus_text(node.n_gpus, node.gpu_tdp_w)}: neither the "
                "power nor the requests of an instance are theirs; give curves of "
                "these nodes"
            )


def _rated_beyond_nodes(facility: Facility) -> Iterator[str]:
    """Yield a warning for a rated power that does not fit the nodes' ratings."""
    nodes_w = sum(map(facility.pool_rated_power_w, facility.pools))
    if (
        facility.rated_power_mw is not None
        and facility.rated_power_w > RATED_OVER * nodes_w > 0
    ):
        yield (
            f"facility.rated_power_mw is {facility.rated_power_mw:g}, "
            f"{facility.rated_power_w / nodes_w:.3g} times what the devices of all "
            f"nodes can draw ({nodes_w / W_PER_MW:.4g} MW): is it in MW?"
        )
        return
    is_metered = bool(facility.stages) or facility.has_ac_power
    if (
        facility.rated_power_mw is not None
        and is_metered
        and not isclose(facility.rated_power_w, nodes_w, rel_tol=RATED_NEAR)
    ):
        yield (
            f"facility.rated_power_mw is {facility.rated_power_mw:g}, the ratings of "
            f"all devices are {nodes_w / W_PER_MW:.4g} MW: it is of the devices, "
            "and on a site with AC power or stages sets the least swing that is "
            "counted alone; the meter is rated by the nodes' ratings, its connection "
            "by contract_mva of point_of_interconnection"
        )


def implausible_contracts(facility: Facility, rated_mw: float) -> Iterator[str]:
    """Yield a warning for contracts far from the rated power at the meter [MW]."""
    min_ratio, max_ratio = CONTRACT_OF_RATED
    for number, stage in enumerate(facility.stages if rated_mw else ()):
        contract = getattr(stage, "contract", None)
        if (
            contract is None
            or min_ratio <= (ratio := contract[0] / rated_mw) <= max_ratio
        ):
            continue
        unit = contract.unit
        prefix, other = (
            ("k", "another") if ratio > max_ratio else ("G", "a part of the")
        )
        yield (
            f"facility.stages.{number}: contract_{unit.lower()}: "
            f"{format_short(contract.amount)} {unit} is {format_short(ratio)} times "
            f"the rated power at the meter, {format_short(rated_mw)} MW: is it in "
            f"{prefix}{unit[1:]}, or of {other} site?"
        )


def _above_contract(poi: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for power above the contract."""
    headroom = poi.get("headroom") or {}
    for unit in ("mw", "mva"):
        if headroom.get("use", 0.0) > 1 and (
            contract := headroom.get(f"contract_{unit}")
        ):
            yield (
                f"poi: the load is above its contract of {format_short(contract)} "
                f"{unit.upper()} in {headroom['over_h']:,.4g} h, up to "
                f"{100 * headroom['use']:,.1f} % of it; it is counted, not clipped"
            )


def _never_installed(facility: Facility) -> Iterator[str]:
    """Yield a warning for nodes of a pool that no build-out phase installs."""
    for name, pool in facility.pools.items():
        if pool.phases and pool.phases[-1].n_nodes < pool.n_nodes:
            yield (
                f"facility.pools.{name}: {pool.n_nodes - pool.phases[-1].n_nodes:,} "
                f"of its {pool.n_nodes:,} nodes never stand, and ratings are of all; "
                f"lower n_nodes to the {pool.phases[-1].n_nodes:,} of the last phase, "
                "or add a phase"
            )


def _built_at_once(facility: Facility, clock: RunClock) -> Iterator[str]:
    """Yield a warning for each time at which nodes are added at once."""
    for name, pool in facility.pools.items():
        for time_ms, n_nodes in pool.installed(clock).added:
            yield (
                f"facility.pools.{name}.phases: {n_nodes:,} nodes start in one "
                f"instant, {clock.wall.at(time_ms):%Y-%m-%d %H:%M}, where a site adds "
                "racks over weeks: ramps, swings and verdicts of that instant are "
                "the model's; give more phases, or run the time between them"
            )


def _omitted_jobs(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a warning with the number of a log's jobs that the run omits.

    Jobs that the import dropped are in the manifest.
    """
    for stream, counts_by_cause in counts.items():
        if causes := ", ".join(
            f"{n:,} {cause}" for cause, n in counts_by_cause.items()
        ):
            yield f"streams.{stream}: left out or changed of the log: {causes}"


def unanswered_events(
    scenario: Scenario, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for events that no job or service may respond to."""
    flexibility = scenario.flexibility
    if flexibility is None or flexibility.is_off:
        return
    jobs = any(
        c.job_class.flexibility and c.job_class.flexibility.tier for c in classes
    )
    services = [
        service
        for stream in scenario.request_streams.values()
        for service in stream.services.values()
    ]
    is_unanswered = {
        "events": bool(flexibility.events)
        and not any(service.flexibility for service in services),
        "follow": flexibility.follow is not None,
        "signals.cap": flexibility.signals.cap is not None,
    }
    if unanswered := [
        name for name, is_set in is_unanswered.items() if is_set and not jobs
    ]:
        cap = ", or its services flexibility: {power_limit: 0.75}" if services else ""
        yield (
            f"flexibility.{' and '.join(unanswered)}: no stream may follow, so that "
            "power is as without; jobs of tier 0, as all are here, are never "
            f"touched: give a stream flexibility: {{tier: 1}} or more{cap}"
        )


def overfull_pools(
    facility: Facility, clock: RunClock, streams: JobStreams
) -> Iterator[str]:
    """Yield a warning for pools with more demand than nodes, with the waiting times.

    The streams' job counts must have been determined.
    """
    for name, pool in facility.pools.items():
        first = pool.installed(clock).first
        nodes = streams.asked_nodes(name) / facility.slots_per_node(name)
        if first and nodes > first * (1 + SHORTFALL):
            wait_h, days = (
                (nodes / first - 1) * HOURS_PER_DAY,
                clock.simulated_ms / MS_PER_DAY,
            )
            yield (
                f"pool '{name}': the jobs ask for {nodes / first:.4g} times its "
                f"{first:,} nodes; {ceil(nodes):,} are needed on average, with "
                f"{first:,} the wait grows by about {wait_h:,.3g} h a day, to "
                f"{wait_h * days:,.3g} h if they come to the run's end"
            )


def _off_target(
    facility: Facility,
    clock: RunClock,
    streams: JobStreams,
    queues: Mapping[str, QueueMetrics],
) -> Iterator[str]:
    """Yield a warning for pools whose utilization is off target or whose jobs wait."""
    for name, pool in facility.pools.items():
        expected, queue = streams.run_utilization(name), queues[name]
        installed_ms = pool.installed(clock).node_ms(clock.horizon_ms)
        utilization = queue.node_ms / (installed_ms * facility.slots_per_node(name))
        text = (
            f"pool '{name}': simulated utilization {utilization:.4f} is "
            f"{abs(utilization - expected):.4f}"
        )
        if expected > 1 + SHORTFALL:
            # A queue that is never empty grows by requested minus executed work.
            wait_h = (expected - 1) * clock.simulated_ms / MS_PER_H
            yield (
                f"pool '{name}': the jobs ask for {expected:.4g} times its nodes, on "
                f"average for {ceil(expected * installed_ms / clock.horizon_ms):,}; "
                f"with {pool.n_nodes:,} the wait grows to about {wait_h:,.3g} h at the "
                f"end of the run: {queue.unstarted:,} jobs never started"
            )
        elif utilization < expected * (1 - SHORTFALL):
            yield (
                f"{text} short of {expected:.4f}: {queue.unstarted:,} jobs never "
                "started"
            )
        elif utilization > expected * (1 + SHORTFALL):
            reason = (
                f"{queue.n_from_warm_up:,} jobs that the warm-up left in the queue "
                "start in it"
            )
            yield f"{text} above {expected:.4f}: {reason}"
        elif queue.unstarted > max(UNSTARTED * queue.submitted, queue.n_from_warm_up):
            yield (
                f"pool '{name}': {queue.unstarted:,} of {queue.submitted:,} jobs "
                "never started; the queue grows faster than the pool works it off"
            )


def _overload(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield a warning for power above the rated power."""
    ratio = metrics["power"]["max_over_rated"]
    if ratio is not None and ratio > 1:
        yield (
            f"maximum power is {ratio:.2f} times the rated power, "
            f"{metrics['power']['rated_mw']:.4g} MW where it is taken; check the "
            "profiles' unit and facility.rated_power_mw"
        )


def _idle_weather(facility: Facility) -> Iterator[str]:
    """Yield a warning for weather that no stage of the scenario uses."""
    is_used = any(
        stage.place == "cooling" or stage.kind == "solar" for stage in facility.stages
    )
    if facility.weather is not None and not is_used:
        yield (
            "facility.weather is given, but no cooling among facility.stages follows "
            "it; add one, or remove it unless a stage of your own takes it"
        )


def _weather_of_another_zone(clock: RunClock, weather: Weather | None) -> Iterator[str]:
    """Yield a warning for weather of another time zone than the site's."""
    if weather is None or weather.utc_offset_ms is None:
        return
    site_ms = int(offsets_ms(np.array([clock.wall.origin_ms]), clock.wall.zone)[0])
    shift_h = (weather.utc_offset_ms - site_ms) / MS_PER_H
    if abs(shift_h) >= ZONE_SHIFT_H:
        yield (
            f"facility.weather: its hours are {abs(shift_h):g} h "
            f"{'ahead of' if shift_h > 0 else 'behind'} the site's clock; set its "
            "utc_offset to the site's standard time where its station stands in for "
            "the site"
        )


def _typical_weather(facility: Facility, metrics: dict[str, Any]) -> Iterator[str]:
    """Yield a warning for peaks under typical weather, which has no extremes."""
    has_cooling = "cooling_mwh" in metrics.get("poi", {}).get("energy", ())
    if facility.weather is None or not facility.weather.typical or not has_cooling:
        return
    months = metrics["billing"]["months"]
    metrics_text = ["peak and demand at the point of interconnection"]
    metrics_text += ["headroom"] if "headroom" in metrics["poi"] else []
    metrics_text += (
        ["ratchets"] if any("ratchet_mw" in m.get("billed", ()) for m in months) else []
    )
    yield (
        f"facility.weather is typical, without extremes: {', '.join(metrics_text)} are "
        "not those of a hot year; take an actual year (actual_year: true), or stress "
        "it by offset_k"
    )


def _above_ratings(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield a warning for stages whose load exceeds their rating."""
    for part, values in metrics.items():
        if isinstance(values, dict) and (hours := values.get("hours_above_rating")):
            yield (
                f"{part}: the load is above its rating in {hours:,.4g} h, up to "
                f"{values['max_load']:.2f} times; it is counted, not clipped: check "
                "the rating"
            )


def _outside_cooling_model(metrics: dict[str, Any]) -> Iterator[str]:
    """Yield a warning for weather outside of the cooling model's range."""
    if hours := metrics.get("cooling", {}).get("clamped_h"):
        yield (
            f"cooling: the weather is outside the model's range in {hours:,.4g} h, in "
            "which it is taken at the range's edge; take another model, or a "
            "cooling_table that reaches as far"
        )
