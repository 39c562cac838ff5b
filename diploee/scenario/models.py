"""The scenario: what a user writes in YAML, as frozen models with one description per key."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, overload

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveInt,
    PrivateAttr,
    SerializeAsAny,
    model_validator,
)

from diploee.clock import RunClock, fixed_zone, instant_ms, is_skipped, named_zone, zone_name
from diploee.errors import did_you_mean, one_of, shown
from diploee.facility import STAGES, WEATHER, StageSpec, WeatherSpec
from diploee.facility.billing import Billing
from diploee.facility.node_power import AC_POWER, AcPowerSpec
from diploee.model import SCALES, Model, Name, optional
from diploee.problems import KeyPath
from diploee.scenario.flexibility import Flexibility, flexibility_problems
from diploee.scenario.job_streams import JobStream
from diploee.scenario.phases import (
    Phase,
    StandingNodes,
    check_phases,
    refuse_number_as_date,
)
from diploee.scenario.power_smoothing import COARSEST_MS
from diploee.scenario.replica_streams import ReplicaStream
from diploee.scenario.schedulers import SCHEDULERS, SchedulerSpec
from diploee.scenario.serving import RequestStream, request_stream_problems
from diploee.scenario.spans import Duration, ResolutionMs, end_of, is_calendar_span
from diploee.tables import Float64Array
from diploee.units import MS_PER_MIN, SLOTS_PER_GPU, W_PER_MW

PositivePower = Annotated[float, Field(gt=0)]
MAX_POI_MW, MAX_NODES_FACTOR = 1e5, 1e5
NonNegativePower = Annotated[float, Field(ge=0)]


def _check_utc_offset(text: str) -> str:
    fixed_zone(text)
    return text


def _check_time_zone(text: str) -> str:
    return named_zone(text).key


def _check_start(value: datetime) -> datetime:
    if value.tzinfo is not None:
        raise ValueError("must be local time without a zone; set facility.time_zone instead")
    if value.microsecond % 1000:
        raise ValueError("must be a whole number of milliseconds")
    return value


class NodeType(Model):
    """A kind of server node; the ratings give its rated power, `idle_power_w` its idle draw."""

    n_gpus: int = Field(ge=0, description="GPUs per node.")
    gpu_tdp_w: NonNegativePower = Field(description="Thermal design power of one GPU [W].")
    n_cpus: int = Field(ge=0, description="CPU sockets per node.")
    cpu_tdp_w: NonNegativePower = Field(description="Thermal design power of one CPU socket [W].")
    idle_power_w: NonNegativePower = Field(
        description="Device power of a node that runs no job [W]."
    )
    busy_power_factor: PositivePower = Field(
        default=1.0,
        description="Factor on the profiles' power of busy nodes; 1 is as measured.",
    )

    ac_power: Annotated[SerializeAsAny[AcPowerSpec], AC_POWER] | None = optional(
        "What a node draws at its AC input for a power of its devices (fans, conversion, all else "
        "in it), by name or as a group of keys with its kind. If absent, the devices' power alone "
        "is known."
    )

    @property
    def rated_power_w(self) -> float:
        """Sum of the devices' thermal design power [W]."""
        return self.n_gpus * self.gpu_tdp_w + self.n_cpus * self.cpu_tdp_w

    @overload
    def ac_power_w(self, device_power_w: float) -> float: ...
    @overload
    def ac_power_w(self, device_power_w: Float64Array) -> Float64Array: ...
    def ac_power_w(self, device_power_w: Any) -> Any:
        """Return what a node draws at its AC input for a power of its devices [W]."""
        if self.ac_power is None:
            return device_power_w
        return self.ac_power.ac_power_w(device_power_w, self.rated_power_w, self.idle_power_w)


class Pool(Model):
    """Nodes of one type that share a queue."""

    node_type: str = Field(description="Name of an entry of facility.node_types.")
    n_nodes: Annotated[PositiveInt, SCALES] = Field(description="Nodes in the pool.")
    scheduler: Annotated[SerializeAsAny[SchedulerSpec], SCHEDULERS] = Field(
        default="fifo",
        validate_default=True,
        description="Queue discipline, by name or as a group of keys with its kind; fifo is "
        "strict: the head of the queue blocks. easy lets jobs behind the head start where they do "
        "not delay it, conservative where they delay none, sjf takes the shortest first, "
        "priority weighs several factors.",
    )
    allocate: Literal["nodes", "gpus"] = Field(
        default="nodes",
        description="What jobs are given: whole nodes, or gpus, so that jobs on fewer GPUs than a "
        "node has share nodes, each on the first node with enough free ones, parts of a GPU on the "
        "first GPU with as much free; wider jobs take whole nodes. A job on k of the g GPUs of a "
        "node draws k/g of the profile of a node, free GPUs their part of its idle power. fifo "
        "only; the GPUs of jobs are n_gpus of their class or those of the replayed log.",
        exclude_if=lambda value: value == "nodes",
    )
    scale_profiles: Literal["by_tdp"] | None = optional(
        "How profiles of jobs on other GPUs than its nodes' are played: by_tdp in proportion to "
        "the TDP of a node's GPUs, run times as they are. If absent, they are refused."
    )
    phases: tuple[Phase, ...] | None = optional(
        "How many of its nodes stand from when on; none before the first phase, all of them all "
        "through the run if absent. A phase that begins with the run holds in its warm-up too. "
        "Drawn jobs are submitted, and requests that no trace gives are made, in proportion to the "
        "nodes that stand, a target_utilization is of their node time over the run, and the "
        "utilization (Eq. 1) of those that stand.",
        min_length=1,
    )

    @model_validator(mode="after")
    def _phases_rise(self) -> Self:
        if self.phases is not None:
            check_phases(self.phases, self.n_nodes)
        return self

    @property
    def fewest_nodes(self) -> int:
        """Nodes of the first phase; all where there are none."""
        return self.phases[0].n_nodes if self.phases else self.n_nodes

    def standing(self, clock: RunClock) -> StandingNodes:
        """Return how many of the nodes stand in the course of a run."""
        if self.phases is None:
            return StandingNodes(self.n_nodes)
        times_ms = [clock.wall.time_ms(phase.since) for phase in self.phases]
        levels = [0, *(phase.n_nodes for phase in self.phases)]
        added = [
            (time_ms, after - before)
            for time_ms, before, after in zip(times_ms, levels, levels[1:], strict=False)
        ]
        first = sum(n_nodes for time_ms, n_nodes in added if time_ms <= 0)
        return StandingNodes(first, tuple(step for step in added if step[0] > 0))


class Size(Model):
    """Another size for a site: nodes, rates and ratings are scaled together."""

    poi_mw: Annotated[float, Field(gt=0, le=MAX_POI_MW)] | None = optional(
        "What the site draws at its point of interconnection with all nodes at their ratings, in "
        "the hottest hour of its weather [MW]; needs facility.stages."
    )
    nodes_factor: Annotated[float, Field(gt=0, le=MAX_NODES_FACTOR)] | None = optional(
        "Factor on the nodes, and on all that grows with them."
    )

    @model_validator(mode="after")
    def _one_size(self) -> Size:
        if (self.poi_mw is None) == (self.nodes_factor is None):
            raise ValueError("give either poi_mw or nodes_factor")
        return self


class Facility(Model):
    """The data center: node types, pools of nodes, rated power and clock."""

    node_types: dict[Name, NodeType] = Field(min_length=1, description="Node types by name.")
    pools: dict[Name, Pool] = Field(min_length=1, description="Pools of nodes by name.")
    rated_power_mw: Annotated[PositivePower | None, SCALES] = Field(
        default=None, description="Rated power of the facility [MW]; nodes' ratings if absent."
    )
    utc_offset: Annotated[str, AfterValidator(_check_utc_offset)] | None = Field(
        default="+00:00",
        description="Fixed UTC offset of local time.",
        exclude_if=lambda value: value is None,
    )
    time_zone: Annotated[str, AfterValidator(_check_time_zone)] | None = Field(
        default=None,
        description="Time zone such as America/Chicago, whose changes of the clock local time "
        "follows; instead of utc_offset.",
        exclude_if=lambda value: value is None,
    )
    stages: tuple[Annotated[SerializeAsAny[StageSpec], STAGES], ...] = Field(
        default=(),
        description="What the power passes between the devices and the meter, from the devices on; "
        "none: facility_power_w is the devices' power.",
        exclude_if=lambda value: not value,
    )
    size: Size | None = optional(
        "The site in another size; rates of jobs and requests and the ratings of its stages scale "
        "with it."
    )
    weather: Annotated[SerializeAsAny[WeatherSpec], WEATHER] | None = optional(
        "Weather at the site, which cooling follows; utc_offset or time_zone must be given with it."
    )

    @model_validator(mode="after")
    def _weather_has_zone(self) -> Self:
        if self.weather is not None and not self.model_fields_set & {"utc_offset", "time_zone"}:
            raise ValueError(
                "weather needs the facility's zone, as its hours are those of a place: give "
                "utc_offset, such as '-07:00', or time_zone, such as America/Denver"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_zone(cls, given: object) -> object:
        if not isinstance(given, dict) or given.get("time_zone") is None:
            return given
        if given.get("utc_offset") is not None:
            raise ValueError(
                "give either utc_offset or time_zone, not both; found "
                f"{shown(given['utc_offset'])} and {shown(given['time_zone'])}"
            )
        return {**given, "utc_offset": None}

    @property
    def zone(self) -> tzinfo:
        """The facility's time zone: a fixed offset, or a named one."""
        if self.time_zone is not None:
            return named_zone(self.time_zone)
        return fixed_zone(self.utc_offset or "+00:00")

    @property
    def n_nodes(self) -> int:
        """Nodes of all pools."""
        return sum(pool.n_nodes for pool in self.pools.values())

    @property
    def has_phases(self) -> bool:
        """Whether nodes are added in the course of a run."""
        return any(pool.phases is not None for pool in self.pools.values())

    @property
    def rated_power_w(self) -> float:
        """Rated power [W]: `rated_power_mw`, or where it is absent the nodes' ratings."""
        if self.rated_power_mw is not None:
            return self.rated_power_mw * W_PER_MW
        return sum(map(self.pool_rated_power_w, self.pools))

    @property
    def has_ac_power(self) -> bool:
        """Whether the AC power of all nodes is modelled."""
        return all(self.node_type_of(name).ac_power is not None for name in self.pools)

    @property
    def reactive_power_var(self) -> float:
        """Reactive power of all nodes at their AC input [var], drawn positive."""
        pools = self.pools.items()
        return sum(pool.n_nodes * self.node_reactive_var(name) for name, pool in pools)

    @property
    def nodes_power_w(self) -> float:
        """Power of the devices of all nodes at their ratings [W]."""
        return sum(map(self.pool_rated_power_w, self.pools))

    @property
    def supplied_power_w(self) -> float:
        """Power of all nodes at their ratings [W], at their AC input where that is modelled."""
        if not self.has_ac_power:
            return self.nodes_power_w
        return sum(
            pool.n_nodes * self.node_type_of(name).ac_power_w(self.node_type_of(name).rated_power_w)
            for name, pool in self.pools.items()
        )

    @property
    def idle_power_w(self) -> float:
        """Device power of all nodes without a job [W]."""
        pools = self.pools.items()
        return sum(pool.n_nodes * self.node_type_of(name).idle_power_w for name, pool in pools)

    def node_reactive_var(self, pool: str) -> float:
        """Return the reactive power of a pool's node at its AC input [var], drawn positive."""
        node = self.node_type_of(pool)
        if node.ac_power is None:
            return 0.0
        return node.ac_power.reactive_power_var(node.rated_power_w, node.idle_power_w)

    def pool_rated_power_w(self, pool: str) -> float:
        """Return the sum of the ratings of a pool's nodes [W]."""
        return self.pools[pool].n_nodes * self.node_type_of(pool).rated_power_w

    def node_type_of(self, pool: str) -> NodeType:
        """Return the node type of a pool."""
        return self.node_types[self.pools[pool].node_type]

    def slots_per_node(self, pool: str) -> int:
        """Return how many slots a pool's node has: hundredths of its GPUs, or 1, the node."""
        if self.pools[pool].allocate == "nodes":
            return 1
        return self.node_type_of(pool).n_gpus * SLOTS_PER_GPU

    @property
    def slots(self) -> dict[str, int]:
        """Slots of a node of each pool by name."""
        return {name: self.slots_per_node(name) for name in self.pools}


class Scenario(Model):
    """One run: a facility, what it is asked to do, and over which span of time."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = Field(
        description="Short name; run folders are named after it."
    )
    description: str = Field(default="", description="What the scenario is for.")
    facility: Facility = Field(description="The data center.")
    streams: dict[Name, JobStream] = Field(
        default_factory=dict, description="Streams of jobs by name."
    )
    request_streams: dict[Name, RequestStream] = Field(
        default_factory=dict, description="Streams of inference requests by name."
    )
    replica_streams: dict[Name, ReplicaStream] = Field(
        default_factory=dict,
        description="Replicas of served models at batch sizes that a controller chooses, by name.",
        exclude_if=lambda value: not value,
    )
    start: Annotated[
        datetime, BeforeValidator(refuse_number_as_date), AfterValidator(_check_start)
    ] = Field(description="Start in local time, an ISO date or time such as 2018-01-01.")
    duration: Duration = Field(
        default="1 year",
        description="Length of the run; months and years follow the calendar, a day has 24 hours.",
    )
    warm_up: Duration | None = optional(
        "Time before the start that is simulated as well, such as 1 week: the run begins with the "
        "queue, jobs and instances that it leaves. The run begins empty if absent."
    )
    resolution: ResolutionMs = Field(
        default=60_000, description="Interval of the power series, 0.1 s to 1 h."
    )
    seed: int = Field(default=0, ge=0, description="Seed of every random draw.")
    flexibility: Flexibility | None = optional(
        "How the facility answers the grid; it never does if absent."
    )

    _folder: Path = PrivateAttr(default_factory=Path)

    @property
    def folder(self) -> Path:
        """Folder that relative file names start from; no part of the content or its hash."""
        return self._folder

    def beside(self, folder: Path) -> Scenario:
        """Return the scenario with relative file names starting from a folder."""
        placed = self.model_copy()
        placed._folder = folder
        return placed

    @property
    def resolution_ms(self) -> int:
        """Interval of the power series [ms]."""
        return self.resolution

    @property
    def horizon_ms(self) -> int:
        """Length of the run [ms]."""
        return self._length_ms(self.duration, 1)

    @property
    def warm_up_ms(self) -> int:
        """Time before the start that is simulated as well [ms]."""
        if self.warm_up is None:
            return 0
        return -self._length_ms(self.warm_up, -1)

    def _length_ms(self, span: str, sign: int) -> int:
        """Return how long after the start a span ends [ms]; before it with a sign of -1."""
        end = end_of(self.start, span, sign)
        if self.facility.time_zone is None or not is_calendar_span(span):
            # Hours, days and weeks have their length whatever the clock does.
            return (end - self.start) // timedelta(milliseconds=1)
        return instant_ms(end.replace(tzinfo=self.facility.zone)) - instant_ms(self.start_with_zone)

    @property
    def n_intervals(self) -> int:
        """Number of intervals of the power series."""
        return self.horizon_ms // self.resolution_ms

    @property
    def clock(self) -> RunClock:
        """Span and interval of the run."""
        return RunClock(
            self.start, self.facility.zone, self.horizon_ms, self.resolution_ms, self.warm_up_ms
        )

    @property
    def start_with_zone(self) -> datetime:
        """Start of the run with the facility's zone."""
        return self.start.replace(tzinfo=self.facility.zone)

    def standing_nodes(self) -> dict[str, StandingNodes]:
        """Return the nodes that stand in the course of the run, of each pool by name."""
        return {name: pool.standing(self.clock) for name, pool in self.facility.pools.items()}

    def pool_names(self) -> tuple[str, ...]:
        """Return the pools' names; their order gives the `pool_id` of tables."""
        return tuple(self.facility.pools)

    def sha256(self) -> str:
        """Return the hash of all that changes results; name and description do not."""
        resolved = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()


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
    if _types_known(facility):
        for name, pool in facility.pools.items():
            at = ("facility", "pools", name, "scheduler")
            found = pool.scheduler.problems(facility.idle_power_w, scenario.flexibility)
            yield from (((*at, *inner), text) for inner, text in found)
    if scenario.flexibility is not None and facility.pools.keys() and _types_known(facility):
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
    wall, step_ms = scenario.clock.wall, scenario.resolution_ms
    why = {
        minutes: "longer than the run"
        if minutes * MS_PER_MIN > scenario.horizon_ms
        else wall.why_not_summed(step_ms, minutes * MS_PER_MIN)
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
