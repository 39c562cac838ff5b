"""A file of rules that map the jobs of a log to workloads."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from diploee.errors import ScenarioError, did_you_mean, one_of, shown
from diploee.scenario import ClassRule
from diploee.scenario.yaml_lines import dotted, line_of, load_yaml_with_lines

_RULES: TypeAdapter[tuple[ClassRule, ...]] = TypeAdapter(tuple[ClassRule, ...])


def read_rules(path: Path | str) -> tuple[ClassRule, ...]:
    """Read rules from YAML: a list of them, as ``replay.rules`` of a scenario has it.

    Parameters
    ----------
    path : pathlib.Path
        The file: the list, or the key ``rules`` with the list.

    Returns
    -------
    tuple of ClassRule
        At least one.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    path = Path(path)
    data, lines = load_yaml_with_lines(path)
    prefix: tuple[str | int, ...] = ()
    if isinstance(data, dict) and list(data) == ["rules"]:
        data, prefix = data["rules"], ("rules",)
    if not isinstance(data, list) or not data:
        raise ScenarioError(
            [
                f"{path}:1: must be a list of rules such as '- workload: llama2_70b_lora', "
                f"found {shown(data)}"
            ]
        )
    try:
        return _RULES.validate_python(data)
    except ValidationError as error:
        problems = []
        for detail in error.errors(include_url=False):
            place = (*prefix, *detail["loc"])
            line = line_of(place, lines)
            where = f"{path}{f':{line}' if line else ''} {dotted(place)}"
            problems.append(f"{where}: {_message(detail['type'], detail['msg'], place, detail)}")
        raise ScenarioError(problems) from error


def _message(kind: str, text: str, place: tuple[str | int, ...], detail: object) -> str:
    if kind == "missing":
        return "this key is missing; add it"
    if kind == "extra_forbidden":
        word, allowed = str(place[-1]), tuple(ClassRule.model_fields)
        return f"unknown key '{word}' (allowed: {one_of(allowed)}){did_you_mean(word, allowed)}"
    if kind == "value_error":
        return text.removeprefix("Value error, ")
    found = shown(detail["input"]) if isinstance(detail, dict) else ""
    if kind == "model_type":
        return f"must be a group of keys, found {found}"
    return f"{text.replace('Input should be', 'must be')}, found {found}"
