"""The trace-driven simulator: recurring jobs, one recurrence after another or overlapping.

One recurrence: the batch size optimizer predicts, the power limit optimizer predicts, a recorded
training path is drawn, the run is stopped early at beta x the lowest cost so far, and both
optimizers observe it when it has ended. One that starts before an earlier one of its recurring
job has ended takes the best batch size known (You et al., NSDI 2023, sections 4 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from diploee.errors import WorkloadError
from diploee.streams import stream
from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array, Table, column, concat
from diploee.zeus.cost import oracle_pair
from diploee.zeus.recurrence import EpochTable
from diploee.zeus.recurring_job import Launch, RecurringJob
from diploee.zeus.results import Recurrences, RecurrenceTable
from diploee.zeus.spec import ZeusSpec
from diploee.zeus.workload import TrainingWorkload

MAX_RECURRENCES = 20_000_000
"""Recurrences of one simulation, some gigabytes and minutes."""


@dataclass(frozen=True, eq=False)
class Submissions(Table):
    """When recurrences start, and of which recurring job.

    Parameters
    ----------
    group_id : numpy.ndarray, int32
        The recurring job.
    workload_id : numpy.ndarray, int16
        What it trains; the same for all rows of a recurring job.
    start_s : numpy.ndarray, float64
        Start [s]; NaN to start when all earlier ones have ended.
    end_s : numpy.ndarray, float64
        End [s], after which the next one may learn from it; NaN for start plus simulated run time.
    runtime_ratio : numpy.ndarray, float64
        Run time over that of the traces, positive.
    """

    group_id: Int32Array = column("int32")
    workload_id: Int16Array = column("int16")
    start_s: Float64Array = column("float64")
    end_s: Float64Array = column("float64")
    runtime_ratio: Float64Array = column("float64")


def simulate(
    workloads: Sequence[TrainingWorkload],
    submissions: Submissions,
    spec: ZeusSpec,
    seed: int,
    *name: str | int,
    group_names: Sequence[str] | None = None,
) -> RecurrenceTable:
    """Simulate all recurrences at once.

    Parameters
    ----------
    workloads, spec, seed, name, group_names
        As of `Simulation`.
    submissions : Submissions
        In any order.

    Returns
    -------
    RecurrenceTable
        One row per submission, in the same order.

    Raises
    ------
    WorkloadError
        As `Simulation.advance` says.
    """
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
        As `simulate` says, or if there is nothing to simulate.
    """
    check_size(len(workloads) * max(n_recurrences, 0), seeds)
    which = np.repeat(np.arange(len(workloads)), n_recurrences)
    nan = np.full(which.size, np.nan)
    submissions = Submissions(
        which.astype(np.int32), which.astype(np.int16), nan, nan, np.ones(which.size)
    )
    names = tuple(workload.name for workload in workloads)
    table = concat([simulate(workloads, submissions, spec, seed) for seed in seeds])
    settings = spec.settings() | {"gpu": workloads[0].gpu}
    return Recurrences(names, names, table, settings)


def check_size(n_rows: int, seeds: Sequence[int]) -> None:
    """Raise `WorkloadError` unless there is something to simulate, and not too much of it."""
    if not 0 < n_rows * len(seeds) <= MAX_RECURRENCES:
        raise WorkloadError(
            f"{n_rows:,} recurrences for each of {len(seeds):,} seeds, expected 1 to "
            f"{MAX_RECURRENCES:,} in all; choose other numbers of recurrences and seeds"
        )


class _History:
    """One recurring job so far, and which of its recurrences have not ended."""

    def __init__(self, workload_id: int, job: RecurringJob, paths: np.random.Generator) -> None:
        self.workload_id, self._job, self._paths = workload_id, job, paths
        self.n = 0
        self._running: list[tuple[float, int, Launch]] = []
        self._clock_s = 0.0

    def advance(self, given: Submissions) -> list[tuple[float, Launch, bool]]:
        """Run recurrences in the order of their starts: each one's start, what it was, overlap."""
        done: list[tuple[float, Launch, bool]] = []
        running = self._running
        for start_s, end_s, ratio, at in zip(
            given.start_s.tolist(),
            given.end_s.tolist(),
            given.runtime_ratio.tolist(),
            self._paths.random(len(given)).tolist(),
            strict=True,
        ):
            waits = start_s != start_s  # NaN: one at a time
            while running and (waits or running[0][0] <= start_s):
                self._clock_s, _, ended = heappop(running)
                self._job.finish(ended)
            if waits:
                start_s = self._clock_s
            overlaps = bool(running)
            launch = self._job.launch(overlaps, at)
            until_s = end_s if end_s == end_s else start_s + launch.run.time_s * ratio
            heappush(running, (until_s, self.n, launch))
            self.n += 1
            done.append((start_s, launch, overlaps))
        return done


class Simulation:
    """Recurring jobs, each with its own optimizers and history, some submissions at a time.

    Each recurring job draws from streams of its own, so that adding one changes no other, and the
    n-th recurrence of a job draws the same number for its training path whatever the optimizers do.
    What is kept is what the optimizers have learnt, and the recurrences that run.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        By `workload_id`.
    spec : ZeusSpec
        Optimizers and knobs.
    seed : int
        Seed of every draw.
    *name : str or int
        Further name of the random streams, such as that of a job stream.
    group_names : sequence of str, optional
        Names of the recurring jobs by `group_id`, which name their random streams; by default the
        numbers do.
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
        self._histories: dict[int, _History] = {}

    def advance(self, submissions: Submissions) -> RecurrenceTable:
        """Run the next recurrences.

        Parameters
        ----------
        submissions : Submissions
            In any order; none starts before one of an earlier call.

        Returns
        -------
        RecurrenceTable
            One row per submission, in the same order.

        Raises
        ------
        WorkloadError
            If an optimizer chooses what is not in the data, or a recurring job changes its
            workload.
        """
        if not len(submissions):
            return RecurrenceTable.empty()
        for workload in np.unique(submissions.workload_id).tolist():
            self._spec.check(self._workloads[workload])
        order = np.lexsort((submissions.start_s, submissions.group_id))
        groups, first = np.unique(submissions.group_id[order], return_index=True)
        rows = _Rows(submissions, self._seed)
        for group, members in zip(groups.tolist(), np.split(order, first[1:]), strict=True):
            given = submissions.take(members)
            history = self._history(group, given.workload_id)
            rows.store(members, history.n, history.advance(given))
        return rows.table(self._oracle_j)

    def _history(self, group: int, workload_id: Int16Array) -> _History:
        history = self._histories.get(group)
        which = int(workload_id[0]) if history is None else history.workload_id
        if (workload_id != which).any():
            raise WorkloadError(
                f"recurring job {group} trains several workloads, expected the same in each "
                "recurrence; give each workload recurring jobs of its own"
            )
        if history is None:
            workload = self._workloads[which]
            label = group if self._group_names is None else self._group_names[group]
            paths, own = (
                stream(self._seed, "zeus", *self._name, workload.name, label, what)
                for what in ("paths", "optimizer")
            )
            job = RecurringJob(workload, self._epochs[which], self._spec, own)
            history = self._histories[group] = _History(which, job, paths)
        return history


class _Rows:
    """The columns of the result, filled by one recurring job after another."""

    def __init__(self, submissions: Submissions, seed: int) -> None:
        n = len(submissions)
        self._submissions = submissions
        self._seed = seed
        self._recurrence = np.zeros(n, np.int32)
        self._start_s = np.zeros(n)
        self._numbers = np.zeros((n, 5))
        self._flags = np.zeros((n, 4), bool)

    def store(
        self, members: Int64Array, n_before: int, done: Sequence[tuple[float, Launch, bool]]
    ) -> None:
        """Fill the rows of one job's recurrences, the first of which is its `n_before`-th."""
        self._recurrence[members] = np.arange(n_before, n_before + members.size)
        self._start_s[members] = [start_s for start_s, _, _ in done]
        self._numbers[members] = [
            (one.batch_size, one.power_limit_w, one.run.time_s, one.run.energy_j, one.run.cost_j)
            for _, one, _ in done
        ]
        self._flags[members] = [
            (one.run.converged, one.run.stopped, one.profiled, overlaps)
            for _, one, overlaps in done
        ]

    def table(self, oracle_j: Float64Array) -> RecurrenceTable:
        """Return all rows; the runtime ratio scales time, energy and cost, and the oracle's."""
        given = self._submissions
        ratio = given.runtime_ratio
        batch_size, limit_w, time_s, energy_j, cost_j = self._numbers.T
        converged, stopped, profiled, overlapping = self._flags.T
        return RecurrenceTable(
            workload_id=given.workload_id,
            group_id=given.group_id,
            seed=np.full(len(given), self._seed),
            recurrence=self._recurrence,
            start_s=self._start_s,
            runtime_ratio=ratio,
            batch_size=batch_size.astype(np.int32),
            power_limit_w=limit_w,
            time_s=time_s * ratio,
            energy_j=energy_j * ratio,
            cost_j=cost_j * ratio,
            regret_j=(cost_j - oracle_j[given.workload_id]) * ratio,
            average_power_w=energy_j / time_s,
            converged=converged,
            stopped=stopped,
            profiled=profiled,
            overlapping=overlapping,
        )
