"""Charts of events: load against target and baseline, and what the widest jobs did."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from diploee.clock import instant_ms
from diploee.drawing.charts import MUTED, Axis, Chart, Line, Panel, colour
from diploee.metrics.flexibility import BASELINE
from diploee.outputs.words import moment
from diploee.reports.data import RunData
from diploee.units import MS_PER_H, W_PER_MW, PowerUnit

Entry = dict[str, Any]

MOST_EVENTS = 4
"""Events that are drawn, the first ones; the table has all."""

SHOWN_MS = (2 * MS_PER_H, 6 * MS_PER_H)
"""Time before the ramp and behind the end of an event that its figure shows [ms]."""
MOST_ROWS = 20_000

_STATES = {
    "run": ("runs", 0),
    "capped": ("capped", 4),
    "checkpoint": ("stops", 1),
    "restart": ("restarts", 3),
    "paused": ("suspended", 5),
}
"""States of a job, in words, and their colours."""


def event_charts(run: RunData, unit: PowerUnit) -> list[Chart]:
    """Return a chart of each of the first events; none of a run that answers nothing."""
    events = (run.metrics.get("flexibility") or {}).get("events") or []
    return [_event_chart(run, event, unit) for event in events[:MOST_EVENTS]]


def _event_chart(run: RunData, event: Entry, unit: PowerUnit) -> Chart:
    """Return load, twin and target around an event, and what the widest jobs did.

    The target and the twin are of the facility: no pool has one to compare with.
    """
    at = event["times"] | {name: _ms(text) for name, text in event["times"].items()}
    series = run.run.series()
    span = [at["ramp"] - SHOWN_MS[0], at["over"] + SHOWN_MS[1]]
    rows = np.clip((np.array(span) - series.start_ms) // series.step_ms, 0, series.n_rows)
    first, last = int(rows[0]), min(int(rows[1]), int(rows[0]) + MOST_ROWS)
    block = series.read(["facility_power_w", BASELINE], (first, last))
    times = series.local_ms(block.starts_ms).astype("datetime64[ms]")
    power = {name: values / unit.watts for name, values in block.columns.items()}
    layers = [
        Line(times, power[BASELINE].astype(np.float32), "without the event", MUTED, unit.power, 3),
        Line(times, power["facility_power_w"].astype(np.float32), "load", colour(0), unit.power, 3),
    ]
    local = at | {name: _local(run, ms) for name, ms in at.items()}
    if event.get("before_mw") is not None and event.get("target_mw") is not None:
        per_mw = W_PER_MW / unit.watts
        level, before = (event[key] * per_mw for key in ("target_mw", "before_mw"))
        x = np.array([local[name] for name in ("ramp", "held", "end", "over")])
        # The ramp back leads to what is drawn by then without caps, where that is more.
        over = int(np.searchsorted(times, np.datetime64(local["over"]))) - 1
        back = max(before, level, float(power["facility_power_w"][max(over, 0)]))
        y = np.array([max(before, level), level, level, back], dtype=np.float32)
        layers.append(Line(x, y, "allowed", colour(1), unit.power, 3, dash="dash"))
    if utility := event.get("utility"):
        x = np.array([local["held"], local["end"]])
        y = np.full(2, utility["baseline_mw"] * W_PER_MW / unit.watts, dtype=np.float32)
        layers.append(Line(x, y, "a utility's baseline", colour(2), unit.power, 3, dash="dot"))
    panels = [
        Panel(
            Axis("Time", "clock"),
            Axis(f"Power [{unit.power}]", from_zero=True),
            tuple(layers),
            "Load",
            wide=True,
        )
    ]
    if event["widest_jobs"]:
        panels.append(_jobs_panel(run, event))
    return Chart(
        f"event-{event['name']}",
        f"Event {event['name']}",
        f"Issued {moment(event['times']['issued'])}. Dashed: what may be drawn. Below: what the "
        "widest jobs did, each on a row, the widest at the bottom; where a row is empty the job "
        "waits or has not begun.",
        tuple(panels),
    )


def _jobs_panel(run: RunData, event: Entry) -> Panel:
    """Return the widest jobs as bars from start to end, by what they do."""
    start = _local(run, _ms(event["times"]["start"]))
    layers = []
    for state, (words, index) in _STATES.items():
        x: list[Any] = []
        y: list[float] = []
        for row, job in enumerate(event["widest_jobs"]):
            spans = zip(job["from_s"], job["to_s"], job["state"], strict=True)
            for from_s, to_s, what in spans:
                if what == state:
                    edges = [start + np.timedelta64(round(t * 1000), "ms") for t in (from_s, to_s)]
                    # A gap behind each bar, so that bars of one row do not join.
                    x += [*edges, edges[1]]
                    y += [row, row, np.nan]
        if x:
            layers.append(
                Line(np.array(x), np.array(y, np.float32), words, colour(index), width=5, digits=0)
            )
    n_nodes = [job["n_nodes"] for job in event["widest_jobs"]]
    widths = " to ".join(f"{n:,}" for n in dict.fromkeys((max(n_nodes), min(n_nodes))))
    title = f"The widest jobs, of {widths} nodes"
    return Panel(Axis("Time", "clock"), Axis("Job"), tuple(layers), title, wide=True)


def _ms(text: str) -> int:
    return instant_ms(datetime.fromisoformat(text))


def _local(run: RunData, ms: int) -> Any:
    return run.run.series().local_ms(np.array([ms])).astype("datetime64[ms]")[0]
