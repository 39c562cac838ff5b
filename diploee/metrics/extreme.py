"""`Extreme`: one of the worst moments of a run, as causes are found of."""

from __future__ import annotations

from typing import NamedTuple

Span = tuple[int, int]
"""Start and end [ms]."""

Key = tuple[str, float, str]
"""An extreme by its block of the metrics, its length [s] and its direction."""


class Extreme(NamedTuple):
    """A change of the mean power from one span to a later one."""

    before: Span | None  # None of a peak, which is compared with the whole run
    after: Span
