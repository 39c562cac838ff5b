"""Trace-driven simulator of recurring training jobs under Zeus.

Recurrences of a job run one after another, or overlap. For each run, the optimizers
choose batch size and power limit, and a recorded training run gives the number of
epochs. The run is stopped early before its cost exceeds beta times the lowest cost so
far. Both optimizers observe the result at the end of the run. A failed run is repeated
until it converges, at most 20 times; the lowest cost includes all runs of a recurrence.
A run that starts before an earlier run of its recurring job has ended takes the best
known batch size
(You et al., NSDI 2023, sections 4 and 6, and its authors' trace-driven simulator).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from diploee.base.errors import WorkloadError
from diploee.base.progress import stage
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.integrations.zeus.optimizers import Setting
from diploee.integrations.zeus.traces import workload_submissions
from diploee.integrations.zeus.workload import (
    TrainingWorkload,
    cost_per_epoch_j,
    oracle_pair,
)
from diploee.scenario.recurring import PowerLimitOptimizer, ZeusSpec

MAX_RECURRENCES = 20_000_000
"""Maximum recurrences of one simulation, some gigabytes and minutes."""

MAX_TRIES = 20
"""Maximum runs of a recurrence that does not converge, as in Zeus' own simulator."""
NEVER_RAN = 100
"""Observed cost of a run that may not start, per stopping threshold, as in Zeus."""

COLUMNS = {
    "workload_id": "int16",
    "group_id": "int32",  # the recurring job
    "seed": "int64",  # seed of the simulation
    "recurrence": "int32",  # index in the job's history, by start, from 0
    "attempt": "int32",  # run of the recurrence, from 0; failures are run again
    "start_s": "float64",
    "runtime_ratio": "float64",  # run time over that of the traces
    "batch_size": "int32",
    "power_limit_w": "float64",  # after the first epoch, if that was a profile
    "time_s": "float64",
    "energy_j": "float64",  # energies, costs and powers are of one GPU
    "cost_j": "float64",
    # Cost, minus the expected cost of the oracle's pair in the first run of a
    # recurrence
    "regret_j": "float64",
    "average_power_w": "float64",  # energy over time
    "converged": "bool",  # it reached its target
    "stopped": "bool",  # stopped early, at beta x the lowest cost so far
    "profiled": "bool",  # its first epoch profiled all power limits
    "overlapping": "bool",  # an earlier run of the job had not ended at its start
}
"""Columns of a frame of runs and their types.

Times, energies and costs are scaled by the runtime ratio."""


def check_limit(spec: ZeusSpec, workload: TrainingWorkload) -> None:
    """Raise `WorkloadError` unless a fixed limit was measured for all used batch sizes.

    The default batch size optimizer uses the default batch size only.
    """
    if isinstance(spec.limit, float):
        is_default = spec.batch_size_optimizer.kind == "default"
        rows = (
            [workload.default_row] if is_default else range(workload.batch_sizes.size)
        )
        for row in rows:
            workload.check_limit(row, spec.limit)


@dataclass(frozen=True)
class Epoch:
    """Time [s], energy [J] and cost [J] of one epoch."""

    time_s: float
    energy_j: float
    cost_j: float


@dataclass(frozen=True)
class _TrainingRun(Epoch):
    """Time, energy and cost of all epochs of a run, and its outcome."""

    converged: bool  # True if the run reached its target
    stopped: bool  # True if the run was stopped early, at the threshold


def run_once(
    epoch: Epoch,
    n_epochs: float,
    stop_at_j: float = inf,
    profile: Epoch | None = None,
    max_epochs: float = 100,
) -> _TrainingRun:
    """Simulate one run of `n_epochs`, stopped early at a cost [J] in whole epochs.

    The first epoch has the values of `profile`, if there is one.
    """
    allowed = (
        min(stop_at_j // epoch.cost_j, max_epochs) if stop_at_j < inf else max_epochs
    )
    converged = n_epochs <= allowed
    n_run = n_epochs if converged else allowed
    n_first = 1.0 if profile and n_run else 0.0
    first, n_rest = profile or epoch, n_run - n_first
    return _TrainingRun(
        n_first * first.time_s + n_rest * epoch.time_s,
        n_first * first.energy_j + n_rest * epoch.energy_j,
        n_first * first.cost_j + n_rest * epoch.cost_j,
        converged,
        not converged and allowed < max_epochs,
    )


class EpochTable:
    """Lookup table of a workload's epochs by batch size index.

    `pairs` has the `Epoch` of each measured power limit [W]; `profiles` has the mean
    over limits, the cost of an epoch with an equal part at each limit.
    """

    def __init__(self, workload: TrainingWorkload, eta: float) -> None:
        time_s = workload.time_per_epoch_s
        values_by_pair = np.stack(
            [
                time_s,
                time_s * workload.average_power_w,
                cost_per_epoch_j(workload, eta),
            ],
            axis=-1,
        )
        limits_w = workload.power_limits_w.tolist()
        self.pairs: list[dict[float, Epoch]] = [
            {
                limit_w: Epoch(*values)
                for limit_w, values in zip(limits_w, row.tolist(), strict=True)
                if values[0] == values[0]  # NaN: not measured
            }
            for row in values_by_pair
        ]
        self.profiles = [
            Epoch(*means) for means in np.nanmean(values_by_pair, axis=1).tolist()
        ]


@dataclass(frozen=True)
class _Run(_TrainingRun):
    """A started run with its result, hidden from the optimizers until its end."""

    recurrence: int
    attempt: int
    n_tries: int
    start_s: float
    given_s: float
    runtime_ratio: float
    batch_size: int
    power_limit_w: float
    cost_per_epoch_j: float
    cost_before_j: float
    profiled: bool
    overlapping: bool


OF_RUN = COLUMNS.keys() & _Run.__dataclass_fields__.keys()
"""Columns of a frame of runs that are fields of `_Run`."""


class _RecurringJob:
    """One recurring job: its optimizers, its history, and its unfinished runs.

    ASSUMPTION (judgement): the costs of all power limits at a batch size are known at
    the start of its first run, not only after a part of its first epoch.
    """

    def __init__(
        self,
        workload_id: int,
        workload: TrainingWorkload,
        epochs: EpochTable,
        spec: ZeusSpec,
        draws: Sequence[np.random.Generator],
    ) -> None:
        self.workload_id = workload_id
        self._workload, self._epochs, self._beta = workload, epochs, spec.beta
        self._paths, optimizer_draws, self._retries = draws
        setting = Setting(workload, spec.eta, optimizer_draws)
        self._batch_sizes = spec.batch_size_optimizer.open(setting)
        if isinstance(spec.limit, float):
            self._power_limits = PowerLimitOptimizer(kind="fixed")
            self._power_limits._limit_w = dict.fromkeys(setting.batch_sizes, spec.limit)
        else:
            self._power_limits = spec.limit.open(setting)
        self._epochs_to_target = [path.tolist() for path in workload.target_epochs]
        self._lowest_cost_j = inf
        self._best_known: int | None = None
        self._running: list[tuple[float, int, _Run]] = []
        self._started: list[_Run] = []
        self._n = self._n_started = 0
        self._clock_s = 0.0

    def advance(self, recurrences: Float64Array, until_s: float) -> list[_Run]:
        """Run recurrences, and retries that start before `until_s`; return all runs.

        A row of `recurrences` has the start [s], end [s] and runtime ratio of a
        recurrence.
        """
        self._started = []
        paths = self._paths.random(len(recurrences)).tolist()
        for (start_s, end_s, ratio), path in zip(
            recurrences.tolist(), paths, strict=True
        ):
            waits = start_s != start_s  # NaN: one at a time
            self._settle(inf if waits else start_s)
            begin_s = self._clock_s if waits else start_s
            self._start(self._n, begin_s, end_s - begin_s, ratio, path)
            self._n += 1
        self._settle(float(np.nextafter(until_s, -inf)))
        return self._started

    def _settle(self, until_s: float) -> None:
        """Observe runs that ended by `until_s`, and retry failed runs."""
        while self._running and self._running[0][0] <= until_s:
            self._clock_s, _, ended = heappop(self._running)
            cost_j = ended.cost_before_j + ended.cost_j
            if ended.converged and cost_j < self._lowest_cost_j:
                self._lowest_cost_j, self._best_known = cost_j, ended.batch_size
            self._batch_sizes.observe(ended.batch_size, ended.cost_j, ended.converged)
            self._power_limits.observe(
                ended.batch_size, ended.power_limit_w, ended.cost_per_epoch_j
            )
            if not ended.converged:
                self._start(
                    ended.recurrence,
                    self._clock_s,
                    ended.given_s,
                    ended.runtime_ratio,
                    after=ended,
                )

    def _start(
        self,
        recurrence: int,
        start_s: float,
        given_s: float,
        ratio: float,
        path: float | None = None,
        after: _Run | None = None,
    ) -> None:
        """Start a run; a run that may not run an epoch is retried at once."""
        overlaps = bool(self._running)
        for n_tries in range(after.n_tries + 1 if after else 1, MAX_TRIES + 1):
            draw = self._retries.random() if path is None else path
            path = None
            batch_size = self._best_known if overlaps and self._best_known else None
            if batch_size is None:
                batch_size = self._batch_sizes.predict()
            row = self._workload.batch_index(batch_size)
            # Until a run has ended, all runs use the batch size of the first
            if self._best_known is None:
                self._best_known = batch_size
            limit_w, profiled = self._power_limit(row, batch_size)
            if limit_w not in self._epochs.pairs[row]:
                self._workload.check_limit(row, limit_w)
            epoch, paths = self._epochs.pairs[row][limit_w], self._epochs_to_target[row]
            stop_at_j = self._beta * self._lowest_cost_j
            result = run_once(
                epoch,
                paths[int(draw * len(paths))],
                stop_at_j,
                self._epochs.profiles[row] if profiled else None,
                self._workload.spec.max_epochs,
            )
            if not result.time_s:
                self._batch_sizes.observe(batch_size, NEVER_RAN * stop_at_j, False)
                continue
            run = _Run(
                **vars(result),
                recurrence=recurrence,
                attempt=after.attempt + 1 if after else 0,
                n_tries=n_tries,
                start_s=start_s,
                given_s=given_s,
                runtime_ratio=ratio,
                batch_size=batch_size,
                power_limit_w=limit_w,
                cost_per_epoch_j=epoch.cost_j,
                cost_before_j=after.cost_before_j + after.cost_j if after else 0.0,
                profiled=profiled,
                overlapping=overlaps,
            )
            lasts_s = given_s if given_s == given_s else result.time_s * ratio
            heappush(self._running, (start_s + lasts_s, self._n_started, run))
            self._n_started += 1
            self._started.append(run)
            return

    def _power_limit(self, row: int, batch_size: int) -> tuple[float, bool]:
        """Return the power limit [W], and True if all limits were profiled."""
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is not None:
            return limit_w, False
        for each_w, epoch in self._epochs.pairs[row].items():
            self._power_limits.observe(batch_size, each_w, epoch.cost_j)
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is None:
            raise TypeError(
                "a power limit optimizer that was given a profile must choose"
            )
        return limit_w, True


class Simulation:
    """Simulation of recurring jobs, each with its own optimizers, batch by batch.

    Each recurring job has its own random streams, so jobs do not affect each other, and
    the n-th recurrence of a job draws the same number for its training path for any
    optimizer. The optimizers' histories and the unfinished runs are kept between
    batches. `name` and the recurring jobs' names by `group_id` (by default the numbers)
    are part of the streams' names.
    """

    def __init__(
        self,
        workloads: Sequence[TrainingWorkload],
        spec: ZeusSpec,
        seed: int,
        *name: str | int,
        group_names: Sequence[str] | None = None,
    ) -> None:
        self._workloads, self._spec, self._seed, self._name = (
            workloads,
            spec,
            seed,
            name,
        )
        self._group_names = group_names
        self._epochs = [EpochTable(workload, spec.eta) for workload in workloads]
        self._oracle_j = np.array([oracle_pair(w, spec.eta).cost_j for w in workloads])
        self._jobs: dict[int, _RecurringJob] = {}

    def advance(self, submissions: pd.DataFrame, until_s: float = inf) -> pd.DataFrame:
        """Run the next recurrences, and return one row per run, by job and start.

        A row of `submissions`, in any order, has `group_id`, the recurring job;
        `workload_id`, the same in all rows of the job; `start_s`, NaN to start after
        the end of all earlier runs; `end_s`, the time from which the result is known,
        NaN for start plus simulated run time; and `runtime_ratio`.

        No submission may start before the `until_s` of an earlier call. Retries of
        failed runs are returned if they start before `until_s`, others by a later call.
        """
        in_order = submissions.sort_values(["group_id", "start_s"])
        groups, first = np.unique(in_order.group_id, return_index=True)
        for group, workload in zip(
            groups, in_order.workload_id.to_numpy()[first], strict=True
        ):
            if group not in self._jobs:
                self._jobs[int(group)] = self._new_job(int(group), int(workload))
        # Arrays per job, as a frame per job would take most of the time
        values = in_order[["start_s", "end_s", "runtime_ratio"]].to_numpy()
        recurrences_by_job = dict(
            zip(groups.tolist(), np.split(values, first[1:]), strict=False)
        )
        return self._table(
            [
                (job.workload_id, group, run)
                for group, job in sorted(self._jobs.items())
                for run in job.advance(
                    recurrences_by_job.get(group, values[:0]), until_s
                )
            ]
        )

    def _new_job(self, group: int, workload_id: int) -> _RecurringJob:
        workload = self._workloads[workload_id]
        label = group if self._group_names is None else self._group_names[group]
        draws = [
            named_rng(self._seed, "zeus", *self._name, workload.name, label, what)
            for what in ("paths", "optimizer", "retries")
        ]
        return _RecurringJob(
            workload_id, workload, self._epochs[workload_id], self._spec, draws
        )

    def _table(self, rows: Sequence[tuple[int, int, _Run]]) -> pd.DataFrame:
        """Return a frame of runs, with values scaled by the runtime ratio."""
        columns: dict[str, list[Any]] = {
            "workload_id": [row[0] for row in rows],
            "group_id": [row[1] for row in rows],
            "seed": [self._seed] * len(rows),
            **{name: [getattr(run, name) for _, _, run in rows] for name in OF_RUN},
        }
        runs = {
            name: np.array(values, COLUMNS[name]) for name, values in columns.items()
        }
        ratio, oracle_j = runs["runtime_ratio"], self._oracle_j[runs["workload_id"]]
        runs["average_power_w"] = runs["energy_j"] / runs["time_s"]
        runs["regret_j"] = (
            runs["cost_j"] - np.where(runs["attempt"] == 0, oracle_j, 0.0)
        ) * ratio
        for name in ("time_s", "energy_j", "cost_j"):
            runs[name] = runs[name] * ratio
        return pd.DataFrame({name: runs[name] for name in COLUMNS})


@stage("simulate")
def simulate_sequence(
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    n_recurrences: int,
    seeds: Sequence[int] = (0,),
) -> pd.DataFrame:
    """Simulate one recurring job per workload and seed, one recurrence at a time.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        Workloads of the recurring jobs.
    spec : ZeusSpec
        Optimizers and their settings.
    n_recurrences : int
        Recurrences of each job, one or more.
    seeds : sequence of int
        Random seeds, one history for each.

    Returns
    -------
    pandas.DataFrame
        A row for each run, ordered by seed, workload and recurrence: `workload` and
        `group` by name, seed, recurrence and attempt, start, run time, energy, cost and
        regret, batch size and power limit, and outcome.

    Raises
    ------
    WorkloadError
        If there is nothing to simulate, or an optimizer chooses a batch size and power
        limit that are not in the data.
    """
    _check_size(len(workloads) * max(n_recurrences, 0), seeds)
    which = np.repeat(np.arange(len(workloads)), n_recurrences)
    submissions = pd.DataFrame(
        {"group_id": which, "workload_id": which, "start_s": np.nan, "end_s": np.nan}
    ).assign(runtime_ratio=1.0)
    return _histories(workloads, submissions, spec, seeds)


def simulate_groups(
    workloads: Sequence[TrainingWorkload],
    groups: pd.DataFrame,
    spec: ZeusSpec,
    seeds: Sequence[int] = (0,),
) -> pd.DataFrame:
    """Simulate the recurring jobs of a group trace, with their overlapping recurrences.

    Recurrences overlap by the ends in the trace; run times are those of the simulation,
    scaled by the runtime ratio.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        Workloads to simulate; recurrences of other datasets are dropped.
    groups : pandas.DataFrame
        Starts, ends and runtime ratios, as `read_groups` returns them.
    spec, seeds
        See `simulate_sequence`, also for the result and the errors. A trace without a
        group of one of the workloads raises `WorkloadError`, too.
    """
    submissions, _ = workload_submissions(groups, workloads)
    _check_size(len(submissions), seeds)
    return _histories(
        workloads, submissions, spec, seeds, list(groups.group.cat.categories)
    )


def _check_size(n_rows: int, seeds: Sequence[int]) -> None:
    if not 0 < n_rows * len(seeds) <= MAX_RECURRENCES:
        raise WorkloadError(
            f"{n_rows:,} recurrences for each of {len(seeds):,} seeds, expected 1 to "
            f"{MAX_RECURRENCES:,} in all; choose other numbers of recurrences and seeds"
        )


def _histories(
    workloads: Sequence[TrainingWorkload],
    submissions: pd.DataFrame,
    spec: ZeusSpec,
    seeds: Sequence[int],
    groups: list[str] | None = None,
) -> pd.DataFrame:
    runs = (Simulation(workloads, spec, seed, group_names=groups) for seed in seeds)
    table = pd.concat([run.advance(submissions) for run in runs], ignore_index=True)
    names = [workload.name for workload in workloads]
    for name, labels in (("workload", names), ("group", groups or names)):
        table[f"{name}_id"] = pd.Categorical.from_codes(
            table[f"{name}_id"], pd.Index(labels)
        )
    return table.rename(columns={"workload_id": "workload", "group_id": "group"})
