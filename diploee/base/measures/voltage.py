"""Rapid voltage changes behind a short-circuit impedance, from steps of power.

Two buses are solved exactly, as the first order, (R dP + X dQ) / V, is too low for
steps of active power at a high X/R. Flicker is that of separate steps in IEC 61000-3-3
[M].
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from diploee.base.errors import Brief
from diploee.base.measures.distribution import FirstMaximum
from diploee.base.measures.series import QUANTA_PER_MW, Chunk
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

CLASSES_PERCENT = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
"""ASSUMPTION: changes from which on steps are counted; what is below 0.1 % is none."""

FLICKER_MS = 10 * MS_PER_MIN
POWER, PER_STEP = 3.2, 2.3 / 600
"""IEC 61000-3-3 [M]: a step of d % has 2.3 d^3.2 s of 600 s, at F = 1."""


@dataclass(frozen=True)
class ShortCircuit(Brief):
    """The grid as a source behind an impedance."""

    mva: float  # three-phase short-circuit power
    x_over_r: float

    @property
    def impedance(self) -> complex:
        """Its impedance, in pu of 1 MVA and of the voltage."""
        return complex(1, self.x_over_r) / self.mva / float(np.hypot(1, self.x_over_r))

    def drop_percent(self, before: Any, after: Any) -> Float64Array:
        """Return the drop of the voltage from 1 pu in percent.

        Below 0 a rise, nan a collapse. `before` and `after` are pairs of active power
        [MW] and reactive power [Mvar], drawn positive; 1 pu at the load before the step
        gives the source's voltage.
        """
        (p1, q1), (p2, q2) = before, after
        r, x = self.impedance.real, self.impedance.imag
        source = (1 + (r * p1 + x * q1)) ** 2 + (x * p1 - r * q1) ** 2
        b = source - 2 * (r * p2 + x * q2)
        root = b * b - 4 * (p2 * p2 + q2 * q2) / self.mva**2
        v2 = np.sqrt((b + np.sqrt(np.where(root < 0, np.nan, root))) / 2)
        return np.asarray(100 * (1 - v2))


class VoltageChanges:
    """Settled changes: means over 1 s before and behind every instant [ASSUMPTION].

    A step is the time over which they stay beyond a class on one side, and counts once
    in it. Without reactive power they are lower bounds.
    """

    n_window = 1

    def __init__(self, grid: ShortCircuit, step_ms: int) -> None:
        self._grid, self._n = grid, MS_PER_S // step_ms
        self._kept: Any = np.empty((2, 0), dtype=np.int64)
        self._end_ms: int | None = None
        self.largest, self.collapses = FirstMaximum(), 0
        self._sides = dict.fromkeys(CLASSES_PERCENT, 0)
        self.hours, self.days = (
            {c: Counter[int]() for c in CLASSES_PERCENT} for _ in "hd"
        )
        self._doses, self._open = defaultdict[int, float](float), (0.0, 0)

    def add(self, stretch: Chunk) -> None:
        """Take in the new values of a stretch."""
        n, reactive = self._n, stretch.reactive
        new = np.stack(
            [stretch.new, np.zeros_like(stretch.new) if reactive is None else reactive]
        )
        if self._end_ms != stretch.new_ms:
            self._kept = new[:, :0]
        values = np.concatenate([self._kept, new], axis=1)
        self._end_ms = stretch.end_ms
        self._kept = values[:, max(values.shape[1] - (2 * n - 1), 0) :]
        if values.shape[1] < 2 * n:
            return
        sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
        means = (sums[:, n:] - sums[:, :-n]) / (n * QUANTA_PER_MW)
        before, after = means[:, :-n], means[:, n:]
        drops = self._grid.drop_percent(before, after)
        collapsed = np.isnan(drops)
        self.collapses += int(collapsed.sum())
        drops[collapsed] = 100.0
        first_ms = stretch.end_ms - (values.shape[1] - n) * stretch.step_ms
        self._count(drops, first_ms, stretch.step_ms)
        k = int(np.abs(drops).argmax())
        if (most := abs(float(drops[k]))) > self.largest.value:
            second = values[:, k + n : k + 2 * n] / QUANTA_PER_MW
            within = self._grid.drop_percent(before[:, k], second)
            peak = 100.0 if np.isnan(within).any() else float(np.abs(within).max())
            at_ms = first_ms + k * stretch.step_ms
            self.largest.add(
                np.array([most]), at_ms, stretch.step_ms, np.array([max(peak, most)])
            )

    def _count(self, drops: Float64Array, first_ms: int, step_ms: int) -> None:
        for limit in CLASSES_PERCENT:
            side = np.where(np.abs(drops) >= limit, np.sign(drops), 0).astype(int)
            before = np.concatenate([[self._sides[limit]], side[:-1]])
            starts = np.flatnonzero((side != before) & (side != 0))
            times_ms = first_ms + starts * step_ms
            self.hours[limit].update((times_ms // MS_PER_H).tolist())
            self.days[limit].update((times_ms // MS_PER_DAY).tolist())
            if limit == CLASSES_PERCENT[0]:
                self._dose(
                    np.abs(drops) * (side != 0),
                    np.flatnonzero(side != before),
                    first_ms,
                    step_ms,
                )
            self._sides[limit] = int(side[-1])

    def _dose(
        self, sizes: Float64Array, edges: Any, first_ms: int, step_ms: int
    ) -> None:
        """Add the largest change of each step to its 10 minutes.

        The last one may go on.
        """
        rows = np.concatenate([[0], edges[edges > 0]])
        most = np.maximum.reduceat(sizes, rows)
        bins = ((first_ms + rows * step_ms) // FLICKER_MS).tolist()
        if edges.size == 0 or edges[0] > 0:
            most[0], bins[0] = max(most[0], self._open[0]), self._open[1]
        else:
            self._close(*self._open)
        for size, at in zip(most[:-1].tolist(), bins[:-1], strict=True):
            self._close(size, at)
        self._open = (float(most[-1]), int(bins[-1]))

    def _close(self, size: float, at: int) -> None:
        self._doses[at] += PER_STEP * size**POWER

    def result(self) -> dict[str, Any]:
        """Return the largest change, counts by class and largest 10-minute flicker."""
        self._close(*self._open)
        self._open = (0.0, 0)
        counts = {
            f"{limit:g}%": {
                "total": hours.total(),
                "most_per_hour": max(hours.values(), default=0),
                "most_per_day": max(self.days[limit].values(), default=0),
            }
            for limit, hours in self.hours.items()
        }
        beside = self.largest.beside
        return {
            "largest_percent": self.largest.value if beside else None,
            "within_percent": beside[0] if beside else None,
            "collapses": self.collapses,
            "steps": counts,
            "flicker_pst": max(self._doses.values()) ** (1 / POWER),
        }
