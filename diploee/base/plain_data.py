"""Plain data from outside, JSON above all, checked before anything reads it.

Pydantic's errors are turned into plain words here alone, for YAML, JSON, options and
records alike: what is allowed, what was found, the nearest key.
"""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

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

_DATE, _GROUP, _LIST = "an ISO date such as 2018-01-01", "a group of keys", "a list"
MUST_BE = {
    "bool": "true or false",
    "date": _DATE,
    "datetime": _DATE,
    "dataclass": _GROUP,
    "dict": _GROUP,
    "finite": "a number",
    "float": "a number",
    "greater_than": "above {gt:,}",
    "greater_than_equal": "at least {ge:,}",
    "int": "a whole number",
    "invalid": "a group of keys that are text",
    "less_than": "below {lt:,}",
    "less_than_equal": "at most {le:,}",
    "list": _LIST,
    "literal": "{expected}",
    "model": _GROUP,
    "must_be": "{allowed}",
    "string": "text (in quotes)",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_short": "text of {min_length} characters or more",
    "too_long": "at most {max_length} long",
    "too_short": "at least {min_length} long",
    "tuple": _LIST,
}
"""Words for what a value must be, by pydantic's type of error or its first word."""

MAX_DETAILS = 200

KeyPath = tuple[str | int, ...]


def checked(
    data: Any,
    root: type[T],
    where: Callable[[KeyPath], str],
    error: Callable[[list[str]], InputError] = ScenarioError,
) -> T:
    """Return data as a model, or raise one error with a line per problem."""
    try:
        if isinstance(root, type) and issubclass(root, BaseModel):
            # Which knows the keys that were added to it
            return root.model_validate(data)
        result: T = _adapter(cast("Hashable", root)).validate_python(data)
        return result
    except ValidationError as found:
        raise error(
            [
                f"{where(key_path)}: {message}"
                for key_path, message in plain_problems(found, data)
            ]
        ) from found


@lru_cache
def _adapter(root: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", root))


def plain_problems(error: ValidationError, data: Any) -> list[tuple[KeyPath, str]]:
    """Return what pydantic found wrong, each with its place in the data.

    Notes
    -----
    Pydantic reports every branch of a union, and a list that is too short once its
    faulty entries are taken out. Here each is said once.
    """
    # A file of aliases may be wrong in the same way a hundred thousand times.
    first = error.errors(include_url=False)[:MAX_DETAILS]
    details = [(_key_path(detail, data), detail) for detail in first]
    result: dict[KeyPath, list[ErrorDetails]] = {}
    for at, detail in details:
        if all(other[: len(at)] != at or other == at for other, _ in details):
            result.setdefault(at, []).append(detail)
    return [(at, text) for at, of in result.items() for text in _texts(of)]


def _texts(details: list[ErrorDetails]) -> Iterator[str]:
    """Yield what is wrong with one value, in one line what it might have been."""
    allowed = list(dict.fromkeys(filter(None, map(_allowed, details))))
    if allowed:
        text = " or ".join(allowed)
        result = details[0].get("ctx", {}).get("found") or shown(details[0]["input"])
        near = did_you_mean(result, re.findall("'([^']*)'", text))
        yield f"must be {text}, found {result}{near}"
    for detail in details:
        context = detail.get("ctx", {})
        match detail["type"]:
            case "missing":
                yield "this key is missing; add it"
            case "extra_forbidden":
                word, keys = str(detail["loc"][-1]), context.get("allowed", ())
                near = did_you_mean(word, keys)
                yield f"unknown key '{word}' (allowed: {one_of(keys)}){near}"
            case _ if not _allowed(detail):
                yield str(context.get("error", detail["msg"]))


def _allowed(detail: ErrorDetails) -> str:
    """Return what a value must be; empty where nothing would do."""
    kind, limits = detail["type"], dict(detail.get("ctx", {}))
    for name, limit in limits.items():
        if isinstance(limit, float) and limit.is_integer():
            limits[name] = int(limit)
    text = MUST_BE.get(kind, MUST_BE.get(kind.partition("_")[0], ""))
    return text.format(**limits)


def _key_path(detail: ErrorDetails, data: Any) -> KeyPath:
    """Drop pydantic's additions to a location, such as ``[key]``."""
    key_path: list[str | int] = []
    for part in detail["loc"]:
        keys: Any = data if isinstance(data, Mapping) else ()
        if isinstance(data, list | tuple):
            keys = range(len(data))
        known = [key for key in keys if str(key) == str(part)]
        if known:
            data = data[known[0]]
        if known or (detail["type"] == "missing" and part == detail["loc"][-1]):
            key_path.append(known[0] if known else part)
    return tuple(key_path)


def must_be(allowed: str, found: Any) -> PydanticCustomError:
    """Return the error of a validator."""
    context = {"allowed": allowed, "found": shown(found)}
    return PydanticCustomError("must_be", "must be {allowed}, found {found}", context)


MAX_BYTES = 1 << 30
SHA256 = "^[0-9a-f]{64}$"
"""Pattern of a hash in hexadecimal digits."""


class Record(BaseModel):
    """A part of a JSON file that is read back.

    No type is converted, further keys may follow.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="allow", allow_inf_nan=False
    )


class _MissingKeyError(InputError, KeyError):
    """A group of a file lacks a key that is read."""


class Group(dict[str, Any]):
    """A group of keys of a file.

    A missing one is refused in one line by who reads it.
    """

    def __init__(self, values: Mapping[str, Any], where: str, remedy: str) -> None:
        super().__init__(values)
        self._where, self._remedy = where, remedy

    def __missing__(self, key: str) -> NoReturn:
        raise _MissingKeyError(
            f"{self._where}{key}: this key is missing; {self._remedy}"
        )

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
    """Read JSON from memory and check what it holds.

    Further arguments as for `read_json`.
    """
    given = content.encode() if isinstance(content, str) else content
    try:
        data = from_json(given.removeprefix(BOM_UTF8), allow_inf_nan=not finite)
    except ValueError as problem:
        what, _, at = str(problem).rpartition(" at line ")
        raise error(
            f"{where}:{at.split()[0]}: not valid JSON ({what}); is the file complete?"
        ) from problem
    return checked_record(data, root, where, error)


def checked_record(
    data: Any,
    root: type[T],
    where: str,
    error: type[InputError] = InputError,
    remedy: str = "",
) -> T:
    """Return plain data as a record."""

    def place_in(key_path: KeyPath) -> str:
        return f"{where}: {'.'.join(map(str, key_path))}".removesuffix(": ")

    def one_error(problems: list[str]) -> InputError:
        # The remedy of a missing key is for those who write a file by hand.
        first, more = problems[0].removesuffix("; add it"), len(problems) - 1
        rest = (f"{more} more such problems" if more else "", remedy)
        return error("; ".join(filter(None, (first, *rest))))

    return checked(data, root, place_in, one_error)


def plain(value: Any) -> Any:
    """Return arrays as lists, and infinite or unknown numbers as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
