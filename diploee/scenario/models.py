"""The scenario: what a user writes in YAML, as frozen models with one description per key."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, overload

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    PrivateAttr,
    SerializeAsAny,
    model_validator,
)

from diploee.clock import RunClock, fixed_zone, instant_ms, named_zone
from diploee.errors import InputError, one_of, shown
from diploee.facility import STAGES, WEATHER, StageSpec, WeatherSpec
from diploee.facility.node_power import AC_POWER, AcPowerSpec
from diploee.measures.voltage import ShortCircuit
from diploee.model import (
    MAX_DEVICES,
    MAX_NODES,
    MAX_POWER_W,
    MAX_SEED,
    SCALES,
    Kind,
    Kinds,
    Model,
    Name,
    UtcOffset,
    default,
    named_preset,
    optional,
    ranges,
    unset,
)
from diploee.plain_data import KeyPath
from diploee.scenario.flexibility import Flexibility
from diploee.scenario.job_streams import JobStream
from diploee.scenario.layout import Layout
from diploee.scenario.replica_streams import ReplicaStream
from diploee.scenario.ride_through import RideThrough
from diploee.scenario.serving import RequestStream
from diploee.scenario.times import (
    Duration,
    LocalTime,
    Moment,
    ResolutionMs,
    end_of,
    is_calendar_span,
)
from diploee.tables import Float64Array, Int64Array
from diploee.units import SLOTS_PER_GPU, W_PER_MW


def _check_hour(value: datetime) -> datetime:
    if value.tzinfo is not None or value != value.replace(minute=0, second=0, microsecond=0):
        raise ValueError(
            f"must be a date or a whole hour of local time, without a zone, found {shown(value)}"
        )
    return value


class Phase(Model):
    """Nodes of a pool that stand from a date on."""

    since: Annotated[LocalTime, AfterValidator(_check_hour)] = Field(
        description="When they stand, local time, an ISO date such as 2027-01-01."
    )
    n_nodes: Annotated[PositiveInt, SCALES] = Field(
        description="Nodes that stand then, those of earlier phases included."
    )


def _check_phases(phases: tuple[Phase, ...], n_nodes: int) -> None:
    """Raise `ValueError` unless phases follow each other, each with more nodes, up to `n_nodes`."""
    for before, after in pairwise(phases):
        if after.since <= before.since:
            raise ValueError(
                f"phases overlap: {_shown(after)} is listed behind {_shown(before)}; give each a "
                "date of its own, in the order of time"
            )
        if after.n_nodes <= before.n_nodes:
            raise ValueError(
                f"phases must add nodes, as jobs may run on all that stand: {_shown(after)} are no "
                f"more than {_shown(before)}; give the nodes of all phases so far"
            )
    if phases[-1].n_nodes > n_nodes:
        raise ValueError(
            f"phases: {_shown(phases[-1])} are more than the pool's n_nodes of {n_nodes:,}; raise "
            "n_nodes to that"
        )


def _shown(phase: Phase) -> str:
    return f"{phase.n_nodes:,} nodes since {phase.since:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


@dataclass(frozen=True)
class StandingNodes:
    """Nodes of a pool that stand in the course of a run."""

    first: int  # nodes that stand from the start of the simulation on
    # When more come [ms], above 0 and increasing, and how many
    added: tuple[tuple[int, int], ...] = ()

    @property
    def most(self) -> int:
        """Nodes in place at the end."""
        return self.first + sum(n_nodes for _, n_nodes in self.added)

    def times(self, factor: int) -> StandingNodes:
        """Return the same in slots, of which a node has `factor`."""
        return StandingNodes(self.first * factor, tuple((ms, n * factor) for ms, n in self.added))

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the number of nodes in place at times [ms]."""
        steps_ms = np.array([time_ms for time_ms, _ in self.added])
        levels = np.cumsum([self.first, *(n_nodes for _, n_nodes in self.added)])
        standing: Float64Array = levels[np.searchsorted(steps_ms, times_ms, side="right")] * 1.0
        return standing

    def node_ms(self, horizon_ms: int) -> int:
        """Return the node time of a run of a length [node ms]."""
        later = ((horizon_ms - time_ms) * n_nodes for time_ms, n_nodes in self.added)
        return self.first * horizon_ms + sum(later)


class SchedulerSpec(Kind):
    """Settings of a pool's queue discipline in a scenario, a `diploee.schedule.Policy`."""

    def problems(
        self,
        idle_power_w: float,  # noqa: ARG002
        flexibility: Flexibility | None,  # noqa: ARG002
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield what is wrong between it and the rest of a scenario, each with its key.

        `idle_power_w` is the power of all nodes of the facility without a job [W].
        """
        yield from ()


SCHEDULERS: Kinds[SchedulerSpec] = Kinds("scheduler", SchedulerSpec, "diploee.schedule.policies")
"""Queue disciplines by name: those of the package, and those registered from outside."""


class Pool(Model):
    """Nodes of one type that share a queue."""

    node_type: str = Field(description="Name of an entry of facility.node_types.")
    n_nodes: Annotated[PositiveInt, Field(le=MAX_NODES), SCALES] = Field(
        description="Nodes in the pool."
    )
    scheduler: Annotated[SerializeAsAny[SchedulerSpec], SCHEDULERS] = default(
        "fifo",
        "Queue discipline, by name or as a group of keys with its kind; fifo is strict: the head "
        "of the queue blocks. easy lets jobs behind the head start where they do not delay it, "
        "conservative where they delay none, sjf takes the shortest first, priority weighs "
        "several factors.",
        validate_default=True,
    )
    allocate: Literal["nodes", "gpus"] = default(
        "nodes",
        "Resources of jobs: whole nodes, or gpus, so that jobs on fewer GPUs than a node has "
        "share nodes, each on the first node with enough free ones, parts of a GPU on the first "
        "GPU with as much free; wider jobs take whole nodes. A job on k of the g GPUs of a node "
        "draws k/g of the profile of a node, free GPUs their part of its idle power. fifo only; "
        "the GPUs of jobs are n_gpus of their class or those of the replayed log.",
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
            _check_phases(self.phases, self.n_nodes)
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


Devices = Annotated[int, Field(ge=0, le=MAX_DEVICES)]
DevicePower = Annotated[float, Field(ge=0, le=MAX_POWER_W)]
MAX_POI_MW, MAX_NODES_FACTOR = 1e5, 1e5


def _check_time_zone(text: str) -> str:
    return named_zone(text).key


GPUS_W = {
    "a100": (400, 63, 91),
    "h100": (700, 70, 113),
    "h200": (700, 76, 116),
    "l40s": (350, 34, 107),
}
"""TDP, deep idle and warm level of GPUs [W]: data sheets, and medians of open traces
(Leo-hxu/training-power-trace-explorer, eve123xy/power-traces-browser, computed)."""

IDLE_CPUS_W = 128.2
"""Two EPYC 9554 of 360 W at idle, arXiv:2604.07345; ASSUMPTION: other hosts' draw as much [W]."""

NODE_PRESETS = {
    f"{n_gpus}x{gpu}": {
        "n_gpus": n_gpus, "gpu_tdp_w": tdp_w, "n_cpus": 2, "cpu_tdp_w": 360,
        "idle_power_w": round(n_gpus * idle_w + IDLE_CPUS_W),
        "warm_power_w": round(n_gpus * warm_w + IDLE_CPUS_W),
    }
    for gpu, (tdp_w, idle_w, warm_w) in GPUS_W.items()
    for n_gpus in (4, 8)
}  # fmt: skip


class NodeType(Model):
    """A kind of server node; the ratings give its rated power, `idle_power_w` its idle draw."""

    preset: str | None = optional(
        f"Ratings, idle and warm power that are not given, by name: {one_of(NODE_PRESETS)}. "
        "GPUs as measured on open traces; the host of arXiv:2604.07345, two CPUs of 360 W, is "
        "assumed for all."
    )
    n_gpus: Devices = Field(description="GPUs per node.")
    gpu_tdp_w: DevicePower = Field(description="Thermal design power of one GPU [W].")
    n_cpus: Devices = Field(description="CPU sockets per node.")
    cpu_tdp_w: DevicePower = Field(description="Thermal design power of one CPU socket [W].")
    idle_power_w: DevicePower = Field(description="Device power of a node that runs no job [W].")
    warm_power_w: DevicePower | None = optional(
        "Device power of a node whose GPUs hold a loaded model without requests [W]: 113 for each "
        "H100, 116 H200, 91 A100, 107 L40S, whatever the model (measured, P5 to P95 within 8 %), "
        "and the CPUs' idle power. Services with standby: warm need it."
    )
    busy_power_factor: Annotated[float, Field(gt=0, le=1_000)] = default(
        1.0, "Factor on the profiles' power of busy nodes; 1 is as measured."
    )

    ac_power: Annotated[SerializeAsAny[AcPowerSpec], AC_POWER] | None = optional(
        "Power of a node at its AC input for a power of its devices (fans, conversion, all else "
        "in it), by name or as a group of keys with its kind. If absent, the devices' power alone "
        "is known."
    )

    def given_otherwise(self) -> tuple[str, ...]:
        """Return the preset where none is named."""
        return ("preset",) if self.preset is None else ()

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("preset") is None:
            return given
        return {**named_preset(given["preset"], NODE_PRESETS), **given}

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


class Size(Model):
    """Another size for a site: nodes, rates and ratings are scaled together."""

    poi_mw: Annotated[float, Field(gt=0, le=MAX_POI_MW)] | None = optional(
        "Power of the site at its point of interconnection with all nodes at their ratings, in "
        "the hour of its weather's year in which that is most, whatever span is run; steady, with "
        "batteries, sources and ramp limits out [MW]; needs facility.stages."
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
    rated_power_mw: Annotated[float | None, Field(gt=0, le=1_000_000), SCALES] = unset(
        "Rated power of all devices [MW]; nodes' ratings if absent. With AC power or stages it is "
        "no rating of the meter, which follows from the nodes' ratings: it is the device rating "
        "of the data sheet, and sets the least swing that is counted, 1 % of it."
    )
    utc_offset: UtcOffset | None = default(
        "+00:00", "Fixed UTC offset of local time.", exclude_if=lambda value: value is None
    )
    time_zone: Annotated[str, AfterValidator(_check_time_zone)] | None = unset(
        "Time zone such as America/Chicago, whose changes of the clock local time follows; "
        "instead of utc_offset.",
        exclude_if=lambda value: value is None,
    )
    stages: tuple[Annotated[SerializeAsAny[StageSpec], STAGES], ...] = default(
        (),
        "Equipment between the devices and the meter, from the devices on; none: facility_power_w "
        "is the devices' power.",
        exclude_if=lambda value: not value,
    )
    size: Size | None = optional(
        "The site in another size; rates of jobs and requests and the ratings of its stages scale "
        "with it."
    )
    weather: Annotated[SerializeAsAny[WeatherSpec], WEATHER] | None = optional(
        "Weather at the site, which cooling follows; utc_offset or time_zone must be given with it."
    )

    layout: Layout | None = optional(
        "Chassis, racks, rows and halls of the nodes: a run then gives the power of each. It "
        "changes no power of the whole."
    )

    ride_through: dict[Name, RideThrough] | None = optional(
        "How blocks of load answer voltage dips, by name, for diploee ride-through; no power of a "
        "run follows it. Blocks of one pool may have shares; what no block holds stays on."
    )

    @model_validator(mode="after")
    def _blocks_are_of_the_site(self) -> Self:
        try:
            self.blocks()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def blocks(self, settings: Mapping[str, RideThrough] | None = None) -> dict[str, RideThrough]:
        """Return settings by block, those of `ride_through` if none are given, as of this site."""
        found = dict((self.ride_through if settings is None else settings) or {})
        known, taken = (*self.pools, "it", "motors", "rest"), dict[str, float]()
        for name, block in found.items():
            part = block.of or name
            if part not in known:
                raise InputError(
                    f"ride_through: block '{name}' is of '{part}', expected {one_of(known)}; say "
                    "it with 'of'"
                )
            for pool in self.pools if part == "it" else (part,):
                taken[pool] = taken.get(pool, 0.0) + block.share
        if over := [part for part, share in taken.items() if share > 1 + 1e-9]:
            raise InputError(f"ride_through: the shares of '{over[0]}' add up to more than 1")
        return found

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
        return self.nodes_power_w

    @property
    def has_ac_power(self) -> bool:
        """Whether the AC power of all nodes is modelled."""
        return all(self.node_type_of(name).ac_power is not None for name in self.pools)

    @property
    def reactive_power_var(self) -> float:
        """Reactive power of all nodes at their AC input [var], drawn positive."""
        return sum(self.pools[name].n_nodes * self.node_reactive_var(name) for name in self.pools)

    @property
    def nodes_power_w(self) -> float:
        """Power of the devices of all nodes at their ratings [W]."""
        return sum(map(self.pool_rated_power_w, self.pools))

    @property
    def supplied_power_w(self) -> float:
        """Power of all nodes at their ratings [W], at their AC input where that is modelled."""
        if not self.has_ac_power:
            return self.nodes_power_w
        return self._of_nodes(lambda node: node.ac_power_w(node.rated_power_w))

    @property
    def idle_power_w(self) -> float:
        """Device power of all nodes without a job [W]."""
        return self._of_nodes(lambda node: node.idle_power_w)

    def _of_nodes(self, of_node: Callable[[NodeType], float]) -> float:
        return sum(pool.n_nodes * of_node(self.node_type_of(n)) for n, pool in self.pools.items())

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


class SiteFacts(Model):
    """Facts that a form asks of a site; the data sheet shows them."""

    applicant: str | None = optional("Applicant.")
    contact: str | None = optional("Contact: name, telephone, e-mail.")
    date: str | None = optional("Date of the request.")
    point_of_interconnection: str | None = optional("Point of interconnection: substation, bus.")
    load_class: str | None = optional("Class of the load, as the utility names it.")
    voltage_kv: Annotated[float, Field(gt=0)] | None = optional("Nominal voltage there [kV].")
    short_circuit_mva: Annotated[float, Field(gt=0)] | None = optional(
        "Three-phase short-circuit power there [MVA]; with x_over_r, a run at 0.1 s gives rapid "
        "voltage changes."
    )
    x_over_r: Annotated[float, Field(gt=0)] | None = optional("Its reactance over its resistance.")
    transformer_impedance_percent: Annotated[float, Field(gt=0, lt=100)] | None = optional(
        "Impedance of the main transformers, of their rating [%]."
    )
    ups_ride_through_s: Annotated[float, Field(ge=0)] | None = optional(
        "Time that the UPS carries the load [s]."
    )

    @property
    def short_circuit(self) -> ShortCircuit | None:
        """The grid behind the point of interconnection; None where the facts don't give it."""
        if self.short_circuit_mva is None or self.x_over_r is None:
            return None
        return ShortCircuit(self.short_circuit_mva, self.x_over_r)


class Scenario(Model):
    """One run: a facility, what it is asked to do, and over which span of time."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = Field(
        description="Short name; run folders are named after it."
    )
    description: str = default("", "Purpose of the scenario.")
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
    start: Moment = Field(
        description="Start in local time, an ISO date or time such as 2018-01-01."
    )
    duration: Duration = default(
        "1 year", "Length of the run; months and years follow the calendar, a day has 24 hours."
    )
    warm_up: Duration | None = optional(
        "Time before the start that is simulated as well, such as 1 week: the run begins with the "
        "queue, jobs and instances that it leaves. The run begins empty if absent."
    )
    resolution: ResolutionMs = default(
        60_000, "Interval of the power series as it is written, 0.1 s to 1 h."
    )
    step: ResolutionMs | None = optional(
        "Interval at which loads, stages, limits and batteries are computed, 0.1 s to the "
        "resolution; what is written are means of its steps. If absent, the resolution, or less "
        "where a stage or limits of the run need it."
    )
    limits: tuple[str, ...] = default(
        (),
        "Limits that a run is checked against at the step that they need: names of presets, or "
        "files of limits.",
        exclude_if=lambda value: not value,
    )
    seed: int = default(0, "Seed of every random draw.", ge=0, le=MAX_SEED)
    flexibility: Flexibility | None = optional(
        "How the facility answers the grid; it never does if absent."
    )
    site: SiteFacts = Field(
        default_factory=SiteFacts,
        description="Facts of the site for its data sheet; they change no power.",
        exclude_if=lambda value: value == SiteFacts(),
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
        """Interval at which the power series is written [ms]."""
        return self.resolution

    @property
    def step_ms(self) -> int:
        """Interval at which loads, stages and limits are computed [ms]."""
        return self.step or self.resolution_ms

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
        """Number of intervals of the power series as it is written."""
        return self.horizon_ms // self.resolution_ms

    @property
    def clock(self) -> RunClock:
        """Span of the run, and the interval at which it is computed."""
        return RunClock(
            self.start, self.facility.zone, self.horizon_ms, self.step_ms, self.warm_up_ms
        )

    @property
    def written_clock(self) -> RunClock:
        """Span of the run, and the interval at which it is written."""
        return replace(self.clock, step_ms=self.resolution_ms)

    @property
    def iteration_s(self) -> float:
        """Shortest iteration of a synchronous job [s]; infinite where there is none."""
        found = [math.inf]
        for stream in self.streams.values():
            n_gpus = self.facility.node_type_of(stream.pool).n_gpus
            jobs = stream.synchronous.jobs if stream.synchronous else ()
            found += [job.iteration_s(job.nodes(n_gpus) * n_gpus) for job in jobs]
        return min(found)

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

    def ranges(self, given: bool = True) -> dict[str, tuple[float, float]]:
        """Return the range of each number that has its default, by dotted key.

        Node types without nodes, and what no file gave, if `given` is false, are left out.
        """
        of_nodes_mw = self.facility.supplied_power_w / W_PER_MW
        used = {pool.node_type for pool in self.facility.pools.values()}
        return {
            key.lstrip("."): within
            for key, within, was_given in ranges(self, "", of_nodes_mw)
            if (given or not was_given)
            and (not key.startswith(".facility.node_types.") or key.split(".")[3] in used)
        }

    def sha256(self) -> str:
        """Return the hash of all that changes results; name and description do not."""
        resolved = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()
