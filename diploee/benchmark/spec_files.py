"""Specs from YAML files or plain data; every problem at once, with its line.

A file holds a list ``models:`` whose entries have the fields of `InferenceModelSpec` as keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from diploee.benchmark.spec import InferenceModelSpec
from diploee.errors import ScenarioError, did_you_mean, one_of, shown
from diploee.scenario.yaml_lines import KeyPath, dotted, line_of, load_yaml_with_lines

_TOP = "models"


def load_specs(path: Path | str) -> tuple[InferenceModelSpec, ...]:
    """Read the specs of a YAML file.

    Parameters
    ----------
    path : pathlib.Path or str
        A file with a list ``models:``.

    Returns
    -------
    tuple of InferenceModelSpec
        In the order of the file; their labels differ.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    path = Path(path)
    try:
        data, lines = load_yaml_with_lines(path)
    except ScenarioError as error:
        if error.problems[0].startswith(f"{path}: is empty"):
            raise ScenarioError([f"{path}: is empty; expected a list 'models:'"]) from error
        raise

    def where(place: KeyPath) -> str:
        line = line_of(place, lines)
        return f"{path}{f':{line}' if line else ''} {dotted(place)}".rstrip()

    return specs_from_data(data, where)


def specs_from_data(
    data: Any, where: Callable[[KeyPath], str] | None = None
) -> tuple[InferenceModelSpec, ...]:
    """Check specs given as plain data, ``{"models": [{...}, ...]}``.

    Parameters
    ----------
    data : object
        The content of a specs file.
    where : callable, optional
        Gives the text that names a key path in an error; the dotted key by default.

    Raises
    ------
    ScenarioError
        With one line for each problem.
    """
    where = where or (lambda place: dotted(place) or "specs")
    if not isinstance(data, dict) or _TOP not in data:
        found = f"keys {one_of(map(str, data))}" if isinstance(data, dict) else shown(data)
        raise ScenarioError([f"{where(())}: expected a list 'models:', found {found}"])
    problems = [
        f"{where((key,))}: unknown key '{key}' (allowed: '{_TOP}')" for key in data if key != _TOP
    ]
    entries = data[_TOP]
    if not isinstance(entries, list) or not entries:
        raise ScenarioError(
            [*problems, f"{where((_TOP,))}: must be a list of specs, found {shown(entries)}"]
        )
    specs: dict[int, InferenceModelSpec] = {}
    for number, entry in enumerate(entries):
        try:
            specs[number] = InferenceModelSpec.model_validate(entry)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                if detail["type"] == "too_short" and detail["input"]:
                    continue  # what is wrong with the entries stands beside it
                place = (_TOP, number, *_place(detail["loc"], entry))
                problems.append(f"{where(place)}: {_message(detail)}")
    first: dict[str, int] = {}
    for number, spec in specs.items():
        if spec.model_label in first:
            problems.append(
                f"{where((_TOP, number, 'model_label'))}: label '{spec.model_label}' is also that "
                f"of {dotted((_TOP, first[spec.model_label]))}; labels must differ"
            )
        first.setdefault(spec.model_label, number)
    if problems:
        raise ScenarioError(problems)
    return tuple(specs.values())


def _place(location: tuple[str | int, ...], entry: Any) -> KeyPath:
    """Keep what the entry holds: a missing key is reported at the entry."""
    place: list[str | int] = []
    for part in location:
        in_list = isinstance(entry, list) and isinstance(part, int) and part < len(entry)
        if not in_list and not (isinstance(entry, Mapping) and part in entry):
            break
        entry = entry[part]
        place.append(part)
    return tuple(place)


def _message(detail: ErrorDetails) -> str:
    kind, found, loc = detail["type"], shown(detail["input"]), detail["loc"]
    key = str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        allowed = tuple(InferenceModelSpec.model_fields)
        return f"unknown key '{key}' (allowed: {one_of(allowed)}){did_you_mean(key, allowed)}"
    if kind == "missing":
        return f"'{key}' is missing; add it"
    if kind.startswith("model"):
        return f"must be a group of keys (such as 'model_label'), found {found}"
    if kind in ("tuple_type", "list_type"):
        return f"must be a list of batch sizes such as [8, 16, 32], found {found}"
    if kind == "too_short":
        return "must be a list of one batch size or more, found an empty list"
    text = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return text if kind == "value_error" else f"{text}, found {found}"
