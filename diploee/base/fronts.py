"""Fronts of packages: their public names, each imported on first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def front(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package (PEP 562).

    Its public names are those that its ``if TYPE_CHECKING:`` imports: one list for type checkers,
    readers, the pages of the reference and Python. A package without one is internal.
    """
    loader: Any = sys.modules[package].__loader__
    source = ast.parse(loader.get_source(package))
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if not name.startswith("_") and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return list(homes), get, lambda: list(homes)
