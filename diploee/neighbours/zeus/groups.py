"""The Alibaba group trace: real starts, ends and run time ratios of recurring jobs.

CSV of ``group,start_time,end_time,dataset,runtime_ratio``, times in seconds: jobs of one group of
the Alibaba GPU cluster trace (Weng et al., NSDI 2022), each mapped by Zeus to a dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from diploee.errors import WorkloadError, did_you_mean, one_of
from diploee.neighbours.zeus.results import Recurrences
from diploee.neighbours.zeus.simulator import Submissions, check_size, simulate
from diploee.neighbours.zeus.spec import ZeusSpec
from diploee.neighbours.zeus.trace_files import read_trace_columns
from diploee.neighbours.zeus.workload import TrainingWorkload
from diploee.tables import Float64Array, Int32Array, concat
from diploee.textio.values import Number, texts

GROUP_COLUMNS: Mapping[str, Number | None] = MappingProxyType(
    {
        **dict.fromkeys(("group", "dataset")),
        "start_time": Number(1e12, may_miss=False),
        "end_time": Number(1e12, may_miss=False),
        "runtime_ratio": Number(1e4, above=0, may_miss=False),
    }
)
"""Columns of the trace: what their numbers may be, None for names."""


@dataclass(frozen=True, eq=False)
class GroupTrace:
    """Recurrences of recurring jobs as a cluster logged them.

    Parameters
    ----------
    groups : tuple of str
        Names of the recurring jobs.
    datasets : tuple of str
        Dataset of each recurring job, in lower case.
    group_id : numpy.ndarray, shape (n,), int32
        Recurring job of each recurrence.
    start_s, end_s : numpy.ndarray, shape (n,), float64
        Start and end in the log [s].
    runtime_ratio : numpy.ndarray, shape (n,), float64
        Run time over the mean run time of all jobs of the dataset.
    """

    groups: tuple[str, ...]
    datasets: tuple[str, ...]
    group_id: Int32Array
    start_s: Float64Array
    end_s: Float64Array
    runtime_ratio: Float64Array

    def submissions(self, workloads: Sequence[TrainingWorkload]) -> tuple[Submissions, int]:
        """Return the recurrences of the workloads' datasets, and how many others were left out."""
        names = [workload.spec.dataset.lower() for workload in workloads]
        workload_id = np.array(
            [names.index(d) if d in names else -1 for d in self.datasets], dtype=np.int16
        )[self.group_id]
        kept = workload_id >= 0
        if not kept.any():
            found = sorted(set(self.datasets))
            raise WorkloadError(
                f"no group trains {one_of(names)}, expected one of the datasets in the group "
                f"trace: {one_of(found)}{did_you_mean(names[0] if names else '', found)}"
            )
        submissions = Submissions(
            self.group_id[kept],
            workload_id[kept],
            self.start_s[kept],
            self.end_s[kept],
            self.runtime_ratio[kept],
        )
        return submissions, int(np.sum(~kept))


def read_groups(path: Path | str, datasets: Sequence[str] | None = None) -> GroupTrace:
    """Read an Alibaba group trace.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV with the columns of `GROUP_COLUMNS`, rows in any order.
    datasets : sequence of str, optional
        Datasets that exist; another one is an error.

    Returns
    -------
    GroupTrace
        Every row, in the order of the file.

    Raises
    ------
    LogFormatError
        With the line: not such a table, no rows, a bad value, an end before its start, an unknown
        dataset, or a group of two datasets.
    """
    table, values = read_trace_columns(Path(path), GROUP_COLUMNS, "a group trace")
    dataset, group = (np.array(texts(table, name), dtype=np.str_) for name in ("dataset", "group"))
    dataset = np.char.lower(dataset)
    start_s, end_s = values["start_time"], values["end_time"]
    if (end_s < start_s).any():
        row = int(np.argmax(end_s < start_s))
        table.fail(
            row,
            f"'end_time' is {end_s[row]:.15g}, expected 'start_time' or later, "
            f"{start_s[row]:.15g} s; correct or remove the row",
        )
    known = None if datasets is None else sorted({name.lower() for name in datasets})
    if known is not None and not np.isin(dataset, known).all():
        row = int(np.argmin(np.isin(dataset, known)))
        table.fail(
            row,
            f"unknown dataset '{dataset[row]}', expected one of {one_of(known)}"
            f"{did_you_mean(str(dataset[row]), known)}",
        )
    groups, first, group_id = np.unique(group, return_index=True, return_inverse=True)
    of_group = dataset[first]
    if (dataset != of_group[group_id]).any():
        row = int(np.argmax(dataset != of_group[group_id]))
        before = table.where(int(first[group_id[row]])).rpartition(":")[2]
        table.fail(
            row,
            f"group '{groups[group_id[row]]}' trains '{dataset[row]}', but "
            f"'{of_group[group_id[row]]}' in line {before}, "
            "expected one dataset a group; correct the row",
        )
    return GroupTrace(
        tuple(groups.tolist()),
        tuple(of_group.tolist()),
        group_id.astype(np.int32),
        start_s,
        end_s,
        values["runtime_ratio"],
    )


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
    spec : ZeusSpec
        Optimizers and knobs.
    seeds : sequence of int
        Each gives another history.

    Raises
    ------
    WorkloadError
        As `diploee.neighbours.zeus.simulate` says, or if no group trains one of the workloads.
    """
    submissions, n_other = groups.submissions(workloads)
    check_size(len(submissions), seeds)
    tables = [
        simulate(workloads, submissions, spec, seed, group_names=groups.groups) for seed in seeds
    ]
    settings = spec.settings() | {
        "gpu": workloads[0].gpu,
        "recurrences_of_other_datasets": n_other,
    }
    names = tuple(workload.name for workload in workloads)
    return Recurrences(names, groups.groups, concat(tables), settings)
