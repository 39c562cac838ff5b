"""Power distribution units and busways between the UPS and the nodes.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import PositiveFloat

from diploee.base.model import SCALES, Share, default, optional, uncertain
from diploee.base.units import W_PER_MW
from diploee.facility.base import POWER, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.loss_curves import quadratic
from diploee.facility.meters import LoadMeter

Loss = Share


class PduSpec(StageSpec):
    """Distribution between the UPS and the nodes.

    ``R (p1 y + p2 y^2)`` is lost at a load y = P/R (see docs/meter.md). Reactive power
    passes as it is.
    """

    columns = COLUMNS["pdu"]
    metrics = METRICS["pdu"]
    boundary = "behind PDUs"
    place = "pdu"

    kind: Literal["pdu"] = default(
        "pdu", "Losses of PDUs and busways between the UPS and the nodes."
    )
    rated_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Power of the nodes that they are built for [MW]; all nodes at their ratings "
        "if absent."
    )
    linear_loss: Loss = uncertain(
        0.005,
        "Loss at the rating that goes with the load, share of the rating",
        (0, 0.01),
        "of large sites",
    )
    square_loss: Loss = uncertain(
        0.005,
        "Loss at the rating that goes with its square, share of the rating",
        (0, 0.01),
        "of large sites",
    )

    def open(self, site: SiteView) -> PduSpec:
        """Return the stage with its rating."""
        rated_mw = site.design_mw(self.kind)
        return self.model_copy(update={"rated_mw": self.rated_mw or rated_mw})

    def meter(self) -> LoadMeter:
        """Return the meter of its loss and load."""
        rated_w = (self.rated_mw or 0.0) * W_PER_MW
        return LoadMeter(
            "pdu", "pdu_loss_w", lambda columns: columns["it_ac_power_w"] / rated_w
        )

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power."""
        load_w = block.columns[POWER]
        curve = quadratic(0.0, self.linear_loss, self.square_loss)
        loss_w = curve.loss_w(load_w, (self.rated_mw or 0.0) * W_PER_MW)
        return {"pdu_loss_w": loss_w, POWER: load_w + loss_w}, None
