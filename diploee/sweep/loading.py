"""From a sweep file (or a bare scenario) to a checked sweep; every problem with its line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from diploee.errors import ScenarioError, did_you_mean, one_of, shown
from diploee.scenario import Scenario, find_scenario, load_scenario
from diploee.scenario.yaml_lines import KeyPath, dotted, line_of, load_yaml_with_lines
from diploee.shipped import shipped_folder
from diploee.sweep.keys import key_problem
from diploee.sweep.spec import SweepSpec, spec_problems

DEFAULT_SEEDS = 20
"""Seeds of an ensemble that does not say how many."""


@dataclass(frozen=True)
class Sweep:
    """A checked sweep.

    Parameters
    ----------
    name : str
        The file's name without its ending.
    spec : SweepSpec
        What the file says.
    base : Scenario
        The scenario that every run starts from.
    source : str
        What errors name: the file, or where the sweep comes from otherwise.
    lines : dict
        Line of every key path of the file.
    """

    name: str
    spec: SweepSpec
    base: Scenario
    source: str
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def where(self, place: KeyPath) -> str:
        """Return the text that names a place of the sweep file, ``sizes.yaml:7 axes.0.grid``."""
        return _where(self.source, self.lines, place)


def _where(source: str, lines: Mapping[KeyPath, int], place: KeyPath) -> str:
    line = line_of(place, dict(lines))
    return f"{source}{f':{line}' if line else ''} {dotted(place)}".rstrip()


def shipped_sweeps() -> dict[str, Path]:
    """Return the shipped sweeps by name."""
    folder = shipped_folder("scenarios") / "sweeps"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_sweep(name_or_path: str | Path) -> Path:
    """Return the file of a sweep given by path or by shipped name.

    Raises
    ------
    ScenarioError
        If there is no such file and no such name.
    """
    path, shipped = Path(name_or_path), shipped_sweeps()
    if os.path.isfile(path):  # noqa: PTH113  # unlike pathlib's, no error for any text
        return path
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    raise ScenarioError(
        [
            f"{name_or_path}: no such sweep file or shipped sweep (shipped: {one_of(shipped)})"
            f"{did_you_mean(path.stem, shipped)}"
        ]
    )


def load_sweep(name_or_path: str | Path) -> Sweep:
    """Load and check a sweep.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A YAML file, or the name of a shipped sweep such as ``"colocation_utilization"``.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, what was found, what is allowed.
    """
    path = find_sweep(name_or_path)
    data, lines = load_yaml_with_lines(path)
    if not isinstance(data, dict):
        raise ScenarioError([f"{path}:1: expected keys such as 'base:', found {shown(data)}"])
    return sweep_from_dict(data, path.stem, path.parent, str(path), lines)


def sweep_from_dict(
    data: Mapping[str, Any],
    name: str,
    folder: Path | None = None,
    source: str | None = None,
    lines: Mapping[KeyPath, int] | None = None,
) -> Sweep:
    """Check a sweep given as plain data; arguments as the fields of `Sweep`.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Where a relative `base` starts from; the working folder by default.

    Raises
    ------
    ScenarioError
        With one line for each problem.
    """
    source, lines = source or name, lines or {}
    try:
        spec = SweepSpec.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(
            f"{_where(source, lines, _place(detail['loc'], data))}: {_message(detail)}"
            for detail in error.errors()
        ) from error
    base = _base(spec.base, folder or Path(), _where(source, lines, ("base",)))
    sweep = Sweep(name, spec, base, source, lines)
    problems = [*spec_problems(spec), *_unknown_keys(spec, base)]
    if problems:
        raise ScenarioError(f"{sweep.where(place)}: {text}" for place, text in problems)
    return sweep


def load_ensemble(
    name_or_path: str | Path, n_seeds: int | None = None, accuracy: float | None = None
) -> Sweep:
    """Load a sweep file, or a scenario as a sweep over seeds alone.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A sweep file or a scenario file, or the name of a shipped one.
    n_seeds : int, optional
        Seeds 0 to n - 1 instead of the file's; 20 for a scenario.
    accuracy : float, optional
        Instead of the file's.

    Raises
    ------
    ScenarioError
        If it is neither; one line for each problem.
    """
    if _is_sweep(name_or_path):
        path = find_sweep(name_or_path)
        data, lines = load_yaml_with_lines(path)
        name, folder, source = path.stem, path.parent, str(path)
        data.setdefault("seeds", DEFAULT_SEEDS)
    else:
        path = find_scenario(name_or_path)
        data, lines = {"base": str(name_or_path), "seeds": DEFAULT_SEEDS}, {}
        name, folder, source = f"{path.stem}-ensemble", Path(), f"ensemble of {name_or_path}"
    if n_seeds is not None:
        data["seeds"] = n_seeds
    if accuracy is not None:
        data["accuracy"] = accuracy
    return sweep_from_dict(data, name, folder, source, lines)


def _is_sweep(name_or_path: str | Path) -> bool:
    """Return whether a name is a shipped sweep's, or a file has the key ``base``."""
    path = Path(name_or_path)
    if not os.path.isfile(path):  # noqa: PTH113
        return str(name_or_path) in shipped_sweeps()
    data, _ = load_yaml_with_lines(path)
    return isinstance(data, dict) and "base" in data


def _base(base: str, folder: Path, where: str) -> Scenario:
    beside = folder / base
    if os.path.isfile(beside):  # noqa: PTH113
        return load_scenario(beside)
    try:
        path = find_scenario(base)
    except ScenarioError as error:
        raise ScenarioError([f"{where}: {error}"]) from error
    return load_scenario(path)


def _unknown_keys(spec: SweepSpec, base: Scenario) -> list[tuple[KeyPath, str]]:
    found: list[tuple[KeyPath, str]] = []
    for key in spec.set:
        problem = key_problem(base, key, may_add=True)
        if problem:
            found.append((("set", key), problem))
    for key, place in spec.varied_keys():
        if any(key.startswith(f"{given}.") for given in spec.set):
            continue  # lies in what `set` puts there; the runs' own checks see it
        problem = key_problem(base, key)
        if problem:
            found.append((place, problem))
    return found


def _place(location: tuple[str | int, ...], data: Any) -> KeyPath:
    """Drop what pydantic adds to a location, such as the tag of a union."""
    place: list[str | int] = []
    for part in location:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, Mapping) and part in data):
            data = data[part]
            place.append(part)
    return tuple(place)


def _message(detail: Any) -> str:
    kind, found, key = detail["type"], detail["input"], detail["loc"][-1]
    if kind == "extra_forbidden":
        allowed = tuple(SweepSpec.model_fields) if len(detail["loc"]) == 1 else ()
        hint = f" (allowed: {one_of(allowed)})" if allowed else "; remove it"
        return f"unknown key '{key}'{hint}{did_you_mean(str(key), allowed)}"
    if kind == "missing":
        return f"'{key}' is missing; add it"
    text = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return text if kind in ("value_error", "distribution") else f"{text}, found {shown(found)}"
