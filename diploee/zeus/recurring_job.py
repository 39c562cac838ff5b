"""`RecurringJob`: one job that recurs, the state of its optimizers and its next recurrence."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from diploee.zeus.optimizers.setting import Setting
from diploee.zeus.recurrence import Epoch, EpochTable, TrainingRun, run_once
from diploee.zeus.spec import ZeusSpec
from diploee.zeus.workload import TrainingWorkload


@dataclass(frozen=True, slots=True)
class Launch:
    """A recurrence that was started; what will come of it is known to the simulator alone."""

    batch_size: int
    power_limit_w: float
    cost_per_epoch_j: float
    run: TrainingRun
    profiled: bool


class RecurringJob:
    """One recurring job and what it has learnt.

    Parameters
    ----------
    workload : TrainingWorkload
        What it trains.
    epochs : EpochTable
        Its epochs, for the eta of `spec`.
    spec : ZeusSpec
        Optimizers and knobs.
    optimizer_rng : numpy.random.Generator
        For the optimizers' draws.

    Raises
    ------
    WorkloadError
        If an optimizer chooses a batch size or a power limit that is not in the data.
    """

    def __init__(
        self,
        workload: TrainingWorkload,
        epochs: EpochTable,
        spec: ZeusSpec,
        optimizer_rng: np.random.Generator,
    ) -> None:
        self._workload = workload
        self._epochs = epochs
        self._beta = spec.beta
        searches = spec.power_limit == "grid"
        setting = Setting(workload, spec.eta, epochs, optimizer_rng, searches)
        self._batch_sizes, self._power_limits = spec.optimizers(setting)
        self._rows = {size: row for row, size in enumerate(workload.batch_sizes.tolist())}
        self._paths = [path.tolist() for path in workload.target_epochs]
        self._lowest_cost_j = inf
        self._best_known: int | None = None

    def launch(self, overlaps: bool, path: float) -> Launch:
        """Start a recurrence; the lowest cost known now is what it may be stopped by.

        Parameters
        ----------
        overlaps : bool
            An earlier recurrence has not ended; then the best batch size known is taken.
        path : float
            Which recorded path of the batch size it follows, 0 to below 1.
        """
        if overlaps and self._best_known is not None:
            batch_size = self._best_known
        else:
            batch_size = self._batch_sizes.predict()
        row = self._row(batch_size)
        if self._best_known is None:  # nothing has ended yet: all run what the first one runs
            self._best_known = batch_size
        limit_w, profiled = self._power_limit(row, batch_size)
        epoch = self._epoch(row, limit_w)
        paths = self._paths[row]
        run = run_once(
            epoch,
            paths[int(path * len(paths))],
            self._beta * self._lowest_cost_j,
            self._epochs.profiles[row] if profiled else None,
            self._workload.longest_path_epochs,
        )
        return Launch(batch_size, limit_w, epoch.cost_j, run, profiled)

    def finish(self, launch: Launch) -> None:
        """Learn from a recurrence that has ended."""
        run = launch.run
        if run.converged and run.cost_j < self._lowest_cost_j:
            self._lowest_cost_j = run.cost_j
            self._best_known = launch.batch_size
        self._batch_sizes.observe(launch.batch_size, run.cost_j, run.converged)
        self._power_limits.observe(launch.batch_size, launch.power_limit_w, launch.cost_per_epoch_j)

    def _power_limit(self, row: int, batch_size: int) -> tuple[float, bool]:
        """Return the limit [W], and whether all were profiled for it."""
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is not None:
            return limit_w, False
        # The profile is known after a fraction of the first epoch; ASSUMPTION: at once.
        for each_w, epoch in self._epochs.pairs[row].items():
            self._power_limits.observe(batch_size, each_w, epoch.cost_j)
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is None:
            raise TypeError("a power limit optimizer that was given a profile must choose")
        return limit_w, True

    def _row(self, batch_size: int) -> int:
        row = self._rows.get(batch_size)
        return self._workload.batch_index(batch_size) if row is None else row

    def _epoch(self, row: int, limit_w: float) -> Epoch:
        epoch = self._epochs.pairs[row].get(limit_w)
        if epoch is None:
            self._workload.limit_index(row, limit_w)
            raise AssertionError("unreachable: limit_index raises")
        return epoch
