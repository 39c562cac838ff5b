"""The same site in another size: nodes, rates and ratings scaled together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diploee.model import SCALES, Model
from diploee.scenario.loading import scenario_from_dict
from diploee.scenario.models import Scenario


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all that grows with a site multiplied.

    What grows is marked in the models: nodes, rates of jobs and requests, ratings of the facility's
    parts. Whole numbers are rounded, to one at least where there was one; what jobs are like,
    how much of the nodes they use and the calendar stay.

    Parameters
    ----------
    scenario : Scenario
        The site as it is described.
    factor : float
        What to multiply by, positive.

    Raises
    ------
    ScenarioError
        If the site in its new size does not hold together, such as a job wider than its pool.
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
