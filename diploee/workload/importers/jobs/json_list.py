"""A JSON list of objects, read one by one, so that a large list needs little memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from diploee.errors import LogFormatError, one_line, shown
from diploee.workload.importers.jobs.text_file import TextFile
from diploee.workload.importers.jobs.text_table import TextTable

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity are no JSON


@dataclass(frozen=True)
class _Text:
    """The whole text; `place` is an index into it."""

    path: Path
    text: str

    def line_at(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def fail(self, place: int, problem: str) -> NoReturn:
        raise LogFormatError(f"{self.path}:{self.line_at(place)}: {one_line(problem)}")


@dataclass(frozen=True)
class JsonObject:
    """An object of the list, or one inside it; errors name the line where the former begins.

    Parameters
    ----------
    source : _Text
        The file's text.
    place : int
        Where the object of the list begins.
    values : dict
        What it holds.
    """

    source: _Text
    place: int
    values: dict[str, Any]

    def text(self, name: str) -> str:
        """Return a text or a whole number as text, empty where it is missing."""
        value = self.values.get(name)
        if value is None:
            return ""
        if isinstance(value, bool | float | list | dict) or not _is_text(str(value)):
            self._fail(name, value, "text")
        return str(value)

    def objects(self, name: str) -> list[JsonObject]:
        """Return the objects of a list, none where it is missing."""
        values = self._list(name)
        for value in values:
            if not isinstance(value, dict):
                self._fail(name, value, "objects in it")
        return [JsonObject(self.source, self.place, value) for value in values]

    def length(self, name: str) -> int:
        """Return the length of a list, 0 where it is missing."""
        return len(self._list(name))

    def _list(self, name: str) -> list[Any]:
        value = self.values.get(name)
        if not isinstance(value, list | None):
            self._fail(name, value, "a list")
        return value or []

    def _fail(self, name: str, value: object, expected: str) -> NoReturn:
        self.source.fail(
            self.place, f"'{name}' is {shown(value)}, expected {expected}; correct this job"
        )


class TextColumns:
    """Columns of text gathered object by object.

    Parameters
    ----------
    names : sequence of str
        Keys of the objects.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._columns: dict[str, list[str]] = {name: [] for name in names}
        self._objects: list[tuple[_Text, int]] = []

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, row: JsonObject) -> None:
        """Add an object as a row."""
        self._objects.append((row.source, row.place))
        for name, texts in self._columns.items():
            texts.append(row.text(name))

    def table(self, path: Path) -> TextTable:
        """Return the columns as a table that knows the lines of its rows."""

        def line_of(row: int) -> int:
            source, place = self._objects[row]
            return source.line_at(place)

        columns = {
            name: pa.chunked_array([texts], pa.string()) for name, texts in self._columns.items()
        }
        return TextTable(path, columns, line_of)


def json_objects(file: TextFile) -> Iterator[JsonObject]:
    """Yield the objects of a JSON list.

    Raises
    ------
    LogFormatError
        If the text is not a whole JSON list of objects.
    """
    source = _Text(file.path, file.data.decode())
    text = source.text
    place = _after(source, 0, "[")
    is_open = not text.startswith("]", place)
    while is_open:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except json.JSONDecodeError as error:
            source.fail(
                error.pos, f"not a whole JSON list of jobs ({error.msg}); copy the file again"
            )
        except (ValueError, RecursionError) as error:
            source.fail(place, f"not a JSON list of jobs ({error}); is this the log itself?")
        if not isinstance(value, dict):
            source.fail(place, f"found {shown(value)}, expected an object for each job")
        yield JsonObject(source, place, value)
        place = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # it always matches
        is_open = not text.startswith("]", place)
        if is_open:
            place = _after(source, place, ",")
    place = _after(source, place, "]")
    if place < len(text):
        source.fail(place, "text after the end of the list; remove it")


def _after(source: _Text, place: int, sign: str) -> int:
    """Return the place of what follows a sign that must come next, past blanks."""
    place = _SPACE.match(source.text, place).end()  # type: ignore[union-attr]
    if not source.text.startswith(sign, place):
        found = shown(source.text[place : place + 20]) if place < len(source.text) else "the end"
        source.fail(place, f"found {found}, expected '{sign}' of a JSON list; copy the file again")
    return _SPACE.match(source.text, place + 1).end()  # type: ignore[union-attr]


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
