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
from diploee.facility.loss_curves import quadratic_loss
from diploee.facility.stage_meters import LoadMeter

Loss = Share


class PduSpec(StageSpec):
    """Power distribution between the UPS and the nodes.

    Loss ``R (p1 y + p2 y²)`` at load y = P / R, with P power of the nodes [W], R rating
    `rated_mw`, p1 `linear_loss` and p2 `square_loss` (see docs/meter.md). Reactive
    power is unchanged.

    See Also
    --------
    UpsSpec, TransformersSpec : the other devices of the electrical chain.
    """

    columns = COLUMNS["pdu"]
    metrics = METRICS["pdu"]
    boundary = "behind PDUs"
    place = "pdu"

    kind: Literal["pdu"] = default(
        "pdu", "Losses of PDUs and busways between the UPS and the nodes."
    )
    rated_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Rated power [MW]; the rated power of all nodes if absent."
    )
    linear_loss: Loss = uncertain(
        0.005,
        "Loss at rated load that is proportional to the load, per rating",
        (0, 0.01),
        "(large sites)",
    )
    square_loss: Loss = uncertain(
        0.005,
        "Loss at rated load that is proportional to the square of the load, per rating",
        (0, 0.01),
        "(large sites)",
    )

    def open(self, site: SiteView) -> PduSpec:
        """Return the stage with its rating set."""
        rated_mw = site.design_mw(self.kind)
        return self.model_copy(update={"rated_mw": self.rated_mw or rated_mw})

    def meter(self) -> LoadMeter:
        """Return the meter of loss and load."""
        rated_w = (self.rated_mw or 0.0) * W_PER_MW
        return LoadMeter(
            "pdu", "pdu_loss_w", lambda columns: columns["it_ac_power_w"] / rated_w
        )

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power."""
        load_w = block.columns[POWER]
        curve = quadratic_loss(0.0, self.linear_loss, self.square_loss)
        loss_w = curve.loss_w(load_w, (self.rated_mw or 0.0) * W_PER_MW)
        return {"pdu_loss_w": loss_w, POWER: load_w + loss_w}, None
