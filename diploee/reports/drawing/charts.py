"""Contents of charts, independent of the drawing library: panels, axes, layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
DASHES = ("solid", "dash", "dot")

INK = "#1b2733"
MUTED = "#5d6b78"
GRID = "#e3e8ec"
PEAK = "#8a97a3"

CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)
"""Ten equal steps of the colour map cividis."""

HEIGHT_PX = 300
"""Height of a panel's axes [px]."""


def colour(index: int) -> str:
    """Return the colour of the n-th run, service or group."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """Return the dash pattern of the n-th line; it changes when colours repeat."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


Array = npt.NDArray[Any]

MAX_DECADES_WITH_STEPS = 3
"""A logarithmic axis over more decades has ticks at powers of ten alone."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

AxisKind = Literal[
    "linear", "log", "date", "clock", "time of day", "time of week", "category"
]

MONDAY = np.datetime64("2018-01-01", "ms")
"""Origin of the axes `time of day` and `time of week`, an arbitrary Monday."""


def since_monday(time_ms: Any) -> Any:
    """Return times since Monday 00:00 [ms] as the datetimes of day and week axes."""
    return MONDAY + np.asarray(time_ms).astype("timedelta64[ms]")


@dataclass(frozen=True)
class Axis:
    """Axis of a panel: label with unit, kind of values, and range if fixed.

    An axis of kind `log` needs a range.
    """

    label: str
    kind: AxisKind = "linear"
    range: tuple[Any, Any] | None = None
    from_zero: bool = False
    bare: bool = False  # its values are positions without meaning, and have no labels


@dataclass(frozen=True, eq=False)
class Line:
    """Line through points, or markers alone.

    The tooltip shows `digits` decimals, or three significant digits if `significant`.
    Error bars extend from the first to the second array of `limits`. If there are more
    points than pixels, the line shows means of several points (if `means` is set), or
    else their extremes.
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
    texts: tuple[str, ...] = ()
    legend: bool = True
    significant: bool = False
    limits: tuple[Array, Array] | None = None
    means: bool = False


@dataclass(frozen=True, eq=False)
class Area:
    """Area between two lines; the tooltip has the values of both if they have names."""

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
    steps: bool = False


@dataclass(frozen=True, eq=False)
class Stack:
    """Stacked areas of the rows of `parts`, with their total in the tooltip.

    `total` is the label of the total. It states the averaging time if that of other
    layers differs.
    """

    x: Array
    parts: Array
    names: tuple[str, ...]
    colours: tuple[str, ...]
    unit: str = ""
    digits: int = 2
    steps: bool = True
    total: str = "total"


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars on `x`; several bar layers of a panel are grouped.

    `texts` are printed above the bars.
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
class Carpet:
    """Values z as colours, shape (len(y), len(x)).

    Values of x and y are times or names. If both are names, each cell shows its value
    with four significant digits.
    """

    x: Array
    y: Array
    z: Array
    unit: str
    low: float
    high: float
    colour_label: str


Layer = Line | Area | Stack | Bars | Carpet


@dataclass(frozen=True)
class Panel:
    """Pair of axes with layers.

    A chart of several panels prints `title` above each; a page prints `notes` below. A
    wide panel takes the whole width, a small panel a third.
    """

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    title: str = ""
    wide: bool = False
    notes: tuple[str, ...] = ()
    small: bool = False


@dataclass(frozen=True)
class Chart:
    """Chart with title, panels and caption.

    `boundary` is the measurement boundary of its power.
    """

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    boundary: str = ""

    @property
    def n_columns(self) -> int:
        """Number of panels per row on a wide page."""
        first = self.panels[0]
        return 1 if len(self.panels) == 1 or first.wide else 3 if first.small else 2


def repeat_last(values: Array) -> Array:
    """Return values with the last one repeated, so that a step line shows it."""
    return np.append(values, values[-1])


def log_axis(label: str, *values: Array) -> Axis:
    """Return a logarithmic axis that includes all positive values and two ticks."""
    positive = np.concatenate(values)
    positive = positive[np.isfinite(positive) & (positive > 0)]
    low, high = (
        (positive.min() / 1.1, positive.max() * 1.1) if positive.size else (1.0, 10.0)
    )
    if len(log_ticks(low, high)[0]) < 2:
        low, high = 10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high))
    return Axis(label, "log", (float(low), float(high)))


def log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return ticks of a logarithmic axis, with their labels."""
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
