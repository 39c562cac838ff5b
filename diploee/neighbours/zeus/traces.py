"""Zeus' traces and what is in them: `TrainingTraces`, `GroupTrace`.

The train trace (``summary_train.csv``) has the epoch at which each training run reached each
metric, the power trace (``summary_power_<gpu>.csv``) time per epoch and average power of each pair
of batch size and power limit. Their rows belong together by dataset, network, optimizer and batch
size, as in Zeus' own simulator. The group trace has real starts, ends and run time ratios of
recurring jobs: jobs of one group of the Alibaba GPU cluster trace (Weng et al., NSDI 2022), each
mapped by Zeus to a dataset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.errors import LogFormatError, WorkloadError, did_you_mean, one_of
from diploee.files.places import shipped_folder
from diploee.neighbours.zeus.workload import KNOWN_WORKLOADS, TrainingWorkload, WorkloadSpec, listed
from diploee.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.textio.sheets import read_sheet
from diploee.textio.tables import ReadTable
from diploee.textio.values import Number, numbers, texts

TextArray = npt.NDArray[np.str_]

NAMES = ("dataset", "network", "optimizer")
"""Columns of names by which rows belong together, besides the batch size; in lower case, as the
traces disagree on the case of optimizers."""
_BATCH_SIZE = Number(2**31 - 1, at_least=1, whole=True, may_miss=False)
_TIME = Number(1e12, may_miss=False)
# Columns of each trace: what their numbers may be, None for names.
TRAIN_COLUMNS: Mapping[str, Number | None] = {
    **dict.fromkeys(NAMES),
    "batch_size": _BATCH_SIZE,
    "learning_rate": Number(at_least=0, may_miss=False),
    "run": Number(at_least=0, whole=True, may_miss=False),
    "target_metric": Number(may_miss=False),
    "target_epoch": Number(1e5, above=0),
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


@dataclass(frozen=True, eq=False)
class _Trace(Table):
    dataset: TextArray = column("str")
    network: TextArray = column("str")
    optimizer: TextArray = column("str")
    batch_size: Int64Array = column("int64")

    def keys(self) -> list[tuple[Any, ...]]:
        """Return names and batch size of each row."""
        return _rows(self.columns(*NAMES, "batch_size"))


@dataclass(frozen=True, eq=False)
class _TrainTrace(_Trace):
    """Rows of the train trace: one training run and one target metric each."""

    target_metric: Float64Array = column("float64")  # validation metric
    # Epoch at which the run reached it; infinite where it never did
    target_epoch: Float64Array = column("float64")


@dataclass(frozen=True, eq=False)
class _PowerTrace(_Trace):
    """Rows of the power trace of one GPU model: one pair each."""

    power_limit_w: Float64Array = column("float64")
    time_per_epoch_s: Float64Array = column("float64")
    average_power_w: Float64Array = column("float64")  # of the GPU


def read_train_trace(path: Path | str) -> _TrainTrace:
    """Read ``summary_train.csv``."""
    table, values = _read(path, TRAIN_COLUMNS, "a train trace")
    key = [values[name] for name in (*NAMES, "batch_size")]
    of_run = [values[name] for name in ("learning_rate", "run", "target_metric")]
    _refuse_twice(table, [*key, *of_run], "this run and target")
    epoch = values["target_epoch"]
    of_target = [values["target_metric"], np.where(np.isnan(epoch), np.inf, epoch)]
    return _TrainTrace(*key, *of_target)


def read_power_trace(path: Path | str, gpu: str | None = None) -> tuple[str, _PowerTrace]:
    """Read ``summary_power_<gpu>.csv``, or that of a GPU in a folder; return the GPU, too."""
    file, gpu = _power_file(Path(path), gpu)
    table, values = _read(file, POWER_COLUMNS, "a power trace")
    key = [values[name] for name in (*NAMES, "batch_size")]
    _refuse_twice(table, [*key, values["power_limit"]], "this batch size and power limit")
    figures = [values[name] for name in ("power_limit", "time_per_epoch", "average_power")]
    return gpu, _PowerTrace(*key, *figures)


def _read(
    path: Path | str, columns: Mapping[str, Number | None], what: str
) -> tuple[ReadTable, dict[str, npt.NDArray[Any]]]:
    """Return a trace and its columns by name."""
    table = read_sheet(Path(path), what).read(tuple(columns), what)
    if not len(table):
        raise LogFormatError(f"{path}: no rows, expected one or more; give a complete table")
    values: dict[str, npt.NDArray[Any]] = {}
    for name, kind in columns.items():
        if kind is not None:
            values[name] = numbers(table, name, kind)
        else:
            words = np.array(texts(table, name), dtype=np.str_)
            values[name] = np.char.lower(words) if name in NAMES else words
    return table, values


def _rows(columns: Sequence[npt.NDArray[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _refuse_twice(table: ReadTable, columns: Sequence[npt.NDArray[Any]], what: str) -> None:
    first: dict[tuple[Any, ...], int] = {}
    for row, key in enumerate(_rows(columns)):
        if first.setdefault(key, row) != row:
            line = table.where(first[key]).rpartition(":")[2]
            table.fail(row, f"{what} stand already in line {line}, expected once; remove one row")


_POWER_FILE = re.compile(r"summary_power_(.+)\.csv", re.IGNORECASE)


def _power_file(path: Path, gpu: str | None) -> tuple[Path, str]:
    """Return the power trace of a GPU and the GPU's name."""
    files = sorted(path.glob("summary_power_*.csv")) if path.is_dir() else [path]
    named = {
        match[1].lower(): file for file in files if (match := _POWER_FILE.fullmatch(file.name))
    }
    if not path.is_dir() and not named:
        return path, gpu or path.stem
    if gpu is None:
        if len(named) == 1:
            return next((file, name) for name, file in named.items())
        raise WorkloadError(f"{path}: traces of {one_of(named)}; say which GPU with --gpu")
    if gpu.lower() not in named:
        raise WorkloadError(
            f"{path}: no power trace of the GPU {gpu!r} (have: {one_of(named)})"
            f"{did_you_mean(gpu.lower(), named)}"
        )
    return named[gpu.lower()], gpu.lower()


@dataclass(frozen=True, eq=False)
class TrainingTraces:
    """The rows of a train trace and of the power trace of one GPU model that have a partner.

    Parameters
    ----------
    gpu : str
        GPU model of the power trace.
    train : TrainTrace
        Training runs whose batch size was measured.
    power : PowerTrace
        Time and power of the batch sizes that were trained.
    max_power_w : float
        Highest power limit of the GPU, of all rows of its trace [W].
    counts : mapping of str to int
        Rows read and rows without a partner in the other trace, by cause.
    """

    gpu: str
    train: _TrainTrace
    power: _PowerTrace
    max_power_w: float
    counts: Mapping[str, int]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Datasets that both traces hold, in alphabetical order."""
        return tuple(np.unique(self.train.dataset).tolist())

    def specs(self) -> dict[str, WorkloadSpec]:
        """Return those of the known workloads that the traces hold, by name.

        A default batch size beyond the largest that was measured on this GPU is clipped to it, as
        the GPU's memory holds no more.
        """
        found = {}
        for name, spec in KNOWN_WORKLOADS.items():
            measured = self.power.batch_size[self.power.dataset == spec.dataset]
            if measured.size:
                largest = min(spec.default_batch_size, int(measured.max()))
                found[name] = replace(spec, default_batch_size=largest)
        return found

    def workload(self, spec: WorkloadSpec) -> TrainingWorkload:
        """Return what the traces know of a workload; see `KNOWN_WORKLOADS`.

        A batch size without a path to the target metric is left out; a path that never reaches the
        target is kept, as one of infinite length. `WorkloadError` if a name, the target, or the
        default batch size at its highest power limit is not in the data, or no path reaches the
        target; the text says what is.
        """
        rows = self._rows_of(spec)
        trained = np.unique(self.train.batch_size[rows])
        paths = self.train.take(rows & self._at_target(spec, rows))
        batch_sizes = np.unique(paths.batch_size)
        limits_w, time_s, power_w = self._grid(spec, batch_sizes)
        epochs = tuple(paths.target_epoch[paths.batch_size == size] for size in batch_sizes)
        counts = {
            "paths": len(paths),
            "paths that never reach the target": int(np.isinf(paths.target_epoch).sum()),
            "batch sizes without a path to the target": trained.size - batch_sizes.size,
            "pairs that were not measured": int(np.isnan(time_s).sum()),
        }
        return TrainingWorkload(
            spec, self.gpu, self.max_power_w, batch_sizes, limits_w, time_s, power_w, epochs,
            MappingProxyType(counts),
        )  # fmt: skip

    def _rows_of(self, spec: WorkloadSpec) -> BoolArray:
        """Return the training runs of a workload; its names are looked up one by one."""
        rows = np.ones(len(self.train), dtype=bool)
        for name in NAMES:
            values, wanted = getattr(self.train, name), getattr(spec, name).lower()
            known = np.unique(values[rows]).tolist()
            if wanted not in known:
                raise WorkloadError(
                    f"{spec.name}: unknown {name} '{wanted}', expected one that both traces hold: "
                    f"{one_of(known)}{did_you_mean(wanted, known)}"
                )
            rows &= values == wanted
        return rows

    def _at_target(self, spec: WorkloadSpec, rows: BoolArray) -> BoolArray:
        metric = self.train.target_metric
        at_target: BoolArray = np.isclose(metric, spec.target_metric, rtol=1e-9, atol=0)
        if not at_target[rows].any():
            raise WorkloadError(
                f"{spec.name}: target metric {spec.target_metric:g} is not in the train trace, "
                f"expected one of {listed(np.unique(metric[rows]))}"
            )
        return at_target

    def _grid(
        self, spec: WorkloadSpec, batch_sizes: Int64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return the limits, and time and power by batch size and limit; NaN where not measured."""
        rows = np.isin(self.power.batch_size, batch_sizes)
        for name in NAMES:
            rows &= getattr(self.power, name) == getattr(spec, name).lower()
        power = self.power.take(rows)
        limits_w, of_limit = np.unique(power.power_limit_w, return_inverse=True)
        at = np.searchsorted(batch_sizes, power.batch_size), of_limit
        time_s, power_w = np.full((2, batch_sizes.size, limits_w.size), np.nan)
        time_s[at], power_w[at] = power.time_per_epoch_s, power.average_power_w
        return limits_w, time_s, power_w


def read_traces(
    train_csv: Path | str | None = None,
    power_csv: Path | str | None = None,
    gpu: str | None = None,
) -> TrainingTraces:
    """Read and join a train and a power trace; rows without a partner are counted.

    Parameters
    ----------
    train_csv, power_csv : pathlib.Path or str, optional
        ``summary_train.csv`` and ``summary_power_<gpu>.csv``, or a folder of the latter; by
        default the SYNTHETIC traces that ship, which no one measured.
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
    trained, measured = train.keys(), power.keys()
    both = set(trained) & set(measured)
    if not both:
        raise WorkloadError(
            f"the train trace and the power trace of '{gpu}' have no dataset, network, "
            "optimizer and batch size in common; give two traces that belong together"
        )
    kept, kept_power = (np.array([key in both for key in keys]) for keys in (trained, measured))
    counts = {
        "train rows": len(train),
        "train rows without a power measurement": int(np.sum(~kept)),
        "power rows": len(power),
        "power rows that were never trained": int(np.sum(~kept_power)),
    }
    highest_w = float(power.power_limit_w.max())
    return TrainingTraces(
        gpu, train.take(kept), power.take(kept_power), highest_w, MappingProxyType(counts)
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
        Instead of the known ones; needed for a dataset that is not in `KNOWN_WORKLOADS`.
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
            f"the traces hold no known workload, but {one_of(traces.datasets)}; name one, with its "
            "target metric and default batch size"
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


def _spec_of(traces: TrainingTraces, name: str, given: Mapping[str, Any]) -> WorkloadSpec:
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
    of_dataset = traces.train.take(traces.train.dataset == name)
    keys = sorted({key[:3] for key in of_dataset.keys()})  # noqa: SIM118  # of a table
    if len(keys) > 1:
        found = [f"{network} with {optimizer}" for _, network, optimizer in keys]
        raise WorkloadError(
            f"{name}: trained in several ways, {one_of(found)}, expected one; give a WorkloadSpec "
            "in Python"
        )
    network, optimizer = keys[0][1:]
    return WorkloadSpec(
        name, network, optimizer, given["default_batch_size"], given["target_metric"]
    )


@dataclass(frozen=True, eq=False)
class Submissions(Table):
    """When recurrences start, and of which recurring job."""

    group_id: Int32Array = column("int32")  # the recurring job
    workload_id: Int16Array = column("int16")  # what it trains, the same in all its rows
    start_s: Float64Array = column("float64")  # NaN to start when all earlier ones have ended
    # After its end the next one may learn from it; NaN for start plus simulated run time
    end_s: Float64Array = column("float64")
    runtime_ratio: Float64Array = column("float64")  # run time over that of the traces


@dataclass(frozen=True, eq=False)
class GroupTrace:
    """Recurrences of recurring jobs as a cluster logged them, n rows in the order of the file.

    Parameters
    ----------
    groups, datasets : tuple of str
        Names of the recurring jobs, and the dataset of each, in lower case.
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
        of_group = np.array([names.index(d) if d in names else -1 for d in self.datasets])
        workload_id = of_group[self.group_id]
        kept = workload_id >= 0
        if not kept.any():
            found = sorted(set(self.datasets))
            raise WorkloadError(
                f"no group trains {one_of(names)}, expected one of the datasets in the group "
                f"trace: {one_of(found)}{did_you_mean(names[0] if names else '', found)}"
            )
        every = Submissions(
            self.group_id, workload_id, self.start_s, self.end_s, self.runtime_ratio
        )
        return every.take(kept), int(np.sum(~kept))


def read_groups(path: Path | str, datasets: Sequence[str] | None = None) -> GroupTrace:
    """Read an Alibaba group trace, CSV of ``group,start_time,end_time,dataset,runtime_ratio``.

    Parameters
    ----------
    path : pathlib.Path or str
        The file; times in seconds, rows in any order.
    datasets : sequence of str, optional
        Datasets that exist; another one is an error.

    Raises
    ------
    LogFormatError
        With the line: not such a table, no rows, a bad value, an end before its start, an unknown
        dataset, or a group of two datasets.
    """
    table, values = _read(path, GROUP_COLUMNS, "a group trace")
    dataset, start_s, end_s = (values[key] for key in ("dataset", "start_time", "end_time"))
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
    groups, first, group_id = np.unique(values["group"], return_index=True, return_inverse=True)
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
