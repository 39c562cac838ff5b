"""Base classes of scenario models, strict about keys and types; registries of kinds.

A kind is a model that a scenario selects by name, such as a kind of stage. It is
declared next to the code that it configures, and its field `kind` contains its name.
The kinds in the modules of a package are found automatically; others can be registered.
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

from diploee.base.boundary import import_object
from diploee.base.clock import fixed_zone
from diploee.base.errors import Brief, InputError, did_you_mean, one_of, shown
from diploee.base.validation import must_be, plain_problems

PROBABILITY_TOLERANCE = 1e-6
MAX_NODES, MAX_DEVICES, MAX_POWER_W = 1_000_000, 1_000, 1_000_000
MAX_SEED = 2**63 - 1
"""Maximum seed: tables store seeds as signed 64-bit integers."""
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
"""Names of keys up to 0.3 and their new names; old names are read until 0.5."""


def _with_new_names(data: Any, model: type[BaseModel]) -> Any:
    """Return data with old names of keys replaced by new ones, and warn of each."""
    old_keys = RENAMED_KEYS.keys() & data.keys() if isinstance(data, dict) else ()
    new_names = {
        key: RENAMED_KEYS[key] for key in old_keys if key not in model.model_fields
    }
    new_names = {key: new for key, new in new_names.items() if new not in data}
    for key, new in new_names.items():
        text = f"key '{key}' is now '{new}'; the old name is read until 0.5"
        warnings.warn(text, FutureWarning, stacklevel=2)
    return (
        {new_names.get(key, key): value for key, value in data.items()}
        if new_names
        else data
    )


def _with_allowed_keys(detail: ErrorDetails, keys: list[str]) -> InitErrorDetails:
    """Return an error detail, with the allowed keys if the error is an unknown key."""
    context = detail.get("ctx", {})
    if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1:
        context = {"allowed": keys}
    kind = PydanticCustomError(detail["type"], detail["msg"], context)
    return {"type": kind, "loc": detail["loc"], "input": detail["input"]}


def _check_integer(value: Any) -> Any:
    """Refuse text and booleans as integers; pydantic still accepts 5.0."""
    if isinstance(value, bool | str):
        raise PydanticKnownError("int_type")
    return value


def _check_date(value: Any) -> Any:
    """Refuse numbers, which pydantic would convert to dates as seconds since 1970."""
    if isinstance(value, str) and _ISO_DATE.fullmatch(value):
        return value
    if not isinstance(value, date):
        raise PydanticKnownError("datetime_type")
    return value


def _make_strict(schema: Any) -> None:
    """Make a schema refuse text and booleans as numbers, and numbers as dates.

    Keys are not changed: in JSON they are text. Pydantic's strict mode is no
    alternative, as it also refuses lists for tuples and 5.0 for an integer.
    """
    parts = schema.items() if isinstance(schema, dict) else enumerate(schema)
    for name, part in parts:
        if name != "keys_schema" and isinstance(part, dict | list | tuple):
            _make_strict(part)
    match schema:
        case {"type": "float" | "bool"}:
            schema["strict"] = True
        case {"type": "int" | "date" | "datetime" as kind}:
            check = _check_integer if kind == "int" else _check_date
            inner = {**schema}
            schema.clear()
            schema |= core_schema.no_info_before_validator_function(check, inner)


class Model(Brief, BaseModel):
    """A part of a scenario. Every key has a description; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=False
    )

    def _keys_set(self, *keys: str) -> list[str]:
        """Return the keys among `keys` that differ from their defaults."""
        fields = type(self).model_fields
        return [key for key in keys if getattr(self, key) != fields[key].default]

    def _need_one(self, *keys: str, n_min: int = 1) -> None:
        """Raise an error unless exactly one key is set (or none, if `n_min` is 0)."""
        set_keys = self._keys_set(*keys)
        if not n_min <= len(set_keys) <= 1:
            raise ValueError(f"give one of {one_of(keys)}, found {one_of(set_keys)}")

    def _need(self, key: str, *others: str) -> None:
        """Raise an error if `key` is set without all of `others`."""
        missing = [other for other in others if not self._keys_set(other)]
        if missing and self._keys_set(key):
            raise ValueError(f"'{key}' needs {one_of(missing)}; give both, or neither")

    def _refuse(self, key: str, *others: str) -> None:
        """Raise an error if `key` is set together with any of `others`."""
        if self._keys_set(key) and (conflicts := self._keys_set(*others)):
            raise ValueError(f"'{key}' can't go with {one_of(conflicts)}; remove one")

    def unused_keys(self) -> Collection[str]:
        """Return the keys that have no effect because of other keys.

        Their defaults are not listed as assumptions of a run.
        """
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _name_allowed_keys(cls, data: Any, handler: Any) -> Any:
        """Add the allowed keys to errors of unknown keys.

        If an unknown key is a misspelled required key, the required key is not reported
        as missing.
        """
        data = _with_new_names(data, cls)
        try:
            return handler(data)
        except ValidationError as error:
            details = error.errors(include_url=False)
            unknown_keys = [
                str(detail["loc"][0])
                for detail in details
                if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1
            ]
            if not unknown_keys:
                raise
            remaining = [
                detail
                for detail in details
                if detail["type"] != "missing"
                or not any(
                    did_you_mean(s, map(str, detail["loc"])) for s in unknown_keys
                )
            ]
            raise ValidationError.from_exception_data(
                cls.__name__,
                [_with_allowed_keys(d, list(cls.model_fields)) for d in remaining],
            ) from None

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the model, strict about numbers and dates."""
        schema = handler(source)
        _make_strict(handler.resolve_ref_schema(schema))
        return schema


M = TypeVar("M", bound=Model)


def document_fields(model: type[M]) -> type[M]:
    """Add the descriptions of the fields to a model's docstring (class decorator)."""
    items = model.model_fields.items()
    fields = [f"{name}\n    {field.description}" for name, field in items]
    section = "\n".join(["Parameters", "----------", *fields, ""])
    summary, separator, rest = (inspect.getdoc(model) or "").partition("Raises\n------")
    model.__doc__ = f"{summary.rstrip()}\n\n{section}\n{separator}{rest}".rstrip()
    return model


class Choices(Model):
    """Options of a function or command; invalid options raise `InputError`."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = plain_problems(error, values)
            texts = (f"{'.'.join(map(str, key_path))}: {p}" for key_path, p in problems)
            raise InputError("; ".join(texts)) from error


def _check_printable(text: str) -> str:
    """Refuse names with control characters, and empty or very long names."""
    if not text.strip() or not text.isprintable() or len(text) > MAX_NAME_LENGTH:
        raise must_be(
            f"a name of 1 to {MAX_NAME_LENGTH} characters, all printable", text
        )
    return text


Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
InnerShare = Annotated[float, Field(gt=0, lt=1)]
"""Fractions: 0 to 1; above 0 up to 1; and between 0 and 1, both excluded."""
Name = Annotated[str, AfterValidator(_check_printable)]
"""A name that is safe in file names, scripts and column headings."""


def _check_utc_offset(text: str) -> str:
    fixed_zone(text)
    return text


UtcOffset = Annotated[str, AfterValidator(_check_utc_offset)]
"""A fixed offset from UTC, such as ``-07:00``."""


class _Scales:
    """Type of `SCALES`, the marker of keys that scale with a site's size."""


SCALES = _Scales()
"""Marker in the annotation of a field that scales with the size of a site: nodes,
rates, ratings."""


def default(
    value: Any, description: str, *, assumed: bool = False, **limits: Any
) -> Any:
    """Declare a key with a default value, which may be marked as an assumption."""
    if assumed:
        limits["json_schema_extra"] = {"assumed": True}
    return Field(default=value, description=description, **limits)


def unset(description: str, **limits: Any) -> Any:
    """Declare a key that may be omitted and is then None."""
    return default(None, description, **limits)


def optional(description: str, **limits: Any) -> Any:
    """Declare a key that was added in a later version.

    If omitted, it is absent from dumps and hashes.
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
    """Declare a number with its default and the range of its true value.

    Parameters
    ----------
    default : float, optional
        None if another key or rule determines it; the key is then absent from dumps and
        hashes.
    text : str
        Description; notes on the default and the range are appended.
    within : tuple of float
        Both ends of the range, in the unit of the key.
    source : str
        Source of the range, as text that follows it; empty if the range is assumed.
    basis : str, optional
        Source of the default; None if it is assumed, empty if it is the range's source.
    per_rating : bool
        The range is in multiples of the nodes' rated power [MW].
    assumed : bool
        Another property of the number is assumed, though default and range are not.
    **limits : object
        Allowed values, as for `pydantic.Field`.
    """
    unit_text = "times the nodes' power at their ratings" if per_rating else source
    marks = [f"default {'assumed' if basis is None else basis}"] * (basis != "")
    ends = " to ".join(f"{end:g}" for end in within)
    marks += [f"range{'' if source else ' assumed,'} {ends} {unit_text}".rstrip()]
    notes = "; ".join(marks)
    description = f"{text}. {notes[:1].upper()}{notes[1:]}."
    extra: Any = {"range": list(within), **({"per_rating": True} if per_rating else {})}
    if basis is None or not source or assumed:
        extra["assumed"] = True
    if default is None:
        return optional(description, json_schema_extra=extra, **limits)
    return Field(
        default=default, description=description, json_schema_extra=extra, **limits
    )


def with_preset(data: Any, read: Callable[[], Mapping[str, dict[str, Any]]]) -> Any:
    """Return keys merged with the defaults of the preset that they name."""
    name = data.get("preset") if isinstance(data, dict) else None
    if name is None:
        return data
    presets = read()
    if not isinstance(name, str) or name not in presets:
        error = must_be(one_of(presets), name)
        raise ValidationError.from_exception_data(
            "preset", [{"type": error, "loc": ("preset",), "input": name}]
        )
    return presets[name] | data


def field_marks(field: FieldInfo) -> dict[str, Any]:
    """Return the metadata of a key that `default` and `uncertain` declared."""
    extra: Any = field.json_schema_extra
    return extra or {}


def assumed_keys(value: Any, key_path: str = "") -> Iterator[str]:
    """Yield the keys within a part of a scenario that have an assumed value.

    A key has an assumed value if it keeps an assumed default, or names a set of assumed
    values.
    """
    for key, inner, owner, name in children(value, key_path):
        field = type(owner).model_fields[name] if owner else None
        chosen = field and (
            inner is None or inner == field.default or isinstance(inner, str)
        )
        if owner and field and chosen and field_marks(field).get("assumed"):
            yield from () if name in owner.unused_keys() else (key,)
        else:
            yield from assumed_keys(inner, key)


def ranges(
    value: Any, key_path: str, rating: float
) -> Iterator[tuple[str, tuple[float, float], bool]]:
    """Yield key, range and `is_set` of each `uncertain` number at its default.

    `is_set` is True if the scenario sets the key. Ranges per rating are multiplied by
    `rating`.
    """
    for key, inner, owner, name in children(value, key_path):
        field = type(owner).model_fields[name] if owner else None
        extra = field_marks(field) if field else {}
        if not owner or not field or "range" not in extra:
            yield from ranges(inner, key, rating)
        elif inner == field.default and name not in owner.unused_keys():
            factor = rating if "per_rating" in extra else 1.0
            low, high = extra["range"]
            yield (
                key,
                (float(low * factor), float(high * factor)),
                name in owner.model_fields_set,
            )


def children(value: Any, prefix: str) -> Iterator[tuple[str, Any, Model | None, str]]:
    """Yield key, value, parent model (or None) and field name of each direct child."""
    match value:
        case Model():
            for name in type(value).model_fields:
                yield f"{prefix}.{name}", getattr(value, name), value, name
        case Mapping():
            yield from (
                (f"{prefix}.{name}", inner, None, "") for name, inner in value.items()
            )
        case list() | tuple():
            yield from (
                (f"{prefix}.{index}", inner, None, "")
                for index, inner in enumerate(value)
            )


def check_probabilities(probabilities: Iterable[float], noun: str) -> None:
    """Raise `ValueError` unless the probabilities sum to 1 (within 1e-6)."""
    total = sum(probabilities)
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(
            f"the probabilities of the {noun} must sum to 1, found {total:.6g}"
        )


class Kind(Model):
    """Base class of specs that a scenario selects by `kind`."""

    kind: str
    imported_as: ClassVar[str] = ""
    """Import path by which a scenario names the kind, if it is not registered."""

    def open(self, *_: Any, **__: Any) -> Any:
        """Return the object that the spec describes; each kind implements it."""
        raise InputError(
            f"kind '{self.kind}': {type(self).__name__} has no method open, which "
            "returns the described object"
        )

    @model_serializer(mode="wrap")
    def _by_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Serialize a kind without other keys as its name alone."""
        dumped = handler(self)
        if self.imported_as:
            dumped["kind"] = self.imported_as
        return dumped["kind"] if set(dumped) == {"kind"} else dumped


class StatefulKind(Kind):
    """Spec that is also the object it describes; `open` returns a stateful object."""

    def open(self, setting: Any) -> Any:
        """Return a new object with its own state for a setting."""
        opened = self.model_copy()
        opened._start(setting)
        return opened

    def _start(self, setting: Any) -> None:
        """Initialize the state: learned and random values."""


def check_import_path(path: str) -> str:
    """Return an import path ``module:Class``, or raise an error if it has none."""
    if not callable(import_object(path)):
        raise ValueError(
            f"expected 'module:Class', found {shown(path)}; name a class that takes a "
            "setting and the other keys"
        )
    return path


class ImportedKind(Model):
    """A kind that the user names by import path; other keys are its arguments."""

    kind: Literal["path"] = default("path", "A custom class, by import path.")
    path: Annotated[str, AfterValidator(check_import_path)] = Field(
        description=(
            "Import path, module:Class, of a class that is created from a setting and "
            "the other keys."
        )
    )

    def open(self, setting: Any) -> Any:
        """Return a new object of the imported class."""
        return import_object(self.path)(setting, **(self.model_extra or {}))


KINDS, FORMATS, READERS = "diploee.kinds:", "diploee.formats", "diploee.readers"
PARTS = "diploee.parts"
"""Groups of entry points: modules of kinds, registries of formats, readers of other
tools' files, and classes of kinds from other distributions."""


class _EntryPointObjects(dict[str, Any]):
    """Objects of an entry-point group by name; a missing one raises an error."""

    def __missing__(self, name: str) -> NoReturn:
        raise InputError(
            f"no entry point gives {shown(name)}: diploee was installed before it had "
            "that one; install it again, as it was: pip install ."
        )


@cache
def entry_point_objects(group: str) -> dict[str, Any]:
    """Return the objects in an entry-point group of all installed packages, by name."""
    objects = _EntryPointObjects()
    for point in entry_points(group=group):
        try:
            objects[point.name] = point.load()
        except (ImportError, AttributeError) as error:
            package = point.dist.name if point.dist else "some distribution"
            raise InputError(
                f"the entry point {shown(point.name)} of {package} does not load "
                f"({error}); install {package} again, or uninstall it"
            ) from None
    return objects


T = TypeVar("T", bound=Model)


class Kinds(Generic[T]):
    """The registry of kinds that one key of a scenario may name.

    `what` is the noun for messages. `home` is the module that declares the kinds, a
    package of such modules, such as ``diploee.facility``, or an entry point
    ``diploee.kinds:<name>`` that names the module. `key` is the field or class
    attribute that contains the name of a kind. `added` are the registered kinds by
    name.
    """

    def __init__(self, what: str, base: type[T], home: str, key: str = "kind") -> None:
        self.what, self._base, self._home, self._key = what, base, home, key
        self.added: dict[str, type[T]] = {}

    @cached_property
    def _kinds_by_name(self) -> dict[str, type[T]]:
        """Kinds declared in the home module and in installed packages, by name."""
        if self._home.startswith(KINDS):
            home = entry_point_objects(KINDS[:-1])[self._home.removeprefix(KINDS)]
        else:
            home = import_module(self._home)
        module_infos = pkgutil.iter_modules(
            getattr(home, "__path__", ()), f"{home.__name__}."
        )
        modules = [home, *(import_module(module.name) for module in module_infos)]
        own = {
            self._name_of(value): value
            for module in modules
            for value in vars(module).values()
            if self._is_kind(value) and value.__module__ == module.__name__
        }
        others = filter(self._is_kind, entry_point_objects(PARTS).values())
        return {self._name_of(value): value for value in others} | own

    def _is_kind(self, value: Any) -> TypeGuard[type[T]]:
        return (
            isinstance(value, type)
            and issubclass(value, self._base)
            and value is not self._base
            and not isabstract(value)
        )

    def register(self, spec: type[T]) -> type[T]:
        """Add a kind from outside the package, and return it (class decorator)."""
        if not (isinstance(spec, type) and issubclass(spec, self._base)):
            raise InputError(
                f"{self.what} kinds are derived from {self._base.__name__}, found "
                f"{shown(spec)}"
            )
        name = self._name_of(spec)
        if isabstract(spec):
            missing = one_of(sorted(spec.__abstractmethods__))
            raise InputError(
                f"{self.what} kind '{name}': {spec.__name__} has no {missing}; give "
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

    def _import_kind(self, path: str) -> str:
        """Register the kind at an import path, and return its name."""
        try:
            spec = self.register(import_object(path))
        except InputError as error:
            raise ValueError(*error.problems) from None
        if issubclass(spec, Kind):
            spec.imported_as = path
        return self._name_of(spec)

    @property
    def by_name(self) -> dict[str, type[T]]:
        """Specs of all kinds by name."""
        return self._kinds_by_name | self.added

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def read(self, value: Any) -> T:
        """Return the spec that plain data describe; a name alone means all defaults."""
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
            data = {key: "path", **data}  # an import path implies its kind
        name = data.get(key) if isinstance(data, dict) else None
        if isinstance(name, str) and ":" in name:
            name = self._import_kind(name)
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
        """Return the schema of an annotation with this registry: any of the kinds."""
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of all kinds."""
        by_name = self.by_name
        keyed = [spec for spec in by_name.values() if len(spec.model_fields) > 1]
        schemas = [handler(spec.__pydantic_core_schema__) for spec in keyed]
        for group in map(handler.resolve_ref_schema, schemas):
            group["required"] = sorted({self._key, *group.get("required", ())})
        if names_only := [name for name, spec in by_name.items() if spec not in keyed]:
            kind = {self._key: {"enum": names_only}}
            schemas.insert(
                0, {"type": "object", "properties": kind, "additionalProperties": False}
            )
        if plain := [
            name for name, spec in by_name.items() if not _required_keys(spec)
        ]:
            schemas.insert(0, {"type": "string", "enum": plain})
        return {"anyOf": schemas}


def _required_keys(spec: type[Model]) -> list[str]:
    """Return the keys of a spec without a default."""
    return [key for key, field in spec.model_fields.items() if field.is_required()]


class Named(Protocol):
    """Protocol of objects with a name, such as file formats."""

    @property
    def name(self) -> str:
        """Name as users write it, such as ``"swf"``."""
        ...


F = TypeVar("F", bound=Named)


class Registry(Mapping[str, F]):
    """Objects by name, such as formats (or another `noun`).

    `what` is the kind of format, for error messages.
    """

    def __init__(
        self, what: str, formats: Iterable[F] = (), noun: str = "format"
    ) -> None:
        self._what, self._noun = what, noun
        self.by_name = {obj.name: obj for obj in formats}

    def __getitem__(self, name: str) -> F:
        """Return the object with a name or import path."""
        if ":" not in name:
            return self.by_name[name]
        obj: F = import_object(name)
        if not isinstance(obj, tuple({*map(type, self.by_name.values())})):
            raise ValueError(
                f"{shown(name)} is {shown(obj)}, no {self._what} {self._noun}"
            )
        return obj

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def register(self, obj: F) -> None:
        """Add an object, which has precedence over objects registered before."""
        if isinstance(obj, type) or not isinstance(getattr(obj, "name", None), str):
            raise InputError(
                f"{self._what} {self._noun}s are objects with a name, found "
                f"{shown(obj)}"
            )
        if obj.name in self.by_name:
            raise InputError(
                f"{self._what} {self._noun} '{obj.name}' is known already; rename it"
            )
        self.by_name = {obj.name: obj, **self.by_name}

    def named(self, where: object, name: str, remedy: str = "") -> F:
        """Return the object with a name, or raise an error that ends with `remedy`."""
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
    """Annotation metadata of a text that must be a name in a `FORMATS` registry."""

    def __init__(self, registry: str) -> None:
        self._registry = registry

    def _names(self) -> Registry[Any]:
        result: Registry[Any] = entry_point_objects(FORMATS)[self._registry]
        return result

    def _check(self, name: str) -> str:
        if name not in self._names():
            raise must_be(one_of(self._names()), name)
        return name

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return a schema that accepts only names of the registry."""
        return core_schema.no_info_after_validator_function(
            self._check, handler(source)
        )

    def __get_pydantic_json_schema__(
        self,
        schema: CoreSchema,  # not needed: the names say all
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the names."""
        return {"type": "string", "enum": list(self._names())}
