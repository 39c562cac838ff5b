"""Compiled functions: numba's `njit` with its cache, from the first call of one on.

Until then numba is not imported: it takes longer than most commands that compile
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(
    *, inline: Literal["never", "always"] = "never"
) -> Callable[[Function], Function]:
    """Return a decorator; the first call of a module's functions compiles all that it needs.

    Kernels that call each other stand in one file: numba keeps machine code until the
    file of the one that is called changes, and looks at no other.
    """  # noqa: E501

    def decorate(function: Function) -> Function:
        names = function.__globals__
        kernels = names.setdefault("_KERNELS", {})
        kernels[function.__name__] = function, inline

        @wraps(function)
        def first(*args: Any) -> Any:
            if names[function.__name__] is first:
                # In one step: another thread must not see a kernel whose callees aren't
                # numba's.
                names.update(
                    {name: _compiled(*kernel) for name, kernel in kernels.items()}
                )
            return names[function.__name__](*args)

        return cast("Function", first)

    return decorate


def _compiled(function: Callable[..., Any], inline: str) -> Any:
    import numba

    # A division by zero is infinite, as in numpy: the check of each takes a tenth of
    # compiling.
    options: dict[str, Any] = {"nogil": True, "inline": inline, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for its cache can be written
        return numba.njit(**options)(function)
