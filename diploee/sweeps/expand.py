"""Expansion of a sweep into its runs: every point of the axes with every seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

from diploee.base.errors import Brief, InputError, ScenarioError, shown
from diploee.base.rng import named_rng
from diploee.base.validation import KeyPath
from diploee.base.version import full_version
from diploee.grid.limits.file import load_scenario_limits
from diploee.importers.input_reader import InputReader
from diploee.loads.inputs import Inputs
from diploee.loads.jobs.job_streams import JobStreams
from diploee.profiles.library import ProfileLibrary
from diploee.runs.folder import SCHEMA_VERSION
from diploee.scenario.loading import (
    get_value,
    scenario_from_dict,
    with_set_keys,
    with_value,
)
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import dotted_key
from diploee.simulation.own_parts import HashedObjects, OwnPart, own_parts
from diploee.simulation.prepared import size_site
from diploee.sweeps.loading import Sweep
from diploee.sweeps.spec import SweepAxis

MAX_RUNS = 10_000
SHOWN_PROBLEMS = 10
NAME_DIGITS = 16
"""Hexadecimal digits of the hash that name a run's folder (64 bits)."""


@dataclass(frozen=True)
class PlannedRun(Brief):
    """One planned run of a sweep."""

    run: str  # its name, the first digits of its hash
    point: int  # number of the combination of axis values, from 0
    # Value of every axis, by dotted key (or the name of a block of cases)
    settings: dict[str, Any]
    # Drawn numbers by ``draw.<key>``, with ``.<element>`` where a draw has several, and
    # the dotted key that each belongs to
    drawn: dict[str, float]
    draw_keys: dict[str, str]
    seed: int  # its seed
    scenario: Scenario  # as resolved
    own: Sequence[OwnPart] = ()  # code of it that is not of the package


def expand(
    sweep: Sweep, library: ProfileLibrary, max_runs: int = MAX_RUNS
) -> list[PlannedRun]:
    """Return the runs of a sweep, point by point and seed by seed.

    Parameters
    ----------
    sweep : Sweep
        The sweep to expand.
    library : ProfileLibrary
        Profiles of the runs. The runs' names contain a hash that covers the profiles.
    max_runs : int
        Maximum number of runs.

    Raises
    ------
    InputError
        If there are more runs than `max_runs`, or a value makes a scenario invalid; one
        line for each problem.
    """
    n_points, n_seeds = sweep.spec.n_points(), sweep.spec.n_seeds()
    if n_points * n_seeds > max_runs:
        raise InputError(
            f"{sweep.source}: {n_points:,} points x {n_seeds:,} seeds = "
            f"{n_points * n_seeds:,} runs, more than --max-runs {max_runs:,}; take "
            "fewer values or raise --max-runs"
        )
    seeds = sweep.spec.seed_list(sweep.base.seed)
    base = unset = sweep.base.model_dump(mode="json")
    for key, value in sweep.spec.set.items():
        base = with_value(base, key, value, partial(sweep.where, ("set", key)))
    reader, folder = InputReader(), sweep.base.folder.resolve()
    code_hashes: HashedObjects = {}
    runs: list[PlannedRun] = []
    problems: dict[str, None] = {}
    for point, (settings, changes) in enumerate(_points(sweep, base)):
        data = base
        for key, (key_path, value) in changes.items():
            data = with_value(data, key, value, partial(sweep.where, key_path))
        for seed in seeds:
            try:
                seed_data, sampled, keys = _draw_values(sweep, data, seed, unset)
                keyed = (*sweep.spec.set, *changes, *sweep.spec.draw)
                seed_data = with_set_keys({**seed_data, "seed": seed}, unset, keyed)
                where = partial(_key_location, sweep, seed_data, changes)
                scenario = scenario_from_dict(seed_data, where).with_folder(folder)
                inputs = reader.load(scenario, library)
                custom_code = own_parts_of(scenario, inputs, code_hashes)
                name = run_hash(scenario, inputs, custom_code)[:NAME_DIGITS]
            except ScenarioError as error:
                problems.update(dict.fromkeys(error.problems))
            except InputError as error:
                problems[f"{sweep.source}: {error}"] = None
            else:
                runs.append(
                    PlannedRun(
                        name,
                        point,
                        settings,
                        sampled,
                        keys,
                        seed,
                        scenario,
                        custom_code,
                    )
                )
    if problems:
        shown_problems = list(problems)[:SHOWN_PROBLEMS]
        if more := len(problems) - len(shown_problems):
            shown_problems.append(
                f"{sweep.source}: ... and {more:,} more problems of this kind"
            )
        raise ScenarioError(shown_problems)
    return runs


def _key_location(
    sweep: Sweep,
    data: Mapping[str, Any],
    changes: Mapping[str, tuple[KeyPath, Any]],
    key_path: KeyPath,
) -> str:
    """Return text that locates a key: its line in the sweep file, or its point."""
    places: dict[str, KeyPath] = {key: ("set", key) for key in sweep.spec.set}
    places |= {key: of_axis for key, (of_axis, _) in changes.items()}
    places |= {key: ("draw", key) for key in sweep.spec.draw}
    for depth in range(len(key_path), 0, -1):
        result = places.get(dotted_key(key_path[:depth]))
        if result is not None:
            return sweep.where(result)
    values = [f"{key} = {shown(get_value(data, key))}" for key in changes]
    at = f" (where {', '.join(values)})" if values else ""
    return f"{sweep.source} {dotted_key(key_path)}{at}"


def _points(
    sweep: Sweep, base: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, tuple[KeyPath, Any]]]]:
    """Yield the labels and the changed keys of each point of the axes."""
    blocks = [
        list(_block_points(axis, number, label))
        for number, (axis, label) in enumerate(
            zip(sweep.spec.axes, _case_labels(sweep.spec.axes), strict=True)
        )
    ]
    columns = axis_columns(sweep.spec.axes)
    for combination in product(*blocks):
        names: dict[str, Any] = {}
        changes: dict[str, tuple[KeyPath, Any]] = {}
        for label, of_block in combination:
            names |= label
            changes |= of_block
        yield (
            {
                column: names[column]
                if column in names
                else changes[column][1]
                if column in changes
                else get_value(base, column)
                for column in columns
            },
            changes,
        )


def _block_points(
    axis: SweepAxis, number: int, label: str
) -> Iterator[tuple[dict[str, str], dict[str, tuple[KeyPath, Any]]]]:
    key_path: KeyPath = ("axes", number)
    if axis.cases is not None:
        for case, values in axis.cases.items():
            of_case = {k: ((*key_path, "cases", case, k), v) for k, v in values.items()}
            yield {label: case}, of_case
        return
    lists = axis.values.values()
    for row in product(*lists) if axis.zip is None else zip(*lists, strict=True):
        pairs = zip(axis.values, row, strict=True)
        yield {}, {key: ((*key_path, axis.kind, key), value) for key, value in pairs}


def _case_labels(axes: Sequence[SweepAxis]) -> list[str]:
    """Return the column of case names of each block: ``case``, ``case_2`` etc."""
    labels, n_before = [], 0
    for axis in axes:
        has_cases = axis.cases is not None
        n_before += has_cases
        labels.append(
            "" if not has_cases else "case" if n_before == 1 else f"case_{n_before}"
        )
    return labels


def axis_columns(axes: Sequence[SweepAxis]) -> list[str]:
    """Return the names of all axes in the order of the file."""
    columns: dict[str, None] = {}
    for axis, label in zip(axes, _case_labels(axes), strict=True):
        if label:
            columns[label] = None
        columns.update(dict.fromkeys(axis.keys()))
    return list(columns)


def _draw_values(
    sweep: Sweep, data: dict[str, Any], seed: int, base: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, float], dict[str, str]]:
    """Return the data with a seed's draws, the drawn numbers and their keys."""
    numbers: dict[str, float] = {}
    keys: dict[str, str] = {}
    for key, draw in sweep.spec.draw.items():
        rng = named_rng(seed, "ensemble", key)
        try:
            base_value = get_value(data, key)
            if isinstance(get_value(base, key), float) and isinstance(base_value, int):
                base_value = float(base_value)  # it stays one
            value, sampled = draw.draw(rng, base_value)
        except InputError as error:
            raise ScenarioError([f"{sweep.where(('draw', key))}: {error}"]) from error
        data = with_value(data, key, value, partial(sweep.where, ("draw", key)))
        for name, number in sampled.items():
            column = f"draw.{key}.{name}" if name else f"draw.{key}"
            numbers[column], keys[column] = number, key
    return data, numbers, keys


def own_parts_of(
    scenario: Scenario, inputs: Inputs, code_hashes: HashedObjects
) -> list[OwnPart]:
    """Return the parts of a run with code from outside the package, with hashes.

    `code_hashes` has known hashes, which are not computed again.
    """
    return own_parts(scenario, inputs, code_hashes, load_scenario_limits(scenario))


def run_hash(
    scenario: Scenario, inputs: Inputs, custom_code: Sequence[OwnPart] = ()
) -> str:
    """Return the SHA-256 that identifies a run.

    It covers the scenario, inputs, limits, extension code, and the version. The engine
    is excluded, because both engines give the same start times.
    """
    streams = JobStreams(size_site(scenario, inputs)[0], inputs)
    library = streams.library
    used = sorted({index for c in streams.classes for index in c.profile_ids})
    curve_files = {
        file.name: file for curves in inputs.curves.values() for file in curves.files
    }
    content = {
        "diploee_version": full_version(),
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario.sha256(),
        "profiles": {
            library.ids[index]: library.entries[index].sha256 for index in used
        },
        "curves": {name: file.sha256 for name, file in curve_files.items()},
        "files": dict(inputs.hashes),
        "limits": [
            each.model_dump(mode="json") for each in load_scenario_limits(scenario)
        ],
        "own_parts": [asdict(part) for part in custom_code],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
