"""What users do who optimize nothing: always the same batch size, always the same limit."""

from __future__ import annotations

from typing import ClassVar, Literal

from diploee.scenario.recurring import BatchSizeSpec, PowerLimitSpec
from diploee.zeus.optimizers.setting import Setting


class FixedBatchSize:
    """Always the same batch size, such as the default.

    Parameters
    ----------
    batch_size : int
        Batch size.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size

    def predict(self) -> int:
        """Return the batch size."""
        return self._batch_size

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn nothing."""


class FixedPowerLimit:
    """Always the same power limit, such as the highest.

    Parameters
    ----------
    power_limit_w : float
        Power limit [W].
    """

    def __init__(self, power_limit_w: float) -> None:
        self._power_limit_w = power_limit_w

    def predict(self, batch_size: int) -> float:  # noqa: ARG002  # the protocol's argument
        """Return the power limit [W]."""
        return self._power_limit_w

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Learn nothing."""


class DefaultBatchSizeSpec(BatchSizeSpec):
    """Always the default batch size."""

    goes_with: ClassVar[str] = "max"
    kind: Literal["default"] = "default"

    def open(self, setting: Setting) -> FixedBatchSize:
        """Return a new one."""
        return FixedBatchSize(setting.default_batch_size)


class MaxPowerLimitSpec(PowerLimitSpec):
    """Always the highest power limit."""

    kind: Literal["max"] = "max"

    def open(self, setting: Setting) -> FixedPowerLimit:
        """Return a new one."""
        return FixedPowerLimit(float(setting.workload.power_limits_w[-1]))
