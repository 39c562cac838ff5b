"""Load changes: ramps, rolling ranges, rainflow cycles, and the worst events.

For a length L of n intervals of the run, the ramp at time t is ``mean(P over [t, t +
L)) - mean(P over [t - L, t))``, for each interval edge t of the run. The largest change
within L is ``max(P(s) - P(t)) over 0 < s - t <= L``, with the interval means P.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import RELATIVE_ERROR, SignedHistogram
from diploee.base.measures.ramps_and_swings import (
    CLASS_FACTORS,
    BothWays,
    LargestChanges,
    Rainflow,
    RollingRanges,
    SignalHistogram,
    ramps,
)
from diploee.base.measures.streaming import to_mw
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S
from diploee.metrics.spectral_bands import Support

Span = tuple[int, int]
"""Start and end of an interval [ms]."""

Key = tuple[str, float, str]
"""Key of an extreme: its block of the metrics, its length [s] and its direction."""


class Extreme(NamedTuple):
    """Largest change of the mean power from one interval to a later one."""

    before: Span | None  # earlier interval; None for a peak, compared with the run
    after: Span  # later interval


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

# Labels of ramps and rolling ranges
RAMP, SWING = "ramp {} over {}", "swing within {}"
# Labels of changes by direction
CHANGE = {"up": "rise within {}", "down": "fall within {}"}


def absent(
    key: str, reasons: Mapping[Any, str], unit_ms: int = 1
) -> list[dict[str, Any]]:
    """Return the unreported lengths, each with a reason.

    Lengths are divided by `unit_ms`.
    """
    return [
        {key: length / unit_ms if unit_ms > 1 else length, "reason": reason}
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
        """Accumulators of the power series."""
        return *self._changes.values(), *self._ramps.values(), self._ranges

    def extremes(self) -> dict[Key, Extreme]:
        """Return the largest changes, ramps and ranges so far."""
        result, step_ms = {}, self._clock.step_ms
        for length_ms, changes in self._changes.items():
            for direction, (change, first, last) in zip(
                CHANGE, changes.result(), strict=True
            ):
                if change > 0:
                    event = Extreme((first, first + step_ms), (last, last + step_ms))
                    result["changes", length_ms / MS_PER_S, direction] = event
        for n_ms, ramp in self._ramps.items():
            histogram = ramp.result()
            for direction, change, time_ms in (
                ("up", histogram.max, histogram.max_at),
                ("down", -histogram.min, histogram.min_at),
            ):
                if histogram.count and change > 0:
                    event = Extreme(
                        (time_ms, time_ms + n_ms), (time_ms + n_ms, time_ms + 2 * n_ms)
                    )
                    result["ramps", n_ms / MS_PER_S, direction] = event
        for window_ms, (histogram, (first, last)) in self._range_results():
            if histogram.max > 0:
                event = Extreme((first, first + step_ms), (last, last + step_ms))
                result["rolling_range", window_ms / MS_PER_S, ""] = event
        return result

    def _range_results(
        self,
    ) -> Iterable[tuple[int, tuple[SignedHistogram, tuple[int, int]]]]:
        """Yield each window length with its histogram and its extreme's times [ms]."""
        return zip(self._windows_ms, self._ranges.result(), strict=True)

    def blocks(self, support: Support) -> dict[str, Any]:
        """Return the metrics blocks of changes, ramps and ranges.

        Each has an entry for every reported length and a reason for every other.
        """
        result = {n_ms: sizes.result() for n_ms, sizes in self._ramps.items()}
        ranges = {window_ms: seen for window_ms, (seen, _) in self._range_results()}
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
                    self._change_entry(n, seen, support)
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
                    self._ramp_entry(n, seen, support)
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
                    self._range_entry(n, seen, support)
                    for n, seen in ranges.items()
                    if seen.count
                ],
                "absent": absent("window_s", no_ranges, MS_PER_S),
            },
        }

    def _change_entry(
        self, length_ms: int, largest: BothWays, support: Support
    ) -> dict[str, Any]:
        """Return the metrics entry of the changes within a window."""
        entry: dict[str, Any] = {"window_s": length_ms / MS_PER_S}
        for direction, (size, *times) in zip(CHANGE, largest, strict=True):
            time, until = (self._clock.iso(at_ms) if size else None for at_ms in times)
            entry[direction] = {"max_mw": to_mw(size), "time": time, "until": until}
        return entry | {"lower_bound": support.is_lower_bound(length_ms / MS_PER_S)}

    def _ramp_entry(
        self, length_ms: int, histogram: SignedHistogram, support: Support
    ) -> dict[str, Any]:
        """Return the metrics entry of the ramps over an interval."""
        n, length_s = length_ms // self._clock.step_ms, length_ms / MS_PER_S
        up = (
            histogram.max,
            histogram.percentile(99),
            histogram.percentile(99.9),
            histogram.max_at,
        )
        down = (
            -histogram.min,
            -histogram.percentile(1),
            -histogram.percentile(0.1),
            histogram.min_at,
        )
        entry: dict[str, Any] = {"interval_s": length_s}
        for direction, (largest, p99, p999, at_ms) in (("up", up), ("down", down)):
            side = entry[direction] = {}
            for key, size in (("max", largest), ("p99", p99), ("p999", p999)):
                side[f"{key}_mw"] = delta_mw = max(to_mw(size, n), 0.0)
                side[f"{key}_mw_per_min"] = delta_mw / (length_ms / MS_PER_MIN)
            side["time"] = self._clock.iso(at_ms) if largest > 0 else None
        return entry | {"lower_bound": support.is_lower_bound(length_s)}

    def _range_entry(
        self, window_ms: int, histogram: SignedHistogram, support: Support
    ) -> dict[str, Any]:
        """Return the metrics entry of the rolling range of a window."""
        return {
            "window_s": window_ms / MS_PER_S,
            "max_mw": to_mw(histogram.max),
            "p99_mw": to_mw(histogram.percentile(99)),
            "p999_mw": to_mw(histogram.percentile(99.9)),
            "time": self._clock.iso(histogram.max_at),
            "lower_bound": support.is_lower_bound(window_ms / MS_PER_S),
        }


def rainflow_block(
    rainflow: Rainflow, clock: WallClock, length_ms: int
) -> dict[str, Any]:
    """Return the `rainflow` block for a run of a length [ms]."""
    histogram, threshold = rainflow.result(), rainflow.threshold
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
        "swings": histogram.count,
        "swings_per_day": histogram.count / (length_ms / MS_PER_DAY)
        if length_ms
        else None,
        "classes": [
            {"from_mw": low, "to_mw": high, "swings": n} for low, high, n in classes
        ],
    }
    if histogram.count:
        block |= {
            "max_mw": to_mw(histogram.max),
            "max_from": clock.iso(rainflow.largest_ms[0]),
            "max_to": clock.iso(rainflow.largest_ms[1]),
            "p50_mw": to_mw(histogram.percentile(50)),
            "p99_mw": to_mw(histogram.percentile(99)),
            "percentile_relative_error": RELATIVE_ERROR,
        }
    return block
