"""A tariff's rules on demand at the point of interconnection, by name, without prices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from diploee.errors import one_of
from diploee.model import SCALES, Model, optional


class Billing(Model):
    """Rules by which a tariff turns the demand of a month into what is billed; one at least."""

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

    @model_validator(mode="after")
    def _some_rule(self) -> Billing:
        rules = [name for name in type(self).model_fields if name != "interval_min"]
        if all(getattr(self, name) is None for name in rules):
            raise ValueError(f"bills nothing without a rule; give one of {one_of(rules)}")
        return self
