"""Edits of a scenario's YAML text, one key at a time, with comments preserved.

Only the text of the changed YAML node is replaced, and the result is parsed again. If
it does not have the intended data (for example because of anchors), the data are
written as new YAML, without comments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import yaml

from diploee.base.errors import ScenarioError
from diploee.scenario.loading import get_value, with_value
from diploee.scenario.yaml_lines import read_text

REMOVED = object()
"""Value that removes a key."""


@lru_cache(maxsize=64)
def parse_yaml(text: str) -> tuple[dict[str, Any], Any]:
    """Return the data of a YAML text (not to be changed), and the lines of its keys."""
    data, lines = read_text(text)
    return data, lines


def set_key(text: str, key: str, value: Any) -> str:
    """Return a scenario's text with a dotted key set, or removed if `REMOVED`."""
    data, _ = parse_yaml(text)
    parent_key, _, name = key.rpartition(".")
    parent = get_value(data, parent_key) if parent_key else data
    if value is not REMOVED:
        target = with_value(data, key, value, lambda: key)
        return _checked_text(target, lambda: _with_value(text, key.split("."), value))
    if not isinstance(parent, dict) or name not in parent:
        return text
    remaining = {k: inner for k, inner in parent.items() if k != name}
    target = (
        with_value(data, parent_key, remaining, lambda: key)
        if parent_key
        else remaining
    )
    return _checked_text(
        target, lambda: _without_entry(text, _find_node(text, parent_key), name)
    )


def set_list(text: str, key: str, items: list[Any]) -> str:
    """Return a scenario's text with new items of a list.

    The first item that differs is replaced, inserted or removed in place.
    """
    data, _ = parse_yaml(text)
    old = get_value(data, key) or []
    target = with_value(data, key, items, lambda: key)
    pairs = enumerate(zip(old, items, strict=False))
    k = next((k for k, (a, b) in pairs if a != b), min(len(old), len(items)))

    def edit() -> str:
        if not old or abs(len(items) - len(old)) > 1:
            return _with_value(text, key.split("."), items)
        if len(items) == len(old):
            return _with_value(text, [*key.split("."), str(k)], items[k])
        if len(items) > len(old):
            return _with_entry(text, _find_node(text, key), k, to_flow_yaml(items[k]))
        return _without_entry(text, _find_node(text, key), str(k))

    return _checked_text(target, edit)


def to_flow_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _checked_text(target: Any, edit: Callable[[], str]) -> str:
    """Return the edited text if it has the target data, else the data as new YAML."""
    try:
        new = edit()
        if parse_yaml(new)[0] == target:
            return new
    except (ScenarioError, LookupError, ValueError, yaml.YAMLError):
        pass
    return yaml.safe_dump(target, sort_keys=False, allow_unicode=True, width=100)


def _find_node(text: str, key: str) -> Any:
    """Return the YAML node of a dotted key; the root for an empty key."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in key.split(".") if key else ():
        node = _entries(node)[part][1]
    return node


def _entries(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return start node and value node of each entry of a node, by name or index."""
    if isinstance(node, yaml.SequenceNode):
        return {str(k): (item, item) for k, item in enumerate(node.value)}
    if isinstance(node, yaml.MappingNode):
        return {str(name.value): (name, value) for name, value in node.value}
    return {}


def _with_value(text: str, parts: list[str], value: Any) -> str:
    """Return the text with a key set to a value, within existing mappings or lists."""
    node, remaining = _find_node(text, ""), [*parts]
    while remaining and remaining[0] in _entries(node):
        node = _entries(node)[remaining.pop(0)][1]
    for name in reversed(remaining[1:]):
        value = {name: value}
    if remaining:
        if not isinstance(node, yaml.MappingNode):
            raise LookupError(remaining[0])
        return _with_entry(
            text, node, len(node.value), to_flow_yaml({remaining[0]: value})[1:-1]
        )
    start, end = _node_start(node), _node_end(text, node)
    gap = " " if text[start - 1 : start] == ":" else ""  # a key without a value
    return f"{text[:start]}{gap}{to_flow_yaml(value)}{text[end:]}"


def _without_entry(text: str, node: Any, name: str) -> str:
    """Return the text without an entry of a mapping or list."""
    entries = _entries(node)
    index = [*entries].index(name)
    spans = [
        (_node_start(key), _node_end(text, value)) for key, value in entries.values()
    ]
    start, end = spans[index]
    if not node.flow_style:
        line_end = text.find("\n", end)
        rest = text[line_end + 1 if line_end >= 0 else end :]
        return text[: text.rfind("\n", 0, start) + 1] + rest
    if index + 1 < len(spans):
        return text[:start] + text[spans[index + 1][0] :]
    return text[: spans[index - 1][1] if index else start] + text[end:]


def _with_entry(text: str, node: Any, index: int, entry: str) -> str:
    """Return the text with an entry inserted in a mapping or list, before `index`."""
    entries = [*_entries(node).values()]
    if node.flow_style:
        if index < len(entries):
            start = _node_start(entries[index][0])
            return f"{text[:start]}{entry}, {text[start:]}"
        end = node.end_mark.index - 1
        return f"{text[:end].rstrip()}{', ' if entries else ''}{entry}{text[end:]}"
    dash = "- " if isinstance(node, yaml.SequenceNode) else ""
    line = f"{' ' * node.start_mark.column}{dash}{entry}"
    if index < len(entries):
        start = text.rfind("\n", 0, _node_start(entries[index][0])) + 1
        return f"{text[:start]}{line}\n{text[start:]}"
    end = _node_end(text, node, to_line=True)
    return f"{text[:end]}\n{line}{text[end:]}"


def _node_start(node: Any) -> int:
    return int(node.start_mark.index)


def _node_end(text: str, node: Any, to_line: bool = False) -> int:
    """Return the end of a node in the text, without trailing comments.

    With `to_line`, it is the end of the node's last line, comment included.
    """
    start, end = _node_start(node), int(node.end_mark.index)
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        lines = text[start:end].split("\n")
        while len(lines) > 1 and (
            not lines[-1].strip() or lines[-1].lstrip().startswith("#")
        ):
            lines.pop()
        end = start + len("\n".join(lines))
        if not to_line and (entries := [*_entries(node).values()]):
            end = min(end, max(_node_end(text, entries[-1][1]), start))
    if to_line:
        line_end = text.find("\n", end)
        end = line_end if line_end >= 0 else len(text.rstrip("\n"))
    return end
