"""The `grid` block of a run's metrics as its section needs it, and windows of the run's series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError
from diploee.outputs import FACILITY_FILE, METRICS_FILE
from diploee.report.data import RunData
from diploee.report.labels import PowerUnit
from diploee.report.words import interval, moment, number, pattern_for
from diploee.tables import Float64Array
from diploee.units import MS_PER_S, W_PER_MW

Block = dict[str, Any]


@dataclass(frozen=True)
class GridView:
    """The grid metrics of one run.

    Parameters
    ----------
    run : RunData
        The run.
    block : dict
        The `grid` block of its metrics.
    unit : PowerUnit
        Unit of power that the page uses.
    """

    run: RunData
    block: Block
    unit: PowerUnit

    @property
    def resolution(self) -> str:
        """Interval of the means that all values were taken of, in words."""
        return interval(self.run.resolution_ms)

    @property
    def per_mw(self) -> float:
        """Size of a megawatt in the page's unit."""
        return W_PER_MW / self.unit.watts

    def when(self, text: object) -> str:
        """Return a time of the metrics as text, as fine as the run's own intervals."""
        return moment(text, self.run.resolution_ms)

    def in_unit(self, values_mw: Iterable[object]) -> list[float | None]:
        """Return powers [MW] in the page's unit; what is no number as None."""
        return [
            value * self.per_mw if isinstance(value, int | float) else None for value in values_mw
        ]

    def cells(self, values_mw: Iterable[object]) -> list[str]:
        """Return powers [MW] of one column as texts in the page's unit, with like decimals."""
        return cells(self.in_unit(values_mw))


def cells(values: Sequence[object]) -> list[str]:
    """Return the numbers of one column as texts with like decimals."""
    pattern = pattern_for(values)
    return [number(value, pattern) for value in values]


def grid_view(run: RunData, unit: PowerUnit) -> GridView | None:
    """Return the grid metrics of a run; None for one of an older version, which has none."""
    block = run.metrics.get("grid")
    return GridView(run, block, unit) if isinstance(block, dict) else None


def damaged(run: RunData, block: str, error: Exception) -> InputError:
    """Return the error of a block that does not hold what it should."""
    place = run.run.folder / METRICS_FILE
    return InputError(f"{place}: block '{block}' is damaged ({error!r}); run again")


def power_from(run: RunData, begin: str, n_values: int) -> Float64Array:
    """Return consecutive values of the run's own series, read from their row groups alone [W].

    Parameters
    ----------
    run : RunData
        The run.
    begin : str
        Start of the first value, ISO 8601.
    n_values : int
        Number of values; fewer are returned at the run's end.

    Raises
    ------
    InputError
        If the file can't be read.
    """
    local = np.datetime64(datetime.fromisoformat(begin).replace(tzinfo=None), "ms")
    first = (int(local.astype(np.int64)) - int(run.local_ms[0])) // run.resolution_ms
    path = run.run.folder / FACILITY_FILE
    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            low, high = np.searchsorted(ends, [first, first + n_values - 1], side="right")
            groups = list(range(int(low), min(int(high) + 1, len(sizes))))
            if not groups or first < 0:
                return np.empty(0)
            table = file.read_row_groups(groups, columns=["facility_power_w"])
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: can't be read ({reason})") from error
    skipped = first - int(ends[groups[0]] - sizes[groups[0]])
    values = table.column("facility_power_w").slice(skipped, n_values)
    result: Float64Array = values.to_numpy().astype(np.float64)
    return result


def values_in(seconds: float, run: RunData) -> int:
    """Return the number of the run's own intervals in a time."""
    return round(seconds * MS_PER_S) // run.resolution_ms
