"""Formatting of numbers, intervals, times and lists in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from diploee.base.metric import NONE
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S
from diploee.profiles.profile import PowerBoundary

MIN_RUNS = 20
"""Minimum number of runs for P5 and P95; fewer have a minimum and a maximum instead."""


def interval(ms: int) -> str:
    """Format an interval such as ``1 min``, ``0.1 s`` or ``1 h``."""
    if ms >= MS_PER_H and ms % MS_PER_H == 0:
        return f"{ms // MS_PER_H} h"
    if ms >= MS_PER_MIN and ms % MS_PER_MIN == 0:
        return f"{ms // MS_PER_MIN} min"
    return f"{ms / MS_PER_S:g} s"


def short_boundary(text: str) -> str:
    """Return the text of a power boundary without the devices that it excludes."""
    for base in (PowerBoundary.DEVICES, PowerBoundary.NODE_AC):
        if text.startswith(base):
            stages = text.removeprefix(base)
            location = stages.rpartition(", ")[2]
            name = base.partition(":")[0].partition(",")[0]
            return location if location.startswith("at ") else f"{name}{stages}"
    return text


def listed(words: Sequence[str]) -> str:
    """Join words as ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def format_time(text: object, step_ms: int = MS_PER_MIN) -> str:
    """Format an ISO 8601 local time as ``2018-05-19 12:39``, as precise as a step."""
    if not isinstance(text, str):
        return NONE
    local_time = datetime.fromisoformat(text).replace(tzinfo=None)
    if step_ms % MS_PER_S:
        return local_time.isoformat(" ", "milliseconds")[
            : None if step_ms % 100 else -2
        ]
    return local_time.isoformat(" ", "seconds" if step_ms % MS_PER_MIN else "minutes")


def number_format(values: Iterable[object], digits: int = 4) -> str:
    """Return a number format with `digits` significant digits for the largest value.

    Integers are counts and have no decimals.
    """
    sizes = [abs(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    if sizes and all(isinstance(size, int) for size in sizes):
        return "{:,.0f}"
    largest = max(sizes, default=0.0)
    n_integer_digits = math.floor(math.log10(largest)) + 1 if largest > 0 else 1
    return f"{{:,.{min(max(digits - n_integer_digits, 0), 6)}f}}"
