"""Plausibility warnings of a run: possible results that need a planner's caution."""

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
from diploee.loads.jobs.queue import QueueMetrics
from diploee.loads.jobs.streams import JobStreams
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
"""Simulated utilization may stay so far below its target (relative) before the run
warns."""

UNSTARTED = 0.01
"""Share of jobs that may never start before the run warns."""

RATED_OVER = 2.0
"""Ratio of the facility's rated power to that of its nodes above which the run warns."""  # noqa: E501

RATED_NEAR = 0.05
"""The rated power of a site with a meter may be so far off its nodes' before the run
warns."""

ZONE_SHIFT_H = 2.0
"""Offset of the weather's clock from the site's that is warned of, with daylight saving
[h]."""

CONTRACT_OF_RATED = (0.5, 3.0)
"""A contract is questioned where it is no such multiple of the rated power at the
meter."""

MIN_OVER_IDLE = 0.9
"""A job's mean node power may lie so far below idle power before the run warns."""

Pools = Mapping[str, str]
"""Pool of each job stream."""


def run_warnings(line: Pipeline, inputs: Inputs, metrics: dict[str, Any]) -> list[str]:
    """Return the plausibility warnings of a run, one line each."""
    scenario, jobs, plans, curves = line.scenario, line.jobs, line.plans, inputs.curves
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
    of_streams: dict[str, list[StreamClass]] = {}
    for c in classes:
        flat = library.entries[c.profile_ids[0]].workload == FLAT_WORKLOAD
        if c.extrapolation_ratio != 1 and not flat:
            of_streams.setdefault(c.stream, []).append(c)
    for stream, classes in of_streams.items():
        widest = max(classes, key=lambda c: c.extrapolation_ratio)
        more = f" (and {len(classes) - 1} narrower classes)" if len(classes) > 1 else ""
        yield (
            f"streams.{stream}: class '{widest.job_class.name}'{more} is scaled "
            f"linearly by {widest.extrapolation_ratio:g} from profiles of "
            f"{widest.job_class.profile_n_nodes} nodes: a coherent upper bound of the "
            "swings, not a forecast"
        )


def _implausible_profiles(
    facility: Facility,
    pools: Pools,
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
) -> Iterator[str]:
    """Compare mean node power of profiles with the nodes' idle and rated power."""
    played = {
        (index, pools[c.stream]): None for c in classes for index in c.profile_ids
    }
    for index, pool in played:
        node_type, profile = facility.node_type_of(pool), library[index]
        if profile.workload == FLAT_WORKLOAD:  # jobs scale it to their own power
            continue
        node_w = profile.mean_power_w / profile.n_nodes
        idle_w, rated_w = node_type.idle_power_w, node_type.rated_power_w
        if profile.provenance.power_boundary == PowerBoundary.NODE_AC:
            if node_type.ac_power is None:  # warned of by its boundary
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


def _played_profiles(
    library: ProfileLibrary, classes: Iterable[StreamClass]
) -> list[Entry]:
    """Return the library's profiles that job classes play."""
    return [
        library.entries[k] for k in sorted({k for c in classes for k in c.profile_ids})
    ]


def _unused_profiles(
    library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
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
    steps_ms = {
        entry.profile_id: entry.dt_ms for entry in _played_profiles(library, classes)
    }
    for (stream, name), of_service in curves.items():
        for sample in of_service.power.samples:
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
        # In one node all GPUs were measured to change level within 0.02 s.
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
    result: dict[tuple[str, bool, str], list[str]] = {}
    pool_of = {**pools, **{plan.stream: plan.pool for plan in plans}}
    stated = [
        (c.stream, entry.profile_id, entry.provenance)
        for c in classes
        for entry in _played_profiles(library, [c])
    ] + [
        (
            stream,
            f"{stream}.{name} at {sample.rate_rps:g} requests/s",
            sample.provenance,
        )
        for (stream, name), of_service in curves.items()
        for sample in of_service.power.samples
    ]
    for stream, name, provenance in stated:
        if provenance.power_boundary != PowerBoundary.DEVICES:
            node_type = facility.pools[pool_of[stream]].node_type
            has_ac = facility.node_types[node_type].ac_power is not None
            key = provenance.power_boundary, has_ac, node_type
            result.setdefault(key, []).append(name)
    for (boundary, has_ac, node_type), names in result.items():
        who = f"{len(set(names))} profile(s), such as '{min(names)}',"
        if boundary == PowerBoundary.NODE_AC and has_ac:
            continue  # they pass ac_power as they are
        if boundary == PowerBoundary.NODE_AC:
            yield (
                f"{who} hold the nodes' AC power and play on nodes '{node_type}' "
                "without ac_power: busy nodes count supplies and fans, idle ones and "
                "ratings do not; give their ac_power"
            )
        elif has_ac:
            yield (
                f"{who} have another boundary than device power ({boundary}) and pass "
                f"the ac_power of nodes '{node_type}' as devices do: supplies and "
                "fans that they hold count twice; if it is the nodes' AC power, "
                "import them with --boundary node_ac"
            )
        else:
            known = PLUS_CONSTANT in boundary
            remedy = (
                "" if known else "; import them with --boundary or --add-w where known"
            )
            yield (
                f"{who} have another boundary than device power ({boundary}): idle "
                f"nodes and the rated power count GPUs and CPU packages{remedy}"
            )


def _scaled_hardware(
    pools: Pools, library: ProfileLibrary, classes: Sequence[StreamClass]
) -> Iterator[str]:
    """Yield a warning for pools that play scaled profiles of other GPUs."""
    for pool in dict.fromkeys(pools.values()):
        used = _played_profiles(
            library, (c for c in classes if pools[c.stream] == pool)
        )
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
    pool_of = {plan.stream: plan.pool for plan in plans}
    for (stream, name), of_service in curves.items():
        node = facility.node_type_of(pool_of[stream])
        origins = [sample.provenance for sample in of_service.power.samples]
        if any(
            file.path.is_relative_to(shipped_folder("profiles"))
            for file in of_service.files
        ):
            origins.append(PROVENANCE)
        other = [origin for origin in origins if is_other_hardware(origin, node)]
        if other and node.busy_power_factor == 1:
            yield (
                f"request_streams.{stream}.services.{name}: its curves are of nodes "
                f"with {origin_gpus(other[0])}, pool '{pool_of[stream]}' has nodes "
                f"with {gpus_text(node.n_gpus, node.gpu_tdp_w)}: neither the power nor "
                "the requests of an instance are theirs; give curves of these nodes"
            )


def _rated_beyond_nodes(facility: Facility) -> Iterator[str]:
    of_nodes_w = sum(map(facility.pool_rated_power_w, facility.pools))
    if (
        facility.rated_power_mw is not None
        and facility.rated_power_w > RATED_OVER * of_nodes_w > 0
    ):
        yield (
            f"facility.rated_power_mw is {facility.rated_power_mw:g}, "
            f"{facility.rated_power_w / of_nodes_w:.3g} times what the devices of all "
            f"nodes can draw ({of_nodes_w / W_PER_MW:.4g} MW): is it in MW?"
        )
        return
    is_metered = bool(facility.stages) or facility.has_ac_power
    if (
        facility.rated_power_mw is not None
        and is_metered
        and not isclose(facility.rated_power_w, of_nodes_w, rel_tol=RATED_NEAR)
    ):
        yield (
            f"facility.rated_power_mw is {facility.rated_power_mw:g}, the ratings of "
            f"all devices are {of_nodes_w / W_PER_MW:.4g} MW: it is of the devices, "
            "and on a site with AC power or stages sets the least swing that is "
            "counted alone; the meter is rated by the nodes' ratings, its connection "
            "by contract_mva of point_of_interconnection"
        )


def implausible_contracts(facility: Facility, rated_mw: float) -> Iterator[str]:
    """Yield a warning for contracts far from the rated power at the meter [MW]."""
    least, most = CONTRACT_OF_RATED
    for number, stage in enumerate(facility.stages if rated_mw else ()):
        contract = getattr(stage, "contract", None)
        if contract is None or least <= (ratio := contract[0] / rated_mw) <= most:
            continue
        unit = contract.unit
        prefix, other = ("k", "another") if ratio > most else ("G", "a part of the")
        yield (
            f"facility.stages.{number}: contract_{unit.lower()}: "
            f"{format_short(contract.amount)} {unit} is {format_short(ratio)} times "
            f"the rated power at the meter, {format_short(rated_mw)} MW: is it in "
            f"{prefix}{unit[1:]}, or of {other} site?"
        )


def _above_contract(poi: Mapping[str, Any]) -> Iterator[str]:
    of = poi.get("headroom") or {}
    for unit in ("mw", "mva"):
        if of.get("use", 0.0) > 1 and (contract := of.get(f"contract_{unit}")):
            yield (
                f"poi: the load is above its contract of {format_short(contract)} "
                f"{unit.upper()} in {of['over_h']:,.4g} h, up to "
                f"{100 * of['use']:,.1f} % of it; it is counted, not clipped"
            )


def _never_installed(facility: Facility) -> Iterator[str]:
    for name, pool in facility.pools.items():
        if pool.phases and pool.phases[-1].n_nodes < pool.n_nodes:
            yield (
                f"facility.pools.{name}: {pool.n_nodes - pool.phases[-1].n_nodes:,} "
                f"of its {pool.n_nodes:,} nodes never stand, and ratings are of all; "
                f"lower n_nodes to the {pool.phases[-1].n_nodes:,} of the last phase, "
                "or add a phase"
            )


def _built_at_once(facility: Facility, clock: RunClock) -> Iterator[str]:
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
    for stream, of in counts.items():
        if causes := ", ".join(f"{n:,} {cause}" for cause, n in of.items()):
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
        s for of in scenario.request_streams.values() for s in of.services.values()
    ]
    asks = {
        "events": bool(flexibility.events) and not any(s.flexibility for s in services),
        "follow": flexibility.follow is not None,
        "signals.cap": flexibility.signals.cap is not None,
    }
    if unheard := [name for name, is_asked in asks.items() if is_asked and not jobs]:
        cap = ", or its services flexibility: {power_limit: 0.75}" if services else ""
        yield (
            f"flexibility.{' and '.join(unheard)}: no stream may follow, so that "
            "power is as without; jobs of tier 0, as all are here, are never "
            f"touched: give a stream flexibility: {{tier: 1}} or more{cap}"
        )


def overfull_pools(
    facility: Facility, clock: RunClock, streams: JobStreams
) -> Iterator[str]:
    """Yield a warning for pools with more demand than nodes, with the waits.

    The streams must have been resolved.
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
    for name, pool in facility.pools.items():
        expected, queue = streams.run_utilization(name), queues[name]
        stand_ms = pool.installed(clock).node_ms(clock.horizon_ms)
        reached = queue.node_ms / (stand_ms * facility.slots_per_node(name))
        off = (
            f"pool '{name}': simulated utilization {reached:.4f} is "
            f"{abs(reached - expected):.4f}"
        )
        if expected > 1 + SHORTFALL:
            # A queue that is never empty grows by what is asked for less what is worked
            # off.
            wait_h = (expected - 1) * clock.simulated_ms / MS_PER_H
            yield (
                f"pool '{name}': the jobs ask for {expected:.4g} times its nodes, on "
                f"average for {ceil(expected * stand_ms / clock.horizon_ms):,}; with "
                f"{pool.n_nodes:,} the wait grows to about {wait_h:,.3g} h at the end "
                f"of the run: {queue.unstarted:,} jobs never started"
            )
        elif reached < expected * (1 - SHORTFALL):
            yield (
                f"{off} short of {expected:.4f}: {queue.unstarted:,} jobs never started"
            )
        elif reached > expected * (1 + SHORTFALL):
            left_over = (
                f"{queue.n_from_warm_up:,} jobs that the warm-up left in the queue "
                "start in it"
            )
            yield f"{off} above {expected:.4f}: {left_over}"
        elif queue.unstarted > max(UNSTARTED * queue.submitted, queue.n_from_warm_up):
            yield (
                f"pool '{name}': {queue.unstarted:,} of {queue.submitted:,} jobs "
                "never started; the queue grows faster than the pool works it off"
            )


def _overload(metrics: dict[str, Any]) -> Iterator[str]:
    ratio = metrics["power"]["max_over_rated"]
    if ratio is not None and ratio > 1:
        yield (
            f"maximum power is {ratio:.2f} times the rated power, "
            f"{metrics['power']['rated_mw']:.4g} MW where it is taken; check the "
            "profiles' unit and facility.rated_power_mw"
        )


def _idle_weather(facility: Facility) -> Iterator[str]:
    """Yield a warning for weather that no stage of the scenario uses."""
    follows = any(s.place == "cooling" or s.kind == "solar" for s in facility.stages)
    if facility.weather is not None and not follows:
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
    cooled = "cooling_mwh" in metrics.get("poi", {}).get("energy", ())
    if facility.weather is None or not facility.weather.typical or not cooled:
        return
    months = metrics["billing"]["months"]
    meets = ["peak and demand at the point of interconnection"]
    meets += ["headroom"] if "headroom" in metrics["poi"] else []
    meets += (
        ["ratchets"] if any("ratchet_mw" in m.get("billed", ()) for m in months) else []
    )
    yield (
        f"facility.weather is typical, without extremes: {', '.join(meets)} are not "
        "those of a hot year; take an actual year (actual_year: true), or stress it "
        "by offset_k"
    )


def _above_ratings(metrics: dict[str, Any]) -> Iterator[str]:
    for part, values in metrics.items():
        if isinstance(values, dict) and (hours := values.get("hours_above_rating")):
            yield (
                f"{part}: the load is above its rating in {hours:,.4g} h, up to "
                f"{values['max_load']:.2f} times; it is counted, not clipped: check "
                "the rating"
            )


def _outside_cooling_model(metrics: dict[str, Any]) -> Iterator[str]:
    if hours := metrics.get("cooling", {}).get("clamped_h"):
        yield (
            f"cooling: the weather is outside the model's range in {hours:,.4g} h, in "
            "which it is taken at the range's edge; take another model, or a "
            "cooling_table that reaches as far"
        )
