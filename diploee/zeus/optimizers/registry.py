"""Names of the optimizers, and how each is made for one recurring job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from diploee.zeus.optimizers.default import FixedBatchSize, FixedPowerLimit
from diploee.zeus.optimizers.grid_search import GridBatchSize, GridPowerLimit
from diploee.zeus.optimizers.jit_power_limit import JitPowerLimit
from diploee.zeus.optimizers.oracle import OraclePowerLimit, oracle_batch_size
from diploee.zeus.optimizers.pruning_gts import PruningThompson
from diploee.zeus.protocols import BatchSizeOptimizer, PowerLimitOptimizer
from diploee.zeus.recurrence import EpochTable
from diploee.zeus.workload import TrainingWorkload


@dataclass(frozen=True, eq=False)
class Setting:
    """What an optimizer is made from.

    Parameters
    ----------
    workload : TrainingWorkload
        The job; an honest optimizer takes only its batch sizes, limits and default from it.
    eta : float
        Weight of the energy in the cost, 0-1.
    epochs : EpochTable
        Costs of its epochs.
    rng : numpy.random.Generator
        For the optimizer's own draws.
    searches_limits : bool
        The power limit is found by trying one limit a recurrence.
    """

    workload: TrainingWorkload
    eta: float
    epochs: EpochTable
    rng: np.random.Generator
    searches_limits: bool = False

    @property
    def batch_sizes(self) -> list[int]:
        """Batch sizes, ascending."""
        sizes: list[int] = self.workload.batch_sizes.tolist()
        return sizes

    @property
    def default_batch_size(self) -> int:
        """The workload's default batch size."""
        return self.workload.spec.default_batch_size


BatchSizeFactory = Callable[[Setting], BatchSizeOptimizer]
PowerLimitFactory = Callable[[Setting], PowerLimitOptimizer]


def _grid_batch_size(setting: Setting) -> GridBatchSize:
    tries = setting.workload.power_limits_w.size if setting.searches_limits else 1
    default = setting.default_batch_size
    # The default goes first, so that a batch size that never converges is stopped by its cost.
    others = [size for size in setting.batch_sizes if size != default]
    return GridBatchSize([default, *others], tries, default)


def _grid_power_limit(setting: Setting) -> GridPowerLimit:
    limits_w = {
        size: list(limits)
        for size, limits in zip(setting.batch_sizes, setting.epochs.pairs, strict=True)
    }
    return GridPowerLimit(limits_w)


BATCH_SIZE_OPTIMIZERS: Mapping[str, BatchSizeFactory] = {
    "zeus": lambda s: PruningThompson(s.batch_sizes, s.default_batch_size, s.rng),
    "default": lambda s: FixedBatchSize(s.default_batch_size),
    "oracle": lambda s: oracle_batch_size(s.workload, s.eta),
    "grid": _grid_batch_size,
}
"""How to make each batch size optimizer, by name."""

POWER_LIMIT_OPTIMIZERS: Mapping[str, PowerLimitFactory] = {
    "jit": lambda _: JitPowerLimit(),
    "max": lambda s: FixedPowerLimit(float(s.workload.power_limits_w[-1])),
    "oracle": lambda s: OraclePowerLimit(s.workload, s.epochs.pairs),
    "grid": _grid_power_limit,
}
"""How to make each power limit optimizer, by name."""

COMPANIONS: Mapping[str, str] = {
    "zeus": "jit",
    "default": "max",
    "oracle": "oracle",
    "grid": "grid",
}
"""The power limit optimizer that goes with a batch size optimizer where none is named."""
