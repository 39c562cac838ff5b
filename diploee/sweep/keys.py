"""Dotted keys of a scenario: whether they exist, what they hold, and a copy with one changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from diploee.errors import InputError, did_you_mean, one_of, shown
from diploee.scenario import Scenario


def key_problem(scenario: Scenario, key: str, may_add: bool = False) -> str | None:
    """Return why a dotted key does not exist in a scenario, or None where it does.

    Parameters
    ----------
    scenario : Scenario
        The base of the sweep.
    key : str
        Such as ``facility.pools.h100.n_nodes``; items of a list count from 0.
    may_add : bool
        Whether the last part may be a new name, such as that of a further pool.
    """
    here: Any = scenario
    parts = key.split(".")
    for depth, part in enumerate(parts):
        group = ".".join(parts[:depth])
        inside = f"in '{group}'" if depth else "in a scenario"
        if isinstance(here, BaseModel):
            allowed = tuple(type(here).model_fields)
            if part not in allowed:
                return _no_such(part, inside, allowed)
            here = getattr(here, part)
        elif isinstance(here, dict):
            names = {str(name): value for name, value in here.items()}
            if part not in names:
                return None if may_add and part == parts[-1] else _no_such(part, inside, names)
            here = names[part]
        elif isinstance(here, list | tuple):
            if not part.isdigit() or int(part) >= len(here):
                return f"no item '{part}' {inside}; it has the items 0 to {len(here) - 1}"
            here = here[int(part)]
        elif here is None:
            return f"'{group}' is not set in the base scenario; give it as a whole"
        else:
            return f"'{group}' is a single value, not a group of keys"
    return None


def _no_such(part: str, inside: str, allowed: Any) -> str:
    return f"no key '{part}' {inside} (have: {one_of(allowed)}){did_you_mean(part, allowed)}"


def get_value(data: Any, key: str) -> Any:
    """Return the value of a dotted key in plain data, None where there is none."""
    for part in key.split("."):
        if isinstance(data, list):
            data = data[int(part)] if part.isdigit() and int(part) < len(data) else None
        elif isinstance(data, dict):
            data = next((value for name, value in data.items() if str(name) == part), None)
        else:
            return None
    return data


def with_value(data: Any, key: str, value: Any) -> Any:
    """Return plain data with one dotted key changed; what is not on its path is shared.

    Raises
    ------
    InputError
        If the key goes through a single value or an item that a list does not have.
    """
    return _changed(data, key.split("."), value)


def _changed(data: Any, parts: Sequence[str], value: Any) -> Any:
    head, rest = parts[0], parts[1:]
    if isinstance(data, list):
        if not head.isdigit() or int(head) >= len(data):
            raise InputError(f"no item '{head}'; the list has the items 0 to {len(data) - 1}")
        items = list(data)
        items[int(head)] = _changed(items[int(head)], rest, value) if rest else value
        return items
    if data is not None and not isinstance(data, dict):
        raise InputError(f"'{head}' would lie in a single value, {shown(data)}")
    group = dict(data or {})
    name = next((known for known in group if str(known) == head), head)
    group[name] = _changed(group.get(name), rest, value) if rest else value
    return group
