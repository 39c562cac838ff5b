"""Edits of a scenario's YAML text, one key at a time, with comments preserved.

The text is spliced at the start and end of YAML nodes, and read again. If the result
differs from the intended data, as within anchors, the data are written without
comments.
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

TAKEN_OUT = object()
"""Value that marks a key to remove."""


@lru_cache(maxsize=64)
def read(text: str) -> tuple[dict[str, Any], Any]:
    """Return the read-only data of a YAML text and its lines."""
    data, lines = read_text(text)
    return data, lines


def edited(text: str, key: str, value: Any) -> str:
    """Return a scenario's text with a dotted key set, or removed with `TAKEN_OUT`."""
    data, _ = read(text)
    at, _, name = key.rpartition(".")
    parent = get_value(data, at) if at else data
    if value is not TAKEN_OUT:
        target = with_value(data, key, value, lambda: key)
        return _whole(target, lambda: _with(text, key.split("."), value))
    if not isinstance(parent, dict) or name not in parent:
        return text
    left = {k: inner for k, inner in parent.items() if k != name}
    target = with_value(data, at, left, lambda: key) if at else left
    return _whole(target, lambda: _without(text, _node(text, at), name))


def listed(text: str, key: str, items: list[Any]) -> str:
    """Return a scenario's text with the differing items of a list replaced."""
    data, _ = read(text)
    old = get_value(data, key) or []
    target = with_value(data, key, items, lambda: key)
    pairs = enumerate(zip(old, items, strict=False))
    k = next((k for k, (a, b) in pairs if a != b), min(len(old), len(items)))

    def spliced() -> str:
        if not old or abs(len(items) - len(old)) > 1:
            return _with(text, key.split("."), items)
        if len(items) == len(old):
            return _with(text, [*key.split("."), str(k)], items[k])
        if len(items) > len(old):
            return _inserted(text, _node(text, key), k, flow(items[k]))
        return _without(text, _node(text, key), str(k))

    return _whole(target, spliced)


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _whole(target: Any, spliced: Callable[[], str]) -> str:
    try:
        new = spliced()
        if read(new)[0] == target:
            return new
    except (ScenarioError, LookupError, ValueError, yaml.YAMLError):
        pass
    return yaml.safe_dump(target, sort_keys=False, allow_unicode=True, width=100)


def _node(text: str, key: str) -> Any:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in key.split(".") if key else ():
        node = _children(node)[part][1]
    return node


def _children(node: Any) -> dict[str, tuple[Any, Any]]:
    """Return the start and value of each entry of a node, by name or index."""
    if isinstance(node, yaml.SequenceNode):
        return {str(k): (item, item) for k, item in enumerate(node.value)}
    if isinstance(node, yaml.MappingNode):
        return {str(name.value): (name, value) for name, value in node.value}
    return {}


def _with(text: str, parts: list[str], value: Any) -> str:
    node, rest = _node(text, ""), [*parts]
    while rest and rest[0] in _children(node):
        node = _children(node)[rest.pop(0)][1]
    for name in reversed(rest[1:]):
        value = {name: value}
    if rest:
        if not isinstance(node, yaml.MappingNode):
            raise LookupError(rest[0])
        return _inserted(text, node, len(node.value), flow({rest[0]: value})[1:-1])
    start, end = _start(node), _end(text, node)
    gap = " " if text[start - 1 : start] == ":" else ""  # of a key without a value
    return f"{text[:start]}{gap}{flow(value)}{text[end:]}"


def _without(text: str, node: Any, name: str) -> str:
    entries = _children(node)
    at = [*entries].index(name)
    spans = [(_start(key), _end(text, value)) for key, value in entries.values()]
    start, end = spans[at]
    if not node.flow_style:
        line_end = text.find("\n", end)
        rest = text[line_end + 1 if line_end >= 0 else end :]
        return text[: text.rfind("\n", 0, start) + 1] + rest
    if at + 1 < len(spans):
        return text[:start] + text[spans[at + 1][0] :]
    return text[: spans[at - 1][1] if at else start] + text[end:]


def _inserted(text: str, node: Any, at: int, entry: str) -> str:
    """Return a text with a new entry inserted before an index of a mapping or list."""
    entries = [*_children(node).values()]
    if node.flow_style:
        if at < len(entries):
            start = _start(entries[at][0])
            return f"{text[:start]}{entry}, {text[start:]}"
        end = node.end_mark.index - 1
        return f"{text[:end].rstrip()}{', ' if entries else ''}{entry}{text[end:]}"
    dash = "- " if isinstance(node, yaml.SequenceNode) else ""
    line = f"{' ' * node.start_mark.column}{dash}{entry}"
    if at < len(entries):
        start = text.rfind("\n", 0, _start(entries[at][0])) + 1
        return f"{text[:start]}{line}\n{text[start:]}"
    end = _end(text, node, to_line=True)
    return f"{text[:end]}\n{line}{text[end:]}"


def _start(node: Any) -> int:
    return int(node.start_mark.index)


def _end(text: str, node: Any, to_line: bool = False) -> int:
    """Return the end of a node in the text, without trailing comments.

    With `to_line`, it is the end of its last line, comment included.
    """
    start, end = _start(node), int(node.end_mark.index)
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        lines = text[start:end].split("\n")
        while len(lines) > 1 and (
            not lines[-1].strip() or lines[-1].lstrip().startswith("#")
        ):
            lines.pop()
        end = start + len("\n".join(lines))
        if not to_line and (entries := [*_children(node).values()]):
            end = min(end, max(_end(text, entries[-1][1]), start))
    if to_line:
        line_end = text.find("\n", end)
        end = line_end if line_end >= 0 else len(text.rstrip("\n"))
    return end
