"""What a run warns of: results that the model can give, but that a planner should not trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from diploee.inference import ServicePlan
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import FLAT_WORKLOAD
from diploee.profiles.profile import DEVICE_POWER
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.units import MS_PER_S
from diploee.workload import StreamClass, Workload

SHORTFALL = 0.01
"""Simulated utilization may stay so far below its target (relative) before the run warns."""

UNSTARTED = 0.01
"""Share of jobs that may never start before the run warns."""

LEAST_OVER_IDLE = 0.9
"""A job's mean node power may lie so far below idle power before the run warns."""


def run_warnings(
    scenario: Scenario,
    library: ProfileLibrary,
    workload: Workload,
    schedule: Schedule,
    plans: Sequence[ServicePlan],
    metrics: dict[str, Any],
) -> list[str]:
    """Return the warnings of a run, one line each.

    Parameters
    ----------
    scenario : Scenario
        What was run.
    library : ProfileLibrary
        Profiles that the jobs drew from.
    workload : Workload
        Generated jobs.
    schedule : Schedule
        Their start times.
    plans : sequence of ServicePlan
        Plans of the request streams.
    metrics : dict
        The run's metrics.
    """
    return [
        *_extrapolations(library, workload),
        *_implausible_profiles(scenario, library, workload),
        *_unused_profiles(library, workload),
        *_coarse_profiles(scenario, library, workload),
        *_other_boundaries(library, workload),
        *_left_out(workload),
        *_shortfalls(scenario, workload, schedule),
        *_overload(metrics),
        *(warning for plan in plans for warning in plan.warnings),
    ]


def _extrapolations(library: ProfileLibrary, workload: Workload) -> Iterator[str]:
    of_streams: dict[str, list[StreamClass]] = {}
    for c in workload.classes:
        flat = library.entries[c.profile_ids[0]].workload == FLAT_WORKLOAD
        if c.extrapolation_ratio != 1 and not flat:
            of_streams.setdefault(c.stream, []).append(c)
    for stream, classes in of_streams.items():
        widest = max(classes, key=lambda c: c.extrapolation_ratio)
        more = f" (and {len(classes) - 1} narrower classes)" if len(classes) > 1 else ""
        yield (
            f"streams.{stream}: class '{widest.job_class.name}'{more} is scaled linearly by "
            f"{widest.extrapolation_ratio:g} from profiles of {widest.job_class.profile_n_nodes} "
            "nodes: a coherent upper bound of the swings, not a forecast"
        )


def _implausible_profiles(
    scenario: Scenario, library: ProfileLibrary, workload: Workload
) -> Iterator[str]:
    """Compare each profile's mean node power with the idle and rated power of its nodes."""
    pools = {
        (index, scenario.streams[c.stream].pool): None
        for c in workload.classes
        for index in c.profile_ids
    }
    for index, pool in pools:
        node_type, profile = scenario.facility.node_type_of(pool), library[index]
        if profile.workload == FLAT_WORKLOAD:  # jobs scale it to their own power
            continue
        node_w = profile.mean_power_w / profile.n_nodes
        least_w = LEAST_OVER_IDLE * node_type.idle_power_w
        if not least_w <= node_w <= node_type.rated_power_w:
            yield (
                f"profile '{profile.profile_id}' has a mean of {node_w:,.4g} W per node, "
                f"outside the {node_type.idle_power_w:,g} W idle to "
                f"{node_type.rated_power_w:,g} W rated of its nodes: is its power in W, and "
                f"of all its {profile.n_nodes} nodes?"
            )


def _unused_profiles(library: ProfileLibrary, workload: Workload) -> Iterator[str]:
    used = {(c.job_class.workload, c.job_class.profile_n_nodes) for c in workload.classes}
    unused = [
        entry.profile_id
        for entry in library.entries
        if (entry.workload, entry.n_nodes) not in used and entry.provenance.kind == "measured"
    ]
    if unused and workload.classes:
        yield (
            f"{len(unused)} measured profile(s) of the library belong to no job class and were "
            f"not used: {', '.join(unused[:5])}{', ...' if len(unused) > 5 else ''}"
        )


def _coarse_profiles(
    scenario: Scenario, library: ProfileLibrary, workload: Workload
) -> Iterator[str]:
    used = sorted({index for c in workload.classes for index in c.profile_ids})
    step_ms = scenario.resolution_ms
    coarse = [entry for entry in map(library.entries.__getitem__, used) if entry.dt_ms > step_ms]
    if coarse:
        dt_s = max(entry.dt_ms for entry in coarse) / MS_PER_S
        yield (
            f"resolution {step_ms / MS_PER_S:g} s is finer than the samples of {len(coarse)} "
            f"profile(s), such as '{coarse[0].profile_id}' (up to {dt_s:g} s): their power is "
            f"constant within a sample and nothing faster is in the result; use {dt_s:g} s or more"
        )


def _other_boundaries(library: ProfileLibrary, workload: Workload) -> Iterator[str]:
    """Name profiles whose power is not known to be that of GPUs and CPU packages."""
    used = sorted({index for c in workload.classes for index in c.profile_ids})
    other = [
        entry
        for entry in map(library.entries.__getitem__, used)
        if entry.provenance.power_boundary != DEVICE_POWER
    ]
    if other:
        yield (
            f"{len(other)} profile(s), such as '{other[0].profile_id}', have another boundary than "
            f"device power ({other[0].provenance.power_boundary}): idle nodes and the rated "
            "power count GPUs and CPU packages; import them with --boundary or --add-w where known"
        )


def _left_out(workload: Workload) -> Iterator[str]:
    """Say how many jobs of a log the run leaves out; what its import drops is in the manifest."""
    for match in workload.matches:
        causes = [
            f"{n:,} {cause}"
            for cause, n in match.counts.items()
            if match.match == "replayed" and " on import: " not in cause
        ]
        if causes:
            yield f"streams.{match.stream}: left out or changed of the log: {', '.join(causes)}"


def _shortfalls(scenario: Scenario, workload: Workload, schedule: Schedule) -> Iterator[str]:
    for pool_id, (name, pool) in enumerate(scenario.facility.pools.items()):
        matches = [m for m in workload.matches if scenario.streams[m.stream].pool == name]
        target = sum(m.target_utilization or m.matched_utilization for m in matches)
        of_pool = schedule.of_pool(pool_id)
        reached = of_pool.mean_utilization(pool.n_nodes)
        n_jobs, n_unstarted = len(of_pool.jobs), int((~of_pool.started).sum())
        if reached < target * (1 - SHORTFALL):
            yield (
                f"pool '{name}': simulated utilization {reached:.4f} is {target - reached:.4f} "
                f"short of {target:.4f}: {n_unstarted:,} jobs never started"
            )
        elif n_unstarted > UNSTARTED * n_jobs:
            yield (
                f"pool '{name}': {n_unstarted:,} of {n_jobs:,} jobs never started; the queue "
                "grows faster than the pool works it off"
            )


def _overload(metrics: dict[str, Any]) -> Iterator[str]:
    ratio = metrics["power"]["max_over_rated"]
    if ratio is not None and ratio > 1:
        yield (
            f"maximum power is {ratio:.2f} times the rated power; check the profiles' unit and "
            "facility.rated_power_mw"
        )
