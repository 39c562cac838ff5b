"""Loading of scenarios from a file or a shipped name, with validation.

All problems are reported at once, each with its line. Sizes that exceed any memory are
reported too, so that a typing error does not exhaust the memory.
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
from diploee.base.plain_data import KeyPath, checked
from diploee.facility.base import STAGES
from diploee.scenario.cross_checks import cross_problems, unknown_names
from diploee.scenario.models import Scenario
from diploee.scenario.yaml_lines import (
    dotted_key,
    key_location,
    load_yaml_with_lines,
    read_value,
)

MAX_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2199
"""Time stamps of these years fit every reader of the files, pandas' nanoseconds
included."""


def _span_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Yield a problem if a run leaves the years that all readers support."""
    ends: dict[str, Callable[[], datetime]] = {
        "start": lambda: scenario.start,
        "warm_up": lambda: (
            scenario.start - timedelta(seconds=scenario.warm_up_ms / 1e3)
        ),
        "duration": lambda: (
            scenario.start + timedelta(seconds=scenario.horizon_ms / 1e3)
        ),
    }
    for key, end in ends.items():
        try:
            year = end().year
        except (OverflowError, ValueError):
            year = 0
        if not FIRST_YEAR <= year <= LAST_YEAR + (key == "duration"):
            years, result = f"{FIRST_YEAR} to {LAST_YEAR}", getattr(scenario, key)
            yield (key,), f"must lie in the years {years}, found {result}"
            return
    longest_s, resolution_s = MAX_YEARS * 366 * 86_400, scenario.resolution_ms / 1000
    if not resolution_s <= scenario.horizon_ms / 1000 <= longest_s:
        yield (
            ("duration",),
            f"must be at least one interval of the resolution, {resolution_s:g} s, and "
            f"at most {MAX_YEARS} years, found {scenario.duration}",
        )


def get_value(data: Any, key: str) -> Any:
    """Return the value of a dotted key in plain data, or None if absent."""
    return _resolve_items(data, key)[1]


def _resolve_items(data: Any, key: str) -> tuple[str, Any]:
    """Return a dotted key, with item numbers for kinds, and its value."""
    parts = []
    for part in key.split("."):
        name = _name(data, part)
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

    Nothing is changed in place, because a YAML alias may put one part under several
    keys.
    """
    try:
        changed: dict[str, Any] = _changed(data, key.split("."), 0, value)
    except InputError as error:
        raise ScenarioError(f"{where()}: {error}") from error
    return changed


_UNDESCRIBED = ("seed", "name", "description")


def with_set_keys(
    data: dict[str, Any], written: Mapping[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """Return data with a description that lists the keys set since writing."""
    text = data.get("description")
    if not text or text != written.get("description"):
        return data
    values = {
        key: _resolve_items(data, key)[1] for key in keys if key not in _UNDESCRIBED
    }
    since = [
        key if isinstance(value, dict | list) else f"{key}={value}"
        for key, value in values.items()
        if value != _resolve_items(written, key)[1]
    ]
    return (
        {**data, "description": f"Set since: {', '.join(since)}. {text}"}
        if since
        else data
    )


def _changed(data: Any, parts: Sequence[str], depth: int, value: Any) -> Any:
    if depth == len(parts):
        return value
    name = _name(data, parts[depth])
    if isinstance(data, list):
        if name is None:
            have = f"0 to {len(data) - 1}" if data else "it is empty"
            raise InputError(f"'{parts[depth]}' is no item of the list ({have})")
        changed, item = [*data], data[name]
        if isinstance(item, str) and depth + 1 < len(parts):
            item = {"kind": item}  # as given by its name alone
        changed[name] = _changed(item, parts, depth + 1, value)
        return changed
    if data is not None and not isinstance(data, dict):
        raise InputError(
            f"'{'.'.join(parts[:depth])}' is a single value, not a group of keys"
        )
    group = data or {}
    return {**group, name: _changed(group.get(name), parts, depth + 1, value)}


def _name(data: Any, part: str) -> Any:
    """Return a part of a dotted key in the type that the data has.

    Keys may be numbers, such as node counts. An item of a list is selected by its
    number, or by its kind or name if that is unique.
    """
    if isinstance(data, list):
        of_kind = [
            index
            for index, item in enumerate(data)
            if part in (_kind(item), isinstance(item, dict) and item.get("name"))
        ]
        numbered = next(
            (index for index in range(len(data)) if str(index) == part), None
        )
        return of_kind[0] if len(of_kind) == 1 else numbered
    known = data if isinstance(data, dict) else ()
    return next((name for name in known if str(name) == part), part)


def _kind(item: Any) -> Any:
    return item.get("kind") if isinstance(item, dict) else item


def _check_stage(key: str, before: Any, value: Any) -> None:
    """Raise an error if a replaced stage belongs elsewhere in the chain."""
    own, new = (STAGES.by_name.get(str(_kind(item))) for item in (before, value))
    if (
        re.fullmatch(r"facility\.stages\.\w+", key)
        and own
        and new
        and own.place != new.place
    ):
        own_kind, kind = _kind(before), _kind(value)
        raise ScenarioError(
            f"--set {key}: would replace '{own_kind}' by '{kind}', another part of "
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
    written, lines = load_yaml_with_lines(path, "keys such as 'name:'")
    data, called = with_overrides(written, overrides, values or {}, names or {})
    data = with_set_keys(data, written, called)

    def where(key_path: KeyPath) -> str:
        for depth in range(len(key_path), 0, -1):
            name = called.get(dotted_key(key_path[:depth]))
            if name is not None:
                return ".".join((name, *map(str, key_path[depth:])))
        inside = [
            name
            for key, name in called.items()
            if key.startswith(dotted_key(key_path) + ".")
        ]
        if inside and key_path:
            return f"{', '.join(inside)} (in {dotted_key(key_path)})"
        return key_location(path, lines, key_path)

    return scenario_from_dict(data, where).with_folder(path.parent)


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
    # What lies between the parts is looked at once the span of the run is sound.
    problems = [*_span_problems(scenario)] or [*unknown_names(scenario)]
    problems = problems or [*cross_problems(scenario)]
    if problems:
        raise ScenarioError(
            f"{where(key_path)}: {message}" for key_path, message in problems
        )
    return scenario


def target_values(
    scenario: Scenario, target_utilization: float, name: str = "target_utilization"
) -> dict[str, float | None]:
    """Return the key values that set a target utilization for the only stream.

    The target replaces a specified number of jobs or requests.

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
    given = {
        "streams": ("jobs_per_day",),
        "request_streams": ("request_rate_rps", "requests_per_day"),
    }
    streams = [(group, name) for group in given for name in getattr(scenario, group)]
    keys = [f"{group}.{name}.target_utilization" for group, name in streams]
    if len(keys) != 1:
        raise ScenarioError(
            [f"{name}: the scenario has several streams; set one of {one_of(keys)}"]
        )
    group, name = streams[0]
    replaced: dict[str, float | None] = {
        f"{group}.{name}.{key}": None for key in given[group]
    }
    return {**replaced, keys[0]: target_utilization}


def with_overrides(
    data: dict[str, Any],
    overrides: Sequence[str],
    values: Mapping[str, Any] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the data with overrides, and the user's name of each dotted key."""
    called: dict[str, str] = {}
    problems: list[str] = []
    for override in overrides:
        try:
            key, value = _parse_override(override)
            place, before = _resolve_items(data, key)
            _check_stage(key, before, value)
            called[place] = f"--set {key}"
            data = with_value(data, key, value, partial(str, called[place]))
        except ScenarioError as error:
            problems.extend(error.problems)
    if problems:
        raise ScenarioError(problems)
    for key, value in values.items():
        data = with_value(data, key, value, partial(str, names.get(key, key)))
        if value is not None:  # what an option takes away has no option of its own
            called[key] = names.get(key, key)
    return data, called


def _parse_override(text: str) -> tuple[str, Any]:
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
    """Return the input files of a scenario as named in it, sorted."""
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

    None if the path does not exist; the reader of the file reports the error.

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
    # names tell services and kinds
    lines = "\n".join(f"{f.relative_to(path).as_posix()} {_sha256(f)}" for f in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LogFormatError(
            f"{one_line(str(path))}: can't be read ({reason(error)})"
        ) from error
