"""Checks that involve more than one part of a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any, get_args

from diploee.base.clock import RunClock, is_skipped, zone_name
from diploee.base.errors import did_you_mean, one_of
from diploee.base.plain_data import KeyPath
from diploee.base.units import MS_PER_MIN, SLOTS_PER_GPU, W_PER_MW
from diploee.facility.base import Nameable, StageSpec
from diploee.facility.point_of_interconnection import Billing
from diploee.scenario.flexibility import (
    DemandResponseEvent,
    EventTarget,
    Flexibility,
    product_of,
)
from diploee.scenario.job_streams import COARSEST_MS, JobStream
from diploee.scenario.models import Facility, Scenario

Problems = Iterator[tuple[KeyPath, str]]


def cross_problems(scenario: Scenario) -> Problems:
    """Yield what is wrong between the parts of a scenario, each with its key."""
    facility = scenario.facility
    for name, node_type in facility.node_types.items():
        if node_type.idle_power_w > node_type.rated_power_w > 0:
            yield (
                ("facility", "node_types", name, "idle_power_w"),
                f"must be at most the devices' rated {node_type.rated_power_w:g} W, "
                f"found {node_type.idle_power_w:g}",
            )
        low_w, high_w = node_type.idle_power_w, node_type.rated_power_w or math.inf
        if (
            node_type.warm_power_w is not None
            and not low_w <= node_type.warm_power_w <= high_w
        ):
            yield (
                ("facility", "node_types", name, "warm_power_w"),
                (
                    f"must be from idle_power_w, {low_w:g} W, to the devices' rated "
                    f"{high_w:g} W, found {node_type.warm_power_w:g}"
                ),
            )
    for name in facility.pools:
        yield from _pool_problems(scenario, name)
    kinds = [(stage.kind, getattr(stage, "name", None)) for stage in facility.stages]
    for index, stage in enumerate(facility.stages):
        yield from _billing_problems(scenario, stage, ("facility", "stages", index))
        if isinstance(stage, Nameable) and kinds[index] in kinds[:index]:
            yield (
                ("facility", "stages", index, "name"),
                (
                    f"must tell this {stage.kind} from that before it; give one, such "
                    "as second"
                ),
            )
    if is_skipped(scenario.start, facility.zone):
        yield (
            ("start",),
            (
                f"{scenario.start} does not exist in {zone_name(facility.zone)}, where "
                "the clock is put forward over it; start an hour earlier or later"
            ),
        )
    if not any(getattr(scenario, group) for group in STREAMS):
        yield (
            ("streams",),
            "the scenario asks for nothing; add a stream of jobs or of requests",
        )
    for group, of_group in STREAMS.items():
        for name, spec in getattr(scenario, group).items():
            if spec.pool in facility.pools:
                yield from of_group(scenario, name, (group, name))
            else:
                yield (group, name, "pool"), _unknown("pool", spec.pool, facility.pools)
    # A site that is to have another size is checked in that.
    known = all(
        pool.node_type in facility.node_types for pool in facility.pools.values()
    )
    if (
        known
        and facility.pools
        and facility.size is None
        and scenario.flexibility is not None
    ):
        yield from _flexibility_problems(scenario, scenario.flexibility)
    yield from _divides(scenario, scenario.resolution_ms, ("resolution",))
    if scenario.resolution_ms % scenario.step_ms:
        yield (
            ("step",),
            f"{scenario.step_ms / 1000:g} s does not divide the resolution of "
            f"{scenario.resolution_ms / 1000:g} s; give one that does, or leave it out",
        )


def _pool_problems(scenario: Scenario, name: str) -> Problems:
    facility, pool, at = (
        scenario.facility,
        scenario.facility.pools[name],
        ("facility", "pools", name),
    )
    if pool.node_type not in facility.node_types:
        yield (
            (*at, "node_type"),
            _unknown("node type", pool.node_type, facility.node_types),
        )
    if pool.allocate == "gpus":
        yield from _allocation_problems(scenario, name)
    if pool.scale_profiles is not None and not _plays_profiles(scenario, name):
        yield (
            (*at, "scale_profiles"),
            (
                "scales the profiles of jobs, and no stream plays any in this pool: "
                "the curves of services and replicas, zeus and synchronous are not "
                "scaled; leave it out"
            ),
        )
    for index, phase in enumerate(pool.phases or ()):
        if not 0 <= scenario.clock.wall.time_ms(phase.since) < scenario.horizon_ms:
            end = scenario.clock.wall.at(scenario.horizon_ms)
            yield (
                (*at, "phases", index, "since"),
                (
                    f"must lie within the run, {scenario.start:%Y-%m-%d} to "
                    f"{end:%Y-%m-%d}, found {phase.since:%Y-%m-%d}; of phases before "
                    "the run give the last, at its start"
                ),
            )


def _flexibility_problems(scenario: Scenario, flexibility: Flexibility) -> Problems:
    given = flexibility.signals.given()
    if flexibility.follow is not None and flexibility.follow.signal not in given:
        yield (
            ("flexibility", "follow", "signal"),
            (
                f"there is no signal '{flexibility.follow.signal}' (have: "
                f"{one_of(given)}); add its file to flexibility.signals"
            ),
        )
    idle_w = scenario.facility.idle_power_w
    targets: list[tuple[KeyPath, EventTarget | None]] = [
        (("flexibility", "events", k), event.target)
        for k, event in enumerate(flexibility.events)
    ]
    if flexibility.follow is not None:
        targets.append((("flexibility", "follow"), flexibility.follow.target))
    for key_path, target in targets:
        if (
            target is not None
            and target.mw is not None
            and target.mw * W_PER_MW < idle_w
        ):
            yield (
                (*key_path, "target", "mw"),
                (
                    f"is below the {idle_w / W_PER_MW:.4g} MW that the nodes draw "
                    f"without a job, found {target.mw:g}"
                ),
            )
    yield from _event_problems(scenario, flexibility.events)


def _event_problems(
    scenario: Scenario, events: Sequence[DemandResponseEvent]
) -> Problems:
    clock, rated_w = scenario.clock, scenario.facility.rated_power_w
    names = [event.id for event in events]
    moments_are_sound = True
    for index, event in enumerate(events):
        key_path = ("flexibility", "events", index)
        if names.index(event.id) < index:
            yield (*key_path, "id"), f"'{event.id}' is taken by an event before it"
        for key in ("issued", "start", "end"):
            moment: datetime | None = getattr(event, key)
            if moment is not None and is_skipped(moment, clock.zone):
                moments_are_sound = False
                yield (
                    (*key_path, key),
                    (
                        f"{moment} does not exist in {zone_name(clock.zone)}, where "
                        "the clock is put forward over it"
                    ),
                )
        found = event.in_run(clock)
        if found.ramp_ms - found.baseline_ms < 0 or found.start_ms >= clock.horizon_ms:
            end = clock.wall.at(clock.horizon_ms)
            yield (
                (*key_path, "start"),
                (
                    f"must lie within the run, {clock.start} to "
                    f"{end:%Y-%m-%d %H:%M:%S}, and its ramp at least {event.baseline} "
                    f"after its start, found {event.start}"
                ),
            )
        least_mw = product_of(event.product).least_mw
        if rated_w < least_mw * W_PER_MW:
            yield (
                (*key_path, "product"),
                (
                    f"'{event.product}' is for loads from {least_mw:g} MW on, the "
                    f"facility is rated {rated_w / W_PER_MW:.4g} MW"
                ),
            )
    if moments_are_sound:
        yield from _overlaps(events, clock)


def _overlaps(events: Sequence[DemandResponseEvent], clock: RunClock) -> Problems:
    """Yield events that contradict each other."""
    in_run = [(k, event.in_run(clock)) for k, event in enumerate(events)]
    for (_, first), (index, second) in combinations(in_run, 2):
        early, late = sorted((first, second), key=lambda event: event.ramp_ms)
        key_path = ("flexibility", "events", index)
        if late.ramp_ms < early.end_ms and early.target != late.target:
            yield (
                key_path,
                (
                    f"'{late.id}' begins its ramp before '{early.id}' has ended, with "
                    "another target; let it begin later, or at once (ramp_down: 0 s, "
                    "start at the other's end)"
                ),
            )


def _divides(scenario: Scenario, step_ms: int, key_path: KeyPath) -> Problems:
    if scenario.horizon_ms % step_ms:
        yield (
            key_path,
            f"{step_ms / 1000:g} s does not divide the duration of "
            f"{scenario.horizon_ms / 1000:g} s ({scenario.duration})",
        )


def _billing_problems(
    scenario: Scenario, stage: StageSpec, key_path: KeyPath
) -> Problems:
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
            (
                "must be minutes whose demand the run holds, found "
                f"{billing.interval_min}: {why[billing.interval_min]}; have: "
                f"{one_of(have)}"
            ),
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


def _allocation_problems(scenario: Scenario, name: str) -> Problems:
    """Yield what a pool that allocates GPUs can't go with."""
    pool = scenario.facility.pools[name]
    node = scenario.facility.node_types.get(pool.node_type)
    if node is not None and not node.n_gpus:
        yield (
            ("facility", "pools", name, "allocate"),
            (
                f"gpus needs nodes with GPUs, node type '{pool.node_type}' has "
                "n_gpus: 0; leave it out"
            ),
        )
    elif node is not None and pool.n_nodes * node.n_gpus * SLOTS_PER_GPU >= 2**31:
        yield (
            ("facility", "pools", name, "n_nodes"),
            (
                "with allocate: gpus must be at most "
                f"{2**31 // (node.n_gpus * SLOTS_PER_GPU):,} nodes of {node.n_gpus} "
                f"GPUs, found {pool.n_nodes:,}; split the pool"
            ),
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
            (
                f"gpus can't go with {', '.join(found)}; remove "
                f"{'it' if len(found) == 1 else 'them'}, or leave allocate out, which "
                "gives jobs whole nodes"
            ),
        )


def _gpus_problem(facility: Facility, pool: str, n_gpus: float | None) -> str | None:
    """Return what is wrong with the GPUs of a class."""
    if n_gpus is None:
        return None
    if facility.pools[pool].allocate != "gpus":
        return (
            f"needs a pool that allocates GPUs; set facility.pools.{pool}.allocate: "
            "gpus"
        )
    node = facility.node_types.get(facility.pools[pool].node_type)
    if node is not None and n_gpus > node.n_gpus:
        return (
            f"must be at most the {node.n_gpus} GPUs of a node of pool '{pool}', "
            f"found {n_gpus:g}; give wider jobs n_nodes"
        )
    return None


def _deadline_problems(
    scenario: Scenario, stream: JobStream, key_path: KeyPath
) -> Problems:
    """Yield deadlines before the last submission.

    Jobs that come after them were late at once.
    """
    given = [((*key_path, "flexibility"), stream.flexibility)]
    given += [
        ((*key_path, "classes", k), c.flexibility) for k, c in enumerate(stream.classes)
    ]
    end = scenario.clock.wall.at(scenario.horizon_ms).replace(tzinfo=None)
    for place, flexibility in given:
        if (
            flexibility is not None
            and flexibility.deadline
            and flexibility.deadline < end
        ):
            yield (
                (*place, "deadline")
                if place[-1] == "flexibility"
                else (*place, "flexibility"),
                (
                    f"the deadline {flexibility.deadline} lies before the submission "
                    f"of jobs, which come until {end}; give slack instead, or a later "
                    "one"
                ),
            )


def _smoothing_problems(
    scenario: Scenario, stream: JobStream, key_path: KeyPath
) -> Problems:
    if stream.power_smoothing is None:
        return
    if scenario.step_ms > COARSEST_MS:
        yield (
            (*key_path, "power_smoothing"),
            (
                f"acts within seconds, which intervals of {scenario.step_ms / 1000:g} "
                f"s do not show; set step to {COARSEST_MS // 1000} s or less"
            ),
        )
    name = scenario.facility.pools[stream.pool].node_type
    node = scenario.facility.node_types.get(name)
    if node is not None and not node.n_gpus * node.gpu_tdp_w > 0:
        yield (
            (*key_path, "power_smoothing"),
            (
                f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W "
                f"in node type '{name}'"
            ),
        )


def _job_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    facility, stream = scenario.facility, scenario.streams[name]
    n_nodes = facility.pools[stream.pool].fewest_nodes
    for index, job_class in enumerate(stream.job_classes()):
        if job_class.n_nodes > n_nodes:
            yield (
                (*key_path, "classes", index) if stream.classes else (*key_path, "mix"),
                f"class '{job_class.name}' needs {job_class.n_nodes} nodes, pool "
                f"'{stream.pool}' has {n_nodes}{_at_first(facility, stream.pool)}",
            )
        elif problem := _gpus_problem(facility, stream.pool, job_class.n_gpus):
            yield (*key_path, "classes", index, "n_gpus"), problem
    yield from _deadline_problems(scenario, stream, key_path)
    yield from _recurring_problems(facility, stream, key_path)
    yield from _synchronous_problems(facility, stream, key_path)
    yield from _smoothing_problems(scenario, stream, key_path)
    sharing = [
        other for other, of in scenario.streams.items() if of.pool == stream.pool
    ]
    if stream.match == "simulated" and len(sharing) > 1:
        yield (
            (*key_path, "match"),
            "match: simulated needs a pool of its own, found streams "
            f"{one_of(sharing)} on pool '{stream.pool}'; use match: list",
        )


def _recurring_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Problems:
    if (zeus := stream.zeus) is None:
        return
    n_nodes, n_gpus = facility.pools[stream.pool].fewest_nodes, 0
    if facility.pools[stream.pool].node_type in facility.node_types:
        n_gpus = facility.node_type_of(stream.pool).n_gpus
    if zeus.n_nodes > n_nodes:
        yield (
            (*key_path, "zeus", "n_nodes"),
            (
                f"must be at most the {n_nodes} nodes of pool '{stream.pool}', found "
                f"{zeus.n_nodes}"
            ),
        )
    node_types, node_type = facility.node_types, facility.pools[stream.pool].node_type
    idle_w = node_types[node_type].idle_power_w if node_type in node_types else math.inf
    gpus_idle_w = (zeus.gpus_per_node or n_gpus) * (zeus.gpu_idle_power_w or 0.0)
    if gpus_idle_w > idle_w:
        yield (
            (*key_path, "zeus", "gpu_idle_power_w"),
            (
                f"{zeus.gpus_per_node or n_gpus} GPUs at {zeus.gpu_idle_power_w:g} W "
                f"idle are {gpus_idle_w:g} W, more than the node's idle_power_w of "
                f"{idle_w:g} W"
            ),
        )
    if (zeus.gpus_per_node or 1) > n_gpus:
        yield (
            (*key_path, "zeus", "gpus_per_node"),
            (
                f"must be at most the {n_gpus} GPUs of a node of pool '{stream.pool}', "
                f"found {zeus.gpus_per_node or 1}"
            ),
        )


def _synchronous_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Problems:
    node = facility.node_types.get(facility.pools[stream.pool].node_type)
    if stream.synchronous is None or node is None:
        return
    n_nodes = facility.pools[stream.pool].fewest_nodes
    if not node.n_gpus * node.gpu_tdp_w > 0:
        yield (
            (*key_path, "synchronous"),
            (
                f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W "
                f"in pool '{stream.pool}'"
            ),
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
                (
                    f"takes {asked:,} nodes and {spares:,} spare ones, pool "
                    f"'{stream.pool}' has {n_nodes:,}{_at_first(facility, stream.pool)}"
                ),
            )


def _request_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    requests = scenario.request_streams[name]
    pool = scenario.facility.pools[requests.pool]
    groups = ("streams", "request_streams")
    yield from _sharing_problems(
        scenario, "a request stream needs a pool of its", key_path, groups
    )
    n_nodes, services = pool.fewest_nodes, requests.services
    reserved = sum(service.reserved_nodes or 0 for service in services.values())
    if reserved > n_nodes:
        stands = " in its first phase" if pool.phases else ""
        yield (
            (*key_path, "services"),
            (
                f"the services reserve {reserved} nodes, pool '{requests.pool}' has "
                f"{n_nodes}{stands}; lower reserved_nodes or leave it out (Eq. 7)"
            ),
        )
    node = scenario.facility.node_types.get(pool.node_type)
    for name, service in services.items():
        if service.standby == "warm" and node is not None and node.warm_power_w is None:
            yield (
                (*key_path, "services", name, "standby"),
                (
                    f"warm needs warm_power_w of node type '{pool.node_type}', the "
                    "power of its devices with models loaded; give it there"
                ),
            )
        nodes, per_instance = service.reserved_nodes, service.nodes_per_instance
        if nodes is None:
            continue
        instances = nodes // per_instance
        if service.probability != 0 and instances == 0:
            yield (
                (*key_path, "services", name, "reserved_nodes"),
                (
                    f"{nodes} nodes hold no instance of {per_instance} node(s), but "
                    "the service gets requests; reserve more nodes"
                ),
            )
        elif service.min_instances > instances:
            yield (
                (*key_path, "services", name, "min_instances"),
                (
                    f"{service.min_instances} instances need "
                    f"{service.min_instances * per_instance} nodes, reserved are "
                    f"{nodes}; lower min_instances"
                ),
            )


def _replica_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    replicas = scenario.replica_streams[name]
    pool = scenario.facility.pools[replicas.pool]
    node = scenario.facility.node_types.get(pool.node_type)
    if shared := [
        *_sharing_problems(scenario, "replicas need a pool of their", key_path, STREAMS)
    ]:
        yield from shared
    elif pool.phases is not None:
        yield (
            (*key_path, "pool"),
            f"replicas need a pool without phases, found '{replicas.pool}'",
        )
    elif node is not None and not node.n_gpus:
        yield (
            (*key_path, "pool"),
            f"needs nodes with GPUs, '{pool.node_type}' has n_gpus: 0",
        )
    yield from _divides(scenario, replicas.step_ms, (*key_path, "step_s"))


def _sharing_problems(
    scenario: Scenario, need: str, key_path: KeyPath, groups: Iterable[str]
) -> Problems:
    """Yield which other streams use the pool of a stream."""
    group, name = key_path
    pool = getattr(scenario, str(group))[name].pool
    others = [
        f"{group}.{other}"
        for group in groups
        for other, spec in getattr(scenario, group).items()
        if spec.pool == pool and (group, other) != key_path
    ]
    if others:
        yield (
            (*key_path, "pool"),
            (
                f"{need} own, but pool '{pool}' is also used by {one_of(others)}; "
                "split it into two pools"
            ),
        )


def _unknown(what: str, word: str, allowed: dict[str, Any]) -> str:
    return (
        f"unknown {what} '{word}' (have: "
        f"{one_of(allowed)}){did_you_mean(word, allowed)}"
    )


STREAMS: dict[str, Callable[[Scenario, str, KeyPath], Problems]] = {
    "streams": _job_problems,
    "request_streams": _request_problems,
    "replica_streams": _replica_problems,
}
"""Groups of streams, each with its checks."""
