"""Numbers and spans as a reader expects them in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S


def interval(ms: int) -> str:
    """Return an interval such as ``1 min``, ``0.1 s`` or ``1 h``."""
    if ms >= MS_PER_H and ms % MS_PER_H == 0:
        return f"{ms // MS_PER_H} h"
    if ms >= MS_PER_MIN and ms % MS_PER_MIN == 0:
        return f"{ms // MS_PER_MIN} min"
    return f"{ms / MS_PER_S:g} s"


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


NONE = "\N{EN DASH}"
"""A cell without a value."""


def number(value: object, pattern: str, factor: float = 1) -> str:
    """Return a number by a format, or `NONE` where there is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return NONE
    return pattern.format(value * factor)


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 run`` or ``3 runs``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
