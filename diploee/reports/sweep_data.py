"""Sweep data for charts: metrics, axes, and the runs to draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field

from diploee.base.errors import InputError, counted
from diploee.base.tables import Kind, numbers, open_parquet, to_pandas_frame
from diploee.base.validation import Record, read_json
from diploee.runs.folder import MANIFEST
from diploee.runs.parquet_files import FACILITY_FILE

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_FILE = "summary.parquet"
SWEEP_FILE = "sweep.json"
RUNS_FOLDER = "runs"
MEAN_POWER = "power.mean_mw"


class _SweepRun(Record):
    warnings: list[str] = Field(default_factory=list)


class _SweepSpec(Record):
    metrics: list[str] = Field(default_factory=list)
    accuracy: float = 0.01


class _SweepFile(Record):
    name: str = ""
    axes: list[str]
    spec: _SweepSpec = _SweepSpec()
    runs: list[_SweepRun] = Field(default_factory=list)


@dataclass(frozen=True)
class SweepData:
    """Sweep with its data for charts."""

    folder: Path  # the sweep folder
    name: str  # its name
    # Names of the axes, columns of `finished`, without the seed
    axes: tuple[str, ...]
    finished: pd.DataFrame  # rows of the runs that have metrics
    n_failed: int  # number of rows without metrics
    # Keys of the metrics that the sweep selects; empty for the default ones
    metrics: tuple[str, ...] = ()
    # Warnings of its runs, each once, with the number of runs
    warnings: tuple[str, ...] = ()
    accuracy: float = 0.01  # relative accuracy of means for which seeds are counted

    @property
    def n_seeds(self) -> int:
        """Number of seeds."""
        return int(self.finished["seed"].nunique()) if "seed" in self.finished else 1


def is_sweep(folder: Path) -> bool:
    """Return True if a folder is a sweep's folder."""
    return (folder / SUMMARY_FILE).is_file() and not (folder / MANIFEST).is_file()


def read_sweep(folder: Path) -> SweepData:
    """Read a sweep folder.

    Raises
    ------
    InputError
        If a file is damaged, or no run has finished.
    """
    path = folder / SUMMARY_FILE
    spec = read_json(folder / SWEEP_FILE, _SweepFile)
    axes = tuple(name for name in dict.fromkeys(spec.axes) if name != "seed")
    needed: dict[str, Kind] = {"run": "text", **dict.fromkeys(axes, "any")}
    with open_parquet(path, needed, remedy="run the sweep again") as file:
        for column in file.schema_arrow:
            if pa.types.is_nested(column.type):
                raise InputError(f"{path}: column '{column.name}' holds {column.type}")
        table = to_pandas_frame(file.read())
    for name, values in table.select_dtypes("number").items():
        numbers(pa.array(values.dropna()), f"{path}: '{name}'")
    has_metrics = MEAN_POWER in table
    finished = table[table[MEAN_POWER].notna()].copy() if has_metrics else table[:0]
    if finished.empty:
        raise InputError(
            f"{path}: no run of this sweep has finished; see its column 'status'"
        )
    for axis in axes:
        if finished[axis].dtype.kind not in "iuf":
            finished[axis] = finished[axis].map(str)
    warned = counted((run.warnings for run in spec.runs), len(finished), "run")
    return SweepData(
        folder,
        spec.name or folder.absolute().name,
        axes,
        finished,
        len(table) - len(finished),
        tuple(spec.spec.metrics),
        tuple(warned),
        spec.spec.accuracy,
    )


def runs_to_draw(sweep: SweepData, max_n: int) -> list[tuple[Path, str]]:
    """Return folders and labels of at most `max_n` runs, spread over the axes.

    Each point has one run: the run with its lowest seed. Runs without a power series
    are left out.
    """
    table = sweep.finished
    if "seed" in table:
        table = table.sort_values("seed", kind="stable")
    # One run of each point, in the order of the file
    axes = list(sweep.axes)
    table = table.drop_duplicates(axes).sort_index() if axes else table.iloc[:1]
    folders = table["run"].map(lambda name: sweep.folder / RUNS_FOLDER / str(name))
    needed_files = (MANIFEST, FACILITY_FILE)
    is_complete = folders.map(
        lambda folder: all((folder / name).is_file() for name in needed_files)
    )
    table, folders = table[is_complete], folders[is_complete]
    chosen = evenly_spaced(len(table), max_n)
    table, folders = table.iloc[chosen], folders.iloc[chosen]
    moving = moving_axes(table, sweep.axes) or list(sweep.axes)
    labels = [point_name(row, moving) or sweep.name for _, row in table.iterrows()]
    return list(zip(folders, labels, strict=True))


def evenly_spaced(n: int, max_n: int) -> list[int]:
    """Return at most `max_n` evenly spaced indices below n, including both ends."""
    return (
        [round(k * (n - 1) / (max_n - 1)) for k in range(max_n)]
        if n > max_n
        else [*range(n)]
    )


def moving_axes(table: pd.DataFrame, axes: tuple[str, ...]) -> list[str]:
    """Return the axes that have several values; of zipped axes, only the first."""
    result: dict[tuple[int, ...], str] = {}
    for axis in axes:
        codes, values = table[axis].factorize()
        if len(values) > 1:
            result.setdefault(tuple(codes), axis)
    return list(result.values())


def point_name(row: Any, axes: Iterable[str]) -> str:
    """Return a label of a sweep point, such as `n_nodes 128, seed 2`."""
    return ", ".join(f"{short_name(axis)} {value_text(row[axis])}" for axis in axes)


def short_name(axis: str) -> str:
    """Return the last part of a dotted key, with spaces."""
    return axis.rsplit(".", 1)[-1].replace("_", " ")


def value_text(value: object) -> str:
    """Return an axis value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)
