"""Compiled functions: numba imported at the first call, its cache wherever one can be written.

`njit` is numba's, but for three things. A module of kernels imports in no time, as
numba follows with the first call of one. Machine code is kept where numba can keep it,
else in a private folder for temporary files, else nowhere: a read-only installation
without a home runs as well. And nothing about that cache ends a run: not a full disk, a
damaged file, or another process that writes there.
"""  # noqa: E501

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import update_wrapper
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from types import CodeType
from typing import Any, Literal, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCK = RLock()
SOURCES = "_diploee_sources"
"""Attribute of a compiled function: the files of all kernels within it."""


def njit(
    *, nogil: bool = True, inline: Literal["never", "always"] = "never"
) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function at its first call."""

    def decorate(function: Function) -> Function:
        # A division by zero is infinite, as in numpy: the check of each takes a tenth
        # of compiling.
        options = {"nogil": nogil, "inline": inline, "error_model": "numpy"}
        return cast("Function", _Kernel(function, options))

    return decorate


class _Kernel:
    """Stands for a function until its first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._options = options
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        return (self._compiled or self.compiled())(*args)

    def compiled(self) -> Callable[..., Any]:
        """Return what numba makes of the function.

        Kernels that it calls must be numba's own when it is compiled: they take their
        places among the names of its module, each with all that it calls itself. Only
        then is this one shown to other threads, which look at it without the lock.
        """
        with _LOCK:
            if self._compiled is None:
                names = self._function.__globals__
                sources = {self._function.__code__.co_filename}
                for name in _names_in(self._function.__code__):
                    called = names.get(name)
                    if isinstance(called, _Kernel) and called is not self:
                        called = names[name] = called.compiled()
                    sources |= getattr(called, SOURCES, set())
                self._compiled = _dispatcher(self._function, self._options, sources)
                setattr(self._compiled, SOURCES, sources)
                if names.get(self._function.__name__) is self:
                    names[self._function.__name__] = self._compiled
            return self._compiled


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code looks up, that of functions within it too."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _dispatcher(
    function: Callable[..., Any], options: dict[str, Any], sources: Collection[str]
) -> Callable[..., Any]:
    numba = _numba()
    made = numba.njit(**options)(function)
    # As with NUMBA_DISABLE_JIT
    cache = None if made is function else _cache(function, numba)
    if cache is not None and _knows_sources(cache, sources):
        made._cache = _Cache(cache)
    return cast("Callable[..., Any]", made)


def _numba() -> Any:
    """Return numba without scipy.linalg, which it loads to see whether it is there.

    That is a sixth of all imports of a short run. What uses linear algebra still asks
    for it.
    """
    numba: Any = import_module("numba")
    if "numba.np.arraymath" not in sys.modules and find_spec("scipy") is not None:
        # Another version, laid out otherwise
        with suppress(ImportError, AttributeError):
            linalg: Any = import_module("numba.np.linalg")
            ensure_blas, linalg.ensure_blas = linalg.ensure_blas, lambda: None
            try:
                arraymath: Any = import_module("numba.np.arraymath")
                arraymath.ensure_blas = ensure_blas
            finally:
                linalg.ensure_blas = ensure_blas
    return numba


def _cache(function: Callable[..., Any], numba: Any) -> Any:
    """Return numba's cache of a function, None where none can be written."""
    of: Any = import_module("numba.core.caching").FunctionCache
    with suppress(Exception):
        # NUMBA_CACHE_DIR, beside the module, or the user's cache folder
        return of(function)
    if (folder := _private_folder()) is not None:
        numba.config.CACHE_DIR = str(folder)
        with suppress(Exception):
            return of(function)
    return None


def _knows_sources(cache: Any, sources: Collection[str]) -> bool:
    """Let machine code be as old as the newest of the files that it takes kernels from.

    Numba looks at the file of the outermost alone, and would go on with what it took
    from another before that was changed. Return whether that can be done.
    """
    if len(sources) > 1:
        try:
            stamps = [
                (found.st_mtime, found.st_size)
                for found in map(os.stat, sorted(sources))
            ]
            cache._cache_file._source_stamp = (cache._cache_file._source_stamp, *stamps)
        except (AttributeError, OSError):
            return False
    return True


class _Cache:
    """A cache of numba's that can fail: what it does not give is compiled."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        with suppress(Exception):
            found = self._cache.load_overload(signature, target_context)
            # Of two processes that add a signature each, one may write over the other's
            # code.
            if found is None or tuple(found.signature.args) == tuple(signature):
                return found
        with suppress(Exception):
            # What can't be read would be in the way of what replaces it
            self._cache.flush()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        with suppress(Exception):
            self._cache.save_overload(signature, compiled)


def _private_folder() -> Path | None:
    """Return a temporary folder that is this user's alone, or None.

    What lies in a cache is run: a folder of somebody else would be a way in.
    """
    if not hasattr(os, "getuid"):
        return None
    try:
        parent = Path(tempfile.gettempdir())
        # Where Python goes when no folder for temporary files is left
        if parent == Path.cwd():
            return None
        folder = parent / f"diploee-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o077 else None
