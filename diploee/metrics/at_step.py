"""Extremes at the step of a run: peaks by averaging time, and ramps."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.base.clock import RunClock
from diploee.base.measures.distribution import FirstMaximum
from diploee.base.measures.ramps_and_swings import LargestChanges, ramps
from diploee.base.measures.streaming import (
    QUANTA_PER_W,
    Chunk,
    Measure,
    MeasureRunner,
    to_mw,
    to_quanta,
)
from diploee.base.units import MS_PER_MIN, MS_PER_S, PROFILE_STEP_MS, W_PER_MW
from diploee.facility.base import POWER, Block
from diploee.metrics.load_changes import CHANGE, WITHIN_MS
from diploee.schedule.schedule import Transient

# Averaging times of the reported peaks [ms]
PEAK_MS = (PROFILE_STEP_MS, MS_PER_S, MS_PER_MIN, 15 * MS_PER_MIN)
RAMP_MS = (MS_PER_S, *(n * MS_PER_MIN for n in (1, 10, 15)))
"""Lengths of the adjacent means of the reported ramps [ms]."""


class _Peak:
    """Largest mean of n consecutive values."""

    n_window = 1

    def __init__(self, n: int) -> None:
        self._n, self._incomplete, self.largest = (
            n,
            np.empty(0, dtype=np.int64),
            FirstMaximum(),
        )

    def add(self, chunk: Chunk) -> None:
        """Update the largest mean with the new values of a chunk."""
        values = (
            np.concatenate([self._incomplete, chunk.new])
            if self._incomplete.size
            else chunk.new
        )
        n_complete = values.size // self._n * self._n
        begin_ms = chunk.end_ms - values.size * chunk.step_ms
        sums = values[:n_complete].reshape(-1, self._n).sum(axis=1)
        self.largest.add(
            sums / (self._n * QUANTA_PER_W), begin_ms, self._n * chunk.step_ms
        )
        self._incomplete = values[n_complete:].copy()

    def result(self) -> FirstMaximum:
        """Return the largest mean [W]."""
        return self.largest


class _Ramp:
    """Largest rise and fall between adjacent means of n values."""

    def __init__(self, n: int) -> None:
        self._signal, self._n, self.n_window = ramps(n), n, 2 * n
        self.up, self.down = FirstMaximum(), FirstMaximum()

    def add(self, chunk: Chunk) -> None:
        """Update the largest ramps with ramps that end in the new values of a chunk."""
        if (result := self._signal(chunk.windows_of(self.n_window))) is not None:
            changes_w = result.values / (self._n * QUANTA_PER_W)
            self.up.add(changes_w, result.first_ms, chunk.step_ms)
            self.down.add(-changes_w, result.first_ms, chunk.step_ms)

    def result(self) -> tuple[FirstMaximum, FirstMaximum]:
        """Return the largest rise and the largest fall [W]."""
        return self.up, self.down


class StepExtremes:
    """Sink for power blocks at a run's step, which is finer than its resolution."""

    def __init__(self, clock: RunClock, transient: Transient) -> None:
        step_ms, self._clock, self._transient = clock.step_ms, clock.wall, transient
        self._peaks = {n: _Peak(n // step_ms) for n in PEAK_MS if n % step_ms == 0}
        self._ramps = {n: _Ramp(n // step_ms) for n in RAMP_MS if n % step_ms == 0}
        self._changes = {
            n: LargestChanges(n // step_ms) for n in WITHIN_MS if n >= step_ms
        }
        measures: list[Measure] = [*self._peaks.values(), *self._ramps.values()]
        self._series = MeasureRunner(step_ms, [*measures, *self._changes.values()])

    def add(self, block: Block) -> None:
        """Update the extremes with a block at the step."""
        self._series.add(
            block.t0_ms, to_quanta(block.columns[POWER]), self._transient.end_ms
        )

    def block(self) -> dict[str, Any]:
        """Return the `grid.at_step` block of the metrics.

        Averaging times longer than the run are omitted.
        """

        def moment(largest: FirstMaximum) -> dict[str, Any]:
            """Return the time of a maximum."""
            return {"time": self._clock.iso(largest.at_ms)}

        peaks = {
            f"{n / MS_PER_S:g}s": {"max_mw": peak.largest.value / W_PER_MW}
            | moment(peak.largest)
            for n, peak in self._peaks.items()
            if np.isfinite(peak.largest.value)
        }
        ramp_entries = {}
        for n, extremes in self._ramps.items():
            if np.isfinite(extremes.up.value):
                per_min = MS_PER_MIN / n / W_PER_MW
                ramp_entries[f"{n / MS_PER_S:g}s"] = {
                    "up_mw_per_min": max(extremes.up.value * per_min, 0.0),
                    "down_mw_per_min": max(extremes.down.value * per_min, 0.0),
                }
        changes = {
            f"{n / MS_PER_S:g}s": {
                direction: {
                    "max_mw": to_mw(size),
                    "time": self._clock.iso(at_ms) if size else None,
                }
                for direction, (size, at_ms, _) in zip(
                    CHANGE, extremes.result(), strict=True
                )
            }
            for n, extremes in self._changes.items()
            if extremes.result()[0][0] >= 0
        }
        step_s = self._clock.step_s
        return {
            "step_s": step_s,
            "peaks": peaks,
            "ramps": ramp_entries,
            "changes": changes,
        }
