"""What an optimizer of one recurring job is made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
