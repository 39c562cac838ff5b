"""Zeus' train and power traces as arrays, every row of them: `TrainTrace`, `PowerTrace`.

The train trace (``summary_train.csv``) has the epoch at which each training run reached each
metric, the power trace (``summary_power_<gpu>.csv``) time per epoch and average power of each pair
of batch size and power limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from diploee.errors import LogFormatError, WorkloadError, did_you_mean, one_of
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.textio.sheets import read_sheet
from diploee.textio.tables import ReadTable
from diploee.textio.values import Number, numbers, texts

Numbers = Int64Array | Float64Array

TextArray = npt.NDArray[np.str_]

_NAME = None
_BATCH_SIZE = Number(2**31 - 1, at_least=1, whole=True, may_miss=False)
TRAIN_COLUMNS: Mapping[str, Number | None] = MappingProxyType(
    {
        **dict.fromkeys(("dataset", "network", "optimizer"), _NAME),
        "batch_size": _BATCH_SIZE,
        "learning_rate": Number(at_least=0, may_miss=False),
        "run": Number(at_least=0, whole=True, may_miss=False),
        "target_metric": Number(may_miss=False),
        "target_epoch": Number(1e5, above=0),
    }
)
POWER_COLUMNS: Mapping[str, Number | None] = MappingProxyType(
    {
        **dict.fromkeys(("dataset", "network", "optimizer"), _NAME),
        "batch_size": _BATCH_SIZE,
        "power_limit": Number(1e5, above=0, may_miss=False),
        "time_per_epoch": Number(1e6, above=0, may_miss=False),
        "average_power": Number(1e5, above=0, may_miss=False),
    }
)
"""Columns of a trace: what their numbers may be, None for names."""

KEY = ("dataset", "network", "optimizer")
"""Columns of names by which rows belong together, besides the batch size."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Arrays of one length, a row each."""

    def take(self, rows: BoolArray) -> Self:
        """Return the rows of a mask."""
        arrays = {name: each for name, each in vars(self).items() if isinstance(each, np.ndarray)}
        return replace(self, **{name: each[rows] for name, each in arrays.items()})


@dataclass(frozen=True, eq=False)
class TrainTrace(_Rows):
    """Rows of the train trace: one training run and one target metric each."""

    key: TextArray  # dataset, network and optimizer, in lower case
    batch_size: Int64Array  # batch size
    target_metric: Float64Array  # validation metric
    target_epoch: Float64Array  # epoch at which the run reached it; infinite where it never did


@dataclass(frozen=True, eq=False)
class PowerTrace(_Rows):
    """Rows of the power trace of one GPU model: one pair each."""

    gpu: str  # GPU model
    key: TextArray  # dataset, network and optimizer, in lower case
    batch_size: Int64Array  # batch size
    # Power limit [W], duration of one epoch [s], average power of the GPU [W]
    power_limit_w: Float64Array
    time_per_epoch_s: Float64Array
    average_power_w: Float64Array


def read_train_trace(path: Path | str) -> TrainTrace:
    """Read ``summary_train.csv``."""
    table, values = read_trace_columns(Path(path), TRAIN_COLUMNS, "a train trace")
    key, batch_size = _key(table), values["batch_size"].astype(np.int64)
    metric, epoch = values["target_metric"], values["target_epoch"]
    numbers_of_run: list[Numbers] = [batch_size, values["learning_rate"], values["run"], metric]
    _refuse_twice(table, key, numbers_of_run, "this run and target")
    return TrainTrace(key, batch_size, metric, np.where(np.isnan(epoch), np.inf, epoch))


def read_power_trace(path: Path | str, gpu: str | None = None) -> PowerTrace:
    """Read ``summary_power_<gpu>.csv``."""
    file, gpu = _power_file(Path(path), gpu)
    table, values = read_trace_columns(file, POWER_COLUMNS, "a power trace")
    key, batch_size = _key(table), values["batch_size"].astype(np.int64)
    limit_w = values["power_limit"]
    _refuse_twice(table, key, [batch_size, limit_w], "this batch size and power limit")
    return PowerTrace(
        gpu, key, batch_size, limit_w, values["time_per_epoch"], values["average_power"]
    )


def read_trace_columns(
    path: Path, columns: Mapping[str, Number | None], what: str
) -> tuple[ReadTable, dict[str, Float64Array]]:
    """Return the columns of a trace, and those of numbers by name."""
    table = read_sheet(path, what).read(tuple(columns), what)
    if not len(table):
        raise LogFormatError(f"{path}: no rows, expected one or more; give a complete table")
    kinds = {name: kind for name, kind in columns.items() if kind is not None}
    return table, {name: numbers(table, name, kind) for name, kind in kinds.items()}


def _key(table: ReadTable) -> TextArray:
    """Return dataset, network and optimizer; the traces disagree on the case of optimizers."""
    columns = [np.char.lower(np.array(texts(table, name), dtype=np.str_)) for name in KEY]
    return np.stack(columns, axis=1)


def row_codes(key: TextArray, numbers: Sequence[Numbers]) -> Int64Array:
    """Return one number per row, shape (n,), equal for rows of the same names and numbers."""
    codes = np.zeros(len(key), dtype=np.int64)
    for column in (*key.T, *numbers):
        values, code = np.unique(column, return_inverse=True)
        codes = np.unique(codes * max(values.size, 1) + code, return_inverse=True)[1]
    return codes


def _refuse_twice(table: ReadTable, key: TextArray, numbers: Sequence[Numbers], what: str) -> None:
    codes = row_codes(key, numbers)
    first = np.unique(codes, return_index=True)[1]
    if first.size == codes.size:
        return
    row = int(np.setdiff1d(np.arange(codes.size), first)[0])
    before = int(np.argmax(codes == codes[row]))
    line = table.where(before).rpartition(":")[2]
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
