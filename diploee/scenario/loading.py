"""Loading of scenarios from a file or a shipped name, with validation.

All problems are reported at once, each with its line. Numbers for which no memory would
suffice are reported too, such as a node count with a typing error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from diploee.base.errors import (
    InputError,
    LogFormatError,
    ScenarioError,
    one_line,
    one_of,
)
from diploee.base.files import reason
from diploee.base.files.paths import find_shipped
from diploee.base.validation import KeyPath, as_yaml, checked
from diploee.facility.base import STAGES
from diploee.scenario.cross_checks import cross_problems, unknown_names
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import (
    dotted_key,
    key_location,
    load_yaml_with_lines,
    read_value,
)

# Maximum length of a run [years]
MAX_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2199
"""First and last year of timestamps that every reader of the files supports, including
pandas with its nanoseconds."""


def _period_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Yield a problem if a run extends to years that not all file readers support."""
    dates: dict[str, Callable[[], datetime]] = {
        "start": lambda: scenario.start,
        "warm_up": lambda: (
            scenario.start - timedelta(seconds=scenario.warm_up_ms / 1e3)
        ),
        "duration": lambda: (
            scenario.start + timedelta(seconds=scenario.horizon_ms / 1e3)
        ),
    }
    for key, date in dates.items():
        try:
            year = date().year
        except (OverflowError, ValueError):
            year = 0
        if not FIRST_YEAR <= year <= LAST_YEAR + (key == "duration"):
            years, result = f"{FIRST_YEAR} to {LAST_YEAR}", getattr(scenario, key)
            yield (key,), f"must lie in the years {years}, found {result}"
            return
    max_s, resolution_s = MAX_YEARS * 366 * 86_400, scenario.resolution_ms / 1000
    if not resolution_s <= scenario.horizon_ms / 1000 <= max_s:
        yield (
            ("duration",),
            f"must be at least one interval of the resolution, {resolution_s:g} s, and "
            f"at most {MAX_YEARS} years, found {scenario.duration}",
        )


def get_value(data: Any, key: str) -> Any:
    """Return the value of a dotted key in plain data, or None if absent."""
    return _resolve_items(data, key)[1]


def _resolve_items(data: Any, key: str) -> tuple[str, Any]:
    """Return a dotted key, with list items by number instead of kind, and its value."""
    parts = []
    for part in key.split("."):
        name = _data_key(data, part)
        parts.append(part if name is None else str(name))
        if isinstance(data, dict):
            data = data.get(name)
        else:
            data = data[name] if isinstance(data, list) and name is not None else None
    return ".".join(parts), data


def with_value(
    data: dict[str, Any], key: str, value: Any, where: Callable[[], str]
) -> dict[str, Any]:
    """Return plain data with one dotted key changed, sharing unchanged parts.

    `where` returns the name of the key in errors. Nothing is changed in place, because
    a YAML alias may put one part under several keys.
    """
    try:
        changed: dict[str, Any] = _with_value_at(data, key.split("."), 0, value)
    except InputError as error:
        raise ScenarioError(f"{where()}: {error}") from error
    return changed


# Keys whose changes are not listed in the description
_UNDESCRIBED = ("seed", "name", "description")


def with_set_keys(
    data: dict[str, Any], original: Mapping[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """Return data with a description that lists the keys set after the original."""
    text = data.get("description")
    if not text or text != original.get("description"):
        return data
    values = {
        key: _resolve_items(data, key)[1] for key in keys if key not in _UNDESCRIBED
    }
    changes = [
        key if isinstance(value, dict | list) else f"{key}={value}"
        for key, value in values.items()
        if value != _resolve_items(original, key)[1]
    ]
    return (
        {**data, "description": f"Set since: {', '.join(changes)}. {text}"}
        if changes
        else data
    )


def _with_value_at(data: Any, parts: Sequence[str], depth: int, value: Any) -> Any:
    """Return plain data with the value at a path of keys changed."""
    if depth == len(parts):
        return value
    name = _data_key(data, parts[depth])
    if isinstance(data, list):
        if name is None:
            valid_text = f"0 to {len(data) - 1}" if data else "it is empty"
            raise InputError(f"'{parts[depth]}' is no item of the list ({valid_text})")
        changed, item = [*data], data[name]
        if isinstance(item, str) and depth + 1 < len(parts):
            item = {"kind": item}  # specified by its name alone
        changed[name] = _with_value_at(item, parts, depth + 1, value)
        return changed
    if data is not None and not isinstance(data, dict):
        raise InputError(
            f"'{'.'.join(parts[:depth])}' is a single value, not a group of keys"
        )
    group = data or {}
    return {**group, name: _with_value_at(group.get(name), parts, depth + 1, value)}


def _data_key(data: Any, part: str) -> Any:
    """Return a part of a dotted key as the key or item number of the data.

    Keys may be numbers, such as node counts. An item of a list is selected by its
    number, or by its kind or name if that is unique.
    """
    if isinstance(data, list):
        matches = [
            index
            for index, item in enumerate(data)
            if part
            in (_kind_of_item(item), isinstance(item, dict) and item.get("name"))
        ]
        index_match = next(
            (index for index in range(len(data)) if str(index) == part), None
        )
        return matches[0] if len(matches) == 1 else index_match
    keys = data if isinstance(data, dict) else ()
    return next((name for name in keys if str(name) == part), part)


def _kind_of_item(item: Any) -> Any:
    """Return the `kind` of a list's item, or the item itself if it is no mapping."""
    return item.get("kind") if isinstance(item, dict) else item


def _check_stage(key: str, old_value: Any, value: Any) -> None:
    """Raise an error if a replaced stage has another place in the chain."""
    old_stage, new_stage = (
        STAGES.by_name.get(str(_kind_of_item(item))) for item in (old_value, value)
    )
    if (
        re.fullmatch(r"facility\.stages\.\w+", key)
        and old_stage
        and new_stage
        and old_stage.place != new_stage.place
    ):
        old_kind, kind = _kind_of_item(old_value), _kind_of_item(value)
        raise ScenarioError(
            f"--set {key}: would replace '{old_kind}' by '{kind}', another part of "
            f"the chain; give --set facility.stages.{kind}.KEY=VALUE for a key of "
            "that, or all of facility.stages"
        )


def load_scenario(
    name_or_path: str | Path,
    overrides: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
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
    names : mapping, optional
        Names of these keys in errors, such as ``--seed``; the keys by default.

    Returns
    -------
    Scenario
        The checked scenario.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, expected value, value found.
    """
    path = find_shipped("scenario", name_or_path)
    original, lines = load_yaml_with_lines(path, "keys such as 'name:'")
    data, names_by_key = with_overrides(original, overrides, values or {}, names or {})
    data = with_set_keys(data, original, names_by_key)

    where = place_of(names_by_key, partial(key_location, path, lines))
    return scenario_from_dict(data, where).with_folder(path.parent)


def place_of(
    names_by_key: Mapping[str, str], otherwise: Callable[[KeyPath], str]
) -> Callable[[KeyPath], str]:
    """Return the function that names a key in errors: by the user's name, if any."""

    def where(key_path: KeyPath) -> str:
        for depth in range(len(key_path), 0, -1):
            name = names_by_key.get(dotted_key(key_path[:depth]))
            if name is not None:
                return ".".join((name, *map(str, key_path[depth:])))
        names_below = dict.fromkeys(
            name
            for key, name in names_by_key.items()
            if key.startswith(dotted_key(key_path) + ".")
        )
        if names_below and key_path:
            return f"{', '.join(names_below)} (in {dotted_key(key_path)})"
        return otherwise(key_path)

    return where


@contextmanager
def locate_errors(name_or_path: str | Path) -> Iterator[None]:
    """Add file and line to errors that only a run detects, by their key."""
    try:
        yield
    except InputError as error:
        path = find_shipped("scenario", name_or_path)
        _, lines = load_yaml_with_lines(path, "")
        paths = {dotted_key(key_path): key_path for key_path in lines if key_path}
        parts = (text.partition(": ") for text in error.problems)
        raise type(error)(
            f"{key_location(path, lines, paths[key])}: {rest}"
            if key in paths
            else f"{key}{colon}{rest}"
            for key, colon, rest in parts
        ) from error


def scenario_from_dict(data: Mapping[str, Any], where: Any = None) -> Scenario:
    """Check a scenario given as plain data.

    Parameters
    ----------
    data : mapping
        The content of a scenario file.
    where : callable, optional
        Returns the name of a key path in an error; the dotted key by default.

    Raises
    ------
    ScenarioError
        With one line for each problem.
    """
    where = where or (lambda key_path: dotted_key(key_path) or "scenario")
    scenario = checked(data, Scenario, where)
    # Cross-checks follow only if the period of the run is valid.
    problems = [*_period_problems(scenario)] or [*unknown_names(scenario)]
    problems = problems or [*cross_problems(scenario)]
    if problems:
        raise ScenarioError(
            f"{where(key_path)}: {message}" for key_path, message in problems
        )
    return scenario


def target_values(
    scenario: Scenario, target_utilization: float, name: str = "target_utilization"
) -> dict[str, float | None]:
    """Return values by key that set a target utilization for the only stream.

    The target replaces a number of jobs or requests in the scenario.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    target_utilization : float
        Mean node occupancy, 0-1.
    name : str
        Name of the target in errors.

    Raises
    ------
    ScenarioError
        If the scenario has several streams; the text names their keys.
    """
    count_keys = {
        "streams": ("jobs_per_day",),
        "request_streams": ("request_rate_rps", "requests_per_day"),
    }
    streams = [
        (group, name) for group in count_keys for name in getattr(scenario, group)
    ]
    keys = [f"{group}.{name}.target_utilization" for group, name in streams]
    if len(keys) != 1:
        raise ScenarioError(
            [f"{name}: the scenario has several streams; set one of {one_of(keys)}"]
        )
    group, name = streams[0]
    replaced: dict[str, float | None] = {
        f"{group}.{name}.{key}": None for key in count_keys[group]
    }
    return {**replaced, keys[0]: target_utilization}


def with_overrides(
    data: dict[str, Any],
    overrides: Sequence[str],
    values: Mapping[str, Any] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the data with overrides, and the user's name of each dotted key."""
    names_by_key: dict[str, str] = {}
    problems: list[str] = []
    for override in overrides:
        try:
            key, value = _parse_override(override)
            resolved_key, old_value = _resolve_items(data, key)
            _check_stage(key, old_value, value)
            names_by_key[resolved_key] = f"--set {key}"
            data = with_value(
                data, key, value, partial(str, names_by_key[resolved_key])
            )
        except ScenarioError as error:
            problems.extend(error.problems)
    if problems:
        raise ScenarioError(problems)
    for key, value in values.items():
        names_by_key[key] = names.get(key, key)
        data = with_value(data, key, as_yaml(value), partial(str, names_by_key[key]))
    return data, names_by_key


def _parse_override(text: str) -> tuple[str, Any]:
    """Return key and value of an override such as ``key=value``."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise ScenarioError(
            [
                (
                    f"--set {text}: expected dotted.key=value, such as "
                    "facility.pools.h100.n_nodes=100"
                )
            ]
        )
    return key, read_value(value, f"--set {key}")


def input_files(scenario: Scenario) -> tuple[str, ...]:
    """Return the names of all files that a scenario refers to, sorted.

    Names are as in the scenario.
    """
    facility = scenario.facility
    names: set[str | None] = {name for stage in facility.stages for name in stage.files}
    if facility.weather is not None:
        names.update(facility.weather.files)
    for jobs in scenario.streams.values():
        if jobs.replay is not None:
            names.add(jobs.replay.log)
        if jobs.zeus is not None:
            names |= {jobs.zeus.train, jobs.zeus.power, jobs.zeus.groups}
    for name, requests in scenario.request_streams.items():
        names.update(replay.trace for replay in requests.replays(name).values())
    for replicas in scenario.replica_streams.values():
        names.update(replicas.files)
    if scenario.flexibility is not None:
        names.update(
            signal.file for signal in scenario.flexibility.signals.configured().values()
        )
    return tuple(sorted(name for name in names if name is not None))


def content_hash(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of the names and contents in a folder.

    The result is None if the path does not exist; the file's reader reports the error.

    Parameters
    ----------
    path : pathlib.Path
        File or folder.
    """
    if path.is_file():
        return _sha256(path)
    files = (
        sorted(part for part in path.rglob("*") if part.is_file())
        if path.is_dir()
        else []
    )
    if not files:
        return None
    # Names are included, as they identify services and kinds.
    lines = "\n".join(f"{f.relative_to(path).as_posix()} {_sha256(f)}" for f in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LogFormatError(
            f"{one_line(str(path))}: can't be read ({reason(error)})"
        ) from error
