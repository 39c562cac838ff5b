"""Validation of plain data from outside, such as YAML, JSON and options.

Errors of pydantic become plain messages with the allowed values, the value found, and
the closest allowed key.
"""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError, from_json

from diploee.base.errors import (
    InputError,
    ScenarioError,
    did_you_mean,
    one_line,
    one_of,
    shown,
)
from diploee.base.files import check_is_file, reason

T = TypeVar("T")

DATE, _GROUP, _LIST = "an ISO date such as 2018-01-01", "a group of keys", "a list"
ALLOWED_TEXTS = {
    "bool": "true or false",
    "date": DATE,
    "datetime": DATE,
    "dataclass": _GROUP,
    "dict": _GROUP,
    "finite": "a number",
    "float": "a number",
    "greater_than": "above {gt:,}",
    "greater_than_equal": "at least {ge:,}",
    "int": "a whole number",
    "invalid": "a group of keys that are text",
    "is_instance_of": "a {class}",
    "less_than": "below {lt:,}",
    "less_than_equal": "at most {le:,}",
    "list": _LIST,
    "literal": "{expected}",
    "model": _GROUP,
    "must_be": "{allowed}",
    "sequence": _LIST,
    "string": "text (in quotes)",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_short": "text of {min_length} or more characters",
    "too_long": "at most {max_length} long",
    "too_short": "at least {min_length} long",
    "tuple": _LIST,
}
"""Text of the allowed values by pydantic's error type, or the type's first word."""

MAX_DETAILS = 200

KeyPath = tuple[str | int, ...]


def checked(
    data: Any,
    root: type[T],
    where: Callable[[KeyPath], str],
    error: Callable[[list[str]], InputError] = ScenarioError,
) -> T:
    """Validate data as a model, or raise one error with a line per problem."""
    try:
        if isinstance(root, type) and issubclass(root, BaseModel):
            # Only the model's own method knows keys that were added to it
            return root.model_validate(data)
        result: T = _adapter(cast("Hashable", root)).validate_python(data)
        return result
    except ValidationError as problem:
        raise error(
            [
                f"{where(key_path)}: {message}"
                for key_path, message in plain_problems(problem, data)
            ]
        ) from problem


@lru_cache
def _adapter(root: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", root))


def plain_problems(error: ValidationError, data: Any) -> list[tuple[KeyPath, str]]:
    """Return the problems that pydantic found, each with the path of its key.

    Notes
    -----
    Pydantic reports a problem once for each branch of a union. It also reports a list
    as too short if its faulty entries were removed. Here each problem is reported once.
    """
    # A file with YAML aliases may repeat one problem a hundred thousand times.
    first = error.errors(include_url=False)[:MAX_DETAILS]
    details = [(_key_path(detail, data), detail) for detail in first]
    groups: dict[KeyPath, list[ErrorDetails]] = {}
    for key_path, detail in details:
        if all(
            other_path[: len(key_path)] != key_path or other_path == key_path
            for other_path, _ in details
        ):
            groups.setdefault(key_path, []).append(detail)
    return [
        (key_path, text)
        for key_path, group in groups.items()
        for text in _problem_texts(group)
    ]


def _problem_texts(details: list[ErrorDetails]) -> Iterator[str]:
    """Yield the problems of one value; alternatives are joined in one line."""
    if any(map(_allowed_text, details)):
        value = details[0].get("ctx", {}).get("found") or shown(details[0]["input"])
        yield allowed_values_message(details, value)
    for detail in details:
        context = detail.get("ctx", {})
        match detail["type"]:
            case "missing":
                yield "this key is missing; add it"
            case "extra_forbidden":
                word, keys = str(detail["loc"][-1]), context.get("allowed", ())
                suggestion = did_you_mean(word, keys)
                yield f"unknown key '{word}' (allowed: {one_of(keys)}){suggestion}"
            case _ if not _allowed_text(detail):
                yield str(context.get("error", detail["msg"]))


def allowed_values_message(details: list[ErrorDetails], value: str) -> str:
    """Return the message for a value that is not allowed: what it must be instead."""
    allowed = dict.fromkeys(filter(None, map(_allowed_text, details)))
    text = " or ".join(allowed) or "of another form"
    suggestion = did_you_mean(value, re.findall("'([^']*)'", text))
    return f"must be {text}, found {value}{suggestion}"


def _allowed_text(detail: ErrorDetails) -> str:
    """Return the text of a value's allowed values, or "" if the error has none."""
    kind, limits = detail["type"], dict(detail.get("ctx", {}))
    for name, limit in limits.items():
        if isinstance(limit, float) and limit.is_integer():
            limits[name] = int(limit)
    text = ALLOWED_TEXTS.get(kind, ALLOWED_TEXTS.get(kind.partition("_")[0], ""))
    return text.format(**limits)


def _key_path(detail: ErrorDetails, data: Any) -> KeyPath:
    """Return an error's location in the data, without parts added by pydantic."""
    key_path: list[str | int] = []
    for part in detail["loc"]:
        keys: Any = data if isinstance(data, Mapping) else ()
        if isinstance(data, list | tuple):
            keys = range(len(data))
        matches = [key for key in keys if str(key) == str(part)]
        if matches:
            data = data[matches[0]]
        if matches or (detail["type"] == "missing" and part == detail["loc"][-1]):
            key_path.append(matches[0] if matches else part)
    return tuple(key_path)


def must_be(allowed: str, value: Any) -> PydanticCustomError:
    """Return a validator's error: the allowed values and the value found."""
    context = {"allowed": allowed, "found": shown(value)}
    return PydanticCustomError("must_be", "must be {allowed}, found {found}", context)


MAX_BYTES = 1 << 30
SHA256 = "^[0-9a-f]{64}$"
"""Regular expression of a SHA-256 hash in hexadecimal digits."""


class Record(BaseModel):
    """A part of a JSON file that diploee reads back.

    Types are not converted; further keys are allowed.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="allow", allow_inf_nan=False
    )


class _MissingKeyError(InputError, KeyError):
    """A required key that is missing in a group of a file."""


class Group(dict[str, Any]):
    """A group of keys of a file; reading a missing key raises a one-line error."""

    def __init__(self, values: Mapping[str, Any], where: str, remedy: str) -> None:
        super().__init__(values)
        self._where, self._remedy = where, remedy

    def __missing__(self, key: str) -> NoReturn:
        names = [name for name in self if isinstance(name, str)]
        raise _MissingKeyError(
            f"{self._where}{key}: this key is missing (has: {one_of(names)})"
            f"{did_you_mean(str(key), names)}{self._remedy and '; '}{self._remedy}"
        )

    def __or__(self, other: Any) -> Any:
        return Group({**self, **other}, self._where, self._remedy)

    def __ror__(self, other: Any) -> Any:
        return Group({**other, **self}, self._where, self._remedy)


def with_groups(data: Any, where: str, remedy: str) -> Any:
    """Return the data of a file with each dictionary replaced by a `Group`."""
    if isinstance(data, list):
        return [
            with_groups(item, f"{where}{k}.", remedy) for k, item in enumerate(data)
        ]
    if not isinstance(data, dict):
        return data
    groups = {
        key: with_groups(value, f"{where}{key}.", remedy) for key, value in data.items()
    }
    return Group(groups, where, remedy)


def read_json(path: Path, root: type[T], error: type[InputError] = InputError) -> T:
    """Read a JSON file and validate its content as a type."""
    where = one_line(str(path))
    try:
        check_is_file(path, error)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(
                f"{where}: is of {size:,} bytes, JSON is read up to {MAX_BYTES:,}"
            )
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
    """Parse JSON from memory and validate it as a type.

    Further arguments as for `read_json`.
    """
    content_bytes = content.encode() if isinstance(content, str) else content
    try:
        data = from_json(content_bytes.removeprefix(BOM_UTF8), allow_inf_nan=not finite)
    except ValueError as problem:
        problem_text, _, position = str(problem).rpartition(" at line ")
        raise error(
            f"{where}:{position.split()[0]}: not valid JSON ({problem_text}); is the "
            "file complete?"
        ) from problem
    return validate_record(data, root, where, error)


def validate_record(
    data: Any,
    root: type[T],
    where: str,
    error: type[InputError] = InputError,
    remedy: str = "",
) -> T:
    """Validate plain data as a record; an error is one line, with the remedy."""

    def describe_path(key_path: KeyPath) -> str:
        return f"{where}: {'.'.join(map(str, key_path))}".removesuffix(": ")

    def one_error(problems: list[str]) -> InputError:
        # The remedy of a missing key is for those who write a file by hand.
        first, more = problems[0].removesuffix("; add it"), len(problems) - 1
        rest = (f"{more} more such problems" if more else "", remedy)
        return error("; ".join(filter(None, (first, *rest))))

    return checked(data, root, describe_path, one_error)


def as_yaml(value: Any) -> Any:
    """Return a number, date or duration of Python, numpy or pandas as YAML has it."""
    if isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value):
        return "NaT"
    if isinstance(value, np.generic):
        value = str(value) if isinstance(value, np.datetime64) else value.item()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.15g} s"
    return value.isoformat() if isinstance(value, date) else value


def plain(value: Any) -> Any:
    """Return data with arrays as lists, and infinite or NaN numbers as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
