"""Plain data from outside, JSON above all, checked before anything reads it.

Pydantic's errors are turned into plain words here alone, for YAML, JSON, options and
records alike: what is allowed, what was found, the nearest key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast, get_args, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from diploee.base.errors import (
    LONGEST_VALUE,
    InputError,
    ScenarioError,
    did_you_mean,
    one_line,
    one_of,
    shown,
)
from diploee.base.files import check_is_file, reason

T = TypeVar("T")

_WHOLE = ("int_type", "int_from_float", "int_parsing", "int_parsing_size")
_NUMBER = ("float_type", "float_parsing", "finite_number")
_BOUND = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_UNION_BRANCH = (*_WHOLE, *_NUMBER, *_BOUND, "literal_error", "string_type")
_TEXT_PATTERNS = {
    "^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": (
        "of letters, digits, '_', '.', '-', the first no sign"
    ),
    "^[a-z][a-z0-9_]{0,30}$": (
        "of lower-case letters, digits and '_', the first a letter"
    ),
}

MOST_DETAILS = 200

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
                for key_path, message in plain_problems(found, root, data)
            ]
        ) from found


@lru_cache
def _adapter(root: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", root))


def plain_problems(
    error: ValidationError, root: Any, data: Any
) -> list[tuple[KeyPath, str]]:
    """Return what pydantic found wrong, each with its place in the data.

    Notes
    -----
    Pydantic reports every branch of a union, of a list that is too short once its
    faulty entries are taken out, and of both a key that is missing and the slip in its
    name. Here each is said once.
    """
    # A file of aliases may be wrong in the same way a hundred thousand times.
    first = error.errors(include_url=False)[:MOST_DETAILS]
    details = [(_key_path(d, data), d) for d in first]
    places = [key_path for key_path, _ in details]
    found: dict[KeyPath, list[str]] = {}
    for key_path, detail in details:
        is_outer = detail["type"] in ("too_short", *_UNION_BRANCH)
        if is_outer and any(_below(other, key_path) for other in places):
            continue
        if detail["type"] == "missing" and _is_misspelt(key_path, details):
            continue
        messages = found.setdefault(key_path, [])
        if detail["type"] not in _UNION_BRANCH or not messages:
            messages.append(_message(detail, root))
        else:
            messages[-1] = _either(messages[-1], _message(detail, root))
    return [
        (key_path, message)
        for key_path, messages in found.items()
        for message in messages
    ]


def _below(key_path: KeyPath, above: KeyPath) -> bool:
    return len(key_path) > len(above) and key_path[: len(above)] == above


def _is_misspelt(
    missing: KeyPath, details: Sequence[tuple[KeyPath, ErrorDetails]]
) -> bool:
    """Return whether an unknown key beside a missing one looks like it."""
    return any(
        detail["type"] == "extra_forbidden"
        and detail["loc"][:-1] == missing[:-1]
        and did_you_mean(str(detail["loc"][-1]), [str(missing[-1])])
        for _, detail in details
    )


def _either(first: str, second: str) -> str:
    """Join two messages that end in the same ``found 'x'``."""
    allowed, found, value = first.rpartition(", found ")
    other, _, _ = second.rpartition(", found ")
    if not found or not other.startswith("must be "):
        return first
    return f"{allowed} or {other.removeprefix('must be ')}{found}{value}"


def _key_path(detail: ErrorDetails, data: Any) -> KeyPath:
    """Drop pydantic's additions to a location, such as ``[key]``."""
    key_path: list[str | int] = []
    for part in detail["loc"]:
        if isinstance(data, Mapping):
            known = next((key for key in data if str(key) == str(part)), None)
            lacks = detail["type"] == "missing" and part == detail["loc"][-1]
            if part == "[key]" or (known is None and not lacks):
                continue
            key_path.append(part if known is None else known)
            data = data.get(known)
        elif isinstance(data, Sequence) and isinstance(part, int) and part < len(data):
            key_path.append(part)
            data = data[part]
    return tuple(key_path)


def _message(detail: ErrorDetails, root: Any) -> str:
    """Return what is wrong as one clause, without the place."""
    kind, found, key_path = detail["type"], shown(detail["input"]), detail["loc"]
    context = detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        word = str(key_path[-1])
        allowed = context.get("allowed") or allowed_keys(root, key_path[:-1])
        return (
            f"unknown key '{word}' (allowed: "
            f"{one_of(allowed)}){did_you_mean(word, allowed)}"
        )
    if kind == "missing":
        return "this key is missing; add it"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        near = did_you_mean(str(detail["input"])[:LONGEST_VALUE], words)
        return f"must be {' or '.join(map(repr, words))}, found {found}{near}"
    allowed_here = _allowed(kind, _at(root, key_path), context)
    # A message of the model's own, or of a kind that no model here uses
    if not allowed_here:
        return detail["msg"]
    remedy = "; put it in quotes" if kind in ("string_type", "invalid_key") else ""
    return f"must be {allowed_here}, found {found}{remedy}"


def _allowed(kind: str, annotation: Any, context: dict[str, Any]) -> str:
    if kind in (*_WHOLE, *_NUMBER, *_BOUND):
        return _number(kind, annotation, context)
    if kind.startswith(("datetime", "date", "timezone")):
        return "an ISO date such as 2018-01-01"
    if kind.startswith(("model", "dict", "mapping", "dataclass")):
        keys = tuple(_fields(annotation))
        return f"a group of keys ({one_of(keys)})" if keys else "a group of keys"
    if kind == "string_pattern_mismatch":
        return _TEXT_PATTERNS.get(
            str(context.get("pattern")), f"like {context.get('pattern')}"
        )
    if kind == "too_short" and context.get("min_length", 1) > 1:
        return f"given with {context['min_length']} entries or more"
    return {
        "invalid_key": "a group of keys that are text",
        "list_type": "a list",
        "string_type": "text",
        "string_unicode": "text",
        "too_short": "given with one entry or more",
        "string_too_short": "text of one character or more",
        "tuple_type": "a list",
        "bool_type": "true or false",
    }.get(kind, "")


def _number(kind: str, annotation: Any, context: dict[str, Any]) -> str:
    whole = kind in _WHOLE or any(part is int for part in _flat(annotation))
    limits = list(_limits(annotation)) or [
        cls(context[name])
        for name, cls in (("gt", Gt), ("ge", Ge), ("lt", Lt), ("le", Le))
        if name in context
    ]
    return " ".join(
        ("a whole number" if whole else "a number", *_in_words(limits, whole))
    )


def _in_words(limits: Sequence[Any], whole: bool) -> Iterator[str]:
    """Say limits, such as ``above 0 and at most 1``.

    Of a whole number, above 0 is 1 or more.
    """
    said: list[str] = []
    for limit in limits:
        match limit:
            case Gt(gt=low):
                said.append(f"of {low + 1} or more" if whole else f"above {low:g}")  # type: ignore[operator]
            case Ge(ge=low):
                said.append(f"of {_size(low)} or more")
            case Lt(lt=high):
                said.append(f"below {_size(high)}")
            case Le(le=high):
                said.append(f"at most {_size(high)}")
    if said:
        yield " and ".join(said)


def _size(limit: Any) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _at(root: Any, key_path: Sequence[str | int]) -> Any:
    """Return the annotation, with its limits, of the value at a location."""
    here = root
    for part, following in zip(key_path, (*key_path, "")[1:], strict=True):
        if fields := _fields(here):
            here = fields.get(str(part))
        elif part != "[key]":  # which follows a key that is wrong itself
            arguments = _arguments(here)
            here = arguments[0 if following == "[key]" else -1] if arguments else None
    return here


def _arguments(here: Any) -> list[Any]:
    """Return the types inside a container's annotation, through unions."""
    for part in here if isinstance(here, tuple) else (here,):
        inner = [a for a in get_args(part) if a not in (type(None), Ellipsis)]
        if hasattr(part, "__metadata__"):
            return _arguments(inner[0]) if get_args(inner[0]) else []
        if type(None) in get_args(part):
            return _arguments(inner[0])
        if inner:
            return inner
    return []


def _flat(here: Any) -> Iterator[Any]:
    """Yield types and limits of an annotation, not of a container's contents."""
    if isinstance(here, tuple):
        for part in here:
            yield from _flat(part)
    elif hasattr(here, "__metadata__"):
        yield from _flat(here.__origin__)
        yield from _flat(here.__metadata__)
    elif getattr(here, "metadata", None) is not None:  # the Field(...) of an Annotated
        yield from _flat(tuple(here.metadata))
    elif type(None) in get_args(here):
        yield from _flat(get_args(here))
    else:
        yield here


def _limits(here: Any) -> Iterator[Any]:
    return (part for part in _flat(here) if isinstance(part, Gt | Ge | Lt | Le))


def _fields(here: Any) -> dict[str, Any]:
    """Return the annotation of each key of a group; none where there is no group."""
    parts = list(_flat(here))
    # What is read by a model that an entry point names says which
    for part in (*(part.spec for part in parts if hasattr(part, "spec")), *parts):
        if isinstance(part, type) and issubclass(part, BaseModel):
            known = part.model_fields.items()
            return {name: (field.annotation, *field.metadata) for name, field in known}
        if isinstance(part, type) and is_dataclass(part):
            return get_type_hints(part, include_extras=True)
    return {}


def allowed_keys(root: Any, key_path: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys of the group at a location; none where there is no group."""
    return tuple(_fields(_at(root, key_path)))


MAX_BYTES = 1 << 30
MAX_DEPTH = 100
SHA256 = "^[0-9a-f]{64}$"
"""Pattern of a hash in hexadecimal digits."""

SHOWN_PROBLEMS = 2
"""Problems of one file that an error lists; a damaged file has many of one cause."""


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
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse if finite else None
        )
        _check_values(data, finite)
    except UnicodeDecodeError as problem:
        raise error(f"{where}: is not UTF-8 text (byte {problem.start})") from problem
    except json.JSONDecodeError as problem:
        raise error(
            f"{where}:{problem.lineno}: not valid JSON ({problem.msg}); is the file "
            "complete?"
        ) from problem
    except RecursionError as problem:
        raise error(f"{where}: is nested more than {MAX_DEPTH} deep") from problem
    # Of the functions below, or a number of thousands of digits
    except ValueError as problem:
        raise error(f"{where}: {str(problem).partition(';')[0]}") from problem
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
        lines = [p.removesuffix("; add it") for p in problems[:SHOWN_PROBLEMS]]
        lines[1:] = [p.removeprefix(f"{where}: ") for p in lines[1:]]
        left = len(problems) - len(lines)
        lines += [f"{left} more such problems"] if left else []
        return error("; ".join([*lines, *([remedy] if remedy else [])]))

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


def _check_values(data: Any, finite: bool) -> None:
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
                if not value.isascii() and any(
                    "\ud800" <= c <= "\udfff" for c in value
                ):
                    raise ValueError(
                        "holds half a character (a surrogate), which is no text"
                    )
            elif isinstance(value, int | float if finite else int) and not _is_finite(
                value
            ):
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
