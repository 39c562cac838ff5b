"""Energy-exact resampling: readings at uneven times to mean power over even steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Float32Array, Float64Array, Int64Array

US_PER_MS = 1_000
US_PER_S = 1_000_000

FLOAT32_DIGITS = 24


@dataclass(frozen=True, eq=False)
class EnergyCurve:
    """Cumulative energy of one or several devices since their first reading."""

    t_us: Int64Array  # times of the readings [us], increasing
    energy_j: Float64Array  # energy since the first reading [J]
    # Power at each reading [W] for power that is linear between readings; None for
    # power that is constant between readings, as from an energy counter
    power_w: Float64Array | None = None

    @classmethod
    def from_readings(cls, t_us: Int64Array, power_w: Float64Array) -> EnergyCurve:
        """Return the curve of power readings [W], linear between their times."""
        dt_s = np.diff(t_us) / US_PER_S
        steps_j = dt_s * (power_w[:-1] + power_w[1:]) / 2
        return cls(t_us, np.concatenate(([0.0], np.cumsum(steps_j))), power_w)

    def at(self, edges_us: Int64Array) -> Float64Array:
        """Return the energy [J] at times [us] within the curve."""
        reading = np.searchsorted(self.t_us, edges_us, side="right") - 1
        reading = np.clip(reading, 0, self.t_us.size - 2)
        elapsed_s = (edges_us - self.t_us[reading]) / US_PER_S
        dt_s = (self.t_us[reading + 1] - self.t_us[reading]) / US_PER_S
        if self.power_w is None:
            slope_w = (self.energy_j[reading + 1] - self.energy_j[reading]) / dt_s
        else:
            # Mean of a straight line from its start to t: p0 + (p1 - p0) t / dt / 2
            rise_w = self.power_w[reading + 1] - self.power_w[reading]
            slope_w = self.power_w[reading] + rise_w * elapsed_s / dt_s / 2
        return np.asarray(
            self.energy_j[reading] + slope_w * elapsed_s, dtype=np.float64
        )


def common_power_w(curves: Sequence[EnergyCurve], step_us: int) -> Float64Array:
    """Return the sum of curves over their common time, as mean power per step [W]."""
    start_us = max(int(curve.t_us[0]) for curve in curves)
    end_us = min(int(curve.t_us[-1]) for curve in curves)
    n_steps = (end_us - start_us) // step_us
    if n_steps < 1:
        return np.zeros(0)
    edges_us = start_us + np.arange(n_steps + 1, dtype=np.int64) * step_us
    energy_j = np.zeros(n_steps + 1)
    for curve in curves:
        energy_j += curve.at(edges_us)
    # A difference of two large sums may be negative by rounding
    power_w = np.maximum(np.diff(energy_j), 0.0) * (US_PER_S / step_us)
    return np.asarray(power_w, dtype=np.float64)


def uncovered_s(curves: Sequence[EnergyCurve]) -> int:
    """Return the whole seconds that not all curves cover, at both ends together."""
    starts_us = [int(curve.t_us[0]) for curve in curves]
    ends_us = [int(curve.t_us[-1]) for curve in curves]
    left_out_us = max(starts_us) - min(starts_us) + max(ends_us) - min(ends_us)
    return int(left_out_us // US_PER_S)


def round_keeping_energy(power_w: Float64Array) -> Float32Array:
    """Round power to float32 so that cumulative sums are off by at most one rounding.

    Plain rounding of n values shifts their sum by about sqrt(n) roundings. Here the
    cumulative sum is rounded to a quantum (at most 2^-23 of the maximum) and
    differenced, so that errors never add up: any cumulative sum is exact to half a
    quantum.
    """
    largest = float(power_w.max(initial=0.0))
    if largest < np.finfo(np.float32).tiny:
        return np.zeros(power_w.size, dtype=np.float32)
    quantum_w = 2.0 ** (np.floor(np.log2(largest)) + 1 - FLOAT32_DIGITS)
    running = np.rint(np.cumsum(power_w) / quantum_w)
    return np.asarray(np.diff(running, prepend=0.0) * quantum_w, dtype=np.float32)
