"""What a figure shows, without a word on how it is drawn: panels, axes and layers of arrays.

`plotly_panels` draws them on the page and `static` with matplotlib, so that both show the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_DECADES_WITH_STEPS = 3
"""A logarithmic axis over more decades has ticks at powers of ten alone."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

AxisKind = Literal["linear", "log", "date", "clock", "time of day", "time of week", "category"]

MONDAY = np.datetime64("2018-01-01", "ms")
"""Origin of the axes `time of day` and `time of week`; only its being a Monday matters."""


@dataclass(frozen=True)
class Axis:
    """One axis: its label with the unit, what its values are, and its range if fixed.

    An axis of kind `log` needs a range.
    """

    label: str
    kind: AxisKind = "linear"
    range: tuple[Any, Any] | None = None
    from_zero: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with markers instead where `markers_only`.

    Hovering shows `digits` decimals, or three significant digits where `significant`.
    """

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
    significant: bool = False


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
    """Bars on `x`; of several layers in one panel they stand side by side.

    `texts` stand above the bars.
    """

    x: Array
    y: Array
    name: str
    colour: str
    unit: str = ""
    digits: int = 2
    touching: bool = False
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Marks:
    """Points with a text above each."""

    x: Array
    y: Array
    texts: tuple[str, ...]
    name: str
    colour: str
    unit: str = ""
    hollow: bool = False
    legend: bool = True


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


Layer = Line | Band | Bars | Marks | Carpet


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
    """A table: header cells and rows of text.

    The first `n_names` cells of a row are names, the last `n_texts` words; what is between them
    are numbers where `numeric`.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    n_names: int = 1
    n_texts: int = 0
    numeric: bool = True


@dataclass(frozen=True)
class Section:
    """A heading with notes, and charts and tables in the order of reading."""

    id: str
    title: str
    content: tuple[Chart | Table, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The charts alone."""
        return tuple(part for part in self.content if isinstance(part, Chart))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables alone."""
        return tuple(part for part in self.content if isinstance(part, Table))


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


def log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return the ticks of a logarithmic axis and their texts, of powers of ten in a wide range."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = (1, 2, 5) if math.log10(high / low) <= MAX_DECADES_WITH_STEPS else (1,)
    pairs = [(m, n) for n in range(first, last + 1) for m in every]
    pairs = [(m, n) for m, n in pairs if low * 0.999 <= m * 10.0**n <= high * 1.001]
    return [m * 10.0**n for m, n in pairs], [_tick_text(m, n) for m, n in pairs]


def _tick_text(multiple: int, power: int) -> str:
    if -4 <= power <= 4:
        return f"{multiple * 10.0**power:,.{max(-power, 0)}f}"
    times = f"{multiple}·" if multiple > 1 else ""
    return f"{times}10{str(power).translate(_SUPERSCRIPTS)}"
