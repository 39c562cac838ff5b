"""One recurrence of a job: from a pair, a training path and a stopping threshold to its cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from diploee.tables import Float64Array
from diploee.zeus.cost import check_eta, cost_per_epoch_j
from diploee.zeus.workload import TrainingWorkload


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch takes: time [s], energy [J] and cost [J]."""

    time_s: float
    energy_j: float
    cost_j: float


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """How a recurrence went.

    Parameters
    ----------
    time_s, energy_j, cost_j : float
        What it took [s, J, J].
    converged : bool
        It reached its target.
    stopped : bool
        It was stopped early, at the threshold.
    """

    time_s: float
    energy_j: float
    cost_j: float
    converged: bool
    stopped: bool


def run_once(
    epoch: Epoch,
    n_epochs: float,
    stop_at_j: float = inf,
    profile: Epoch | None = None,
    give_up_epochs: float = inf,
) -> TrainingRun:
    """Run one training path.

    Parameters
    ----------
    epoch : Epoch
        An epoch at the chosen pair.
    n_epochs : float
        Epochs that the path takes to the target; infinite where it never gets there.
    stop_at_j : float
        Cost at which the run is stopped [J], beta x the lowest cost so far.
    profile : Epoch, optional
        The first epoch, where all power limits are profiled in it.
    give_up_epochs : float
        Epochs after which a path that never gets there ends, where no threshold stops it.

    Returns
    -------
    TrainingRun
        A stopped run costs exactly `stop_at_j`.
    """
    converged = n_epochs < inf
    if not converged:
        n_epochs = inf if stop_at_j < inf else give_up_epochs
    first, n_first = (profile, min(n_epochs, 1.0)) if profile else (epoch, 0.0)
    n_rest = n_epochs - n_first
    cost_j = n_first * first.cost_j + (n_rest * epoch.cost_j if n_rest else 0.0)
    stopped = cost_j > stop_at_j
    if stopped:
        converged, cost_j = False, stop_at_j
        n_first = min(n_first, stop_at_j / first.cost_j)
        n_rest = max(0.0, stop_at_j - n_first * first.cost_j) / epoch.cost_j
    return TrainingRun(
        n_first * first.time_s + n_rest * epoch.time_s,
        n_first * first.energy_j + n_rest * epoch.energy_j,
        cost_j,
        converged,
        stopped,
    )


class EpochTable:
    """Epochs of a workload by pair, and profiling epochs by batch size, for quick look-ups.

    Parameters
    ----------
    workload : TrainingWorkload
        Traces.
    eta : float
        Weight of the energy in the cost, 0-1.

    Attributes
    ----------
    pairs : list of dict
        By row of the batch size: the `Epoch` of each measured power limit [W].
    profiles : list of Epoch
        By row of the batch size: the mean over its measured limits, which an epoch takes that is
        cut into equal parts, one a limit.
    """

    def __init__(self, workload: TrainingWorkload, eta: float) -> None:
        check_eta(eta)
        time_s = workload.time_per_epoch_s
        figures = np.stack(
            [time_s, time_s * workload.average_power_w, cost_per_epoch_j(workload, eta)], axis=-1
        )
        limits_w = workload.power_limits_w.tolist()
        self.pairs: list[dict[float, Epoch]] = [
            {
                limit_w: Epoch(*values)
                for limit_w, values in zip(limits_w, row.tolist(), strict=True)
                if values[0] == values[0]  # NaN: not measured
            }
            for row in figures
        ]
        self.profiles = [Epoch(*_mean(row)) for row in figures]


def _mean(row: Float64Array) -> list[float]:
    means: list[float] = np.nanmean(row, axis=0).tolist()
    return means
