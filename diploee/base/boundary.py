"""Checks of the data that a run receives from stages, loads, policies and measures.

Arrays are checked in the first block of each component only. An exception raised inside
a component becomes a one-line error that names the component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.base.column_specs import Columns, Role
from diploee.base.errors import DiploeeError, InputError, one_line, one_of, shown

_NOT_NEGATIVE: tuple[Role, ...] = ("loss", "load", "source")

ErrorMaker = Callable[[str], InputError]
"""Function that builds an error from its text and names the component in it."""


def import_object(path: str) -> Any:
    """Return the object at an import path ``module:name``."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            f"can't import {shown(path)} ({one_line(str(error))}), expected "
            "'module:Class'; set PYTHONPATH to the module's folder"
        ) from None


def import_named(module: str) -> str:
    """Import a module, so that it registers its components, and return its name."""
    try:
        import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise ValueError(
            f"can't import {shown(module)} ({one_line(str(error))}); set PYTHONPATH to "
            "the module's folder"
        ) from None
    return module


@contextmanager
def named_errors(
    activity: str, make_error: ErrorMaker, passing: type[Exception] = MemoryError
) -> Iterator[None]:
    """Convert exceptions raised within the block to errors that name the component.

    Exceptions of type `passing` are not converted, as they are not the component's
    fault.
    """
    try:
        yield
    except (DiploeeError, MemoryError, passing):
        raise
    except Exception as problem:
        reason = one_line(f"{type(problem).__name__}: {problem}")
        raise make_error(f": {activity} raised {reason}") from problem


def check_type(
    component: str, value: object, type_: Any, expected: str, make_error: ErrorMaker
) -> None:
    """Raise an error if a value from a component has the wrong type."""
    if not isinstance(value, type_):
        raise make_error(
            f": {component} must be {expected}, found {one_line(shown(value))}"
        )


def check_columns(
    values: Mapping[str, npt.NDArray[Any]],
    columns: Columns,
    n_values: int,
    make_error: ErrorMaker,
    optional_names: Iterable[str] = (),
) -> None:
    """Raise an error unless the columns of a first block match their declaration.

    A column needs one finite number per interval; losses, loads and sources must not be
    negative. `optional_names` are columns that may be present without being declared.
    """
    declared = {column.name: column for column in columns}
    names = {name.partition(".")[0] for name in values}
    if undeclared := names - {*declared, *optional_names}:
        raise make_error(
            f" gives column '{min(undeclared)}', which it does not declare (declared: "
            f"{one_of(declared)}); add it to its columns"
        )
    for name, array in values.items():
        column = declared.get(name.partition(".")[0])
        # A latency is NaN while no requests arrive
        may_be_nan = column is not None and column.unit == "s"
        is_not_negative = column is not None and column.role in _NOT_NEGATIVE
        if array.shape != (n_values,) or array.dtype.kind not in "bfiu":
            actual = f"of shape {array.shape} of {array.dtype}"
            expected = f"({n_values},) of numbers, one per interval of the block"
        elif not may_be_nan and not np.isfinite(array).all():
            actual, expected = "with values that are not finite", "finite numbers"
        elif is_not_negative and array.min(initial=0.0) < 0:
            actual, expected = f"with {array.min():g}", "0 or more"
        else:
            continue
        raise make_error(f" gives column '{name}' {actual}, expected {expected}")
    if missing := {name for name, c in declared.items() if c.per != "service"} - names:
        raise make_error(
            f" lacks column '{min(missing)}', which it declares; give it in every block"
        )
