"""What a tariff says of demand at the point of interconnection: rules by name, no prices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from diploee.model import SCALES, Model, optional


class Billing(Model):
    """Rules by which a tariff turns the demand of a month into what is billed; none by default."""

    interval_min: Literal[15, 30, 60] = Field(
        default=15, description="Clock interval of the demand that the rules take [min]."
    )
    power_factor_min: Annotated[float, Field(gt=0, le=1)] | None = optional(
        "A month's demand is billed times this over its average lagging power factor where that is "
        "lower, 0-1."
    )
    kvar_free_share: Annotated[float, Field(ge=0)] | None = optional(
        "Largest reactive demand that is free, as a part of the month's maximum demand; 0.62 is a "
        "power factor of 0.85."
    )
    ratchet: Annotated[float, Field(gt=0, le=1)] | None = optional(
        "Part of the highest demand of the 11 months before that is billed at least, 0-1."
    )
    contract_minimum_mw: Annotated[float | None, Field(gt=0), SCALES] = optional(
        "Demand that is billed at least [MW]."
    )

    @property
    def any(self) -> bool:
        """Whether there is a rule at all."""
        return bool(self.model_dump(exclude={"interval_min"}))
