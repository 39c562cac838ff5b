"""YAML with the line of every key, so that an error can name its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from diploee.errors import ScenarioError

KeyPath = tuple[str | int, ...]


def load_yaml_with_lines(path: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Read a YAML file.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    data : object
        The content in plain Python types.
    lines : dict of tuple to int
        The line, from 1, of every key and list item by its path.

    Raises
    ------
    ScenarioError
        If the file can't be read, is not YAML, or gives a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError([f"{path}: can't be read ({error.strerror})"]) from error
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path}: is not UTF-8 text (byte {error.start})"]) from error
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise ScenarioError([f"{path}: is empty; a scenario needs name, facility, start, ..."])
        lines: dict[KeyPath, int] = {(): 1}
        _collect(node, (), lines, path, set())
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioError([f"{path}{line}: not valid YAML: {error.problem}"]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError([f"{path}: not valid YAML: {str(error).splitlines()[0]}"]) from error
    finally:
        loader.dispose()


def _collect(
    node: yaml.Node, place: KeyPath, lines: dict[KeyPath, int], path: Path, inside: set[int]
) -> None:
    if id(node) in inside:
        raise ScenarioError([f"{path}:{node.start_mark.line + 1}: an alias that holds itself"])
    inside = inside | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = _key(key_node)
            here = (*place, key)
            if here in lines and key != "<<":
                raise ScenarioError(
                    [
                        f"{path}:{key_node.start_mark.line + 1} {dotted(here)}: key given twice "
                        f"(first on line {lines[here]}); remove one"
                    ]
                )
            lines[here] = key_node.start_mark.line + 1
            _collect(value_node, here, lines, path, inside)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*place, index)] = item.start_mark.line + 1
            _collect(item, (*place, index), lines, path, inside)


def _key(node: yaml.Node) -> str | int:
    if node.tag == "tag:yaml.org,2002:int":
        try:
            return int(node.value)
        except ValueError:
            pass
    return str(node.value)


def line_of(place: KeyPath, lines: dict[KeyPath, int]) -> int | None:
    """Return the line of a key, or of the nearest key above it that stands in the file."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place)


def dotted(place: KeyPath) -> str:
    """Return a key path as users write it, ``streams.training.pool``."""
    return ".".join(map(str, place))
