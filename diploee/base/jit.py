"""Lazy `njit`: numba is imported and kernels are compiled at the first call.

Commands that call no kernel thus need not wait for the import of numba. Numba caches
the compiled kernels.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(
    *, inline: Literal["never", "always"] = "never"
) -> Callable[[Function], Function]:
    """Return a decorator that compiles a module's kernels when one is first called.

    Kernels that call each other belong in one file: numba's cache is only invalidated
    by changes of the file of the called kernel.
    """

    def decorate(function: Function) -> Function:
        names = function.__globals__
        kernels = names.setdefault("_KERNELS", {})
        kernels[function.__name__] = function, inline

        @wraps(function)
        def first(*args: Any) -> Any:
            if names[function.__name__] is first:
                _compile(names, kernels, cached=True)
            try:
                return names[function.__name__](*args)
            except Exception as error:
                if not _is_cache_error(error):
                    raise
            _compile(names, kernels, cached=_clear_cache(names[function.__name__]))
            return names[function.__name__](*args)

        return cast("Function", first)

    return decorate


def _compile(names: dict[str, Any], kernels: dict[str, Any], cached: bool) -> None:
    # In one step: another thread must not see a kernel whose callees aren't numba's.
    names.update(
        {
            name: _compile_kernel(function, inline, cached)
            for name, (function, inline) in kernels.items()
        }
    )


_IMPORT = Lock()


def _numba() -> Any:
    """Import numba without its search for BLAS, which takes 0.3 s.

    No kernel uses BLAS; numba allows for its absence.
    """
    with _IMPORT:
        import numba
        from numba.np import linalg

        ensure_blas, linalg.ensure_blas = linalg.ensure_blas, _refuse_blas
        try:
            import numba.np.arraymath
        finally:
            linalg.ensure_blas = ensure_blas
    return numba


def _refuse_blas() -> None:
    raise ImportError


def _compile_kernel(function: Callable[..., Any], inline: str, cached: bool) -> Any:
    numba = _numba()
    # A division by zero is infinite, as in numpy: the check of each takes a tenth of
    # compiling.
    options: dict[str, Any] = {"nogil": True, "inline": inline, "error_model": "numpy"}
    try:
        return numba.njit(cache=cached, **options)(function)
    except RuntimeError:  # no folder for its cache can be written
        return numba.njit(**options)(function)


def _is_cache_error(error: BaseException) -> bool:
    """Return True if an exception comes from reading or writing numba's cache."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(f.f_globals.get("__name__") == "numba.core.caching" for f, _ in frames)


def _clear_cache(kernel: Any) -> bool:
    """Delete the cached kernels of a module; return True if the cache is writable."""
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
