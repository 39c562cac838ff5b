"""Specs from YAML files or plain data; every problem at once, with its line.

A file holds a list ``models:`` whose entries have the fields of `InferenceModelSpec` as keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from diploee.errors import ScenarioError, one_of, shown
from diploee.model import Model
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import KeyPath, checked
from diploee.scenario.yaml_lines import dotted, load_yaml_with_lines, located

_TOP = "models"


class _SpecsFile(Model):
    models: tuple[InferenceModelSpec, ...] = Field(min_length=1)


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
    data, lines = load_yaml_with_lines(path, "a list 'models:'")
    return specs_from_data(data, partial(located, path, lines))


def specs_from_data(
    data: Any, where: Callable[[KeyPath], str] | None = None
) -> tuple[InferenceModelSpec, ...]:
    """Check specs given as plain data, ``{"models": [{...}, ...]}``."""
    where = where or (lambda key_path: dotted(key_path) or "specs")
    if not isinstance(data, dict) or _TOP not in data:
        found = f"keys {one_of(map(str, data))}" if isinstance(data, dict) else shown(data)
        raise ScenarioError([f"{where(())}: expected a list 'models:', found {found}"])
    specs = checked(data, _SpecsFile, where).models
    first: dict[str, int] = {}
    problems = [
        f"{where((_TOP, number, 'model_label'))}: label '{spec.model_label}' is also that "
        f"of {dotted((_TOP, first[spec.model_label]))}; labels must differ"
        for number, spec in enumerate(specs)
        if first.setdefault(spec.model_label, number) != number
    ]
    if problems:
        raise ScenarioError(problems)
    return specs
