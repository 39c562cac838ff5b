"""Meters of facility stages: statistics of a stage's columns, accumulated over a run.

The statistics are energy, extremes, and hours above the rating.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from diploee.base.measures.distribution import (
    CountAbove,
    Energy,
    HoursAbove,
    Mean,
    RunningMaximum,
)
from diploee.base.tables import Float64Array
from diploee.facility.base import Block, Values

ABOVE_RATING = 1 + 1e-9
"""Load per rating above which there is an overload, not rounding."""


Total = CountAbove | Energy | HoursAbove | Mean | RunningMaximum
"""Statistic of a column."""

ColumnSource = str | Callable[[Values], Float64Array]
"""Name of a column, or function of a block's columns."""


class ColumnMeter:
    """A meter with statistics of columns, by metric key."""

    def __init__(self, measures: Mapping[str, tuple[Total, ColumnSource]]) -> None:
        self._measures = measures

    def add(self, block: Block) -> None:
        """Add a block to the statistics of all columns."""
        for measure, source in self._measures.values():
            values = (
                block.columns[source]
                if isinstance(source, str)
                else source(block.columns)
            )
            measure.add(values, block.dt_ms)

    def values(self) -> dict[str, float | None]:
        """Return the values by metric key."""
        return {key: measure.result() for key, (measure, _) in self._measures.items()}


class EnergyMeter(ColumnMeter):
    """A meter of the energy of one column of power.

    Parameters
    ----------
    column : str
        Name of the column [W].
    key : str
        Key of the metric [MWh].
    """

    def __init__(self, column: str, key: str) -> None:
        super().__init__({key: (Energy(), column)})


class LoadMeter(ColumnMeter):
    """A meter of a device's energy loss, maximum load, and overload hours.

    `load` is a column, or a function that returns the load in per unit of the rating.
    """

    def __init__(self, part: str, column: str, load: ColumnSource) -> None:
        super().__init__(
            {
                f"{part}.energy_mwh": (Energy(), column),
                f"{part}.max_load": (RunningMaximum(), load),
                f"{part}.hours_above_rating": (HoursAbove(ABOVE_RATING), load),
            }
        )
