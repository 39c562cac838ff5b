"""Base of all scenario models: frozen, closed to unknown keys, strict about types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from diploee.errors import shown

PROBABILITY_TOLERANCE = 1e-6
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")


class Model(BaseModel):
    """A part of a scenario. Every key has a description; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_other_types(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what pydantic would convert: ``"5"`` and ``true`` to numbers, ``"5"`` to a date.

        Its strict mode is no help: it also refuses lists as tuples and text as dates.
        """
        field = cls.model_fields[info.field_name or ""]
        if any(isinstance(check, BeforeValidator) for check in field.metadata):
            kinds = {datetime} & _kinds(field.annotation)
        else:
            kinds = _kinds(field.annotation)
        if kinds and kinds <= {int, float} and isinstance(value, bool | str):
            raise ValueError(f"must be a number, found {shown(value)}")
        if kinds == {datetime} and isinstance(value, str) and not _ISO_DATE.fullmatch(value):
            raise ValueError(f"must be an ISO date such as 2018-01-01, found {shown(value)}")
        if isinstance(value, dict) and (of_value := _value_kinds(field.annotation)):
            for key, item in value.items():
                if of_value <= {int, float} and isinstance(item, bool | str):
                    raise ValueError(f"'{key}' must be a number, found {shown(item)}")
        return value


def optional(description: str, **limits: Any) -> Any:
    """Declare a key that later versions added: absent from dumps and hashes where not given."""
    return Field(
        default=None, description=description, exclude_if=lambda value: value is None, **limits
    )


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation allows besides None."""
    arguments = get_args(annotation)
    if not arguments:
        return {annotation} - {NoneType}
    if hasattr(annotation, "__metadata__"):
        return _kinds(arguments[0])
    if get_origin(annotation) not in (Union, UnionType):  # a list, a mapping, a literal
        return {annotation}
    return set[Any]().union(*map(_kinds, arguments))


def _value_kinds(annotation: Any) -> set[Any]:
    """Return the plain types of a mapping's values; none where it is no mapping."""
    if get_origin(annotation) is not dict:
        return set()
    return _kinds(get_args(annotation)[1])


def check_probabilities(probabilities: Iterable[float], of_what: str) -> None:
    """Raise `ValueError` unless the probabilities sum to 1 (within 1e-6)."""
    total = sum(probabilities)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(f"the probabilities of the {of_what} must sum to 1, found {total:.6g}")
