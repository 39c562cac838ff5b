"""Load changes: ramps, rolling ranges, rainflow cycles, and the worst events.

For a length L of n intervals of the run, the ramp at time t is
``mean(P over [t, t + L)) - mean(P over [t - L, t))``, and t takes every interval edge
of the run. The largest change within L is ``max(P(s) - P(t)) over 0 < s - t <= L`` of
the interval means.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import RELATIVE_ERROR, SignedHistogram
from diploee.base.measures.ramps import (
    CLASS_FACTORS,
    BothWays,
    LargestChanges,
    Rainflow,
    RollingRanges,
    SignalHistogram,
    ramps,
)
from diploee.base.measures.series import to_mw
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S
from diploee.metrics.spectral_bands import Support

Span = tuple[int, int]
"""Start and end [ms]."""

Key = tuple[str, float, str]
"""An extreme by its block of the metrics, its length [s] and its direction."""


class Extreme(NamedTuple):
    """Largest change of the mean power from one interval to a later one."""

    before: Span | None  # None of a peak, which is compared with the whole run
    after: Span


RAMP_MS = (
    *(n * MS_PER_S for n in (2, 10)),
    *(n * MS_PER_MIN for n in (1, 5, 10, 15)),
    MS_PER_H,
)
"""Lengths of the ramps that are reported [ms]."""

SWING_MS = (2 * MS_PER_S, 10 * MS_PER_S, MS_PER_MIN)
"""Windows of the rolling range [ms]."""

WITHIN_MS = (MS_PER_MIN, 10 * MS_PER_MIN)
"""Largest distance of the two readings of a change [ms]."""

SIZES = {"max": "largest", "p999": "P99.9", "p99": "P99"}
"""Statistics of a histogram that ramps and swings report."""

RAMP, SWING = "ramp {} over {}", "swing within {}"
CHANGE = {"up": "rise within {}", "down": "fall within {}"}


def absent(
    key: str, reasons: Mapping[Any, str], scale: int = 1
) -> list[dict[str, Any]]:
    """Return the unreported lengths, in units of `scale`, each with a reason."""
    return [
        {key: length / scale if scale > 1 else length, "reason": reason}
        for length, reason in reasons.items()
        if reason
    ]


class Changes:
    """Accumulator of changes, ramps and rolling ranges at a run's resolution."""

    def __init__(self, clock: WallClock) -> None:
        self._clock, step_ms = clock, clock.step_ms
        self._no_ramps = {
            length_ms: clock.window_problem(length_ms) for length_ms in RAMP_MS
        }
        self._no_ranges = {
            length_ms: clock.window_problem(length_ms, 2) for length_ms in SWING_MS
        }
        self._no_changes = {
            length_ms: clock.window_problem(length_ms - length_ms % step_ms)
            for length_ms in WITHIN_MS
        }
        self._changes = {
            length_ms: LargestChanges(length_ms // step_ms)
            for length_ms, reason in self._no_changes.items()
            if not reason
        }
        self._ramps = {
            length_ms: SignalHistogram(ramps(n := length_ms // step_ms), 2 * n)
            for length_ms, reason in self._no_ramps.items()
            if not reason
        }
        self._windows_ms = [w for w, reason in self._no_ranges.items() if not reason]
        self._ranges = RollingRanges(
            [window_ms // step_ms for window_ms in self._windows_ms]
        )

    @property
    def measures(self) -> Iterable[LargestChanges | SignalHistogram | RollingRanges]:
        """Return the accumulators of the power series."""
        return *self._changes.values(), *self._ramps.values(), self._ranges

    def extremes(self) -> dict[Key, Extreme]:
        """Return the largest changes, ramps and ranges so far."""
        result, step_ms = {}, self._clock.step_ms
        for length_ms, changes in self._changes.items():
            for way, (size, first, last) in zip(CHANGE, changes.result(), strict=True):
                if size > 0:
                    event = Extreme((first, first + step_ms), (last, last + step_ms))
                    result["changes", length_ms / MS_PER_S, way] = event
        for n_ms, sizes in self._ramps.items():
            seen = sizes.result()
            for way, size, at in (
                ("up", seen.max, seen.max_at),
                ("down", -seen.min, seen.min_at),
            ):
                if seen.count and size > 0:
                    event = Extreme((at, at + n_ms), (at + n_ms, at + 2 * n_ms))
                    result["ramps", n_ms / MS_PER_S, way] = event
        for window_ms, (seen, (first, last)) in self._each_range():
            if seen.max > 0:
                event = Extreme((first, first + step_ms), (last, last + step_ms))
                result["rolling_range", window_ms / MS_PER_S, ""] = event
        return result

    def _each_range(
        self,
    ) -> Iterable[tuple[int, tuple[SignedHistogram, tuple[int, int]]]]:
        return zip(self._windows_ms, self._ranges.result(), strict=True)

    def blocks(self, support: Support) -> dict[str, Any]:
        """Return the metrics blocks of changes, ramps and ranges.

        Each has an entry for every reported length and a reason for every other.
        """
        result = {n_ms: sizes.result() for n_ms, sizes in self._ramps.items()}
        ranges = {window_ms: seen for window_ms, (seen, _) in self._each_range()}
        short = "the run is shorter than two intervals"
        no_ramps = self._no_ramps | {
            n: short for n, seen in result.items() if not seen.count
        }
        short = "the run is shorter"
        changes = {window_ms: of.result() for window_ms, of in self._changes.items()}
        no_changes = self._no_changes | {
            n: short for n, of in changes.items() if of[0][0] < 0
        }
        no_ranges = self._no_ranges | {
            n: short for n, seen in ranges.items() if not seen.count
        }
        head = {
            "resolution_s": self._clock.step_s,
            "percentile_relative_error": RELATIVE_ERROR,
        }
        return {
            "changes": {
                "definition": (
                    "largest difference of two interval means that start at most as "
                    "far apart as the window is long; time is the start of the "
                    "earlier, until of the later"
                ),
                "resolution_s": self._clock.step_s,
                "windows": [
                    self._change(n, seen, support)
                    for n, seen in changes.items()
                    if seen[0][0] >= 0
                ],
                "absent": absent("window_s", no_changes, MS_PER_S),
            },
            "ramps": {
                "definition": (
                    "difference of the means of two adjacent intervals, sliding by "
                    "the run's resolution; time is the start of the earlier; "
                    "percentiles over all edges of the signed ramp, down as its "
                    "negative"
                ),
                **head,
                "intervals": [
                    self._ramp(n, seen, support)
                    for n, seen in result.items()
                    if seen.count
                ],
                "absent": absent("interval_s", no_ramps, MS_PER_S),
            },
            "rolling_range": {
                "definition": (
                    "largest less smallest interval mean within a window, sliding by "
                    "the run's resolution; time is the window's start"
                ),
                **head,
                "windows": [
                    self._range(n, seen, support)
                    for n, seen in ranges.items()
                    if seen.count
                ],
                "absent": absent("window_s", no_ranges, MS_PER_S),
            },
        }

    def _change(
        self, length_ms: int, seen: BothWays, support: Support
    ) -> dict[str, Any]:
        entry: dict[str, Any] = {"window_s": length_ms / MS_PER_S}
        for way, (size, *times) in zip(CHANGE, seen, strict=True):
            time, until = (self._clock.iso(at_ms) if size else None for at_ms in times)
            entry[way] = {"max_mw": to_mw(size), "time": time, "until": until}
        return entry | {"lower_bound": support.is_lower_bound(length_ms / MS_PER_S)}

    def _ramp(
        self, length_ms: int, seen: SignedHistogram, support: Support
    ) -> dict[str, Any]:
        n, length_s = length_ms // self._clock.step_ms, length_ms / MS_PER_S
        up = (seen.max, seen.percentile(99), seen.percentile(99.9), seen.max_at)
        down = (-seen.min, -seen.percentile(1), -seen.percentile(0.1), seen.min_at)
        entry: dict[str, Any] = {"interval_s": length_s}
        for way, (largest, p99, p999, at_ms) in (("up", up), ("down", down)):
            side = entry[way] = {}
            for key, size in (("max", largest), ("p99", p99), ("p999", p999)):
                side[f"{key}_mw"] = delta_mw = max(to_mw(size, n), 0.0)
                side[f"{key}_mw_per_min"] = delta_mw / (length_ms / MS_PER_MIN)
            side["time"] = self._clock.iso(at_ms) if largest > 0 else None
        return entry | {"lower_bound": support.is_lower_bound(length_s)}

    def _range(
        self, window_ms: int, seen: SignedHistogram, support: Support
    ) -> dict[str, Any]:
        return {
            "window_s": window_ms / MS_PER_S,
            "max_mw": to_mw(seen.max),
            "p99_mw": to_mw(seen.percentile(99)),
            "p999_mw": to_mw(seen.percentile(99.9)),
            "time": self._clock.iso(seen.max_at),
            "lower_bound": support.is_lower_bound(window_ms / MS_PER_S),
        }


def rainflow_block(
    rainflow: Rainflow, clock: WallClock, span_ms: int
) -> dict[str, Any]:
    """Return the `rainflow` block for a time span [ms]."""
    seen, threshold = rainflow.result(), rainflow.threshold
    edges_mw = [*(to_mw(threshold * factor) for factor in CLASS_FACTORS), None]
    classes = zip(edges_mw[:-1], edges_mw[1:], rainflow.classes.tolist(), strict=True)
    block: dict[str, Any] = {
        "definition": (
            "closed swings (full cycles) by the four-point rule, ASTM E1049-85 "
            "without its half-cycles, of at least the hysteresis threshold; from and "
            "to are the times of its two turning points"
        ),
        "resolution_s": clock.step_s,
        "threshold_mw": to_mw(threshold),
        "swings": seen.count,
        "swings_per_day": seen.count / (span_ms / MS_PER_DAY) if span_ms else None,
        "classes": [
            {"from_mw": low, "to_mw": high, "swings": n} for low, high, n in classes
        ],
    }
    if seen.count:
        block |= {
            "max_mw": to_mw(seen.max),
            "max_from": clock.iso(rainflow.largest_ms[0]),
            "max_to": clock.iso(rainflow.largest_ms[1]),
            "p50_mw": to_mw(seen.percentile(50)),
            "p99_mw": to_mw(seen.percentile(99)),
            "percentile_relative_error": RELATIVE_ERROR,
        }
    return block
