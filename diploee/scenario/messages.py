"""What pydantic found wrong, in plain words: what is allowed, what was found, the nearest key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from diploee.errors import LONGEST_VALUE, did_you_mean, one_of, shown
from diploee.scenario.models import Scenario

_WHOLE = ("int_type", "int_from_float", "int_parsing", "int_parsing_size")
_NUMBER = ("float_type", "float_parsing", "finite_number")
_BOUND = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_UNION_BRANCH = (*_WHOLE, *_NUMBER, *_BOUND, "literal_error", "string_type")
_TEXT_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$": "of letters, digits, '_', '.', '-', the first no sign",
}


Place = tuple[str | int, ...]


def plain_messages(details: Sequence[tuple[Place, ErrorDetails]]) -> list[tuple[Place, str]]:
    """Return what is wrong at which place, once each.

    Pydantic tells of every branch of a union, of a list that is too short once its faulty entries
    are taken out, and of both a key that is missing and the slip in its name.
    """
    places = [place for place, _ in details]
    found: dict[Place, list[str]] = {}
    for place, detail in details:
        if detail["type"] == "too_short" and any(_below(other, place) for other in places):
            continue
        if detail["type"] == "missing" and _is_misspelt(place, details):
            continue
        messages = found.setdefault(place, [])
        if detail["type"] not in _UNION_BRANCH or not messages:
            messages.append(plain_message(detail))
        else:
            messages[-1] = _either(messages[-1], plain_message(detail))
    return [(place, message) for place, messages in found.items() for message in messages]


def _below(place: Place, above: Place) -> bool:
    return len(place) > len(above) and place[: len(above)] == above


def _is_misspelt(missing: Place, details: Sequence[tuple[Place, ErrorDetails]]) -> bool:
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


def plain_message(detail: ErrorDetails) -> str:
    """Return what is wrong as one clause, without the place."""
    kind, found, place = detail["type"], shown(detail["input"]), detail["loc"]
    context = detail.get("ctx", {})
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden":
        word = str(place[-1])
        allowed = _keys(_at(place[:-1]))
        return f"unknown key '{word}' (allowed: {one_of(allowed)}){did_you_mean(word, allowed)}"
    if kind == "missing":
        return "this key is missing; add it"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        near = did_you_mean(str(detail["input"])[:LONGEST_VALUE], words)
        return f"must be {' or '.join(map(repr, words))}, found {found}{near}"
    return f"must be {_allowed(kind, place, context)}, found {found}{_remedy(kind)}"


def _allowed(kind: str, place: Sequence[str | int], context: dict[str, Any]) -> str:
    if kind in (*_WHOLE, *_NUMBER, *_BOUND):
        return _number(kind, place, context)
    if kind.startswith(("datetime", "date", "timezone")):
        return "an ISO date such as 2018-01-01"
    if kind.startswith(("model", "dict", "mapping", "dataclass")):
        keys = _keys(_at(place))
        return f"a group of keys ({one_of(keys)})" if keys else "a group of keys"
    if kind == "string_pattern_mismatch":
        return _TEXT_PATTERNS.get(str(context.get("pattern")), f"like {context.get('pattern')}")
    return {
        "invalid_key": "a group of keys that are text",
        "list_type": "a list",
        "string_type": "text",
        "string_unicode": "text",
        "too_short": "given with one entry or more",
        "tuple_type": "a list",
        "bool_type": "true or false",
    }.get(kind, f"another value ({kind.replace('_', ' ')})")


def _remedy(kind: str) -> str:
    return "; put it in quotes" if kind in ("string_type", "invalid_key") else ""


def _number(kind: str, place: Sequence[str | int], context: dict[str, Any]) -> str:
    annotation = _at(place)
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
                said.append(f"of {low} or more")
            case Lt(lt=high):
                said.append(f"below {high}")
            case Le(le=high):
                said.append(f"at most {high}")
    if said:
        yield " and ".join(said)


def _at(place: Sequence[str | int]) -> Any:
    """Return the annotation, with its limits, of what stands at a location of a scenario."""
    here: Any = Scenario
    for part, following in zip(place, (*place, "")[1:], strict=True):
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


def _keys(here: Any) -> tuple[str, ...]:
    model = _model(here)
    return tuple(model.model_fields) if model else ()
