"""From a file or a shipped name to a checked `Scenario`; every problem at once, with its line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from diploee.errors import ScenarioError, did_you_mean, one_of, shown
from diploee.scenario.limits import size_problems
from diploee.scenario.messages import plain_messages
from diploee.scenario.models import Scenario, cross_problems
from diploee.scenario.yaml_lines import (
    KeyPath,
    dotted,
    line_of,
    load_yaml_with_lines,
    read_value,
)
from diploee.shipped import shipped_folder


def shipped_scenarios() -> dict[str, Path]:
    """Return the shipped scenarios by name."""
    return {path.stem: path for path in sorted(shipped_folder("scenarios").glob("*.yaml"))}


def find_scenario(name_or_path: str | Path) -> Path:
    """Return the file of a scenario given by path or by shipped name.

    Raises
    ------
    ScenarioError
        If there is no such file and no such name.
    """
    path = Path(name_or_path)
    shipped = shipped_scenarios()
    if os.path.isfile(path):  # noqa: PTH113  # unlike pathlib's, no error for any text
        return path
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    if os.path.isdir(path):  # noqa: PTH112
        raise ScenarioError([f"{path}: is a folder, expected a scenario file"])
    raise ScenarioError(
        [
            f"{name_or_path}: no such scenario file or shipped scenario "
            f"(shipped: {one_of(shipped)}){did_you_mean(path.stem, shipped)}"
        ]
    )


def load_scenario(
    name_or_path: str | Path,
    overrides: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Scenario:
    """Load and check a scenario.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A YAML file, or the name of a shipped scenario such as ``"colocation_10mw"``.
    overrides : sequence of str
        ``dotted.key=value`` as on the command line; the value is read as YAML.
    values : mapping, optional
        Values by dotted key, set after the overrides; errors name them as the command line's
        options, ``--target-utilization`` for ``streams.training.target_utilization``.

    Returns
    -------
    Scenario
        The checked scenario.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    path = find_scenario(name_or_path)
    data, lines = load_yaml_with_lines(path)
    if not isinstance(data, dict):
        raise ScenarioError([f"{path}:1: must hold keys such as 'name:', found {shown(data)}"])
    options = _apply(data, overrides, values or {})

    def where(place: KeyPath) -> str:
        for depth in range(len(place), 0, -1):
            option = options.get(dotted(place[:depth]))
            if option is not None:
                return ".".join((option, *map(str, place[depth:])))
        inside = [option for key, option in options.items() if key.startswith(dotted(place) + ".")]
        if inside and place:
            return f"{', '.join(inside)} (in {dotted(place)})"
        line = line_of(place, lines)
        return f"{path}{f':{line}' if line else ''} {dotted(place)}".rstrip()

    scenario = scenario_from_dict(data, where)
    scenario._folder = path.parent
    return scenario


def scenario_from_dict(data: Mapping[str, Any], where: Any = None) -> Scenario:
    """Check a scenario given as plain data.

    Parameters
    ----------
    data : mapping
        The content of a scenario file.
    where : callable, optional
        Gives the text that names a key path in an error; the dotted key by default.

    Raises
    ------
    ScenarioError
        With one line for each problem.
    """
    where = where or (lambda place: dotted(place) or "scenario")
    try:
        scenario = Scenario.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        told = plain_messages([(_key_path(detail, data), detail) for detail in details])
        raise ScenarioError(f"{where(place)}: {message}" for place, message in told) from error
    # What lies between the parts is looked at once the sizes of the parts are sound.
    problems = size_problems(scenario) or cross_problems(scenario)
    if problems:
        raise ScenarioError(f"{where(place)}: {message}" for place, message in problems)
    return scenario


def target_values(scenario: Scenario, target_utilization: float) -> dict[str, float | None]:
    """Return the values, by dotted key, that give a scenario's only stream a target.

    The target replaces a number of jobs or requests that is given.

    Raises
    ------
    ScenarioError
        If the scenario has several streams; the text names their keys.
    """
    given = {
        "streams": ("jobs_per_day",),
        "request_streams": ("request_rate_rps", "requests_per_day"),
    }
    streams = [(group, name) for group in given for name in getattr(scenario, group)]
    keys = [f"{group}.{name}.target_utilization" for group, name in streams]
    if len(keys) != 1:
        raise ScenarioError(
            [f"--target-utilization: the scenario has several streams; --set one of {one_of(keys)}"]
        )
    group, name = streams[0]
    replaced: dict[str, float | None] = {f"{group}.{name}.{key}": None for key in given[group]}
    return {**replaced, keys[0]: target_utilization}


def _apply(
    data: dict[str, Any], overrides: Sequence[str], values: Mapping[str, Any]
) -> dict[str, str]:
    """Set overrides and values in the data; return by dotted key what the user called it."""
    options: dict[str, str] = {}
    problems: list[str] = []
    for override in overrides:
        try:
            key, value = _parse_override(override)
            _set_dotted(data, key, value)
            options[key] = f"--set {key}"
        except ScenarioError as error:
            problems.extend(error.problems)
    if problems:
        raise ScenarioError(problems)
    for key, value in values.items():
        _set_dotted(data, key, value)
        if value is not None:  # what an option takes away has no option of its own
            options[key] = f"--{key.rpartition('.')[2].replace('_', '-')}"
    return options


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise ScenarioError(
            [f"--set {text}: expected dotted.key=value, such as facility.pools.h100.n_nodes=100"]
        )
    try:
        return key, read_value(value)
    except (yaml.YAMLError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "can't be read"
        raise ScenarioError([f"--set {key}: the value is not valid YAML: {problem}"]) from error


def _set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    here: Any = data
    parts = key.split(".")
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(here, list):
            items = {str(index): index for index in range(len(here))}
            if part not in items:
                have = f"0 to {len(here) - 1}" if here else "it is empty"
                raise ScenarioError([f"--set {key}: '{part}' is no item of the list ({have})"])
            name: Any = items[part]
        elif isinstance(here, dict):
            # Keys of a YAML mapping may be numbers, such as node counts.
            name = next((known for known in here if str(known) == part), part)
            if name not in here and not last:
                here[name] = {}
        else:
            raise ScenarioError(
                [f"--set {key}: '{'.'.join(parts[:depth])}' is a single value, not a group of keys"]
            )
        if last:
            here[name] = value
        elif here[name] is None:
            here[name] = {}
        here = here[name] if not last else here


def _key_path(detail: ErrorDetails, data: Any) -> KeyPath:
    """Drop the markers that pydantic adds to a location, such as ``[key]`` or a union's branch."""
    place: list[str | int] = []
    here = data
    for part in detail["loc"]:
        if part == "[key]":
            continue
        missing = detail["type"] in ("missing",) and part == detail["loc"][-1]
        if isinstance(here, dict):
            known = next((key for key in here if str(key) == str(part)), None)
            if known is None and not missing:
                continue
            place.append(known if known is not None else part)
            here = here.get(known)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            place.append(part)
            here = here[part]
    return tuple(place)
