"""Compiled twins of policies: engines that give the same starts as SimPy under that policy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

P = TypeVar("P", bound=type)

_TWINS: dict[type, str] = {}


def has_twin(engine: str) -> Callable[[P], P]:
    """Return a decorator that says which engine is the twin of a policy.

    It holds for that class alone: one derived from it may decide otherwise.
    """

    def register(policy: P) -> P:
        _TWINS[policy] = engine
        return policy

    return register


def twin_of(policy: object) -> Callable[..., Any] | None:
    """Return the engine that is the twin of a policy, None where it has none."""
    if (engine := _TWINS.get(type(policy))) is None:
        return None
    module, _, name = engine.partition(":")
    made: Callable[..., Any] = getattr(import_module(module), name)
    return made
