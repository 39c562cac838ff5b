"""Summary of a simulation, one line per workload: how close to the oracle, what it saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.neighbours.zeus.cost import default_pair, oracle_pair
from diploee.neighbours.zeus.results import Recurrences, RecurrenceTable
from diploee.neighbours.zeus.workload import TrainingWorkload

SETTLED_FROM = 30
"""Recurrences of a recurring job after which its costs are compared with the oracle's."""


@dataclass(frozen=True)
class WorkloadSummary:
    """One workload of a simulation, all its recurring jobs and seeds together."""

    workload: str
    n_recurrences: int
    # Mean cost from the 31st recurrence of a job on, over the oracle's expected cost, both for the
    # same runtime ratios; None where no job recurs that often
    settled_cost_ratio: float | None
    # Sum over all runs, those that failed too, over that of the default pair's expectation
    cost_ratio: float
    energy_ratio: float
    time_ratio: float
    stopped_fraction: float  # of all runs, 0-1
    converged_fraction: float
    batch_size: int  # what the last quarter of each job's recurrences took most often
    power_limit_w: float  # what those with this batch size took most often
    oracle_batch_size: int
    oracle_power_limit_w: float


def summarize(
    workloads: Sequence[TrainingWorkload], recurrences: Recurrences, eta: float
) -> list[WorkloadSummary]:
    """Sum up a simulation by workload, without those that never recurred.

    Parameters
    ----------
    workloads : sequence of TrainingWorkload
        Those that were simulated.
    recurrences : Recurrences
        The result.
    eta : float
        Weight of the energy in its costs.
    """
    tables = [(workload, recurrences.of_workload(workload.name)) for workload in workloads]
    return [_summary(workload, table, eta) for workload, table in tables if len(table)]


def settled_cost_ratio(
    workload: TrainingWorkload, table: RecurrenceTable, eta: float, first: int = SETTLED_FROM
) -> float | None:
    """Return the mean cost from recurrence `first` on over the oracle's; None without any."""
    settled = table.take(table.recurrence >= first)
    if not len(settled):
        return None
    first_runs = settled.runtime_ratio[settled.attempt == 0]
    expected_j = oracle_pair(workload, eta).cost_j * first_runs.sum()
    return float(settled.cost_j.sum() / expected_j)


def _summary(workload: TrainingWorkload, table: RecurrenceTable, eta: float) -> WorkloadSummary:
    is_first = table.attempt == 0
    ratio = float(table.runtime_ratio[is_first].sum())
    base, oracle = default_pair(workload, eta), oracle_pair(workload, eta)
    base_energy_j = default_pair(workload, 1.0).cost_j
    row, column = base.row, base.column
    base_time_s = float(workload.mean_epochs[row] * workload.time_per_epoch_s[row, column])
    n_of_job = np.zeros(table.group_id.max() + 1, dtype=np.int64)
    np.maximum.at(n_of_job, table.group_id, table.recurrence + 1)
    late = table.take(table.recurrence >= 0.75 * n_of_job[table.group_id] - 1)
    batch_size = _most_frequent(late.batch_size)
    limit_w = _most_frequent(late.power_limit_w[late.batch_size == batch_size])
    return WorkloadSummary(
        workload=workload.name,
        n_recurrences=int(is_first.sum()),
        settled_cost_ratio=settled_cost_ratio(workload, table, eta),
        cost_ratio=float(table.cost_j.sum() / (base.cost_j * ratio)),
        energy_ratio=float(table.energy_j.sum() / (base_energy_j * ratio)),
        time_ratio=float(table.time_s.sum() / (base_time_s * ratio)),
        stopped_fraction=float(table.stopped.mean()),
        converged_fraction=float(table.converged.mean()),
        batch_size=int(batch_size),
        power_limit_w=limit_w,
        oracle_batch_size=oracle.batch_size,
        oracle_power_limit_w=oracle.power_limit_w,
    )


def _most_frequent(values: np.ndarray[tuple[int, ...], np.dtype[np.number]]) -> float:
    unique, counts = np.unique(values, return_counts=True)
    return float(unique[np.argmax(counts)])
