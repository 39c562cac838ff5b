"""A constant load beside the IT equipment: lights, offices, storage, networks.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from math import sqrt
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, model_validator

from diploee.base.model import SCALES, PositiveShare, default, optional, uncertain
from diploee.base.units import W_PER_KW
from diploee.facility.base import POWER, REACTIVE, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.meters import EnergyMeter

DESIGN_SHARE = 0.01
"""ASSUMPTION: security, offices and building management, of the nodes' power (section
3.4) [J]."""


class AuxiliaryLoadSpec(StageSpec):
    """A constant load beside the IT equipment."""

    columns = COLUMNS["auxiliary_load"]
    metrics = METRICS["auxiliary_load"]
    boundary = "with a constant auxiliary load"
    place = "auxiliary_load"

    kind: Literal["auxiliary_load"] = default(
        "auxiliary_load", "A constant load beside the IT equipment."
    )
    power_kw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Its power [kW]; or design_share."
    )
    design_share: Annotated[float | None, Field(ge=0, le=1)] = uncertain(
        None,
        (
            "Its power, share of the nodes' power at their ratings; 0.01 if power_kw "
            "is not given either"
        ),
        (0.002, 0.03),
    )
    power_factor: PositiveShare = uncertain(
        0.95, "Power factor, lagging, where reactive power is modelled", (0.9, 0.98)
    )

    @model_validator(mode="after")
    def _one_size(self) -> AuxiliaryLoadSpec:
        if self.power_kw is not None and self.design_share is not None:
            raise ValueError("give either power_kw or design_share")
        return self

    def given_otherwise(self) -> tuple[str, ...]:
        """Return the share where the power is given."""
        return () if self.power_kw is None else ("design_share",)

    def open(self, site: SiteView) -> AuxiliaryLoadSpec:
        """Return the load with its power."""
        if self.power_kw is not None:
            return self
        share = DESIGN_SHARE if self.design_share is None else self.design_share
        power_kw = share * site.rated_power_w / W_PER_KW
        return self.model_copy(update={"power_kw": power_kw, "design_share": None})

    def meter(self) -> EnergyMeter:
        """Return the meter of its energy."""
        return EnergyMeter("auxiliary_power_w", "auxiliary_load.energy_mwh")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the load to the facility's power, active and reactive."""
        power_w = (self.power_kw or 0.0) * W_PER_KW
        own_w = np.full(len(block), power_w)
        given = {"auxiliary_power_w": own_w, POWER: block.columns[POWER] + own_w}
        if REACTIVE in block.columns:
            own_var = power_w * sqrt(1 / self.power_factor**2 - 1)
            given[REACTIVE] = block.columns[REACTIVE] + own_var
        return given, None
