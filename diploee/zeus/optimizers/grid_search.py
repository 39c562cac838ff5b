"""Grid search: every pair once, batch sizes that fail left out, then the cheapest run seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from diploee.scenario.recurring import BatchSizeSpec, PowerLimitSpec
from diploee.zeus.optimizers.setting import Setting


class GridBatchSize:
    """Each batch size in turn, a fixed number of times; then the one of the cheapest recurrence.

    Parameters
    ----------
    batch_sizes : sequence of int
        In the order of the search.
    tries : int
        Recurrences with each; the number of power limits, where those are searched too.
    fallback : int
        Batch size to stay with if none converges.
    """

    def __init__(self, batch_sizes: Sequence[int], tries: int, fallback: int) -> None:
        self._left = [size for size in batch_sizes for _ in range(tries)]
        self._best = fallback
        self._lowest_cost_j = float("inf")

    def predict(self) -> int:
        """Return the next batch size of the grid; at its end, the best one."""
        return self._left[0] if self._left else self._best

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Go on in the grid; a batch size that failed is not tried again."""
        if not converged:
            self._left = [size for size in self._left if size != batch_size]
            return
        if batch_size in self._left:
            self._left.remove(batch_size)
        if cost_j < self._lowest_cost_j:
            self._lowest_cost_j, self._best = cost_j, batch_size


class GridPowerLimit:
    """Each limit of a batch size once, one a recurrence; then the cheapest per epoch.

    Parameters
    ----------
    limits_w : mapping of int to sequence of float
        Power limits [W] of each batch size, in the order of the search.
    """

    def __init__(self, limits_w: Mapping[int, Sequence[float]]) -> None:
        self._limits_w = limits_w
        self._seen: dict[int, dict[float, float]] = {}

    def predict(self, batch_size: int) -> float:
        """Return a limit [W] that was not tried yet; after all, the cheapest."""
        seen = self._seen.get(batch_size, {})
        for limit_w in self._limits_w[batch_size]:
            if limit_w not in seen:
                return limit_w
        return min(seen, key=seen.__getitem__)

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Remember what an epoch costs."""
        self._seen.setdefault(batch_size, {})[power_limit_w] = cost_per_epoch_j


class GridBatchSizeSpec(BatchSizeSpec):
    """Each batch size in turn."""

    goes_with: ClassVar[str] = "grid"
    kind: Literal["grid"] = "grid"

    def open(self, setting: Setting) -> GridBatchSize:
        """Return a new one."""
        tries = setting.workload.power_limits_w.size if setting.searches_limits else 1
        default = setting.default_batch_size
        # The default goes first, so that a batch size that never converges is stopped by its cost.
        others = [size for size in setting.batch_sizes if size != default]
        return GridBatchSize([default, *others], tries, default)


class GridPowerLimitSpec(PowerLimitSpec):
    """Each power limit in turn."""

    kind: Literal["grid"] = "grid"

    def open(self, setting: Setting) -> GridPowerLimit:
        """Return a new one."""
        pairs = zip(setting.batch_sizes, setting.epochs.pairs, strict=True)
        return GridPowerLimit({size: list(limits) for size, limits in pairs})
