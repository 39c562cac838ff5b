"""Point of interconnection (POI): power at the meter between site and grid.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PrivateAttr, model_validator

from diploee.base.errors import one_of
from diploee.base.metric import format_short
from diploee.base.model import SCALES, Model, PositiveShare, default, optional
from diploee.facility.base import POWER, REACTIVE, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS


class Billing(Model):
    """Tariff rules by which billed demand follows from a month's demand."""

    interval_min: Literal[15, 30, 60] = default(
        15, "Clock interval of the billed demand [min]."
    )
    power_factor_min: PositiveShare | None = optional(
        "Minimum average lagging power factor of a month, 0-1; with a lower one, the "
        "month's demand is multiplied by their ratio."
    )
    kvar_free_share: NonNegativeFloat | None = optional(
        "Maximum free reactive demand per maximum demand of the month; 0.62 is a power "
        "factor of 0.85."
    )
    ratchet: PositiveShare | None = optional(
        "Minimum billed demand per highest demand of the previous 11 months, 0-1."
    )
    contract_minimum_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Minimum billed demand [MW]."
    )

    @model_validator(mode="after")
    def _check_any_rule(self) -> Billing:
        """Refuse billing settings without any tariff rule."""
        rules = [name for name in type(self).model_fields if name != "interval_min"]
        if all(getattr(self, name) is None for name in rules):
            raise ValueError(
                f"bills nothing without a rule; give one of {one_of(rules)}"
            )
        return self


class Contract(NamedTuple):
    """Contracted power of a connection, with its unit and key in the scenario."""

    amount: float  # contracted power [`unit`]
    name: str
    unit: str  # MW of active power, or MVA of apparent power


class PointOfInterconnectionSpec(StageSpec):
    """The point of interconnection, the last stage: power and all losses.

    Reactive power is that of the fundamental frequency at constant voltage. It is
    accurate to about 30 % unless its assumed components are specified:
    `reactive_share`, `filter_share` and `u_k`.

    See Also
    --------
    TransformersSpec, UpsSpec : sources of reactive power.
    """

    columns = COLUMNS["point_of_interconnection"]
    boundary = "at the point of interconnection"
    _losses: tuple[str, ...] = PrivateAttr()
    place = "point_of_interconnection"

    kind: Literal["point_of_interconnection"] = default(
        "point_of_interconnection",
        "The meter between the site and the grid; the last stage.",
    )
    contract_mva: Annotated[PositiveFloat | None, SCALES] = optional(
        "Contracted apparent power of the connection [MVA]."
    )
    contract_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Contracted active power of the connection [MW]; in place of contract_mva."
    )
    billing: Billing | None = optional(
        "Tariff rules for billed demand; none if absent."
    )

    @model_validator(mode="after")
    def _check_one_contract(self) -> Self:
        """Refuse contracts for both active and apparent power."""
        if self.contract_mva is not None and self.contract_mw is not None:
            raise ValueError(
                "has contract_mva and contract_mw; give the contracted one, and null "
                "for the other"
            )
        return self

    @property
    def contract(self) -> Contract | None:
        """Contracted active or apparent power; None without a contract."""
        if (mw := self.contract_mw) is not None:
            return Contract(mw, f"contract, {format_short(mw)} MW", "MW")
        if (mva := self.contract_mva) is not None:
            return Contract(
                mva, f"contract, {format_short(mva)} MVA at unity power factor", "MVA"
            )
        return None

    def open(self, site: SiteView) -> PointOfInterconnectionSpec:
        """Return the stage for a facility, which must model reactive power."""
        site.require_ac(self.kind)
        opened = self.model_copy()
        opened._losses = site.columns_with_roles("loss")
        return opened

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Return the power that arrives, and the sum of all losses."""
        loss_w = np.zeros(len(block))
        for name in self._losses:
            loss_w = loss_w + block.columns.get(name, 0.0)
        source_columns = {"poi_power_w": POWER, "poi_reactive_var": REACTIVE}
        return {
            **{name: block.columns[source] for name, source in source_columns.items()},
            "loss_w": loss_w,
        }, None
