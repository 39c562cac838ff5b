"""Base of all scenario models: frozen, closed to unknown keys, strict about types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from diploee.clock import fixed_zone
from diploee.errors import InputError, shown
from diploee.problems import plain_problems

PROBABILITY_TOLERANCE = 1e-6
LONGEST_NAME = 200
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")


class Model(BaseModel):
    """A part of a scenario. Every key has a description; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False
    )

    def given_otherwise(self) -> Collection[str]:
        """Return keys that another key stands in for, so that nothing is assumed of them."""
        return ()

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_other_types(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what pydantic would convert: ``"5"`` and ``true`` to numbers, ``"5"`` to a date.

        Its strict mode is no help: it also refuses lists as tuples and text as dates.
        """
        field = cls.model_fields[info.field_name or ""]
        kinds = _unchecked(_kinds(field.annotation), field.metadata)
        if isinstance(value, bool | str) and (allowed := _only_numbers(kinds)):
            raise ValueError(f"must be {allowed}, found {shown(value)}")
        if kinds == {datetime} and isinstance(value, str) and not _ISO_DATE.fullmatch(value):
            raise ValueError(f"must be an ISO date such as 2018-01-01, found {shown(value)}")
        if isinstance(value, dict | list | tuple) and _only_numbers(_item_kinds(kinds)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, bool | str):
                    raise ValueError(f"'{key}' must be a number, found {shown(item)}")
        return value


M = TypeVar("M", bound=Model)


def documented(model: type[M]) -> type[M]:
    """Add the fields, as their descriptions tell them, to a model's docstring."""
    known = model.model_fields.items()
    fields = [f"{name}\n    {field.description}" for name, field in known]
    section = "\n".join(["Parameters", "----------", *fields, ""])
    summary, mark, rest = (inspect.getdoc(model) or "").partition("Raises\n------")
    model.__doc__ = f"{summary.rstrip()}\n\n{section}\n{mark}{rest}".rstrip()
    return model


class Choices(Model):
    """Options of a function or a command; what is wrong with them is an `InputError`."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = plain_problems(error, type(self), values)
            told = (f"{'.'.join(map(str, at))}: {p}" for at, p in problems)
            raise InputError("; ".join(told)) from error


def _printable(text: str) -> str:
    """Refuse names that would end a line, hide or reverse text wherever they are written."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        raise ValueError(
            f"must be a name of 1 to {LONGEST_NAME} characters, none of them a control character, "
            f"found {shown(text)}"
        )
    return text


Name = Annotated[str, AfterValidator(_printable)]
"""A name that files, scripts and column heads carry."""


def _check_utc_offset(text: str) -> str:
    fixed_zone(text)
    return text


UtcOffset = Annotated[str, AfterValidator(_check_utc_offset)]
"""A fixed offset from UTC, such as ``-07:00``."""


class _Scales:
    """The mark itself."""


SCALES = _Scales()
"""Marks a field, in its annotation, that grows with the size of a site: nodes, rates, ratings."""


def optional(description: str, **limits: Any) -> Any:
    """Declare a key that later versions added: absent from dumps and hashes where not given."""
    return Field(
        default=None, description=description, exclude_if=lambda value: value is None, **limits
    )


def assumed_keys(value: Any, at: str = "") -> Iterator[str]:
    """Yield the keys within a part of a scenario that take a value which their text calls assumed.

    They are left as they are, or name one of several sets of such values.
    """
    match value:
        case Model():
            for name, field in type(value).model_fields.items():
                inner, key = getattr(value, name), f"{at}.{name}"
                chosen = inner is None or inner == field.default or isinstance(inner, str)
                if chosen and "assumed" in (field.description or ""):
                    yield from () if name in value.given_otherwise() else (key,)
                else:
                    yield from assumed_keys(inner, key)
        case Mapping():
            for name, inner in value.items():
                yield from assumed_keys(inner, f"{at}.{name}")
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from assumed_keys(inner, f"{at}.{index}")


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation allows besides None."""
    arguments = get_args(annotation)
    if not arguments:
        return {annotation} - {NoneType}
    if hasattr(annotation, "__metadata__"):
        return _unchecked(_kinds(arguments[0]), annotation.__metadata__)
    if get_origin(annotation) not in (Union, UnionType):  # a list, a mapping, a literal
        return {annotation}
    return set[Any]().union(*map(_kinds, arguments))


def _unchecked(kinds: set[Any], metadata: Iterable[Any]) -> set[Any]:
    """Return the types that no validator of the field's own looks at first."""
    own = any(isinstance(check, BeforeValidator) for check in metadata)
    return kinds & {datetime} if own else kinds


def _only_numbers(kinds: set[Any]) -> str:
    """Return what stands for a number where that is neither text nor a truth value, else ""."""
    others = kinds - {int, float}
    if others == kinds or not all(get_origin(kind) in (list, tuple) for kind in others):
        return ""
    return "a number or a list" if others else "a number"


def _item_kinds(kinds: set[Any]) -> set[Any]:
    """Return the plain types of the values of mappings and lists; none where there are none."""
    inner = [get_args(kind) for kind in kinds if get_origin(kind) in (dict, list, tuple)]
    items = [args[1] if len(args) == 2 and args[1] is not ... else args[0] for args in inner]
    return set[Any]().union(*map(_kinds, items))


def check_probabilities(probabilities: Iterable[float], of_what: str) -> None:
    """Raise `ValueError` unless the probabilities sum to 1 (within 1e-6)."""
    total = sum(probabilities)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(f"the probabilities of the {of_what} must sum to 1, found {total:.6g}")
