"""Checks of the arguments of public functions against their annotations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import cache, wraps
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar, get_type_hints

from pydantic import BeforeValidator, TypeAdapter, ValidationError, WrapValidator

from diploee.base.errors import (
    DiploeeError,
    InputError,
    did_you_mean,
    one_line,
    one_of,
    shown,
    with_arguments,
)
from diploee.base.validation import DATE, allowed_values_message, as_yaml, must_be

P = ParamSpec("P")
R = TypeVar("R")

UNCHECKED = "checked where it is used"
"""Marker of arguments that are Python objects of the caller."""


def allowed(text: str) -> WrapValidator:
    """Return a validator that names the allowed values of an argument by a text."""

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValidationError:
            raise must_be(text, value) from None

    return WrapValidator(check)


def _as_time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(str(as_yaml(value)))
    except ValueError:
        raise must_be(DATE, value) from None


AnyTime: TypeAlias = Annotated[date | str, allowed(DATE)]
AnyDuration: TypeAlias = Annotated[
    timedelta | str, allowed("a duration with its unit, such as '7 d' or '15 min'")
]
"""A time or duration; the function receives text."""
LocalTime: TypeAlias = Annotated[datetime, BeforeValidator(_as_time)]
"""A time, or a date or text that is one."""


def as_list(value: Any) -> list[Any]:
    """Return a list of one or several names, paths or objects."""
    return [*value] if isinstance(value, tuple | list) else [value]


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a function at each call, by its annotations.

    Raises
    ------
    InputError
        By the function: one line with the argument, what it must be and what it was.
    """
    call_signature = signature(function)
    parameters = {
        name: parameter
        for name, parameter in call_signature.parameters.items()
        if parameter.annotation is not Parameter.empty
    }
    is_open = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())

    @cache
    def adapters() -> dict[str, TypeAdapter[Any]]:  # at the first call: costs time
        hints = {name: p.annotation for name, p in parameters.items()}
        hints = get_type_hints(
            SimpleNamespace(__annotations__=hints),
            function.__globals__,
            include_extras=True,
        )
        return {
            name: TypeAdapter(hint)
            for name, hint in hints.items()
            if UNCHECKED not in getattr(hint, "__metadata__", ())
        }

    @wraps(function)
    def checked_call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in () if is_open else kwargs.keys() - parameters.keys():
            near = did_you_mean(name, parameters, 0.7)
            if not near and "values" in parameters:
                near = "; give a key of the scenario by values={'dotted.key': ...}"
            raise InputError(
                f"{name}: not an argument of {function.__name__} (has: "
                f"{one_of(parameters)}){near}"
            )
        try:
            bound = call_signature.bind(*args, **kwargs)
        except TypeError as error:
            names = one_of(parameters)
            raise InputError(
                f"{function.__name__}: {error}; give arguments by name (has: {names})"
            ) from None
        for name in bound.arguments.keys() & adapters().keys():
            value = as_yaml(bound.arguments[name])
            bound.arguments[name] = _checked(adapters()[name], name, value)
        try:
            return function(*bound.args, **bound.kwargs)
        except DiploeeError as error:
            with_arguments(error, parameters)
            raise

    return checked_call


def _checked(adapter: TypeAdapter[Any], name: str, value: Any) -> Any:
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        details = error.errors(include_url=False)
    deepest = max(details, key=lambda detail: len(detail["loc"]))
    if deepest["loc"] and isinstance(deepest["loc"][-1], int):
        name, details = f"{name}.{deepest['loc'][-1]}", [deepest]  # an item of a list
    found = details[0]["input"]
    is_plain = found is None or isinstance(found, bool)
    text = repr(found) if is_plain else one_line(shown(found))
    raise InputError(f"{name}: {allowed_values_message(details, text)}")
