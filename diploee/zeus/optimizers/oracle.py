"""The oracle: the best choice from the traces themselves, which nobody knows beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from diploee.scenario.recurring import BatchSizeSpec, PowerLimitSpec
from diploee.zeus.cost import oracle_pair
from diploee.zeus.optimizers.default import FixedBatchSize
from diploee.zeus.optimizers.setting import Setting
from diploee.zeus.recurrence import Epoch
from diploee.zeus.workload import TrainingWorkload


class OraclePowerLimit:
    """The limit of the lowest cost per epoch for every batch size, without profiling.

    Parameters
    ----------
    workload : TrainingWorkload
        Traces.
    pairs : sequence of mapping
        `EpochTable.pairs` of the workload.
    """

    def __init__(self, workload: TrainingWorkload, pairs: Sequence[Mapping[float, Epoch]]) -> None:
        self._best_w = {
            int(size): min(limits, key=lambda limit_w: limits[limit_w].cost_j)
            for size, limits in zip(workload.batch_sizes, pairs, strict=True)
        }

    def predict(self, batch_size: int) -> float:
        """Return the best power limit [W]."""
        return self._best_w[batch_size]

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Learn nothing."""


class OracleBatchSizeSpec(BatchSizeSpec):
    """Always the batch size of the lowest expected cost."""

    goes_with: ClassVar[str] = "oracle"
    kind: Literal["oracle"] = "oracle"

    def open(self, setting: Setting) -> FixedBatchSize:
        """Return a new one."""
        return FixedBatchSize(oracle_pair(setting.workload, setting.eta).batch_size)


class OraclePowerLimitSpec(PowerLimitSpec):
    """The best power limit of each batch size."""

    kind: Literal["oracle"] = "oracle"

    def open(self, setting: Setting) -> OraclePowerLimit:
        """Return a new one."""
        return OraclePowerLimit(setting.workload, setting.epochs.pairs)
