"""External signals over a run, such as a price, and their part that is known at a time.

Signals are step functions of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.base.clock import RunClock
from diploee.base.errors import LogFormatError, one_line
from diploee.base.tables import Float64Array, Int64Array

NO_END_MS = int(np.iinfo(np.int64).max)
"""End of a signal without an end [ms]."""


@dataclass(frozen=True, eq=False)
class Signal:
    """Step function of time: each value applies from its time until the next."""

    # Start of each value, increasing [ms since 1970 UTC, or since the start of a run]
    times_ms: Int64Array
    values: Float64Array  # the values, in the signal's own unit
    end_ms: int  # end of the last value [ms]
    known_ahead_ms: int = 0  # time that values are known in advance [ms]

    def at(self, time_ms: int) -> float:
        """Return the value at a time [ms]; NaN before the first and after the last."""
        row = int(np.searchsorted(self.times_ms, time_ms, side="right")) - 1
        return (
            float(self.values[row])
            if row >= 0 and time_ms < self.end_ms
            else float("nan")
        )

    def window(self, from_ms: int, until_ms: int) -> tuple[Int64Array, Float64Array]:
        """Return the durations [ms] and the values of a signal within a period."""
        ends_ms = np.append(self.times_ms[1:], self.end_ms)
        first = int(np.searchsorted(ends_ms, from_ms, side="right"))
        last = int(np.searchsorted(self.times_ms, until_ms))
        rows = slice(first, max(first, last))
        begins_ms = np.maximum(self.times_ms[rows], from_ms)
        return np.minimum(ends_ms[rows], until_ms) - begins_ms, self.values[rows]

    def means(self, edges_ms: Int64Array) -> Float64Array:
        """Return the mean over each interval between edges [ms].

        The result is NaN if the signal does not cover an interval.
        """
        first_ms, last_ms = int(self.times_ms[0]), self.end_ms
        begins_ms = self.times_ms.astype(np.float64)
        cumulative = np.concatenate(
            [[0.0], np.cumsum(self.values[:-1] * np.diff(begins_ms))]
        )
        row = np.clip(
            np.searchsorted(self.times_ms, edges_ms, side="right") - 1, 0, None
        )
        at_edge = cumulative[row] + self.values[row] * (edges_ms - self.times_ms[row])
        means = np.diff(at_edge) / np.diff(edges_ms)
        covered = (edges_ms[:-1] >= first_ms) & (edges_ms[1:] <= last_ms)
        return np.where(covered, means, np.nan)

    def known_at(self, now: Callable[[], int]) -> _KnownSignal:
        """Return a view of the signal with only the values known now."""
        return _KnownSignal(self, now)


@dataclass(frozen=True)
class _KnownSignal:
    """View of a signal with only the values known now."""

    signal: Signal  # complete signal
    now: Callable[[], int]  # function that returns the present time [ms]

    @property
    def known_ms(self) -> int:
        """Time up to which the signal is known, the present value included [ms]."""
        return self.now() + self.signal.known_ahead_ms

    def at(self, time_ms: int) -> float:
        """Return the value at a time [ms]; NaN if not known."""
        return self.signal.at(time_ms) if time_ms <= self.known_ms else float("nan")

    def window(self, from_ms: int, until_ms: int) -> tuple[Int64Array, Float64Array]:
        """Return `Signal.window` for the known part of a period."""
        return self.signal.window(from_ms, min(until_ms, self.known_ms + 1))


def quantile(length_ms: Int64Array, values: Float64Array, probability: float) -> float:
    """Return a quantile of values, weighted by their durations; NaN without values."""
    if not values.size:
        return float("nan")
    order = np.argsort(values, kind="stable")
    fraction = np.cumsum(length_ms[order]) / length_ms.sum()
    return float(
        values[order][min(int(np.searchsorted(fraction, probability)), values.size - 1)]
    )


def fit_to_run(signal: Signal, path: Path | str, clock: RunClock) -> Signal:
    """Return a signal on the time axis of a run; the signal must cover the run.

    Errors name the signal's file.
    """
    origin_ms = clock.wall.origin_ms
    end_ms = NO_END_MS if signal.end_ms == NO_END_MS else signal.end_ms - origin_ms
    shifted = Signal(
        signal.times_ms - origin_ms, signal.values, end_ms, signal.known_ahead_ms
    )
    if shifted.times_ms[0] > 0 or shifted.end_ms < clock.horizon_ms:
        iso = clock.wall.iso
        end_text = "on" if end_ms == NO_END_MS else f"to {iso(end_ms)}"
        raise LogFormatError(
            f"{one_line(str(path))}: holds values from "
            f"{iso(int(shifted.times_ms[0]))} {end_text}, expected all of the run, "
            f"{iso(0)} to {iso(clock.horizon_ms)}; complete the file, or move the run"
        )
    return shifted
