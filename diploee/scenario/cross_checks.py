"""What is wrong between the parts of a scenario, each of which is right by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

from diploee.clock import is_skipped, zone_name
from diploee.errors import did_you_mean, one_of
from diploee.facility import StageSpec
from diploee.facility.billing import Billing
from diploee.problems import KeyPath
from diploee.scenario.flexibility import flexibility_problems
from diploee.scenario.job_streams import JobStream
from diploee.scenario.models import Facility, Scenario
from diploee.scenario.power_smoothing import COARSEST_MS
from diploee.scenario.serving import request_stream_problems
from diploee.units import MS_PER_MIN, SLOTS_PER_GPU


def cross_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong between the parts of a scenario, each with its key."""
    facility = scenario.facility
    for name, node_type in facility.node_types.items():
        if node_type.idle_power_w > node_type.rated_power_w > 0:
            yield (
                ("facility", "node_types", name, "idle_power_w"),
                f"must be at most the devices' rated {node_type.rated_power_w:g} W, "
                f"found {node_type.idle_power_w:g}",
            )
    for name, pool in facility.pools.items():
        if pool.node_type not in facility.node_types:
            yield (
                ("facility", "pools", name, "node_type"),
                _unknown("node type", pool.node_type, facility.node_types),
            )
        if pool.allocate == "gpus":
            yield from _allocation_problems(scenario, name)
        if pool.scale_profiles is not None and not _plays_profiles(scenario, name):
            yield (
                ("facility", "pools", name, "scale_profiles"),
                "scales the profiles of jobs, and no stream plays any in this pool: the curves of "
                "services and replicas, zeus and synchronous are not scaled; leave it out",
            )
        for index, phase in enumerate(pool.phases or ()):
            if not 0 <= scenario.clock.wall.time_ms(phase.since) < scenario.horizon_ms:
                end = scenario.clock.wall.at(scenario.horizon_ms)
                yield (
                    ("facility", "pools", name, "phases", index, "since"),
                    f"must lie within the run, {scenario.start:%Y-%m-%d} to {end:%Y-%m-%d}, found "
                    f"{phase.since:%Y-%m-%d}; of phases before the run give the last, at its start",
                )
    for index, stage in enumerate(facility.stages):
        yield from _billing_problems(scenario, stage, ("facility", "stages", index))
    if is_skipped(scenario.start, facility.zone):
        yield (
            ("start",),
            f"{scenario.start} does not exist in {zone_name(facility.zone)}, where the clock "
            "is put forward over it; start an hour earlier or later",
        )
    if not (scenario.streams or scenario.request_streams or scenario.replica_streams):
        yield ("streams",), "the scenario asks for nothing; add a stream of jobs or of requests"
    for name, job_stream in scenario.streams.items():
        key_path = ("streams", name)
        if job_stream.pool not in facility.pools:
            yield (*key_path, "pool"), _unknown("pool", job_stream.pool, facility.pools)
            continue
        n_nodes = facility.pools[job_stream.pool].fewest_nodes
        for index, job_class in enumerate(job_stream.job_classes()):
            if job_class.n_nodes > n_nodes:
                where = (*key_path, "classes", index) if job_stream.classes else (*key_path, "mix")
                yield (
                    where,
                    f"class '{job_class.name}' needs {job_class.n_nodes} nodes, pool "
                    f"'{job_stream.pool}' has {n_nodes}{_at_first(facility, job_stream.pool)}",
                )
            elif problem := _gpus_problem(facility, job_stream.pool, job_class.n_gpus):
                yield (*key_path, "classes", index, "n_gpus"), problem
        yield from _deadline_problems(scenario, job_stream, key_path)
        yield from _recurring_problems(facility, job_stream, key_path)
        yield from _synchronous_problems(facility, job_stream, key_path)
        yield from _smoothing_problems(scenario, job_stream, key_path)
        sharing = [s for s, other in scenario.streams.items() if other.pool == job_stream.pool]
        if job_stream.match == "simulated" and len(sharing) > 1:
            yield (
                (*key_path, "match"),
                "match: simulated needs a pool of its own, found streams "
                f"{one_of(sharing)} on pool '{job_stream.pool}'; use match: list",
            )
    yield from _request_problems(scenario)
    yield from _replica_problems(scenario)
    # A site that is to have another size is checked in that.
    if _types_known(facility) and facility.size is None:
        for name, pool in facility.pools.items():
            at = ("facility", "pools", name, "scheduler")
            found = pool.scheduler.problems(facility.idle_power_w, scenario.flexibility)
            yield from (((*at, *inner), text) for inner, text in found)
        if scenario.flexibility is not None and facility.pools:
            yield from flexibility_problems(
                scenario.flexibility, scenario.clock, facility.idle_power_w, facility.rated_power_w
            )
    if scenario.horizon_ms % scenario.resolution_ms:
        yield (
            ("resolution",),
            f"{scenario.resolution_ms / 1000:g} s does not divide the duration of "
            f"{scenario.horizon_ms / 1000:g} s ({scenario.duration})",
        )


def _billing_problems(
    scenario: Scenario, stage: StageSpec, key_path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    billing = getattr(stage, "billing", None)
    if not isinstance(billing, Billing):
        return
    wall = scenario.clock.wall
    why = {
        minutes: "longer than the run"
        if minutes * MS_PER_MIN > scenario.horizon_ms
        else wall.why_not_aligned(minutes * MS_PER_MIN)
        for minutes in get_args(Billing.model_fields["interval_min"].annotation)
    }
    if why[billing.interval_min]:
        have = [minutes for minutes in why if not why[minutes]]
        yield (
            (*key_path, "billing", "interval_min"),
            f"must be minutes whose demand the run holds, found {billing.interval_min}: "
            f"{why[billing.interval_min]}; have: {one_of(have)}",
        )


def _at_first(facility: Facility, pool: str) -> str:
    if facility.pools[pool].phases is None:
        return "; it could never start"
    return " in its first phase; it would hold up the queue until more stand"


def _plays_profiles(scenario: Scenario, pool: str) -> bool:
    """Return whether jobs in a pool take their power from profiles."""
    return any(
        stream.replay is not None
        or any(job_class.batch_inference is None for job_class in stream.job_classes())
        for stream in scenario.streams.values()
        if stream.pool == pool and stream.zeus is None and stream.synchronous is None
    )


def _allocation_problems(scenario: Scenario, name: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield what a pool that allocates GPUs can't go with."""
    pool = scenario.facility.pools[name]
    node = scenario.facility.node_types.get(pool.node_type)
    if node is not None and not node.n_gpus:
        yield (
            ("facility", "pools", name, "allocate"),
            f"gpus needs nodes with GPUs, node type '{pool.node_type}' has n_gpus: 0; leave it out",
        )
    elif node is not None and pool.n_nodes * node.n_gpus * SLOTS_PER_GPU >= 2**31:
        yield (
            ("facility", "pools", name, "n_nodes"),
            f"with allocate: gpus must be at most {2**31 // (node.n_gpus * SLOTS_PER_GPU):,} nodes "
            f"of {node.n_gpus} GPUs, found {pool.n_nodes:,}; split the pool",
        )
    crossed = {
        f"scheduler {pool.scheduler.kind}": pool.scheduler.kind != "fifo",
        "phases": pool.phases is not None,
        "the facility's flexibility": scenario.flexibility is not None,
    }
    for of, stream in scenario.streams.items():
        if stream.pool == name:
            bends = stream.flexibility or any(c.flexibility for c in stream.classes)
            crossed |= {
                f"streams.{of}.zeus": stream.zeus is not None,
                f"streams.{of}.synchronous": stream.synchronous is not None,
                f"streams.{of}'s flexibility": bends is not None and bool(bends),
            }
    for of, requests in scenario.request_streams.items():
        crossed[f"request_streams.{of}"] = requests.pool == name
    for of, replicas in scenario.replica_streams.items():
        crossed[f"replica_streams.{of}"] = replicas.pool == name
    if found := [what for what, crosses in crossed.items() if crosses]:
        yield (
            ("facility", "pools", name, "allocate"),
            f"gpus can't go with {', '.join(found)}; remove {'it' if len(found) == 1 else 'them'}, "
            "or leave allocate out, which gives jobs whole nodes",
        )


def _gpus_problem(facility: Facility, pool: str, n_gpus: float | None) -> str | None:
    """Return what is wrong with the GPUs of a class."""
    if n_gpus is None:
        return None
    if facility.pools[pool].allocate != "gpus":
        return f"needs a pool that allocates GPUs; set facility.pools.{pool}.allocate: gpus"
    node = facility.node_types.get(facility.pools[pool].node_type)
    if node is not None and n_gpus > node.n_gpus:
        return (
            f"must be at most the {node.n_gpus} GPUs of a node of pool '{pool}', found {n_gpus:g}; "
            "give wider jobs n_nodes"
        )
    return None


def _types_known(facility: Facility) -> bool:
    return all(pool.node_type in facility.node_types for pool in facility.pools.values())


def _deadline_problems(
    scenario: Scenario, stream: JobStream, key_path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    """Yield deadlines before the last submission: jobs that come after them were late at once."""
    given = [((*key_path, "flexibility"), stream.flexibility)]
    given += [((*key_path, "classes", k), c.flexibility) for k, c in enumerate(stream.classes)]
    end = scenario.clock.wall.at(scenario.horizon_ms).replace(tzinfo=None)
    for place, flexibility in given:
        if flexibility is not None and flexibility.deadline and flexibility.deadline < end:
            yield (
                (*place, "deadline") if place[-1] == "flexibility" else (*place, "flexibility"),
                f"the deadline {flexibility.deadline} lies before the submission of jobs, which "
                f"come until {end}; give slack instead, or a later one",
            )


def _smoothing_problems(
    scenario: Scenario, stream: JobStream, key_path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    if stream.power_smoothing is None:
        return
    if scenario.resolution_ms > COARSEST_MS:
        yield (
            (*key_path, "power_smoothing"),
            f"acts within seconds, which intervals of {scenario.resolution_ms / 1000:g} s do not "
            f"show; set resolution to {COARSEST_MS // 1000} s or less",
        )
    name = scenario.facility.pools[stream.pool].node_type
    node = scenario.facility.node_types.get(name)
    if node is not None and not node.n_gpus * node.gpu_tdp_w > 0:
        yield (
            (*key_path, "power_smoothing"),
            f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W in node type "
            f"'{name}'",
        )


def _recurring_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    if (zeus := stream.zeus) is None:
        return
    n_nodes, n_gpus = facility.pools[stream.pool].fewest_nodes, 0
    if facility.pools[stream.pool].node_type in facility.node_types:
        n_gpus = facility.node_type_of(stream.pool).n_gpus
    if zeus.n_nodes > n_nodes:
        yield (
            (*key_path, "zeus", "n_nodes"),
            f"must be at most the {n_nodes} nodes of pool '{stream.pool}', found {zeus.n_nodes}",
        )
    node_types, node_type = facility.node_types, facility.pools[stream.pool].node_type
    idle_w = node_types[node_type].idle_power_w if node_type in node_types else math.inf
    gpus_idle_w = (zeus.gpus_per_node or n_gpus) * zeus.gpu_idle_power_w
    if gpus_idle_w > idle_w:
        yield (
            (*key_path, "zeus", "gpu_idle_power_w"),
            f"{zeus.gpus_per_node or n_gpus} GPUs at {zeus.gpu_idle_power_w:g} W idle are "
            f"{gpus_idle_w:g} W, more than the node's idle_power_w of {idle_w:g} W",
        )
    if (zeus.gpus_per_node or 1) > n_gpus:
        yield (
            (*key_path, "zeus", "gpus_per_node"),
            f"must be at most the {n_gpus} GPUs of a node of pool '{stream.pool}', found "
            f"{zeus.gpus_per_node or 1}",
        )


def _synchronous_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Iterator[tuple[KeyPath, str]]:
    node = facility.node_types.get(facility.pools[stream.pool].node_type)
    if stream.synchronous is None or node is None:
        return
    n_nodes = facility.pools[stream.pool].fewest_nodes
    if not node.n_gpus * node.gpu_tdp_w > 0:
        yield (
            (*key_path, "synchronous"),
            f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W in pool "
            f"'{stream.pool}'",
        )
        return
    for index, job in enumerate(stream.synchronous.jobs):
        at = (*key_path, "synchronous", "jobs", index)
        asked, spares = job.nodes(node.n_gpus), job.spares(job.nodes(node.n_gpus))
        if problem := job.problem(node.n_gpus):
            yield (*at, problem[0]), problem[1]
        elif asked + spares > n_nodes:
            yield (
                at,
                f"takes {asked:,} nodes and {spares:,} spare ones, pool '{stream.pool}' has "
                f"{n_nodes:,}{_at_first(facility, stream.pool)}",
            )


def _request_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    pools = scenario.facility.pools
    for name, requests in scenario.request_streams.items():
        key_path = ("request_streams", name)
        if requests.pool not in pools:
            yield (*key_path, "pool"), _unknown("pool", requests.pool, pools)
            continue
        others = [
            *(f"streams.{s}" for s, jobs in scenario.streams.items() if jobs.pool == requests.pool),
            *(
                f"request_streams.{s}"
                for s, other in scenario.request_streams.items()
                if s != name and other.pool == requests.pool
            ),
        ]
        if others:
            yield (
                (*key_path, "pool"),
                f"a request stream needs a pool of its own, but pool '{requests.pool}' is also "
                f"used by {one_of(others)}; split it into two pools",
            )
        pool = pools[requests.pool]
        stands = " in its first phase" if pool.phases else ""
        problems = request_stream_problems(requests, pool.fewest_nodes, stands)
        yield from (((*key_path, *inner), text) for inner, text in problems)


def _replica_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    pools = scenario.facility.pools
    groups = ("streams", "request_streams", "replica_streams")
    for name, replicas in scenario.replica_streams.items():
        key_path = ("replica_streams", name)
        if replicas.pool not in pools:
            yield (*key_path, "pool"), _unknown("pool", replicas.pool, pools)
            continue
        others = [
            f"{group}.{other}"
            for group in groups
            for other, spec in getattr(scenario, group).items()
            if spec.pool == replicas.pool and (group, other) != key_path
        ]
        pool = pools[replicas.pool]
        node = scenario.facility.node_types.get(pool.node_type)
        if others:
            yield (
                (*key_path, "pool"),
                f"replicas need a pool of their own, but pool '{replicas.pool}' is also used by "
                f"{one_of(others)}; split it into two pools",
            )
        elif pool.phases is not None:
            yield (
                (*key_path, "pool"),
                f"replicas need a pool without phases, found '{replicas.pool}'",
            )
        elif node is not None and not node.n_gpus:
            yield (*key_path, "pool"), f"needs nodes with GPUs, '{pool.node_type}' has n_gpus: 0"
        if scenario.horizon_ms % replicas.step_ms:
            yield (
                (*key_path, "step_s"),
                f"{replicas.step_s:g} s does not divide the duration of "
                f"{scenario.horizon_ms / 1000:g} s ({scenario.duration})",
            )


def _unknown(what: str, word: str, allowed: dict[str, Any]) -> str:
    return f"unknown {what} '{word}' (have: {one_of(allowed)}){did_you_mean(word, allowed)}"
