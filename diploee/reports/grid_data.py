"""The `grid` block of a run's metrics as its section needs it, and windows of the run's series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from diploee.metric import number
from diploee.metrics.bands import recorded_readings
from diploee.metrics.run_metrics import GridMetrics
from diploee.outputs import METRICS_FILE
from diploee.reports.common import with_pools
from diploee.reports.data import POWER, RunData, parts_of, pool_columns
from diploee.reports.words import interval, moment, pattern_for
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, MS_PER_S, W_PER_MW, PowerUnit

Entry = dict[str, Any]


POWER_LEVEL = "power"
"""Kind of a limit on power itself."""


@dataclass(frozen=True)
class LimitLine:
    """Bound of a limit: `kind` is ramps, of a way if it has one, swings, or `POWER_LEVEL`."""

    kind: str
    name: str
    length_ms: int
    size_mw: float


@dataclass(frozen=True)
class GridView:
    """The grid metrics of one run."""

    run: RunData  # the run
    block: Entry  # the `grid` block of its metrics
    unit: PowerUnit  # unit of power that the page uses
    # What limits allow, for lines in the figures of ramps and swings
    levels: Sequence[LimitLine] = ()
    # Of a facility of several pools: itself, each pool and all else that it takes
    parts: tuple[GridView, ...] = ()

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


def grid_view(run: RunData, unit: PowerUnit, levels: Sequence[LimitLine] = ()) -> GridView | None:
    """Return the grid metrics of a run; None for one of an older version, which has none."""
    block = run.metrics.get("grid")
    if not isinstance(block, dict):
        return None
    view = GridView(run, block, unit, levels)
    return replace(view, parts=_by_pool(view)) if run.parts else view


def _by_pool(view: GridView) -> tuple[GridView, ...]:
    """Return the view of the facility, and of each of its parts as the run would have metered it.

    Swings are counted from the size on that counts for the facility.
    """
    run, columns = view.run, pool_columns(view.run.run)
    series, names = run.run.series(), [part.label for part in run.parts]
    meters = {
        name: GridMetrics(
            series.step_ms,
            series.start,
            rated_power_w=0.0,
            readings=recorded_readings(run.manifest),
            swing_threshold_w=view.block["rainflow"]["threshold_mw"] * W_PER_MW,
        )
        for name in names
    }
    transient_ms = round(view.block.get("transient_h", 0.0) * MS_PER_H)
    read = [name for of_pool in columns.values() for name in of_pool]
    for block in series.blocks([POWER, *read]):
        parts_w = parts_of(block.columns, columns)
        for name, meter in meters.items():
            t0_ms = int(block.starts_ms[0]) - series.start_ms
            meter.add(t0_ms, parts_w[name], transient_ms=transient_ms)
    blocks = [view.block, *(meter.block() for meter in meters.values())]
    return tuple(
        GridView(part, block, view.unit)
        for part, block in zip(with_pools([run]), blocks, strict=True)
    )


def power_from(run: RunData, begin: str, n_values: int) -> Float64Array:
    """Return consecutive values of the run's own series, read from their row groups alone [W]."""
    series = run.run.series()
    where = f"{run.run.folder / METRICS_FILE}: grid.spectrum"
    first = series.row_at(datetime.fromisoformat(begin), where)
    rows = (first, min(first + n_values, series.n_rows))
    return series.read(["facility_power_w"], rows).columns["facility_power_w"]


def values_in(seconds: float, run: RunData) -> int:
    """Return the number of the run's own intervals in a time."""
    return round(seconds * MS_PER_S) // run.resolution_ms
