"""`Registry`: what users choose by name, open to additions from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from diploee.errors import InputError, did_you_mean, one_of, shown


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """As users write it, such as ``"swf"``."""
        ...


F = TypeVar("F", bound=Named)


class Registry(Mapping[str, F]):
    """Formats, or another `noun`, by name; `what` they are formats of stands in errors."""

    def __init__(self, what: str, formats: Iterable[F] = (), noun: str = "format") -> None:
        self._what, self._noun = what, noun
        self._formats = {known.name: known for known in formats}

    def __getitem__(self, name: str) -> F:
        return self._formats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._formats)

    def __len__(self) -> int:
        return len(self._formats)

    def register(self, known: F) -> None:
        """Add a format, which is tried before those that there are."""
        if known.name in self._formats:
            raise InputError(
                f"a {self._what} {self._noun} '{known.name}' is known already; rename it"
            )
        self._formats = {known.name: known, **self._formats}

    def named(self, where: object, name: str) -> F:
        """Return the format of a name."""
        if name not in self._formats:
            raise InputError(
                f"{where}: unknown {self._what} {self._noun} {shown(name)}, expected one of "
                f"{one_of(self)}{did_you_mean(str(name), self)}"
            )
        return self._formats[name]


class NameIn:
    """As metadata of an annotation of text: a name of a registry.

    Parameters
    ----------
    home, registry : str
        The registry's module, which is imported when a name is given, and its name there.
    """

    def __init__(self, home: str, registry: str) -> None:
        self._home, self._registry = home, registry

    def _names(self) -> Registry[Any]:
        found: Registry[Any] = getattr(import_module(self._home), self._registry)
        return found

    def _check(self, name: str) -> str:
        known = self._names()
        if name not in known:
            raise ValueError(
                f"must be {one_of(known)}, found {shown(name)}{did_you_mean(name, known)}"
            )
        return name

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the check that a text is one of the names."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,  # the names are all that there is to say
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the names."""
        return {"type": "string", "enum": list(self._names())}
