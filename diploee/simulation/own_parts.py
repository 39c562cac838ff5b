"""Extension code of a run, from outside the package, and its hash.

The hash covers compiled code with its constants and defaults, and all functions,
classes and values of the user's modules that it uses. Source text is not hashed,
because a class in a notebook has no file, and a file may have changed since it was
read. The standard library and installed packages are identified by name.
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time, timedelta
from functools import partial
from pathlib import Path, PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from diploee.base.boundary import import_object
from diploee.base.model import ImportedKind, Model, children
from diploee.loads.inputs import Inputs
from diploee.metrics.catalogue import MEASURES
from diploee.scenario.models import Scenario

_PLAIN = (
    *(
        type(None),
        type(...),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        range,
        date,
        time,
        timedelta,
    ),
    *(PurePath, re.Pattern, np.generic, np.dtype),
)
_WRAPPED = (
    "__wrapped__",
    "__func__",
    "py_func",
    "func",
    "args",
    "keywords",
    "fget",
    "fset",
)
"""Attributes with the callee of methods, partials, properties and jitted functions."""
_PACKAGE_FOLDERS = tuple(
    Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")
)


@dataclass(frozen=True)
class OwnPart:
    """Extension class or function of a run, from outside the package."""

    kind: str  # "policy", "load", "stage", "measure", ..., or its scenario key
    name: str  # import path, as module:class
    sha256: str  # hash of its code


HashedObjects = dict[int, tuple[Any, OwnPart]]
"""Objects with hashes, computed before they ran, by the objects' identity."""


def is_extension(code: Any) -> bool:
    """Return True if a class or function is not part of the package."""
    return code.__module__.partition(".")[0] != "diploee"


def own_parts(
    scenario: Scenario,
    inputs: Inputs,
    hashed: HashedObjects | None = None,
    models: Iterable[Model] = (),
    **objects_by_kind: Iterable[object],
) -> list[OwnPart]:
    """Return the extension classes and functions of a run, without duplicates.

    Extensions are found in the scenario, in other `models`, and in `objects_by_kind`:
    objects or classes by kind, such as ``load=[BurnIn]``. Those in `hashed` are not
    hashed again.
    """
    hashed = {} if hashed is None else hashed
    parts: dict[OwnPart, None] = {}
    for kind, code in _extension_code(scenario, inputs, models, objects_by_kind):
        if id(code) not in hashed:
            named = _defining_code(code)
            name = f"{named.__module__}:{named.__qualname__}"
            hashed[id(code)] = code, OwnPart(kind, name, code_sha256(code))
        parts[hashed[id(code)][1]] = None
    return list(parts)


def _extension_code(
    scenario: Scenario,
    inputs: Inputs,
    models: Iterable[Model],
    objects_by_kind: Mapping[str, Iterable[object]],
) -> Iterator[tuple[str, Any]]:
    """Yield kind and code of each extension class or function."""
    for key, model in (
        pair for root in (scenario, *models) for pair in _models(root, "")
    ):
        if isinstance(model, ImportedKind):
            yield key, import_object(model.path)
        elif is_extension(type(model)):
            yield getattr(model, "part_of_run", key), type(model)
    yield from (("load", import_object(path)) for path in scenario.loads)
    yield from (("format", read) for read in inputs.readers if is_extension(read))
    yield from (("measure", measure.open) for measure in MEASURES.values())
    yield from (
        (kind, code)
        for kind, objects in objects_by_kind.items()
        for code in objects
        if is_extension(_defining_code(code))
    )


def _defining_code(value: Any) -> Any:
    """Return the class or function that defines a value: itself, or its class."""
    value = value.func if isinstance(value, partial) else value
    return value if isinstance(value, type | FunctionType) else type(value)


def _models(value: Any, key_name: str) -> Iterator[tuple[str, Model]]:
    """Yield each model within a value, with the last name of its key."""
    if isinstance(value, Model):
        yield key_name, value
    for key, inner, *_ in children(value, ""):
        name = key.removeprefix(".")
        yield from _models(inner, key_name if name.isdigit() else name)


def code_sha256(value: object) -> str:
    """Return the SHA-256 of the code of an object, a class or a function."""
    hasher = _CodeHasher(value)
    hasher.add(value)
    return hasher.digest.hexdigest()


class _CodeHasher:
    """Accumulator of the hash of code and of all its references, once each."""

    def __init__(self, value: Any) -> None:
        self.digest = hashlib.sha256()
        self._root = _defining_code(value).__module__.partition(".")[0]
        self._visited: dict[object, tuple[int, Any]] = {}

    def _update(self, *values: object) -> None:
        """Add values to the hash."""
        self.digest.update(repr(values).encode())

    def _is_user_module(self, module: str | None) -> bool:
        """Return True if a module is the user's.

        Installed modules and the standard library are not.
        """
        package = (module or "builtins").partition(".")[0]
        if (
            package == self._root
            or package in sys.stdlib_module_names
            or package == "diploee"
        ):
            return bool(package == self._root)
        module_file = getattr(sys.modules.get(module or ""), "__file__", None)
        return not (
            module_file
            and any(
                Path(module_file).is_relative_to(folder) for folder in _PACKAGE_FOLDERS
            )
        )

    def add(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Add a value to the hash; of a module, only its members with some `names`."""
        if isinstance(value, _PLAIN):
            self._update(type(value).__name__, value)
            return
        key = (id(value), names) if isinstance(value, ModuleType) else id(value)
        if key in self._visited:
            self._update("again", self._visited[key][0])
            return
        self._visited[key] = len(self._visited), value
        match value:
            case Mapping():
                self._add_items(value)
            case tuple() | list():
                self._update(type(value).__name__, len(value))
                for item in value:
                    self.add(item)
            case set() | frozenset():
                self._update(
                    "set",
                    sorted(repr(item) for item in value if isinstance(item, _PLAIN)),
                )
            case np.ndarray():
                self._update(value.dtype.str, value.shape, np.asarray(value).tobytes())
            case CodeType():
                self._update(
                    value.co_code, value.co_names, value.co_varnames, value.co_freevars
                )
                self.add(value.co_consts)
            case ModuleType():
                self._update(value.__name__)
                if self._is_user_module(value.__name__):
                    self._add_items(
                        {k: vars(value)[k] for k in names if k in vars(value)}, names
                    )
            case FunctionType() if self._is_user_module(value.__module__):
                self._add_function(value)
            case type() if self._is_user_module(value.__module__):
                self._update(value.__qualname__)
                self.add(value.__bases__)
                self._add_items(
                    {k: v for k, v in vars(value).items() if _is_written(k, v)}
                )
            case type() | FunctionType():
                self._update(value.__module__, value.__qualname__)
            case _:
                self.add(type(value))
                self._update(getattr(value, "__name__", ""))
                if is_dataclass(value):
                    self._add_items(
                        {
                            field.name: getattr(value, field.name)
                            for field in fields(value)
                        }
                    )
                elif isinstance(value, Model) or self._is_user_module(
                    type(value).__module__
                ):
                    self._add_items(vars(value) if hasattr(value, "__dict__") else {})
                else:
                    self._add_items(
                        {k: getattr(value, k) for k in _WRAPPED if hasattr(value, k)}
                    )

    def _add_items(self, items: Mapping[Any, Any], names: tuple[str, ...] = ()) -> None:
        """Add keys and values to the hash, sorted by key."""
        for key in sorted(items, key=repr):
            self._update(key)
            self.add(items[key], names)

    def _add_function(self, function: FunctionType) -> None:
        """Add a function with its defaults, closure and globals to the hash."""
        cells = (
            cell.cell_contents
            for cell in function.__closure__ or ()
            if _is_filled(cell)
        )
        self.add(
            (
                function.__code__,
                function.__defaults__,
                function.__kwdefaults__ or {},
                *cells,
            )
        )
        names = tuple(sorted(_names(function.__code__)))
        self._add_items(
            {k: function.__globals__[k] for k in names if k in function.__globals__},
            names,
        )


def _is_written(name: str, value: object) -> bool:
    """Return True if a class attribute was written by the author of the class."""
    return not name.startswith("__") or isinstance(value, FunctionType)


def _is_filled(cell: Any) -> bool:
    """Return True if a closure cell has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names(code: CodeType) -> set[str]:
    """Return the global names that code and its nested code use."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)
