"""Charts of the queue: how long jobs wait, and when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.drawing.charts import Axis, Chart, Line, Panel, colour, dash, since_monday
from diploee.metric import number
from diploee.reports.aggregate import round_edges, waits_by_hour_of_week
from diploee.reports.common import (
    MAX_TOGETHER,
    WEEK_AXIS,
    by_run,
    by_run_words,
    histogram_layers,
)
from diploee.reports.data import RunData, Waits
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, S_PER_H

N_BINS = 50

_Waiting = tuple[int, str, Waits]
"""Place among the runs, which gives the colour; label; queue times."""


def queue_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the queue times; None where no job of any run waited."""
    waiting = [run for run in runs if run.waits and run.waits.wait_s.any()]
    if not waiting:
        return None
    edges = round_edges(
        0, max(float(waits.wait_s.max()) for *_, waits in _of(waiting, runs)) / S_PER_H, N_BINS
    )

    def panels(drawn: Sequence[RunData]) -> list[Panel]:
        found = _of(drawn, runs if drawn is waiting else drawn)
        return [_histogram_panel(found, edges), _week_panel(found)]

    lines = "solid: mean, dotted: 95th percentile." if _is_alone(waiting) else "lines are means."
    return Chart(
        "queue",
        "Queue times",
        "How long: share of the queued jobs by queue time. When: queue time by the hour of the "
        "week in which a job was submitted, over all started jobs, also those that did not wait; "
        f"{lines} {_queued_words(_of(waiting, runs))}{by_run_words(waiting)}",
        by_run(waiting, panels),
    )


def _of(drawn: Sequence[RunData], among: Sequence[RunData]) -> list[_Waiting]:
    places = {id(run): place for place, run in enumerate(among)}
    return [(places[id(run)], run.label, run.waits) for run in drawn if run.waits]


def _is_alone(waiting: Sequence[RunData]) -> bool:
    return len(waiting) == 1 or len(waiting) > MAX_TOGETHER


def _histogram_panel(waiting: Sequence[_Waiting], edges: Float64Array) -> Panel:
    hours = [
        (index, label, waits.wait_s[waits.wait_s > 0] / S_PER_H) for index, label, waits in waiting
    ]
    return Panel(
        Axis("Queue time of queued jobs [h]", range=(0, edges[-1])),
        Axis("Share of queued jobs [%]", from_zero=True),
        histogram_layers(hours, edges, "% of queued jobs"),
        "How long queued jobs wait",
    )


def _week_panel(waiting: Sequence[_Waiting]) -> Panel:
    layers: list[Line] = []
    for index, label, waits in waiting:
        mean, p95 = waits_by_hour_of_week(waits.submit_ms, waits.wait_s / S_PER_H)
        x = since_monday(np.arange(mean.size) * MS_PER_H)
        single, main = len(waiting) == 1, colour(index)
        if single:
            layers.append(Line(x, p95.astype(np.float32), "95 %", main, "h", dash="dot"))
        name = "mean" if single else label
        layers.append(Line(x, mean.astype(np.float32), name, main, "h", dash=dash(index)))
    return Panel(WEEK_AXIS, Axis("Queue time [h]", from_zero=True), tuple(layers), "When jobs wait")


def _queued_words(waiting: Sequence[_Waiting]) -> str:
    shares = [(label, float((waits.wait_s > 0).mean())) for _, label, waits in waiting]
    if len(shares) == 1:
        return f"{number(shares[0][1], '{:.1f}', 100)} % of the started jobs queued at all."
    parts = "; ".join(f"{label} {number(share, '{:.1f}', 100)} %" for label, share in shares)
    return f"Jobs that queued at all: {parts}."
