"""`Event`: what is told apart as one of the worst moments of a run."""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]
"""Begin and end [ms]."""

Key = tuple[str, float, str]
"""An event by its block of the metrics, its length [s] and its direction."""


@dataclass(frozen=True)
class Event:
    """A change of the mean power from one span to a later one, or the power of one span.

    Parameters
    ----------
    before : tuple of int or None
        The earlier span [ms]; None for a peak, which is held against the whole run.
    after : tuple of int
        The later span [ms].
    """

    before: Span | None
    after: Span
