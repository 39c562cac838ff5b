"""Rainflow counting with hysteresis, streamed: closed swings of at least a threshold are events.

The four-point rule (Amzallag et al. 1994): of four successive turning points A, B, C, D the swing
B-C is closed where it lies within both A-B and C-D; it is counted and taken out. What never closes
is the residue: half-cycles in ASTM E1049-85 (5.4.4), which are no events here. Closed swings plus
the residue as halves give the ASTM count. Taking smaller swings out first leaves larger ones as
they are, so counting only those of the threshold or more equals a hysteresis filter before.

Own code instead of the `rainflow` package (which tests compare with): that one is a Python
generator, a hundred times too slow for 0.1 s. Here the open points are the state, so blocks of any
size count the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.jit import njit
from diploee.metric import Metric
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.histogram import RELATIVE_ERROR, SignedHistogram
from diploee.metrics.grid.quanta import QUANTA_PER_W, to_mw
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
        self._open = np.empty(0, dtype=np.int64)
        self._open_ms = np.empty(0, dtype=np.int64)
        self._swings = SignedHistogram()
        self._classes = np.zeros(len(CLASS_FACTORS), dtype=np.int64)
        self._largest_ms = (0, 0)

    def add(self, quanta: Int64Array, first_ms: int, step_ms: int) -> None:
        """Add consecutive values [quanta], the first at `first_ms`."""
        times_ms = first_ms + np.arange(quanta.size, dtype=np.int64) * step_ms
        n_open = self._open.size
        points = np.concatenate([self._open, quanta])
        points_ms = np.concatenate([self._open_ms, times_ms])
        closed = np.empty((3, 4096), dtype=np.int64)
        begin = n_open
        while begin < points.size:
            # The stack lies at the front of `points`; it never overtakes what is still to be read.
            n_open, begin, n_closed = _close(
                points, points_ms, n_open, begin, self._threshold, closed
            )
            self._count(closed[:, :n_closed])
        self._open, self._open_ms = points[:n_open].copy(), points_ms[:n_open].copy()

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
        return self._open

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


@njit()
def _close(
    points: Int64Array,
    points_ms: Int64Array,
    n_open: int,
    begin: int,
    threshold: int,
    closed: Int64Array,
) -> tuple[int, int, int]:
    """Read points from `begin`, keep the open ones in front, and list the closed swings.

    Stops when `closed` may not hold the swings of one more point. Returns the number of open
    points, where to go on, and the number of closed swings.
    """
    n_closed = 0
    capacity = closed.shape[1]
    for k in range(begin, points.size):
        value, at_ms = points[k], points_ms[k]
        if n_open and points[n_open - 1] == value:
            continue
        if n_open > 1 and (points[n_open - 1] > points[n_open - 2]) == (value > points[n_open - 1]):
            n_open -= 1  # the last point was no turning point: the series goes on the same way
        while n_open > 2:
            # A, B, C are the last open points, D the value: B-C is closed, and leaves with its
            # points, where |B - C| <= |A - B| and |B - C| <= |C - D|.
            inner = abs(points[n_open - 1] - points[n_open - 2])
            if inner > abs(points[n_open - 2] - points[n_open - 3]):
                break
            if inner > abs(value - points[n_open - 1]):
                break
            if inner >= threshold:
                if n_closed == capacity:
                    return n_open, k, n_closed
                closed[0, n_closed] = inner
                closed[1, n_closed] = points_ms[n_open - 2]
                closed[2, n_closed] = points_ms[n_open - 1]
                n_closed += 1
            n_open -= 2
        points[n_open], points_ms[n_open] = value, at_ms
        n_open += 1
    return n_open, points.size, n_closed
