"""Ramp-rate limit without storage: a dummy load on falls, curtailment on rises.

The target supply is that of a ramp-limiting battery,
``clip(P, P_s - r dt, P_s + r dt)``, with load P [W], previous supply P_s [W], ramp rate
r [W/s] and interval dt [s]. When the load falls too fast, a dummy load (resistors,
dummy work) draws the difference, which is dissipated. A dummy load can't limit rises:
they pass and are counted, unless the load can be curtailed, at the cost of lost work.
The power beyond the limit is counted in each interval, and the limit of the next
interval starts from the actual supply.
ASSUMPTION: dummy load and curtailment act within the interval, and reactive power is
unchanged.

See Also
--------
BatterySpec : ramp limits with storage.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import NonNegativeFloat, model_validator

from diploee.base.measures.distribution import CountAbove, Energy, RunningMaximum
from diploee.base.model import SCALES, default, optional
from diploee.base.units import MS_PER_S, S_PER_MIN, W_PER_MW
from diploee.facility.base import (
    POWER,
    Block,
    Nameable,
    StageSpec,
    Values,
    tenth_of_shortest_ms,
)
from diploee.facility.battery import ROUNDING_W, RampRates, State
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.stage_meters import ColumnMeter
from diploee.facility.storage import BatteryLimits, StoreState, smooth_supply


class RampLimitSpec(StageSpec, Nameable, RampRates):
    """A ramp limit without storage: a dummy load on falls, curtailment on rises."""

    columns = COLUMNS["ramp_limit"]
    metrics = METRICS["ramp_limit"]
    boundary = "behind a ramp limit"

    kind: Literal["ramp_limit"] = default(
        "ramp_limit",
        (
            "A ramp limit without storage: a dummy load (ballast) fills falls that are "
            "too fast; rises pass and are counted, unless the load is curtailed."
        ),
    )
    ballast_mw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Maximum power of the dummy load [MW]; unlimited if absent."
    )
    curtails: bool = default(
        False,
        (
            "Whether the load can be curtailed on a rise; lost work is counted as "
            "energy and not made up."
        ),
    )

    @model_validator(mode="after")
    def _check_ramps(self) -> RampLimitSpec:
        """Refuse a dummy load or curtailment without a limit in its direction."""
        if self.ballast_mw is not None and self.down_mw_per_min is None:
            raise ValueError(
                "ballast_mw limits falls only: give down_mw_per_min, or leave it out"
            )
        if self.curtails and self.up_mw_per_min is None:
            raise ValueError(
                "curtails limits rises only: give up_mw_per_min, or leave it out"
            )
        return self

    def needed_step_ms(self) -> int | None:
        """Return a tenth of the minute over which ramps are limited [ms]."""
        return tenth_of_shortest_ms(S_PER_MIN)

    def store(self) -> BatteryLimits:
        """Return battery limits that represent the dummy load and curtailment."""
        takes_w = np.inf if self.ballast_mw is None else self.ballast_mw * W_PER_MW
        gives_w = np.inf if self.curtails else 0.0
        return BatteryLimits(takes_w, -np.inf, np.inf, 0.0, gives_w=gives_w)

    def apply(self, block: Block, state: State) -> tuple[Values, State]:
        """Limit the ramps of the facility's power as far as possible."""
        load_w = block.columns[POWER]
        initial = StoreState(float(load_w[0]), 0.0) if state is None else state
        supply = smooth_supply(
            load_w, block.dt_ms / MS_PER_S, self.store(), self.supply_limits(), initial
        )
        columns = {
            "ballast_power_w": np.maximum(-supply.battery_w, 0.0),
            "curtailed_power_w": np.maximum(supply.battery_w, 0.0),
            "ramp_uncovered_w": supply.uncovered_w,
            POWER: supply.supply_w,
        }
        return columns, supply.state

    def meter(self) -> ColumnMeter:
        """Return the meter of dissipated, curtailed and uncovered power."""
        dissipated, curtailed, uncovered = (
            "ballast_power_w",
            "curtailed_power_w",
            "ramp_uncovered_w",
        )
        return ColumnMeter(
            {
                "ramp_limit.burnt_mwh": (Energy(), dissipated),
                "ramp_limit.curtailed_mwh": (Energy(), curtailed),
                "ramp_limit.uncovered_mwh": (Energy(), uncovered),
                "ramp_limit.max_ballast_mw": (
                    RunningMaximum(divisor=W_PER_MW),
                    dissipated,
                ),
                "ramp_limit.max_curtailed_mw": (
                    RunningMaximum(divisor=W_PER_MW),
                    curtailed,
                ),
                "ramp_limit.max_uncovered_mw": (
                    RunningMaximum(divisor=W_PER_MW),
                    uncovered,
                ),
                "ramp_limit.uncovered_steps": (CountAbove(ROUNDING_W), uncovered),
            }
        )
