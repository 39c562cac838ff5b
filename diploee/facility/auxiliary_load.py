"""A constant auxiliary load next to the IT equipment: lights, offices, networks.

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
from diploee.facility.stage_meters import EnergyMeter

DESIGN_SHARE = 0.01
"""Default auxiliary power per rated power of the nodes: security, offices and building
management (ASSUMPTION)."""


class AuxiliaryLoadSpec(StageSpec):
    """A constant auxiliary load next to the IT equipment.

    ``P' = P + P_aux`` and ``Q' = Q + P_aux sqrt(1 / pf² - 1)``, with active power P
    [W], reactive power Q [var], P_aux `power_kw` (or `design_share` times the nodes'
    rated power), and pf `power_factor`, lagging.
    """

    columns = COLUMNS["auxiliary_load"]
    metrics = METRICS["auxiliary_load"]
    boundary = "with a constant auxiliary load"
    place = "auxiliary_load"

    kind: Literal["auxiliary_load"] = default(
        "auxiliary_load", "A constant load in addition to the IT equipment."
    )
    power_kw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Power of the load [kW]; or design_share."
    )
    design_share: Annotated[float | None, Field(ge=0, le=1)] = uncertain(
        None,
        (
            "Power of the load per rated power of the nodes; 0.01 if power_kw is not "
            "given either"
        ),
        (0.002, 0.03),
    )
    power_factor: PositiveShare = uncertain(
        0.95, "Power factor, lagging, if reactive power is modelled", (0.9, 0.98)
    )

    @model_validator(mode="after")
    def _check_one_size(self) -> AuxiliaryLoadSpec:
        """Refuse `power_kw` together with `design_share`."""
        if self.power_kw is not None and self.design_share is not None:
            raise ValueError("give either power_kw or design_share")
        return self

    def unused_keys(self) -> tuple[str, ...]:
        """Return `design_share` as unused if `power_kw` is set."""
        return () if self.power_kw is None else ("design_share",)

    def open(self, site: SiteView) -> AuxiliaryLoadSpec:
        """Return the load with its power set."""
        if self.power_kw is not None:
            return self
        share = DESIGN_SHARE if self.design_share is None else self.design_share
        power_kw = share * site.rated_power_w / W_PER_KW
        return self.model_copy(update={"power_kw": power_kw, "design_share": None})

    def meter(self) -> EnergyMeter:
        """Return the energy meter of the load."""
        return EnergyMeter("auxiliary_power_w", "auxiliary_load.energy_mwh")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the load to the facility's active and reactive power."""
        power_w = (self.power_kw or 0.0) * W_PER_KW
        auxiliary_w = np.full(len(block), power_w)
        columns = {
            "auxiliary_power_w": auxiliary_w,
            POWER: block.columns[POWER] + auxiliary_w,
        }
        if REACTIVE in block.columns:
            auxiliary_var = power_w * sqrt(1 / self.power_factor**2 - 1)
            columns[REACTIVE] = block.columns[REACTIVE] + auxiliary_var
        return columns, None
