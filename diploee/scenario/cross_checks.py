"""Cross-checks between the parts of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, get_args

from diploee.base.clock import RunClock, is_skipped, zone_name
from diploee.base.errors import did_you_mean, one_of, shown
from diploee.base.units import MS_PER_MIN, SLOTS_PER_GPU, W_PER_MW
from diploee.base.validation import KeyPath
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
            key_path = ("facility", "pools", name, "node_type")
            yield (
                key_path,
                _unknown_name("node type", pool.node_type, facility.node_types),
            )
    for group, name, spec in _all_streams(scenario):
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
        key_path = ("facility", "stages", index)
        yield from _billing_problems(scenario, stage, key_path)
        if isinstance(stage, Nameable) and kinds[index] in kinds[:index]:
            yield (
                (*key_path, "name"),
                f"must tell this {stage.kind} from that before it; give one",
            )
    yield from _check_skipped_time(scenario, scenario.start, ("start",))
    if not [*_all_streams(scenario)]:
        yield ("streams",), "the scenario asks for nothing; add a stream"
    for group, name, _ in _all_streams(scenario):
        yield from _PROBLEMS_BY_GROUP[group](scenario, name, (group, name))
    # A site with a requested size is checked after scaling.
    if facility.size is None and scenario.flexibility is not None:
        yield from _flexibility_problems(scenario, scenario.flexibility)
    yield from _check_divides(scenario, scenario.resolution_ms, ("resolution",))
    if scenario.resolution_ms % scenario.step_ms:
        yield (
            ("step",),
            f"{scenario.step_ms / 1000:g} s does not divide the resolution of "
            f"{scenario.resolution_ms / 1000:g} s; give one that does, or leave it out",
        )


def _all_streams(scenario: Scenario) -> Iterator[tuple[str, str, Any]]:
    """Yield group, name and settings of every stream."""
    for group in GROUPS:
        for name, spec in getattr(scenario, group).items():
            yield group, name, spec


def _check_max(
    key_path: KeyPath, value: float | None, limit: float, limit_text: str
) -> Problems:
    """Yield a problem if a number exceeds its maximum."""
    if value is not None and value > limit:
        yield key_path, f"must be at most {limit_text.format(limit)}, found {value:g}"


def _check_skipped_time(
    scenario: Scenario, local_time: Any, key_path: KeyPath
) -> Problems:
    """Yield a problem if a local time is skipped by daylight saving."""
    zone = scenario.facility.zone
    if local_time is not None and is_skipped(local_time, zone):
        yield (
            key_path,
            f"{local_time} does not exist in {zone_name(zone)}, where the clock is put "
            "forward over it; take an hour earlier or later",
        )


def _node_problems(node: NodeType, key_path: KeyPath) -> Problems:
    """Yield problems of the powers of a node type."""
    low_w, high_w = node.idle_power_w, node.rated_power_w or float("inf")
    limit_text = "the devices' rated {:g} W"
    yield from _check_max((*key_path, "idle_power_w"), low_w, high_w, limit_text)
    yield from _check_max(
        (*key_path, "warm_power_w"), node.warm_power_w, high_w, limit_text
    )
    if node.warm_power_w is not None and node.warm_power_w < low_w:
        yield (
            (*key_path, "warm_power_w"),
            f"must be at least idle_power_w, {low_w:g} W, found {node.warm_power_w:g}",
        )


def _pool_problems(scenario: Scenario, name: str) -> Problems:
    """Yield problems of a pool: allocation, profiles and phases."""
    pool, key_path = scenario.facility.pools[name], ("facility", "pools", name)
    if pool.allocate == "gpus":
        yield from _allocation_problems(scenario, name)
    if pool.scale_profiles is not None and not _uses_profiles(scenario, name):
        yield (
            (*key_path, "scale_profiles"),
            "scales the profiles of jobs, and no stream plays any in this pool; leave "
            "it out",
        )
    for index, phase in enumerate(pool.phases or ()):
        if not 0 <= scenario.clock.wall.time_ms(phase.since) < scenario.horizon_ms:
            yield (
                (*key_path, "phases", index, "since"),
                f"must lie within the run, {_run_text(scenario)}, found "
                f"{phase.since:%Y-%m-%d}; of phases before the run give the last, at "
                "its start",
            )


def _run_text(scenario: Scenario) -> str:
    """Return the text of the first and last time of a run."""
    end = scenario.clock.wall.at(scenario.horizon_ms)
    return f"{scenario.start:%Y-%m-%d} to {end:%Y-%m-%d %H:%M:%S}"


def _flexibility_problems(scenario: Scenario, flexibility: Flexibility) -> Problems:
    """Yield problems of events, signals and targets."""
    signals, follow = flexibility.signals.configured(), flexibility.follow
    targets: list[tuple[KeyPath, Any]] = [
        (("flexibility", "events", k), event.target)
        for k, event in enumerate(flexibility.events)
    ]
    if follow is not None:
        targets.append((("flexibility", "follow"), follow.target))
        if follow.signal not in signals:
            yield (
                ("flexibility", "follow", "signal"),
                f"there is no signal '{follow.signal}' (have: {one_of(signals)}); add "
                "its file to flexibility.signals",
            )
    idle_mw = scenario.facility.idle_power_w / W_PER_MW
    for key_path, target in targets:
        if target is not None and target.mw is not None and target.mw < idle_mw:
            yield (
                (*key_path, "target", "mw"),
                f"is below the {idle_mw:.4g} MW that the nodes draw without a job, "
                f"found {target.mw:g}",
            )
    yield from _event_problems(scenario, flexibility)


def _event_problems(scenario: Scenario, flexibility: Flexibility) -> Problems:
    """Yield problems of the demand-response events."""
    clock, rated_mw = scenario.clock, scenario.facility.rated_power_w / W_PER_MW
    names = [event.id for event in flexibility.events]
    skipped_times: list[tuple[KeyPath, str]] = []
    for index, event in enumerate(flexibility.events):
        key_path = ("flexibility", "events", index)
        if event.id in names[:index]:
            yield (*key_path, "id"), f"'{event.id}' is taken by an event before it"
        for key in ("issued", "start", "end"):
            skipped_times += _check_skipped_time(
                scenario, getattr(event, key), (*key_path, key)
            )
        run_event = event.in_run(clock)
        if (
            run_event.ramp_ms < run_event.baseline_ms
            or run_event.start_ms >= clock.horizon_ms
        ):
            yield (
                (*key_path, "start"),
                f"must lie within the run, {_run_text(scenario)}, and its ramp at "
                f"least {event.baseline} after its start, found {event.start}",
            )
        min_mw = event_product(event.product).min_mw
        if rated_mw < min_mw:
            yield (
                (*key_path, "product"),
                f"'{event.product}' is for loads from {min_mw:g} MW on, the facility "
                f"is rated {rated_mw:.4g} MW",
            )
    yield from skipped_times or _overlap_problems(flexibility, clock)


def _overlap_problems(flexibility: Flexibility, clock: RunClock) -> Problems:
    """Yield problems of overlapping events with different targets."""
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


def _check_divides(scenario: Scenario, step_ms: int, key_path: KeyPath) -> Problems:
    """Yield a problem if a step does not divide the duration of the run."""
    if scenario.horizon_ms % step_ms:
        yield (
            key_path,
            f"{step_ms / 1000:g} s does not divide the duration of "
            f"{scenario.horizon_ms / 1000:.10g} s ({scenario.duration})",
        )


def _billing_problems(
    scenario: Scenario, stage: StageSpec, key_path: KeyPath
) -> Problems:
    """Yield a problem if the run has no complete billing interval."""
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
            (*key_path, "billing", "interval_min"),
            "must be minutes whose demand the run holds whole, "
            f"{one_of(allowed)}, found {billing.interval_min}",
        )


def _first_phase_text(facility: Facility, pool: str) -> str:
    """Return the consequence of a job that is too large for a pool, for errors."""
    if facility.pools[pool].phases is None:
        return "; it could never start"
    return " in its first phase; it would hold up the queue until more stand"


def _uses_profiles(scenario: Scenario, pool: str) -> bool:
    """Return True if jobs of a pool take their power from profiles."""
    return any(
        stream.replay is not None
        or any(job_class.batch_inference is None for job_class in stream.job_classes())
        for stream in scenario.streams.values()
        if stream.pool == pool and stream.zeus is None and stream.synchronous is None
    )


def _allocation_problems(scenario: Scenario, name: str) -> Problems:
    """Yield problems of a pool that allocates GPUs: features that need whole nodes."""
    pool, key_path = scenario.facility.pools[name], ("facility", "pools", name)
    n_gpus = scenario.facility.node_type_of(name).n_gpus
    if not n_gpus:
        yield (*key_path, "allocate"), "gpus needs nodes with GPUs; leave it out"
    else:
        max_nodes = 2**31 // (n_gpus * SLOTS_PER_GPU)
        stream_name = f"{{:,}} nodes of {n_gpus} GPUs with allocate: gpus"
        yield from _check_max(
            (*key_path, "n_nodes"), pool.n_nodes, max_nodes, stream_name
        )
    conflicts = {
        f"scheduler {pool.scheduler.kind}": pool.scheduler.kind != "fifo",
        "phases": pool.phases is not None,
        "the facility's flexibility": scenario.flexibility is not None,
    }
    for group, stream_name, stream in _all_streams(scenario):
        if stream.pool == name and isinstance(stream, JobStream):
            flexibilities = [
                stream.flexibility,
                *(c.flexibility for c in stream.classes),
            ]
            conflicts |= {
                f"streams.{stream_name}.zeus": stream.zeus is not None,
                f"streams.{stream_name}.synchronous": stream.synchronous is not None,
                f"streams.{stream_name}'s flexibility": any(flexibilities),
            }
        elif stream.pool == name:
            conflicts[f"{group}.{stream_name}"] = True
    if used_features := [feature for feature, is_used in conflicts.items() if is_used]:
        yield (
            (*key_path, "allocate"),
            f"gpus can't go with {', '.join(used_features)}; leave allocate out, which "
            "gives jobs whole nodes",
        )


def _job_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    """Yield problems of a job stream."""
    facility, stream = scenario.facility, scenario.streams[name]
    pool, node = facility.pools[stream.pool], facility.node_type_of(stream.pool)
    for index, job_class in enumerate(stream.job_classes()):
        class_path = (
            (*key_path, "classes", index) if stream.classes else (*key_path, "mix")
        )
        if job_class.n_nodes > pool.first_nodes:
            yield (
                class_path,
                f"class '{job_class.name}' needs {job_class.n_nodes} nodes, pool "
                f"'{stream.pool}' has {pool.first_nodes}"
                f"{_first_phase_text(facility, stream.pool)}",
            )
        elif job_class.n_gpus is not None and pool.allocate != "gpus":
            yield (
                (*class_path, "n_gpus"),
                "needs a pool that allocates GPUs; set "
                f"facility.pools.{stream.pool}.allocate: gpus",
            )
        else:
            limit_text = f"the {{}} GPUs of a node of pool '{stream.pool}'"
            yield from _check_max(
                (*class_path, "n_gpus"), job_class.n_gpus, node.n_gpus, limit_text
            )
    yield from _deadline_problems(scenario, stream, key_path)
    yield from _recurring_problems(facility, stream, key_path)
    yield from _synchronous_problems(facility, stream, key_path)
    if stream.power_smoothing is not None:
        if scenario.step_ms > COARSEST_MS:
            yield (
                (*key_path, "power_smoothing"),
                f"acts within seconds, which intervals of {scenario.step_ms / 1000:g} "
                f"s do not show; set step to {COARSEST_MS // 1000} s or less",
            )
        yield from _gpu_problems(node, (*key_path, "power_smoothing"))
    streams_in_pool = [
        limit_text
        for limit_text, other in scenario.streams.items()
        if other.pool == stream.pool
    ]
    if stream.match == "simulated" and len(streams_in_pool) > 1:
        yield (
            (*key_path, "match"),
            "match: simulated needs a pool of its own, found streams "
            f"{one_of(streams_in_pool)} on pool '{stream.pool}'; use match: list",
        )


def _gpu_problems(node: NodeType, key_path: KeyPath) -> Problems:
    """Yield a problem if a node type has no GPU with a TDP."""
    if not node.n_gpus * node.gpu_tdp_w:
        yield (
            key_path,
            f"needs GPUs with a TDP, found {node.n_gpus} of {node.gpu_tdp_w:g} W",
        )


def _deadline_problems(
    scenario: Scenario, stream: JobStream, key_path: KeyPath
) -> Problems:
    """Yield a problem for a deadline before the last submission.

    Jobs submitted after the deadline would be late at once.
    """
    flexibilities = [((*key_path, "flexibility", "deadline"), stream.flexibility)]
    flexibilities += [
        ((*key_path, "classes", k, "flexibility"), c.flexibility)
        for k, c in enumerate(stream.classes)
    ]
    end = scenario.clock.wall.at(scenario.horizon_ms).replace(tzinfo=None)
    for flexibility_path, flexibility in flexibilities:
        if flexibility and flexibility.deadline and flexibility.deadline < end:
            yield (
                flexibility_path,
                f"the deadline {flexibility.deadline} lies before the submission of "
                f"jobs, which come until {end}; give slack instead, or a later one",
            )


def _recurring_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Problems:
    if (zeus := stream.zeus) is None:
        return
    node, zeus_path = facility.node_type_of(stream.pool), (*key_path, "zeus")
    n_nodes = facility.pools[stream.pool].first_nodes
    limit_text = f"the {{}} nodes of pool '{stream.pool}'"
    yield from _check_max((*zeus_path, "n_nodes"), zeus.n_nodes, n_nodes, limit_text)
    gpus, idle_w = zeus.gpus_per_node, node.idle_power_w
    gpus_idle_w = (gpus or node.n_gpus) * (zeus.gpu_idle_power_w or 0.0)
    if gpus_idle_w > idle_w:
        yield (
            (*zeus_path, "gpu_idle_power_w"),
            f"{gpus or node.n_gpus} GPUs at {zeus.gpu_idle_power_w:g} W idle are "
            f"{gpus_idle_w:g} W, more than the node's idle_power_w of {idle_w:g} W",
        )
    limit_text = f"the {{}} GPUs of a node of pool '{stream.pool}'"
    yield from _check_max(
        (*zeus_path, "gpus_per_node"), gpus or 1, node.n_gpus, limit_text
    )


def _synchronous_problems(
    facility: Facility, stream: JobStream, key_path: KeyPath
) -> Problems:
    """Yield problems of the synchronous jobs of a stream."""
    if stream.synchronous is None:
        return
    node, n_nodes = (
        facility.node_type_of(stream.pool),
        facility.pools[stream.pool].first_nodes,
    )
    if gpu_problems := [*_gpu_problems(node, (*key_path, "synchronous"))]:
        yield from gpu_problems
        return
    for index, job in enumerate(stream.synchronous.jobs):
        job_path = (*key_path, "synchronous", "jobs", index)
        n_job_nodes, spares = job.nodes(node.n_gpus), job.spares(job.nodes(node.n_gpus))
        if problem := job.problem(node.n_gpus):
            yield (*job_path, problem[0]), problem[1]
        elif n_job_nodes + spares > n_nodes:
            yield (
                job_path,
                f"takes {n_job_nodes:,} nodes and {spares:,} spare ones, pool "
                f"'{stream.pool}' has "
                f"{n_nodes:,}{_first_phase_text(facility, stream.pool)}",
            )


def _request_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    """Yield problems of a request stream."""
    requests = scenario.request_streams[name]
    pool = scenario.facility.pools[requests.pool]
    yield from _sharing_problems(scenario, requests, key_path, GROUPS[:2])
    reserved = sum(
        service_name.reserved_nodes or 0 for service_name in requests.services.values()
    )
    if reserved > pool.first_nodes:
        yield (
            (*key_path, "services"),
            f"the services reserve {reserved} nodes, pool '{requests.pool}' has "
            f"{pool.first_nodes}{' in its first phase' if pool.phases else ''}; "
            "lower reserved_nodes or leave it out (Eq. 7)",
        )
    node = scenario.facility.node_type_of(requests.pool)
    for service_name, service in requests.services.items():
        service_path = (*key_path, "services", service_name)
        if service.standby == "warm" and node.warm_power_w is None:
            yield (
                (*service_path, "standby"),
                f"warm needs warm_power_w of node type '{pool.node_type}'; give it "
                "there",
            )
        nodes, per_instance = service.reserved_nodes, service.nodes_per_instance
        if nodes is None:
            continue
        if service.probability != 0 and nodes < per_instance:
            yield (
                (*service_path, "reserved_nodes"),
                f"{nodes} nodes hold no instance of {per_instance} node(s), but the "
                "service gets requests; reserve more nodes",
            )
        else:
            instances, min_instances = nodes // per_instance, service.min_instances
            limit_text = f"the {{}} instances of {nodes} reserved nodes"
            yield from _check_max(
                (*service_path, "min_instances"), min_instances, instances, limit_text
            )


def _replica_problems(scenario: Scenario, name: str, key_path: KeyPath) -> Problems:
    """Yield problems of a stream of replicas."""
    replicas, facility = scenario.replica_streams[name], scenario.facility
    if sharing := [*_sharing_problems(scenario, replicas, key_path, GROUPS)]:
        yield from sharing
    elif facility.pools[replicas.pool].phases is not None:
        yield (*key_path, "pool"), "replicas need a pool without phases"
    elif not facility.node_type_of(replicas.pool).n_gpus:
        yield (*key_path, "pool"), f"needs nodes with GPUs, '{replicas.pool}' has none"
    yield from _check_divides(scenario, replicas.step_ms, (*key_path, "step_s"))


def _sharing_problems(
    scenario: Scenario, spec: Any, key_path: KeyPath, groups: tuple[str, ...]
) -> Problems:
    """Yield a problem if other streams use the pool of a stream."""
    others = [
        f"{group}.{name}"
        for group, name, other in _all_streams(scenario)
        if group in groups and other.pool == spec.pool and (group, name) != key_path
    ]
    if others:
        yield (
            (*key_path, "pool"),
            f"needs a pool of its own, but pool '{spec.pool}' is also used by "
            f"{one_of(others)}; split it into two pools",
        )


def _unknown_name(kind: str, name: str, allowed: dict[str, Any]) -> str:
    """Return the message for an unknown name."""
    near = did_you_mean(name, allowed)
    return f"must be a {kind} ({one_of(allowed)}), found {shown(name)}{near}"


_PROBLEMS_BY_GROUP: dict[str, Callable[[Scenario, str, KeyPath], Problems]] = dict(
    zip(GROUPS, (_job_problems, _request_problems, _replica_problems), strict=True)
)
