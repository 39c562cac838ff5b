"""`TrainingWorkload`: measured time per epoch, power, and epochs to a target.

A recurring job has two settings, the batch size b and the GPU power limit p; a *pair*
is one value of each. Zeus (You et al., NSDI 2023, Eq. 2) defines the time to accuracy
TTA = epochs to the target x time per epoch, the energy to accuracy ETA = TTA x average
power, and the cost C(b, p; eta) = eta ETA + (1 - eta) MaxPower TTA, with the weight eta
of energy and the highest power limit MaxPower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diploee.base.errors import Brief, WorkloadError, shown
from diploee.base.tables import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True)
class WorkloadSpec(Brief):
    """Names and defaults that select a workload in the traces."""

    # Names in the traces, compared without regard to case
    dataset: str
    network: str
    optimizer: str
    default_batch_size: int  # b0, the users' batch size
    # Validation metric at which training ends, a value in the train trace
    target_metric: float
    max_epochs: int = 100  # maximum epochs of a run

    @property
    def name(self) -> str:
        """Name of the workload in tables and options: its dataset."""
        return self.dataset


KNOWN_WORKLOADS: Mapping[str, WorkloadSpec] = {
    spec.name: spec
    for spec in (
        WorkloadSpec("cifar100", "shufflenetv2", "adadelta", 1024, 0.60),
        WorkloadSpec("imagenet", "resnet50", "adadelta", 256, 0.65),
        WorkloadSpec("librispeech", "deepspeech2", "adamw", 192, 40.0, 16),
        WorkloadSpec("movielens-1m", "ncf", "adam", 1024, 0.41),
        WorkloadSpec("sentiment140", "bert_base_uncased", "adamw", 128, 0.84, 10),
        WorkloadSpec("squad", "bert_base_uncased", "adamw", 32, 84.0, 6),
        # Workloads of the shipped SYNTHETIC traces
        WorkloadSpec("synthetic-vision", "synthetic-cnn", "sgd", 1024, 0.60),
        WorkloadSpec("synthetic-language", "synthetic-transformer", "adamw", 32, 0.60),
        WorkloadSpec("synthetic-recommendation", "synthetic-mlp", "adam", 512, 0.60),
    )
}
"""Workloads that can be named by their dataset alone.

Those of the Zeus traces with defaults and targets of You et al., NSDI 2023, Table 1,
and with the highest numbers of epochs of the examples of Zeus' own simulator.
"""


@dataclass(frozen=True, eq=False)
class TrainingWorkload(Brief):
    """Measured data of one workload on one GPU model: B batch sizes, L power limits.

    `WorkloadError` if the default pair is not in the data, or no path reaches the
    target.
    """

    spec: WorkloadSpec  # requested workload
    gpu: str  # GPU model of the measurements
    max_power_w: float  # highest power limit of the GPU [W], MaxPower of the cost
    # (B,), ascending; each has a training path and a measured limit
    batch_sizes: Int64Array
    # (L,), ascending [W]; each was measured for some batch size
    power_limits_w: Float64Array
    time_per_epoch_s: Float64Array  # (B, L), NaN for pairs without measurement
    average_power_w: Float64Array  # (B, L), of the GPU [W]; NaN as above
    # Epochs of each recorded path to the target, by batch size; infinite for paths
    # that never reach the target
    target_epochs: tuple[Float64Array, ...]

    def __post_init__(self) -> None:
        if not np.isfinite(np.concatenate(self.target_epochs)).any():
            raise WorkloadError(
                f"{self.name}: no training path reaches the target "
                f"{self.spec.target_metric:g}; choose a target that can be reached"
            )
        row = self.batch_index(self.spec.default_batch_size)
        if np.isnan(self.time_per_epoch_s[row, -1]):
            raise WorkloadError(
                f"{self.name}: the default batch size {self.spec.default_batch_size} "
                "was not measured at the highest power limit, "
                f"{self.power_limits_w[-1]:g} W (its limits: "
                f"{join_numbers(self.limits_of(row))} W); choose another default "
                "batch size"
            )

    @property
    def name(self) -> str:
        """Name of the workload: its dataset."""
        return self.spec.name

    @property
    def default_row(self) -> int:
        """Index of the default batch size."""
        return self.batch_index(self.spec.default_batch_size)

    def batch_index(self, batch_size: int) -> int:
        """Return the index of a batch size; `WorkloadError` if not measured."""
        row = int(np.searchsorted(self.batch_sizes, batch_size))
        if row == self.batch_sizes.size or self.batch_sizes[row] != batch_size:
            raise WorkloadError(
                f"{self.name}: batch size {shown(batch_size)} is not in the data, "
                f"expected one of {join_numbers(self.batch_sizes)}"
            )
        return row

    def check_limit(self, row: int, power_limit_w: float) -> None:
        """Raise `WorkloadError` unless a limit [W] was measured for a batch size."""
        if power_limit_w not in self.limits_of(row):
            raise WorkloadError(
                f"{self.name}: power limit {power_limit_w:g} W was never measured for "
                f"batch size {self.batch_sizes[row]} on {self.gpu}, expected one of "
                f"{join_numbers(self.limits_of(row))}"
            )

    def limits_of(self, row: int) -> Float64Array:
        """Return the power limits [W] measured for a batch size, ascending."""
        limits_w: Float64Array = self.power_limits_w[
            ~np.isnan(self.time_per_epoch_s[row])
        ]
        return limits_w

    @cached_property
    def mean_epochs(self) -> Float64Array:
        """Mean epochs of paths that reach the target, NaN without any, shape (B,)."""
        reached = [epochs[np.isfinite(epochs)] for epochs in self.target_epochs]
        return np.array(
            [epochs.mean() if epochs.size else np.nan for epochs in reached]
        )

    def mean_time_to_target_s(self, batch_index: int, limit_index: int) -> float:
        """Return the mean training time to the target [s].

        The batch size and the power limit are given by their indices.
        """
        time_per_epoch_s = self.time_per_epoch_s[batch_index, limit_index]
        return float(self.mean_epochs[batch_index] * time_per_epoch_s)

    @cached_property
    def always_converges(self) -> BoolArray:
        """Mask of batch sizes whose recorded paths all reach the target, shape (B,)."""
        return np.array(
            [bool(np.isfinite(epochs).all()) for epochs in self.target_epochs]
        )


def join_numbers(values: Int64Array | Float64Array) -> str:
    """Return numbers as text for an error message, such as ``8, 16, 32``."""
    return ", ".join(
        f"{value:g}" if value % 1 else f"{value:.0f}" for value in values.tolist()
    )


def check_eta(eta: float) -> None:
    """Raise `WorkloadError` unless the energy weight eta is from 0 to 1."""
    if not 0 <= eta <= 1:
        raise WorkloadError(
            f"eta is {shown(eta)}, expected a number from 0 (time only) to 1 (energy "
            "only)"
        )


def cost_per_epoch_j(workload: TrainingWorkload, eta: float) -> Float64Array:
    """Return the cost of one epoch [J] by batch size and power limit, shape (B, L).

    ``C = T (eta P + (1 - eta) MaxPower)`` with time per epoch T [s], average power P
    [W] and energy weight eta (Zeus paper, Eq. 2); NaN for pairs without measurement.
    """
    power_w = eta * workload.average_power_w + (1 - eta) * workload.max_power_w
    cost_j: Float64Array = workload.time_per_epoch_s * power_w
    return cost_j


def expected_cost_j(workload: TrainingWorkload, eta: float) -> Float64Array:
    """Return the mean cost to the target [J], shape (B, L).

    The mean is over recorded paths that reach the target. It is NaN for a batch size
    without such a path, and for a batch size and power limit without measurement.
    """
    check_eta(eta)
    cost_j: Float64Array = workload.mean_epochs[:, None] * cost_per_epoch_j(
        workload, eta
    )
    return cost_j


@dataclass(frozen=True)
class _Pair:
    """A batch size and a power limit of a workload, with the expected cost [J]."""

    row: int  # index of the batch size
    column: int  # index of the power limit
    batch_size: int
    power_limit_w: float
    cost_j: float


def default_pair(workload: TrainingWorkload, eta: float) -> _Pair:
    """Return the default batch size with the highest power limit."""
    return _pair(workload, expected_cost_j(workload, eta), workload.default_row, -1)


def oracle_pair(workload: TrainingWorkload, eta: float) -> _Pair:
    """Return the batch size and power limit of lowest expected cost in the traces.

    Batch sizes with paths that never reach the target are considered only if there are
    no others, as the mean over successful paths excludes the cost of failures.
    """
    cost_j = expected_cost_j(workload, eta)
    if workload.always_converges.any():
        cost_j[~workload.always_converges] = np.nan
    return _cheapest(workload, cost_j)


@dataclass(frozen=True)
class Saving(Brief):
    """Cheapest allowed batch size and power limit, with the saved part of the cost."""

    pair: _Pair  # batch size and power limit
    fraction: float  # saved fraction of the default pair's cost, 0-1


@dataclass(frozen=True)
class Savings(Brief):
    """Largest savings by a choice of power limit, of batch size, or of both."""

    power_limit_only: Saving  # at the default batch size
    batch_size_only: Saving  # at the highest power limit
    both: Saving  # of all pairs


def best_savings(workload: TrainingWorkload, eta: float = 1.0) -> Savings:
    """Return the best savings by batch size, by power limit, and by both together.

    Parameters
    ----------
    workload : TrainingWorkload
        Measured data of a workload.
    eta : float
        Weight of the energy in the cost, 0-1; 1 (the default) means energy only.

    Raises
    ------
    WorkloadError
        If `eta` is not from 0 to 1, or the default batch size never reaches the target.
    """
    cost_j = expected_cost_j(workload, eta)
    base = default_pair(workload, eta)
    if np.isnan(base.cost_j):
        raise WorkloadError(
            f"{workload.name}: the default batch size {base.batch_size} never reaches "
            f"the target {workload.spec.target_metric:g}; choose another default "
            "batch size"
        )

    def best(rows: slice, columns: slice) -> Saving:
        allowed_j = np.full_like(cost_j, np.nan)
        allowed_j[rows, columns] = cost_j[rows, columns]
        pair = _cheapest(workload, allowed_j)
        return Saving(pair, 1 - pair.cost_j / base.cost_j)

    all_, row = slice(None), slice(base.row, base.row + 1)
    return Savings(best(row, all_), best(all_, slice(-1, None)), best(all_, all_))


def _cheapest(workload: TrainingWorkload, cost_j: Float64Array) -> _Pair:
    row, column = np.unravel_index(int(np.nanargmin(cost_j)), cost_j.shape)
    return _pair(workload, cost_j, int(row), int(column))


def _pair(
    workload: TrainingWorkload, cost_j: Float64Array, row: int, column: int
) -> _Pair:
    column %= workload.power_limits_w.size
    return _Pair(
        row,
        column,
        int(workload.batch_sizes[row]),
        float(workload.power_limits_w[column]),
        float(cost_j[row, column]),
    )
