"""Compiled functions: numba's `njit` with its cache, from the first call of one on.

Until then numba is not imported: it takes longer than most commands that compile
nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
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
                _compile(names, kernels, cache=True)
            try:
                return names[function.__name__](*args)
            except Exception as error:
                if not _is_of_cache(error):
                    raise
            _compile(names, kernels, cache=_emptied(names[function.__name__]))
            return names[function.__name__](*args)

        return cast("Function", first)

    return decorate


def _compile(names: dict[str, Any], kernels: dict[str, Any], cache: bool) -> None:
    # In one step: another thread must not see a kernel whose callees aren't numba's.
    names.update(
        {name: _compiled(of, inline, cache) for name, (of, inline) in kernels.items()}
    )


def _compiled(function: Callable[..., Any], inline: str, cache: bool) -> Any:
    import numba

    # A division by zero is infinite, as in numpy: the check of each takes a tenth of
    # compiling.
    options: dict[str, Any] = {"nogil": True, "inline": inline, "error_model": "numpy"}
    try:
        return numba.njit(cache=cache, **options)(function)
    except RuntimeError:  # no folder for its cache can be written
        return numba.njit(**options)(function)


def _is_of_cache(error: BaseException) -> bool:
    """Return whether numba failed to read its cache, as of another version, or to write it."""  # noqa: E501
    frames = traceback.walk_tb(error.__traceback__)
    return any(f.f_globals.get("__name__") == "numba.core.caching" for f, _ in frames)


def _emptied(kernel: Any) -> bool:
    """Remove what is kept of a kernel's module; return whether it can be kept anew."""
    home, stem = (
        Path(kernel.stats.cache_path),
        Path(kernel.py_func.__code__.co_filename).stem,
    )
    try:
        for path in home.glob(f"{stem}.*.nb?"):
            path.unlink(missing_ok=True)
        (home / f"{stem}.probe.nbi").write_bytes(bytes(1 << 20))
        (home / f"{stem}.probe.nbi").unlink()
    except OSError:  # such as a disk that is full
        return False
    return True
