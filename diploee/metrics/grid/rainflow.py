"""Rainflow counting with hysteresis, streamed: closed swings of at least a threshold are events.

`diploee.rainflow` counts them; the half-cycles of its residue are no events here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.metric import Metric
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.histogram import RELATIVE_ERROR, SignedHistogram
from diploee.metrics.grid.quanta import QUANTA_PER_W, to_mw
from diploee.rainflow import TurningPoints
from diploee.tables import Int64Array
from diploee.units import MS_PER_DAY

CLASS_FACTORS = (1, 2, 5, 10, 20, 50, 100)
"""Lower edges of the classes of swings, as multiples of the threshold; the last is open."""

DEFINITION = (
    "closed swings (full cycles) by the four-point rule, ASTM E1049-85 without its half-cycles, "
    "of at least the hysteresis threshold; from and to are the times of its two turning points"
)

RAINFLOW_METRICS = (
    Metric("grid.rainflow.threshold_mw", "MW", "hysteresis of the swing count"),
    Metric("grid.rainflow.swings", "swings", "closed swings", "{:,.0f}"),
    Metric("grid.rainflow.swings_per_day", "1/d", "closed swings per day", "{:,.1f}"),
    Metric("grid.rainflow.max_mw", "MW", "largest closed swing"),
    Metric("grid.rainflow.p50_mw", "MW", "median closed swing"),
    Metric("grid.rainflow.p99_mw", "MW", "P99 closed swing"),
    Metric("grid.rainflow.classes.<sizes>.swings", "swings", "closed swings of <sizes>", "{:,.0f}"),
)


class Rainflow:
    """Counts closed swings of a series given in consecutive blocks.

    Parameters
    ----------
    threshold_w : float
        Hysteresis: smaller swings are no events [W], more than 0.

    Raises
    ------
    ValueError
        If the threshold is not positive.
    """

    def __init__(self, threshold_w: float) -> None:
        if not threshold_w > 0:
            raise ValueError(f"the hysteresis threshold must be more than 0 W, found {threshold_w}")
        self._threshold = max(int(np.ceil(threshold_w * QUANTA_PER_W)), 1)
        self._points = TurningPoints(self._threshold)
        self._swings = SignedHistogram()
        self._classes = np.zeros(len(CLASS_FACTORS), dtype=np.int64)
        self._largest_ms = (0, 0)

    def add(self, quanta: Int64Array, first_ms: int, step_ms: int) -> None:
        """Add consecutive values [quanta], the first at `first_ms`."""
        for closed in self._points.add(quanta, first_ms, step_ms):
            self._count(closed)

    def _count(self, closed: Int64Array) -> None:
        if not closed.shape[1]:
            return
        ranges = closed[0]
        at = np.lexsort((closed[1], -ranges))[0]
        from_to_ms = (int(closed[1, at]), int(closed[2, at]))
        if (-int(ranges[at]), from_to_ms) < (-self.largest, self._largest_ms):
            self._largest_ms = from_to_ms  # of equal ones the earliest
        self._swings.add(np.ascontiguousarray(ranges), 0)
        edges = self._threshold * np.array(CLASS_FACTORS)
        in_class = np.searchsorted(edges, ranges, side="right") - 1
        self._classes += np.bincount(in_class, minlength=edges.size)

    @property
    def n_swings(self) -> int:
        """Closed swings of at least the threshold."""
        return self._swings.count

    @property
    def largest(self) -> int:
        """Range of the largest closed swing [quanta], 0 without any."""
        return self._swings.max if self._swings.count else 0

    @property
    def residue(self) -> Int64Array:
        """Turning points [quanta] that no closed swing has taken out, with the last value."""
        return self._points.residue

    def block(self, clock: Clock, span_ms: int) -> dict[str, Any]:
        """Return the `rainflow` block of a span [ms]."""
        seen = self._swings
        edges_mw = [*(to_mw(self._threshold * factor) for factor in CLASS_FACTORS), None]
        block: dict[str, Any] = {
            "definition": DEFINITION,
            "resolution_s": clock.step_s,
            "threshold_mw": to_mw(self._threshold),
            "swings": seen.count,
            "swings_per_day": seen.count / (span_ms / MS_PER_DAY) if span_ms else None,
            "classes": [
                {"from_mw": low_mw, "to_mw": high_mw, "swings": int(n)}
                for low_mw, high_mw, n in zip(
                    edges_mw[:-1], edges_mw[1:], self._classes, strict=True
                )
            ],
        }
        if seen.count:
            block |= {
                "max_mw": to_mw(seen.max),
                "max_from": clock.iso(self._largest_ms[0]),
                "max_to": clock.iso(self._largest_ms[1]),
                "p50_mw": to_mw(seen.percentile(50)),
                "p99_mw": to_mw(seen.percentile(99)),
                "percentile_relative_error": RELATIVE_ERROR,
            }
        return block
