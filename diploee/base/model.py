"""Base of scenario models, strict about keys and types, and choices by name.

A kind of a thing is a model that stands beside the code that it configures and says its
own name in `kind`. A package of kinds is a folder with one file each, and what others
register.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    TypeGuard,
    TypeVar,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import (
    CoreSchema,
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticKnownError,
    core_schema,
)

from diploee.base.boundary import imported
from diploee.base.clock import fixed_zone
from diploee.base.errors import Brief, InputError, did_you_mean, one_of, shown
from diploee.base.plain_data import must_be, plain_problems

PROBABILITY_TOLERANCE = 1e-6
MAX_NODES, MAX_DEVICES, MAX_POWER_W = 1_000_000, 1_000, 1_000_000
MAX_SEED = 2**63 - 1
"""Tables hold seeds as signed integers of 64 bits."""
MAX_NAME_LENGTH = 200
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")


RENAMED_KEYS = {
    "least_condensing_c": "min_condensing_c",
    "least_down_min": "min_down_time_min",
    "least_fluid_c": "min_fluid_c",
    "least_load": "min_load",
    "least_part_load": "min_part_load",
    "least_state_of_charge": "min_state_of_charge",
    "least_tower_water_c": "min_tower_water_c",
    "least_up_min": "min_up_time_min",
    "most_state_of_charge": "max_state_of_charge",
    "power_law": "batch_power_model",
}
"""Keys up to 0.3 and their names since; the old ones are read until 0.5."""


def _with_new_names(data: Any, model: type[BaseModel]) -> Any:
    """Return data whose renamed keys have their new names; warn of the old ones."""
    old = RENAMED_KEYS.keys() & data.keys() if isinstance(data, dict) else ()
    names = {key: RENAMED_KEYS[key] for key in old if key not in model.model_fields}
    names = {key: new for key, new in names.items() if new not in data}
    for key, new in names.items():
        text = f"key '{key}' is now '{new}'; the old name is read until 0.5"
        warnings.warn(text, FutureWarning, stacklevel=2)
    return (
        {names.get(key, key): value for key, value in data.items()} if names else data
    )


def _with_keys(detail: ErrorDetails, keys: list[str]) -> InitErrorDetails:
    """Return an error that knows the allowed keys, if it is of one beside them."""
    context = detail.get("ctx", {})
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        context = {"allowed": keys}
    kind = PydanticCustomError(detail["type"], detail["msg"], context)
    return {"type": kind, "loc": detail["loc"], "input": detail["input"]}


def _number(value: Any) -> Any:
    """Refuse what pydantic would take for a whole number, which 5.0 is."""
    if isinstance(value, bool | str):
        raise PydanticKnownError("int_type")
    return value


def _date(value: Any) -> Any:
    """Refuse what pydantic would take for seconds since 1970."""
    if isinstance(value, str) and _ISO_DATE.fullmatch(value):
        return value
    if not isinstance(value, date):
        raise PydanticKnownError("datetime_type")
    return value


def _be_strict(schema: Any) -> None:
    """Take neither text nor truth values for numbers, nor numbers for dates.

    Keys are left: JSON has them as text. Pydantic's strict mode is no help: it also
    refuses lists as tuples and 5.0 as a whole number.
    """
    parts = schema.items() if isinstance(schema, dict) else enumerate(schema)
    for name, part in parts:
        if name != "keys_schema" and isinstance(part, dict | list | tuple):
            _be_strict(part)
    match schema:
        case {"type": "float" | "bool"}:
            schema["strict"] = True
        case {"type": "int" | "date" | "datetime" as kind}:
            check = _number if kind == "int" else _date
            inner = {**schema}
            schema.clear()
            schema |= core_schema.no_info_before_validator_function(check, inner)


class Model(Brief, BaseModel):
    """A part of a scenario. Every key has a description; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False
    )

    def _keys_set(self, *keys: str) -> list[str]:
        """Return those of some keys that differ from their defaults."""
        fields = type(self).model_fields
        return [key for key in keys if getattr(self, key) != fields[key].default]

    def _need_one(self, *keys: str, least: int = 1) -> None:
        """Refuse more than one of some keys, and none unless that is allowed."""
        result = self._keys_set(*keys)
        if not least <= len(result) <= 1:
            raise ValueError(f"give one of {one_of(keys)}, found {one_of(result)}")

    def _need(self, key: str, *others: str) -> None:
        """Refuse a key without others that it needs."""
        missing = [other for other in others if not self._keys_set(other)]
        if missing and self._keys_set(key):
            raise ValueError(f"'{key}' needs {one_of(missing)}; give both, or neither")

    def _refuse(self, key: str, *others: str) -> None:
        """Refuse a key with others that can't go with it."""
        if self._keys_set(key) and (result := self._keys_set(*others)):
            raise ValueError(f"'{key}' can't go with {one_of(result)}; remove one")

    def given_otherwise(self) -> Collection[str]:
        """Return keys replaced by another key, so nothing is assumed of them."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _name_allowed_keys(cls, data: Any, handler: Any) -> Any:
        """Say of an unknown key which there are; the nearest is not missing besides."""
        data = _with_new_names(data, cls)
        try:
            return handler(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
            slips = [
                str(detail["loc"][0])
                for detail in details
                if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1
            ]
            if not slips:
                raise
            left = [
                detail
                for detail in details
                if detail["type"] != "missing"
                or not any(did_you_mean(s, map(str, detail["loc"])) for s in slips)
            ]
            raise ValidationError.from_exception_data(
                cls.__name__, [_with_keys(d, list(cls.model_fields)) for d in left]
            ) from None

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the model, strict about numbers and dates."""
        schema = handler(source)
        _be_strict(handler.resolve_ref_schema(schema))
        return schema


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
    """Options of a function or a command.

    What is wrong with them is an `InputError`.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = plain_problems(error, values)
            words = (f"{'.'.join(map(str, at))}: {p}" for at, p in problems)
            raise InputError("; ".join(words)) from error


def _printable(text: str) -> str:
    """Refuse names that would end a line, or hide or reverse text."""
    if not text.strip() or not text.isprintable() or len(text) > MAX_NAME_LENGTH:
        raise must_be(
            f"a name of 1 to {MAX_NAME_LENGTH} characters, all printable", text
        )
    return text


Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
InnerShare = Annotated[float, Field(gt=0, lt=1)]
"""Parts of a whole: from none to all, above none, and between both."""
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
"""Marks a field, in its annotation, that grows with the size of a site: nodes, rates,
ratings."""


def default(
    value: Any, description: str, *, assumed: bool = False, **limits: Any
) -> Any:
    """Declare a key by the value that it has where it is left out, and whether that is assumed."""  # noqa: E501
    if assumed:
        limits["json_schema_extra"] = {"assumed": True}
    return Field(default=value, description=description, **limits)


def unset(description: str, **limits: Any) -> Any:
    """Declare a key that may be left out, and is None then."""
    return default(None, description, **limits)


def optional(description: str, **limits: Any) -> Any:
    """Declare a key that later versions added.

    Absent from dumps and hashes where not given.
    """
    return unset(description, exclude_if=lambda value: value is None, **limits)


def uncertain(
    default: float | None,
    text: str,
    within: tuple[float, float],
    source: str = "",
    *,
    basis: str | None = None,
    per_rating: bool = False,
    assumed: bool = False,
    **limits: Any,
) -> Any:
    """Declare a number with its default and the range that the true value lies in.

    Parameters
    ----------
    default : float, optional
        None where another key or rule gives it; the key is then absent from dumps and
        hashes.
    text : str
        Its description; the marks of default and range are added.
    within : tuple of float
        Both ends of the range, in the unit of the key.
    source : str
        Where the range was seen, in words that follow it; assumed where empty.
    basis : str, optional
        Of the default, assumed where absent; empty where the range's source gives it
        too.
    per_rating : bool
        The range is in multiples of the nodes' power at their ratings [MW].
    assumed : bool
        Something else of it is assumed, though default and range are not.
    **limits : object
        Allowed values, as `pydantic.Field` takes them.
    """
    of = "times the nodes' power at their ratings" if per_rating else source
    marks = [f"default {'assumed' if basis is None else basis}"] * (basis != "")
    ends = " to ".join(f"{end:g}" for end in within)
    marks += [f"range{'' if source else ' assumed,'} {ends} {of}".rstrip()]
    said = "; ".join(marks)
    description = f"{text}. {said[:1].upper()}{said[1:]}."
    extra: Any = {"range": list(within), **({"per_rating": True} if per_rating else {})}
    if basis is None or not source or assumed:
        extra["assumed"] = True
    if default is None:
        return optional(description, json_schema_extra=extra, **limits)
    return Field(
        default=default, description=description, json_schema_extra=extra, **limits
    )


def with_preset(given: Any, read: Callable[[], Mapping[str, dict[str, Any]]]) -> Any:
    """Return the keys that are given beside those of the preset that they name."""
    name = given.get("preset") if isinstance(given, dict) else None
    if name is None:
        return given
    presets = read()
    if not isinstance(name, str) or name not in presets:
        error = must_be(one_of(presets), name)
        raise ValidationError.from_exception_data(
            "preset", [{"type": error, "loc": ("preset",), "input": name}]
        )
    return presets[name] | given


def marks_of(field: FieldInfo) -> dict[str, Any]:
    """Return what `default` and `uncertain` declare of a key beside its value."""
    extra: Any = field.json_schema_extra
    return extra or {}


def assumed_keys(value: Any, at: str = "") -> Iterator[str]:
    """Yield the keys within a part of a scenario whose value is assumed.

    They are left as they are, or name one of several sets of such values.
    """
    for key, inner, owner, name in parts_of(value, at):
        field = type(owner).model_fields[name] if owner else None
        chosen = field and (
            inner is None or inner == field.default or isinstance(inner, str)
        )
        if owner and field and chosen and marks_of(field).get("assumed"):
            yield from () if name in owner.given_otherwise() else (key,)
        else:
            yield from assumed_keys(inner, key)


def ranges(
    value: Any, at: str, rating: float
) -> Iterator[tuple[str, tuple[float, float], bool]]:
    """Yield key and range of each `uncertain` number at its default, and if given.

    Ranges per rating are of the rating given.
    """
    for key, inner, owner, name in parts_of(value, at):
        field = type(owner).model_fields[name] if owner else None
        extra = marks_of(field) if field else {}
        if not owner or not field or "range" not in extra:
            yield from ranges(inner, key, rating)
        elif inner == field.default and name not in owner.given_otherwise():
            of = rating if "per_rating" in extra else 1.0
            low, high = extra["range"]
            yield (
                key,
                (float(low * of), float(high * of)),
                name in owner.model_fields_set,
            )


def parts_of(value: Any, at: str) -> Iterator[tuple[str, Any, Model | None, str]]:
    """Yield key and value of what lies directly within a value.

    Of a model it and the name.
    """
    match value:
        case Model():
            for name in type(value).model_fields:
                yield f"{at}.{name}", getattr(value, name), value, name
        case Mapping():
            yield from (
                (f"{at}.{name}", inner, None, "") for name, inner in value.items()
            )
        case list() | tuple():
            yield from (
                (f"{at}.{index}", inner, None, "") for index, inner in enumerate(value)
            )


def check_probabilities(probabilities: Iterable[float], of_what: str) -> None:
    """Raise `ValueError` unless the probabilities sum to 1 (within 1e-6)."""
    total = sum(probabilities)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(
            f"the probabilities of the {of_what} must sum to 1, found {total:.6g}"
        )


class Kind(Model):
    """Base of the specs: what a scenario says of one thing."""

    kind: str
    imported_as: ClassVar[str] = ""
    """Import path that a scenario has for it in place of a name."""

    def open(self, *_: Any, **__: Any) -> Any:
        """Return what the spec stands for; each kind says how."""
        raise InputError(
            f"kind '{self.kind}': {type(self).__name__} has no method open, which "
            "returns what it stands for"
        )

    @model_serializer(mode="wrap")
    def _by_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Write a kind without keys of its own by its name, as users do."""
        dumped = handler(self)
        if self.imported_as:
            dumped["kind"] = self.imported_as
        return dumped["kind"] if set(dumped) == {"kind"} else dumped


class StatefulKind(Kind):
    """A kind that is itself what it stands for.

    A copy of the spec, opened, with its own state.
    """

    def open(self, setting: Any) -> Any:
        """Return a new one for a setting."""
        opened = self.model_copy()
        opened._start(setting)
        return opened

    def _start(self, setting: Any) -> None:
        """Make ready what is learnt and drawn."""


def _importable(path: str) -> str:
    if not callable(imported(path)):
        raise ValueError(
            f"expected 'module:Class', found {shown(path)}; name a class that takes a "
            "setting and the keys beside it"
        )
    return path


class OwnKind(Model):
    """Makes a kind of what the user names by import path.

    Other keys are arguments of it.
    """

    kind: Literal["path"] = default("path", "One of your own, by import path.")
    path: Annotated[str, AfterValidator(_importable)] = Field(
        description=(
            "Import path, module:Class, of what is made from a setting and the other "
            "keys."
        )
    )

    def open(self, setting: Any) -> Any:
        """Return a new one."""
        return imported(self.path)(setting, **(self.model_extra or {}))


KINDS, FORMATS, READERS = "diploee.kinds:", "diploee.formats", "diploee.readers"
PARTS = "diploee.parts"
"""Groups of entry points: modules of kinds, registries of formats, readers of foreign
files; classes of kinds of other distributions."""


class _Offered(dict[str, Any]):
    """Objects of entry points by name; diploee itself offers those it asks for."""

    def __missing__(self, name: str) -> NoReturn:
        raise InputError(
            f"no entry point gives {shown(name)}: diploee was installed before it had "
            "that one; install it again, as it was: pip install ."
        )


@cache
def installed(group: str) -> dict[str, Any]:
    """Return what installed distributions offer in a group of entry points, by name."""
    offered = _Offered()
    for point in entry_points(group=group):
        try:
            offered[point.name] = point.load()
        except (ImportError, AttributeError) as error:
            whose = point.dist.name if point.dist else "some distribution"
            raise InputError(
                f"the entry point {shown(point.name)} of {whose} does not load "
                f"({error}); install {whose} again, or uninstall it"
            ) from None
    return offered


T = TypeVar("T", bound=Model)


class Kinds(Generic[T]):
    """The kinds that one key of the scenario may name.

    `what` they are is for messages; `home` is the module that declares them, or a
    package with modules, such as ``diploee.facility``, or else an entry point,
    ``diploee.kinds:<name>``, that names the module; `key` says which one, or is an
    attribute of its class. `added` are those of others, by name.
    """

    def __init__(self, what: str, base: type[T], home: str, key: str = "kind") -> None:
        self.what, self._base, self._home, self._key = what, base, home, key
        self.added: dict[str, type[T]] = {}

    @cached_property
    def _own(self) -> dict[str, type[T]]:
        if self._home.startswith(KINDS):
            home = installed(KINDS[:-1])[self._home.removeprefix(KINDS)]
        else:
            home = import_module(self._home)
        within = pkgutil.iter_modules(
            getattr(home, "__path__", ()), f"{home.__name__}."
        )
        modules = [home, *(import_module(module.name) for module in within)]
        own = {
            self._name_of(value): value
            for module in modules
            for value in vars(module).values()
            if self._is_kind(value) and value.__module__ == module.__name__
        }
        others = filter(self._is_kind, installed(PARTS).values())
        return {self._name_of(value): value for value in others} | own

    def _is_kind(self, value: Any) -> TypeGuard[type[T]]:
        return (
            isinstance(value, type)
            and issubclass(value, self._base)
            and value is not self._base
            and not isabstract(value)
        )

    def register(self, spec: type[T]) -> type[T]:
        """Add a kind from outside the package.

        Returns it, so that it serves as a decorator.
        """
        if not (isinstance(spec, type) and issubclass(spec, self._base)):
            raise InputError(
                f"{self.what} kinds are derived from {self._base.__name__}, found "
                f"{shown(spec)}"
            )
        name = self._name_of(spec)
        if isabstract(spec):
            lacking = one_of(sorted(spec.__abstractmethods__))
            raise InputError(
                f"{self.what} kind '{name}': {spec.__name__} has no {lacking}; give "
                "it all of these"
            )
        if self.by_name.get(name, spec) is not spec:
            raise InputError(
                f"{self.what} kind '{name}' is taken by "
                f"{self.by_name[name].__name__}; give {spec.__name__} another"
            )
        self.added[name] = spec
        return spec

    def _name_of(self, spec: type[T]) -> str:
        field = spec.model_fields.get(self._key)
        name = field.default if field else getattr(spec, self._key, None)
        if not isinstance(name, str):
            raise InputError(
                f"{spec.__name__}: give '{self._key}' a default, the kind's name"
            )
        return name

    def _import(self, path: str) -> str:
        """Add the kind at an import path, and return its name."""
        try:
            spec = self.register(imported(path))
        except InputError as error:
            raise ValueError(*error.problems) from None
        if issubclass(spec, Kind):
            spec.imported_as = path
        return self._name_of(spec)

    @property
    def by_name(self) -> dict[str, type[T]]:
        """The specs by name."""
        return self._own | self.added

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def read(self, value: Any) -> T:
        """Return the spec that plain data ask for; a name alone takes every default."""
        if isinstance(value, self._base):
            return value
        key = self._key
        data = {key: value} if isinstance(value, str) else value
        if (
            isinstance(data, dict)
            and key not in data
            and "path" in data
            and "path" in self.by_name
        ):
            data = {key: "path", **data}  # an import path says of itself what it is
        name = data.get(key) if isinstance(data, dict) else None
        if isinstance(name, str) and ":" in name:
            name = self._import(name)
            data = {**data, key: name}
        if not isinstance(name, str) or name not in self.by_name:
            raise must_be(
                f"a kind of {self.what} ({one_of(self)})",
                value if name is None else name,
            )
        return self.by_name[name].model_validate(data)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """As metadata of an annotation.

        Read what is given there as one of the kinds.
        """
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of all kinds."""
        by_name = self.by_name
        keyed = [spec for spec in by_name.values() if len(spec.model_fields) > 1]
        result = [handler(spec.__pydantic_core_schema__) for spec in keyed]
        for group in map(handler.resolve_ref_schema, result):
            group["required"] = sorted({self._key, *group.get("required", ())})
        if others := [name for name, spec in by_name.items() if spec not in keyed]:
            kind = {self._key: {"enum": others}}
            result.insert(
                0, {"type": "object", "properties": kind, "additionalProperties": False}
            )
        if plain := [name for name, spec in by_name.items() if not _needed(spec)]:
            result.insert(0, {"type": "string", "enum": plain})
        return {"anyOf": result}


def _needed(spec: type[Model]) -> list[str]:
    """Return the keys that a spec has no default for."""
    return [key for key, field in spec.model_fields.items() if field.is_required()]


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """As users write it, such as ``"swf"``."""
        ...


F = TypeVar("F", bound=Named)


class Registry(Mapping[str, F]):
    """Formats, or another `noun`, by name.

    `what` they are formats of stands in errors.
    """

    def __init__(
        self, what: str, formats: Iterable[F] = (), noun: str = "format"
    ) -> None:
        self._what, self._noun = what, noun
        self.by_name = {known.name: known for known in formats}

    def __getitem__(self, name: str) -> F:
        """Return what has a name, or is found by its import path."""
        if ":" not in name:
            return self.by_name[name]
        result: F = imported(name)
        if not isinstance(result, tuple({*map(type, self.by_name.values())})):
            raise ValueError(
                f"{shown(name)} is {shown(result)}, no {self._what} {self._noun}"
            )
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def register(self, known: F) -> None:
        """Add a format, which is tried before those that there are."""
        if isinstance(known, type) or not isinstance(getattr(known, "name", None), str):
            raise InputError(
                f"{self._what} {self._noun}s are objects with a name, found "
                f"{shown(known)}"
            )
        if known.name in self.by_name:
            raise InputError(
                f"{self._what} {self._noun} '{known.name}' is known already; rename it"
            )
        self.by_name = {known.name: known, **self.by_name}

    def named(self, where: object, name: str, remedy: str = "") -> F:
        """Return the format of a name; an error ends with the remedy."""
        try:
            return self[name]
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        except KeyError:
            raise InputError(
                f"{where}: unknown {self._what} {self._noun} {shown(name)}, expected "
                f"one of {one_of(self)}{did_you_mean(str(name), self)}{remedy}"
            ) from None


class NameIn:
    """As metadata of an annotation of text: a name of a registry among `FORMATS`."""

    def __init__(self, registry: str) -> None:
        self._registry = registry

    def _names(self) -> Registry[Any]:
        result: Registry[Any] = installed(FORMATS)[self._registry]
        return result

    def _check(self, name: str) -> str:
        if name not in self._names():
            raise must_be(one_of(self._names()), name)
        return name

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the check that a text is one of the names."""
        return core_schema.no_info_after_validator_function(
            self._check, handler(source)
        )

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,  # the names are all that there is to say
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the names."""
        return {"type": "string", "enum": list(self._names())}
