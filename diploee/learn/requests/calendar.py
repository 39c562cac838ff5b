"""Calendar weights of the requests per step of a trace.

A step's requests are expected as rate x weight of the hour of the week x weight of the month. The
most likely weights of Poisson requests match the totals of every hour of the week and of every
month; iterative proportional fitting finds them (Deming and Stephan 1940).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from diploee.errors import WorkloadError
from diploee.importers.request_trace import RequestTrace
from diploee.learn.poisson import proportional_fit
from diploee.learn.week_shape import Detail
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
)

N_SLOTS: dict[Detail, int] = {
    "hour_of_week": HOURS_PER_WEEK,
    "hour_of_day": HOURS_PER_DAY,
    "uniform": 1,
}
"""Weights of a week by detail."""

MIN_SEEN_H = 0.5
"""Time for which every hour of the week (or day) must have been seen to get its own weight [h]."""

MIN_DAYS_OF_MONTH = 7
"""Days of a month that must have been seen for a weight of its own."""

_EPOCH_HOUR_OF_WEEK = 3 * HOURS_PER_DAY  # 1970-01-01 was a Thursday


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Local time of steps of a trace.

    Parameters
    ----------
    step_ms : int
        Length of a step [ms].
    start_ms : numpy.ndarray, shape (n,), int64
        Start of each step in local time [ms], since 1970 or since a Monday at 00:00.
    has_dates : bool
        Whether the months are known.
    """

    step_ms: int
    start_ms: Int64Array
    has_dates: bool

    @classmethod
    def of(cls, trace: RequestTrace, zero_hour_of_week: float = 0.0) -> StepTimes:
        """Return the times of all steps of a trace, of one with dates in its zone.

        Raises
        ------
        WorkloadError
            If local hours do not begin with a step.
        """
        shift_ms = trace.zone.offset_min(trace.origin_ms) * MS_PER_MIN
        if trace.is_relative:
            shift_ms = round(zero_hour_of_week % HOURS_PER_WEEK * MS_PER_H)
        first_ms = trace.origin_ms + shift_ms
        if MS_PER_H % trace.step_ms or first_ms % trace.step_ms:
            raise WorkloadError(
                f"{trace.source}: steps of {trace.step_ms / 1000:g} s, expected steps that divide "
                "the hour of local time; read the trace with step_s = 60"
            )
        n_steps = trace.n_requests.shape[1]
        start_ms = first_ms + np.arange(n_steps, dtype=np.int64) * trace.step_ms
        if trace.zone.name and not trace.is_relative:
            start_ms = trace.zone.local_ms(start_ms - shift_ms)
        return cls(trace.step_ms, start_ms, not trace.is_relative)

    def inner(self) -> StepTimes:
        """Return the times without the first and the last step, if there are more than two."""
        steps = slice(1, -1) if self.start_ms.size > 2 else slice(None)
        return StepTimes(self.step_ms, self.start_ms[steps], self.has_dates)

    @property
    def hour(self) -> Int64Array:
        """Hours since the origin of `start_ms`, rounded down."""
        return self.start_ms // MS_PER_H

    @property
    def hour_of_week(self) -> Int64Array:
        """0 on Monday at 00:00, to 167."""
        first = _EPOCH_HOUR_OF_WEEK if self.has_dates else 0
        return (self.hour + first) % HOURS_PER_WEEK

    @property
    def month(self) -> Int64Array:
        """0 in January, to 11."""
        months = self.start_ms.astype("datetime64[ms]").astype("datetime64[M]")
        return np.asarray(months.astype(np.int64) % MONTHS_PER_YEAR, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WeightFit:
    """Most likely weights and what they expect.

    Parameters
    ----------
    detail : {"hour_of_week", "hour_of_day", "uniform"}
        What the span allows.
    slot, group : numpy.ndarray, shape (n,), int64
        Hour and month of each step; groups are 0 where months are not fitted.
    slot_rate, group_factor : numpy.ndarray
        Requests per step in each slot, and factor of each group; they multiply.
    has_months : bool
        Whether the groups are months.
    """

    detail: Detail
    slot: Int64Array
    group: Int64Array
    slot_rate: Float64Array
    group_factor: Float64Array
    has_months: bool

    @property
    def expected(self) -> Float64Array:
        """Expected requests of each step, shape (n,)."""
        return self.slot_rate[self.slot] * self.group_factor[self.group]

    @property
    def n_weights(self) -> int:
        """Free weights that requests determined."""
        return int((self.slot_rate > 0).sum() + (self.group_factor > 0).sum() - 1)


def fit_weights(counts: Float64Array, times: StepTimes) -> WeightFit:
    """Fit weights of the hours of the week, and of the months where the span allows.

    Parameters
    ----------
    counts : numpy.ndarray, shape (n,)
        Requests in each step.
    times : StepTimes
        Their times.
    """
    slot, detail = times.hour_of_week, _detail(times)
    slot = slot % N_SLOTS[detail]
    has_months = times.has_dates and int(well_seen_months(times).sum()) >= 2
    group = times.month if has_months else np.zeros_like(slot)
    n_slots, n_groups = N_SLOTS[detail], int(group.max()) + 1
    cell = slot * n_groups + group
    shape = (n_slots, n_groups)
    total = np.bincount(cell, counts, n_slots * n_groups).reshape(shape).astype(np.float64)
    n_steps = np.bincount(cell, minlength=n_slots * n_groups).reshape(shape).astype(np.float64)
    rate, factor = proportional_fit(total, n_steps)
    return WeightFit(detail, slot, group, rate, factor, has_months)


def well_seen_months(times: StepTimes) -> BoolArray:
    """Return which months were seen for `MIN_DAYS_OF_MONTH`, shape (12,)."""
    seen_ms = np.bincount(times.month, minlength=MONTHS_PER_YEAR) * times.step_ms
    return np.asarray(seen_ms >= MIN_DAYS_OF_MONTH * MS_PER_DAY, dtype=bool)


def _detail(times: StepTimes) -> Detail:
    details: tuple[Detail, ...] = ("hour_of_week", "hour_of_day")
    for detail in details:
        slot = times.hour_of_week % N_SLOTS[detail]
        seen = np.bincount(slot, minlength=N_SLOTS[detail]).min() * times.step_ms
        if seen >= MIN_SEEN_H * MS_PER_H:
            return detail
    return "uniform"


def interpolation_weights(hourly: Float64Array) -> Float64Array:
    """Return weights at the centres of the hours whose straight lines have given hourly means.

    A scenario's request rates are straight lines between the centres of the hours, so that an hour
    has the mean (before + 6 x own + after) / 8 of the weights. This is undone, by non-negative
    least squares where a weight would fall below zero.

    Parameters
    ----------
    hourly : numpy.ndarray, shape (n,)
        Mean of each hour of a cycle, a week or a day.
    """
    n = hourly.size
    if n == 1:
        return hourly.copy()
    means = np.eye(n) * 0.75 + (np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 8
    weights = np.linalg.solve(means, hourly)
    if (weights < 0).any():
        weights = nnls(means, hourly)[0]
        weights *= hourly.sum() / weights.sum()
    return np.asarray(weights, dtype=np.float64)
