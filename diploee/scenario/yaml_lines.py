"""YAML reader that records the line of every key, for errors with file and line.

It reads files of users and values of ``--set``. The expanded size is limited, because
anchors, merge keys and tags could expand a text of a few lines to gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from diploee.base.errors import MAX_PROBLEMS, ScenarioError, shown
from diploee.base.validation import KeyPath

# Maximum size of a file [bytes]
MAX_BYTES = 16_000_000
MAX_ENTRIES = 20_000
"""Maximum number of keys and list items of a file, with the content of all aliases."""
MAX_DEPTH = 64
MAX_DIGITS = 400
"""Maximum number of digits of a number; longer ones are errors, as the largest float
has 309."""

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """YAML loader that rejects values without a plain meaning, with their line.

    Examples are tags, half characters, and 2018-13-01.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node, without tags, surrogates or too deep nesting."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if (tag := getattr(event, "tag", None)) is not None:
            raise _yaml_error(
                (
                    f"tag {shown(tag.replace(_TAG, '!!'))} is not read; write the "
                    "value without it, text in quotes"
                ),
                event,
            )
        _check_depth(self._depth, event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and re.search(
            "[\ud800-\udfff]", node.value
        ):
            raise _yaml_error(
                f"{node.value!a:.60} holds a surrogate, half a character", node
            )
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node, if it is a valid value."""
        if node.tag == f"{_TAG}int" and len(node.value) > MAX_DIGITS:
            raise _yaml_error(
                f"a number of {len(node.value):,} digits is out of range", node
            )
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise _yaml_error(
                f"{shown(node.value)} is no valid value ({error})", node
            ) from error


# YAML 1.1 reads 1e-3 as text, and only 1.0e-3 as a number; here both are numbers.
_Loader.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
# A lone "=" is text.
_Loader.add_constructor(f"{_TAG}value", lambda _, node: node.value)


def read_value(text: str, name: str) -> Any:
    """Return a single value such as that of ``--set``, parsed as in a file."""
    return _parse(text, lambda _: name)[0]


@cache
def presets(kind: str) -> dict[str, Any]:
    """Return the settings of each named preset of a kind."""
    path = Path(__file__).with_name("presets") / f"{kind}.yaml"
    result: dict[str, Any] = read_text(path.read_text("utf-8"))[0]
    return result


def load_yaml_with_lines(
    path: Path, expected: str, kinds: type | tuple[type, ...] = dict
) -> tuple[Any, dict[KeyPath, int]]:
    """Read a YAML file into data and the line of every key."""
    try:
        if path.exists() and not path.is_file():  # a pipe would wait for ever
            raise ScenarioError([f"{path}: is no file of text; give a YAML file"])
        if (size := path.stat().st_size) > MAX_BYTES:
            raise ScenarioError(
                [
                    (
                        f"{path}: has {size:,} bytes, expected a YAML file of at most "
                        f"{MAX_BYTES:,}"
                    )
                ]
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError([f"{path}: can't be read ({error.strerror})"]) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(
            [f"{path}: is not UTF-8 text (byte {error.start})"]
        ) from error
    return read_text(text, path, expected, kinds)


def read_text(
    text: str,
    source: object = "scenario",
    expected: str = "keys such as 'name:'",
    kinds: type | tuple[type, ...] = dict,
) -> tuple[Any, dict[KeyPath, int]]:
    """Read YAML text; errors name its source and the line."""
    data, lines = _parse(text, lambda line: f"{source}{f':{line}' if line else ''}")
    if not isinstance(data, kinds):
        problem = f": is empty; expected {expected}"
        if data is not None:
            problem = f":1: expected {expected}, found {shown(data)}"
        raise ScenarioError([f"{source}{problem}"])
    return data, lines


def _parse(text: str, where: Any) -> tuple[Any, dict[KeyPath, int]]:
    """Return data and lines; `where` returns the name of a line."""
    lines: dict[KeyPath, int] = {(): 1}
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"not text: character {chr(error.character)!r}"
        raise ScenarioError([f"{where(line)}: {problem}"]) from error
    try:
        node = loader.get_single_node()
        if node is None:
            return None, lines
        if problems := list(
            islice(_collect(node, (), lines, frozenset()), MAX_PROBLEMS + 1)
        ):
            raise ScenarioError(f"{where(line)} {text}" for line, text in problems)
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {_error_text(error)}"
        raise ScenarioError(
            [f"{where(mark.line + 1 if mark else None)}: {problem}"]
        ) from error
    finally:
        loader.dispose()


def _yaml_error(problem: str, node: Any) -> yaml.MarkedYAMLError:
    """Return a YAML error at a node."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _error_text(error: yaml.MarkedYAMLError) -> str:
    """Return the text of a YAML error."""
    problem = error.problem or "can't be read"
    if problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    if "\\t" in problem:
        return f"{problem}; indent with spaces, not tabs"
    return problem


def _check_depth(depth: int, node: Any) -> None:
    """Raise an error if a node is nested too deep."""
    if depth > MAX_DEPTH:
        raise _yaml_error(f"keys or lists are nested more than {MAX_DEPTH} deep", node)


def _collect(
    node: yaml.Node,
    key_path: KeyPath,
    lines: dict[KeyPath, int],
    ancestors: frozenset[int],
) -> Iterator[tuple[int, str]]:
    """Record the line of every key and item of a node.

    Yields problems as line and ``key: problem``. The content of an alias is recorded at
    each position of the alias, so that the number of entries is the expanded size of
    the file. A repeated merge key is a problem, like any repeated key.
    """
    if id(node) in ancestors:
        raise _yaml_error("an alias holds itself", node)
    if len(lines) > MAX_ENTRIES:
        raise _yaml_error(f"more than {MAX_ENTRIES:,} keys and items", node)
    _check_depth(len(key_path), node)
    ancestors = ancestors | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _yaml_error("found unhashable key", key_node)
            child_path = (*key_path, _plain_key(key_node))
            start = key_node.start_mark.line + 1
            if child_path in lines:
                first = (
                    f"key given twice (first on line {lines[child_path]}); remove one"
                )
                yield start, f"{dotted_key(child_path)}: {first}"
                continue
            lines[child_path] = start
            yield from _collect(value_node, child_path, lines, ancestors)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*key_path, index)] = item.start_mark.line + 1
            yield from _collect(item, (*key_path, index), lines, ancestors)


def _plain_key(node: yaml.Node) -> str | int:
    """Return a key as a string, or an integer if it is one."""
    if node.tag == f"{_TAG}int":
        try:
            return int(node.value)
        except ValueError:
            pass
    return str(node.value)


def key_location(
    source: object, lines: Mapping[KeyPath, int], key_path: KeyPath
) -> str:
    """Return the label of a key of a file, ``site.yaml:7 streams.training.pool``."""
    known_path = key_path
    while (
        known_path not in lines and known_path
    ):  # the nearest key above it that the file has
        known_path = known_path[:-1]
    line = lines.get(known_path)
    return f"{source}{f':{line}' if line else ''} {dotted_key(key_path)}".rstrip()


def dotted_key(key_path: KeyPath) -> str:
    """Return a key path as users write it, ``streams.training.pool``."""
    return ".".join(map(str, key_path))
