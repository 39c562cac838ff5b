"""Pydantic's errors in plain words: what is allowed, what was found, the nearest key.

The one place where they are turned into text, for YAML, JSON, options and records alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from diploee.errors import LONGEST_VALUE, InputError, ScenarioError, did_you_mean, one_of, shown

T = TypeVar("T")

_WHOLE = ("int_type", "int_from_float", "int_parsing", "int_parsing_size")
_NUMBER = ("float_type", "float_parsing", "finite_number")
_BOUND = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_UNION_BRANCH = (*_WHOLE, *_NUMBER, *_BOUND, "literal_error", "string_type")
_TEXT_PATTERNS = {
    "^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": "of letters, digits, '_', '.', '-', the first no sign",
}

MOST_DETAILS = 200

KeyPath = tuple[str | int, ...]


def checked(
    data: Any,
    root: type[T],
    where: Callable[[KeyPath], str],
    error: Callable[[list[str]], InputError] = ScenarioError,
) -> T:
    """Return data as a model, or raise one error with a line for each thing that is wrong."""
    try:
        if isinstance(root, type) and issubclass(root, BaseModel):
            return root.model_validate(data)  # which knows the keys that were added to it
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


def plain_problems(error: ValidationError, root: Any, data: Any) -> list[tuple[KeyPath, str]]:
    """Return what pydantic found wrong, each with its place in the data.

    Notes
    -----
    Pydantic reports every branch of a union, of a list that is too short once its faulty entries
    are taken out, and of both a key that is missing and the slip in its name. Here each is said
    once.
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
    return [(key_path, message) for key_path, messages in found.items() for message in messages]


def _below(key_path: KeyPath, above: KeyPath) -> bool:
    return len(key_path) > len(above) and key_path[: len(above)] == above


def _is_misspelt(missing: KeyPath, details: Sequence[tuple[KeyPath, ErrorDetails]]) -> bool:
    """Return whether an unknown key beside a missing one looks like it."""
    return any(
        detail["type"] == "extra_forbidden"
        and detail["loc"][:-1] == missing[:-1]
        and did_you_mean(str(detail["loc"][-1]), [str(missing[-1])])
        for _, detail in details
    )


def _either(first: str, second: str) -> str:
    """Join two messages such as ``must be a number, found 'x'`` and ``must be 'y', found 'x'``."""
    allowed, found, value = first.rpartition(", found ")
    other, _, _ = second.rpartition(", found ")
    if not found or not other.startswith("must be "):
        return first
    return f"{allowed} or {other.removeprefix('must be ')}{found}{value}"


def _key_path(detail: ErrorDetails, data: Any) -> KeyPath:
    """Drop what pydantic adds to a location, such as ``[key]`` or the branch of a union."""
    key_path: list[str | int] = []
    for part in detail["loc"]:
        if isinstance(data, Mapping):
            known = next((key for key in data if str(key) == str(part)), None)
            if part == "[key]" or (known is None and not _is_last_and_missing(detail, part)):
                continue
            key_path.append(part if known is None else known)
            data = data.get(known)
        elif isinstance(data, Sequence) and isinstance(part, int) and part < len(data):
            key_path.append(part)
            data = data[part]
    return tuple(key_path)


def _is_last_and_missing(detail: ErrorDetails, part: str | int) -> bool:
    return detail["type"] == "missing" and part == detail["loc"][-1]


def _message(detail: ErrorDetails, root: Any) -> str:
    """Return what is wrong as one clause, without the place."""
    kind, found, key_path = detail["type"], shown(detail["input"]), detail["loc"]
    context = detail.get("ctx", {})
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        word = str(key_path[-1])
        allowed = context.get("allowed") or allowed_keys(root, key_path[:-1])
        return f"unknown key '{word}' (allowed: {one_of(allowed)}){did_you_mean(word, allowed)}"
    if kind == "missing":
        return "this key is missing; add it"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        near = did_you_mean(str(detail["input"])[:LONGEST_VALUE], words)
        return f"must be {' or '.join(map(repr, words))}, found {found}{near}"
    allowed_here = _allowed(kind, _at(root, key_path), context)
    if not allowed_here:  # a message of the model's own, or of a kind that no model here uses
        return detail["msg"]
    return f"must be {allowed_here}, found {found}{_remedy(kind)}"


def _allowed(kind: str, annotation: Any, context: dict[str, Any]) -> str:
    if kind in (*_WHOLE, *_NUMBER, *_BOUND):
        return _number(kind, annotation, context)
    if kind.startswith(("datetime", "date", "timezone")):
        return "an ISO date such as 2018-01-01"
    if kind.startswith(("model", "dict", "mapping", "dataclass")):
        keys = _keys(annotation)
        return f"a group of keys ({one_of(keys)})" if keys else "a group of keys"
    if kind == "string_pattern_mismatch":
        return _TEXT_PATTERNS.get(str(context.get("pattern")), f"like {context.get('pattern')}")
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


def _remedy(kind: str) -> str:
    return "; put it in quotes" if kind in ("string_type", "invalid_key") else ""


def _number(kind: str, annotation: Any, context: dict[str, Any]) -> str:
    whole = kind in _WHOLE or _allows(annotation, int)
    limits = list(_limits(annotation)) or [
        cls(context[name])
        for name, cls in (("gt", Gt), ("ge", Ge), ("lt", Lt), ("le", Le))
        if name in context
    ]
    return " ".join(("a whole number" if whole else "a number", *_in_words(limits, whole)))


def _in_words(limits: Sequence[Any], whole: bool) -> Iterator[str]:
    """Say limits, such as ``above 0 and at most 1``; of a whole number, above 0 is 1 or more."""
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
    """Return the annotation, with its limits, of what stands at a location."""
    here = root
    for part, following in zip(key_path, (*key_path, "")[1:], strict=True):
        model = _model(here)
        if model is not None:
            field = model.model_fields.get(str(part))
            here = (field.annotation, *field.metadata) if field else None
        elif part != "[key]":  # which follows a key that is wrong itself
            arguments = _arguments(here)
            here = arguments[0 if following == "[key]" else -1] if arguments else None
    return here


def _arguments(here: Any) -> list[Any]:
    """Return the types inside a container's annotation, through unions with None and metadata."""
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
    """Yield all types and limits of an annotation, but nothing of what a container holds."""
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


def _allows(here: Any, kind: type) -> bool:
    return any(part is kind for part in _flat(here))


def _model(here: Any) -> type[BaseModel] | None:
    models = [p for p in _flat(here) if isinstance(p, type) and issubclass(p, BaseModel)]
    return models[0] if models else None


def allowed_keys(root: Any, key_path: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys of the group that stands at a location; none where there is no group."""
    return _keys(_at(root, key_path))


def _keys(here: Any) -> tuple[str, ...]:
    model = _model(here)
    return tuple(model.model_fields) if model else ()
