"""The section "Events": load against target and baseline, the widest jobs, and what it cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from diploee.clock import instant_ms
from diploee.drawing.charts import MUTED, Axis, Chart, Line, Panel, colour
from diploee.metric import Metric, number
from diploee.metrics.flexibility import BASELINE
from diploee.reports.content import PageTable, Section
from diploee.reports.data import RunData
from diploee.reports.grid_data import Entry, cells
from diploee.reports.words import moment
from diploee.units import MS_PER_H, S_PER_MIN, W_PER_MW, PowerUnit

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

_COLUMNS = (
    ("twin_mw", "Without it", "MW", 1.0, "{:,.3f}"),
    ("mean_mw", "Power", "MW", 1.0, "{:,.3f}"),
    ("target_mw", "Target", "MW", 1.0, "{:,.3f}"),
    ("mean_reduction", "Reduction [%]", "", 100.0, "{:.1f}"),
    ("held_fraction", "Intervals at target [%]", "", 100.0, "{:.1f}"),
    ("issue_to_target_s", "Issue to target [min]", "", 1 / S_PER_MIN, "{:,.1f}"),
    ("overshoot_mw", "Overshoot", "MW", 1.0, "{:,.3f}"),
    ("not_drawn_mwh", "Not drawn", "MWh", 1.0, "{:,.3f}"),
    ("rebound_mw", "Rebound", "MW", 1.0, "{:,.3f}"),
    ("rebound_mwh", "Rebound", "MWh", 1.0, "{:,.3f}"),
    ("weighted_performance", "Weighted performance", "", 1.0, "{:.3f}"),
    ("money", "Money saved", "", 1.0, "{:,.2f}"),
    ("t_co2", "CO2 saved [t]", "", 1.0, "{:,.3f}"),
)
_COSTS = {
    "mean_wait_change_h": ("Mean change of the queue time [h]", "{:.3f}"),
    "p95_wait_change_h": ("95 % of it [h]", "{:.3f}"),
    "lost_node_h": ("Lost work [node h]", "{:,.1f}"),
    "restart_node_h": ("Stops and restarts [node h]", "{:,.1f}"),
    "paused_node_h": ("Suspended [node h]", "{:,.1f}"),
    "deadlines": ("Jobs with a deadline", "{:,.0f}"),
    "deadline_misses": ("Missed under control", "{:,.0f}"),
    "twin_deadline_misses": ("Missed without control", "{:,.0f}"),
}


def flexibility_section(run: RunData, unit: PowerUnit) -> Section | None:
    """Return the section; None for a run that answers nothing."""
    found = run.metrics.get("flexibility")
    if not found:
        return None
    events: list[Entry] = found["events"]
    charts = [_event_chart(run, event, unit) for event in events[:MOST_EVENTS]]
    tables = [_events_table(events, unit)] if events else []
    return Section(
        "flexibility",
        "Events and what they cost",
        (*charts, *tables, _costs_table(found["jobs"])),
        (
            "The same run without control is its twin: the same jobs, so that nothing is "
            "estimated. Jobs that are paused free their nodes, which draw idle power.",
        ),
    )


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


def _events_table(events: list[Entry], unit: PowerUnit) -> PageTable:
    """Return what each event did."""
    columns = []
    for key, name, of, factor, pattern in _COLUMNS:
        values = [event.get(key) for event in events]
        if all(value is None for value in values):
            continue
        if of:
            sized = Metric("", of, name).sized(unit)
            texts = cells([None if v is None else v * sized.factor for v in values])
            columns.append((sized.heading, texts))
        else:
            columns.append((name, [number(v, pattern, factor) for v in values]))
    errors = [(event.get("utility") or {}).get("error") for event in events]
    if any(error is not None for error in errors):
        columns.append(
            ("Error of a utility's baseline [%]", [number(e, "{:+.1f}", 100) for e in errors])
        )
    rows = zip(
        [event["name"] for event in events],
        *(texts for _, texts in columns),
        [moment(event["times"]["held"]) for event in events],
        strict=True,
    )
    note = (
        "Reduction and energy against the same run without control. Rebound: largest 15 min, and "
        "energy, above it within 24 h. Weighted performance: work over that without the event, "
        "weighted by 1 less the loss that a job tolerates. A utility's baseline: 10-of-10 with a "
        "same-day adjustment of at most 20 %."
    )
    header = ("Event", *(head for head, _ in columns), "From")
    return PageTable("Events", header, tuple(rows), note, n_texts=1)


def _costs_table(jobs: Entry) -> PageTable:
    """Return what control cost the jobs."""
    rows = tuple(
        (words, number(jobs.get(key), pattern)) for key, (words, pattern) in _COSTS.items()
    )
    note = "Over the whole run, each job against itself without control."
    return PageTable("Cost to the jobs", ("", "Value"), rows, note)
