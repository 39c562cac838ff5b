"""Choices by name: a key of the scenario that takes one of several kinds of a thing.

Each kind is a pydantic model that stands beside the code that it configures and says its own name
in `kind`. A package of kinds is a folder with one file each, and what others register.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from inspect import isabstract
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from diploee.errors import InputError, did_you_mean, one_of, shown
from diploee.model import Model
from diploee.problems import allowed_keys


class Kind(Model):
    """Base of the specs: what a scenario says of one thing."""

    kind: str

    def open(self, *_: Any, **__: Any) -> Any:
        """Return what the spec stands for; each kind says how."""
        raise TypeError(f"{type(self).__name__} must say how it is opened")

    @model_serializer(mode="wrap")
    def _by_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Write a kind without keys of its own by its name, as users do."""
        dumped = handler(self)
        return self.kind if set(dumped) == {"kind"} else dumped


def _imported(path: str) -> str:
    """Return an import path of something that can be called; refuse all others."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as error:
        raise ValueError(f"can't import '{path}' ({error}); set PYTHONPATH to its folder") from None
    if not callable(found):
        raise ValueError(
            f"expected 'module:Class', found {shown(path)}; name a class that takes a setting and "
            "the keys beside it"
        )
    return path


class OwnKind(Model):
    """Makes a kind of what the user names by import path; other keys are arguments of it."""

    kind: Literal["path"] = Field(default="path", description="One of your own, by import path.")
    path: Annotated[str, AfterValidator(_imported)] = Field(
        description="Import path, module:Class, of what is made from a setting and the other keys."
    )

    def open(self, setting: Any) -> Any:
        """Return a new one."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(setting, **(self.model_extra or {}))


T = TypeVar("T", bound=Model)


class Kinds(Generic[T]):
    """The kinds that one key of the scenario may name.

    Parameters
    ----------
    what : str
        What they are, for messages: ``stage``.
    base : type
        Base class of the specs.
    home : str
        The module that declares them, or a package with modules, such as ``diploee.facility``.
    key : str
        The key that says which, or the attribute of the class.
    """

    def __init__(self, what: str, base: type[T], home: str, key: str = "kind") -> None:
        self.what, self._base, self._home, self._key = what, base, home, key
        self._added: dict[str, type[T]] = {}

    @cached_property
    def _own(self) -> dict[str, type[T]]:
        home = import_module(self._home)
        within = pkgutil.iter_modules(getattr(home, "__path__", ()), f"{self._home}.")
        modules = [home, *(import_module(module.name) for module in within)]
        return {
            self._name_of(value): value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, self._base)
            and value is not self._base
            and not isabstract(value)
            and value.__module__ == module.__name__
        }

    def register(self, spec: type[T]) -> type[T]:
        """Add a kind from outside the package; returns it, so that it serves as a decorator."""
        name = self._name_of(spec)
        if self.by_name.get(name, spec) is not spec:
            raise ValueError(f"{self.what} kind '{name}' is taken by {self.by_name[name].__name__}")
        self._added[name] = spec
        return spec

    def _name_of(self, spec: type[T]) -> str:
        field = spec.model_fields.get(self._key)
        name = field.default if field else getattr(spec, self._key, None)
        if not isinstance(name, str):
            raise ValueError(f"{spec.__name__}: give '{self._key}' a default, the kind's name")
        return name

    @property
    def by_name(self) -> dict[str, type[T]]:
        """The specs by name."""
        return self._own | self._added

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def read(self, value: Any) -> T:
        """Return the spec that plain data ask for; a name alone takes every default."""
        if isinstance(value, self._base):
            return value
        key = self._key
        data = {key: value} if isinstance(value, str) else value
        if isinstance(data, dict) and key not in data and "path" in data and "path" in self.by_name:
            data = {key: "path", **data}  # an import path says of itself what it is
        name = data.get(key) if isinstance(data, dict) else None
        if not isinstance(name, str):
            raise ValueError(
                f"must be a name or a group of keys with '{key}: ...' (have: {one_of(self)}), "
                f"found {shown(value)}"
            )
        if name not in self.by_name:
            raise ValueError(
                f"unknown {self.what} '{name}' (have: {one_of(self)}){did_you_mean(name, self)}"
            )
        spec = self.by_name[name]
        if isinstance(value, str) and (needed := _needed(spec)):
            raise ValueError(
                f"'{name}' needs {one_of(needed)}; write a group of keys, '{key}: {name}' and these"
            )
        try:
            return spec.model_validate(data)
        except ValidationError as error:
            raise _with_keys(error, spec) from None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """As metadata of an annotation: read what is given there as one of the kinds."""
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of all kinds."""
        by_name = self.by_name
        keyed = [spec for spec in by_name.values() if len(spec.model_fields) > 1]
        found = [handler(spec.__pydantic_core_schema__) for spec in keyed]
        for group in map(handler.resolve_ref_schema, found):
            group["required"] = sorted({self._key, *group.get("required", ())})
        if others := [name for name, spec in by_name.items() if spec not in keyed]:
            kind = {self._key: {"enum": others}}
            found.insert(0, {"type": "object", "properties": kind, "additionalProperties": False})
        if plain := [name for name, spec in by_name.items() if not _needed(spec)]:
            found.insert(0, {"type": "string", "enum": plain})
        return {"anyOf": found}


def _with_keys(error: ValidationError, spec: type[Model]) -> ValidationError:
    """Return an error with the kind's keys, which the annotation of its place doesn't tell."""
    details: list[InitErrorDetails] = []
    for detail in error.errors(include_url=False):
        keys = allowed_keys(spec, detail["loc"][:-1])
        known = {"allowed": list(keys)} if keys else {}
        context = {**detail.get("ctx", {}), **known}
        kind = PydanticCustomError(detail["type"], detail["msg"], context)
        details.append({"type": kind, "loc": detail["loc"], "input": detail["input"]})
    return ValidationError.from_exception_data(spec.__name__, details)


def _needed(spec: type[Model]) -> list[str]:
    """Return the keys that a spec has no default for."""
    return [key for key, field in spec.model_fields.items() if field.is_required()]


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
