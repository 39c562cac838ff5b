"""The optimizers of batch size and power limit, and what a scenario says of them by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from diploee.kinds import OwnKind
from diploee.model import Model
from diploee.neighbours.zeus.cost import oracle_pair
from diploee.neighbours.zeus.recurrence import Epoch, EpochTable
from diploee.neighbours.zeus.workload import TrainingWorkload
from diploee.scenario.recurring import BatchSizeSpec, PowerLimitSpec


@dataclass(frozen=True, eq=False)
class Setting:
    """What an optimizer is made from."""

    # The job; an honest optimizer takes only its batch sizes, limits and default from it
    workload: TrainingWorkload
    eta: float  # weight of the energy in the cost, 0-1
    epochs: EpochTable  # costs of its epochs
    rng: np.random.Generator  # for the optimizer's own draws
    searches_limits: bool = False  # the power limit is found by trying one limit a recurrence

    @property
    def batch_sizes(self) -> list[int]:
        """Batch sizes, ascending."""
        sizes: list[int] = self.workload.batch_sizes.tolist()
        return sizes

    @property
    def default_batch_size(self) -> int:
        """The workload's default batch size."""
        return self.workload.spec.default_batch_size


class FixedBatchSize:
    """Always the same batch size, such as the default.

    Parameters
    ----------
    batch_size : int
        Batch size.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size

    def predict(self) -> int:
        """Return the batch size."""
        return self._batch_size

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn nothing."""


class FixedPowerLimit:
    """Always the same power limit, such as the highest.

    Parameters
    ----------
    power_limit_w : float
        Power limit [W].
    """

    def __init__(self, power_limit_w: float) -> None:
        self._power_limit_w = power_limit_w

    def predict(self, batch_size: int) -> float:  # noqa: ARG002  # the protocol's argument
        """Return the power limit [W]."""
        return self._power_limit_w

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Learn nothing."""


class DefaultBatchSizeSpec(BatchSizeSpec):
    """Always the default batch size."""

    goes_with: ClassVar[str] = "max"
    kind: Literal["default"] = "default"

    def open(self, setting: Setting) -> FixedBatchSize:
        """Return a new one."""
        return FixedBatchSize(setting.default_batch_size)


class MaxPowerLimitSpec(PowerLimitSpec):
    """Always the highest power limit."""

    kind: Literal["max"] = "max"

    def open(self, setting: Setting) -> FixedPowerLimit:
        """Return a new one."""
        return FixedPowerLimit(float(setting.workload.power_limits_w[-1]))


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


class JitPowerLimit:
    """The cheapest limit per epoch of a profile that is taken when a batch size is first run.

    The first epoch of that run is cut into one part per limit and so costs their mean. As the
    limit changes the time and energy of an epoch but not the number of epochs, the cheapest limit
    per epoch is the cheapest to the target.
    """

    def __init__(self) -> None:
        self._seen: dict[int, dict[float, float]] = {}
        self._best_w: dict[int, float] = {}

    def predict(self, batch_size: int) -> float | None:
        """Return the cheapest limit [W] seen; None for a batch size that is not profiled yet."""
        return self._best_w.get(batch_size)

    def observe(self, batch_size: int, power_limit_w: float, cost_per_epoch_j: float) -> None:
        """Remember what an epoch costs."""
        seen = self._seen.setdefault(batch_size, {})
        if seen.get(power_limit_w) == cost_per_epoch_j:
            return
        seen[power_limit_w] = cost_per_epoch_j
        self._best_w[batch_size] = min(seen, key=seen.__getitem__)


class JitPowerLimitSpec(PowerLimitSpec):
    """Limits profiled while a new batch size trains."""

    kind: Literal["jit"] = "jit"

    def open(self, setting: Setting) -> JitPowerLimit:  # noqa: ARG002
        """Return a new one."""
        return JitPowerLimit()


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


class PruningRounds:
    """Walk from the default batch size down, then up, each way to the first failure; again.

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
    rounds : int
        Rounds of pruning; two leave a mean and a variance of every batch size that is kept.
    """

    def __init__(self, batch_sizes: Sequence[int], default: int, rounds: int = 2) -> None:
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


@dataclass(frozen=True)
class Belief:
    """What is held of the mean cost of a batch size before any was observed, and for how long."""

    mean_j: float = 0.0  # mean of the prior [J]
    precision: float = 0.0  # inverse variance of the prior [1/J^2]; 0 is a flat prior
    # Costs of a batch size that count, the latest ones, so that a drift is followed; 0 for all
    window: int = 0


class GaussianArm:
    """A conjugate normal belief in the mean cost of one batch size.

    Costs are taken as normal with an unknown mean, of a normal prior, and the population variance
    s2 of the n costs observed (the Zeus paper, Algorithm 2). With a flat prior the posterior of
    the mean is normal with the mean of the costs and the variance s2 / n. Equal costs are certain.

    Parameters
    ----------
    prior : Belief
        The prior, and the window of costs.
    """

    def __init__(self, prior: Belief = Belief()) -> None:  # it is frozen
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
        precision = prior.precision + learnt
        mean = (prior.precision * prior.mean_j + learnt * self._mean) / precision
        return mean, 1 / sqrt(precision)


def cheapest_draw(arms: Iterable[tuple[int, GaussianArm]], rng: np.random.Generator) -> int:
    """Draw a mean from the posterior of each arm and return the arm of the lowest."""
    best, lowest = -1, inf
    for name, arm in arms:
        draw = rng.normal(*arm.posterior)
        if draw < lowest:
            best, lowest = name, draw
    return best


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
    prior : Belief
        Of each batch size.
    rounds : int
        Of pruning.
    """

    def __init__(
        self,
        batch_sizes: Sequence[int],
        default: int,
        rng: np.random.Generator,
        prior: Belief = Belief(),
        rounds: int = 2,
    ) -> None:
        self.pruning = PruningRounds(batch_sizes, default, rounds)
        self._arms = {size: GaussianArm(prior) for size in batch_sizes}
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
        self._arms[batch_size].observe(cost_j)
        self.pruning.observe(batch_size, cost_j, converged)


class PlainThompson:
    """Thompson sampling alone: each batch size some times in random order, then by posteriors.

    Parameters
    ----------
    batch_sizes : sequence of int
        All of them are kept.
    rng : numpy.random.Generator
        For the draws.
    prior : Belief
        Of each batch size.
    explorations : int
        Costs of each batch size before the posteriors are drawn from.
    """

    def __init__(
        self,
        batch_sizes: Sequence[int],
        rng: np.random.Generator,
        prior: Belief,
        explorations: int,
    ) -> None:
        self._arms = {size: GaussianArm(prior) for size in batch_sizes}
        self._seen = dict.fromkeys(batch_sizes, 0)
        self._rng, self._explorations = rng, explorations

    def predict(self) -> int:
        """Return one of those seen too rarely, else one drawn from the posteriors."""
        rare = [size for size, n in self._seen.items() if n < self._explorations]
        if rare:
            return rare[self._rng.integers(len(rare))]
        return cheapest_draw(self._arms.items(), self._rng)

    def observe(self, batch_size: int, cost_j: float, converged: bool) -> None:
        """Learn a cost, that of a failure too."""
        del converged
        self._seen[batch_size] += 1
        self._arms[batch_size].observe(cost_j)


class _Prior(Model):
    window: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0, description="Latest costs of a batch size that count, to follow a drift; 0: all."
    )
    prior_mean_j: Annotated[float, Field(ge=0, le=1e18)] = Field(
        default=0.0, description="Mean of the prior of a batch size's cost [J]."
    )
    prior_precision: Annotated[float, Field(ge=0, le=1e18)] = Field(
        default=0.0, description="Inverse variance of that prior [1/J^2]; 0 is flat."
    )

    @property
    def prior(self) -> Belief:
        return Belief(self.prior_mean_j, self.prior_precision, self.window)


class ZeusBatchSizeSpec(_Prior, BatchSizeSpec):
    """Zeus' pruning and Thompson sampling."""

    kind: Literal["zeus"] = Field(
        default="zeus", description="Zeus' pruning, then Thompson sampling."
    )
    rounds: Annotated[int, Field(ge=2, le=100)] = Field(
        default=2, description="Rounds of pruning, the explorations of each batch size."
    )

    def open(self, setting: Setting) -> PruningThompson:
        """Return a new one."""
        return PruningThompson(
            setting.batch_sizes, setting.default_batch_size, setting.rng, self.prior, self.rounds
        )


class ThompsonBatchSizeSpec(_Prior, BatchSizeSpec):
    """Thompson sampling without pruning."""

    kind: Literal["thompson"] = Field(default="thompson", description="Thompson sampling alone.")
    explorations: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=2, description="Recurrences with each batch size before posteriors are drawn from."
    )

    def open(self, setting: Setting) -> PlainThompson:
        """Return a new one."""
        return PlainThompson(setting.batch_sizes, setting.rng, self.prior, self.explorations)


class OwnBatchSizeSpec(OwnKind, BatchSizeSpec):
    """An optimizer of the user's own, made from a Setting; it gets the other keys as arguments."""

    model_config = ConfigDict(extra="allow")


class OwnPowerLimitSpec(OwnKind, PowerLimitSpec):
    """An optimizer of the user's own, likewise."""

    model_config = ConfigDict(extra="allow")
