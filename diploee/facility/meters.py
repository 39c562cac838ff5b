"""Meters of stages: one a stage, read at the end of a run."""

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
"""A load above it, in parts of the rating, is more than rounding."""


Total = CountAbove | Energy | HoursAbove | Mean | RunningMaximum
"""A measure of a column."""

Of = str | Callable[[Values], Float64Array]
"""A column, or what is made of the columns of a block."""


class ColumnMeter:
    """Measures of columns, by the keys of their metrics."""

    def __init__(self, measures: Mapping[str, tuple[Total, Of]]) -> None:
        self._measures = measures

    def add(self, block: Block) -> None:
        """Take in a block."""
        for measure, of in self._measures.values():
            values = block.columns[of] if isinstance(of, str) else of(block.columns)
            measure.add(values, block.dt_ms)

    def values(self) -> dict[str, float | None]:
        """Return the metrics."""
        return {key: measure.result() for key, (measure, _) in self._measures.items()}


class EnergyMeter(ColumnMeter):
    """The energy of a column of power [W], by the key of its metric, in MWh.

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
    """Energy lost in a part of the facility, highest load, overload hours.

    `load` is a column, or gives the load in parts of the rating.
    """

    def __init__(self, part: str, column: str, load: Of) -> None:
        super().__init__(
            {
                f"{part}.energy_mwh": (Energy(), column),
                f"{part}.max_load": (RunningMaximum(), load),
                f"{part}.hours_above_rating": (HoursAbove(ABOVE_RATING), load),
            }
        )
