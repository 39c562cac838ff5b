"""The site of a scenario, the same for every run and step.

Size, stages, power and controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from diploee.base.clock import RunClock, whole_year
from diploee.base.columns import TAKEN_OFF, Columns, catalogue, with_boundary
from diploee.base.errors import InputError, LogFormatError, StageError, one_line
from diploee.base.model import SCALES, Model
from diploee.base.units import MS_PER_H, MS_PER_MIN, W_PER_MW
from diploee.facility.base import (
    POWER,
    REACTIVE,
    Block,
    Site,
    Stage,
    Stages,
    check_order,
    numbered,
)
from diploee.facility.weather import Weather
from diploee.importers.inputs import load_inputs
from diploee.loads.inputs import Inputs
from diploee.loads.services.load import SERVICE_COLUMNS
from diploee.power.blocks import (
    AC_COLUMNS,
    PHASE_COLUMNS,
    POWER_COLUMNS,
    Method,
    PowerModel,
)
from diploee.power.node_ac import with_ac_profiles
from diploee.power.segments import absent_nodes
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import NODE_AC_POWER, PowerProfile
from diploee.scenario.loading import scenario_from_dict, with_value
from diploee.scenario.models import Facility, Scenario
from diploee.scenario.plugged import load_kind
from diploee.scenario.starter import Site as Answers
from diploee.scenario.starter import starter_text
from diploee.scenario.yaml_lines import read_text
from diploee.schedule.controller import FairCaps
from diploee.schedule.policy import twin_of
from diploee.schedule.schedule import QUEUE_COLUMNS, Engine

DRAFT_NODES = 1000
"""Nodes of the site whose power says how many make the one that is asked for."""

MOST_ROUNDS = 20
"""Tries at a size; one does where all parts of a site grow with its nodes."""


def sized(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> Scenario:
    """Return a scenario in the size that it asks for; itself where it asks for none.

    By `facility.size.poi_mw`, the site has the number of nodes that makes
    `rated_at_meter_w` that power, to a node of each pool; the ratings of its stages
    grow with them. Stages of your own, `further`, keep their size.
    """
    facility, size = scenario.facility, scenario.facility.size
    if size is None:
        return scenario
    if size.nodes_factor is not None:
        return scaled(scenario, size.nodes_factor)
    assert size.poi_mw is not None
    if not (facility.stages or further):
        raise InputError(
            "facility.size.poi_mw: the site has no facility.stages between its nodes "
            "and the point of interconnection; add them, or give nodes_factor"
        )
    if not facility.nodes_power_w > 0:
        raise InputError(
            "facility.size.poi_mw: the nodes' ratings are 0 W, so that no number of "
            "them makes it; give ratings in facility.node_types, or nodes_factor"
        )
    asked_w, site = size.poi_mw * W_PER_MW, scenario
    found_w = rated_at_meter_w(scenario, weather_year, further)
    for _ in range(MOST_ROUNDS):
        # By the nodes that there are, so that their rounding is not made up for.
        before, grown = site, site.facility.nodes_power_w / facility.nodes_power_w
        site = scaled(scenario, grown * asked_w / found_w)
        found_w = rated_at_meter_w(site, weather_year, further)
        if _nodes(site.facility) == _nodes(before.facility):
            break
    # A node of each pool draws at most about twice its rating at the meter.
    of_nodes_w = sum(
        facility.node_type_of(name).rated_power_w for name in facility.pools
    )
    if abs(found_w - asked_w) > 2 * of_nodes_w:
        raise InputError(
            f"facility.size.poi_mw: no number of nodes makes {size.poi_mw:g} MW; the "
            f"nearest found is {found_w / W_PER_MW:.4g} MW with "
            f"{site.facility.n_nodes:,} nodes, as every pool has one at least, or as "
            "stages do not grow with the nodes; give another size"
        )
    return site


def rated_at_meter_w(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> float:
    """Return the power of a site at its meter with all nodes at their ratings [W].

    It is the mean of the hour of `weather_year` in which that is most, whatever span is
    run: all nodes of all phases there, in steady state, and stages with a source, a
    store or held back load out. `further` are stages of your own behind those of the
    scenario.
    """
    facility = scenario.facility
    clock = whole_year(facility.zone)
    stages = _stages_of(scenario, clock, weather_year, further)
    kept = Stages([stage for stage in stages if not _is_out(stage)])
    out = (
        column.name for stage in stages if _is_out(stage) for column in stage.columns
    )
    hours = np.ones(clock.n_intervals)
    columns = dict.fromkeys(out, 0 * hours) | {POWER: facility.supplied_power_w * hours}
    if facility.has_ac_power:
        columns |= {
            "it_ac_power_w": columns[POWER],
            REACTIVE: facility.reactive_power_var * hours,
        }
    of_pools = (
        {f".{name}": [name] for name in facility.pools}
        if len(facility.pools) > 1
        else {}
    )
    for owner, pools in {"": list(facility.pools), **of_pools}.items():
        columns |= {
            f"it_power_w{owner}": sum(map(facility.pool_rated_power_w, pools)) * hours,
            f"busy_nodes{owner}": sum(facility.pools[name].n_nodes for name in pools)
            * hours,
            f"utilization{owner}": hours,
        }
    passed, _ = kept.apply(Block(0, clock.step_ms, columns), kept.start())
    return float(passed.columns[POWER].max())


def rated_w(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> float:
    """Return the rated power where the facility's power is taken [W].

    That is `facility.rated_power_mw` or the devices' ratings where it is theirs, and
    else `rated_at_meter_w`. It is 0, unknown, where a stage reads columns that only a
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


def _stages_of(
    scenario: Scenario,
    clock: RunClock,
    weather: Weather | None,
    further: Sequence[Stage],
) -> Stages:
    """Return a scenario's stages over a span of time, and further ones."""
    facility = scenario.facility
    specs = numbered([*facility.stages, *further])
    n_own = len(facility.stages)
    site = Site(
        clock,
        facility.supplied_power_w,
        facility.has_ac_power,
        weather,
        scenario.folder,
        tuple(column for spec in specs[:n_own] for column in spec.columns),
    )
    return Stages([*(spec.open(site) for spec in specs[:n_own]), *specs[n_own:]])


def _is_out(stage: Stage) -> bool:
    return any(column.role in TAKEN_OFF for column in stage.columns)


def _nodes(facility: Facility) -> list[int]:
    return [pool.n_nodes for pool in facility.pools.values()]


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all that grows with a site scaled by a factor.

    What grows is marked in the models: nodes, rates of jobs and requests, ratings of
    the facility's parts. Whole numbers are rounded, to one at least where there was
    one; what jobs are like, how much of the nodes they use and the calendar stay. A
    `ScenarioError` says what does not fit, such as a job wider than its pool.
    """
    data = _multiplied(scenario, scenario.model_dump(mode="json"), factor)
    data["facility"].pop("size", None)
    return scenario_from_dict(data, _of_scaled).beside(scenario.folder)


def _of_scaled(key_path: tuple[Any, ...]) -> str:
    return f"facility.size: {'.'.join(map(str, key_path))} of the site in that size"


def _multiplied(value: Any, data: Any, factor: float) -> Any:
    """Return plain data of a value with the marked fields within multiplied."""
    if isinstance(value, Model) and isinstance(data, dict):
        fields = type(value).model_fields
        return {
            key: _grown(item, factor)
            if SCALES in fields[key].metadata
            else _multiplied(getattr(value, key), item, factor)
            for key, item in data.items()
        }
    if isinstance(value, Mapping):
        within = zip(data.items(), value.values(), strict=True)
        return {key: _multiplied(inner, item, factor) for (key, item), inner in within}
    if isinstance(value, tuple | list):
        within = zip(value, data, strict=True)
        return [_multiplied(inner, item, factor) for inner, item in within]
    return data


def _grown(number: float | None, factor: float) -> float | None:
    if isinstance(number, int):
        return max(round(number * factor), min(number, 1))
    return None if number is None else number * factor


def settle(
    scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()
) -> Scenario:
    """Return the site of a scenario as every run of it has it.

    In its size, whatever its span. A site that is settled stays as it is. Errors are
    those of `sized`, and a `LogFormatError` where a signal's cap is below what the
    nodes draw without a job.
    """
    settled = sized(scenario, inputs.weather_year, further)
    if scenario.flexibility is not None and "cap" in inputs.signals:
        lowest_mw = float(inputs.signals["cap"].values.min())
        idle_mw = settled.facility.idle_power_w / W_PER_MW
        if lowest_mw < idle_mw:
            given = scenario.flexibility.signals.given()["cap"]
            raise LogFormatError(
                f"{one_line(given.file)}: a cap of {lowest_mw:g} MW, expected at "
                f"least the {idle_mw:.4g} MW that the nodes draw without a job"
            )
    return settled


def starter(answers: Answers, name: str) -> tuple[str, int]:
    """Return a first scenario of a site as text, and how many nodes make its power."""
    # Whose job is of given nodes
    draft = answers.model_copy(update={"largest_job": 0.0})
    data, _ = read_text(starter_text(draft, name, DRAFT_NODES))
    data = with_value(
        data, "facility.size", {"poi_mw": answers.poi_mw}, lambda: "facility.size"
    )
    scenario = scenario_from_dict(data)
    n_nodes = settle(scenario, load_inputs(scenario)).facility.n_nodes
    text = starter_text(answers, name, n_nodes)
    scenario_from_dict(read_text(text)[0])
    return text, n_nodes


def open_stages(
    scenario: Scenario, further: Sequence[Stage] = (), weather: Weather | None = None
) -> tuple[Stages, Columns]:
    """Return a facility's stages, and the catalogue of the columns of a run.

    Raises
    ------
    InputError
        If a stage takes the name of another column, or stands where it does not belong.
    """
    facility = scenario.facility
    check_order([*facility.stages, *further])
    stages = _stages_of(scenario, scenario.clock, weather, further)
    services = SERVICE_COLUMNS if scenario.request_streams else ()
    if scenario.replica_streams:
        replicas = load_kind("replica_streams").columns_of(scenario.replica_streams)
        services = (*services, *replicas)
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
    ac_profiles: Mapping[int, PowerProfile] | None = None,
    step_ms: int | None = None,
    method: Method = "auto",
) -> PowerModel:
    """Return what sums segments that refer to some profiles of a library.

    With `ac_profiles`, those of sums over nodes, it gives the nodes' AC power too.
    """
    facility, ac = scenario.facility, None
    if ac_profiles is not None and facility.has_ac_power:
        library, ac = with_ac_profiles(facility, library, set(profile_ids), ac_profiles)
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
    """Return the controller that a scenario asks for.

    None where it has nothing to answer.
    """
    signals = inputs.signals
    flexibility = scenario.flexibility
    if (
        flexibility is None
        or flexibility.is_off
        or not flexibility.has_something_to_answer
    ):
        return None
    overhead, has_sources = None, False
    if scenario.facility.has_ac_power or scenario.facility.stages or further:
        stages, _ = open_stages(scenario, further, inputs.weather)
        has_sources = any(c.role == "source" for stage in stages for c in stage.columns)
        overhead = _meter_power(scenario, stages)
    return FairCaps(
        flexibility.events_in(scenario.clock),
        signals.get("cap"),
        flexibility.follow,
        signals,
        overhead,
        has_sources,
    )


def _meter_power(
    scenario: Scenario, stages: Stages
) -> Callable[[int, float], tuple[float, float]]:
    """Return what the meter shows at a time [ms], and what sources give [W].

    ASSUMPTION: all nodes draw the same share of their ratings, and stages stand as at
    their start [J]; a controller asks again when either has changed.
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
    def at(hour: int, devices_w: float) -> tuple[float, float]:
        share = devices_w / facility.nodes_power_w if facility.nodes_power_w else 0.0
        ac_w = devices_w
        if facility.has_ac_power:
            ac_w = sum(
                n * float(node.ac_power_w(node.rated_power_w * share))
                for n, node in pools
            )
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
    """Return the engine that gives a schedule soonest.

    Compiled where all of it has a twin.
    """
    policies = [pool.scheduler.open() for pool in scenario.facility.pools.values()]
    if flexible_controller(scenario, inputs) or not all(map(twin_of, policies)):
        return "simpy"
    return "compiled"
