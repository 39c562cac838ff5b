"""A loss that is a constant part of what is drawn.

Conversion and distribution, roughly.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import default
from diploee.facility.base import POWER, Block, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.meters import EnergyMeter


class ConstantLossSpec(StageSpec):
    """A loss that is a constant part of what is drawn.

    ``P / (1 - loss_fraction)`` for a load P.
    """

    columns = COLUMNS["constant_loss"]
    metrics = METRICS["constant_loss"]
    boundary = "behind a loss that is a constant part of it"

    kind: Literal["constant_loss"] = default(
        "constant_loss", "A loss that is a constant part of what is drawn."
    )
    loss_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="Part of the drawn power that does not reach the load, 0-1."
    )

    def meter(self) -> EnergyMeter:
        """Return the meter of its energy."""
        return EnergyMeter("loss_power_w", "constant_loss.energy_mwh")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power."""
        load_w = block.columns[POWER]
        # Below 0 the load sends power on, and the same part of it is lost.
        lost = np.where(
            load_w < 0,
            -self.loss_fraction,
            self.loss_fraction / (1 - self.loss_fraction),
        )
        loss_w = load_w * lost
        return {"loss_power_w": loss_w, POWER: load_w + loss_w}, None
