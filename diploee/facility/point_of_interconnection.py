"""The point of interconnection: where the site meets the grid, and its meter stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from diploee.columns import Column, Columns
from diploee.facility.base import POWER, REACTIVE, Block, Site, StageSpec, Values
from diploee.facility.billing import Billing
from diploee.model import SCALES, optional

_AT = "at the point of interconnection"


class PointOfInterconnectionSpec(StageSpec):
    """The point of interconnection, the last stage: active and reactive power, and all losses.

    Reactive power is of fundamental frequency at constant voltage, and no better than its assumed
    parts, +-30 % unless they are given: `reactive_share`, `filter_share` and `u_k`.
    """

    columns: ClassVar[Columns] = (
        Column("poi_power_w", "W", "facility", "mean", _AT, "power drawn from the grid"),
        Column("poi_reactive_var", "var", "facility", "mean", _AT,
               "reactive power, drawn positive"),
        Column("loss_w", "W", "facility", "mean", "between the nodes' AC input and the grid",
               "electrical losses of all stages, without cooling and auxiliary load"),
    )  # fmt: skip
    boundary: ClassVar[str | None] = _AT
    place: ClassVar[str | None] = "point_of_interconnection"

    kind: Literal["point_of_interconnection"] = Field(
        default="point_of_interconnection",
        description="The meter between the site and the grid; the last stage.",
    )
    contract_mva: Annotated[float | None, Field(gt=0), SCALES] = optional(
        "Apparent power that the connection is contracted for [MVA]."
    )
    billing: Billing | None = optional(
        "Rules of a tariff that demand is billed by; none if absent."
    )

    def open(self, site: Site) -> PointOfInterconnection:
        """Return the stage; it needs reactive power."""
        site.require_ac(self.kind)
        return PointOfInterconnection(site.with_role("loss"))


@dataclass(frozen=True)
class PointOfInterconnection:
    """The stage of the meter."""

    losses: tuple[str, ...]  # columns of the losses on the way to it
    columns: ClassVar[Columns] = PointOfInterconnectionSpec.columns
    boundary: ClassVar[str | None] = _AT

    def start(self) -> None:
        """Return its state at the start of a run; none."""
        return None

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Return what arrives, and the sum of the losses on the way."""
        loss_w = np.zeros(len(block))
        for name in self.losses:
            loss_w = loss_w + block.columns.get(name, 0.0)
        arrives = {"poi_power_w": POWER, "poi_reactive_var": REACTIVE}
        return {**{name: block.columns[of] for name, of in arrives.items()}, "loss_w": loss_w}, None
