"""Checks of the arguments of public functions against their annotations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError, WrapValidator

from diploee.base.errors import (
    DiploeeError,
    InputError,
    did_you_mean,
    one_line,
    one_of,
    shown,
    with_arguments,
)
from diploee.base.plain_data import must_be, must_be_text

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
            raise InputError(
                f"{name}: not an argument of {function.__name__} (has: "
                f"{one_of(parameters)}){did_you_mean(name, parameters)}"
            )
        try:
            bound = call_signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"{function.__name__}: {error}") from None
        for name in bound.arguments.keys() & adapters().keys():
            value = bound.arguments[name]
            value = value.item() if isinstance(value, np.generic) else value
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
    found = details[0]["input"]
    is_plain = found is None or isinstance(found, bool)
    text = repr(found) if is_plain else one_line(shown(found))
    raise InputError(f"{name}: {must_be_text(details, text)}")
