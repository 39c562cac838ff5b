"""The same site in another size: nodes, rates and ratings scaled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diploee.clock import RunClock, whole_year
from diploee.columns import TAKEN_OFF
from diploee.errors import InputError, StageError
from diploee.facility import Block, Site, Stage, Stages, Weather
from diploee.facility.base import POWER, REACTIVE
from diploee.model import SCALES, Model
from diploee.scenario.loading import scenario_from_dict
from diploee.scenario.models import Facility, Scenario
from diploee.units import W_PER_MW

MOST_ROUNDS = 20
"""Tries at a size; one does where all parts of a site grow with its nodes."""


def sized(
    scenario: Scenario, weather_year: Weather | None = None, further: Sequence[Stage] = ()
) -> Scenario:
    """Return a scenario in the size that it asks for; itself where it asks for none.

    By `facility.size.poi_mw`, the site has the number of nodes that makes `rated_at_meter_w` that
    power, to a node of each pool; the ratings of its stages grow with them. Stages of your own,
    `further`, keep their size.
    """
    facility, size = scenario.facility, scenario.facility.size
    if size is None:
        return scenario
    if size.nodes_factor is not None:
        return scaled(scenario, size.nodes_factor)
    assert size.poi_mw is not None
    if not (facility.stages or further):
        raise InputError(
            "facility.size.poi_mw: the site has no facility.stages between its nodes and the point "
            "of interconnection; add them, or give nodes_factor"
        )
    if not facility.nodes_power_w > 0:
        raise InputError(
            "facility.size.poi_mw: the nodes' ratings are 0 W, so that no number of them makes it; "
            "give ratings in facility.node_types, or nodes_factor"
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
    of_nodes_w = sum(facility.node_type_of(name).rated_power_w for name in facility.pools)
    if abs(found_w - asked_w) > 2 * of_nodes_w:
        raise InputError(
            f"facility.size.poi_mw: no number of nodes makes {size.poi_mw:g} MW; the nearest found "
            f"is {found_w / W_PER_MW:.4g} MW with {site.facility.n_nodes:,} nodes, as every pool "
            "has one at least, or as stages do not grow with the nodes; give another size"
        )
    return site


def rated_at_meter_w(
    scenario: Scenario, weather_year: Weather | None = None, further: Sequence[Stage] = ()
) -> float:
    """Return the power of a site at its meter with all nodes at their ratings [W].

    It is the mean of the hour of `weather_year` in which that is most, whatever span is run: all
    nodes of all phases there, in steady state, and stages with a source, a store or held back load
    out. `further` are stages of your own behind those of the scenario.
    """
    facility = scenario.facility
    clock = whole_year(facility.zone)
    site = site_of(scenario, clock, weather_year)
    stages = Stages([*(spec.open(site) for spec in facility.stages), *further])
    kept = Stages([stage for stage in stages if not _is_out(stage)])
    out = (column.name for stage in stages if _is_out(stage) for column in stage.columns)
    hours = np.ones(clock.n_intervals)
    columns = dict.fromkeys(out, 0 * hours) | {POWER: facility.supplied_power_w * hours}
    if facility.has_ac_power:
        columns |= {
            "it_ac_power_w": columns[POWER],
            REACTIVE: facility.reactive_power_var * hours,
        }
    of_pools = {f".{name}": [name] for name in facility.pools} if len(facility.pools) > 1 else {}
    for owner, pools in {"": list(facility.pools), **of_pools}.items():
        columns |= {
            f"it_power_w{owner}": sum(map(facility.pool_rated_power_w, pools)) * hours,
            f"busy_nodes{owner}": sum(facility.pools[name].n_nodes for name in pools) * hours,
            f"utilization{owner}": hours,
        }
    passed, _ = kept.apply(Block(0, clock.step_ms, columns), kept.start())
    return float(passed.columns[POWER].max())


def rated_w(
    scenario: Scenario, weather_year: Weather | None = None, further: Sequence[Stage] = ()
) -> float:
    """Return the rated power where the facility's power is taken [W].

    That is `facility.rated_power_mw` or the devices' ratings where it is theirs, and else
    `rated_at_meter_w`. It is 0, unknown, where a stage reads columns that only a run has, such as
    its queue.
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


def site_of(scenario: Scenario, clock: RunClock, weather: Weather | None) -> Site:
    """Return what the stages of a scenario know of where they stand, over a span of time."""
    facility = scenario.facility
    return Site(
        clock,
        facility.supplied_power_w,
        facility.has_ac_power,
        weather,
        scenario.folder,
        tuple(column for spec in facility.stages for column in spec.columns),
    )


def _is_out(stage: Stage) -> bool:
    return any(column.role in TAKEN_OFF for column in stage.columns)


def _nodes(facility: Facility) -> list[int]:
    return [pool.n_nodes for pool in facility.pools.values()]


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all that grows with a site multiplied by a positive factor.

    What grows is marked in the models: nodes, rates of jobs and requests, ratings of the facility's
    parts. Whole numbers are rounded, to one at least where there was one; what jobs are like,
    how much of the nodes they use and the calendar stay. A `ScenarioError` says what does not fit,
    such as a job wider than its pool.
    """
    data = _multiplied(scenario, scenario.model_dump(mode="json"), factor)
    data["facility"].pop("size", None)
    return scenario_from_dict(data, _of_scaled(factor)).beside(scenario.folder)


def _of_scaled(factor: float) -> Any:
    def where(key_path: tuple[Any, ...]) -> str:
        key = ".".join(map(str, key_path))
        return f"facility.size: {key} times {factor:.4g}"

    return where


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
