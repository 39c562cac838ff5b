"""Uninterruptible power supplies.

Their loss, and what they let through of reactive power.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import PositiveFloat, SerializeAsAny, model_validator

from diploee.base.model import SCALES, Share, default, optional, uncertain
from diploee.base.units import W_PER_MW
from diploee.facility.base import POWER, REACTIVE, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.loss_curves import MEASURED, MeasuredSpec, quadratic
from diploee.facility.meters import LoadMeter

CURVES = {
    # ASSUMPTION: "typically 95-96 %" over 25-100 % (a secondary source), 94.98 % at 25
    # % load.
    "double_conversion": quadratic(0.0085, 0.0130, 0.0235),
    # ASSUMPTION: "up to 97.5 %" (a secondary source); 97.4 % at 75 % load.
    "high_efficiency_dc": quadratic(0.0095, 0.0, 0.0190),
    # ASSUMPTION: "98.5-99.3 % depending on load point" (a secondary source), for both.
    "eco": quadratic(0.0036, 0.0, 0.0034),
    "econversion": quadratic(0.0036, 0.0, 0.0034),
    "none": quadratic(0.0, 0.0, 0.0),
}
"""Losses by mode, as makers state their efficiencies."""

DOUBLE_CONVERSION = ("double_conversion", "high_efficiency_dc")
"""Modes that hide the nodes' reactive power behind the converter."""

INSTALLED = {"n": 1.0, "n+1": 1.35, "2n": 2.0}
"""Installed power over the design power. ASSUMPTION: n+1 of 1.25 to 1.35 times [M]."""

FILTER_SHARE = 0.05


class UpsSpec(StageSpec):
    """Uninterruptible power supplies.

    ``R (a0 + a1 x + a2 x^2)`` is lost at a load x = P/R (see docs/meter.md). One mode
    through the whole run; transfer to the battery and recharge are not modelled.
    """

    columns = COLUMNS["ups"]
    metrics = METRICS["ups"]
    boundary = "behind the UPS"
    place = "ups"

    kind: Literal["ups"] = default(
        "ups", "Loss and reactive power of the uninterruptible power supplies."
    )
    mode: Literal[
        "double_conversion", "high_efficiency_dc", "eco", "econversion", "none"
    ] = default(
        "double_conversion",
        (
            "How it runs, with a loss assumed for each. Double conversion hides the "
            "nodes' reactive power, eco and none (batteries in the racks) pass it on, "
            "econversion holds it at zero."
        ),
        assumed=True,
    )
    efficiency: Annotated[SerializeAsAny[MeasuredSpec], MEASURED] | None = optional(
        (
            "Measured efficiencies instead of those assumed for the mode: {kind: "
            "points, efficiency: {0.25: 0.95, ...}}, by load over its rating."
        ),
        assumed=True,
    )
    redundancy: Literal["n", "n+1", "2n"] | None = optional(
        (
            "Installed power over the nodes' power at their ratings: 1, 1.35 or 2 "
            "times (assumed); n+1 if neither it nor installed_mw is given (assumed)."
        ),
        assumed=True,
    )
    installed_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Installed power, all units together [MW]; or redundancy."
    )
    filter_share: Share = uncertain(
        FILTER_SHARE,
        (
            "Input filter in double conversion: reactive power supplied, constant, "
            "share of the installed power"
        ),
        (0, 0.15),
    )

    @model_validator(mode="after")
    def _goes_together(self) -> UpsSpec:
        if self.redundancy is not None and self.installed_mw is not None:
            raise ValueError("give either redundancy or installed_mw")
        if self.mode not in DOUBLE_CONVERSION and self.filter_share != FILTER_SHARE:
            raise ValueError(
                f"filter_share is of double conversion, found mode '{self.mode}'"
            )
        if self.mode == "none" and self.efficiency is not None:
            raise ValueError(
                "mode 'none' has no loss; leave efficiency out, or name a mode"
            )
        return self

    def given_otherwise(self) -> tuple[str, ...]:
        """Return the redundancy beside a power, and what a mode does without."""
        sized = () if self.installed_mw is None else ("redundancy",)
        converts = () if self.mode in DOUBLE_CONVERSION else ("filter_share",)
        return (
            *sized,
            *converts,
            *(("mode", "efficiency") if self.mode == "none" else ()),
        )

    def open(self, site: SiteView) -> UpsSpec:
        """Return the stage with its installed power."""
        installed_mw = site.design_mw(self.kind) * INSTALLED[self.redundancy or "n+1"]
        update = {"installed_mw": self.installed_mw or installed_mw, "redundancy": None}
        return self.model_copy(update=update)

    @property
    def _installed_w(self) -> float:
        return (self.installed_mw or 0.0) * W_PER_MW

    def meter(self) -> LoadMeter:
        """Return the meter of its loss and load."""
        installed_w = self._installed_w
        return LoadMeter(
            "ups",
            "ups_loss_w",
            lambda of: (of["ups_input_w"] - of["ups_loss_w"]) / installed_w,
        )

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power, and replace its reactive power."""
        load_w = block.columns[POWER]
        curve = CURVES[self.mode] if self.efficiency is None else self.efficiency.curve
        loss_w = curve.loss_w(load_w, self._installed_w)
        input_w = load_w + loss_w
        given = {"ups_input_w": input_w, "ups_loss_w": loss_w, POWER: input_w}
        if self.mode in DOUBLE_CONVERSION:
            given[REACTIVE] = np.full(
                len(block), -self.filter_share * self._installed_w
            )
        elif self.mode == "econversion":
            given[REACTIVE] = np.zeros(len(block))
        return given, None
