"""Values of plain data by dotted key, ``streams.training.classes.0.n_nodes``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diploee.errors import InputError, ScenarioError


def get_value(data: Any, key: str) -> Any:
    """Return the value of a dotted key in plain data, None where there is none."""
    for part in key.split("."):
        name = _name(data, part)
        if isinstance(data, dict):
            data = data.get(name)
        else:
            data = data[name] if isinstance(data, list) and name is not None else None
    return data


def with_value(
    data: dict[str, Any], key: str, value: Any, where: Callable[[], str]
) -> dict[str, Any]:
    """Return plain data with one dotted key changed; what is not on its path is shared.

    Nothing is changed in place: through an alias of YAML one part may stand at several keys.
    """
    try:
        changed: dict[str, Any] = _changed(data, key.split("."), 0, value)
    except InputError as error:
        raise ScenarioError(f"{where()}: {error}") from error
    return changed


def _changed(data: Any, parts: Sequence[str], depth: int, value: Any) -> Any:
    if depth == len(parts):
        return value
    name = _name(data, parts[depth])
    if isinstance(data, list):
        if name is None:
            have = f"0 to {len(data) - 1}" if data else "it is empty"
            raise InputError(f"'{parts[depth]}' is no item of the list ({have})")
        changed = [*data]
        changed[name] = _changed(data[name], parts, depth + 1, value)
        return changed
    if data is not None and not isinstance(data, dict):
        raise InputError(f"'{'.'.join(parts[:depth])}' is a single value, not a group of keys")
    group = data or {}
    return {**group, name: _changed(group.get(name), parts, depth + 1, value)}


def _name(data: Any, part: str) -> Any:
    """Return a part of a key as the data has it: keys may be numbers, such as node counts."""
    if isinstance(data, list):
        return next((index for index in range(len(data)) if str(index) == part), None)
    known = data if isinstance(data, dict) else ()
    return next((name for name in known if str(name) == part), part)
