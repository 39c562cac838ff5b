"""AC power of nodes from the power of their devices.

Memory, network cards, drives, management and voltage regulators draw a fixed fraction
of the devices' rating. Fan power rises with the cube of the devices' activity. The
losses of the power supplies depend on their load::

    u = max(0, (P - I) / (R - I))
    DC = P + R (fixed + fan_min + (fan_max - fan_min) u³) + variable (P - I)
    AC = DC + S loss(DC / S) + network,    S = supply_ratio DC(P = R)

- P power of the devices (GPUs and CPU packages) [W], I their idle power, R rating,
- u activity, 0-1; fixed, fan_min and fan_max fractions of R, variable of P - I,
- DC power after the supplies [W], AC power at the node's input [W],
- S installed rating of the supplies [W], loss curve of the supplies [per unit of S],
- network a node's fraction of the power of network switches [W].

Each model is accurate to about 10 %. Fan dynamics below a minute (fans follow at once
here), inlet temperature and leakage are not modelled.

References
----------
AcmeTrace: power of 8 x A100 servers and of their GPUs, by percentile. ExaDigiT/RAPS:
Frontier's nodes and rectifiers.

See Also
--------
diploee.facility.loss_curves : losses of power supplies.

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
    """Base class of stateless models of a node's AC power."""

    @abstractmethod
    def ac_power_w(
        self, device_power_w: Any, rated_power_w: float, idle_power_w: float
    ) -> Any:
        """Return the AC power of one node [W]."""

    @abstractmethod
    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        """Return the reactive power of one running node [var], consumption positive."""


AC_POWER: Kinds[AcPowerSpec] = Kinds(
    "AC power",
    AcPowerSpec,  # type: ignore[type-abstract]
    "diploee.facility.node_power",
)
"""Registry of AC power models: those of this module, and registered ones."""


Share = Share
Supply = Annotated[SerializeAsAny[CurveSpec], SUPPLIES]

_FIXED = (
    "Power of DRAM, network cards, drives, management and regulators, per device rating"
)
_FAN_MIN = "Fan power while the devices idle, per device rating"
_FAN_MAX = (
    "Fan power with the devices at their rating, per device rating; in between it "
    "rises with the cube of the activity"
)
_VARIABLE = (
    "Load-dependent power of regulators and network cards, per device power above idle"
)
_SUPPLY = (
    "Power supplies, by name or by efficiencies: {kind: points, efficiency: {0.1: "
    "0.92, ...}}"
)
_RATIO = (
    "Installed rating of the power supplies per DC power with the devices at their "
    "rating"
)
_NETWORK = "A node's share of switches and other network equipment [W]"
_SERVERS = "(servers)"
_REACTIVE = (
    "Constant reactive power supplied by the input capacitors of the power "
    "supplies, per installed rating"
)


class _Node(AcPowerSpec):
    """Base class of the shipped models of a node."""

    supply_ratio: Annotated[float, Field(ge=1, le=10)] = uncertain(
        1.8, _RATIO, (1.2, 2.4), "(racks and servers)"
    )
    network_w: NonNegativeFloat = uncertain(60.0, _NETWORK, (30, 150), "(racks)")
    reactive_share: Share = uncertain(0.026, f"{_REACTIVE}; at 230 V, 60 Hz", (0, 0.08))

    @abstractmethod
    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:
        """Return the DC power after the supplies [W]."""

    @abstractmethod
    def _supply_loss_w(self, dc_w: Any, installed_w: float) -> Any:
        """Return the loss of the supplies [W]."""

    def ac_power_w(
        self, device_power_w: Any, rated_power_w: float, idle_power_w: float
    ) -> Any:
        """Return the AC power of one node [W], including its part of the network."""
        dc_w = self._dc_w(device_power_w, rated_power_w, idle_power_w)
        installed_w = self._installed_w(rated_power_w, idle_power_w)
        return dc_w + self._supply_loss_w(dc_w, installed_w) + self.network_w

    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        """Return ``-reactive_share`` times the supplies' rating [var]."""
        return -self.reactive_share * self._installed_w(rated_power_w, idle_power_w)

    def _installed_w(self, rated_w: float, idle_w: float) -> float:
        """Return the installed rating of the supplies [W]."""
        return self.supply_ratio * float(self._dc_w(rated_w, rated_w, idle_w))


class _Shares(Model):
    """Overhead power and supplies' rating, as fractions of the devices' rating."""

    fixed_share: Share = Field(description=f"{_FIXED}.")
    fan_share_min: Share = Field(description=f"{_FAN_MIN}.")
    fan_share_max: Share = Field(description=f"{_FAN_MAX}.")
    variable_share: Share = Field(description=f"{_VARIABLE}.")
    supply: Supply = Field(description=f"{_SUPPLY}.")

    @model_validator(mode="after")
    def _check_fan_shares(self) -> _Shares:
        """Refuse fan power that falls with the load."""
        if self.fan_share_max < self.fan_share_min:
            raise ValueError(
                f"fan_share_max must be fan_share_min ({self.fan_share_min:g}) or "
                f"more, found {self.fan_share_max:g}"
            )
        return self

    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:
        """Return the DC power after the supplies [W]."""
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
        """Return the loss of the supplies [W]."""
        return installed_w * self.supply.curve(dc_w / installed_w)


class AirHgxSpec(_Shares, _Node):
    """An air-cooled server, such as HGX: fans and typical Titanium power supplies."""

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
    """A node with direct liquid cooling and a rack power shelf, without fans."""

    kind: Literal["dlc"] = default(
        "dlc", "A node with direct liquid cooling and a rack's power shelf."
    )
    fixed_share: Share = uncertain(
        0.08, f"{_FIXED}; 0.073 at Frontier", (0.05, 0.2), _SERVERS
    )
    fan_share_min: Share = default(0.0, f"{_FAN_MIN} (none).")
    fan_share_max: Share = default(0.0, f"{_FAN_MAX} (none).")
    variable_share: Share = uncertain(0.02, _VARIABLE, (0, 0.05))
    supply: Supply = default(Orv3Spec(), f"{_SUPPLY} (assumed).", assumed=True)


class CustomSpec(_Shares, _Node):
    """A node with user-defined shares and supplies."""

    kind: Literal["custom"] = default(
        "custom", "A node with user-defined shares and supplies."
    )


class RapsFrontierSpec(_Node):
    """A node of Frontier as in ExaDigiT/RAPS, with converter and shared rectifier.

    ``AC = ((P + 184.26 + 13) / 0.98 + 17 / 4) / 0.96 + network``, with P the devices'
    power [W]: memory, network cards and drives, then linear losses of the converter
    (0.98) and of a rectifier per four nodes (0.96). The devices' rating affects the
    reactive power only.
    """

    kind: Literal["raps_frontier"] = default(
        "raps_frontier", "A node of Frontier as in ExaDigiT/RAPS."
    )
    network_w: NonNegativeFloat = default(
        62.5, f"{_NETWORK} (Frontier: 4 of 250 W per 16 nodes)."
    )

    def _dc_w(self, device_w: Any, rated_w: float, idle_w: float) -> Any:  # noqa: ARG002
        """Return the DC power after the supplies [W]."""
        return device_w + 184.26  # memory 74.26, four network cards of 20, drives 30

    def _supply_loss_w(self, dc_w: Any, installed_w: float) -> Any:  # noqa: ARG002
        """Return the loss of converter and rectifier [W]."""
        return ((dc_w + 13) / 0.98 + 17 / 4) / 0.96 - dc_w
