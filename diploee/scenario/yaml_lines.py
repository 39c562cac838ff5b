"""YAML with the line of every key, so that an error can name its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from diploee.errors import ScenarioError, shown

KeyPath = tuple[str | int, ...]

MAX_ENTRIES = 100_000
"""Keys and list items that a scenario may hold; aliases of aliases would grow without end."""


class _Loader(yaml.SafeLoader):
    """Tells the line of a value that looks like a date or number and is none, 2018-13-01."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            problem = f"{shown(node.value)} is no valid value ({error})"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


# YAML 1.1 reads 1e-3 as text; with the point and sign that it wants, 1.0e-3, nobody writes it.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def read_value(text: str) -> Any:
    """Return a single value, such as that of ``--set``, as a scenario file would have it."""
    return yaml.load(text, _Loader)


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
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise ScenarioError([f"{path}: is empty; a scenario needs name, facility, start, ..."])
        lines: dict[KeyPath, int] = {(): 1}
        problems = list(_collect(node, (), lines, frozenset()))
        if problems:
            raise ScenarioError(f"{path}:{problem}" for problem in problems)
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioError([f"{path}{line}: not valid YAML: {_in_words(error)}"]) from error
    except yaml.reader.ReaderError as error:
        line = f":{text.count(chr(10), 0, error.position) + 1}"
        raise ScenarioError(
            [f"{path}{line}: not a text file: character {chr(error.character)!r}"]
        ) from error
    except RecursionError as error:
        raise ScenarioError([f"{path}: keys or lists are nested too deeply"]) from error
    finally:
        if loader is not None:
            loader.dispose()


def _in_words(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "can't be read"
    if problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    if "\\t" in problem:
        return f"{problem}; indent with spaces, not tabs"
    return problem


def _collect(
    node: yaml.Node, place: KeyPath, lines: dict[KeyPath, int], inside: frozenset[int]
) -> Iterator[str]:
    """Note the line of every key and item; yield what is wrong as ``line key: problem``."""
    if id(node) in inside:
        raise yaml.MarkedYAMLError(problem="an alias holds itself", problem_mark=node.start_mark)
    if len(lines) > MAX_ENTRIES:
        what = f"more than {MAX_ENTRIES:,} keys and items"
        raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)
    inside = inside | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            here = (*place, _key(key_node))
            start = key_node.start_mark.line + 1
            if here in lines and here[-1] != "<<":
                yield (
                    f"{start} {dotted(here)}: key given twice (first on line {lines[here]}); "
                    "remove one"
                )
                continue
            lines[here] = start
            yield from _collect(value_node, here, lines, inside)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*place, index)] = item.start_mark.line + 1
            yield from _collect(item, (*place, index), lines, inside)


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
