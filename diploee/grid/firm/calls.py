"""Sets of calls: the periods in which a site must stay below its firm level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.base.clock import NamedSpan
from diploee.base.errors import InputError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H
from diploee.grid.firm.dispatch import CallLimits
from diploee.grid.firm.undisturbed import UndisturbedYear

ALL, PEAKS = "all hours above", "peaks"
BLOCKS_H = (1, 2, 4)
"""Lengths of contiguous calls [h]."""
APART_H = 43
"""Time between the starts of two contiguous calls [h]. It has no common factor with
the 168 hours of a week, so 168 calls start once at each hour of the week."""


def call_sets(
    year: UndisturbedYear, peaks: Sequence[NamedSpan], level_w: float
) -> dict[str, Int64Array]:
    """Return the first and end step (excluded) of each call, shape (N, 2), by set.

    Calls of the set `ALL` are the hours in which the undisturbed power exceeds the
    level.
    """
    per_h, n_steps = MS_PER_H // year.step_ms, year.power_w.size
    sets = {ALL: spans_above(year, level_w)}
    for hours in BLOCKS_H:
        first = np.arange(0, n_steps - hours * per_h + 1, APART_H * per_h)
        sets[f"blocks of {hours} h"] = np.stack([first, first + hours * per_h], axis=1)
    if peaks:
        sets[PEAKS] = np.array([_step_range(year, span) for span in peaks])
    return sets


def _step_range(year: UndisturbedYear, span: NamedSpan) -> tuple[int, int]:
    begin_ms = year.wall.time_ms(span.start)
    end_ms = year.wall.time_ms(span.end)
    if span.duration is not None:
        end_ms = begin_ms + round(span.duration.total_seconds() * 1000)
    first, last = begin_ms // year.step_ms, -(-end_ms // year.step_ms)
    if not 0 <= first < last <= year.power_w.size:
        raise InputError(
            f"{span.where}: must lie within the simulated time, found {span.start} to "
            f"{span.end}"
        )
    return first, last


def spans_above(year: UndisturbedYear, level_w: float) -> Int64Array:
    """Return the periods of whole clock hours in which power exceeds a level.

    They are first and end step (excluded) of each period, shape (N, 2).
    """
    per_h = MS_PER_H // year.step_ms
    above = year.power_w > level_w
    hours = np.logical_or.reduceat(above, np.arange(0, above.size, per_h))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hours, [0]]).astype(np.int8)))
    steps: Int64Array = np.minimum(edges.reshape(-1, 2) * per_h, above.size)
    return steps


def call_limits(
    year: UndisturbedYear, spans: Int64Array, level_w: float, notice_ms: int
) -> tuple[CallLimits, Float64Array]:
    """Return the limits on jobs in calls, and the relief by capped services [W]."""
    n_steps = year.power_w.size
    room_w = np.full(n_steps, np.inf)
    services_w = np.zeros(n_steps)
    end_ms = np.zeros(n_steps, dtype=np.int64)
    ahead_ms, ahead_w = np.full(n_steps, -1, dtype=np.int64), np.zeros(n_steps)
    for first, last in spans.tolist():
        steps = slice(first, last)
        above_w = year.power_w[steps] - level_w
        if year.services is not None and above_w.max() > 0:
            services_w[steps] = year.services.relief_w[steps]
        room_w[steps] = (services_w[steps] - above_w) * year.gain[steps]
        end_ms[steps] = last * year.step_ms
    for first, last in spans[::-1].tolist():
        room = room_w[first:last]
        before = np.arange(max(first - notice_ms // year.step_ms, 0), first)
        before = before[np.isinf(room_w[before])]
        if room.min() < 0:
            ahead_ms[before] = first * year.step_ms
            ahead_w[before] = (room + year.jobs_w[first:last]).min()
    return CallLimits(room_w, end_ms, ahead_ms, ahead_w), services_w
