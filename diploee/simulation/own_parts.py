"""Extension code that takes part in a run, from outside the package, and its hash.

The hash covers compiled code with its constants and defaults, and the functions,
classes and values that the code uses from its module. Source text is not hashed: a
class in a notebook has no file, and a file may have changed since it was read. The
standard library and installed packages are identified by name.
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
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))


@dataclass(frozen=True)
class OwnPart:
    """Extension class or function of a run, from outside the package."""

    kind: str  # "policy", "load", "stage", "measure", ..., or the key that names it
    name: str  # its import path, module:class
    sha256: str  # of what Python runs of it


Known = dict[int, tuple[Any, OwnPart]]
"""Objects that were hashed, before they ran, by their identity."""


def is_extension(of: Any) -> bool:
    """Return True if a class or function is not part of the package."""
    return of.__module__.partition(".")[0] != "diploee"


def own_parts(
    scenario: Scenario,
    inputs: Inputs,
    known: Known | None = None,
    models: Iterable[Model] = (),
    **given: Iterable[object],
) -> list[OwnPart]:
    """Return the extension classes and functions of a run, without duplicates.

    Entries of `known` are not hashed again. Besides the scenario, extensions are found
    in other `models`, and in `given` as objects or classes by kind, such as
    ``load=[BurnIn]``.
    """
    known = {} if known is None else known
    result: dict[OwnPart, None] = {}
    for kind, of in _extension_code(scenario, inputs, models, given):
        if id(of) not in known:
            code = _class_or_function(of)
            name = f"{code.__module__}:{code.__qualname__}"
            known[id(of)] = of, OwnPart(kind, name, code_sha256(of))
        result[known[id(of)][1]] = None
    return list(result)


def _extension_code(
    scenario: Scenario,
    inputs: Inputs,
    models: Iterable[Model],
    given: Mapping[str, Iterable[object]],
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
        (kind, of)
        for kind, each in given.items()
        for of in each
        if is_extension(_class_or_function(of))
    )


def _class_or_function(of: Any) -> Any:
    """Return the named class or function of an object."""
    of = of.func if isinstance(of, partial) else of
    return of if isinstance(of, type | FunctionType) else type(of)


def _models(value: Any, at: str) -> Iterator[tuple[str, Model]]:
    """Yield each model within a value, with the last name of its key."""
    if isinstance(value, Model):
        yield at, value
    for key, inner, *_ in children(value, ""):
        name = key.removeprefix(".")
        yield from _models(inner, at if name.isdigit() else name)


def code_sha256(of: object) -> str:
    """Return the SHA-256 of the code of an object, a class or a function."""
    code = _Code(of)
    code.take(of)
    return code.digest.hexdigest()


class _Code:
    """Accumulator of the hash of code and of all its references, once each."""

    def __init__(self, of: Any) -> None:
        self.digest = hashlib.sha256()
        self._root = _class_or_function(of).__module__.partition(".")[0]
        self._seen: dict[object, tuple[int, Any]] = {}

    def _say(self, *parts: object) -> None:
        self.digest.update(repr(parts).encode())

    def _is_own(self, module: str | None) -> bool:
        """Return True if a module is the user's.

        Installed modules and the standard library are not.
        """
        top = (module or "builtins").partition(".")[0]
        if top == self._root or top in sys.stdlib_module_names or top == "diploee":
            return bool(top == self._root)
        place = getattr(sys.modules.get(module or ""), "__file__", None)
        return not (
            place and any(Path(place).is_relative_to(folder) for folder in _INSTALLED)
        )

    def take(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Add a value to the hash; of a module, only the members named in `names`."""
        if isinstance(value, _PLAIN):
            self._say(type(value).__name__, value)
            return
        key = (id(value), names) if isinstance(value, ModuleType) else id(value)
        if key in self._seen:
            self._say("again", self._seen[key][0])
            return
        self._seen[key] = len(self._seen), value
        match value:
            case Mapping():
                self._items(value)
            case tuple() | list():
                self._say(type(value).__name__, len(value))
                for item in value:
                    self.take(item)
            case set() | frozenset():
                self._say(
                    "set",
                    sorted(repr(item) for item in value if isinstance(item, _PLAIN)),
                )
            case np.ndarray():
                self._say(value.dtype.str, value.shape, np.asarray(value).tobytes())
            case CodeType():
                self._say(
                    value.co_code, value.co_names, value.co_varnames, value.co_freevars
                )
                self.take(value.co_consts)
            case ModuleType():
                self._say(value.__name__)
                if self._is_own(value.__name__):
                    self._items(
                        {k: vars(value)[k] for k in names if k in vars(value)}, names
                    )
            case FunctionType() if self._is_own(value.__module__):
                self._function(value)
            case type() if self._is_own(value.__module__):
                self._say(value.__qualname__)
                self.take(value.__bases__)
                self._items({k: v for k, v in vars(value).items() if _is_written(k, v)})
            case type() | FunctionType():
                self._say(value.__module__, value.__qualname__)
            case _:
                self.take(type(value))
                self._say(getattr(value, "__name__", ""))
                if is_dataclass(value):
                    self._items(
                        {of.name: getattr(value, of.name) for of in fields(value)}
                    )
                elif isinstance(value, Model) or self._is_own(type(value).__module__):
                    self._items(vars(value) if hasattr(value, "__dict__") else {})
                else:
                    self._items(
                        {k: getattr(value, k) for k in _WRAPPED if hasattr(value, k)}
                    )

    def _items(self, items: Mapping[Any, Any], names: tuple[str, ...] = ()) -> None:
        for key in sorted(items, key=repr):
            self._say(key)
            self.take(items[key], names)

    def _function(self, of: FunctionType) -> None:
        cells = (
            cell.cell_contents for cell in of.__closure__ or () if _is_filled(cell)
        )
        self.take((of.__code__, of.__defaults__, of.__kwdefaults__ or {}, *cells))
        names = tuple(sorted(_names(of.__code__)))
        self._items({k: of.__globals__[k] for k in names if k in of.__globals__}, names)


def _is_written(name: str, value: object) -> bool:
    """Return True if a class attribute was written by the author of the class."""
    return not name.startswith("__") or isinstance(value, FunctionType)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _names(code: CodeType) -> set[str]:
    """Return the global names that code and its nested code use."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)
