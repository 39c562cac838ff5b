"""Prepared site: all data of a site that are resolved once before its runs.

These are its size, the stages of its power chain with their output columns, its rated
power, its load controller, and extension code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, inf
from typing import Any, Protocol, get_args

import numpy as np

from diploee.base.column_specs import Columns, catalogue, with_boundary
from diploee.base.errors import (
    InputError,
    LogFormatError,
    StageError,
    one_line,
    one_of,
    shown,
)
from diploee.base.metric import is_number_within
from diploee.base.model import Model
from diploee.base.tables import MAX_SIZE
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, PROFILE_STEP_MS, W_PER_MW
from diploee.facility.base import POWER, REACTIVE, Block, Stage, Stages, check_order
from diploee.facility.weather import Weather
from diploee.loads.base import OpenLoad
from diploee.loads.inputs import Inputs
from diploee.loads.services.load import SERVICE_COLUMNS
from diploee.power.blocks import AC_COLUMNS, PHASE_COLUMNS, POWER_COLUMNS
from diploee.profiles.profile import PowerBoundary
from diploee.scenario.extension_loads import load_kind
from diploee.scenario.models import Scenario
from diploee.scenario.times import steps_ms
from diploee.schedule.context import Controller
from diploee.schedule.load_controller import FairPowerCaps
from diploee.schedule.policy import Policy, compiled_engine_for
from diploee.schedule.schedule import QUEUE_COLUMNS, Engine
from diploee.simulation.own_parts import OwnPart, own_parts
from diploee.simulation.size import rated_at_meter_w, resolve_size, site_stages


class Sink(Protocol):
    """Protocol of a receiver of a run's blocks in time order, such as a file."""

    def add(self, block: Block) -> None:
        """Add a block."""
        ...


class Watch:
    """Observer of a run, at the time step that the observer needs.

    This base class observes nothing.
    """

    models: Sequence[Model] = ()
    """Models that the observer checks the run against, each at about the same cost."""

    def needed_step_ms(self, scenario: Scenario) -> int:
        """Return the coarsest step that loses no detail for the observer [ms]."""
        return scenario.resolution_ms

    def lower_end(self, scenario: Scenario) -> Scenario | None:  # noqa: ARG002
        """Return the scenario at the lower end of large jobs, if also observed."""
        return None

    def open(
        self,
        pipeline: Any,  # noqa: ARG002
        rated_power_w: float,  # noqa: ARG002
        peak_mw: Callable[[], float],  # noqa: ARG002
        tell: Callable[[str], None],  # noqa: ARG002
    ) -> Sequence[Any]:
        """Return sinks that observe a run, and its lower end if there is one.

        `peak_mw` is a function that simulates the run's peak. Sinks report results that
        are certain before the end by `tell`. The attribute `is_decided` of a sink is
        True once later blocks cannot change its compliance result.
        """
        return ()

    def content(self, sinks: Sequence[Any], metrics: Any) -> Any:  # noqa: ARG002
        """Return the content of ``limits.json`` from the sinks' results."""
        return {}


@dataclass(frozen=True, eq=False)
class RunOptions:
    """Options of a run: settings, Python objects that take part, outputs."""

    # Scheduling engine; both give the same start times; None: the faster one
    engine: Engine | None = "simpy"
    # Custom queue disciplines by pool
    policies: Mapping[str, Policy] | None = None
    stages: Sequence[Stage] = ()  # extension stages, after those of the scenario
    # Controller of the jobs of all pools; None: that of the scenario
    controller: Controller | None = None
    # Functions that open further loads, with the profile library of those before
    loads: Sequence[OpenLoad] = ()
    sinks: Sequence[Sink] = ()  # the caller's receivers of blocks
    force: bool = False  # True to replace an existing run folder
    event_windows: bool = False  # True to write the worst windows at 0.1 s
    by_load: bool = False  # True to write the power of each stream and service
    before_stores: bool = (
        False  # True to write the load upstream of storage, in float64
    )
    jobs_file: bool = True  # True to write the file of jobs
    nodes_file: bool = False  # True to write the file of node allocations
    # Threads of the power computation; None: as many as cores, at most four
    n_threads: int | None = None
    window_days: float | None = None  # days simulated at a time, to a quarter
    at_most_s: float | None = None  # maximum forecast run time [s]
    at_most_mb: float | None = None  # maximum forecast memory [MB]
    # True to stop with `EarlyStopError` once no compliance result can change
    until_decided: bool = False

    def __post_init__(self) -> None:
        for name in ("loads", "stages", "sinks"):
            value = getattr(self, name)
            expect(isinstance(value, tuple | list), name, "a list", value)
        for sink in self.sinks:
            can_add = not isinstance(sink, type) and callable(
                getattr(sink, "add", None)
            )
            expect(can_add, "sinks", "objects with a method add(block)", sink)
        by_pool = isinstance(self.policies, Mapping | None)
        expect(by_pool, "policies", "a policy by name of its pool", self.policies)
        engines = get_args(Engine)
        expect(self.engine in (None, *engines), "engine", one_of(engines), self.engine)
        for name in ("window_days", "n_threads", "at_most_s", "at_most_mb"):
            value = getattr(self, name)
            is_valid = value in (None, inf) or is_number_within(value, 0, MAX_SIZE)
            expect(is_valid, name, "a number from 0 on, or None", value)


def expect(is_expected: bool, name: str, expected: str, value: object) -> None:
    """Raise an error if a value is not as expected."""
    if not is_expected:
        raise InputError(f"{name}: expected {expected}, found {one_line(shown(value))}")


AS_USUAL, NO_WATCH = RunOptions(), Watch()


@dataclass(frozen=True, eq=False)
class PreparedSite:
    """Site with all resolved data that its runs share."""

    requested: Scenario  # scenario as requested, at the step of the run
    scenario: Scenario  # scenario at its final size
    inputs: Inputs  # data read from files
    options: RunOptions  # options of the run
    watch: Watch  # observer of the run
    own_parts: Sequence[OwnPart]  # extension code from outside the package
    rated_power_w: float  # rated power at the point of measurement [W]; 0 if unknown
    stages: Stages  # opened stages
    columns: Columns  # columns of stages, power, queues and services
    controller: Controller | None  # load controller of its jobs

    @property
    def engine(self) -> Engine:
        """Scheduling engine; by default the faster possible one.

        The compiled engine is used if all policies have a compiled implementation.
        """
        policies = (
            pool.scheduler.open() for pool in self.scenario.facility.pools.values()
        )
        is_plain = self.controller is None and all(map(compiled_engine_for, policies))
        return self.options.engine or ("compiled" if is_plain else "simpy")

    def with_fresh_state(self) -> PreparedSite:
        """Return the site with new copies of the objects that a run changes."""
        controller, policies = deepcopy((self.controller, self.options.policies))
        options = replace(self.options, policies=policies)
        return replace(self, controller=controller, options=options)

    def with_scenario(self, scenario: Scenario) -> PreparedSite:
        """Return the site with a scenario that differs in loads or step only."""
        if scenario.clock == self.scenario.clock:
            return replace(self, scenario=scenario)
        stages, columns = open_stages(
            scenario, self.options.stages, self.inputs.weather
        )
        return replace(self, scenario=scenario, stages=stages, columns=columns)


def at_needed_step(
    scenario: Scenario, further: Sequence[Stage] = (), watch: Watch = NO_WATCH
) -> Scenario:
    """Return a scenario with the step that its stages and an observer need.

    A step in the scenario is kept.

    Raises
    ------
    InputError
        If the scenario's step is coarser than a stage needs. An observer accepts a
        coarser step with less detail.
    """
    resolution_ms = scenario.resolution_ms
    step_by_stage: dict[str, int] = {}
    for number, stage in enumerate([*scenario.facility.stages, *further]):
        stage_step_ms = getattr(stage, "needed_step_ms", lambda: None)()
        if stage_step_ms is not None:
            finer_steps = (ms for ms in steps_ms(resolution_ms) if ms <= stage_step_ms)
            kind = getattr(stage, "kind", type(stage).__name__)
            step_by_stage[f"facility.stages.{number} ({kind})"] = next(
                finer_steps, PROFILE_STEP_MS
            )
    for stage_text, step_ms in step_by_stage.items():
        if scenario.step is not None and step_ms < scenario.step:
            raise InputError(
                f"step: {scenario.step / MS_PER_S:g} s is coarser than the "
                f"{step_ms / MS_PER_S:g} s that {stage_text} needs; give that, or "
                "leave it out"
            )
    if scenario.step is not None:
        return scenario
    needed_ms = gcd(
        resolution_ms, *step_by_stage.values(), watch.needed_step_ms(scenario)
    )
    if needed_ms == resolution_ms:
        return scenario
    return scenario.model_copy(update={"step": needed_ms})


def prepare(
    scenario: Scenario,
    inputs: Inputs,
    options: RunOptions = AS_USUAL,
    watch: Watch = NO_WATCH,
) -> PreparedSite:
    """Return the prepared site of a scenario, with all that its runs share.

    The stages are created for the time of the run, and again for the year of weather by
    which the site is rated. If a size is requested, they are also created for each size
    that is tried.

    Raises
    ------
    InputError
        If the size is not feasible, or a stage is at a wrong position in the chain.
    """
    further = options.stages
    site, rated_power_w = size_site(scenario, inputs, further)
    extensions = {
        "controller": filter(None, [options.controller]),
        "policy": (options.policies or {}).values(),
        "stage": further,
        "load": options.loads,
    }
    parts = own_parts(site, inputs, None, watch.models, **extensions)
    stages, columns = open_stages(site, further, inputs.weather)
    if rated_power_w is None:
        rated_power_w = _rated_w(site, inputs.weather_year, further)
    controller = options.controller or flexible_controller(site, inputs, stages)
    return PreparedSite(
        scenario,
        site,
        inputs,
        options,
        watch,
        parts,
        rated_power_w,
        stages,
        columns,
        controller,
    )


def size_site(
    scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()
) -> tuple[Scenario, float | None]:
    """Return a scenario at its requested size, and its rated power if computed [W].

    A scenario whose size is already determined is returned unchanged. Errors are those
    of `resolve_size`, and a `LogFormatError` if a signal's cap is below the idle power
    of the nodes.
    """
    sized, rated_power_w = resolve_size(scenario, inputs.weather_year, further)
    if scenario.flexibility is not None and "cap" in inputs.signals:
        lowest_mw = float(inputs.signals["cap"].values.min())
        idle_mw = sized.facility.idle_power_w / W_PER_MW
        if lowest_mw < idle_mw:
            signal_spec = scenario.flexibility.signals.configured()["cap"]
            raise LogFormatError(
                f"{one_line(signal_spec.file)}: a cap of {lowest_mw:g} MW, expected at "
                f"least the {idle_mw:.4g} MW that the nodes draw without a job"
            )
    return sized, rated_power_w


def _rated_w(
    scenario: Scenario, weather_year: Weather | None, further: Sequence[Stage]
) -> float:
    """Return the rated power at the facility's point of power measurement [W].

    It is `facility.rated_power_mw`, or the sum of the devices' ratings at the devices,
    or else `rated_at_meter_w`. It is 0 (unknown) if a stage reads columns that only a
    run has, such as its queue.
    """
    facility = scenario.facility
    if not (facility.stages or further or facility.has_ac_power):
        return facility.rated_power_w
    try:
        return rated_at_meter_w(scenario, weather_year, further)
    except StageError as error:
        if not isinstance(error.__cause__, KeyError):
            raise
        return 0.0


def open_stages(
    scenario: Scenario, further: Sequence[Stage] = (), weather: Weather | None = None
) -> tuple[Stages, Columns]:
    """Return a facility's opened stages, and the declarations of a run's columns.

    Raises
    ------
    InputError
        If a stage uses the name of another column, or is at a wrong position.
    """
    facility = scenario.facility
    check_order([*facility.stages, *further])
    stages = site_stages(scenario, scenario.clock, weather, further)
    services = SERVICE_COLUMNS if scenario.request_streams else ()
    if scenario.replica_streams:
        replicas = load_kind("replica_streams").columns_of(scenario.replica_streams)
        services = (*services, *replicas)
    power = (*POWER_COLUMNS, *AC_COLUMNS) if facility.has_ac_power else POWER_COLUMNS
    if facility.has_phases:
        power = (*power, *PHASE_COLUMNS)
    columns = catalogue(power, QUEUE_COLUMNS, services)
    if facility.has_ac_power:
        columns = with_boundary(columns, POWER, PowerBoundary.NODE_AC)
    return stages, stages.extend(columns)


def flexible_controller(
    scenario: Scenario, inputs: Inputs, stages: Stages
) -> FairPowerCaps | None:
    """Return the load controller of a scenario, or None if it needs none."""
    signals = inputs.signals
    flexibility = scenario.flexibility
    if flexibility is None or flexibility.is_off or not flexibility.has_requests:
        return None
    meter_power, has_sources = None, False
    if scenario.facility.has_ac_power or stages:
        has_sources = any(c.role == "source" for stage in stages for c in stage.columns)
        meter_power = _meter_power(scenario, stages)
    return FairPowerCaps(
        flexibility.events_in(scenario.clock),
        signals.get("cap"),
        flexibility.follow,
        signals,
        meter_power,
        has_sources,
    )


def _meter_power(
    scenario: Scenario, stages: Stages
) -> Callable[[int, float], tuple[float, float]]:
    """Return a function from time [ms] and device power to site power [W].

    The function returns the power at the meter and the power of sources. Assumed
    (judgement): all nodes draw the same fraction of their ratings, and stages are in
    their initial state. A controller calls the function again if time or power has
    changed.
    """
    facility = scenario.facility
    pools = [
        (pool.n_nodes, facility.node_type_of(name))
        for name, pool in facility.pools.items()
    ]
    sources = [
        column.name for s in stages for column in s.columns if column.role == "source"
    ]

    @lru_cache(maxsize=4096)
    def hourly_w(hour: int, devices_w: float) -> tuple[float, float]:
        """Return the power at the meter and of sources in an hour [W]."""
        fraction = devices_w / facility.nodes_power_w if facility.nodes_power_w else 0.0
        ac_w = devices_w
        if facility.has_ac_power:
            ac_w = sum(
                n * float(node.ac_power_w(node.rated_power_w * fraction))
                for n, node in pools
            )
        columns = {"it_power_w": np.array([devices_w]), POWER: np.array([ac_w])}
        if facility.has_ac_power:
            reactive_var = np.array([facility.reactive_power_var])
            columns |= {"it_ac_power_w": columns[POWER], REACTIVE: reactive_var}
        time_ms = min(max(hour * MS_PER_H, 0), scenario.horizon_ms - MS_PER_MIN)
        result, _ = stages.apply(Block(time_ms, MS_PER_MIN, columns), stages.start())
        source_w = sum(float(result.columns[name][0]) for name in sources)
        return float(result.columns[POWER][0]), source_w

    step_w = max(facility.nodes_power_w / 1000, 1.0)

    def meter_w(time_ms: int, devices_w: float) -> tuple[float, float]:
        """Return the power at the meter and of sources at a time [W]."""
        rounded_w = max(round(devices_w / step_w), 1) * step_w
        metered_w, source_w = hourly_w(time_ms // MS_PER_H, rounded_w)
        # Consumption grows with the devices' power; that of sources does not.
        return (metered_w + source_w) / rounded_w * devices_w - source_w, source_w

    return meter_w
