"""Zeus' just-in-time power limits: a new batch size is profiled while it trains."""

from __future__ import annotations

from typing import Literal

from diploee.scenario.recurring import PowerLimitSpec
from diploee.zeus.optimizers.setting import Setting


class JitPowerLimit:
    """The cheapest limit per epoch of a profile that is taken when a batch size is first run.

    The first epoch of that run is cut into one part per limit and so costs their mean. As the
    limit changes the time and energy of an epoch but not the number of epochs, the cheapest limit
    per epoch is the cheapest to the target.
    """

    def __init__(self) -> None:
        self._seen: dict[int, dict[float, float]] = {}
        self._best_w: dict[int, float] = {}

    def predict(self, batch_size: int) -> float | None:
        """Return the cheapest limit [W] seen; None for a batch size that is not profiled yet."""
        return self._best_w.get(batch_size)

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Remember what an epoch costs."""
        seen = self._seen.setdefault(batch_size, {})
        if seen.get(power_limit_w) == cost_per_epoch_j:
            return
        seen[power_limit_w] = cost_per_epoch_j
        self._best_w[batch_size] = min(seen, key=seen.__getitem__)


class JitPowerLimitSpec(PowerLimitSpec):
    """Limits profiled while a new batch size trains."""

    kind: Literal["jit"] = "jit"

    def open(self, setting: Setting) -> JitPowerLimit:  # noqa: ARG002
        """Return a new one."""
        return JitPowerLimit()
