"""The worst windows of a run at 0.1 s, each with what it was kept for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from diploee.drawing.charts import INK, PALETTE, Array, Axis, Chart, Line, Marks, Panel, colour
from diploee.outputs.words import interval
from diploee.reports.common import near_range
from diploee.reports.data import POWER, RunData, parts_of
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S, W_PER_MW, PowerUnit

Entry = dict[str, Any]

SHOWN_MS = {"peak": MS_PER_MIN, "1s": 15 * MS_PER_S, "10s": MS_PER_MIN}
"""Time shown on either side of what was found [ms]; the whole window where it is not listed."""

MAX_POOL_POINTS = 400
"""Points of a pool beside a window: of more rows means are drawn."""

MAX_ROWS = 6_000
"""Rows of a window that a page holds at most: those around what was found."""


@dataclass(frozen=True, eq=False)
class _EventWindowData:
    """An event window, ready to draw."""

    name: str  # as in the metrics, such as ``rise_10s``
    at_ms: int  # where the extreme is, local time since 1970-01-01 [ms]
    value_w: float  # the extreme [W]
    local_ms: Int64Array  # starts of the intervals, local time [ms]
    power_w: Array  # facility power [W]
    # Of a facility of several pools: the power of each, and of all else [W]
    parts_w: Mapping[str, Array] = field(default_factory=dict)

    @property
    def step_ms(self) -> int:
        """Interval of the values [ms]."""
        return int(self.local_ms[1] - self.local_ms[0]) if self.local_ms.size > 1 else 100

    @property
    def length_ms(self) -> int:
        """Length of the means that were compared, or of the highest mean [ms]."""
        tail = self.name.partition("_")[2].removesuffix("s")
        return int(tail) * MS_PER_S if tail.isdigit() else MS_PER_S

    @property
    def shown_ms(self) -> tuple[int, int]:
        """The part that is shown at first: from, to [ms]."""
        side_ms = SHOWN_MS.get(self.name.rpartition("_")[2], 10 * MS_PER_MIN)
        return (
            max(self.at_ms - side_ms, int(self.local_ms[0])),
            min(self.at_ms + side_ms, int(self.local_ms[-1]) + self.step_ms),
        )

    @property
    def before_ms(self) -> tuple[int, int]:
        """The interval that changes are against: the first of the two; of a peak all shown."""
        is_peak = self.name == "peak"
        return self.shown_ms if is_peak else (self.at_ms - self.length_ms, self.at_ms)

    def rows(self, span_ms: tuple[int, int]) -> slice:
        """Return the rows between two times."""
        return slice(*np.searchsorted(self.local_ms, span_ms))

    def mean_w(self, begin_ms: int, end_ms: int) -> float:
        """Return the mean power between two times [W]; NaN where the window holds none."""
        part = self.power_w[self.rows((begin_ms, end_ms))]
        return float(part.mean()) if part.size else float("nan")


def read_event_window(run: RunData, entry: Entry) -> _EventWindowData:
    """Read an event window of a run."""
    series = run.run.series(entry["name"])
    at_ms = int(series.local_ms(np.array([_epoch_ms(entry["at"])]))[0])
    middle = (at_ms - int(series.local_ms(np.array([series.start_ms]))[0])) // series.step_ms
    first = min(max(middle - MAX_ROWS // 2, 0), series.n_rows - 1)
    names = [name for of_part in run.groups.values() for name in of_part]
    pools = run.groups if run.parts and set(names) <= set(series.check()) else {}
    columns = [POWER, *(names if pools else [])]
    block = series.read(columns, (first, min(first + MAX_ROWS, series.n_rows)))
    parts_w = parts_of(block.columns, pools)
    return _EventWindowData(
        str(entry["name"]),
        at_ms,
        entry["value_mw"] * W_PER_MW,
        series.local_ms(block.starts_ms),
        block.columns[POWER],
        {part.label: parts_w[part.label] for part in run.parts if pools},
    )


def _epoch_ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * MS_PER_S)


def event_windows_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return a panel for each window, and one of its pools where there are several."""
    drawn = [read_event_window(run, entry) for entry in run.run.event_windows.values()]
    if not drawn:
        return None
    panels = [
        panel(window, unit)
        for window in drawn
        for panel in (_panel, *([_pools_panel] if window.parts_w else []))
    ]
    by_pool = (
        " By pool: change from the mean before the step, or from the mean of what is shown; that "
        f"of the pools and all else adds up to the facility's; up to {MAX_POOL_POINTS} means each."
        if any(window.parts_w for window in drawn)
        else ""
    )
    return Chart(
        "zooms",
        "The worst windows at 0.1 s",
        f"Found in the {_basis(run)}. Blue: facility power every 0.1 s. Orange: the means that "
        "were compared, before and after the step, or the highest second. Times are local; double-"
        "click a figure for the whole window that the run keeps. The power axes do not start at "
        f"zero.{by_pool}{_bandwidth(run)}",
        tuple(panels),
    )


def _basis(run: RunData) -> str:
    return str(run.metrics["zooms"].get("basis", "1 s means")).partition(";")[0]


def _bandwidth(run: RunData) -> str:
    grid = run.metrics.get("grid") or {}
    window_s = (grid.get("bandwidth") or {}).get("averaging_window_s")
    if not window_s:
        return ""
    bound_s = grid["bandwidth"].get("lower_bound_below_s", 0)
    return (
        f" The profiles are averages over {window_s:g} s, so what is drawn is smoother than the "
        f"load itself, and steps over less than {bound_s:g} s are lower bounds."
    )


def _panel(window: _EventWindowData, unit: PowerUnit) -> Panel:
    power = Line(
        window.local_ms.astype("datetime64[ms]"), (window.power_w / unit.watts).astype(np.float32),
        "every 0.1 s", PALETTE[0], unit.power, 4, width=1.3, steps=True, legend=False,
    )  # fmt: skip
    return Panel(
        _clock_axis(window),
        Axis(f"Facility power [{unit.power}]", range=_y_range(window, unit)),
        (power, _found(window, unit)),
        _title(window, unit),
    )


def _clock_axis(window: _EventWindowData) -> Axis:
    begin_ms, end_ms = window.shown_ms
    return Axis("Time of day [h:min:s]", "clock", (_time(begin_ms), _time(end_ms)))


def _pools_panel(window: _EventWindowData, unit: PowerUnit) -> Panel:
    """Return the changes of the facility and its parts over what is shown at first."""
    rows, before = window.rows(window.shown_ms), window.rows(window.before_ms)
    first = np.arange(
        0, window.power_w[rows].size, -(-window.power_w[rows].size // MAX_POOL_POINTS)
    )
    counts = np.diff(np.append(first, window.power_w[rows].size))
    x = window.local_ms[rows][first].astype("datetime64[ms]")
    lines = []
    for k, (name, power_w) in enumerate({"facility": window.power_w, **window.parts_w}.items()):
        means_w = np.add.reduceat(power_w[rows], first) / counts
        y = ((means_w - power_w[before].mean()) / unit.watts).astype(np.float32)
        main = colour(k - 1) if k else INK
        lines.append(Line(x, y, name, main, unit.power, 4, width=1.3, steps=True))
    # As high as the panel of the facility, so that noise does not look like its step.
    low, high = (edge - window.mean_w(*window.before_ms) / unit.watts
                 for edge in _y_range(window, unit))  # fmt: skip
    lowest, highest = (pick([pick(line.y) for line in lines]) for pick in (min, max))
    range_ = min(low, 1.05 * float(lowest)), max(high, 1.05 * float(highest))
    axis = Axis(f"Change of power [{unit.power}]", range=range_)
    return Panel(_clock_axis(window), axis, tuple(lines), "The same by pool")


def _found(window: _EventWindowData, unit: PowerUnit) -> Line | Marks:
    """Return the two means that were compared, or the highest second as a point."""
    at_ms, length_ms = window.at_ms, window.length_ms
    after = window.mean_w(at_ms, at_ms + length_ms) / unit.watts
    if window.name == "peak":
        middle = np.array([_time(at_ms + length_ms // 2)])
        return Marks(
            middle, np.array([after]), ("",), "highest second", PALETTE[1], unit.power, legend=False
        )
    before = window.mean_w(at_ms - length_ms, at_ms) / unit.watts
    times = np.array([_time(t) for t in (at_ms - length_ms, at_ms, at_ms, at_ms + length_ms)])
    means = np.array([before, before, after, after], dtype=np.float32)
    return Line(times, means, "means", PALETTE[1], unit.power, 4, width=2.6, legend=False)


def _y_range(window: _EventWindowData, unit: PowerUnit) -> tuple[float, float]:
    power = window.power_w[window.rows(window.shown_ms)] / unit.watts
    return near_range(float(power.min()), float(power.max()))


def _title(window: _EventWindowData, unit: PowerUnit) -> str:
    when = _words(window.at_ms)
    size = window.value_w / unit.watts
    sign = "\N{MINUS SIGN}" if size < 0 else "+"
    length = interval(window.length_ms)
    kind = window.name.partition("_")[0]
    if kind == "peak":
        return f"Highest {length} mean: {size:,.3f} {unit.power}, {when}"
    return f"Largest {length} {kind}: {sign}{abs(size):,.3f} {unit.power}, {when}"


def _words(local_ms: int) -> str:
    at = datetime(1970, 1, 1) + timedelta(milliseconds=local_ms)
    return f"{at.day} {at:%b %Y, %H:%M:%S}"


def _time(local_ms: int) -> np.datetime64:
    return np.datetime64(local_ms, "ms")
