"""The site of a scenario, the same for every run and step: size, stages, power and controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

import numpy as np

from diploee.annexes import annex
from diploee.columns import Columns, catalogue, with_boundary
from diploee.errors import LogFormatError, one_line
from diploee.facility import Block, Stage, Stages, Weather
from diploee.facility.base import POWER, REACTIVE, check_order
from diploee.inputs import Inputs
from diploee.loads.services.columns import SERVICE_COLUMNS
from diploee.power import AC_COLUMNS, PHASE_COLUMNS, POWER_COLUMNS, PowerModel, with_twins
from diploee.power.block_source import Method
from diploee.power.occupancy import absent_nodes
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.profile import NODE_AC_POWER
from diploee.scenario import Scenario
from diploee.scenario.size import site_of, sized
from diploee.schedule import QUEUE_COLUMNS, Engine
from diploee.schedule.controller import FairCaps
from diploee.schedule.policy import twin_of
from diploee.units import MS_PER_H, MS_PER_MIN, W_PER_MW


def settle(scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()) -> Scenario:
    """Return the site of a scenario as every run of it has it: in its size, whatever its span.

    A site that is settled stays as it is. Errors are those of `sized`, and a `LogFormatError` where
    a signal's cap is below what the nodes draw without a job.
    """
    settled = sized(scenario, inputs.weather_year, further)
    if scenario.flexibility is not None and "cap" in inputs.signals:
        lowest_mw = float(inputs.signals["cap"].values.min())
        idle_mw = settled.facility.idle_power_w / W_PER_MW
        if lowest_mw < idle_mw:
            given = scenario.flexibility.signals.given()["cap"]
            raise LogFormatError(
                f"{one_line(given.file)}: a cap of {lowest_mw:g} MW, expected at least the "
                f"{idle_mw:.4g} MW that the nodes draw without a job"
            )
    return settled


def open_stages(
    scenario: Scenario, further: Sequence[Stage] = (), weather: Weather | None = None
) -> tuple[Stages, Columns]:
    """Return the stages of a facility, and the catalogue of the columns that a run gives.

    Raises
    ------
    InputError
        If a stage takes the name of another column, or stands where it does not belong.
    """
    facility = scenario.facility
    check_order([*facility.stages, *further])
    site = site_of(scenario, scenario.clock, weather)
    stages = Stages([*(spec.open(site) for spec in facility.stages), *further])
    services = SERVICE_COLUMNS if scenario.request_streams else ()
    if scenario.replica_streams:
        services = (*services, *annex("replica_columns_of")(scenario.replica_streams))
    power = (*POWER_COLUMNS, *AC_COLUMNS) if facility.has_ac_power else POWER_COLUMNS
    if facility.has_phases:
        power = (*power, *PHASE_COLUMNS)
    columns = catalogue(power, QUEUE_COLUMNS, services)
    if facility.has_ac_power:
        columns = with_boundary(columns, POWER, NODE_AC_POWER)
    return stages, stages.extend(columns)


def power_model(
    scenario: Scenario,
    library: ProfileLibrary,
    profile_ids: Collection[int],
    *,
    twins: Mapping[int, PowerProfile] | None = None,
    step_ms: int | None = None,
    method: Method = "auto",
) -> PowerModel:
    """Return what sums segments that refer to some profiles of a library.

    With `twins`, those of the profiles that are sums over nodes, it gives the nodes' AC power too.
    """
    facility, ac = scenario.facility, None
    if twins is not None and facility.has_ac_power:
        library, ac = with_twins(facility, library, set(profile_ids), twins)
    return PowerModel(
        facility,
        library,
        tuple(sorted(profile_ids)),
        step_ms or scenario.step_ms,
        scenario.horizon_ms,
        method,
        ac,
        absent_nodes(scenario),
    )


def flexible_controller(
    scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()
) -> FairCaps | None:
    """Return the controller that a scenario asks for; None where it has nothing to answer."""
    signals = inputs.signals
    flexibility = scenario.flexibility
    if flexibility is None or flexibility.is_off or not flexibility.has_something_to_answer:
        return None
    overhead, has_sources = None, False
    if scenario.facility.has_ac_power or scenario.facility.stages or further:
        stages, _ = open_stages(scenario, further, inputs.weather)
        has_sources = any(c.role == "source" for stage in stages for c in stage.columns)
        overhead = meter_power(scenario, stages)
    return FairCaps(
        flexibility.events_in(scenario.clock),
        signals.get("cap"),
        flexibility.follow,
        signals,
        overhead,
        has_sources,
    )


def meter_power(scenario: Scenario, stages: Stages) -> Callable[[int, float], tuple[float, float]]:
    """Return what the meter shows at a time [ms] for a power of all devices, and sources give [W].

    ASSUMPTION: all nodes draw the same share of their ratings, and stages stand as at their start
    [J]; a controller asks again when either has changed.
    """
    facility = scenario.facility
    pools = [(pool.n_nodes, facility.node_type_of(name)) for name, pool in facility.pools.items()]
    sources = [column.name for s in stages for column in s.columns if column.role == "source"]

    @lru_cache(maxsize=4096)
    def at(hour: int, devices_w: float) -> tuple[float, float]:
        share = devices_w / facility.nodes_power_w if facility.nodes_power_w else 0.0
        ac_w = devices_w
        if facility.has_ac_power:
            ac_w = sum(n * float(node.ac_power_w(node.rated_power_w * share)) for n, node in pools)
        columns = {"it_power_w": np.array([devices_w]), POWER: np.array([ac_w])}
        if facility.has_ac_power:
            reactive_var = np.array([facility.reactive_power_var])
            columns |= {"it_ac_power_w": columns[POWER], REACTIVE: reactive_var}
        time_ms = min(max(hour * MS_PER_H, 0), scenario.horizon_ms - MS_PER_MIN)
        passed, _ = stages.apply(Block(time_ms, MS_PER_MIN, columns), stages.start())
        given_w = sum(float(passed.columns[name][0]) for name in sources)
        return float(passed.columns[POWER][0]), given_w

    step_w = max(facility.nodes_power_w / 1000, 1.0)

    def meter_w(time_ms: int, devices_w: float) -> tuple[float, float]:
        near_w = max(round(devices_w / step_w), 1) * step_w
        shown_w, given_w = at(time_ms // MS_PER_H, near_w)
        # What is drawn grows with the devices; what sources give does not.
        return (shown_w + given_w) / near_w * devices_w - given_w, given_w

    return meter_w


def fastest_engine(scenario: Scenario, inputs: Inputs) -> Engine:
    """Return the engine that gives a schedule soonest: compiled where all of it has a twin."""
    policies = [pool.scheduler.open() for pool in scenario.facility.pools.values()]
    if flexible_controller(scenario, inputs) or not all(map(twin_of, policies)):
        return "simpy"
    return "compiled"
