"""Zeus' pruning: which batch sizes are worth a closer look, found out while the job recurs."""

from __future__ import annotations

from collections.abc import Sequence

N_ROUNDS = 2
"""Rounds of pruning; two leave a mean and a variance of every batch size that is kept."""


class PruningRounds:
    """Walk from the default batch size down, then up, each way to the first failure; twice.

    A failure is a recurrence that did not converge or was stopped early. Costs are taken to be
    convex in the batch size (the Zeus paper, section 4.3), so what lies beyond a failure is not
    tried. The second round walks over what is left, and starts from the cheapest batch size seen.
    Where a round starts counts as neither way: both are walked even if it fails.

    Parameters
    ----------
    batch_sizes : sequence of int
        Ascending.
    default : int
        Where the first round starts.
    """

    def __init__(self, batch_sizes: Sequence[int], default: int) -> None:
        self.kept = list(batch_sizes)
        self._start = default
        self._rounds_left = N_ROUNDS
        self._ways: list[list[int]] = []
        self._survivors: dict[int, float] = {}
        self._begin_round()

    @property
    def awaited(self) -> int | None:
        """Batch size that is to be tried next; None at the end of the rounds."""
        return self._ways[0][0] if self._ways else None

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Take the result of the batch size that is awaited; others tell pruning nothing."""
        if batch_size != self.awaited:
            return
        way = self._ways[0]
        way.pop(0)
        if converged:
            self._survivors[batch_size] = cost_j
        else:
            way.clear()
        self._ways = [way for way in self._ways if way]
        if not self._ways:
            self._end_round()

    def _begin_round(self) -> None:
        at = self.kept.index(self._start)
        ways = ([self._start], self.kept[:at][::-1], self.kept[at + 1 :])
        self._ways = [way for way in ways if way]
        self._survivors = {}

    def _end_round(self) -> None:
        if self._survivors:
            self._start = min(self._survivors, key=self._survivors.__getitem__)
            self.kept = sorted(self._survivors)
        else:  # nothing converged: the job goes on with what it was started with
            self.kept = [self._start]
        self._rounds_left -= 1
        if self._rounds_left:
            self._begin_round()
