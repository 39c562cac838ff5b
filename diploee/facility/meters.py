"""What stages are measured by: one meter a stage, read at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn, Protocol

from diploee.errors import StageError, one_line, shown
from diploee.facility.base import Block, Meter, Stage, Values, called
from diploee.measures.distribution import Energy, HoursAbove, Most
from diploee.metric import Metric, check_declared
from diploee.tables import Float64Array

ABOVE_RATING = 1 + 1e-9
"""A load above it, in parts of the rating, is more than rounding."""


class Total(Protocol):
    """A measure of a column."""

    def add(self, values: Float64Array, dt_ms: int, /) -> None:
        """Add values of intervals of a length."""

    def result(self) -> float:
        """Return what they add up to."""


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
    """The energy of a column of power [W], by the key of its metric, in MWh."""

    def __init__(self, column: str, key: str) -> None:
        super().__init__({key: (Energy(), column)})


class LoadMeter(ColumnMeter):
    """The energy lost in a part of the facility [W], its highest load, and hours above the rating.

    `load` is a column, or gives the load in parts of the rating.
    """

    def __init__(self, part: str, column: str, load: Of) -> None:
        super().__init__({
            f"{part}.energy_mwh": (Energy(), column),
            f"{part}.max_load": (Most(), load),
            f"{part}.hours_above_rating": (HoursAbove(ABOVE_RATING), load),
        })  # fmt: skip


def load_metrics(part: str, name: str) -> tuple[Metric, ...]:
    """Declare what a `LoadMeter` gives of a part of the facility, by its name in prose."""
    return (
        Metric(f"{part}.energy_mwh", "MWh", f"energy lost in the {name}", "{:,.1f}", view="table"),
        Metric(f"{part}.max_load", "1", f"highest load of the {name}", "{:.3f}", "over the rating"),
        Metric(f"{part}.hours_above_rating", "h", f"hours of the {name} above the rating",
               "{:,.1f}", "counted, not clipped"),
    )  # fmt: skip


class StageMeters:
    """The meters of all stages that have one, as one sink; `taken` blocks are not a stage's own.

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
        """Return the metrics, a block for each first part of their keys; refuse undeclared ones."""
        found: dict[str, dict[str, float | None]] = {}
        for stage, meter in self._meters:
            values = called(stage, "values", of=meter)
            check_declared(values.items(), stage.metrics, partial(_fail, stage))
            for key, value in values.items():
                block, _, name = key.partition(".")
                found.setdefault(block, {})[name] = value
        return found


def _fail(stage: Stage, text: str) -> NoReturn:
    raise StageError(f"stage {type(stage).__name__} {text}")
