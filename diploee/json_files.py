"""JSON from disk, checked before anything reads it: size, depth, keys, numbers, text, types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict

from diploee.errors import InputError, one_line, shown
from diploee.files import check_is_file, reason
from diploee.problems import KeyPath, checked

MAX_BYTES = 1 << 30
MAX_DEPTH = 100
SHA256 = "^[0-9a-f]{64}$"
"""Pattern of a hash in hexadecimal digits."""

SHOWN_PROBLEMS = 2
"""Problems of one file that an error lists; a damaged file has many of one cause."""

T = TypeVar("T")


class Record(BaseModel):
    """A part of a JSON file that is read back: no type is converted, further keys may follow."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", allow_inf_nan=False)


class MissingKeyError(InputError, KeyError):
    """A group of a file lacks a key that is read."""


class Group(dict[str, Any]):
    """A group of keys of a file: a missing one is refused in one line by who reads it."""

    def __init__(self, values: Mapping[str, Any], where: str, remedy: str) -> None:
        super().__init__(values)
        self._where, self._remedy = where, remedy

    def __missing__(self, key: str) -> NoReturn:
        raise MissingKeyError(f"{self._where}{key}: this key is missing; {self._remedy}")

    def __or__(self, other: Any) -> Any:
        return Group({**self, **other}, self._where, self._remedy)

    def __ror__(self, other: Any) -> Any:
        return Group({**other, **self}, self._where, self._remedy)


def grouped(data: Any, where: str, remedy: str) -> Any:
    """Return data of a file, at its place, with `Group` for its groups."""
    if isinstance(data, list):
        return [grouped(item, f"{where}{k}.", remedy) for k, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    groups = {key: grouped(of, f"{where}{key}.", remedy) for key, of in data.items()}
    return Group(groups, where, remedy)


def read_json(path: Path, root: type[T], error: type[InputError] = InputError) -> T:
    """Read a JSON file and check what it holds."""
    where = one_line(str(path))
    try:
        check_is_file(path, error)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(f"{where}: is of {size:,} bytes, JSON is read up to {MAX_BYTES:,}")
        content = path.read_bytes()
    except OSError as problem:
        raise error(f"{where}: can't be read ({reason(problem)})") from problem
    return parse_json(content, where, root, error)


def parse_json(
    content: bytes | str,
    where: str,
    root: type[T],
    error: type[InputError] = InputError,
    *,
    finite: bool = True,
) -> T:
    """Read JSON from memory and check what it holds; further arguments as for `read_json`."""
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse if finite else None
        )
        check_values(data, finite)
    except UnicodeDecodeError as problem:
        raise error(f"{where}: is not UTF-8 text (byte {problem.start})") from problem
    except json.JSONDecodeError as problem:
        raise error(
            f"{where}:{problem.lineno}: not valid JSON ({problem.msg}); is the file complete?"
        ) from problem
    except RecursionError as problem:
        raise error(f"{where}: is nested more than {MAX_DEPTH} deep") from problem
    except ValueError as problem:  # of the functions below, or a number of thousands of digits
        raise error(f"{where}: {str(problem).partition(';')[0]}") from problem
    return checked_record(data, root, where, error)


def checked_record(
    data: Any, root: type[T], where: str, error: type[InputError] = InputError, remedy: str = ""
) -> T:
    """Return plain data as a record."""

    def place_in(key_path: KeyPath) -> str:
        return f"{where}: {'.'.join(map(str, key_path))}".removesuffix(": ")

    def one_error(problems: list[str]) -> InputError:
        # The remedy of a missing key is for those who write a file by hand.
        told = [p.removesuffix("; add it") for p in problems[:SHOWN_PROBLEMS]]
        told[1:] = [p.removeprefix(f"{where}: ") for p in told[1:]]
        left = len(problems) - len(told)
        told += [f"{left} more such problems"] if left else []
        return error("; ".join([*told, *([remedy] if remedy else [])]))

    return checked(data, root, place_in, one_error)


def plain(value: Any) -> Any:
    """Return arrays as lists and numbers that JSON can't tell, infinite or unknown, as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_values(data: Any, finite: bool) -> None:
    """Raise `ValueError` for text and numbers that nothing after here can hold."""
    level = [data]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.keys()
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                    raise ValueError("holds half a character (a surrogate), which is no text")
            elif isinstance(value, int | float if finite else int) and not _is_finite(value):
                raise ValueError("holds a number that is too large")
        if not below:
            return
        level = below
    raise RecursionError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {shown(twice)} is given twice in one group of keys")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"holds {constant}, which is no number of JSON")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of more than 308 digits
        return False
