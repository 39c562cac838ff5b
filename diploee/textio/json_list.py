"""A JSON list of objects, read and checked one by one, so that a large list needs little memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NoReturn, TypeVar

import pyarrow as pa

from diploee.errors import LogFormatError, shown
from diploee.json_files import Record, check_values
from diploee.problems import checked
from diploee.tables import arrow_texts
from diploee.textio.tables import ReadTable
from diploee.textio.text import Text

T = TypeVar("T", bound=Record)

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity are no JSON


def json_objects(text: Text, root: type[T]) -> Iterator[tuple[int, T]]:
    """Yield the objects of a JSON list, each with the offset in the text where it begins."""
    whole = text.data.decode()

    def fail(offset: int, problem: str) -> NoReturn:
        text.fail(whole.count("\n", 0, offset) + text.first_line, problem)

    def after(offset: int, sign: str) -> int:
        """Return the offset of what follows a sign that must come next, past blanks."""
        offset = _past_blanks(whole, offset)
        if not whole.startswith(sign, offset):
            found = shown(whole[offset : offset + 20]) if offset < len(whole) else "the end"
            fail(offset, f"found {found}, expected '{sign}' of a JSON list; copy the file again")
        return _past_blanks(whole, offset + 1)

    def where(offset: int, keys: tuple[str | int, ...]) -> str:
        line = whole.count("\n", 0, offset) + text.first_line
        return f"{text.path}:{line}: {'.'.join(map(str, keys))}"

    offset = after(0, "[")
    is_open = not whole.startswith("]", offset)
    while is_open:
        try:
            value, end = _DECODER.raw_decode(whole, offset)
            check_values(value, finite=False)
        except json.JSONDecodeError as error:
            fail(error.pos, f"not a whole JSON list of jobs ({error.msg}); copy the file again")
        except (ValueError, RecursionError) as error:
            fail(offset, f"not a JSON list of jobs ({error}); is this the log itself?")
        if not isinstance(value, dict):
            fail(offset, f"found {shown(value)}, expected an object for each job")
        yield offset, checked(value, root, partial(where, offset), _error)
        offset = _past_blanks(whole, end)
        is_open = not whole.startswith("]", offset)
        if is_open:
            offset = after(offset, ",")
    offset = after(offset, "]")
    if offset < len(whole):
        fail(offset, "text after the end of the list; remove it")


def text_columns(text: Text, rows: Sequence[tuple[int, Record]], names: Sequence[str]) -> ReadTable:
    """Return fields of objects as columns of text, with the line of each object."""

    def where(row: int) -> str:
        line = text.data.decode().count("\n", 0, rows[row][0]) + text.first_line
        return f"{text.path}:{line}"

    columns = {}
    for name in names:
        values = [getattr(record, name) for _, record in rows]
        texts = ["" if value is None else str(value) for value in values]
        columns[name] = pa.chunked_array([arrow_texts(texts)])
    return ReadTable(text.path, columns, {name: name for name in names}, where)


def _error(problems: list[str]) -> LogFormatError:
    return LogFormatError(problems[0])


def _past_blanks(whole: str, offset: int) -> int:
    return _SPACE.match(whole, offset).end()  # type: ignore[union-attr]  # it always matches
