"""Reads a sweep folder: its table of metrics, its axes, and which runs to draw in detail."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.errors import InputError, one_of
from diploee.outputs import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_FILE = "summary.parquet"
SWEEP_FILE = "sweep.json"
RUNS_FOLDER = "runs"
MEAN_POWER = "power.mean_mw"
RUN_COLUMNS = ("run", "run_id", "hash", "run_hash", "sha256", "folder")


@dataclass(frozen=True)
class Sweep:
    """A sweep, ready to draw.

    Parameters
    ----------
    folder : pathlib.Path
        The sweep folder.
    name : str
        Its name.
    axes : tuple of str
        Columns of the summary that the sweep varies, without the seed.
    finished : pandas.DataFrame
        Rows of the runs that have metrics.
    n_failed : int
        Rows that have none.
    """

    folder: Path
    name: str
    axes: tuple[str, ...]
    finished: pd.DataFrame
    n_failed: int

    @property
    def n_seeds(self) -> int:
        """How many seeds there are."""
        return int(self.finished["seed"].nunique()) if "seed" in self.finished else 1


def is_sweep(folder: Path) -> bool:
    """Tell whether a folder is a sweep's."""
    return (folder / SUMMARY_FILE).is_file() and not (folder / MANIFEST).is_file()


def read_sweep(folder: Path) -> Sweep:
    """Read a sweep folder.

    Raises
    ------
    InputError
        If the summary is damaged, lacks a column or holds no finished run.
    """
    import pandas as pd
    import pyarrow as pa

    path = folder / SUMMARY_FILE
    try:
        table = pd.read_parquet(path)
        spec = json.loads((folder / SWEEP_FILE).read_text("utf-8"))
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{folder}: the sweep can't be read ({reason})") from error
    axes = axis_names(spec)
    missing = [name for name in (*axes, MEAN_POWER) if name not in table]
    if missing:
        raise InputError(
            f"{path}: column {one_of(missing)} is missing (have: {one_of(map(str, table.columns))})"
        )
    finished = table[table[MEAN_POWER].notna()].copy()
    if finished.empty:
        raise InputError(f"{path}: no run of this sweep has finished; see its column 'status'")
    for axis in axes:
        if not pd.api.types.is_numeric_dtype(finished[axis]):
            finished[axis] = finished[axis].map(str)
    name = str(spec.get("name") or folder.absolute().name)
    return Sweep(folder, name, axes, finished, len(table) - len(finished))


def axis_names(spec: Any) -> tuple[str, ...]:
    """Return the axes' names from a sweep's description: a list, of names or objects, or a map."""
    found = spec.get("axes") if isinstance(spec, dict) else None
    if isinstance(found, dict):
        found = list(found)
    if not isinstance(found, list):
        raise InputError(f"{SWEEP_FILE}: expected a list 'axes', found {type(found).__name__}")
    names = [
        str(axis.get("name") or axis.get("key")) if isinstance(axis, dict) else str(axis)
        for axis in found
    ]
    return tuple(name for name in dict.fromkeys(names) if name != "seed")


def runs_to_draw(sweep: Sweep, most: int) -> list[tuple[Path, str]]:
    """Return folders and labels of runs that span the axes: one seed, evenly spread.

    Runs whose folder is not there are left out.
    """
    table = sweep.finished
    column = next((name for name in RUN_COLUMNS if name in table), None)
    if column is None:
        return []
    if "seed" in table:
        table = table.sort_values("seed", kind="stable")
    # A run of each point, in the order of the file.
    axes = list(sweep.axes)
    table = table.drop_duplicates(axes).sort_index() if axes else table.iloc[:1]
    places = table[column].map(lambda name: _folder(sweep.folder, str(name)))
    table, places = table[places.notna()], places[places.notna()]
    if len(table) > most:
        chosen = [round(i * (len(table) - 1) / (most - 1)) for i in range(most)]
        table, places = table.iloc[chosen], places.iloc[chosen]
    moving = moving_axes(table, sweep.axes) or list(sweep.axes)
    labels = [_label(row, moving) or sweep.name for _, row in table.iterrows()]
    return list(zip(places, labels, strict=True))


def moving_axes(table: pd.DataFrame, axes: tuple[str, ...]) -> list[str]:
    """Return the axes of more than one value; of those that move in step only the first."""
    found: dict[tuple[int, ...], str] = {}
    for axis in axes:
        codes, values = table[axis].factorize()
        if len(values) > 1:
            found.setdefault(tuple(codes), axis)
    return list(found.values())


def _folder(folder: Path, name: str) -> Path | None:
    for place in (folder / RUNS_FOLDER / name, folder / name):
        if (place / MANIFEST).is_file():
            return place
    return None


def _label(row: pd.Series[Any], axes: list[str]) -> str:
    return ", ".join(f"{short_name(axis)} {value_text(row[axis])}" for axis in axes)


def short_name(axis: str) -> str:
    """Return the last part of a dotted key, in words."""
    return axis.rsplit(".", 1)[-1].replace("_", " ")


def value_text(value: object) -> str:
    """Return an axis value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)
