"""What a figure shows, without a word on how it is drawn: panels, axes and layers of arrays.

`plotly_panels` draws them on the page and `static` with matplotlib, so that both show the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

AxisKind = Literal["linear", "date", "time of day", "time of week", "category"]

MONDAY = np.datetime64("2018-01-01", "ms")
"""Origin of the axes `time of day` and `time of week`; only its being a Monday matters."""


@dataclass(frozen=True)
class Axis:
    """One axis: its label with the unit, what its values are, and its range if fixed."""

    label: str
    kind: AxisKind = "linear"
    range: tuple[Any, Any] | None = None
    from_zero: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with markers instead where `markers_only`."""

    x: Array
    y: Array
    name: str
    colour: str
    unit: str = ""
    digits: int = 2
    dash: str = "solid"
    width: float = 2.0
    steps: bool = False
    markers: bool = False
    markers_only: bool = False
    legend: bool = True


@dataclass(frozen=True, eq=False)
class Band:
    """The area between two lines; hovering tells both where their names are given."""

    x: Array
    low: Array
    high: Array
    name: str
    colour: str
    opacity: float
    unit: str = ""
    digits: int = 2
    low_name: str = ""
    high_name: str = ""
    legend: bool = True


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars on `x`; of several layers in one panel they stand side by side."""

    x: Array
    y: Array
    name: str
    colour: str
    unit: str = ""
    digits: int = 2
    touching: bool = False


@dataclass(frozen=True, eq=False)
class Carpet:
    """Values z of shape (len(y), len(x)) as colours; x are days, y times of the day."""

    x: Array
    y: Array
    z: Array
    unit: str
    low: float
    high: float
    colour_label: str


Layer = Line | Band | Bars | Carpet


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its layers; `title` stands above it where a chart has several."""

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    title: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure: a title, panels, and a caption that says what one sees and how it was made."""

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Table:
    """A table: header cells and rows of text, of which the first `n_names` cells are names."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    n_names: int = 1
    numeric: bool = True


@dataclass(frozen=True)
class Section:
    """A heading with charts and tables."""

    id: str
    title: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that a report shows."""

    title: str
    subtitle: str
    figures: tuple[tuple[str, str, str], ...]
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts of all sections, in their order."""
        return tuple(chart for section in self.sections for chart in section.charts)
