"""What stages are measured by: one meter a stage, read at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import isfinite
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from diploee.errors import StageError, one_line, one_of, shown
from diploee.facility.base import Block, Meter, Stage, Values, called
from diploee.metric import Metric
from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, MS_PER_H, MS_PER_S

ABOVE_RATING = 1 + 1e-9
"""A load above it, in parts of the rating, is more than rounding."""


class EnergyMeter:
    """Sums the energy of a column of power.

    Parameters
    ----------
    column : str
        The column [W].
    key : str
        Key of its metric, in MWh.
    """

    def __init__(self, column: str, key: str) -> None:
        self._column, self._key, self._energy_j = column, key, 0.0

    def add(self, block: Block) -> None:
        """Add a block's energy."""
        power_w = block.columns[self._column].sum(dtype="float64")
        self._energy_j += float(power_w) * block.dt_ms / MS_PER_S

    def values(self) -> dict[str, float | None]:
        """Return the energy [MWh]."""
        return {self._key: self._energy_j / J_PER_MWH}


class LoadMeter(EnergyMeter):
    """Sums the energy lost in a part of the facility, and tells how it is loaded.

    Parameters
    ----------
    part : str
        The part, whose name its metrics carry.
    column : str
        Its loss [W].
    load : callable
        Gives its load in parts of its rating from the columns of a block.
    """

    def __init__(self, part: str, column: str, load: Callable[[Values], Float64Array]) -> None:
        super().__init__(column, f"{part}.energy_mwh")
        self._part, self._load, self._max, self._above_ms = part, load, 0.0, 0

    def add(self, block: Block) -> None:
        """Add a block's energy, and what lies above the rating."""
        super().add(block)
        load = self._load(block.columns)
        self._max = max(self._max, float(load.max(initial=0.0)))
        self._above_ms += int(np.count_nonzero(load > ABOVE_RATING)) * block.dt_ms

    def values(self) -> dict[str, float | None]:
        """Return the energy [MWh], the highest load and the hours above the rating."""
        return {
            **super().values(),
            f"{self._part}.max_load": self._max,
            f"{self._part}.hours_above_rating": self._above_ms / MS_PER_H,
        }


def load_metrics(part: str, name: str) -> tuple[Metric, ...]:
    """Declare what a `LoadMeter` gives of a part of the facility, by its name in prose."""
    return (
        Metric(f"{part}.energy_mwh", "MWh", f"energy lost in the {name}", "{:,.1f}", view="table"),
        Metric(f"{part}.max_load", "1", f"highest load of the {name}", "{:.3f}", "over the rating"),
        Metric(f"{part}.hours_above_rating", "h", f"hours of the {name} above the rating",
               "{:,.1f}", "counted, not clipped"),
    )  # fmt: skip


class StageMeters:
    """The meters of all stages that have one, as one sink.

    Parameters
    ----------
    stages : iterable of Stage
        The stages of a run.
    taken : collection of str
        Blocks of ``metrics.json`` that are not a stage's own.

    Raises
    ------
    StageError
        If a stage declares a metric in such a block, or one that another stage has.
    """

    def __init__(self, stages: Iterable[Stage], taken: Collection[str]) -> None:
        self._meters: list[tuple[Any, Meter]] = [
            (stage, called(stage, "meter")) for stage in stages if hasattr(stage, "meter")
        ]
        seen: set[str] = set()
        for stage, meter in self._meters:
            if not (hasattr(meter, "add") and hasattr(meter, "values")):
                _fail(stage, f"has a meter without add or values: {one_line(shown(meter))}")
            for key in (metric.key for metric in stage.metrics):
                block, _, name = key.partition(".")
                if key in seen or block in taken or not name:
                    _fail(stage, f"declares metric '{key}'; name it as in 'chiller.energy_mwh', "
                                 "with a block that no other part of a run has")  # fmt: skip
                seen.add(key)

    def add(self, block: Block) -> None:
        """Take in a block behind all stages."""
        for stage, meter in self._meters:
            called(stage, "add", block, of=meter)

    def blocks(self) -> dict[str, dict[str, float | None]]:
        """Return the metrics, a block for each first part of their keys.

        Raises
        ------
        StageError
            If a meter gives a metric that its stage did not declare, or no finite number.
        """
        found: dict[str, dict[str, float | None]] = {}
        for stage, meter in self._meters:
            declared = [metric.key for metric in stage.metrics]
            for key, value in called(stage, "values", of=meter).items():
                if key not in declared:
                    _fail(stage, f"gives metric '{key}', which it does not declare (declared: "
                                 f"{one_of(declared)}); add it to its metrics")  # fmt: skip
                is_number = isinstance(value, Real) and isfinite(value)
                if value is not None and not is_number:
                    _fail(stage, f"gives {one_line(shown(value))} for '{key}', expected a finite "
                                 "number or None")  # fmt: skip
                block, _, name = key.partition(".")
                found.setdefault(block, {})[name] = value
        return found


def _fail(stage: Stage, text: str) -> NoReturn:
    raise StageError(f"stage {type(stage).__name__} {text}")
