"""Edits of a scenario's text.

One key at a time, with comments and all else left as they are. A text is spliced where
its YAML nodes begin and end, and read again: where that is not what the edit means, as
within anchors, the data are written out without comments.
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
"""Value of a key that is taken out."""


@lru_cache(maxsize=64)
def read(text: str) -> tuple[dict[str, Any], Any]:
    """Return the data of a text and its lines, as `read_text` does.

    They are not to be changed.
    """
    data, lines = read_text(text)
    return data, lines


def edited(text: str, key: str, value: Any) -> str:
    """Return a scenario's text with a dotted key set, or taken out with `TAKEN_OUT`."""
    data, _ = read(text)
    parts = key.split(".")
    if value is TAKEN_OUT:
        parent = get_value(data, ".".join(parts[:-1])) if parts[1:] else data
        if not isinstance(parent, dict) or parts[-1] not in parent:
            return text
        left = {name: inner for name, inner in parent.items() if name != parts[-1]}
        target = (
            with_value(data, ".".join(parts[:-1]), left, lambda: key)
            if parts[1:]
            else left
        )
        return _whole(
            target, lambda: _without(text, _node(text, parts[:-1]), parts[-1])
        )
    target = with_value(data, key, value, lambda: key)
    return _whole(target, lambda: _with(text, parts, value))


def listed(text: str, key: str, items: list[Any]) -> str:
    """Return a scenario's text with a list's items replaced where they differ."""
    data, _ = read(text)
    old = get_value(data, key)
    target = with_value(data, key, items, lambda: key)
    if not isinstance(old, list) or not old:
        return _whole(target, lambda: _with(text, key.split("."), items))
    k = next(
        (k for k, (a, b) in enumerate(zip(old, items, strict=False)) if a != b), None
    )
    at = min(len(old), len(items)) if k is None else k
    splice = {0: _replaced, 1: _inserted, -1: _removed}.get(len(items) - len(old))
    if splice is None:
        return _whole(target, lambda: _with(text, key.split("."), items))
    item = items[at] if at < len(items) else None
    return _whole(target, lambda: splice(text, _node(text, key.split(".")), at, item))


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


def _node(text: str, parts: list[str]) -> Any:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for part in parts:
        node = _child(node, part)
    return node


def _child(node: Any, part: str) -> Any:
    """Return a node within another; `LookupError` where there is none."""
    if isinstance(node, yaml.SequenceNode):
        return node.value[int(part)]
    if isinstance(node, yaml.MappingNode):
        return {str(name.value): inner for name, inner in node.value}[part]
    raise LookupError(part)


def _with(text: str, parts: list[str], value: Any) -> str:
    node, rest = _node(text, []), [*parts]
    while rest:
        try:
            node = _child(node, rest[0])
        except (LookupError, ValueError):
            break
        rest.pop(0)
    for name in reversed(rest[1:]):
        value = {name: value}
    if not rest:
        start, end = _span(text, node)
        gap = " " if text[start - 1 : start] == ":" else ""  # of a key without a value
        return f"{text[:start]}{gap}{flow(value)}{text[end:]}"
    if not isinstance(node, yaml.MappingNode):
        raise LookupError(rest[0])
    entry = flow({rest[0]: value})[1:-1]
    if node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end].rstrip()}{', ' if node.value else ''}{entry}{text[end:]}"
    end = _span(text, node, to_line=True)[1]
    return f"{text[:end]}\n{' ' * node.start_mark.column}{entry}{text[end:]}"


def _without(text: str, node: Any, name: str) -> str:
    entries = [
        (_start(key), _span(text, inner)[1], str(key.value))
        for key, inner in node.value
    ]
    at = next(k for k, (*_, key) in enumerate(entries) if key == name)
    return _cut(text, node, [(start, end) for start, end, _ in entries], at)


def _removed(text: str, node: Any, at: int, _: Any) -> str:
    return _cut(text, node, [_span(text, item) for item in node.value], at)


def _cut(text: str, node: Any, spans: list[tuple[int, int]], at: int) -> str:
    start, end = spans[at]
    if node.flow_style:
        if at + 1 < len(spans):
            return text[:start] + text[spans[at + 1][0] :]
        return text[: spans[at - 1][1] if at else start] + text[end:]
    line_end = text.find("\n", end)
    return (
        text[: text.rfind("\n", 0, start) + 1]
        + text[line_end + 1 if line_end >= 0 else end :]
    )


def _replaced(text: str, node: Any, at: int, item: Any) -> str:
    start, end = _span(text, node.value[at])
    return text[:start] + flow(item) + text[end:]


def _inserted(text: str, node: Any, at: int, item: Any) -> str:
    spans = [_span(text, inner, to_line=not node.flow_style) for inner in node.value]
    if node.flow_style:
        if at < len(spans):
            return f"{text[: spans[at][0]]}{flow(item)}, {text[spans[at][0] :]}"
        return f"{text[: spans[-1][1]]}, {flow(item)}{text[spans[-1][1] :]}"
    line = f"{' ' * node.start_mark.column}- {flow(item)}"
    if at < len(spans):
        start = text.rfind("\n", 0, spans[at][0]) + 1
        return f"{text[:start]}{line}\n{text[start:]}"
    return f"{text[: spans[-1][1]]}\n{line}{text[spans[-1][1] :]}"


def _start(node: Any) -> int:
    return int(node.start_mark.index)


def _span(text: str, node: Any, to_line: bool = False) -> tuple[int, int]:
    """Return a node's begin and end in the text, without comments behind it.

    `to_line`: to the end of its last line, a comment there included.
    """
    start, end = _start(node), int(node.end_mark.index)
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        lines = text[start:end].split("\n")
        while len(lines) > 1 and (
            not lines[-1].strip() or lines[-1].lstrip().startswith("#")
        ):
            lines.pop()
        last = node.value[-1] if node.value else None
        inner = last[1] if isinstance(last, tuple) else last
        end = start + len("\n".join(lines))
        if inner is not None and not to_line:
            end = min(end, max(_span(text, inner)[1], start))
    if to_line:
        line_end = text.find("\n", end)
        end = line_end if line_end >= 0 else len(text.rstrip("\n"))
    return start, end
