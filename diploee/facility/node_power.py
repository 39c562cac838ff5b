"""From the power of a node's devices to what it draws at its AC input."""

from __future__ import annotations

from typing import Any

from diploee.kinds import Kind, Kinds


class AcPowerSpec(Kind):
    """Base of the models of a node's AC power: without memory, so that profiles pass through it."""

    def ac_power_w(self, device_power_w: Any, rated_power_w: float, idle_power_w: float) -> Any:
        """Return the AC power of one node [W].

        Parameters
        ----------
        device_power_w : float or numpy.ndarray
            Power of the node's devices [W].
        rated_power_w, idle_power_w : float
            Device power of the node at its devices' ratings, and without a job [W].
        """
        raise NotImplementedError

    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        """Return the reactive power of one node that is switched on [var], drawn positive."""
        raise NotImplementedError


AC_POWER: Kinds[AcPowerSpec] = Kinds("AC power", AcPowerSpec, "diploee.facility.node_power")
"""Models by name: those of this module, and those registered from outside."""
