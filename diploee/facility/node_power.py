"""From the power of a node's devices to what it draws at its AC input.

Memory, network cards, drives, management and voltage regulators draw a fixed part of
the rating, fans a part by the cube of the devices' activity, and the power supplies
lose by their load. With R the devices' rating, I their idle power and P their power, u
= max(0, (P - I) / (R - I))::

    DC = P + R (fixed + fan_min + (fan_max - fan_min) u^3) + variable (P - I)
    AC = DC + S loss(DC / S) + network,    S = supply_ratio DC(P = R)

Each model is held to +-10 % of measurements, not better; what fans add to swings below
a minute is not modelled (they follow at once here), nor inlet temperature and leakage.

References
----------
AcmeTrace: power of 8 x A100 servers and of their GPUs, by percentile. ExaDigiT/RAPS:
Frontier's nodes and rectifiers.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, SerializeAsAny, model_validator

from diploee.base.model import Kind, Kinds, Model, Share, default, uncertain
from diploee.facility.loss_curves import SUPPLIES, CurveSpec, Orv3Spec, TitaniumTypSpec


class AcPowerSpec(Kind):
    """Base of the models of a node's AC power.

    Without memory, so that profiles pass through it.
    """

    @abstractmethod
    def ac_power_w(
        self, device_power_w: Any, rated_power_w: float, idle_power_w: float
    ) -> Any:
        """Return the AC power of one node [W]."""

    @abstractmethod
    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        """Return the reactive power of one node that is on [var], drawn positive."""


AC_POWER: Kinds[AcPowerSpec] = Kinds(
    "AC power",
    AcPowerSpec,  # type: ignore[type-abstract]
    "diploee.facility.node_power",
)
"""Models by name: those of this module, and those registered from outside."""


Share = Share
Supply = Annotated[SerializeAsAny[CurveSpec], SUPPLIES]

_FIXED = (
    "DRAM, network cards, drives, management, regulators: share of the devices' rating"
)
_FAN_MIN = "Fans while the devices idle: share of their rating"
_FAN_MAX = (
    "Fans at the devices' rating: share of it; between, by the cube of the activity"
)
_VARIABLE = (
    "Regulators and network cards by load: share of the devices' power above idle"
)
_SUPPLY = (
    "Power supplies by name, or by efficiencies: {kind: points, efficiency: {0.1: "
    "0.92, ...}}"
)
_RATIO = "Installed rating of the supplies over the DC power at the devices' rating"
_NETWORK = "Switches and other network equipment, a node's part of it [W]"
_SERVERS = "of servers"
_REACTIVE = (
    "Input capacitors of the supplies: reactive power supplied, constant, share of "
    "the supplies' installed rating"
)


class _Node(AcPowerSpec):
    """Base of all models of a node."""

    supply_ratio: Annotated[float, Field(ge=1, le=10)] = uncertain(
        1.8, _RATIO, (1.2, 2.4), "of racks and servers"
    )
    network_w: NonNegativeFloat = uncertain(60.0, _NETWORK, (30, 150), "of racks")
    reactive_share: Share = uncertain(0.026, f"{_REACTIVE}; at 230 V, 60 Hz", (0, 0.08))

    @abstractmethod
    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:
        """Return the power behind the supplies [W]."""

    @abstractmethod
    def _supply_loss_w(self, dc_w: Any, installed_w: float) -> Any:
        """Return what the supplies lose [W]."""

    def ac_power_w(
        self, device_power_w: Any, rated_power_w: float, idle_power_w: float
    ) -> Any:
        """Return the AC power of one node [W], its part of the network included."""
        dc_w = self._dc_w(device_power_w, rated_power_w, idle_power_w)
        installed_w = self._installed_w(rated_power_w, idle_power_w)
        return dc_w + self._supply_loss_w(dc_w, installed_w) + self.network_w

    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        """Return ``-reactive_share`` of the supplies' rating [var] (section 4)."""
        return -self.reactive_share * self._installed_w(rated_power_w, idle_power_w)

    def _installed_w(self, rated_w: float, idle_w: float) -> float:
        return self.supply_ratio * float(self._dc_w(rated_w, rated_w, idle_w))


class _Shares(Model):
    """Overhead and supplies by shares of the devices' rating, for node types."""

    fixed_share: Share = Field(description=f"{_FIXED}.")
    fan_share_min: Share = Field(description=f"{_FAN_MIN}.")
    fan_share_max: Share = Field(description=f"{_FAN_MAX}.")
    variable_share: Share = Field(description=f"{_VARIABLE}.")
    supply: Supply = Field(description=f"{_SUPPLY}.")

    @model_validator(mode="after")
    def _fans_speed_up(self) -> _Shares:
        if self.fan_share_max < self.fan_share_min:
            raise ValueError(
                f"fan_share_max must be fan_share_min ({self.fan_share_min:g}) or "
                f"more, found {self.fan_share_max:g}"
            )
        return self

    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:
        above_w, span_w = device_w - idle_w, rated_w - idle_w
        activity = np.maximum(above_w, 0.0) / span_w if span_w > 0 else 0.0
        fans = (
            self.fan_share_min + (self.fan_share_max - self.fan_share_min) * activity**3
        )
        return (
            device_w
            + rated_w * (self.fixed_share + fans)
            + self.variable_share * above_w
        )

    def _supply_loss_w(self, dc_w: Any, installed_w: float) -> Any:
        return installed_w * self.supply.curve(dc_w / installed_w)


class AirHgxSpec(_Shares, _Node):
    """An air-cooled server, as with HGX boards: fans and typical Titanium supplies."""

    # Fitted to percentiles of 8 x A100 servers (AcmeTrace), to +-10 %
    kind: Literal["air_hgx"] = default(
        "air_hgx", "An air-cooled server: fans and typical Titanium supplies."
    )
    fixed_share: Share = uncertain(0.13, _FIXED, (0.05, 0.2), _SERVERS, basis="fitted")
    fan_share_min: Share = uncertain(
        0.04, _FAN_MIN, (0.02, 0.05), _SERVERS, basis="fitted"
    )
    fan_share_max: Share = uncertain(
        0.19, _FAN_MAX, (0.08, 0.25), _SERVERS, basis="fitted"
    )
    variable_share: Share = uncertain(0.0, _VARIABLE, (0, 0.05))
    supply: Supply = default(TitaniumTypSpec(), f"{_SUPPLY} (assumed).", assumed=True)


class DlcSpec(_Shares, _Node):
    """A node with direct liquid cooling and a rack's power shelf: no fans."""

    kind: Literal["dlc"] = default(
        "dlc", "A node with direct liquid cooling and a rack's power shelf."
    )
    fixed_share: Share = uncertain(
        0.08, f"{_FIXED}; Frontier's has 0.073", (0.05, 0.2), _SERVERS
    )
    fan_share_min: Share = default(0.0, f"{_FAN_MIN} (none).")
    fan_share_max: Share = default(0.0, f"{_FAN_MAX} (none).")
    variable_share: Share = uncertain(0.02, _VARIABLE, (0, 0.05))
    supply: Supply = default(Orv3Spec(), f"{_SUPPLY} (assumed).", assumed=True)


class CustomSpec(_Shares, _Node):
    """A node whose shares and supplies are given."""

    kind: Literal["custom"] = default(
        "custom", "A node by shares and supplies of its own."
    )


class RapsFrontierSpec(_Node):
    """A node of Frontier as in ExaDigiT/RAPS.

    A converter a node, a rectifier per four nodes.
    ``((P + 184.26 + 13) / 0.98 + 17 / 4) / 0.96``: memory, network cards and drives,
    then linear losses. The devices' rating stands for nothing but the reactive power.
    """

    kind: Literal["raps_frontier"] = default(
        "raps_frontier", "A node of Frontier, as ExaDigiT/RAPS has it."
    )
    network_w: NonNegativeFloat = default(
        62.5, f"{_NETWORK} (Frontier: 4 of 250 W per 16 nodes)."
    )

    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:  # noqa: ARG002
        return device_w + 184.26  # memory 74.26, four network cards of 20, drives 30

    def _supply_loss_w(self, dc_w: Any, installed_w: float) -> Any:  # noqa: ARG002
        return ((dc_w + 13) / 0.98 + 17 / 4) / 0.96 - dc_w
