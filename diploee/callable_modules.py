"""Modules that are called as the function that they are named for: ``diploee.run(...)``.

A module ``diploee.run`` and a function of that name can't both be the package's attribute, so the
module answers calls and ``diploee.run.simulate`` is reachable all the same.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def callable_module(name: str, function: Callable[..., Any]) -> None:
    """Let a module be called as one of its functions, with its signature and its help.

    Parameters
    ----------
    name : str
        Of the module, its ``__name__``.
    function : callable
        What a call of the module calls.
    """

    class Called(ModuleType):
        __signature__ = inspect.signature(function)

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return function(*arguments, **options)

    Called.__call__.__doc__ = function.__doc__
    sys.modules[name].__class__ = Called
