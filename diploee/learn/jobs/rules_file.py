"""A file of rules that map the jobs of a log to workloads."""

from __future__ import annotations

from pathlib import Path

from diploee.errors import ScenarioError, shown
from diploee.plain_data import checked
from diploee.scenario import ClassRule
from diploee.scenario.yaml_lines import load_yaml_with_lines, located


def read_rules(path: Path | str) -> tuple[ClassRule, ...]:
    """Read rules from YAML: a list of them, as ``replay.rules`` of a scenario has it."""
    path = Path(path)
    such_as = "a list of rules such as '- workload: llama2_70b_lora'"
    data, lines = load_yaml_with_lines(path, such_as, (dict, list))
    prefix: tuple[str | int, ...] = ()
    if isinstance(data, dict) and list(data) == ["rules"]:
        data, prefix = data["rules"], ("rules",)
    if not isinstance(data, list) or not data:
        raise ScenarioError([f"{path}:1: expected {such_as}, found {shown(data)}"])
    return checked(data, tuple[ClassRule, ...], lambda at: located(path, lines, (*prefix, *at)))
