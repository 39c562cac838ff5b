"""Uninterruptible power supplies: their loss, and effect on reactive power.

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
from diploee.facility.loss_curves import MEASURED, MeasuredSpec, quadratic_loss
from diploee.facility.stage_meters import LoadMeter

CURVES = {
    # ASSUMPTION: "typically 95-96 %" over 25-100 % (a secondary source), 94.98 % at 25
    # % load.
    "double_conversion": quadratic_loss(0.0085, 0.0130, 0.0235),
    # ASSUMPTION: "up to 97.5 %" (a secondary source); 97.4 % at 75 % load.
    "high_efficiency_dc": quadratic_loss(0.0095, 0.0, 0.0190),
    # ASSUMPTION: "98.5-99.3 % depending on load point" (a secondary source), for both.
    "eco": quadratic_loss(0.0036, 0.0, 0.0034),
    "econversion": quadratic_loss(0.0036, 0.0, 0.0034),
    "none": quadratic_loss(0.0, 0.0, 0.0),
}
"""Loss curves by mode, from makers' stated efficiencies."""

DOUBLE_CONVERSION = ("double_conversion", "high_efficiency_dc")
"""Modes in which the converter decouples the nodes' reactive power."""

INSTALLED = {"n": 1.0, "n+1": 1.35, "2n": 2.0}
"""Installed power per design power (ASSUMPTION: n+1 is 1.25 to 1.35 times)."""

FILTER_SHARE = 0.05


class UpsSpec(StageSpec):
    """Uninterruptible power supplies.

    Loss ``R (a0 + a1 x + a2 x²)`` at load x = P / R, with P output power [W], R
    installed power [W], and coefficients in per unit of R (see docs/meter.md). In
    double conversion the input's reactive power is ``-filter_share R``. The mode is
    constant over a run; transfer to the battery and recharging are not modelled.

    See Also
    --------
    diploee.facility.loss_curves : measured efficiencies.
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
            "Operating mode, each with an assumed loss. Double conversion decouples "
            "the nodes' reactive power, eco and none (batteries in the racks) pass it "
            "on, econversion compensates it to zero."
        ),
        assumed=True,
    )
    efficiency: Annotated[SerializeAsAny[MeasuredSpec], MEASURED] | None = optional(
        (
            "Measured efficiencies instead of those assumed for the mode: {kind: "
            "points, efficiency: {0.25: 0.95, ...}}, by load per rating."
        ),
        assumed=True,
    )
    redundancy: Literal["n", "n+1", "2n"] | None = optional(
        (
            "Installed power per rated power of the nodes: 1, 1.35 or 2 (assumed); n+1 "
            "if neither it nor installed_mw is given (assumed)."
        ),
        assumed=True,
    )
    installed_mw: Annotated[PositiveFloat | None, SCALES] = optional(
        "Installed power, all units together [MW]; or redundancy."
    )
    filter_share: Share = uncertain(
        FILTER_SHARE,
        (
            "Input filter in double conversion: constant reactive power supplied, per "
            "installed power"
        ),
        (0, 0.15),
    )

    @model_validator(mode="after")
    def _check_combination(self) -> UpsSpec:
        """Refuse keys that exclude each other."""
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

    def unused_keys(self) -> tuple[str, ...]:
        """Return the keys without effect: keys of other modes, and the redundancy.

        The redundancy has no effect if the power is set.
        """
        unused_if_sized = () if self.installed_mw is None else ("redundancy",)
        unused_without_filter = (
            () if self.mode in DOUBLE_CONVERSION else ("filter_share",)
        )
        return (
            *unused_if_sized,
            *unused_without_filter,
            *(("mode", "efficiency") if self.mode == "none" else ()),
        )

    def open(self, site: SiteView) -> UpsSpec:
        """Return the stage with its installed power set."""
        installed_mw = site.design_mw(self.kind) * INSTALLED[self.redundancy or "n+1"]
        update = {"installed_mw": self.installed_mw or installed_mw, "redundancy": None}
        return self.model_copy(update=update)

    @property
    def _installed_w(self) -> float:
        """Installed power of all units together [W]."""
        return (self.installed_mw or 0.0) * W_PER_MW

    def meter(self) -> LoadMeter:
        """Return the meter of loss and load."""
        installed_w = self._installed_w
        return LoadMeter(
            "ups",
            "ups_loss_w",
            lambda columns: (
                (columns["ups_input_w"] - columns["ups_loss_w"]) / installed_w
            ),
        )

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the loss to the facility's power, and replace its reactive power."""
        load_w = block.columns[POWER]
        curve = CURVES[self.mode] if self.efficiency is None else self.efficiency.curve
        loss_w = curve.loss_w(load_w, self._installed_w)
        input_w = load_w + loss_w
        columns = {"ups_input_w": input_w, "ups_loss_w": loss_w, POWER: input_w}
        if self.mode in DOUBLE_CONVERSION:
            columns[REACTIVE] = np.full(
                len(block), -self.filter_share * self._installed_w
            )
        elif self.mode == "econversion":
            columns[REACTIVE] = np.zeros(len(block))
        return columns, None
