"""Rapid load changes as rolling range: the largest less the smallest value within a window.

The windows slide by the run's resolution. Minima and maxima over w values come from those over
powers of two (two overlapping ones cover any window), a handful of vector passes for all windows
together; `scipy.ndimage.maximum_filter1d` takes several times as long at 0.1 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diploee.metric import Metric
from diploee.metrics.event import Event, Key
from diploee.metrics.grid.bandwidth import Support
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.histogram import RELATIVE_ERROR, SIZES, SignedHistogram
from diploee.metrics.grid.quanta import Stretch, to_mw
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S

SWING_MS = (2 * MS_PER_S, 10 * MS_PER_S, MS_PER_MIN)
"""Windows of the rolling range [ms]."""

DEFINITION = (
    "largest less smallest interval mean within a window, sliding by the run's resolution; time "
    "is the window's start"
)

SWING = "swing within {}"
SWING_METRICS = tuple(
    Metric(
        f"grid.rolling_range.windows.<window>.{key}_mw", "MW", f"{size} {SWING.format('<window>')}"
    )
    for key, size in SIZES.items()
)

_CHUNK = 1 << 15  # values per pass, so that the passes stay in cache

_Pick = Callable[[Int64Array, Int64Array], Int64Array]


def _rolling(values: Int64Array, sizes: list[int], pick: _Pick) -> list[Int64Array]:
    """Return the rolling minima or maxima over ascending window sizes, each of n - size + 1."""
    found, level, width = [], values, 1
    for size in sizes:
        # level[i] is the extreme of values[i : i + width]; any size up to 2 width is covered by two
        # of them, which may overlap.
        while 2 * width <= size:
            level = pick(level[:-width], level[width:])
            width *= 2
        gap = size - width
        found.append(pick(level[: level.size - gap], level[gap:]) if gap else level)
    return found


def rolling_ranges(stretch: Stretch, sizes: list[int]) -> list[Int64Array]:
    """Return the ranges [quanta] of all windows that end in the new part.

    Parameters
    ----------
    stretch : Stretch
        Values in quanta, with up to ``max(sizes) - 1`` earlier ones.
    sizes : list of int
        Values per window, ascending.

    Returns
    -------
    list of numpy.ndarray, int64
        For each size the ranges; their last window ends with the last value.
    """
    values, n_new = stretch.values, stretch.n_new
    parts: list[list[Int64Array]] = [[] for _ in sizes]
    n_old = values.size - n_new
    for begin in range(n_old, values.size, _CHUNK):
        end = min(begin + _CHUNK, values.size)
        piece = values[max(begin - sizes[-1] + 1, 0) : end]
        fitting = [size for size in sizes if size <= piece.size]
        lowest = _rolling(piece, fitting, np.minimum)
        highest = _rolling(piece, fitting, np.maximum)
        for k in range(len(fitting)):
            parts[k].append((highest[k] - lowest[k])[-(end - begin) :])
    empty = np.empty(0, dtype=np.int64)
    return [np.concatenate(of_size) if of_size else empty for of_size in parts]


class RollingSwings:
    """Accumulates the rolling ranges of several windows.

    Parameters
    ----------
    windows_ms : list of int
        Windows [ms], ascending multiples of the step, each of two values or more.
    step_ms : int
        Interval of the series [ms].
    """

    def __init__(self, windows_ms: list[int], step_ms: int) -> None:
        self._windows_ms = windows_ms
        self._sizes = [window_ms // step_ms for window_ms in windows_ms]
        self.n_window = max(self._sizes, default=1)
        self._ranges = [SignedHistogram() for _ in windows_ms]
        self._events: dict[Key, Event] = {}

    def see(self, stretch: Stretch) -> None:
        """Add the windows that end in the new part of a stretch."""
        if not self._sizes:
            return
        ranges = rolling_ranges(stretch.windows_of(self.n_window), self._sizes)
        for k, of_size in enumerate(ranges):
            n_values = of_size.size + self._sizes[k] - 1  # the last range ends with the stretch
            first_ms = stretch.end_ms - n_values * stretch.step_ms
            largest = self._ranges[k].max
            self._ranges[k].add(of_size, first_ms, stretch.step_ms)
            if self._ranges[k].max > max(largest, 0):
                self._events["rolling_range", self._windows_ms[k] / MS_PER_S, ""] = _extremes(
                    stretch, self._ranges[k].max_at, self._sizes[k]
                )

    def events(self) -> dict[Key, Event]:
        """Return the largest ranges so far: from its first extreme value to the other."""
        return self._events

    def block(self, clock: Clock, support: Support) -> dict[str, Any]:
        """Return the `rolling_range` block: an entry for every window, or why there is none."""
        entries = []
        reasons = {window_ms: clock.why_not_held(window_ms, 2) for window_ms in SWING_MS}
        for window_ms, seen in zip(self._windows_ms, self._ranges, strict=True):
            if not seen.count:
                reasons[window_ms] = "the run is shorter"
                continue
            entries.append(
                {
                    "window_s": window_ms / MS_PER_S,
                    "max_mw": to_mw(seen.max),
                    "p99_mw": to_mw(seen.percentile(99)),
                    "p999_mw": to_mw(seen.percentile(99.9)),
                    "time": clock.iso(seen.max_at),
                    "lower_bound": support.is_lower_bound(window_ms / MS_PER_S),
                }
            )
        return {
            "definition": DEFINITION,
            "resolution_s": clock.step_s,
            "percentile_relative_error": RELATIVE_ERROR,
            "windows": entries,
            "absent": [
                {"window_s": window_ms / MS_PER_S, "reason": reason}
                for window_ms, reason in reasons.items()
                if reason
            ],
        }


def _extremes(stretch: Stretch, begin_ms: int, size: int) -> Event:
    """Return the smallest and the largest value of a window, in the order of time."""
    first = (begin_ms - stretch.begin_ms) // stretch.step_ms
    window = stretch.values[first : first + size]
    earlier_ms, later_ms = (
        begin_ms + place * stretch.step_ms
        for place in sorted((int(window.argmin()), int(window.argmax())))
    )
    return Event((earlier_ms, earlier_ms + stretch.step_ms), (later_ms, later_ms + stretch.step_ms))
