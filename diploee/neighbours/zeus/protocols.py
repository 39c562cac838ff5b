"""What chooses the two knobs of a recurring job: one small protocol for each.

An optimizer belongs to one recurring job and learns from its past recurrences. It knows nothing of
the traces, but for the oracle. All costs are in joules, see `diploee.neighbours.zeus.cost`.
"""

from __future__ import annotations

from typing import Protocol


class BatchSizeOptimizer(Protocol):
    """Chooses the batch size of each recurrence."""

    def predict(self) -> int:
        """Return the batch size of the next recurrence."""
        ...

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn that a recurrence has ended.

        Observations may come late and in another order than the predictions, and also of
        recurrences that overlapped and took no prediction.

        Parameters
        ----------
        batch_size : int
            Its batch size.
        cost_j : float
            Its cost [J], without the scaling by ``runtime_ratio``.
        converged : bool
            Whether it reached the target; False also where it was stopped early.
        """
        ...


class PowerLimitOptimizer(Protocol):
    """Chooses the power limit of each recurrence, once its batch size is known."""

    def predict(self, batch_size: int) -> float | None:
        """Return the power limit [W], or None to have all limits profiled in the first epoch."""
        ...

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Learn what an epoch costs [J] at a limit [W], from a profile or a recurrence."""
        ...
