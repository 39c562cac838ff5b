"""From a file or a shipped name to a checked `Scenario`; every problem at once, with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from diploee.errors import ScenarioError, did_you_mean, one_of
from diploee.scenario.models import Scenario, cross_problems
from diploee.scenario.yaml_lines import KeyPath, dotted, line_of, load_yaml_with_lines
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
    if path.is_file():
        return path
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    if path.is_dir():
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
        Values by dotted key, set after the overrides.

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
        raise ScenarioError([f"{path}:1: expected keys such as 'name:', found {data!r:.40}"])
    changes = [_parse_override(override) for override in overrides]
    changes += list((values or {}).items())
    for key, value in changes:
        _set_dotted(data, key, value)
    origin = {key for key, _ in changes}

    def where(place: KeyPath) -> str:
        for depth in range(len(place), 0, -1):
            if dotted(place[:depth]) in origin:
                return f"--set {dotted(place)}"
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
    where = where or dotted
    try:
        scenario = Scenario.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(
            f"{where(_key_path(detail, data))}: {_message(detail)}" for detail in error.errors()
        ) from error
    problems = cross_problems(scenario)
    if problems:
        raise ScenarioError(f"{where(place)}: {message}" for place, message in problems)
    return scenario


def target_key(scenario: Scenario) -> str:
    """Return the dotted key of the target utilization, where a scenario has just one stream.

    Raises
    ------
    ScenarioError
        If it has several; the text names their keys.
    """
    keys = [f"streams.{name}.target_utilization" for name in scenario.streams]
    if len(keys) != 1:
        raise ScenarioError(
            [f"--target-utilization: the scenario has several streams; --set one of {one_of(keys)}"]
        )
    return keys[0]


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(
            [f"--set {text}: expected dotted.key=value, such as facility.pools.h100.n_nodes=100"]
        )
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ScenarioError([f"--set {text}: the value is not valid YAML"]) from error


def _set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    here: Any = data
    parts = key.split(".")
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(here, list):
            if not part.isdigit() or int(part) >= len(here):
                raise ScenarioError(
                    [f"--set {key}: '{part}' is no item of the list (0 to {len(here) - 1})"]
                )
            name: Any = int(part)
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


def _message(detail: ErrorDetails) -> str:
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        word = str(detail["loc"][-1])
        model = _model_at(detail["loc"][:-1])
        allowed = tuple(model.model_fields) if model else ()
        return f"unknown key '{word}' (allowed: {one_of(allowed)}){did_you_mean(word, allowed)}"
    if kind == "missing":
        return "this key is missing; add it"
    text = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return text
    text = text.replace("Input should be", "must be")
    return f"{text}, found {found!r:.80}"


def _model_at(place: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the model that the keys at a location belong to."""
    model: Any = Scenario
    for part in place:
        if isinstance(model, type) and issubclass(model, BaseModel):
            field = model.model_fields.get(str(part))
            model = field.annotation if field else None
        else:
            arguments = [a for a in get_args(model) if a is not type(None) and a is not Ellipsis]
            model = arguments[-1] if arguments else None
        model = _without_none(model)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _without_none(annotation: Any) -> Any:
    arguments = get_args(annotation)
    if type(None) in arguments:
        return next(a for a in arguments if a is not type(None))
    return annotation
