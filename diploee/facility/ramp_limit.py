"""A ramp limit without storage.

A ballast that burns what falls too fast, and curtailing. The supply asked for is that
of a battery that holds ramps, ``clip(load, supply - r dt, supply + r dt)``, with
nothing to store in. On a fall a ballast (resistors, dummy work) draws what lacks, and
all of it is heat. A rise can't be held back by a ballast: it passes and is counted,
unless the load itself can be curtailed, whose work is lost. What is left beyond the
ramp is counted as it passes, interval by interval: the next ramp begins where the
supply really is. ASSUMPTION [J]: ballast and curtailing act within the interval, and
reactive power passes unchanged.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import NonNegativeFloat, model_validator

from diploee.base.measures.distribution import CountAbove, Energy, RunningMaximum
from diploee.base.model import SCALES, default, optional
from diploee.base.units import MS_PER_S, S_PER_MIN, W_PER_MW
from diploee.facility.base import POWER, Block, Nameable, StageSpec, Values, tenth_ms
from diploee.facility.battery import ROUNDING_W, RampRates, State
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.meters import ColumnMeter
from diploee.facility.storage import BatteryLimits, StoreState, hold


class RampLimitSpec(StageSpec, Nameable, RampRates):
    """Ramps held at this place without storage.

    A ballast on falls, and curtailing on rises.
    """

    columns = COLUMNS["ramp_limit"]
    metrics = METRICS["ramp_limit"]
    boundary = "behind a ramp limit"

    kind: Literal["ramp_limit"] = default(
        "ramp_limit",
        (
            "Ramps held at this place without storage: a ballast burns what falls too "
            "fast; rises pass and are counted, unless the load is curtailed."
        ),
    )
    ballast_mw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Most that the ballast draws [MW]; as much as falls ask for if absent."
    )
    curtails: bool = default(
        False,
        (
            "Whether the load can be held back on a rise; the work lost is counted as "
            "energy and not made up."
        ),
    )

    @model_validator(mode="after")
    def _each_has_its_ramp(self) -> RampLimitSpec:
        if self.ballast_mw is not None and self.down_mw_per_min is None:
            raise ValueError(
                "ballast_mw holds falls alone: give down_mw_per_min, or leave it out"
            )
        if self.curtails and self.up_mw_per_min is None:
            raise ValueError(
                "curtails holds rises alone: give up_mw_per_min, or leave it out"
            )
        return self

    def needed_step_ms(self) -> int | None:
        """Return a tenth of the minute that ramps are kept over [ms]."""
        return tenth_ms(S_PER_MIN)

    def store(self) -> BatteryLimits:
        """Return a store that takes the ballast's power and gives the curtailed."""
        takes_w = np.inf if self.ballast_mw is None else self.ballast_mw * W_PER_MW
        gives_w = np.inf if self.curtails else 0.0
        return BatteryLimits(takes_w, -np.inf, np.inf, 0.0, gives_w=gives_w)

    def apply(self, block: Block, state: State) -> tuple[Values, State]:
        """Hold the ramps of the facility's power as far as can be."""
        load_w = block.columns[POWER]
        before = StoreState(float(load_w[0]), 0.0) if state is None else state
        held = hold(load_w, block.dt_ms / MS_PER_S, self.store(), self.hold(), before)
        columns = {
            "ballast_power_w": np.maximum(-held.battery_w, 0.0),
            "curtailed_power_w": np.maximum(held.battery_w, 0.0),
            "ramp_uncovered_w": held.uncovered_w,
            POWER: held.supply_w,
        }
        return columns, held.state

    def meter(self) -> ColumnMeter:
        """Return what measures what it burns, curtails and leaves."""
        burnt, curtailed, uncovered = (
            "ballast_power_w",
            "curtailed_power_w",
            "ramp_uncovered_w",
        )
        return ColumnMeter(
            {
                "ramp_limit.burnt_mwh": (Energy(), burnt),
                "ramp_limit.curtailed_mwh": (Energy(), curtailed),
                "ramp_limit.uncovered_mwh": (Energy(), uncovered),
                "ramp_limit.max_ballast_mw": (RunningMaximum(per=W_PER_MW), burnt),
                "ramp_limit.max_curtailed_mw": (
                    RunningMaximum(per=W_PER_MW),
                    curtailed,
                ),
                "ramp_limit.max_uncovered_mw": (
                    RunningMaximum(per=W_PER_MW),
                    uncovered,
                ),
                "ramp_limit.uncovered_steps": (CountAbove(ROUNDING_W), uncovered),
            }
        )
