"""One recurrence of a job: from a pair, a training path and a stopping threshold to its cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from diploee.neighbours.zeus.cost import check_eta, cost_per_epoch_j
from diploee.neighbours.zeus.workload import TrainingWorkload


@dataclass(frozen=True, slots=True)
class Epoch:
    """Cost of one epoch: time [s], energy [J] and cost [J]."""

    time_s: float
    energy_j: float
    cost_j: float


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """How a recurrence went."""

    # What it took [s, J, J]
    time_s: float
    energy_j: float
    cost_j: float
    converged: bool  # it reached its target
    stopped: bool  # it was stopped early, at the threshold


def run_once(
    epoch: Epoch,
    n_epochs: float,
    stop_at_j: float = inf,
    profile: Epoch | None = None,
    max_epochs: float = 100,
) -> TrainingRun:
    """Run one training path, in whole epochs as Zeus' own simulator does."""
    allowed = min(stop_at_j // epoch.cost_j, max_epochs) if stop_at_j < inf else max_epochs
    converged = n_epochs <= allowed
    n_run = n_epochs if converged else allowed
    n_first = 1.0 if profile and n_run else 0.0
    first, n_rest = profile or epoch, n_run - n_first
    return TrainingRun(
        n_first * first.time_s + n_rest * epoch.time_s,
        n_first * first.energy_j + n_rest * epoch.energy_j,
        n_first * first.cost_j + n_rest * epoch.cost_j,
        converged,
        not converged and allowed < max_epochs,
    )


class EpochTable:
    """Epochs of a workload for quick look-ups, by row of the batch size.

    `pairs` has the `Epoch` of each measured power limit [W], `profiles` the mean over these, which
    an epoch takes that is cut into equal parts, one a limit.
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
        self.profiles = [Epoch(*means) for means in np.nanmean(figures, axis=1).tolist()]
