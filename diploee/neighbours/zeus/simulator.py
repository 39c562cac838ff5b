"""The trace-driven simulator: recurring jobs, one recurrence after another or overlapping.

One run: the batch size optimizer predicts, the power limit optimizer predicts, a recorded training
path is drawn, the run is stopped before its cost crosses beta x the lowest cost so far, and both
optimizers observe it when it has ended. What fails is run again until it converges, 20 times at
most; the lowest cost counts all runs of a recurrence. What starts before an earlier run of its
recurring job has ended takes the best batch size known (You et al., NSDI 2023, sections 4 and 6,
and the trace-driven simulator of its authors).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from heapq import heappop, heappush
from math import inf
from typing import Any, Literal

import numpy as np

from diploee.errors import WorkloadError, shown
from diploee.model import Kind, Kinds
from diploee.neighbours.zeus.optimizers import Setting
from diploee.neighbours.zeus.results import Recurrences, RecurrenceTable
from diploee.neighbours.zeus.traces import GroupTrace, Submissions
from diploee.neighbours.zeus.workload import (
    TrainingWorkload,
    check_eta,
    cost_per_epoch_j,
    oracle_pair,
)
from diploee.scenario.recurring import (
    BATCH_SIZE_OPTIMIZERS,
    POWER_LIMIT_OPTIMIZERS,
    BatchSizeOptimizer,
    PowerLimitOptimizer,
)
from diploee.streams import stream
from diploee.tables import Int16Array, concat

HIGHEST_BETA = 1000
"""Of a finite beta; above it a path that never converges would run for years."""

MAX_RECURRENCES = 20_000_000
"""Recurrences of one simulation, some gigabytes and minutes."""

MAX_TRIES = 20
"""Runs of a recurrence that does not converge, as in Zeus' own simulator."""
NEVER_RAN = 100
"""Cost that is observed of a run that may not begin, over what would have stopped it; as there."""

BatchSizeFactory = Callable[[Setting], BatchSizeOptimizer]
PowerLimitFactory = Callable[[Setting], PowerLimitOptimizer]


@dataclass(frozen=True)
class ZeusSpec:
    """Rules by which recurring jobs choose batch size and power limit.

    Parameters
    ----------
    batch_size_optimizer : str, BatchSizeOptimizer or callable
        A name in `BATCH_SIZE_OPTIMIZERS`, an import path ``module:Class``, a spec, or what makes
        one from a `Setting`.
    power_limit_optimizer : str, float, PowerLimitOptimizer, callable or None
        The same of `POWER_LIMIT_OPTIMIZERS`, or a fixed limit [W]; None for the one that goes with
        the batch size optimizer.
    eta : float
        Weight of the energy in the cost, 0-1.
    beta : float
        A recurrence is stopped at this multiple of the lowest cost so far; above 1, infinite for
        no early stopping.

    Raises
    ------
    WorkloadError
        If a name is unknown or a number out of range.
    """

    batch_size_optimizer: str | BatchSizeOptimizer | BatchSizeFactory = "zeus"
    power_limit_optimizer: str | float | PowerLimitOptimizer | PowerLimitFactory | None = None
    eta: float = 0.5
    beta: float = 2.0

    def __post_init__(self) -> None:
        check_eta(self.eta)
        if not 1 < self.beta <= HIGHEST_BETA and self.beta != inf:
            raise WorkloadError(
                f"beta is {shown(self.beta)}, expected a number above 1 up to {HIGHEST_BETA}, or "
                "inf for no early stopping"
            )
        _ = self._optimizers  # each must be known

    @cached_property
    def _optimizers(self) -> tuple[Any, Any]:
        return (
            _read(BATCH_SIZE_OPTIMIZERS, self.batch_size_optimizer),
            _read(POWER_LIMIT_OPTIMIZERS, self.power_limit),
        )

    @property
    def power_limit(self) -> str | float | PowerLimitOptimizer | PowerLimitFactory:
        """The power limit optimizer, or the one that goes with the batch size optimizer."""
        if self.power_limit_optimizer is not None:
            return self.power_limit_optimizer
        chosen = _read(BATCH_SIZE_OPTIMIZERS, self.batch_size_optimizer)
        return chosen.goes_with if isinstance(chosen, BatchSizeOptimizer) else "jit"

    def check(self, workload: TrainingWorkload) -> None:
        """Raise `WorkloadError` if a fixed limit was not measured for each batch size in use.

        With the default batch size optimizer only that batch size is in use.
        """
        limit_w = self.power_limit
        if isinstance(limit_w, int | float):
            fixed = _plain(self.batch_size_optimizer) == "default"
            rows = [workload.default_row] if fixed else range(workload.batch_sizes.size)
            for row in rows:
                workload.check_limit(row, limit_w)

    def optimizers(self, setting: Setting) -> tuple[BatchSizeOptimizer, PowerLimitOptimizer]:
        """Return new optimizers for one recurring job."""
        batch, limits = (one.open if isinstance(one, Kind) else one for one in self._optimizers)
        return batch(setting), limits(setting)

    def settings(self) -> dict[str, Any]:
        """Return the knobs as plain values, for the metadata of a result."""
        return {
            "batch_size_optimizer": _plain(self.batch_size_optimizer),
            "power_limit_optimizer": _plain(self.power_limit),
            "eta": self.eta,
            "beta": self.beta if self.beta < inf else "inf",
        }


class _FixedPowerLimit(PowerLimitOptimizer):
    """Always the limit that was given."""

    kind: Literal["fixed"] = "fixed"
    power_limit_w: float

    def predict(self, batch_size: int) -> float:  # noqa: ARG002  # the same for all
        """Return the power limit [W]."""
        return self.power_limit_w


def _read(kinds: Kinds[Any], given: Any) -> Any:
    """Return the optimizer of a name or a limit [W]; any other stays as it is."""
    if isinstance(given, int | float):
        return _FixedPowerLimit.model_construct(power_limit_w=float(given))
    try:
        if not isinstance(given, str):
            return given
        return kinds.read({"path": given} if ":" in given else given)
    except ValueError as error:
        raise WorkloadError(str(error)) from error


def _plain(given: Any) -> Any:
    if isinstance(given, Kind):
        return given.model_dump(mode="json")
    return getattr(given, "__name__", "own") if callable(given) else given


@dataclass(frozen=True)
class Epoch:
    """Cost of one epoch: time [s], energy [J] and cost [J]."""

    time_s: float
    energy_j: float
    cost_j: float


@dataclass(frozen=True)
class _TrainingRun(Epoch):
    """Cost of all epochs of a run, and its end."""

    converged: bool  # it reached its target
    stopped: bool  # it was stopped early, at the threshold


def run_once(
    epoch: Epoch,
    n_epochs: float,
    stop_at_j: float = inf,
    profile: Epoch | None = None,
    max_epochs: float = 100,
) -> _TrainingRun:
    """Run one training path, in whole epochs as Zeus' own simulator does."""
    allowed = min(stop_at_j // epoch.cost_j, max_epochs) if stop_at_j < inf else max_epochs
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
    """Epochs of a workload for quick look-ups, by row of the batch size.

    `pairs` has the `Epoch` of each measured power limit [W], `profiles` the mean over these, which
    an epoch takes that is cut into equal parts, one a limit.
    """

    def __init__(self, workload: TrainingWorkload, eta: float) -> None:
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


@dataclass(frozen=True)
class _Run(_TrainingRun):
    """A run that was started; what comes of it is known to the simulator alone."""

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


OF_RUN = [field.name for field in fields(_Run) if field.name in RecurrenceTable.__annotations__]
"""Columns of a result that a run has by the same names."""


class _RecurringJob:
    """One recurring job: its optimizers, what they have learnt, and its runs that have not ended.

    ASSUMPTION: a profile of power limits is known at once, not after a part of the first epoch [J].
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
        self._batch_sizes, self._power_limits = spec.optimizers(setting)
        self._epochs_to_target = [path.tolist() for path in workload.target_epochs]
        self._lowest_cost_j = inf
        self._best_known: int | None = None
        self._running: list[tuple[float, int, _Run]] = []
        self._started: list[_Run] = []
        self._n = self._n_started = 0
        self._clock_s = 0.0

    def advance(self, given: Submissions, until_s: float) -> list[_Run]:
        """Run recurrences, and retries that start before a moment, in the order of their starts."""
        self._started = []
        for start_s, end_s, ratio, path in zip(
            given.start_s.tolist(),
            given.end_s.tolist(),
            given.runtime_ratio.tolist(),
            self._paths.random(len(given)).tolist(),
            strict=True,
        ):
            waits = start_s != start_s  # NaN: one at a time
            self._settle(inf if waits else start_s)
            begin_s = self._clock_s if waits else start_s
            self._start(self._n, begin_s, end_s - begin_s, ratio, path)
            self._n += 1
        self._settle(float(np.nextafter(until_s, -inf)))
        return self._started

    def _settle(self, until_s: float) -> None:
        """Learn from what has ended until then, and run again what has failed."""
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
                    ended.recurrence, self._clock_s, ended.given_s, ended.runtime_ratio, after=ended
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
        """Start a run; one that may not run an epoch takes no time and is tried again at once."""
        overlaps = bool(self._running)
        for n_tries in range(after.n_tries + 1 if after else 1, MAX_TRIES + 1):
            at = self._retries.random() if path is None else path
            path = None
            batch_size = self._best_known if overlaps and self._best_known else None
            if batch_size is None:
                batch_size = self._batch_sizes.predict()
            row = self._workload.batch_index(batch_size)
            if self._best_known is None:  # nothing has ended: all run what the first one runs
                self._best_known = batch_size
            limit_w, profiled = self._power_limit(row, batch_size)
            if limit_w not in self._epochs.pairs[row]:
                self._workload.check_limit(row, limit_w)
            epoch, paths = self._epochs.pairs[row][limit_w], self._epochs_to_target[row]
            stop_at_j = self._beta * self._lowest_cost_j
            result = run_once(
                epoch,
                paths[int(at * len(paths))],
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
        """Return the limit [W], and whether all were profiled for it."""
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is not None:
            return limit_w, False
        for each_w, epoch in self._epochs.pairs[row].items():
            self._power_limits.observe(batch_size, each_w, epoch.cost_j)
        limit_w = self._power_limits.predict(batch_size)
        if limit_w is None:
            raise TypeError("a power limit optimizer that was given a profile must choose")
        return limit_w, True


class Simulation:
    """Recurring jobs, each with its own optimizers and history, some submissions at a time.

    Each recurring job draws from streams of its own, so that adding one changes no other, and the
    n-th recurrence of a job draws the same number for its training path whatever the optimizers do.
    What is kept is what the optimizers have learnt, and the recurrences that run. `name` is part of
    the streams' names, and so are the recurring jobs' names by `group_id`, by default the numbers.
    """

    def __init__(
        self,
        workloads: Sequence[TrainingWorkload],
        spec: ZeusSpec,
        seed: int,
        *name: str | int,
        group_names: Sequence[str] | None = None,
    ) -> None:
        self._workloads, self._spec, self._seed, self._name = workloads, spec, seed, name
        self._group_names = group_names
        self._epochs = [EpochTable(workload, spec.eta) for workload in workloads]
        self._oracle_j = np.array([oracle_pair(w, spec.eta).cost_j for w in workloads])
        self._jobs: dict[int, _RecurringJob] = {}

    def advance(self, submissions: Submissions, until_s: float = inf) -> RecurrenceTable:
        """Run the next recurrences, in any order; one row per run, by recurring job and start.

        None starts before the `until_s` of an earlier call. Runs that try again what failed are
        returned if they start before `until_s`; later ones by a later call.
        """
        for workload in np.unique(submissions.workload_id).tolist():
            self._spec.check(self._workloads[workload])
        order = np.lexsort((submissions.start_s, submissions.group_id))
        groups, first = np.unique(submissions.group_id[order], return_index=True)
        parts = np.split(order, first[1:]) if groups.size else []
        given = dict(zip(groups.tolist(), map(submissions.take, parts), strict=True))
        for group, of_group in given.items():
            self._open(group, of_group.workload_id)
        none = submissions.take(slice(0))
        rows = [
            (job.workload_id, group, run)
            for group, job in sorted(self._jobs.items())
            for run in job.advance(given.get(group, none), until_s)
        ]
        return self._table(rows)

    def _open(self, group: int, workload_id: Int16Array) -> None:
        known = self._jobs.get(group)
        which = int(workload_id[0]) if known is None else known.workload_id
        if (workload_id != which).any():
            raise WorkloadError(
                f"recurring job {group} trains several workloads, expected the same in each "
                "recurrence; give each workload recurring jobs of its own"
            )
        if known is None:
            workload = self._workloads[which]
            label = group if self._group_names is None else self._group_names[group]
            draws = [
                stream(self._seed, "zeus", *self._name, workload.name, label, what)
                for what in ("paths", "optimizer", "retries")
            ]
            self._jobs[group] = _RecurringJob(
                which, workload, self._epochs[which], self._spec, draws
            )

    def _table(self, rows: Sequence[tuple[int, int, _Run]]) -> RecurrenceTable:
        """Return all rows; the runtime ratio scales time, energy and cost, and the oracle's."""
        if not rows:
            return RecurrenceTable.empty()
        workload_id, group_id, runs = zip(*rows, strict=True)
        values: dict[str, Any] = {
            name: np.array([getattr(run, name) for run in runs]) for name in OF_RUN
        }
        ratio, cost_j = values["runtime_ratio"], values["cost_j"]
        expected_j = np.where(values["attempt"] == 0, self._oracle_j[list(workload_id)], 0.0)
        average_power_w = values["energy_j"] / values["time_s"]
        for name in ("time_s", "energy_j", "cost_j"):
            values[name] = values[name] * ratio
        return RecurrenceTable(
            workload_id=np.array(workload_id),
            group_id=np.array(group_id),
            seed=np.full(len(rows), self._seed),
            regret_j=(cost_j - expected_j) * ratio,
            average_power_w=average_power_w,
            **values,
        )


def simulate(
    workloads: Sequence[TrainingWorkload],
    submissions: Submissions,
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
    group_names: Sequence[str] | None = None,
) -> RecurrenceTable:
    """Simulate all recurrences at once; one row per run, by recurring job and start."""
    return Simulation(workloads, spec, seed, *name, group_names=group_names).advance(submissions)


def simulate_sequence(
    workloads: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    n_recurrences: int,
    seeds: Sequence[int] = (0,),
) -> Recurrences:
    """Simulate one recurring job per workload and seed, one recurrence at a time.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        What recurs.
    spec : ZeusSpec
        Optimizers and knobs.
    n_recurrences : int
        Recurrences of each, one or more.
    seeds : sequence of int
        Each gives another history.

    Returns
    -------
    Recurrences
        Ordered by seed, workload and recurrence.

    Raises
    ------
    WorkloadError
        If there is nothing to simulate, or an optimizer chooses what is not in the data.
    """
    _check_size(len(workloads) * max(n_recurrences, 0), seeds)
    which: Any = np.repeat(np.arange(len(workloads)), n_recurrences)
    nan = np.full(which.size, np.nan)
    submissions = Submissions(which, which, nan, nan, np.ones(which.size))
    return _histories(workloads, submissions, spec, seeds)


def simulate_groups(
    workloads: Sequence[TrainingWorkload],
    groups: GroupTrace,
    spec: ZeusSpec,
    seeds: Sequence[int] = (0,),
) -> Recurrences:
    """Simulate the recurring jobs of a group trace, with their overlapping recurrences.

    The trace's own ends decide what overlaps; run times are those of the simulation, scaled by the
    runtime ratio.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        What to simulate; recurrences of other datasets are left out and counted in the settings.
    groups : GroupTrace
        Starts, ends and runtime ratios.
    spec, seeds
        As for `simulate_sequence`, which says what is refused; so is a trace of which no group
        trains one of the workloads.
    """
    submissions, n_other = groups.submissions(workloads)
    _check_size(len(submissions), seeds)
    counts = {"recurrences_of_other_datasets": n_other}
    return _histories(workloads, submissions, spec, seeds, groups.groups, **counts)


def _check_size(n_rows: int, seeds: Sequence[int]) -> None:
    if not 0 < n_rows * len(seeds) <= MAX_RECURRENCES:
        raise WorkloadError(
            f"{n_rows:,} recurrences for each of {len(seeds):,} seeds, expected 1 to "
            f"{MAX_RECURRENCES:,} in all; choose other numbers of recurrences and seeds"
        )


def _histories(
    workloads: Sequence[TrainingWorkload],
    submissions: Submissions,
    spec: ZeusSpec,
    seeds: Sequence[int],
    groups: tuple[str, ...] | None = None,
    **counts: int,
) -> Recurrences:
    tables = [simulate(workloads, submissions, spec, seed, group_names=groups) for seed in seeds]
    names = tuple(workload.name for workload in workloads)
    settings = spec.settings() | {"gpu": workloads[0].gpu} | counts
    return Recurrences(names, groups or names, concat(tables), settings)
