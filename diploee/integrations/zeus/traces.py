"""Zeus' published traces as pandas frames: `TrainingTraces`, and job groups.

The train trace (``summary_train.csv``) has the epoch at which each training run reached
each metric; the power trace (``summary_power_<gpu>.csv``) has the time per epoch and
average power of each pair of batch size and power limit. Rows are joined by dataset,
network, optimizer and batch size, as in Zeus' simulator. The group trace has a row
for each recurrence of a recurring job: group, start, end, and run time ratio. A group
is one recurring job of the Alibaba GPU cluster trace (Weng et al., NSDI 2022). Zeus
assigned a dataset to each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diploee.base.errors import (
    Brief,
    LogFormatError,
    WorkloadError,
    did_you_mean,
    one_of,
)
from diploee.base.files.paths import shipped_folder
from diploee.importers.text.delimited_tables import ReadTable, read_header_table
from diploee.importers.text.numbers_and_labels import Number, numbers, texts
from diploee.integrations.zeus.workload import (
    KNOWN_WORKLOADS,
    TrainingWorkload,
    WorkloadSpec,
    join_numbers,
)

NAMES = ("dataset", "network", "optimizer")
"""Columns that join the traces, with the batch size.

Names are compared in lower case, as the traces differ in the case of optimizers."""
KEY = [*NAMES, "batch_size"]
_FIGURES = ["time_per_epoch", "average_power"]
_BATCH_SIZE = Number(2**31 - 1, at_least=1, whole=True, may_be_missing=False)
_TIME = Number(1e12, may_be_missing=False)
# Columns of each trace with the allowed numbers, None for names.
TRAIN_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(NAMES),
    "batch_size": _BATCH_SIZE,
    "learning_rate": Number(at_least=0, may_be_missing=False),
    "run": Number(at_least=0, whole=True, may_be_missing=False),
    "target_metric": Number(may_be_missing=False),
    "target_epoch": Number(1e5, above=0, none=np.inf),
}
POWER_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(NAMES),
    "batch_size": _BATCH_SIZE,
    "power_limit": Number(1e5, above=0, may_be_missing=False),
    "time_per_epoch": Number(1e6, above=0, may_be_missing=False),
    "average_power": Number(1e5, above=0, may_be_missing=False),
}
GROUP_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(("group", "dataset")),
    **dict.fromkeys(("start_time", "end_time"), _TIME),
    "runtime_ratio": Number(1e4, above=0, may_be_missing=False),
}


def read_train_trace(path: Path | str) -> pd.DataFrame:
    """Read ``summary_train.csv``: epochs of each run to each target metric.

    Epochs are infinite for targets that were not reached.
    """
    table, rows = _read(path, TRAIN_COLUMNS, "a train trace")
    _refuse_repeated_rows(
        table, rows[[*KEY, "learning_rate", "run", "target_metric"]], "run and target"
    )
    return rows.fillna({"target_epoch": np.inf})


def read_power_trace(path: Path | str) -> tuple[str, pd.DataFrame]:
    """Read ``summary_power_<gpu>.csv``, and return the GPU and the rows."""
    table, rows = _read(path, POWER_COLUMNS, "a power trace")
    _refuse_repeated_rows(
        table, rows[[*KEY, "power_limit"]], "batch size and power limit"
    )
    return Path(path).stem.lower().removeprefix("summary_power_"), rows


def _read(
    path: Path | str, columns: Mapping[str, Number | None], what: str
) -> tuple[ReadTable, pd.DataFrame]:
    """Read a trace as a text table, for errors with lines, and as a frame."""
    table = read_header_table(Path(path), what).read(tuple(columns), what)
    if not len(table):
        raise LogFormatError(
            f"{path}: no rows, expected one or more; give a complete table"
        )
    rows = pd.DataFrame(
        {
            name: texts(table, name) if kind is None else numbers(table, name, kind)
            for name, kind in columns.items()
        }
    )
    if "batch_size" in rows:
        rows["batch_size"] = rows["batch_size"].astype("int64")
    for name in columns.keys() & set(NAMES):
        rows[name] = rows[name].str.lower()
    return table, rows


def _refuse_repeated_rows(table: ReadTable, rows: pd.DataFrame, what: str) -> None:
    twice = rows.duplicated()
    if twice.any():
        row = int(np.argmax(twice))
        line = table.where(
            int(np.argmax((rows == rows.iloc[row]).all(axis=1)))
        ).rpartition(":")[2]
        table.fail(
            row,
            f"this {what} are already in line {line}, expected once; remove one row",
        )


@dataclass(frozen=True, eq=False)
class TrainingTraces(Brief):
    """Joined rows of a train trace and a GPU's power trace."""

    gpu: str  # GPU model of the power trace
    train: pd.DataFrame  # training runs with batch sizes in the power trace
    power: pd.DataFrame  # time and power of batch sizes in the train trace
    max_power_w: float  # highest power limit of the GPU in its trace [W]

    def specs(self) -> dict[str, WorkloadSpec]:
        """Return the known workloads in the traces by name.

        The default batch size is at most the largest measured one, the limit of the
        GPU's memory.
        """
        result = {}
        for name, spec in KNOWN_WORKLOADS.items():
            measured = self.power.batch_size[self.power.dataset == spec.dataset]
            if len(measured):
                largest = min(spec.default_batch_size, int(measured.max()))
                result[name] = replace(spec, default_batch_size=largest)
        return result

    def workload(self, spec: WorkloadSpec) -> TrainingWorkload:
        """Return the measured data of a workload; see `KNOWN_WORKLOADS`.

        Batch sizes without a path to the target metric are dropped; a path that never
        reaches the target has infinite length. `WorkloadError` with the available
        values if a name, the target, or the default batch size at its highest power
        limit is not in the data, or if no path reaches the target.
        """
        runs = self._training_rows(spec)
        at_target = np.isclose(
            runs.target_metric, spec.target_metric, rtol=1e-9, atol=0
        )
        if not at_target.any():
            raise WorkloadError(
                f"{spec.name}: target metric {spec.target_metric:g} is not in the "
                "train trace, expected one of "
                f"{join_numbers(np.unique(runs.target_metric))}"
            )
        paths = runs[at_target]
        epochs = dict(iter(paths.groupby("batch_size").target_epoch))
        measured = self.power[
            (self.power[[*NAMES]] == runs[[*NAMES]].iloc[0]).all(axis=1)
            & self.power.batch_size.isin(list(epochs))
        ]
        # NaN where a pair was not measured
        grid = measured.set_index(["batch_size", "power_limit"])[_FIGURES].unstack()  # noqa: PD010
        time_s, power_w = (grid[name].to_numpy() for name in _FIGURES)
        return TrainingWorkload(
            spec,
            self.gpu,
            self.max_power_w,
            grid.index.to_numpy(),
            grid[_FIGURES[0]].columns.to_numpy(),
            time_s,
            power_w,
            tuple(each.to_numpy() for each in epochs.values()),
        )

    def _training_rows(self, spec: WorkloadSpec) -> pd.DataFrame:
        """Return the training runs of a workload, or fail at its first unknown name."""
        rows = self.train
        for name in NAMES:
            value, values = getattr(spec, name).lower(), sorted(rows[name].unique())
            if value not in values:
                raise WorkloadError(
                    f"{spec.name}: unknown {name} '{value}', expected one that both "
                    f"traces have: {one_of(values)}{did_you_mean(value, values)}"
                )
            rows = rows[rows[name] == value]
        return rows


def read_traces(
    train_csv: Path | str | None = None, power_csv: Path | str | None = None
) -> TrainingTraces:
    """Read and join a train and a power trace; rows in only one trace are dropped.

    Parameters
    ----------
    train_csv, power_csv : pathlib.Path or str, optional
        ``summary_train.csv`` and ``summary_power_<gpu>.csv``; by default the shipped
        SYNTHETIC traces, which are not measured.

    Raises
    ------
    LogFormatError, WorkloadError
        If a trace can't be read, or the traces have nothing in common.
    """
    shipped = shipped_folder("profiles") / "zeus"
    train = read_train_trace(train_csv or shipped / "summary_train.csv")
    gpu, power = read_power_trace(power_csv or shipped / "summary_power_synthetic.csv")
    trained, measured = (pd.MultiIndex.from_frame(rows[KEY]) for rows in (train, power))
    train_mask, power_mask = trained.isin(measured), measured.isin(trained)
    if not train_mask.any():
        raise WorkloadError(
            f"the train trace and the power trace of '{gpu}' have no dataset, network, "
            "optimizer and batch size in common; give two traces that belong together"
        )
    highest_w = float(power.power_limit.max())
    return TrainingTraces(gpu, train[train_mask], power[power_mask], highest_w)


def chosen_workloads(
    traces: TrainingTraces, names: Sequence[str] = (), max_epochs: int | None = None
) -> list[TrainingWorkload]:
    """Return workloads of the traces by dataset name.

    Parameters
    ----------
    traces : TrainingTraces
        Joined traces.
    names : sequence of str
        Known datasets; by default all known datasets in the traces. For other datasets
        use `TrainingTraces.workload` with a `WorkloadSpec`.
    max_epochs : int, optional
        Maximum number of epochs; by default the known one.

    Raises
    ------
    WorkloadError
        If a dataset is unknown or not in the traces, and as in
        `TrainingTraces.workload`.
    """
    specs = traces.specs()
    dataset_names = [name.lower() for name in names] or list(specs)
    for name in dataset_names or [""]:
        if name not in specs:
            raise WorkloadError(
                f"unknown dataset '{name}', expected a known one of the traces: "
                f"{one_of(specs)}{did_you_mean(name, specs)}"
            )
    more: dict[str, Any] = {} if max_epochs is None else {"max_epochs": max_epochs}
    return [
        traces.workload(replace(specs[name], **more))
        for name in dict.fromkeys(dataset_names)
    ]


def read_groups(path: Path | str) -> pd.DataFrame:
    """Read an Alibaba group trace, a CSV file of recurrences.

    Parameters
    ----------
    path : pathlib.Path or str
        Path of the file, with times in seconds and rows in any order.

    Returns
    -------
    pandas.DataFrame
        A row for each recurrence in the order of the file, with the columns of the
        file; `group` is a category, `dataset` in lower case.

    Raises
    ------
    LogFormatError
        With the line, for a file that is no group trace, has no rows, an invalid value,
        an end before its start, or a group of two datasets.
    """
    table, rows = _read(path, GROUP_COLUMNS, "a group trace")
    for row in np.flatnonzero(rows.end_time < rows.start_time)[:1].tolist():
        table.fail(
            row,
            f"'end_time' is {rows.end_time[row]:.15g}, expected 'start_time' or later, "
            f"{rows.start_time[row]:.15g} s; correct or remove the row",
        )
    first = rows.groupby("group").dataset.transform("first")
    for row in np.flatnonzero(rows.dataset != first)[:1].tolist():
        group = rows.group[row]
        line = table.where(int(np.argmax(rows.group == group))).rpartition(":")[2]
        table.fail(
            row,
            (
                f"group '{group}' trains '{rows.dataset[row]}', but '{first[row]}' "
                f"in line {line}, expected one dataset a group; correct the row"
            ),
        )
    return rows.astype({"group": "category"})


def workload_submissions(
    groups: pd.DataFrame, workloads: Sequence[TrainingWorkload]
) -> tuple[pd.DataFrame, int]:
    """Return the recurrences of the workloads, and the number of other recurrences."""
    number = {workload.spec.dataset.lower(): k for k, workload in enumerate(workloads)}
    is_kept = groups[groups.dataset.isin(list(number))]
    if is_kept.empty:
        result = sorted(groups.dataset.unique())
        raise WorkloadError(
            f"no group trains {one_of(number)}, expected one of the datasets in the "
            f"group trace: {one_of(result)}"
            f"{did_you_mean(next(iter(number), ''), result)}"
        )
    submissions = pd.DataFrame(
        {
            "group_id": is_kept.group.cat.codes.astype("int32"),
            "workload_id": is_kept.dataset.map(number),
            "start_s": is_kept.start_time,
            "end_s": is_kept.end_time,
            "runtime_ratio": is_kept.runtime_ratio,
        }
    )
    return submissions, len(groups) - len(is_kept)
