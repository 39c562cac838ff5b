"""Loss of a fixed fraction of the input power: a rough model of conversion losses.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import default
from diploee.facility.base import POWER, Block, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.stage_meters import EnergyMeter


class ConstantLossSpec(StageSpec):
    """A loss that is a fixed fraction of the input power.

    ``P_in = P / (1 - k)``, with load P [W], input power P_in [W], and k
    `loss_fraction`. If power flows from the load to the grid (P < 0), ``P_in = P (1 -
    k)``.
    """

    columns = COLUMNS["constant_loss"]
    metrics = METRICS["constant_loss"]
    boundary = "behind a loss that is a constant part of it"

    kind: Literal["constant_loss"] = default(
        "constant_loss", "A loss that is a fixed fraction of the input power."
    )
    loss_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="Fraction of the input power that is lost, 0-1."
    )

    def meter(self) -> EnergyMeter:
        """Return the energy meter of the loss."""
        return EnergyMeter("loss_power_w", "constant_loss.energy_mwh")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power."""
        load_w = block.columns[POWER]
        # Below 0 power flows back, and the same fraction of it is lost
        loss_per_load = np.where(
            load_w < 0,
            -self.loss_fraction,
            self.loss_fraction / (1 - self.loss_fraction),
        )
        loss_w = load_w * loss_per_load
        return {"loss_power_w": loss_w, POWER: load_w + loss_w}, None
