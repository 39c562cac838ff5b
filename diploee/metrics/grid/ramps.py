"""Ramps: the difference of the means of two adjacent intervals, at every start of the run.

For a length L of n intervals of the run, the ramp at time t is
``mean(P over [t, t + L)) - mean(P over [t - L, t))``; t slides over all interval edges of the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.metric import Metric
from diploee.metrics.event import Event, Key
from diploee.metrics.grid.bandwidth import Support
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.histogram import RELATIVE_ERROR, SIZES, SignedHistogram
from diploee.metrics.grid.quanta import Stretch, to_mw
from diploee.tables import Int64Array
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S

RAMP_MS = (
    2 * MS_PER_S,
    10 * MS_PER_S,
    MS_PER_MIN,
    5 * MS_PER_MIN,
    10 * MS_PER_MIN,
    15 * MS_PER_MIN,
    MS_PER_H,
)
"""Lengths of the ramps that are reported [ms]."""

DEFINITION = (
    "difference of the means of two adjacent intervals, sliding by the run's resolution; time is "
    "the start of the earlier; percentiles over all edges of the signed ramp, down as its negative"
)

RAMP = "ramp {} over {}"
RAMP_METRICS = tuple(
    Metric(
        f"grid.ramps.intervals.<interval>.{way}.{key}_{rate}", unit,
        f"{size} {RAMP.format(way, '<interval>')}", text="of two adjacent means of that length",
    )
    for way in ("up", "down")
    for key, size in SIZES.items()
    for rate, unit in (("mw", "MW"), ("mw_per_min", "MW/min"))
)  # fmt: skip


def ramp_sums(stretch: Stretch, n: int) -> tuple[Int64Array, int]:
    """Return all ramps over `n` values whose second interval ends in the new part.

    Parameters
    ----------
    stretch : Stretch
        Values in quanta, with up to ``2 n - 1`` earlier ones.
    n : int
        Values per interval.

    Returns
    -------
    sums : numpy.ndarray, int64
        `n` times the ramps [quanta].
    first_ms : int
        Time of the first, the edge between its two intervals [ms].
    """
    part = stretch.windows_of(2 * n)
    total = np.empty(part.values.size + 1, dtype=np.int64)
    total[0] = 0
    np.cumsum(part.values, out=total[1:])
    if total.size <= 2 * n:
        return total[:0], part.begin_ms
    # With C the cumulative sum: (C[k + 2n] - C[k + n]) - (C[k + n] - C[k]).
    sums = total[2 * n :] + total[: -2 * n]
    middle = total[n:-n]
    sums -= middle
    sums -= middle
    return sums, part.begin_ms + n * stretch.step_ms


class Ramps:
    """Accumulates the ramps of one length.

    Parameters
    ----------
    length_ms : int
        Length of each of the two intervals [ms], a multiple of the step.
    step_ms : int
        Interval of the series [ms].
    """

    def __init__(self, length_ms: int, step_ms: int) -> None:
        self.length_ms = length_ms
        self._n = length_ms // step_ms
        self.n_window = 2 * self._n
        self._ramps = SignedHistogram()

    def see(self, stretch: Stretch) -> None:
        """Add the ramps that end in the new part of a stretch."""
        sums, first_ms = ramp_sums(stretch, self._n)
        self._ramps.add(sums, first_ms, stretch.step_ms)

    @property
    def empty(self) -> bool:
        """Whether the run was too short for one ramp."""
        return not self._ramps.count

    def events(self) -> dict[Key, Event]:
        """Return the largest ramps so far, with the two intervals of each."""
        seen = self._ramps
        places = {"up": seen.max_at} if seen.max > 0 else {}
        places |= {"down": seen.min_at} if seen.min < 0 else {}
        n_ms = self.length_ms
        return {
            ("ramps", n_ms / MS_PER_S, way): Event((at_ms - n_ms, at_ms), (at_ms, at_ms + n_ms))
            for way, at_ms in places.items()
        }

    def block(self, clock: Clock, support: Support) -> dict[str, Any]:
        """Return the entry of this length."""
        seen, length_s = self._ramps, self.length_ms / MS_PER_S
        up = (seen.max, seen.percentile(99), seen.percentile(99.9), seen.max_at)
        down = (-seen.min, -seen.percentile(1), -seen.percentile(0.1), seen.min_at)
        entry: dict[str, Any] = {"interval_s": length_s}
        for name, (largest, p99, p999, at_ms) in (("up", up), ("down", down)):
            sizes = {"max": largest, "p99": p99, "p999": p999}
            side: dict[str, Any] = {}
            for key, size in sizes.items():
                delta_mw = max(to_mw(size, self._n), 0.0)
                side[f"{key}_mw"] = delta_mw
                side[f"{key}_mw_per_min"] = delta_mw / (self.length_ms / MS_PER_MIN)
            side["time"] = clock.iso(at_ms - self.length_ms) if largest > 0 else None
            entry[name] = side
        entry["lower_bound"] = support.is_lower_bound(length_s)
        return entry


def ramps_block(ramps: list[Ramps], clock: Clock, support: Support) -> dict[str, Any]:
    """Return the `ramps` block: an entry for every length, or why there is none."""
    reasons = {n_ms: clock.why_not_held(n_ms) for n_ms in RAMP_MS}
    reasons |= {r.length_ms: "the run is shorter than two intervals" for r in ramps if r.empty}
    return {
        "definition": DEFINITION,
        "resolution_s": clock.step_s,
        "percentile_relative_error": RELATIVE_ERROR,
        "intervals": [r.block(clock, support) for r in ramps if not r.empty],
        "absent": [
            {"interval_s": n_ms / MS_PER_S, "reason": reason}
            for n_ms, reason in reasons.items()
            if reason
        ],
    }
