"""How fitted weights of the hours of the week are drawn, of jobs and of requests."""

from __future__ import annotations

import numpy as np

from diploee.drawing.charts import (
    MONDAY,
    PALETTE,
    Axis,
    Band,
    Carpet,
    Line,
    Panel,
    closed,
    since_monday,
)
from diploee.tables import Float64Array
from diploee.units import DAYS_PER_WEEK, HOURS_PER_DAY, MS_PER_DAY, MS_PER_H, MS_PER_WEEK

_DAYS = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])


def week_panels(
    weight: Float64Array, low: Float64Array, high: Float64Array, confidence: float, title: str
) -> tuple[Panel, Panel]:
    """Return the weights of the week as a heat map, and as a course with their limits."""
    top = float(weight.max())
    hours = since_monday(np.arange(HOURS_PER_DAY) * MS_PER_H + MS_PER_H // 2)
    rows = weight.reshape(DAYS_PER_WEEK, HOURS_PER_DAY)[::-1]  # Monday above
    heat = Carpet(hours, _DAYS[::-1], rows, "", 0, top, "weight (mean 1)")
    day = Axis("local time", "time of day", (MONDAY, since_monday(MS_PER_DAY)))
    edges = since_monday(np.arange(weight.size + 1) * MS_PER_H)
    course = (
        Band(
            edges, closed(low), closed(high), limits_name(confidence), PALETTE[0], 0.25, steps=True
        ),
        Line(edges, closed(weight), "weight", PALETTE[0], width=1.4, steps=True),
    )
    week = Axis("local time", "time of week", (MONDAY, since_monday(MS_PER_WEEK)))
    # Limits of hours that were hardly seen would press the weights down.
    reach = Axis("weight (mean 1)", range=(0, 1.1 * max(top, min(float(high.max()), 3 * top))))
    return (
        Panel(day, Axis("", "category"), (heat,), title, wide=True),
        Panel(week, reach, course, wide=True),
    )


def limits_name(confidence: float) -> str:
    """Return the name of confidence limits."""
    return f"{100 * confidence:g}% limits"
