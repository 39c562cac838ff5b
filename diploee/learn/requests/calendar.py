"""Calendar weights of the requests per step of a trace.

A step's requests are expected as rate x weight of the hour of the week x weight of the month. The
most likely weights of Poisson requests match the totals of every hour of the week and of every
month; iterative proportional fitting finds them (Deming and Stephan 1940).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.errors import WorkloadError
from diploee.learn.jobs.calendar_fit import allowed_details, covers_months
from diploee.learn.seasons import MonthTest, months_differ
from diploee.learn.week_shape import (
    IN_WORDS,
    CalendarChoice,
    Detail,
    WeekShape,
    fit_week_shape,
)
from diploee.loads.services.request_trace import RequestTrace
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
)

MIN_SEEN_H = 0.5
"""Time for which every hour of the week (or day) must have been seen to get its own weight [h]."""

MIN_DAYS_OF_MONTH = 7
"""Days of a month that must have been seen for a weight of its own."""

_EPOCH_HOUR_OF_WEEK = 3 * HOURS_PER_DAY  # 1970-01-01 was a Thursday


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Local time of steps of a trace."""

    step_ms: int  # length of a step [ms]
    # Start of each step in local time [ms], since 1970 or since a Monday at 00:00
    start_ms: Int64Array
    has_dates: bool  # whether the months are known

    @classmethod
    def of(cls, trace: RequestTrace, zero_hour_of_week: float = 0.0) -> StepTimes:
        """Return the times of all steps of a trace, of one with dates in its zone."""
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
    """Most likely weights and what they expect."""

    shape: WeekShape  # which weights the week has, and why
    # Hour of the week and month of each step; groups are 0 where months are not fitted
    slot: Int64Array
    group: Int64Array
    # Requests per step in each slot, and factor of each group; they multiply
    slot_rate: Float64Array
    group_factor: Float64Array
    has_months: bool  # whether the groups are months
    months: MonthTest | None  # whether months differ; None where that was not asked

    @property
    def expected(self) -> Float64Array:
        """Expected requests of each step, shape (n,)."""
        return self.slot_rate[self.slot] * self.group_factor[self.group]

    @property
    def n_weights(self) -> int:
        """Free weights that requests determined."""
        return self.shape.n_parameters

    @property
    def detail(self) -> Detail:
        """Which weights the week has."""
        return self.shape.detail


def fit_weights(
    counts: Float64Array,
    times: StepTimes,
    months: bool | None = None,
    choice: CalendarChoice = "auto",
) -> WeightFit:
    """Fit weights of the hours of the week, and of the months where the span allows."""
    n_seen = int(well_seen_months(times).sum()) if times.has_dates else 0
    if months and n_seen < 2:
        raise WorkloadError(
            f"weights of the months: the span holds {n_seen} months for {MIN_DAYS_OF_MONTH} days, "
            "expected 2 at least, with dates; give a longer span, or leave the months out"
        )
    hours, of_hour = np.unique(times.hour, return_inverse=True)
    of_hour = of_hour.ravel()
    first = np.flatnonzero(np.diff(times.hour, prepend=times.hour[0] - 1))
    slot, month = times.hour_of_week[first], times.month[first]
    in_hour = np.bincount(of_hour, counts).astype(np.float64)
    n_steps = np.bincount(of_hour).astype(np.float64)
    coverage = n_steps * times.step_ms / MS_PER_H
    has_months = covers_months(month, coverage) if months is None else months
    has_months &= times.has_dates
    allowed = allowed_details(slot, coverage)
    week = (hours - hours[0] + slot[0]) // HOURS_PER_WEEK
    if len(allowed) < len(IN_WORDS):  # no week can be held out: the finest that was seen
        allowed = _seen_details(slot, coverage)
        week = np.zeros_like(slot)
    test, group = None, np.zeros_like(slot)
    shape = fit_week_shape(in_hour, n_steps, slot, group, week, allowed, choice)
    if has_months and months is None:
        test = months_differ(in_hour, shape.rate[slot] * n_steps, month, hours)
        has_months = test.differ
    if has_months:
        shape = fit_week_shape(in_hour, n_steps, slot, month, week, allowed, choice)
        group = times.month
    every_step = group if has_months else np.zeros_like(times.hour)
    return WeightFit(
        shape, times.hour_of_week, every_step, shape.rate, shape.of_group, has_months, test
    )


def well_seen_months(times: StepTimes) -> BoolArray:
    """Return which months were seen for `MIN_DAYS_OF_MONTH`, shape (12,)."""
    seen_ms = np.bincount(times.month, minlength=MONTHS_PER_YEAR) * times.step_ms
    return np.asarray(seen_ms >= MIN_DAYS_OF_MONTH * MS_PER_DAY, dtype=bool)


def _seen_details(slot: Int64Array, coverage: Float64Array) -> tuple[Detail, ...]:
    """Return the details whose hours were all seen for `MIN_SEEN_H`."""
    details = tuple(IN_WORDS)
    if np.bincount(slot, coverage, HOURS_PER_WEEK).min() >= MIN_SEEN_H:
        return details
    of_day = np.bincount(slot % HOURS_PER_DAY, coverage, HOURS_PER_DAY)
    return details[: 2 if of_day.min() >= MIN_SEEN_H else 1]
