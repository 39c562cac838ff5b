"""Scenario models: a user's YAML as frozen models with one description per key."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PrivateAttr,
    SerializeAsAny,
    model_validator,
)

from diploee.base.boundary import import_named
from diploee.base.clock import RunClock, fixed_zone, instant_ms, named_zone
from diploee.base.errors import InputError, one_of
from diploee.base.measures.voltage import ShortCircuit
from diploee.base.model import (
    MAX_SEED,
    SCALES,
    Model,
    Name,
    UtcOffset,
    check_import_path,
    default,
    optional,
    ranges,
    unset,
)
from diploee.base.units import SLOTS_PER_GPU, W_PER_MW
from diploee.facility.base import STAGES, StageSpec
from diploee.facility.weather import WEATHER, WeatherSpec
from diploee.scenario.extension_loads import LoadSpec, StreamOf
from diploee.scenario.flexibility import Flexibility
from diploee.scenario.job_streams import JobStream
from diploee.scenario.layout import Layout
from diploee.scenario.pools import InstalledNodes, NodeType, Pool
from diploee.scenario.ride_through import RideThrough
from diploee.scenario.serving import RequestStream
from diploee.scenario.times import (
    Duration,
    Moment,
    ResolutionMs,
    end_date,
    is_calendar_span,
)

MAX_POI_MW, MAX_NODES_FACTOR = 1e5, 1e5


def _check_time_zone(text: str) -> str:
    return named_zone(text).key


class Size(Model):
    """Requested size of a site: nodes, rates and ratings are scaled together."""

    poi_mw: Annotated[float, Field(gt=0, le=MAX_POI_MW)] | None = optional(
        "Requested maximum power of the site at its point of interconnection [MW]: "
        "steady state with all nodes at their ratings, in the hour of the weather's "
        "year with the highest power (even if it is not simulated), without batteries, "
        "sources and ramp limits; requires facility.stages."
    )
    nodes_factor: Annotated[float, Field(gt=0, le=MAX_NODES_FACTOR)] | None = optional(
        "Factor on the number of nodes and on everything that scales with it."
    )

    @model_validator(mode="after")
    def _one_size(self) -> Size:
        self._need_one("poi_mw", "nodes_factor")
        return self


class Facility(Model):
    """Data center: node types, pools of nodes, rated power and time zone."""

    node_types: dict[Name, NodeType] = Field(
        min_length=1, description="Node types by name."
    )
    pools: dict[Name, Pool] = Field(min_length=1, description="Pools of nodes by name.")
    rated_power_mw: Annotated[float | None, Field(gt=0, le=1_000_000), SCALES] = unset(
        "Rated power of all devices [MW]; the sum of the nodes' ratings if absent. It "
        "is the device rating of the data sheet, and swings below 1 % of it are not "
        "counted. With AC power or stages, the rating at the meter is computed from "
        "the nodes' ratings instead."
    )
    utc_offset: UtcOffset | None = default(
        "+00:00",
        "Fixed UTC offset of local time.",
        exclude_if=lambda value: value is None,
    )
    time_zone: Annotated[str, AfterValidator(_check_time_zone)] | None = unset(
        (
            "Time zone such as America/Chicago, with its daylight-saving changes; "
            "instead of utc_offset."
        ),
        exclude_if=lambda value: value is None,
    )
    stages: tuple[Annotated[SerializeAsAny[StageSpec], STAGES], ...] = default(
        (),
        (
            "Equipment between the devices and the meter, in this order. Without "
            "stages, facility_power_w is the devices' power."
        ),
        exclude_if=lambda value: not value,
    )
    size: Size | None = optional(
        "Rescaling of the site: its nodes, its rates of jobs and requests, and the "
        "ratings of its stages."
    )
    weather: Annotated[SerializeAsAny[WeatherSpec], WEATHER] | None = optional(
        "Weather at the site, for cooling and solar power; requires utc_offset or "
        "time_zone."
    )

    layout: Layout | None = optional(
        "Chassis, racks, rows and halls of the nodes; a run then also reports the "
        "power of each. It has no effect on the total power."
    )

    ride_through: dict[Name, RideThrough] | None = optional(
        "Response of blocks of load to voltage dips, by name, for diploee "
        "ride-through; without effect on the power of a run. Blocks may share a pool; "
        "load that belongs to no block stays connected."
    )

    @model_validator(mode="after")
    def _blocks_are_of_the_site(self) -> Self:
        try:
            self.blocks()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def blocks(
        self, settings: Mapping[str, RideThrough] | None = None
    ) -> dict[str, RideThrough]:
        """Return ride-through settings by block, by default those of `ride_through`."""
        result = dict((self.ride_through if settings is None else settings) or {})
        known, taken = (*self.pools, "it", "motors", "rest"), dict[str, float]()
        for name, block in result.items():
            part = block.of or name
            if part not in known:
                raise InputError(
                    f"ride_through: block '{name}' is of '{part}', expected "
                    f"{one_of(known)}; say it with 'of'"
                )
            for pool in self.pools if part == "it" else (part,):
                taken[pool] = taken.get(pool, 0.0) + block.share
        if over := [part for part, share in taken.items() if share > 1 + 1e-9]:
            raise InputError(
                f"ride_through: the shares of '{over[0]}' add up to more than 1"
            )
        return result

    @model_validator(mode="after")
    def _weather_has_zone(self) -> Self:
        if self.weather is not None and not self.model_fields_set & {
            "utc_offset",
            "time_zone",
        }:
            raise ValueError("'weather' needs 'utc_offset' or 'time_zone'; give one")
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_zone(cls, values: object) -> object:
        if not isinstance(values, dict) or values.get("time_zone") is None:
            return values
        if values.get("utc_offset") is not None:
            raise ValueError("'time_zone' can't go with 'utc_offset'; remove one")
        return {**values, "utc_offset": None}

    @property
    def zone(self) -> tzinfo:
        """Time zone of the facility: a fixed offset, or a named zone."""
        if self.time_zone is not None:
            return named_zone(self.time_zone)
        return fixed_zone(self.utc_offset or "+00:00")

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all pools."""
        return sum(pool.n_nodes for pool in self.pools.values())

    @property
    def has_phases(self) -> bool:
        """True if nodes are added in the course of a run."""
        return any(pool.phases is not None for pool in self.pools.values())

    @property
    def rated_power_w(self) -> float:
        """Rated power [W]: `rated_power_mw`, or else the nodes' ratings."""
        if self.rated_power_mw is not None:
            return self.rated_power_mw * W_PER_MW
        return self.nodes_power_w

    @property
    def has_ac_power(self) -> bool:
        """True if the AC power of all nodes is modelled."""
        return all(self.node_type_of(name).ac_power is not None for name in self.pools)

    @property
    def reactive_power_var(self) -> float:
        """Reactive power of all nodes at AC input [var], import positive."""
        return sum(
            self.pools[name].n_nodes * self.node_reactive_var(name)
            for name in self.pools
        )

    @property
    def nodes_power_w(self) -> float:
        """Power of the devices of all nodes at their ratings [W]."""
        return sum(map(self.pool_rated_power_w, self.pools))

    @property
    def supplied_power_w(self) -> float:
        """Power of all nodes at their ratings [W], at AC input where modelled."""
        if not self.has_ac_power:
            return self.nodes_power_w
        return self._sum_nodes(lambda node: node.ac_power_w(node.rated_power_w))

    @property
    def idle_power_w(self) -> float:
        """Device power of all nodes without a job [W]."""
        return self._sum_nodes(lambda node: node.idle_power_w)

    def _sum_nodes(self, of_node: Callable[[NodeType], float]) -> float:
        return sum(
            pool.n_nodes * of_node(self.node_type_of(n))
            for n, pool in self.pools.items()
        )

    def node_reactive_var(self, pool: str) -> float:
        """Return the reactive power of a pool's node at AC input [var]."""
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
        """Return the number of slots of a pool's node.

        If the pool allocates GPUs, a slot is a hundredth of a GPU; else the node is one
        slot.
        """
        if self.pools[pool].allocate == "nodes":
            return 1
        return self.node_type_of(pool).n_gpus * SLOTS_PER_GPU

    @property
    def slots(self) -> dict[str, int]:
        """Number of slots per node by pool name."""
        return {name: self.slots_per_node(name) for name in self.pools}


class SiteFacts(Model):
    """Facts of a site for interconnection forms, shown in the data sheet."""

    applicant: str | None = optional("Applicant.")
    contact: str | None = optional("Contact: name, telephone, e-mail.")
    date: str | None = optional("Date of the request.")
    point_of_interconnection: str | None = optional(
        "Point of interconnection: substation, bus."
    )
    load_class: str | None = optional("Class of the load, as the utility names it.")
    voltage_kv: PositiveFloat | None = optional(
        "Nominal voltage at the point of interconnection [kV]."
    )
    short_circuit_mva: PositiveFloat | None = optional(
        "Three-phase short-circuit power at the point of interconnection [MVA]; with "
        "x_over_r, a run with a step of 0.1 s reports rapid voltage changes."
    )
    x_over_r: PositiveFloat | None = optional(
        "Reactance per resistance of the short-circuit impedance (X/R ratio)."
    )
    transformer_impedance_percent: Annotated[float, Field(gt=0, lt=100)] | None = (
        optional("Impedance of the main transformers, per their rating [%].")
    )
    ups_ride_through_s: NonNegativeFloat | None = optional(
        "Time for which the UPS can supply the load [s]."
    )

    @property
    def short_circuit(self) -> ShortCircuit | None:
        """Short-circuit data of the grid at the point of interconnection.

        It is None if the facts don't specify it.
        """
        if self.short_circuit_mva is None or self.x_over_r is None:
            return None
        return ShortCircuit(self.short_circuit_mva, self.x_over_r)


class Scenario(Model):
    """Scenario of one run: a facility, its loads, and a time span."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = Field(
        description="Short name; run folders are named after it."
    )
    description: str = default("", "Purpose of the scenario.")
    # First, as the other keys may name what these modules register
    modules: tuple[Annotated[str, AfterValidator(import_named)], ...] = default(
        (),
        "Your own Python modules to import, which register measures, limits or kinds.",
        exclude_if=lambda value: not value,
    )
    facility: Facility = Field(description="The data center.")
    streams: dict[Name, JobStream] = Field(
        default_factory=dict, description="Streams of jobs by name."
    )
    request_streams: dict[Name, RequestStream] = Field(
        default_factory=dict, description="Streams of inference requests by name."
    )
    replica_streams: dict[
        Name, Annotated[SerializeAsAny[LoadSpec], StreamOf("replica_streams")]
    ] = Field(
        default_factory=dict,
        description=(
            "Replicas of served models, by name; a controller sets their batch sizes."
        ),
        exclude_if=lambda value: not value,
    )
    loads: tuple[Annotated[str, AfterValidator(check_import_path)], ...] = default(
        (),
        "Your own loads, each by its import path, module:Class.",
        exclude_if=lambda value: not value,
    )
    start: Moment = Field(
        description="Start in local time, an ISO date or time such as 2018-01-01."
    )
    duration: Duration = default(
        "1 year",
        "Length of the run; months and years follow the calendar, a day has 24 hours.",
    )
    warm_up: Duration | None = optional(
        "Time simulated before the start, such as 1 week, so that the run begins with "
        "a queue, running jobs and instances; it begins empty if absent. Stages with a "
        "state, such as batteries and generators, are simulated from the start only."
    )
    resolution: ResolutionMs = default(
        60_000, "Interval of the written power series, 0.1 s to 1 h."
    )
    step: ResolutionMs | None = optional(
        "Time step of loads, stages, limits and batteries, from 0.1 s to the "
        "resolution; written values are means over steps. If absent, the resolution, "
        "or a shorter step if a stage or limits of the run need one."
    )
    limits: tuple[str, ...] = default(
        (),
        (
            "Limits to check the run against: names of presets, or limit files. They "
            "may require a shorter step."
        ),
        exclude_if=lambda value: not value,
    )
    seed: int = default(0, "Seed of every random draw.", ge=0, le=MAX_SEED)
    flexibility: Flexibility | None = optional(
        "Response of the facility to the grid; none if absent."
    )
    site: SiteFacts = Field(
        default_factory=SiteFacts,
        description="Site information for the data sheet, without effect on power.",
        exclude_if=lambda value: value == SiteFacts(),
    )

    _folder: Path = PrivateAttr(default_factory=Path)

    @property
    def folder(self) -> Path:
        """Folder that relative file names refer to.

        The folder is not part of the content or its hash.
        """
        return self._folder

    def with_folder(self, folder: Path) -> Scenario:
        """Return the scenario with file names relative to another folder."""
        placed = self.model_copy()
        placed._folder = folder
        return placed

    @property
    def resolution_ms(self) -> int:
        """Interval of the written power series [ms]."""
        return self.resolution

    @property
    def step_ms(self) -> int:
        """Interval of the computation of loads, stages and limits [ms]."""
        return self.step or self.resolution_ms

    @property
    def horizon_ms(self) -> int:
        """Length of the run [ms]."""
        return self._length_ms(self.duration, 1)

    @property
    def warm_up_ms(self) -> int:
        """Simulated time before the start of the run [ms]."""
        if self.warm_up is None:
            return 0
        return -self._length_ms(self.warm_up, -1)

    def _length_ms(self, span: str, sign: int) -> int:
        """Return the time from the run's start to the end of a span [ms].

        With a sign of -1 the span is before the start.
        """
        end = end_date(self.start, span, sign)
        if self.facility.time_zone is None or not is_calendar_span(span):
            # Hours, days and weeks have their length whatever the clock does.
            return (end - self.start) // timedelta(milliseconds=1)
        return instant_ms(end.replace(tzinfo=self.facility.zone)) - instant_ms(
            self.start_with_zone
        )

    @property
    def n_intervals(self) -> int:
        """Number of intervals of the written power series."""
        return self.horizon_ms // self.resolution_ms

    @property
    def clock(self) -> RunClock:
        """Time span of the run, and the interval of its computation."""
        return RunClock(
            self.start,
            self.facility.zone,
            self.horizon_ms,
            self.step_ms,
            self.warm_up_ms,
        )

    @property
    def written_clock(self) -> RunClock:
        """Time span of the run, and the interval of the written series."""
        return replace(self.clock, step_ms=self.resolution_ms)

    @property
    def iteration_s(self) -> float:
        """Shortest iteration of a synchronous job [s]; infinite if there is none."""
        result = [math.inf]
        for stream in self.streams.values():
            n_gpus = self.facility.node_type_of(stream.pool).n_gpus
            jobs = stream.synchronous.jobs if stream.synchronous else ()
            result += [job.iteration_s(job.nodes(n_gpus) * n_gpus) for job in jobs]
        return min(result)

    @property
    def start_with_zone(self) -> datetime:
        """Start of the run in the facility's time zone."""
        return self.start.replace(tzinfo=self.facility.zone)

    def installed_nodes(self) -> dict[str, InstalledNodes]:
        """Return the installed nodes over the run, by pool."""
        return {
            name: pool.installed(self.clock)
            for name, pool in self.facility.pools.items()
        }

    def pool_names(self) -> tuple[str, ...]:
        """Return the pools' names, in the order of the `pool_id` of tables."""
        return tuple(self.facility.pools)

    def ranges(self, include_set_keys: bool = True) -> dict[str, tuple[float, float]]:
        """Return the range of each uncertain number at its default, by dotted key.

        Numbers of unused node types are omitted, and without `include_set_keys` also
        numbers that the scenario sets to their default.
        """
        of_nodes_mw = self.facility.supplied_power_w / W_PER_MW
        used = {pool.node_type for pool in self.facility.pools.values()}
        return {
            key.lstrip("."): within
            for key, within, is_set in ranges(self, "", of_nodes_mw)
            if (include_set_keys or not is_set)
            and (
                not key.startswith(".facility.node_types.") or key.split(".")[3] in used
            )
        }

    def sha256(self) -> str:
        """Return the hash of all keys that affect results (not name or description)."""
        resolved = self.model_dump(mode="json", exclude={"name", "description"})
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()
