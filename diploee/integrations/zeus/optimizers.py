"""Optimizers of batch size and power limit; each class is also its scenario spec."""

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
    """Inputs of an optimizer: workload, energy weight and random generator."""

    # Only the oracles may use more than batch sizes, limits and default batch size
    workload: TrainingWorkload
    eta: float  # weight of the energy in the cost, 0-1
    rng: np.random.Generator  # for the optimizer's own draws

    @property
    def batch_sizes(self) -> list[int]:
        """Batch sizes of the workload, ascending."""
        sizes: list[int] = self.workload.batch_sizes.tolist()
        return sizes

    @property
    def default_batch_size(self) -> int:
        """The workload's default batch size."""
        return self.workload.spec.default_batch_size


class DefaultBatchSize(BatchSizeOptimizer):
    """Optimizer that always chooses the default batch size."""

    goes_with = "max"
    kind: Literal["default"] = "default"

    def _start(self, setting: Setting) -> None:
        self._batch_size = setting.default_batch_size


class _OracleBatchSize(BatchSizeOptimizer):
    """Optimizer that always chooses the batch size of the lowest expected cost."""

    goes_with = "oracle"
    kind: Literal["oracle"] = "oracle"

    def _start(self, setting: Setting) -> None:
        self._batch_size = oracle_pair(setting.workload, setting.eta).batch_size


class _MaxPowerLimit(PowerLimitOptimizer):
    """Optimizer that always chooses the highest power limit."""

    kind: Literal["max"] = "max"

    def _start(self, setting: Setting) -> None:
        highest_w = float(setting.workload.power_limits_w[-1])
        self._limit_w = dict.fromkeys(setting.batch_sizes, highest_w)


class _OraclePowerLimit(PowerLimitOptimizer):
    """Optimizer that knows each batch size's cheapest power limit without profiling."""

    kind: Literal["oracle"] = "oracle"

    def _start(self, setting: Setting) -> None:
        cheapest = np.nanargmin(cost_per_epoch_j(setting.workload, setting.eta), axis=1)
        limits_w = setting.workload.power_limits_w[cheapest].tolist()
        self._limit_w = dict(zip(setting.batch_sizes, limits_w, strict=True))


class JitPowerLimit(PowerLimitOptimizer):
    """Optimizer that profiles all power limits in a batch size's first epoch.

    The first epoch of the first run is divided into one part per limit, and its cost is
    the mean over limits. A limit changes the time and energy of an epoch but not the
    number of epochs. The limit with the lowest cost of an epoch therefore also has the
    lowest cost of a run.
    """

    kind: Literal["jit"] = "jit"
    _seen: dict[int, dict[float, float]] = PrivateAttr(default_factory=dict)

    def _start(self, setting: Setting) -> None:  # it knows nothing yet  # noqa: ARG002
        self._limit_w, self._seen = {}, {}

    def observe(
        self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float
    ) -> None:
        """Record the cost of an epoch [J], and update the cheapest limit."""
        costs_j = self._seen.setdefault(batch_size, {})
        if costs_j.get(power_limit_w) == cost_per_epoch_j:
            return
        costs_j[power_limit_w] = cost_per_epoch_j
        self._limit_w[batch_size] = min(costs_j, key=costs_j.__getitem__)


class Prior(Model):
    """Prior of a batch size's mean cost, and number of latest costs that are used."""

    window: Annotated[int, Field(ge=0, le=1_000_000)] = default(
        0,
        "Number of latest costs of a batch size that are used, to follow a drift; "
        "0 for all.",
    )
    prior_mean_j: Annotated[float, Field(ge=0, le=1e18)] = default(
        0.0, "Mean of the prior distribution of a batch size's cost [J]."
    )
    prior_precision: Annotated[float, Field(ge=0, le=1e18)] = default(
        0.0, "Inverse variance of the prior distribution [1/J^2]; 0 for a flat prior."
    )


FLAT = Prior()
"""Flat prior, with which all costs count."""


class PruningRounds:
    """Rounds of trials that remove failing batch sizes, down and up from a start.

    A round tries a start batch size, then smaller ones until a failure, then larger
    ones until a failure. A failure is a recurrence that did not converge or was stopped
    early; a failure of the start batch size does not count. Costs are assumed to be
    convex in the batch size (Zeus paper, section 4.3), so batch sizes beyond a failure
    are removed. The next round starts from the cheapest of the remaining batch sizes.
    After two rounds each batch size has a mean and a variance of its cost.
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
    def next_trial(self) -> int | None:
        """Batch size to try next, None after the last round."""
        return self._ways[0][0] if self._ways else None

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Record the result of the batch size on trial; ignore other batch sizes."""
        if batch_size != self.next_trial:
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
        start = self.kept.index(self._start)
        ways = ([self._start], self.kept[:start][::-1], self.kept[start + 1 :])
        self._ways = [way for way in ways if way]
        self._survivors = {}

    def _end_round(self) -> None:
        if self._survivors:
            self._start = min(self._survivors, key=self._survivors.__getitem__)
            self.kept = sorted(self._survivors)
        else:  # nothing converged: keep the batch size of the start
            self.kept = [self._start]
        self._rounds_left -= 1
        if self._rounds_left:
            self._begin_round()


class GaussianArm:
    """Posterior of one batch size's mean cost, with a conjugate normal prior.

    Costs are normal with an unknown mean and the population variance s2 of the n
    observed costs (Zeus paper, Algorithm 2). With the prior's mean m0 and precision p0,
    and the mean m of the costs, the posterior has the precision ``p = p0 + n / s2`` and
    the mean ``(p0 m0 + (n / s2) m) / p``. Equal costs have a variance of 0.
    """

    def __init__(self, prior: Prior = FLAT) -> None:
        self._prior = prior
        self._window: deque[float] = deque(maxlen=prior.window or None)
        self.n = 0
        self._mean = self._squares = 0.0

    def observe(self, cost: float) -> None:
        """Add a cost by Welford's update, which avoids cancellation."""
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
        """Mean and standard deviation of the posterior [J]."""
        prior = self._prior
        if not self._squares:
            return self._mean, 0.0
        learnt = self.n * self.n / self._squares
        precision = prior.prior_precision + learnt
        mean = (
            prior.prior_precision * prior.prior_mean_j + learnt * self._mean
        ) / precision
        return mean, 1 / sqrt(precision)


def thompson_choice(
    arms: Iterable[tuple[int, GaussianArm]], rng: np.random.Generator
) -> int:
    """Draw a mean cost from each arm's posterior, and return the cheapest arm."""
    best, lowest = -1, inf
    for name, arm in arms:
        draw = rng.normal(*arm.posterior)
        if draw < lowest:
            best, lowest = name, draw
    return best


class ZeusBatchSize(Prior, BatchSizeOptimizer):
    """Zeus' optimizer: pruning rounds, then Thompson sampling of the rest."""

    kind: Literal["zeus"] = default("zeus", "Zeus' pruning, then Thompson sampling.")
    rounds: Annotated[int, Field(ge=2, le=100)] = default(
        2, "Rounds of pruning, each of which tries every remaining batch size."
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
        """Return the batch size that pruning tries next, or draw from posteriors."""
        pruning, arms = self._pruning, self._arms
        awaited, remaining = pruning.next_trial, pruning.kept
        if awaited is not None:
            return awaited
        if len(remaining) == 1:
            return remaining[0]
        return thompson_choice(((size, arms[size]) for size in remaining), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Record a cost [J]; pruning removes batch sizes that fail."""
        self._arms[batch_size].observe(cost_j)
        self._pruning.observe(batch_size, cost_j, converged)


class ThompsonBatchSize(Prior, BatchSizeOptimizer):
    """Optimizer with Thompson sampling only, after random trials of each batch size."""

    kind: Literal["thompson"] = default("thompson", "Thompson sampling alone.")
    explorations: Annotated[int, Field(ge=1, le=1_000_000)] = default(
        2, "Recurrences with each batch size before Thompson sampling starts."
    )
    _arms: dict[int, GaussianArm] = PrivateAttr()
    _left: dict[int, int] = PrivateAttr()
    _rng: np.random.Generator = PrivateAttr()

    def _start(self, setting: Setting) -> None:
        self._arms = {size: GaussianArm(self) for size in setting.batch_sizes}
        self._left = dict.fromkeys(setting.batch_sizes, self.explorations)
        self._rng = setting.rng

    def predict(self) -> int:
        """Return a batch size with trials left, or draw from the posteriors."""
        rare = [size for size, n in self._left.items() if n > 0]
        if rare:
            return rare[self._rng.integers(len(rare))]
        return thompson_choice(self._arms.items(), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Record the cost of a recurrence [J], converged or not."""
        del converged
        self._left[batch_size] -= 1
        self._arms[batch_size].observe(cost_j)


class OwnBatchSize(ImportedKind, BatchSizeOptimizer):
    """A user's custom batch size optimizer, created from a `Setting` and YAML keys."""

    model_config = ConfigDict(extra="allow")


class OwnPowerLimit(ImportedKind, PowerLimitOptimizer):
    """A user's custom power limit optimizer, created from a `Setting` and YAML keys."""

    model_config = ConfigDict(extra="allow")
