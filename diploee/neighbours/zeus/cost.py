"""Cost of a pair of batch size and power limit, and the best savings over the default pair.

Zeus (You et al., NSDI 2023): time to accuracy TTA = target epochs x time per epoch; energy to
accuracy ETA = TTA x average power; cost C(b, p; eta) = eta ETA + (1 - eta) MaxPower TTA (Eq. 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.errors import WorkloadError, shown
from diploee.neighbours.zeus.workload import TrainingWorkload
from diploee.tables import Float64Array


def check_eta(eta: float) -> None:
    """Raise `WorkloadError` unless the weight of energy is a number from 0 to 1."""
    if not 0 <= eta <= 1:
        raise WorkloadError(
            f"eta is {shown(eta)}, expected a number from 0 (time alone) to 1 (energy alone)"
        )


def cost_per_epoch_j(workload: TrainingWorkload, eta: float) -> Float64Array:
    """Return the cost of one epoch [J] of every pair, shape (B, L); NaN where not measured."""
    power_w = eta * workload.average_power_w + (1 - eta) * workload.max_power_w
    cost_j: Float64Array = workload.time_per_epoch_s * power_w
    return cost_j


def expected_cost_j(workload: TrainingWorkload, eta: float) -> Float64Array:
    """Return the mean cost to the target of every pair [J], shape (B, L).

    It is the mean over the recorded paths that reach the target; NaN where none does or the pair
    was not measured.
    """
    check_eta(eta)
    cost_j: Float64Array = workload.mean_epochs[:, None] * cost_per_epoch_j(workload, eta)
    return cost_j


@dataclass(frozen=True)
class Pair:
    """A batch size and a power limit of a workload, and their expected cost."""

    row: int  # index of the batch size
    column: int  # index of the power limit
    batch_size: int
    power_limit_w: float
    cost_j: float


def default_pair(workload: TrainingWorkload, eta: float) -> Pair:
    """Return the default batch size at the highest power limit."""
    return _pair(workload, expected_cost_j(workload, eta), workload.default_row, -1)


def oracle_pair(workload: TrainingWorkload, eta: float) -> Pair:
    """Return the pair of the lowest expected cost: what a user who knew the traces would run.

    A batch size of which some path never reaches the target is only considered if there is no
    other: its mean over the paths that do says nothing of what the failures cost.
    """
    cost_j = expected_cost_j(workload, eta)
    if workload.always_converges.any():
        cost_j[~workload.always_converges] = np.nan
    return _cheapest(workload, cost_j)


@dataclass(frozen=True)
class Saving:
    """The cheapest pair under some freedom."""

    pair: Pair  # batch size and power limit
    fraction: float  # saved over the default pair, 0-1


@dataclass(frozen=True)
class Savings:
    """Best savings over the default pair."""

    power_limit_only: Saving  # at the default batch size
    batch_size_only: Saving  # at the highest power limit
    both: Saving  # of all pairs


def best_savings(workload: TrainingWorkload, eta: float = 1.0) -> Savings:
    """Return the best savings that each knob alone and both together can give.

    Parameters
    ----------
    workload : TrainingWorkload
        Traces.
    eta : float
        Weight of the energy in the cost, 0-1; 1 (the default) asks for energy alone.

    Raises
    ------
    WorkloadError
        If `eta` is not from 0 to 1, or the default batch size never reaches the target.
    """
    cost_j = expected_cost_j(workload, eta)
    base = default_pair(workload, eta)
    if np.isnan(base.cost_j):
        raise WorkloadError(
            f"{workload.name}: the default batch size {base.batch_size} never reaches the target "
            f"{workload.spec.target_metric:g}; choose another default batch size"
        )

    def best(rows: slice, columns: slice) -> Saving:
        allowed_j = np.full_like(cost_j, np.nan)
        allowed_j[rows, columns] = cost_j[rows, columns]
        pair = _cheapest(workload, allowed_j)
        return Saving(pair, 1 - pair.cost_j / base.cost_j)

    all_, row = slice(None), slice(base.row, base.row + 1)
    return Savings(best(row, all_), best(all_, slice(-1, None)), best(all_, all_))


def _cheapest(workload: TrainingWorkload, cost_j: Float64Array) -> Pair:
    row, column = np.unravel_index(int(np.nanargmin(cost_j)), cost_j.shape)
    return _pair(workload, cost_j, int(row), int(column))


def _pair(workload: TrainingWorkload, cost_j: Float64Array, row: int, column: int) -> Pair:
    column %= workload.power_limits_w.size
    return Pair(
        row,
        column,
        int(workload.batch_sizes[row]),
        float(workload.power_limits_w[column]),
        float(cost_j[row, column]),
    )
