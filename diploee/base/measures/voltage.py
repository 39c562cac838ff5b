"""Rapid voltage changes caused by load steps across a short-circuit impedance.

The two-bus system is solved exactly, because the usual approximation (R dP + X dQ) / V
is too low for steps of active power at a high X/R. Flicker is calculated by the formula
of IEC 61000-3-3 for separate voltage steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from diploee.base.errors import Brief
from diploee.base.measures.distribution import FirstMaximum
from diploee.base.measures.streaming import QUANTA_PER_MW, Chunk
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

CLASSES_PERCENT = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
"""Voltage changes above which steps are counted [%] (ASSUMPTION: none below 0.1 %)."""

FLICKER_MS = 10 * MS_PER_MIN
POWER, PER_STEP = 3.2, 2.3 / 600
"""Flicker of a step: d % for 2.3 d^3.2 s of 600 s at F = 1 (IEC 61000-3-3)."""


@dataclass(frozen=True)
class ShortCircuit(Brief):
    """The grid as an ideal voltage source with a short-circuit impedance."""

    mva: float  # three-phase short-circuit power [MVA]
    x_over_r: float

    @property
    def impedance(self) -> complex:
        """Complex impedance, in pu of 1 MVA and the nominal voltage."""
        return complex(1, self.x_over_r) / self.mva / float(np.hypot(1, self.x_over_r))

    def drop_percent(self, before: Any, after: Any) -> Float64Array:
        """Return the voltage drop from 1 pu when the load changes [%].

        A rise is negative, a collapse is NaN. `before` and `after` are pairs of active
        power [MW] and reactive power [Mvar], consumption positive. The source voltage
        is such that the load's voltage is 1 pu before the change.

        Symbols: ``V2`` load voltage [pu], ``Z = R + jX`` impedance [pu], ``P + jQ``
        load. The source satisfies ``E² = (1 + R P1 + X Q1)² + (X P1 - R Q1)²``; after
        the change ``V2⁴ - (E² - 2 (R P2 + X Q2)) V2² + |Z|² (P2² + Q2²) = 0``, larger
        root.
        """
        (p1, q1), (p2, q2) = before, after
        r, x = self.impedance.real, self.impedance.imag
        source = (1 + (r * p1 + x * q1)) ** 2 + (x * p1 - r * q1) ** 2
        b = source - 2 * (r * p2 + x * q2)
        root = b * b - 4 * (p2 * p2 + q2 * q2) / self.mva**2
        v2 = np.sqrt((b + np.sqrt(np.where(root < 0, np.nan, root))) / 2)
        return np.asarray(100 * (1 - v2))


class VoltageChanges:
    """Steady-state voltage changes between the 1 s means before and after a time.

    ASSUMPTION: means over 1 s represent the steady state. While the changes stay beyond
    the limit of a class with the same sign, they are one step and are counted once in
    that class. Without reactive power the results are lower bounds.
    """

    n_window = 1

    def __init__(self, grid: ShortCircuit, step_ms: int) -> None:
        self._grid, self._n = grid, MS_PER_S // step_ms
        self._history: Any = np.empty((2, 0), dtype=np.int64)
        self._end_ms: int | None = None
        self.largest, self.collapses = FirstMaximum(), 0
        self._sides = dict.fromkeys(CLASSES_PERCENT, 0)
        self.hours, self.days = (
            {c: Counter[int]() for c in CLASSES_PERCENT} for _ in "hd"
        )
        self._flicker, self._open = defaultdict[int, float](float), (0.0, 0)

    def add(self, chunk: Chunk) -> None:
        """Add the new values of a chunk."""
        n, reactive = self._n, chunk.reactive
        new = np.stack(
            [chunk.new, np.zeros_like(chunk.new) if reactive is None else reactive]
        )
        if self._end_ms != chunk.new_ms:
            self._history = new[:, :0]
        values = np.concatenate([self._history, new], axis=1)
        self._end_ms = chunk.end_ms
        self._history = values[:, max(values.shape[1] - (2 * n - 1), 0) :]
        if values.shape[1] < 2 * n:
            return
        sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
        means = (sums[:, n:] - sums[:, :-n]) / (n * QUANTA_PER_MW)
        before, after = means[:, :-n], means[:, n:]
        drops = self._grid.drop_percent(before, after)
        collapsed = np.isnan(drops)
        self.collapses += int(collapsed.sum())
        drops[collapsed] = 100.0
        first_ms = chunk.end_ms - (values.shape[1] - n) * chunk.step_ms
        self._count(drops, first_ms, chunk.step_ms)
        k = int(np.abs(drops).argmax())
        if (largest := abs(float(drops[k]))) > self.largest.value:
            second = values[:, k + n : k + 2 * n] / QUANTA_PER_MW
            window_drops = self._grid.drop_percent(before[:, k], second)
            peak = (
                100.0
                if np.isnan(window_drops).any()
                else float(np.abs(window_drops).max())
            )
            at_ms = first_ms + k * chunk.step_ms
            self.largest.add(
                np.array([largest]),
                at_ms,
                chunk.step_ms,
                np.array([max(peak, largest)]),
            )

    def _count(self, drops: Float64Array, first_ms: int, step_ms: int) -> None:
        """Count the steps of each class by hour and day."""
        for limit in CLASSES_PERCENT:
            side = np.where(np.abs(drops) >= limit, np.sign(drops), 0).astype(int)
            previous = np.concatenate([[self._sides[limit]], side[:-1]])
            starts = np.flatnonzero((side != previous) & (side != 0))
            times_ms = first_ms + starts * step_ms
            self.hours[limit].update((times_ms // MS_PER_H).tolist())
            self.days[limit].update((times_ms // MS_PER_DAY).tolist())
            if limit == CLASSES_PERCENT[0]:
                self._add_flicker(
                    np.abs(drops) * (side != 0),
                    np.flatnonzero(side != previous),
                    first_ms,
                    step_ms,
                )
            self._sides[limit] = int(side[-1])

    def _add_flicker(
        self, sizes: Float64Array, edges: Any, first_ms: int, step_ms: int
    ) -> None:
        """Add the largest change of each step to its 10-minute interval.

        The last step may continue in the next chunk and stays open.
        """
        rows = np.concatenate([[0], edges[edges > 0]])
        largest = np.maximum.reduceat(sizes, rows)
        bins = ((first_ms + rows * step_ms) // FLICKER_MS).tolist()
        if edges.size == 0 or edges[0] > 0:
            largest[0], bins[0] = max(largest[0], self._open[0]), self._open[1]
        else:
            self._close_step(*self._open)
        for size, interval in zip(largest[:-1].tolist(), bins[:-1], strict=True):
            self._close_step(size, interval)
        self._open = (float(largest[-1]), int(bins[-1]))

    def _close_step(self, size: float, interval: int) -> None:
        """Add the flicker of a completed step to its 10-minute interval."""
        self._flicker[interval] += PER_STEP * size**POWER

    def result(self) -> dict[str, Any]:
        """Return the largest change, step counts by class, and maximum flicker."""
        self._close_step(*self._open)
        self._open = (0.0, 0)
        counts = {
            f"{limit:g}%": {
                "total": hours.total(),
                "most_per_hour": max(hours.values(), default=0),
                "most_per_day": max(self.days[limit].values(), default=0),
            }
            for limit, hours in self.hours.items()
        }
        companions = self.largest.companions
        return {
            "largest_percent": self.largest.value if companions else None,
            "within_percent": companions[0] if companions else None,
            "collapses": self.collapses,
            "steps": counts,
            "flicker_pst": max(self._flicker.values()) ** (1 / POWER),
        }
