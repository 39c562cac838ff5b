"""Zeus' traces and what is in them, as pandas frames: `TrainingTraces`, and groups.

The train trace (``summary_train.csv``) has the epoch at which each training run reached
each metric, the power trace (``summary_power_<gpu>.csv``) time per epoch and average
power of each pair of batch size and power limit. Their rows belong together by dataset,
network, optimizer and batch size, as in Zeus' own simulator. The group trace has real
starts, ends and run time ratios of recurring jobs: jobs of one group of the Alibaba GPU
cluster trace (Weng et al., NSDI 2022), each mapped by Zeus to a dataset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
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
from diploee.base.files.places import shipped_folder
from diploee.importers.text.tables import ReadTable, read_sheet
from diploee.importers.text.values import Number, numbers, texts
from diploee.integrations.zeus.workload import (
    KNOWN_WORKLOADS,
    TrainingWorkload,
    WorkloadSpec,
    listed,
)

NAMES = ("dataset", "network", "optimizer")
"""Columns of names by which rows belong together, besides the batch size; in lower
case, as the traces disagree on the case of optimizers."""
KEY = [*NAMES, "batch_size"]
_FIGURES = ["time_per_epoch", "average_power"]
_BATCH_SIZE = Number(2**31 - 1, at_least=1, whole=True, may_miss=False)
_TIME = Number(1e12, may_miss=False)
# Columns of each trace: what their numbers may be, None for names.
TRAIN_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(NAMES),
    "batch_size": _BATCH_SIZE,
    "learning_rate": Number(at_least=0, may_miss=False),
    "run": Number(at_least=0, whole=True, may_miss=False),
    "target_metric": Number(may_miss=False),
    "target_epoch": Number(1e5, above=0, none=np.inf),
}
POWER_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(NAMES),
    "batch_size": _BATCH_SIZE,
    "power_limit": Number(1e5, above=0, may_miss=False),
    "time_per_epoch": Number(1e6, above=0, may_miss=False),
    "average_power": Number(1e5, above=0, may_miss=False),
}
GROUP_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(("group", "dataset")),
    **dict.fromkeys(("start_time", "end_time"), _TIME),
    "runtime_ratio": Number(1e4, above=0, may_miss=False),
}


def read_train_trace(path: Path | str) -> pd.DataFrame:
    """Read ``summary_train.csv``: a row for each run and target.

    Infinite epochs if not reached.
    """
    table, rows = _read(path, TRAIN_COLUMNS, "a train trace")
    _refuse_twice(
        table, rows[[*KEY, "learning_rate", "run", "target_metric"]], "run and target"
    )
    return rows.fillna({"target_epoch": np.inf})


def read_power_trace(
    path: Path | str, gpu: str | None = None
) -> tuple[str, pd.DataFrame]:
    """Read ``summary_power_<gpu>.csv``, or that of a GPU in a folder.

    Return the GPU, too.
    """
    file, gpu = _power_file(Path(path), gpu)
    table, rows = _read(file, POWER_COLUMNS, "a power trace")
    _refuse_twice(table, rows[[*KEY, "power_limit"]], "batch size and power limit")
    return gpu, rows


def _read(
    path: Path | str, columns: Mapping[str, Number | None], what: str
) -> tuple[ReadTable, pd.DataFrame]:
    """Return a trace as read, which knows its lines, and its columns."""
    table = read_sheet(Path(path), what).read(tuple(columns), what)
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


def _refuse_twice(table: ReadTable, rows: pd.DataFrame, what: str) -> None:
    twice = rows.duplicated()
    if twice.any():
        row = int(np.argmax(twice))
        line = table.where(
            int(np.argmax((rows == rows.iloc[row]).all(axis=1)))
        ).rpartition(":")[2]
        table.fail(
            row,
            f"this {what} stand already in line {line}, expected once; remove one row",
        )


_POWER_FILE = re.compile(r"summary_power_(.+)\.csv", re.IGNORECASE)


def _power_file(path: Path, gpu: str | None) -> tuple[Path, str]:
    """Return the power trace of a GPU and the GPU's name."""
    files = sorted(path.glob("summary_power_*.csv")) if path.is_dir() else [path]
    named = {
        match[1].lower(): file
        for file in files
        if (match := _POWER_FILE.fullmatch(file.name))
    }
    if not path.is_dir() and not named:
        return path, gpu or path.stem
    if gpu is None:
        if len(named) == 1:
            return next((file, name) for name, file in named.items())
        raise WorkloadError(
            f"{path}: traces of {one_of(named)}; say which GPU with --gpu"
        )
    if gpu.lower() not in named:
        raise WorkloadError(
            f"{path}: no power trace of the GPU {gpu!r} (have: {one_of(named)})"
            f"{did_you_mean(gpu.lower(), named)}"
        )
    return named[gpu.lower()], gpu.lower()


@dataclass(frozen=True, eq=False)
class TrainingTraces(Brief):
    """The rows of a train trace and a GPU's power trace that have a partner."""

    gpu: str  # GPU model of the power trace
    train: pd.DataFrame  # training runs whose batch size was measured
    power: pd.DataFrame  # time and power of the batch sizes that were trained
    max_power_w: float  # highest power limit of the GPU, of all rows of its trace [W]
    counts: Mapping[str, int]  # rows read and rows without a partner in the other trace

    @property
    def datasets(self) -> tuple[str, ...]:
        """Datasets that both traces hold, in alphabetical order."""
        return tuple(sorted(self.train.dataset.unique()))

    def specs(self) -> dict[str, WorkloadSpec]:
        """Return those of the known workloads that the traces hold, by name.

        A default batch size beyond the largest that was measured on this GPU is clipped
        to it, as the GPU's memory holds no more.
        """
        found = {}
        for name, spec in KNOWN_WORKLOADS.items():
            measured = self.power.batch_size[self.power.dataset == spec.dataset]
            if len(measured):
                largest = min(spec.default_batch_size, int(measured.max()))
                found[name] = replace(spec, default_batch_size=largest)
        return found

    def workload(self, spec: WorkloadSpec) -> TrainingWorkload:
        """Return what the traces know of a workload; see `KNOWN_WORKLOADS`.

        A batch size without a path to the target metric is left out; a path that never
        reaches the target is kept, as one of infinite length. `WorkloadError` if a
        name, the target, or the default batch size at its highest power limit is not in
        the data, or no path reaches the target; the text says what is.
        """
        runs = self._rows_of(spec)
        at_target = np.isclose(
            runs.target_metric, spec.target_metric, rtol=1e-9, atol=0
        )
        if not at_target.any():
            raise WorkloadError(
                f"{spec.name}: target metric {spec.target_metric:g} is not in the "
                f"train trace, expected one of {listed(np.unique(runs.target_metric))}"
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
        counts = {
            "paths": len(paths),
            "paths that never reach the target": int(
                np.isinf(paths.target_epoch).sum()
            ),
            "batch sizes without a path to the target": runs.batch_size.nunique()
            - len(epochs),
            "pairs that were not measured": int(np.isnan(time_s).sum()),
        }
        return TrainingWorkload(
            spec,
            self.gpu,
            self.max_power_w,
            grid.index.to_numpy(),
            grid[_FIGURES[0]].columns.to_numpy(),
            time_s,
            power_w,
            tuple(each.to_numpy() for each in epochs.values()),
            MappingProxyType(counts),
        )

    def _rows_of(self, spec: WorkloadSpec) -> pd.DataFrame:
        """Return the training runs of a workload.

        Its names are looked up one by one.
        """
        rows = self.train
        for name in NAMES:
            wanted, known = getattr(spec, name).lower(), sorted(rows[name].unique())
            if wanted not in known:
                raise WorkloadError(
                    f"{spec.name}: unknown {name} '{wanted}', expected one that both "
                    f"traces hold: {one_of(known)}{did_you_mean(wanted, known)}"
                )
            rows = rows[rows[name] == wanted]
        return rows


def read_traces(
    train_csv: Path | str | None = None,
    power_csv: Path | str | None = None,
    gpu: str | None = None,
) -> TrainingTraces:
    """Read and join a train and a power trace; rows without a partner are counted.

    Parameters
    ----------
    train_csv, power_csv : pathlib.Path or str, optional
        ``summary_train.csv`` and ``summary_power_<gpu>.csv``, or a folder of the
        latter; by default the SYNTHETIC traces that ship, which no one measured.
    gpu : str, optional
        GPU model; chooses the file of a folder.

    Raises
    ------
    LogFormatError, WorkloadError
        If one can't be read, lacks the GPU, or they have nothing in common.
    """
    shipped = shipped_folder("profiles") / "zeus"
    train = read_train_trace(train_csv or shipped / "summary_train.csv")
    gpu, power = read_power_trace(power_csv or shipped, gpu)
    trained, measured = (pd.MultiIndex.from_frame(rows[KEY]) for rows in (train, power))
    kept, kept_power = trained.isin(measured), measured.isin(trained)
    if not kept.any():
        raise WorkloadError(
            f"the train trace and the power trace of '{gpu}' have no dataset, network, "
            "optimizer and batch size in common; give two traces that belong together"
        )
    counts = {
        "train rows": len(train),
        "train rows without a power measurement": int(np.sum(~kept)),
        "power rows": len(power),
        "power rows that were never trained": int(np.sum(~kept_power)),
    }
    highest_w = float(power.power_limit.max())
    return TrainingTraces(
        gpu, train[kept], power[kept_power], highest_w, MappingProxyType(counts)
    )


def chosen_workloads(
    traces: TrainingTraces,
    names: Sequence[str] = (),
    *,
    target_metric: float | None = None,
    default_batch_size: int | None = None,
    max_epochs: int | None = None,
) -> list[TrainingWorkload]:
    """Return workloads by the names of their datasets.

    Parameters
    ----------
    traces : TrainingTraces
        Where they are taken from.
    names : sequence of str
        Datasets; by default all known ones that the traces hold.
    target_metric, default_batch_size : float or int, optional
        Instead of the known ones; needed for a dataset that is not in
        `KNOWN_WORKLOADS`.
    max_epochs : int, optional
        Instead of the known highest number of epochs.

    Raises
    ------
    WorkloadError
        If a dataset is not in the traces, its target or default is not known, or as
        `TrainingTraces.workload` says.
    """
    wanted = [name.lower() for name in names] or list(traces.specs())
    if not wanted:
        raise WorkloadError(
            f"the traces hold no known workload, but {one_of(traces.datasets)}; name "
            "one, with its target metric and default batch size"
        )
    given: dict[str, Any] = {
        "target_metric": target_metric,
        "default_batch_size": default_batch_size,
        "max_epochs": max_epochs,
    }
    given = {key: value for key, value in given.items() if value is not None}
    return [
        traces.workload(replace(_spec_of(traces, name, given), **given))
        for name in dict.fromkeys(wanted)
    ]


def _spec_of(
    traces: TrainingTraces, name: str, given: Mapping[str, Any]
) -> WorkloadSpec:
    if name not in traces.datasets:
        raise WorkloadError(
            f"unknown dataset '{name}', expected one that both traces hold: "
            f"{one_of(traces.datasets)}{did_you_mean(name, traces.datasets)}"
        )
    if name in KNOWN_WORKLOADS:
        return traces.specs()[name]
    if not {"target_metric", "default_batch_size"} <= given.keys():
        raise WorkloadError(
            f"{name}: its target metric and default batch size are not known (known: "
            f"{one_of(KNOWN_WORKLOADS)}); give both"
        )
    of_dataset = traces.train[traces.train.dataset == name]
    ways = sorted(set(zip(of_dataset.network, of_dataset.optimizer, strict=True)))
    if len(ways) > 1:
        found = [f"{network} with {optimizer}" for network, optimizer in ways]
        raise WorkloadError(
            f"{name}: trained in several ways, {one_of(found)}, expected one; give a "
            "WorkloadSpec in Python"
        )
    network, optimizer = ways[0]
    return WorkloadSpec(
        name, network, optimizer, given["default_batch_size"], given["target_metric"]
    )


def read_groups(
    path: Path | str, datasets: Sequence[str] | None = None
) -> pd.DataFrame:
    """Read an Alibaba group trace, a CSV file of recurrences.

    Parameters
    ----------
    path : pathlib.Path or str
        The file; times in seconds, rows in any order.
    datasets : sequence of str, optional
        Datasets that exist; another one is an error.

    Returns
    -------
    pandas.DataFrame
        A row for each recurrence in the order of the file, with the columns of the
        file; `group` is a category, `dataset` in lower case.

    Raises
    ------
    LogFormatError
        With the line: not such a table, no rows, a bad value, an end before its start,
        an unknown dataset, or a group of two datasets.
    """
    table, rows = _read(path, GROUP_COLUMNS, "a group trace")
    for row in np.flatnonzero(rows.end_time < rows.start_time)[:1].tolist():
        table.fail(
            row,
            f"'end_time' is {rows.end_time[row]:.15g}, expected 'start_time' or later, "
            f"{rows.start_time[row]:.15g} s; correct or remove the row",
        )
    known = sorted({name.lower() for name in datasets or rows.dataset})
    for row in np.flatnonzero(~rows.dataset.isin(known))[:1].tolist():
        table.fail(
            row,
            f"unknown dataset '{rows.dataset[row]}', expected one of {one_of(known)}"
            f"{did_you_mean(rows.dataset[row], known)}",
        )
    of_group = rows.groupby("group").dataset.transform("first")
    for row in np.flatnonzero(rows.dataset != of_group)[:1].tolist():
        group = rows.group[row]
        before = table.where(int(np.argmax(rows.group == group))).rpartition(":")[2]
        table.fail(
            row,
            (
                f"group '{group}' trains '{rows.dataset[row]}', but '{of_group[row]}' "
                f"in line {before}, expected one dataset a group; correct the row"
            ),
        )
    return rows.astype({"group": "category"})


def submissions_of(
    groups: pd.DataFrame, workloads: Sequence[TrainingWorkload]
) -> tuple[pd.DataFrame, int]:
    """Return the recurrences of the workloads' datasets, and the rest's number."""
    number = {workload.spec.dataset.lower(): k for k, workload in enumerate(workloads)}
    kept = groups[groups.dataset.isin(list(number))]
    if kept.empty:
        found = sorted(groups.dataset.unique())
        raise WorkloadError(
            f"no group trains {one_of(number)}, expected one of the datasets in the "
            f"group trace: {one_of(found)}"
            f"{did_you_mean(next(iter(number), ''), found)}"
        )
    submissions = pd.DataFrame(
        {
            "group_id": kept.group.cat.codes.astype("int32"),
            "workload_id": kept.dataset.map(number),
            "start_s": kept.start_time,
            "end_s": kept.end_time,
            "runtime_ratio": kept.runtime_ratio,
        }
    )
    return submissions, len(groups) - len(kept)
