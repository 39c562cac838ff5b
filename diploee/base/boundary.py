"""The boundary of a run: all that stages, loads, policies and measures hand over.

Whoever wrote a part, its arrays are checked when the first of them pass, and taken as
they are from then on. What a part raises is one line that names it.
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

Refusal = Callable[[str], InputError]
"""Makes an error of what is wrong with a part of a run, which it names."""


def imported(path: str) -> Any:
    """Return the object at an import path, ``module:name``."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"can't import {shown(path)} ({one_line(str(error))}), expected "
            "'module:Class'; set PYTHONPATH to the module's folder"
        ) from None


@contextmanager
def naming(
    doing: str, refuse: Refusal, but: type[Exception] = MemoryError
) -> Iterator[None]:
    """Name the part in whatever it raises, `but` what is not of its making."""
    try:
        yield
    except (DiploeeError, MemoryError, but):
        raise
    except Exception as raised:
        why = one_line(f"{type(raised).__name__}: {raised}")
        raise refuse(f": {doing} raised {why}") from raised


def check_kind(part: str, found: object, kind: Any, expected: str, of: Refusal) -> None:
    """Refuse what a part gives where it is of another kind."""
    if not isinstance(found, kind):
        raise of(f": {part} must be {expected}, found {one_line(shown(found))}")


def check_values(
    values: Mapping[str, npt.NDArray[Any]],
    columns: Columns,
    n_values: int,
    refuse: Refusal,
    more: Iterable[str] = (),
) -> None:
    """Refuse a first block of columns that are not as a stage or load declares them.

    One finite number for each interval; losses, loads and sources are not negative.
    `more` may be given without being declared.
    """
    own = {column.name: column for column in columns}
    given = {name.partition(".")[0] for name in values}
    if undeclared := given - {*own, *more}:
        raise refuse(
            f" gives column '{min(undeclared)}', which it does not declare (declared: "
            f"{one_of(own)}); add it to its columns"
        )
    for name, array in values.items():
        column = own.get(name.partition(".")[0])
        # No latency where nothing arrives
        lacks = column is not None and column.unit == "s"
        bounded = column is not None and column.role in _NOT_NEGATIVE
        if array.shape != (n_values,) or array.dtype.kind not in "bfiu":
            result = f"of shape {array.shape} of {array.dtype}"
            expected = f"({n_values},) of numbers, one per interval of the block"
        elif not lacks and not np.isfinite(array).all():
            result, expected = "with values that are not finite", "finite numbers"
        elif bounded and array.min(initial=0.0) < 0:
            result, expected = f"with {array.min():g}", "0 or more"
        else:
            continue
        raise refuse(f" gives column '{name}' {result}, expected {expected}")
    if missing := {name for name, c in own.items() if c.per != "service"} - given:
        raise refuse(
            f" lacks column '{min(missing)}', which it declares; give it in every block"
        )
