"""Numbers and spans as a reader expects them in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from diploee.base.metric import NONE
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S
from diploee.profiles.profile import PowerBoundary

MIN_RUNS = 20
"""Fewer runs have none below their 5th percentile: they have a least and a largest
instead."""


def interval(ms: int) -> str:
    """Return an interval such as ``1 min``, ``0.1 s`` or ``1 h``."""
    if ms >= MS_PER_H and ms % MS_PER_H == 0:
        return f"{ms // MS_PER_H} h"
    if ms >= MS_PER_MIN and ms % MS_PER_MIN == 0:
        return f"{ms // MS_PER_MIN} min"
    return f"{ms / MS_PER_S:g} s"


def short_boundary(text: str) -> str:
    """Return where power is taken, without what profiles leave out."""
    for base in (PowerBoundary.DEVICES, PowerBoundary.NODE_AC):
        if text.startswith(base):
            stages = text.removeprefix(base)
            at = stages.rpartition(", ")[2]
            name = base.partition(":")[0].partition(",")[0]
            return at if at.startswith("at ") else f"{name}{stages}"
    return text


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def moment(text: object, step_ms: int = MS_PER_MIN) -> str:
    """Return an ISO 8601 local time as ``2018-05-19 12:39``, as fine as a step."""
    if not isinstance(text, str):
        return NONE
    at = datetime.fromisoformat(text).replace(tzinfo=None)
    if step_ms % MS_PER_S:
        return at.isoformat(" ", "milliseconds")[: None if step_ms % 100 else -2]
    return at.isoformat(" ", "seconds" if step_ms % MS_PER_MIN else "minutes")


def pattern_for(values: Iterable[object], digits: int = 4) -> str:
    """Return a format of as many decimals as give the largest number `digits` digits.

    Counts, whole numbers by their type, have none.
    """
    sizes = [abs(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    if sizes and all(isinstance(size, int) for size in sizes):
        return "{:,.0f}"
    largest = max(sizes, default=0.0)
    before = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    return f"{{:,.{min(max(digits - before, 0), 6)}f}}"
