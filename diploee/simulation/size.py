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
from diploee.base.units import W_PER_MW
from diploee.base.validation import KeyPath, checked
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
"""Maximum number of attempts at a size; one is enough if all parts of a site grow with
its nodes."""


def resolve_size(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> tuple[Scenario, float | None]:
    """Return a scenario at its requested size, and its rated power if computed [W].

    For `facility.size.poi_mw` the number of nodes is determined so that
    `rated_at_meter_w` equals that power, within one node of each pool. The ratings of
    the stages scale with the nodes. Extension stages, `further`, keep their size.
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
    requested_w, site = size.poi_mw * W_PER_MW, scenario
    rated_w = rated_at_meter_w(scenario, weather_year, further)
    for _ in range(MAX_ROUNDS):
        # From the actual number of nodes, so that rounding is not compensated
        previous, growth = site, site.facility.nodes_power_w / facility.nodes_power_w
        site = scale_scenario(scenario, growth * requested_w / rated_w)
        rated_w = rated_at_meter_w(site, weather_year, further)
        if _nodes_by_pool(site.facility) == _nodes_by_pool(previous.facility):
            break
    # A node of each pool draws at most about twice its rating at the meter.
    node_of_each_pool_w = sum(
        facility.node_type_of(name).rated_power_w for name in facility.pools
    )
    if abs(rated_w - requested_w) > 2 * node_of_each_pool_w:
        raise InputError(
            f"facility.size.poi_mw: no number of nodes makes {size.poi_mw:g} MW; the "
            f"nearest found is {rated_w / W_PER_MW:.4g} MW with "
            f"{site.facility.n_nodes:,} nodes, as every pool has one at least, or as "
            "stages do not grow with the nodes; give another size"
        )
    return site, rated_w


def rated_at_meter_w(
    scenario: Scenario,
    weather_year: Weather | None = None,
    further: Sequence[Stage] = (),
) -> float:
    """Return the power at a site's meter with all nodes at their ratings [W].

    The rated power is the highest hourly mean of `weather_year`, and does not depend on
    the run's time span. All nodes of all phases are installed and in steady state.
    Stages with a source, with storage, or with delayed load are excluded. `further` are
    extension stages after those of the scenario.
    """
    facility = scenario.facility
    clock = leap_year_clock(facility.zone)
    stages = site_stages(scenario, clock, weather_year, further)
    steady_stages = Stages([stage for stage in stages if not _is_excluded(stage)])
    excluded_columns = (
        column.name
        for stage in stages
        if _is_excluded(stage)
        for column in stage.columns
    )
    hours = np.ones(clock.n_intervals)
    columns = dict.fromkeys(excluded_columns, 0 * hours) | {
        POWER: facility.supplied_power_w * hours
    }
    if facility.has_ac_power:
        columns |= {
            "it_ac_power_w": columns[POWER],
            REACTIVE: facility.reactive_power_var * hours,
        }
    pools_by_suffix = (
        {f".{name}": [name] for name in facility.pools}
        if len(facility.pools) > 1
        else {}
    )
    for suffix, pools in {"": list(facility.pools), **pools_by_suffix}.items():
        columns |= {
            f"it_power_w{suffix}": sum(map(facility.pool_rated_power_w, pools)) * hours,
            f"busy_nodes{suffix}": sum(facility.pools[name].n_nodes for name in pools)
            * hours,
            f"utilization{suffix}": hours,
        }
    result, _ = steady_stages.apply(
        Block(0, clock.step_ms, columns), steady_stages.start()
    )
    return float(result.columns[POWER].max())


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


def _is_excluded(stage: Stage) -> bool:
    """Return True for a stage with a source or storage, or with delayed load."""
    return any(column.role in TAKEN_OFF for column in stage.columns)


def _nodes_by_pool(facility: Facility) -> list[int]:
    """Return the number of nodes of each pool."""
    return [pool.n_nodes for pool in facility.pools.values()]


def scale_scenario(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all size-dependent quantities scaled by a factor.

    These quantities are marked in the models: nodes, rates of jobs and requests,
    ratings of the facility's equipment. Whole numbers are rounded, to at least 1 unless
    they were 0. Properties of jobs, utilization and the calendar are unchanged. Raises
    a `ScenarioError` if something does not fit, such as a job larger than its pool.
    """
    scaled: Scenario = _scale_marked(scenario, factor, ())
    site = scaled.model_copy(
        update={"facility": scaled.facility.model_copy(update={"size": None})}
    )
    if problems := [
        f"{_scaled_key_text(key_path)}: {message}"
        for key_path, message in cross_problems(site)
    ]:
        raise ScenarioError(problems)
    return site


def _scaled_key_text(key_path: KeyPath) -> str:
    """Return the text of a key of the scaled site, for errors."""
    return f"facility.size: {'.'.join(map(str, key_path))} of the site in that size"


def _scale_marked(value: Any, factor: float, at: KeyPath) -> Any:
    """Return a value in which the fields marked as size-dependent are scaled."""
    match value:
        case Model():
            scaled = {
                name: _scale_marked(item, factor, (*at, name)) for name, item in value
            }
            numbers = {
                name: _scale_number(scaled[name], factor)
                for name, field in type(value).model_fields.items()
                if SCALES in field.metadata and scaled[name] is not None
            }
            changed = {
                name: item
                for name, item in scaled.items()
                if item != getattr(value, name)
            }
            if not numbers:
                return value.model_copy(update=changed)
            set_values = {name: scaled[name] for name in value.model_fields_set}
            key_text = lambda key_path: _scaled_key_text((*at, *key_path))  # noqa: E731
            return checked({**set_values, **changed, **numbers}, type(value), key_text)
        case Mapping():
            return {
                key: _scale_marked(item, factor, (*at, key))
                for key, item in value.items()
            }
        case tuple() | list():
            return type(value)(
                _scale_marked(item, factor, (*at, k)) for k, item in enumerate(value)
            )
    return value


def _scale_number(number: float, factor: float) -> float:
    """Return a number times a factor; an integer is rounded to at least 1."""
    if isinstance(number, int):
        return max(round(number * factor), min(number, 1))
    return number * factor
