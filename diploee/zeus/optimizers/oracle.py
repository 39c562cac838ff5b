"""The oracle: the best choice from the traces themselves, which nobody knows beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diploee.zeus.cost import oracle_pair
from diploee.zeus.optimizers.default import FixedBatchSize
from diploee.zeus.recurrence import Epoch
from diploee.zeus.workload import TrainingWorkload


def oracle_batch_size(workload: TrainingWorkload, eta: float) -> FixedBatchSize:
    """Return an optimizer that always takes the batch size of the lowest expected cost."""
    return FixedBatchSize(oracle_pair(workload, eta).batch_size)


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
