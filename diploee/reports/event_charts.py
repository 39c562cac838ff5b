"""Charts of demand-response events, and of windows around extremes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np

from diploee.base.clock import instant_ms
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_MW, PowerUnit
from diploee.metrics.flexibility import BASELINE
from diploee.reports.aggregate import block_means
from diploee.reports.chart_elements import padded_range
from diploee.reports.data import POWER, RunData, split_power
from diploee.reports.drawing.charts import (
    INK,
    MUTED,
    PALETTE,
    Array,
    Axis,
    Chart,
    Line,
    Panel,
    colour,
)
from diploee.runs.formatting import format_time, interval

Entry = dict[str, Any]

MAX_EVENTS = 4
"""Maximum number of events with a chart; the table has all events."""

AROUND_MS = (2 * MS_PER_H, 6 * MS_PER_H)
"""Time before the ramp and after the end of an event in its chart [ms]."""
MAX_ROWS = 20_000

_STATES = {
    "run": ("runs", 0),
    "capped": ("capped", 4),
    "checkpoint": ("stops", 1),
    "restart": ("restarts", 3),
    "paused": ("suspended", 5),
}
"""Text and colour index of each state of a job."""


def event_charts(run: RunData, unit: PowerUnit) -> list[Chart]:
    """Return charts of the first events; none for a run without flexibility."""
    events = (run.metrics.get("flexibility") or {}).get("events") or []
    return [_event_chart(run, event, unit) for event in events[:MAX_EVENTS]]


def _event_chart(run: RunData, event: Entry, unit: PowerUnit) -> Chart:
    """Return a chart of load, baseline, target and largest jobs around an event.

    Target and baseline are those of the whole facility, as pools have none.
    """
    series = run.run.series()
    times_ms = event["times"] | {
        name: _instant_ms(text) for name, text in event["times"].items()
    }
    span = np.array([times_ms["ramp"] - AROUND_MS[0], times_ms["over"] + AROUND_MS[1]])
    rows = np.clip((span - series.start_ms) // series.step_ms, 0, series.n_rows)
    first, last = int(rows[0]), min(int(rows[1]), int(rows[0]) + MAX_ROWS)
    block = series.read([POWER, BASELINE], (first, last))
    times = series.local_ms(block.starts_ms).astype("datetime64[ms]")
    load, baseline = (block.columns[n] / unit.watts for n in (POWER, BASELINE))
    local_times = {
        n: series.local_ms(np.array([ms])).astype("datetime64[ms]")[0]
        for n, ms in times_ms.items()
    }
    layers = []

    def add(x: Array, y: Any, name: str, main: str, dashed: str = "solid") -> None:
        values = np.asarray(y)
        layers.append(Line(x, values, name, main, unit.power, 3, dash=dashed))

    add(times, baseline, "without the event", MUTED)
    add(times, load, "load", colour(0))
    per_mw = W_PER_MW / unit.watts
    if event.get("before_mw") is not None and event.get("target_mw") is not None:
        level, before = (event[key] * per_mw for key in ("target_mw", "before_mw"))
        # The ramp back leads to the larger of target, earlier load and present load
        over = int(np.searchsorted(times, local_times["over"])) - 1
        ends = (
            max(before, level),
            level,
            level,
            max(before, level, float(load[max(over, 0)])),
        )
        x = np.array([local_times[name] for name in ("ramp", "held", "end", "over")])
        add(x, ends, "allowed", colour(1), "dash")
    y_axis, jobs = Axis(f"Power [{unit.power}]", from_zero=True), event["widest_jobs"]
    time = Axis(
        f"Time on {format_time(event['times']['start'])[:10]}",
        "time of day",
        (times[0], times[-1]),
    )
    panels = [Panel(time, y_axis, tuple(layers), "Load", wide=True)]
    if jobs:
        bars = tuple(_job_bars(jobs, local_times["start"]))
        widths = dict.fromkeys(
            f"{pick(j['n_nodes'] for j in jobs):,}" for pick in (max, min)
        )
        title = f"The widest jobs, of {' to '.join(widths)} nodes"
        panels.append(Panel(time, Axis("Jobs", bare=True), bars, title, wide=True))
    return Chart(
        f"event-{event['name']}",
        f"Event {event['name']}",
        (
            f"Issued {format_time(event['times']['issued'])}. Dashed: what may be "
            "drawn. Below: what the widest jobs did from an hour before its ramp to "
            "two hours after it, each on a row, the widest at the bottom; where a row "
            "is empty the job waits or has not begun."
        ),
        tuple(panels),
    )


def _job_bars(jobs: list[Entry], start: np.datetime64) -> Iterator[Line]:
    """Yield the largest jobs as bars, with a line for each state."""
    for state, (text, index) in _STATES.items():
        # A gap after each bar, so that bars of one row do not join
        result = [
            (row, from_s, to_s, to_s)
            for row, job in enumerate(jobs)
            for from_s, to_s, what in zip(
                job["from_s"], job["to_s"], job["state"], strict=True
            )
            if what == state
        ]
        if result:
            ends_ms = np.rint(np.array(result)[:, 1:].ravel() * MS_PER_S).astype(
                "timedelta64[ms]"
            )
            y = np.array([(row, row, np.nan) for row, *_ in result]).ravel()
            yield Line(start + ends_ms, y, text, colour(index), width=5, digits=0)


def _instant_ms(text: str) -> int:
    return instant_ms(datetime.fromisoformat(text))


SHOWN_MS = {"peak": MS_PER_MIN, "1s": 15 * MS_PER_S, "10s": MS_PER_MIN}
"""Time on either side of an extreme in its chart [ms]; by default ten minutes."""

MAX_PART_POINTS = 400
"""Maximum number of points of a pool in a window; more are averaged."""

MAX_ROWS = 6_000
"""Maximum number of rows of a window on a page, around the extreme."""


def event_windows_chart(run: RunData, unit: PowerUnit) -> Chart | None:
    """Return the chart of extreme windows, one panel for each window.

    A second panel shows the changes of the pools, if there are several.
    """
    windows = [
        [*_window_panels(run, entry, unit)] for entry in run.run.event_windows.values()
    ]
    if not windows:
        return None
    basis = str(run.metrics["zooms"].get("basis", "1 s means")).partition(";")[0]
    by_part = (
        f" {run.parts_text.capitalize()}: change from the mean before the step, or "
        "from the mean of what is shown; that of all of them and all else adds up to "
        f"the facility's; up to {MAX_PART_POINTS} means each."
    )
    width = (run.metrics.get("grid") or {}).get("bandwidth") or {}
    smooth = (
        (
            f" The profiles are averages over {width.get('averaging_window_s'):g} s, "
            "so what is drawn is smoother than the load itself, and steps over less "
            f"than {width.get('lower_bound_below_s', 0):g} s are lower bounds."
        )
        if width.get("averaging_window_s")
        else ""
    )
    return Chart(
        "zooms",
        "The worst windows at 0.1 s",
        (
            f"Found in the {basis}. Blue: facility power every 0.1 s. Orange: the "
            "means that were compared, before and after the step, or the highest "
            "second. Times are local; double-click a figure for the whole window "
            "that the run keeps. The power axes do not start at "
            f"zero.{by_part if any(len(panels) > 1 for panels in windows) else ''}"
            f"{smooth}"
        ),
        tuple(chain.from_iterable(windows)),
    )


def _window_panels(run: RunData, entry: Entry, unit: PowerUnit) -> Iterator[Panel]:
    """Yield the panel of a window, and a panel of the pools' changes if available."""
    series, (kind, _, length) = (
        run.run.series(entry["name"]),
        entry["name"].partition("_"),
    )
    length_ms = int(length.removesuffix("s") or 1) * MS_PER_S
    at = datetime.fromisoformat(entry["at"])
    row = series.row_at(at, f"{run.run.folder}: zooms.{entry['name']}.at")
    first = max(row - MAX_ROWS // 2, 0)
    names = [name for of_part in run.groups.values() for name in of_part]
    groups = run.groups if run.parts and set(names) <= set(series.check()) else {}
    rows = first, min(first + MAX_ROWS, series.n_rows)
    block = series.read([POWER, *(names if groups else [])], rows)
    x = series.local_ms(block.starts_ms).astype("datetime64[ms]")
    power, row = block.columns[POWER] / unit.watts, row - first
    n, n_side = (
        ms // series.step_ms
        for ms in (length_ms, SHOWN_MS.get(length or kind, 10 * MS_PER_MIN))
    )
    shown_rows = slice(max(row - n_side, 0), row + n_side)
    before, after = slice(max(row - n, 0), row), slice(row, row + n)
    step, shown_power = np.timedelta64(series.step_ms, "ms"), power[shown_rows]
    ends = padded_range(float(shown_power.min()), float(shown_power.max()))
    time = Axis(
        "Time of day [h:min:s]", "clock", (x[shown_rows][0], x[shown_rows][-1] + step)
    )

    def line(x: Array, y: Any, name: str, main: str, width: float, **how: Any) -> Line:
        values = np.asarray(y)
        return Line(x, values, name, main, unit.power, 4, width=width, **how)

    power_line = line(
        x, power, "every 0.1 s", PALETTE[0], 1.3, steps=True, legend=False
    )
    kind_text, sign = f"Largest {interval(length_ms)} {kind}", ""
    if kind == "peak":
        kind_text = f"Highest {interval(length_ms)} mean"
        middle = x[row : row + 1] + n // 2 * step
        how = {"markers_only": True, "texts": ("",), "legend": False}
        result = line(
            middle, [power[after].mean()], "highest second", PALETTE[1], 2, **how
        )
    else:
        corners = x[row] + np.array([-n, 0, 0, n]) * step
        means_mw = np.repeat([power[before].mean(), power[after].mean()], 2)
        result = line(corners, means_mw, "means", PALETTE[1], 2.6, legend=False)
        sign = "\N{MINUS SIGN}" if entry["value_mw"] < 0 else "+"
    size = abs(entry["value_mw"]) * W_PER_MW / unit.watts
    when = x[row].item()
    time_text = f"{when.day} {when:%b %Y, %H:%M:%S}"
    title = f"{kind_text}: {sign}{size:,.3f} {unit.power}, {time_text}"
    yield Panel(
        time,
        Axis(f"Facility power [{unit.power}]", range=ends),
        (power_line, result),
        title,
    )
    if groups:
        base = shown_rows if kind == "peak" else before
        parts = split_power(block.columns, groups)
        power_by_part = {
            part.label: parts[part.label] / unit.watts for part in run.parts
        }
        every, lines = -(-shown_power.size // MAX_PART_POINTS), []
        for k, (name, values) in enumerate(
            {"facility": power, **power_by_part}.items()
        ):
            y = block_means(values[shown_rows], every) - values[base].mean()
            main = colour(k - 1) if k else INK
            lines.append(line(x[shown_rows][::every], y, name, main, 1.3, steps=True))
        # At least as high as the facility's panel, so that noise does not look like a
        # step
        level, heights = power[base].mean(), [of.y for of in lines]
        low, high = float(np.min(heights)), float(np.max(heights))
        range_ = min(ends[0] - level, 1.05 * low), max(ends[1] - level, 1.05 * high)
        axis = Axis(f"Change of power [{unit.power}]", range=range_)
        yield Panel(time, axis, tuple(lines), f"The same {run.parts_text}")
