"""Size of a site: rated power at the meter, and scaling to a requested rated power.

Both are independent of the time span and the step of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diploee.base.clock import RunClock, leap_year_clock
from diploee.base.column_specs import TAKEN_OFF
from diploee.base.errors import InputError, ScenarioError
from diploee.base.model import SCALES, Model
from diploee.base.plain_data import KeyPath, checked
from diploee.base.units import W_PER_MW
from diploee.facility.base import (
    POWER,
    REACTIVE,
    Block,
    SiteView,
    Stage,
    Stages,
    apply_name,
)
from diploee.facility.weather import Weather
from diploee.scenario.cross_checks import cross_problems
from diploee.scenario.models import Facility, Scenario

MAX_ROUNDS = 20
"""Tries at a size; one does where all parts of a site grow with its nodes."""


def resolve_size(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> tuple[Scenario, float | None]:
    """Return a scenario at its requested size, and its rated power if needed [W].

    For `facility.size.poi_mw` the number of nodes is solved for so that
    `rated_at_meter_w` equals that power, to one node of each pool. The ratings of the
    stages scale with the nodes. Extension stages, `further`, keep their size.
    """
    facility, size = scenario.facility, scenario.facility.size
    if size is None:
        return scenario, None
    if size.nodes_factor is not None:
        return scale_scenario(scenario, size.nodes_factor), None
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
    for _ in range(MAX_ROUNDS):
        # By the nodes that there are, so that their rounding is not made up for.
        before, grown = site, site.facility.nodes_power_w / facility.nodes_power_w
        site = scale_scenario(scenario, grown * asked_w / found_w)
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
    return site, found_w


def rated_at_meter_w(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> float:
    """Return the power at a site's meter with all nodes at their ratings [W].

    It is the mean over the hour of `weather_year` with the highest mean, for any time
    span of the run: all nodes of all phases are installed, in steady state, and stages
    with a source or storage, or with delayed load, are excluded. `further` are
    extension stages after those of the scenario.
    """
    facility = scenario.facility
    clock = leap_year_clock(facility.zone)
    stages = site_stages(scenario, clock, weather_year, further)
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


def site_stages(
    scenario: Scenario,
    clock: RunClock,
    weather: Weather | None,
    further: Sequence[Stage],
) -> Stages:
    """Return a scenario's stages opened over a time span, then extension stages."""
    facility = scenario.facility
    specs = facility.stages
    site = SiteView(
        clock,
        facility.supplied_power_w,
        facility.has_ac_power,
        weather,
        scenario.folder,
        tuple(column for spec in specs for column in apply_name(spec, spec).columns),
    )
    return Stages([*(apply_name(spec.open(site), spec) for spec in specs), *further])


def _is_out(stage: Stage) -> bool:
    return any(column.role in TAKEN_OFF for column in stage.columns)


def _nodes(facility: Facility) -> list[int]:
    return [pool.n_nodes for pool in facility.pools.values()]


def scale_scenario(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all size-dependent quantities scaled by a factor.

    They are marked in the models: nodes, rates of jobs and requests, ratings of the
    facility's equipment. Whole numbers are rounded, to at least 1 unless they were 0.
    Properties of jobs, utilization and the calendar are unchanged. Raises a
    `ScenarioError` if something does not fit, such as a job larger than its pool.
    """
    grown: Scenario = _scale_marked(scenario, factor, ())
    site = grown.model_copy(
        update={"facility": grown.facility.model_copy(update={"size": None})}
    )
    if problems := [
        f"{_of_scaled(at)}: {message}" for at, message in cross_problems(site)
    ]:
        raise ScenarioError(problems)
    return site


def _of_scaled(key_path: KeyPath) -> str:
    return f"facility.size: {'.'.join(map(str, key_path))} of the site in that size"


def _scale_marked(value: Any, factor: float, at: KeyPath) -> Any:
    """Return a value with its marked fields multiplied by a factor."""
    match value:
        case Model():
            result = {
                name: _scale_marked(of, factor, (*at, name)) for name, of in value
            }
            numbers = {
                name: _scale_number(result[name], factor)
                for name, field in type(value).model_fields.items()
                if SCALES in field.metadata and result[name] is not None
            }
            changed = {
                name: of for name, of in result.items() if of != getattr(value, name)
            }
            if not numbers:
                return value.model_copy(update=changed)
            given = {name: result[name] for name in value.model_fields_set}
            where = lambda key_path: _of_scaled((*at, *key_path))  # noqa: E731
            return checked({**given, **changed, **numbers}, type(value), where)
        case Mapping():
            return {
                key: _scale_marked(of, factor, (*at, key)) for key, of in value.items()
            }
        case tuple() | list():
            return type(value)(
                _scale_marked(of, factor, (*at, k)) for k, of in enumerate(value)
            )
    return value


def _scale_number(number: float, factor: float) -> float:
    if isinstance(number, int):
        return max(round(number * factor), min(number, 1))
    return number * factor
