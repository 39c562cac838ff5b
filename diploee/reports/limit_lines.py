"""Bounds of limits as lines in the figures of power, of ramps and of swings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from diploee.metrics.limits import load_limits
from diploee.metrics.limits.check import NotAssessable
from diploee.metrics.limits.report import seen_by
from diploee.outputs.words import interval
from diploee.reports.data import RunData

POWER_LEVEL = "power"
"""Kind of a limit on power itself."""


@dataclass(frozen=True)
class LimitLine:
    """Bound of a limit: `kind` is ramps, of a way if it has one, swings, or `POWER_LEVEL`."""

    kind: str
    name: str
    length_ms: int
    size_mw: float


def limit_lines(run: RunData, names: Sequence[str]) -> list[LimitLine]:
    """Return what limits allow, for lines in the figures of power, of ramps and of swings."""
    shown, found = seen_by(run.run), []
    for name in names:
        limits = load_limits(name)
        of = limits.name or name
        drawn = (line for _, spec in limits.each() for line in spec.drawn(shown.clock.step_ms))
        for kind, amount, factor, length_ms in drawn:
            with suppress(NotAssessable):  # a part of what this run does not tell
                size_mw = amount.of(shown)[0] * factor
                way = "over" if kind == POWER_LEVEL else "within"
                name = f"{of}, {size_mw:.4g} MW {way} {interval(length_ms)}"
                found.append(LimitLine(kind, name, length_ms, size_mw))
    return found
