"""The worst windows of a run at 0.1 s, each with what it was kept for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from diploee.drawing.charts import PALETTE, Array, Axis, Chart, Line, Marks, Panel
from diploee.report.data import RunData
from diploee.report.grid_data import Entry
from diploee.report.words import interval
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S, W_PER_MW, PowerUnit

SHOWN_MS = {"peak": MS_PER_MIN, "1s": 15 * MS_PER_S, "10s": MS_PER_MIN}
"""Time shown on either side of what was found [ms]; the whole window where it is not listed."""

MAX_ROWS = 6_000
"""Rows of a window that a page holds at most: those around what was found."""


@dataclass(frozen=True, eq=False)
class EventWindowData:
    """An event window, ready to draw.

    Parameters
    ----------
    name : str
        As in the metrics, such as ``rise_10s``.
    at_ms : int
        Where the extreme is, local time since 1970-01-01 [ms].
    value_w : float
        The extreme [W].
    local_ms : numpy.ndarray, shape (n,), int64
        Starts of the intervals, local time [ms].
    power_w : numpy.ndarray, shape (n,), float64
        Facility power [W].
    """

    name: str
    at_ms: int
    value_w: float
    local_ms: Int64Array
    power_w: Array

    @property
    def step_ms(self) -> int:
        """Interval of the values [ms]."""
        return int(self.local_ms[1] - self.local_ms[0]) if self.local_ms.size > 1 else 100

    @property
    def length_ms(self) -> int:
        """Length of the means that were compared, or of the highest mean [ms]."""
        tail = self.name.partition("_")[2].removesuffix("s")
        return int(tail) * MS_PER_S if tail.isdigit() else MS_PER_S

    def mean_w(self, begin_ms: int, end_ms: int) -> float:
        """Return the mean power between two times [W]; NaN where the window holds none."""
        low, high = np.searchsorted(self.local_ms, [begin_ms, end_ms])
        return float(self.power_w[low:high].mean()) if high > low else float("nan")


def read_event_window(run: RunData, entry: Entry) -> EventWindowData:
    """Read an event window of a run.

    Raises
    ------
    InputError
        If its file is missing or damaged.
    """
    series = run.run.series(entry["name"])
    at_ms = int(series.local_ms(np.array([_epoch_ms(entry["at"])]))[0])
    middle = (at_ms - int(series.local_ms(np.array([series.start_ms]))[0])) // series.step_ms
    first = min(max(middle - MAX_ROWS // 2, 0), series.n_rows - 1)
    block = series.read(["facility_power_w"], (first, min(first + MAX_ROWS, series.n_rows)))
    return EventWindowData(
        str(entry["name"]),
        at_ms,
        entry["value_mw"] * W_PER_MW,
        series.local_ms(block.starts_ms),
        block.columns["facility_power_w"],
    )


def _epoch_ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * MS_PER_S)


def event_windows_chart(run: RunData, windows: Iterable[EventWindowData], unit: PowerUnit) -> Chart:
    """Return one panel for each window."""
    panels = tuple(_panel(window, unit) for window in windows)
    return Chart(
        "zooms",
        "The worst windows at 0.1 s",
        f"Found in the {_basis(run)}. Blue: facility power every 0.1 s. Orange: the means that "
        "were compared, before and after the step, or the highest second. Times are local; double-"
        "click a figure for the whole window that the run keeps. The power axes do not start at "
        f"zero.{_bandwidth(run)}",
        panels,
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


def _panel(window: EventWindowData, unit: PowerUnit) -> Panel:
    shown_ms = SHOWN_MS.get(window.name.rpartition("_")[2], 10 * MS_PER_MIN)
    begin_ms = max(window.at_ms - shown_ms, int(window.local_ms[0]))
    end_ms = min(window.at_ms + shown_ms, int(window.local_ms[-1]) + window.step_ms)
    power = Line(
        window.local_ms.astype("datetime64[ms]"), (window.power_w / unit.watts).astype(np.float32),
        "every 0.1 s", PALETTE[0], unit.power, 4, width=1.3, steps=True, legend=False,
    )  # fmt: skip
    return Panel(
        Axis("Time of day [h:min:s]", "clock", (_time(begin_ms), _time(end_ms))),
        Axis(f"Facility power [{unit.power}]", range=_y_range(window, begin_ms, end_ms, unit)),
        (power, _found(window, unit)),
        _title(window, unit),
    )


def _found(window: EventWindowData, unit: PowerUnit) -> Line | Marks:
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


def _y_range(
    window: EventWindowData, begin_ms: int, end_ms: int, unit: PowerUnit
) -> tuple[float, float]:
    low, high = np.searchsorted(window.local_ms, [begin_ms, end_ms])
    power = window.power_w[low:high] / unit.watts
    margin = float(np.ptp(power)) * 0.06 or abs(float(power[0])) * 0.05 or 1.0
    return float(power.min()) - margin, float(power.max()) + margin


def _title(window: EventWindowData, unit: PowerUnit) -> str:
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
