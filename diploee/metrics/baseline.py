"""The baseline of a utility: the load of ten days alike, adjusted to the hours before an event.

CAISO's 10-of-10 with a same-day adjustment of 20 % at most, sheet ``flexibility.md``, B7 [S]. It is
an estimate from the meter alone; how far it is off, the run's exact twin tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.clock import WallClock
from diploee.measures.series import Intervals
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, MS_PER_DAY, MS_PER_H

N_DAYS = {False: 10, True: 4}
"""Days that are averaged, by whether they are of a weekend. ASSUMPTION: 4 at weekends [M]."""
LEAST_DAYS = {False: 5, True: 4}
"""ASSUMPTION: fewer days give no baseline [M]."""
LOOK_BACK_DAYS = 45
"""ASSUMPTION: how far back they may lie [M]."""
ADJUSTED_HOURS = (-4, -1)
"""ASSUMPTION: hours before the event that adjust it, the first of these to before the last [M]."""
MOST_ADJUSTED = 0.2
FIRST_WEEKEND_DAY = 5
EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


@dataclass(frozen=True)
class Baseline:
    """A utility's estimate of a load without an event: its mean over the event [W], of n days.

    `adjustment` is the factor of the same-day adjustment, from 0.8 to 1.2.
    """

    power_w: float
    adjustment: float
    n_days: int


def hourly_means(hours: Intervals, wall: WallClock) -> tuple[int, Float64Array]:
    """Return the first local day [days since 1970], and means by day and hour, NaN = none."""
    hour = wall.local_ms(hours.starts_ms) // MS_PER_H
    first_day = int(hour[0]) // HOURS_PER_DAY
    at = hour - first_day * HOURS_PER_DAY
    size = (int(at.max()) // HOURS_PER_DAY + 1) * HOURS_PER_DAY
    n = np.bincount(at, hours.counts, size)  # an hour that is put back comes twice
    means = np.divide(np.bincount(at, hours.sums, size), n, np.full(size, np.nan), where=n > 0)
    return first_day, means.reshape(-1, HOURS_PER_DAY)


def ten_of_ten(
    first_day: int, days_w: Float64Array, start_ms: int, end_ms: int, event_days: frozenset[int]
) -> Baseline | None:
    """Return the baseline of an event; None where there are too few days before it."""
    day = start_ms // MS_PER_DAY
    weekend = _is_weekend(day)
    alike = [
        k
        for k in range(day - 1, max(day - 1 - LOOK_BACK_DAYS, first_day - 1), -1)
        if _is_weekend(k) == weekend
        and k not in event_days
        and not np.isnan(days_w[k - first_day]).any()
    ][: N_DAYS[weekend]]
    if len(alike) < LEAST_DAYS[weekend]:
        return None
    mean_w = days_w[np.array(alike) - first_day].mean(axis=0)
    hours = np.arange(start_ms // MS_PER_H, -(-end_ms // MS_PER_H))
    begins_ms = hours * MS_PER_H
    length_ms = np.minimum(begins_ms + MS_PER_H, end_ms) - np.maximum(begins_ms, start_ms)
    event_w = float(mean_w[hours % HOURS_PER_DAY] @ length_ms) / (end_ms - start_ms)
    before = np.arange(*(int(start_ms // MS_PER_H) + k for k in ADJUSTED_HOURS))
    before = before[before >= first_day * HOURS_PER_DAY]
    metered_w = days_w.ravel()[before - first_day * HOURS_PER_DAY]
    usual_w = mean_w[before % HOURS_PER_DAY]
    there = ~np.isnan(metered_w)
    adjustment = 1.0
    if there.any() and usual_w[there].sum() > 0:
        ratio = float(metered_w[there].sum() / usual_w[there].sum())
        adjustment = min(max(ratio, 1 - MOST_ADJUSTED), 1 + MOST_ADJUSTED)
    return Baseline(event_w * adjustment, adjustment, len(alike))


def _is_weekend(day: int) -> bool:
    return (day + EPOCH_WEEKDAY) % 7 >= FIRST_WEEKEND_DAY
