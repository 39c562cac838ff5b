"""Cross-checks between several parts of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, get_args

from diploee.base.clock import RunClock, is_skipped, zone_name
from diploee.base.errors import did_you_mean, one_of, shown
from diploee.base.plain_data import KeyPath
from diploee.base.units import MS_PER_MIN, SLOTS_PER_GPU, W_PER_MW
from diploee.facility.base import Nameable, StageSpec
from diploee.facility.point_of_interconnection import Billing
from diploee.scenario.flexibility import Flexibility, event_product
from diploee.scenario.job_streams import COARSEST_MS, JobStream
from diploee.scenario.models import Facility, Scenario
from diploee.scenario.pools import NodeType

Problems = Iterator[tuple[KeyPath, str]]
GROUPS = ("streams", "request_streams", "replica_streams")


def unknown_names(scenario: Scenario) -> Problems:
    """Yield unknown names of node types and pools, each with its key."""
    facility = scenario.facility
    for name, pool in facility.pools.items():
        if pool.node_type not in facility.node_types:
            at = ("facility", "pools", name, "node_type")
            yield at, _unknown_name("node type", pool.node_type, facility.node_types)
    for group, name, spec in _streams(scenario):
        if spec.pool not in facility.pools:
            yield (
                (group, name, "pool"),
                _unknown_name("pool", spec.pool, facility.pools),
            )


def cross_problems(scenario: Scenario) -> Problems:
    """Yield problems between parts of a scenario, each with its key."""
    facility = scenario.facility
    for name, node_type in facility.node_types.items():
        yield from _node_problems(node_type, ("facility", "node_types", name))
    for name in facility.pools:
        yield from _pool_problems(scenario, name)
    kinds = [(stage.kind, getattr(stage, "name", None)) for stage in facility.stages]
    for index, stage in enumerate(facility.stages):
        at = ("facility", "stages", index)
        yield from _billing_problems(scenario, stage, at)
        if isinstance(stage, Nameable) and kinds[index] in kinds[:index]:
            yield (
                (*at, "name"),
                f"must tell this {stage.kind} from that before it; give one",
            )
    yield from _check_skipped_time(scenario, scenario.start, ("start",))
    if not [*_streams(scenario)]:
        yield ("streams",), "the scenario asks for nothing; add a stream"
    for group, name, _ in _streams(scenario):
        yield from _OF_GROUP[group](scenario, name, (group, name))
    # A site that is to have another size is checked in that.
    if facility.size is None and scenario.flexibility is not None:
        yield from _flexibility_problems(scenario, scenario.flexibility)
    yield from _check_divides(scenario, scenario.resolution_ms, ("resolution",))
    if scenario.resolution_ms % scenario.step_ms:
        yield (
            ("step",),
            f"{scenario.step_ms / 1000:g} s does not divide the resolution of "
            f"{scenario.resolution_ms / 1000:g} s; give one that does, or leave it out",
        )


def _streams(scenario: Scenario) -> Iterator[tuple[str, str, Any]]:
    """Yield group, name and settings of every stream."""
    for group in GROUPS:
        for name, spec in getattr(scenario, group).items():
            yield group, name, spec


def _check_max(at: KeyPath, found: float | None, limit: float, of: str) -> Problems:
    """Yield a problem if a number exceeds its maximum."""
    if found is not None and found > limit:
        yield at, f"must be at most {of.format(limit)}, found {found:g}"


def _check_skipped_time(scenario: Scenario, moment: Any, at: KeyPath) -> Problems:
    """Yield a problem if a local time is skipped by daylight saving."""
    zone = scenario.facility.zone
    if moment is not None and is_skipped(moment, zone):
        yield (
            at,
            f"{moment} does not exist in {zone_name(zone)}, where the clock is put "
            "forward over it; take an hour earlier or later",
        )


def _node_problems(node: NodeType, at: KeyPath) -> Problems:
    low_w, high_w = node.idle_power_w, node.rated_power_w or float("inf")
    of = "the devices' rated {:g} W"
    yield from _check_max((*at, "idle_power_w"), low_w, high_w, of)
    yield from _check_max((*at, "warm_power_w"), node.warm_power_w, high_w, of)
    if node.warm_power_w is not None and node.warm_power_w < low_w:
        yield (
            (*at, "warm_power_w"),
            f"must be at least idle_power_w, {low_w:g} W, found {node.warm_power_w:g}",
        )


def _pool_problems(scenario: Scenario, name: str) -> Problems:
    pool, at = scenario.facility.pools[name], ("facility", "pools", name)
    if pool.allocate == "gpus":
        yield from _allocation_problems(scenario, name)
    if pool.scale_profiles is not None and not _plays_profiles(scenario, name):
        yield (
            (*at, "scale_profiles"),
            "scales the profiles of jobs, and no stream plays any in this pool; leave "
            "it out",
        )
    for index, phase in enumerate(pool.phases or ()):
        if not 0 <= scenario.clock.wall.time_ms(phase.since) < scenario.horizon_ms:
            yield (
                (*at, "phases", index, "since"),
                f"must lie within the run, {_span(scenario)}, found "
                f"{phase.since:%Y-%m-%d}; of phases before the run give the last, at "
                "its start",
            )


def _span(scenario: Scenario) -> str:
    end = scenario.clock.wall.at(scenario.horizon_ms)
    return f"{scenario.start:%Y-%m-%d} to {end:%Y-%m-%d %H:%M:%S}"


def _flexibility_problems(scenario: Scenario, flexibility: Flexibility) -> Problems:
    given, follow = flexibility.signals.configured(), flexibility.follow
    targets: list[tuple[KeyPath, Any]] = [
        (("flexibility", "events", k), event.target)
        for k, event in enumerate(flexibility.events)
    ]
    if follow is not None:
        targets.append((("flexibility", "follow"), follow.target))
        if follow.signal not in given:
            yield (
                ("flexibility", "follow", "signal"),
                f"there is no signal '{follow.signal}' (have: {one_of(given)}); add "
                "its file to flexibility.signals",
            )
    idle_mw = scenario.facility.idle_power_w / W_PER_MW
    for at, target in targets:
        if target is not None and target.mw is not None and target.mw < idle_mw:
            yield (
                (*at, "target", "mw"),
                f"is below the {idle_mw:.4g} MW that the nodes draw without a job, "
                f"found {target.mw:g}",
            )
    yield from _event_problems(scenario, flexibility)


def _event_problems(scenario: Scenario, flexibility: Flexibility) -> Problems:
    clock, rated_mw = scenario.clock, scenario.facility.rated_power_w / W_PER_MW
    names = [event.id for event in flexibility.events]
    skipped: list[tuple[KeyPath, str]] = []
    for index, event in enumerate(flexibility.events):
        at = ("flexibility", "events", index)
        if event.id in names[:index]:
            yield (*at, "id"), f"'{event.id}' is taken by an event before it"
        for key in ("issued", "start", "end"):
            skipped += _check_skipped_time(scenario, getattr(event, key), (*at, key))
        result = event.in_run(clock)
        if result.ramp_ms < result.baseline_ms or result.start_ms >= clock.horizon_ms:
            yield (
                (*at, "start"),
                f"must lie within the run, {_span(scenario)}, and its ramp at least "
                f"{event.baseline} after its start, found {event.start}",
            )
        least_mw = event_product(event.product).least_mw
        if rated_mw < least_mw:
            yield (
                (*at, "product"),
                f"'{event.product}' is for loads from {least_mw:g} MW on, the facility "
                f"is rated {rated_mw:.4g} MW",
            )
    yield from skipped or _overlaps(flexibility, clock)


def _overlaps(flexibility: Flexibility, clock: RunClock) -> Problems:
    """Yield problems of events that contradict each other."""
    in_run = [(k, event.in_run(clock)) for k, event in enumerate(flexibility.events)]
    for (_, first), (index, second) in combinations(in_run, 2):
        early, late = sorted((first, second), key=lambda event: event.ramp_ms)
        if late.ramp_ms < early.end_ms and early.target != late.target:
            yield (
                ("flexibility", "events", index),
                f"'{late.id}' begins its ramp before '{early.id}' has ended, with "
                "another target; let it begin later, or at once (ramp_down: 0 s, "
                "start at the other's end)",
            )


def _check_divides(scenario: Scenario, step_ms: int, at: KeyPath) -> Problems:
    if scenario.horizon_ms % step_ms:
        yield (
            at,
            f"{step_ms / 1000:g} s does not divide the duration of "
            f"{scenario.horizon_ms / 1000:g} s ({scenario.duration})",
        )


def _billing_problems(scenario: Scenario, stage: StageSpec, at: KeyPath) -> Problems:
    billing = getattr(stage, "billing", None)
    if not isinstance(billing, Billing):
        return
    allowed = [
        minutes
        for minutes in get_args(Billing.model_fields["interval_min"].annotation)
        if minutes * MS_PER_MIN <= scenario.horizon_ms
        and not scenario.clock.wall.alignment_problem(minutes * MS_PER_MIN)
    ]
    if billing.interval_min not in allowed:
        yield (
            (*at, "billing", "interval_min"),
            "must be minutes whose demand the run holds whole, "
            f"{one_of(allowed)}, found {billing.interval_min}",
        )


def _at_first(facility: Facility, pool: str) -> str:
    if facility.pools[pool].phases is None:
        return "; it could never start"
    return " in its first phase; it would hold up the queue until more stand"


def _plays_profiles(scenario: Scenario, pool: str) -> bool:
    """Return True if jobs of a pool take their power from profiles."""
    return any(
        stream.replay is not None
        or any(job_class.batch_inference is None for job_class in stream.job_classes())
        for stream in scenario.streams.values()
        if stream.pool == pool and stream.zeus is None and stream.synchronous is None
    )


def _allocation_problems(scenario: Scenario, name: str) -> Problems:
    """Yield problems of a pool with GPU allocation and unsupported features."""
    pool, at = scenario.facility.pools[name], ("facility", "pools", name)
    n_gpus = scenario.facility.node_type_of(name).n_gpus
    if not n_gpus:
        yield (*at, "allocate"), "gpus needs nodes with GPUs; leave it out"
    else:
        most = 2**31 // (n_gpus * SLOTS_PER_GPU)
        of = f"{{:,}} nodes of {n_gpus} GPUs with allocate: gpus"
        yield from _check_max((*at, "n_nodes"), pool.n_nodes, most, of)
    crossed = {
        f"scheduler {pool.scheduler.kind}": pool.scheduler.kind != "fifo",
        "phases": pool.phases is not None,
        "the facility's flexibility": scenario.flexibility is not None,
    }
    for group, of, stream in _streams(scenario):
        if stream.pool == name and isinstance(stream, JobStream):
            bends = [stream.flexibility, *(c.flexibility for c in stream.classes)]
            crossed |= {
                f"streams.{of}.zeus": stream.zeus is not None,
                f"streams.{of}.synchronous": stream.synchronous is not None,
                f"streams.{of}'s flexibility": any(bends),
            }
        elif stream.pool == name:
            crossed[f"{group}.{of}"] = True
    if result := [what for what, crosses in crossed.items() if crosses]:
        yield (
            (*at, "allocate"),
            f"gpus can't go with {', '.join(result)}; leave allocate out, which gives "
            "jobs whole nodes",
        )


def _job_problems(scenario: Scenario, name: str, at: KeyPath) -> Problems:
    facility, stream = scenario.facility, scenario.streams[name]
    pool, node = facility.pools[stream.pool], facility.node_type_of(stream.pool)
    for index, job_class in enumerate(stream.job_classes()):
        here = (*at, "classes", index) if stream.classes else (*at, "mix")
        if job_class.n_nodes > pool.fewest_nodes:
            yield (
                here,
                f"class '{job_class.name}' needs {job_class.n_nodes} nodes, pool "
                f"'{stream.pool}' has {pool.fewest_nodes}"
                f"{_at_first(facility, stream.pool)}",
            )
        elif job_class.n_gpus is not None and pool.allocate != "gpus":
            yield (
                (*here, "n_gpus"),
                "needs a pool that allocates GPUs; set "
                f"facility.pools.{stream.pool}.allocate: gpus",
            )
        else:
            of = f"the {{}} GPUs of a node of pool '{stream.pool}'"
            yield from _check_max((*here, "n_gpus"), job_class.n_gpus, node.n_gpus, of)
    yield from _deadline_problems(scenario, stream, at)
    yield from _recurring_problems(facility, stream, at)
    yield from _synchronous_problems(facility, stream, at)
    if stream.power_smoothing is not None:
        if scenario.step_ms > COARSEST_MS:
            yield (
                (*at, "power_smoothing"),
                f"acts within seconds, which intervals of {scenario.step_ms / 1000:g} "
                f"s do not show; set step to {COARSEST_MS // 1000} s or less",
            )
        yield from _needs_gpus(node, (*at, "power_smoothing"))
    shares = [of for of, other in scenario.streams.items() if other.pool == stream.pool]
    if stream.match == "simulated" and len(shares) > 1:
        yield (
            (*at, "match"),
            f"match: simulated needs a pool of its own, found streams {one_of(shares)} "
            f"on pool '{stream.pool}'; use match: list",
        )


def _needs_gpus(node: NodeType, at: KeyPath) -> Problems:
    if not node.n_gpus * node.gpu_tdp_w:
        yield (
            at,
            f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W",
        )


def _deadline_problems(scenario: Scenario, stream: JobStream, at: KeyPath) -> Problems:
    """Yield a problem for a deadline before the last submission.

    Jobs submitted after the deadline would be late at once.
    """
    given = [((*at, "flexibility", "deadline"), stream.flexibility)]
    given += [
        ((*at, "classes", k, "flexibility"), c.flexibility)
        for k, c in enumerate(stream.classes)
    ]
    end = scenario.clock.wall.at(scenario.horizon_ms).replace(tzinfo=None)
    for place, flexibility in given:
        if flexibility and flexibility.deadline and flexibility.deadline < end:
            yield (
                place,
                f"the deadline {flexibility.deadline} lies before the submission of "
                f"jobs, which come until {end}; give slack instead, or a later one",
            )


def _recurring_problems(facility: Facility, stream: JobStream, at: KeyPath) -> Problems:
    if (zeus := stream.zeus) is None:
        return
    node, here = facility.node_type_of(stream.pool), (*at, "zeus")
    n_nodes = facility.pools[stream.pool].fewest_nodes
    of = f"the {{}} nodes of pool '{stream.pool}'"
    yield from _check_max((*here, "n_nodes"), zeus.n_nodes, n_nodes, of)
    gpus, idle_w = zeus.gpus_per_node, node.idle_power_w
    gpus_idle_w = (gpus or node.n_gpus) * (zeus.gpu_idle_power_w or 0.0)
    if gpus_idle_w > idle_w:
        yield (
            (*here, "gpu_idle_power_w"),
            f"{gpus or node.n_gpus} GPUs at {zeus.gpu_idle_power_w:g} W idle are "
            f"{gpus_idle_w:g} W, more than the node's idle_power_w of {idle_w:g} W",
        )
    of = f"the {{}} GPUs of a node of pool '{stream.pool}'"
    yield from _check_max((*here, "gpus_per_node"), gpus or 1, node.n_gpus, of)


def _synchronous_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Problems:
    if stream.synchronous is None:
        return
    node, n_nodes = (
        facility.node_type_of(stream.pool),
        facility.pools[stream.pool].fewest_nodes,
    )
    if lacks := [*_needs_gpus(node, (*key_path, "synchronous"))]:
        yield from lacks
        return
    for index, job in enumerate(stream.synchronous.jobs):
        at = (*key_path, "synchronous", "jobs", index)
        asked, spares = job.nodes(node.n_gpus), job.spares(job.nodes(node.n_gpus))
        if problem := job.problem(node.n_gpus):
            yield (*at, problem[0]), problem[1]
        elif asked + spares > n_nodes:
            yield (
                at,
                f"takes {asked:,} nodes and {spares:,} spare ones, pool "
                f"'{stream.pool}' has {n_nodes:,}{_at_first(facility, stream.pool)}",
            )


def _request_problems(scenario: Scenario, name: str, at: KeyPath) -> Problems:
    requests = scenario.request_streams[name]
    pool = scenario.facility.pools[requests.pool]
    yield from _sharing_problems(scenario, requests, at, GROUPS[:2])
    reserved = sum(of.reserved_nodes or 0 for of in requests.services.values())
    if reserved > pool.fewest_nodes:
        yield (
            (*at, "services"),
            f"the services reserve {reserved} nodes, pool '{requests.pool}' has "
            f"{pool.fewest_nodes}{' in its first phase' if pool.phases else ''}; "
            "lower reserved_nodes or leave it out (Eq. 7)",
        )
    node = scenario.facility.node_type_of(requests.pool)
    for of, service in requests.services.items():
        here = (*at, "services", of)
        if service.standby == "warm" and node.warm_power_w is None:
            yield (
                (*here, "standby"),
                f"warm needs warm_power_w of node type '{pool.node_type}'; give it "
                "there",
            )
        nodes, per_instance = service.reserved_nodes, service.nodes_per_instance
        if nodes is None:
            continue
        if service.probability != 0 and nodes < per_instance:
            yield (
                (*here, "reserved_nodes"),
                f"{nodes} nodes hold no instance of {per_instance} node(s), but the "
                "service gets requests; reserve more nodes",
            )
        else:
            instances, least = nodes // per_instance, service.min_instances
            of_nodes = f"the {{}} instances of {nodes} reserved nodes"
            yield from _check_max((*here, "min_instances"), least, instances, of_nodes)


def _replica_problems(scenario: Scenario, name: str, at: KeyPath) -> Problems:
    replicas, facility = scenario.replica_streams[name], scenario.facility
    if shared := [*_sharing_problems(scenario, replicas, at, GROUPS)]:
        yield from shared
    elif facility.pools[replicas.pool].phases is not None:
        yield (*at, "pool"), "replicas need a pool without phases"
    elif not facility.node_type_of(replicas.pool).n_gpus:
        yield (*at, "pool"), f"needs nodes with GPUs, '{replicas.pool}' has none"
    yield from _check_divides(scenario, replicas.step_ms, (*at, "step_s"))


def _sharing_problems(
    scenario: Scenario, spec: Any, at: KeyPath, groups: tuple[str, ...]
) -> Problems:
    """Yield problems of streams that share the pool of a stream."""
    others = [
        f"{group}.{name}"
        for group, name, other in _streams(scenario)
        if group in groups and other.pool == spec.pool and (group, name) != at
    ]
    if others:
        yield (
            (*at, "pool"),
            f"needs a pool of its own, but pool '{spec.pool}' is also used by "
            f"{one_of(others)}; split it into two pools",
        )


def _unknown_name(what: str, word: str, allowed: dict[str, Any]) -> str:
    near = did_you_mean(word, allowed)
    return f"must be a {what} ({one_of(allowed)}), found {shown(word)}{near}"


_OF_GROUP: dict[str, Callable[[Scenario, str, KeyPath], Problems]] = dict(
    zip(GROUPS, (_job_problems, _request_problems, _replica_problems), strict=True)
)
