"""Charts of the queue: how long jobs wait, and when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.drawing.charts import Axis, Chart, Line, Panel, colour, dash, since_monday
from diploee.metric import number
from diploee.report.aggregate import round_edges, waits_by_hour_of_week
from diploee.report.common import WEEK_AXIS, histogram_layers
from diploee.report.data import RunData, Waits
from diploee.units import MS_PER_H, S_PER_H

N_BINS = 50

_Waiting = tuple[int, str, Waits]
"""Place among the runs, which gives the colour; label; queue times."""


def queue_chart(runs: Sequence[RunData]) -> Chart | None:
    """Return the queue times; None where no job of any run waited."""
    waiting = [
        (index, run.label, run.waits)
        for index, run in enumerate(runs)
        if run.waits and run.waits.wait_s.any()
    ]
    if not waiting:
        return None
    return Chart(
        "queue",
        "Queue times",
        "Left: share of the queued jobs by queue time. Right: queue time by the hour of the week "
        "in which a job was submitted, over all started jobs, also those that did not wait; "
        f"{_line_words(len(waiting))} {_queued_words(waiting)}",
        (_histogram_panel(waiting), _week_panel(waiting)),
    )


def _histogram_panel(waiting: Sequence[_Waiting]) -> Panel:
    hours = [
        (index, label, waits.wait_s[waits.wait_s > 0] / S_PER_H) for index, label, waits in waiting
    ]
    edges = round_edges(0, max(float(values.max()) for _, _, values in hours), N_BINS)
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


def _line_words(n_runs: int) -> str:
    if n_runs == 1:
        return "solid: mean, dotted: 95th percentile."
    return "lines are means."


def _queued_words(waiting: Sequence[_Waiting]) -> str:
    shares = [(label, float((waits.wait_s > 0).mean())) for _, label, waits in waiting]
    if len(shares) == 1:
        return f"{number(shares[0][1], '{:.1f}', 100)} % of the started jobs queued at all."
    parts = "; ".join(f"{label} {number(share, '{:.1f}', 100)} %" for label, share in shares)
    return f"Jobs that queued at all: {parts}."
