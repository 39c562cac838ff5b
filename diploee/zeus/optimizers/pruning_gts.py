"""Zeus' batch size optimizer: prune in two rounds, then Gaussian Thompson sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from diploee.scenario.recurring import BatchSizeSpec
from diploee.zeus.optimizers.pruning import PruningRounds
from diploee.zeus.optimizers.setting import Setting
from diploee.zeus.optimizers.thompson import GaussianArm, cheapest_draw


class PruningThompson:
    """Explore from the default batch size, keep what converges, then sample among the kept.

    Parameters
    ----------
    batch_sizes : sequence of int
        Ascending.
    default : int
        Where the search starts.
    rng : numpy.random.Generator
        For the draws from the posteriors.
    """

    def __init__(self, batch_sizes: Sequence[int], default: int, rng: np.random.Generator) -> None:
        self.pruning = PruningRounds(batch_sizes, default)
        self._arms: dict[int, GaussianArm] = {}
        self._rng = rng

    def predict(self) -> int:
        """Return the batch size that pruning awaits; after it, one drawn from the posteriors."""
        awaited = self.pruning.awaited
        if awaited is not None:
            return awaited
        kept = self.pruning.kept
        if len(kept) == 1:
            return kept[0]
        return cheapest_draw(((size, self._arms[size]) for size in kept), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn a cost, of whatever stage; what fails while pruning leaves the choice."""
        self._arms.setdefault(batch_size, GaussianArm()).observe(cost_j)
        self.pruning.observe(batch_size, cost_j, converged)


class ZeusBatchSizeSpec(BatchSizeSpec):
    """Zeus' pruning and Thompson sampling."""

    kind: Literal["zeus"] = "zeus"

    def open(self, setting: Setting) -> PruningThompson:
        """Return a new one."""
        return PruningThompson(setting.batch_sizes, setting.default_batch_size, setting.rng)
