"""Optimizers of batch size and power limit, each its own scenario spec."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field, PrivateAttr

from diploee.base.model import ImportedKind, Model, default
from diploee.integrations.zeus.workload import (
    TrainingWorkload,
    cost_per_epoch_j,
    oracle_pair,
)
from diploee.scenario.recurring import BatchSizeOptimizer, PowerLimitOptimizer


@dataclass(frozen=True, eq=False)
class Setting:
    """Inputs of an optimizer."""

    # The job; an honest optimizer takes only its batch sizes, limits and default from
    # it
    workload: TrainingWorkload
    eta: float  # weight of the energy in the cost, 0-1
    rng: np.random.Generator  # for the optimizer's own draws

    @property
    def batch_sizes(self) -> list[int]:
        """Batch sizes, ascending."""
        sizes: list[int] = self.workload.batch_sizes.tolist()
        return sizes

    @property
    def default_batch_size(self) -> int:
        """The workload's default batch size."""
        return self.workload.spec.default_batch_size


class DefaultBatchSize(BatchSizeOptimizer):
    """Always the default batch size."""

    goes_with = "max"
    kind: Literal["default"] = "default"

    def _start(self, setting: Setting) -> None:
        self._batch_size = setting.default_batch_size


class _OracleBatchSize(BatchSizeOptimizer):
    """Always the batch size of the lowest expected cost."""

    goes_with = "oracle"
    kind: Literal["oracle"] = "oracle"

    def _start(self, setting: Setting) -> None:
        self._batch_size = oracle_pair(setting.workload, setting.eta).batch_size


class _MaxPowerLimit(PowerLimitOptimizer):
    """Always the highest power limit."""

    kind: Literal["max"] = "max"

    def _start(self, setting: Setting) -> None:
        highest_w = float(setting.workload.power_limits_w[-1])
        self._limit_w = dict.fromkeys(setting.batch_sizes, highest_w)


class _OraclePowerLimit(PowerLimitOptimizer):
    """The limit of the lowest cost per epoch of each batch size, without profiling."""

    kind: Literal["oracle"] = "oracle"

    def _start(self, setting: Setting) -> None:
        cheapest = np.nanargmin(cost_per_epoch_j(setting.workload, setting.eta), axis=1)
        limits_w = setting.workload.power_limits_w[cheapest].tolist()
        self._limit_w = dict(zip(setting.batch_sizes, limits_w, strict=True))


class JitPowerLimit(PowerLimitOptimizer):
    """The cheapest limit per epoch, profiled when a batch size is first run.

    The first epoch of that run is cut into one part per limit and so costs their mean.
    As the limit changes the time and energy of an epoch but not the number of epochs,
    the cheapest limit per epoch is the cheapest to the target.
    """

    kind: Literal["jit"] = "jit"
    _seen: dict[int, dict[float, float]] = PrivateAttr(default_factory=dict)

    def _start(self, setting: Setting) -> None:  # it knows nothing yet  # noqa: ARG002
        self._limit_w, self._seen = {}, {}

    def observe(
        self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float
    ) -> None:
        """Remember what an epoch costs."""
        seen = self._seen.setdefault(batch_size, {})
        if seen.get(power_limit_w) == cost_per_epoch_j:
            return
        seen[power_limit_w] = cost_per_epoch_j
        self._limit_w[batch_size] = min(seen, key=seen.__getitem__)


class Prior(Model):
    """Belief about the mean cost of a batch size, and how many of its costs count."""

    window: Annotated[int, Field(ge=0, le=1_000_000)] = default(
        0, "Latest costs of a batch size that count, to follow a drift; 0: all."
    )
    prior_mean_j: Annotated[float, Field(ge=0, le=1e18)] = default(
        0.0, "Mean of the prior of a batch size's cost [J]."
    )
    prior_precision: Annotated[float, Field(ge=0, le=1e18)] = default(
        0.0, "Inverse variance of that prior [1/J^2]; 0 is flat."
    )


FLAT = Prior()
"""No belief before a cost was seen; all costs count."""


class PruningRounds:
    """Walk from the default batch size down, then up, each way to a failure; again.

    A failure is a recurrence that did not converge or was stopped early. Costs are
    taken to be convex in the batch size (the Zeus paper, section 4.3), so what lies
    beyond a failure is not tried. The second round walks over what is left, and starts
    from the cheapest batch size seen: two leave a mean and a variance of all that are
    kept. Where a round starts counts as neither way: both are walked even if it fails.
    """

    def __init__(
        self, batch_sizes: Sequence[int], default: int, rounds: int = 2
    ) -> None:
        self.kept = list(batch_sizes)
        self._start = default
        self._rounds_left = rounds
        self._ways: list[list[int]] = []
        self._survivors: dict[int, float] = {}
        self._begin_round()

    @property
    def awaited(self) -> int | None:
        """Batch size that is to be tried next; None at the end of the rounds."""
        return self._ways[0][0] if self._ways else None

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Take the result of the batch size that is awaited.

        Others tell pruning nothing.
        """
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


class GaussianArm:
    """A conjugate normal belief in the mean cost of one batch size.

    Costs are taken as normal with an unknown mean, of a normal prior, and the
    population variance s2 of the n costs observed (the Zeus paper, Algorithm 2). With a
    flat prior the posterior of the mean is normal with the mean of the costs and the
    variance s2 / n. Equal costs are certain.
    """

    def __init__(self, prior: Prior = FLAT) -> None:
        self._prior = prior
        self._window: deque[float] = deque(maxlen=prior.window or None)
        self.n = 0
        self._mean = self._squares = 0.0

    def observe(self, cost: float) -> None:
        """Add a cost (Welford's update, which does not cancel)."""
        if self._prior.window:
            self._window.append(cost)
            self.n, self._mean = len(self._window), fmean(self._window)
            self._squares = sum((each - self._mean) ** 2 for each in self._window)
            return
        self.n += 1
        off = cost - self._mean
        self._mean += off / self.n
        self._squares += off * (cost - self._mean)

    @property
    def posterior(self) -> tuple[float, float]:
        """Mean and standard deviation of the posterior."""
        prior = self._prior
        if not self._squares:
            return self._mean, 0.0
        learnt = self.n * self.n / self._squares
        precision = prior.prior_precision + learnt
        mean = (
            prior.prior_precision * prior.prior_mean_j + learnt * self._mean
        ) / precision
        return mean, 1 / sqrt(precision)


def cheapest_draw(
    arms: Iterable[tuple[int, GaussianArm]], rng: np.random.Generator
) -> int:
    """Draw a mean from the posterior of each arm and return the arm of the lowest."""
    best, lowest = -1, inf
    for name, arm in arms:
        draw = rng.normal(*arm.posterior)
        if draw < lowest:
            best, lowest = name, draw
    return best


class ZeusBatchSize(Prior, BatchSizeOptimizer):
    """Explore from the default batch size, then sample among what converges."""

    kind: Literal["zeus"] = default("zeus", "Zeus' pruning, then Thompson sampling.")
    rounds: Annotated[int, Field(ge=2, le=100)] = default(
        2, "Rounds of pruning, the explorations of each batch size."
    )
    _pruning: PruningRounds = PrivateAttr()
    _arms: dict[int, GaussianArm] = PrivateAttr()
    _rng: np.random.Generator = PrivateAttr()

    def _start(self, setting: Setting) -> None:
        sizes = setting.batch_sizes
        self._pruning = PruningRounds(sizes, setting.default_batch_size, self.rounds)
        self._arms = {size: GaussianArm(self) for size in sizes}
        self._rng = setting.rng

    def predict(self) -> int:
        """Return the batch size that pruning awaits.

        After it, one drawn from the posteriors.
        """
        pruning, arms = self._pruning, self._arms
        awaited, kept = pruning.awaited, pruning.kept
        if awaited is not None:
            return awaited
        if len(kept) == 1:
            return kept[0]
        return cheapest_draw(((size, arms[size]) for size in kept), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn a cost, of whatever stage.

        What fails while pruning leaves the choice.
        """
        self._arms[batch_size].observe(cost_j)
        self._pruning.observe(batch_size, cost_j, converged)


class ThompsonBatchSize(Prior, BatchSizeOptimizer):
    """Thompson sampling alone.

    Each batch size some times in random order, then by posteriors.
    """

    kind: Literal["thompson"] = default("thompson", "Thompson sampling alone.")
    explorations: Annotated[int, Field(ge=1, le=1_000_000)] = default(
        2, "Recurrences with each batch size before posteriors are drawn from."
    )
    _arms: dict[int, GaussianArm] = PrivateAttr()
    _left: dict[int, int] = PrivateAttr()
    _rng: np.random.Generator = PrivateAttr()

    def _start(self, setting: Setting) -> None:
        self._arms = {size: GaussianArm(self) for size in setting.batch_sizes}
        self._left = dict.fromkeys(setting.batch_sizes, self.explorations)
        self._rng = setting.rng

    def predict(self) -> int:
        """Return one of those seen too rarely, else one drawn from the posteriors."""
        rare = [size for size, n in self._left.items() if n > 0]
        if rare:
            return rare[self._rng.integers(len(rare))]
        return cheapest_draw(self._arms.items(), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn a cost, that of a failure too."""
        del converged
        self._left[batch_size] -= 1
        self._arms[batch_size].observe(cost_j)


class OwnBatchSize(ImportedKind, BatchSizeOptimizer):
    """An optimizer of the user's own, made from a Setting.

    It gets the other keys as arguments.
    """

    model_config = ConfigDict(extra="allow")


class OwnPowerLimit(ImportedKind, PowerLimitOptimizer):
    """An optimizer of the user's own, likewise."""

    model_config = ConfigDict(extra="allow")
