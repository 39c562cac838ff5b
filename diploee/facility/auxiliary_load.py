"""A constant load beside the IT equipment: lights, offices, storage, networks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from diploee.columns import Column, Columns
from diploee.facility.base import POWER, Block, StageSpec, Values
from diploee.facility.meters import EnergyMeter
from diploee.metric import Metric
from diploee.model import SCALES
from diploee.units import W_PER_KW


class AuxiliaryLoadSpec(StageSpec):
    """A constant load beside the IT equipment."""

    columns: ClassVar[Columns] = (
        Column("auxiliary_power_w", "W", "facility", "mean", "at the loads themselves",
               "constant load beside the IT equipment"),
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("auxiliary_load.energy_mwh", "MWh", "energy of the auxiliary load", "{:,.1f}",
               view="table"),
    )  # fmt: skip
    boundary: ClassVar[str | None] = "with a constant auxiliary load"

    kind: Literal["auxiliary_load"] = Field(
        default="auxiliary_load", description="A constant load beside the IT equipment."
    )
    power_kw: Annotated[float, Field(ge=0), SCALES] = Field(description="What it draws [kW].")

    def meter(self) -> EnergyMeter:
        """Return the meter of its energy."""
        return EnergyMeter("auxiliary_power_w", "auxiliary_load.energy_mwh")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the load to the facility's power."""
        own_w = np.full(len(block), self.power_kw * W_PER_KW)
        return {"auxiliary_power_w": own_w, POWER: block.columns[POWER] + own_w}, None
