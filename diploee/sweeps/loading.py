"""Loading and checking of a sweep file, or of a scenario as a sweep.

Each problem is reported with its line in the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

from diploee.base.errors import MAX_PROBLEMS, Brief, ScenarioError
from diploee.base.files.paths import find_shipped, shipped
from diploee.base.validation import KeyPath, checked
from diploee.importers.input_reader import InputReader
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.loading import load_scenario, scenario_from_dict
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import key_location, load_yaml_with_lines
from diploee.simulation.prepared import size_site
from diploee.sweeps.draws import Uniform
from diploee.sweeps.spec import SweepSpec, spec_problems

DEFAULT_SEEDS = 20
"""Seeds of an ensemble that does not say how many."""

_SUCH_AS = "keys such as 'base:'"


@dataclass(frozen=True)
class Sweep(Brief):
    """A checked sweep: its settings and the base scenario."""

    name: str  # the file's name without its ending
    spec: SweepSpec  # the content of the file
    base: Scenario  # the scenario that every run starts from
    source: str  # named by errors: the file, or where the sweep comes from otherwise
    # Line of every key of the file
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def where(self, key_path: KeyPath) -> str:
        """Return the label of a key of the sweep file, ``sizes.yaml:7 axes.0.grid``."""
        return key_location(self.source, self.lines, key_path)


def load_sweep(name_or_path: str | Path) -> Sweep:
    """Load and check a sweep.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A YAML file, or the name of a shipped sweep such as
        ``"colocation_utilization"``.

    Raises
    ------
    ScenarioError
        If the file is invalid. The text has a line for each problem: file, line, key,
        expected value, and value found.
    """
    path = find_shipped("sweep", name_or_path)
    data, lines = load_yaml_with_lines(path, _SUCH_AS)
    return sweep_from_dict(data, path.stem, path.parent, str(path), lines)


def sweep_from_dict(
    data: Mapping[str, Any],
    name: str,
    folder: Path | None = None,
    source: str | None = None,
    lines: Mapping[KeyPath, int] | None = None,
) -> Sweep:
    """Check the plain data of a sweep file, and return the sweep.

    Parameters
    ----------
    data : mapping
        Contents of a sweep file; its `base` may also be a scenario, or its content.
    name : str
        Name of the sweep.
    folder : pathlib.Path, optional
        Folder that a relative `base` refers to; the working folder by default.
    source : str, optional
        Name of the file in errors.
    lines : mapping, optional
        Line of each key in the file, for errors.

    Raises
    ------
    ScenarioError
        With one line for each problem.
    """
    source, lines = source or name, lines or {}
    where, base = partial(key_location, source, lines), data.get("base")
    if isinstance(base, Mapping):
        content = {**base}
        base = scenario_from_dict(content, lambda path: where(("base", *path)))
    if isinstance(base, Scenario | Path):
        text = base.name if isinstance(base, Scenario) else str(base)
        data = {**data, "base": text}
    spec = checked(data, SweepSpec, where)
    if not isinstance(base, Scenario):
        base = _base(spec.base, folder or Path(), where(("base",)))
    sweep = Sweep(name, spec, base, source, lines)
    if problems := list(islice(spec_problems(spec), MAX_PROBLEMS + 1)):
        raise ScenarioError(
            f"{sweep.where(key_path)}: {text}" for key_path, text in problems
        )
    return sweep


def load_ensemble(
    name_or_path: Scenario | str | Path,
    n_seeds: int | Sequence[int] | None = None,
    accuracy: float | None = None,
    assumed: bool = False,
    profiles: Sequence[str] = (),
) -> Sweep:
    """Load a sweep file, or a scenario as a sweep over seeds only.

    Parameters
    ----------
    name_or_path : Scenario, str or pathlib.Path
        A scenario, a sweep file or a scenario file, or the name of a shipped one.
    n_seeds : int or sequence of int, optional
        Seeds, or 0 to n - 1, instead of the file's; 20 for a scenario.
    accuracy : float, optional
        Required accuracy of means, instead of the file's.
    assumed : bool
        Draw each number that has a range and that the scenario's file does not specify,
        uniformly over its range. The size of the site is that of the default values.
    profiles : sequence of str
        Profile folders; the shipped profiles if empty.

    Raises
    ------
    ScenarioError
        If the file is neither a sweep nor a scenario; one line for each problem.
    """
    data: dict[str, Any] = {"base": name_or_path, "seeds": DEFAULT_SEEDS}
    lines: dict[KeyPath, int] = {}
    if assumed and is_sweep(name_or_path):
        raise ScenarioError(
            f"--assumed: {name_or_path} is a sweep, whose file says what it draws; "
            "give its base"
        )
    if is_sweep(name_or_path):
        path = find_shipped("sweep", name_or_path)
        data, lines = load_yaml_with_lines(path, _SUCH_AS)
        name, folder, source = path.stem, path.parent, str(path)
        data.setdefault("seeds", DEFAULT_SEEDS)
    else:
        base = name_or_path
        if not isinstance(base, Scenario):
            base, data["base"] = find_shipped("scenario", base).stem, str(base)
        stem = base.name if isinstance(base, Scenario) else base
        name, folder, source = f"{stem}-ensemble", Path(), f"ensemble of {stem}"
    if n_seeds is not None:
        data["seeds"] = n_seeds
    if accuracy is not None:
        data["accuracy"] = accuracy
    sweep = sweep_from_dict(data, name, folder, source, lines)
    return _with_sampled_assumptions(sweep, profiles) if assumed else sweep


def _with_sampled_assumptions(sweep: Sweep, profiles: Sequence[str]) -> Sweep:
    """Return a sweep that samples each assumed value of the site within its range."""
    keys, base = sweep.base.ranges(include_set_keys=False), sweep.base
    if not keys:
        raise ScenarioError(
            f"--assumed: every number of {sweep.spec.base} that has a range is given; "
            "leave it out"
        )
    if base.facility.size is not None:
        base, _ = size_site(
            base, InputReader().load(base, ProfileLibrary.open(*profiles))
        )
    within = base.ranges()
    draw = {key: Uniform(low=within[key][0], high=within[key][1]) for key in keys}
    return replace(sweep, base=base, spec=sweep.spec.model_copy(update={"draw": draw}))


def is_sweep(name_or_path: object) -> TypeGuard[str | Path]:
    """Return True for a shipped sweep's name, or a file with the key ``base``."""
    if not isinstance(name_or_path, str | Path):
        return False
    path = Path(name_or_path)
    if not os.path.isfile(path):  # noqa: PTH113
        return str(name_or_path) in shipped("sweep")
    return "base" in load_yaml_with_lines(path, f"{_SUCH_AS} or those of a scenario")[0]


def _base(base: str, folder: Path, where: str) -> Scenario:
    beside = folder / base
    if os.path.isfile(beside):  # noqa: PTH113
        return load_scenario(beside)
    try:
        path = find_shipped("scenario", base)
    except ScenarioError as error:
        raise ScenarioError([f"{where}: {error}"]) from error
    return load_scenario(path)
