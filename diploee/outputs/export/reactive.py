"""Reactive power of an export: the run's own, or from a table Q(P) that the user gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.errors import InputError
from diploee.facility.base import POWER, REACTIVE
from diploee.tables import Float64Array
from diploee.units import W_PER_MW

REACTIVE_OF = {POWER: REACTIVE, "poi_power_w": "poi_reactive_var"}
"""Column of the reactive power at the same place as that of a power; other powers have none."""

HEADER = ("p_mw", "q_mvar")
CONVENTION = (
    "load convention: q_mvar above 0 is reactive power that the facility draws (inductive), "
    "below 0 that it supplies (capacitive)"
)


@dataclass(frozen=True, eq=False)
class ReactiveTable:
    """Reactive against active power, linear between the rows, undefined beyond them.

    The sign follows the load convention: above 0 the facility draws reactive power.
    """

    path: Path  # where it was read from
    # Its rows; `p_mw` rises
    p_mw: Float64Array
    q_mvar: Float64Array

    def at(self, power_w: Float64Array) -> Float64Array:
        """Return the reactive power [Mvar] at active powers [W]."""
        p_mw = power_w / W_PER_MW
        low, high = float(p_mw.min()), float(p_mw.max())
        # A mean of stored float32 values may pass the table's end by their last digit.
        slack = 1e-6 * max(abs(self.p_mw[0]), abs(self.p_mw[-1]))
        if low < self.p_mw[0] - slack or high > self.p_mw[-1] + slack:
            worst = low if low < self.p_mw[0] - slack else high
            raise InputError(
                f"{self.path}: the run reaches {worst:.6g} MW, the table goes from "
                f"{self.p_mw[0]:g} to {self.p_mw[-1]:g} MW; add rows, nothing is extrapolated"
            )
        return np.interp(p_mw, self.p_mw, self.q_mvar)
