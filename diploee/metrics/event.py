"""`Event`: what is told apart as one of the worst moments of a run."""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]
"""Begin and end [ms]."""

Key = tuple[str, float, str]
"""An event by its block of the metrics, its length [s] and its direction."""


@dataclass(frozen=True)
class Event:
    """A change of the mean power from one span [ms] to a later one.

    `before` is None for a peak, which is held against the whole run.
    """

    before: Span | None
    after: Span
