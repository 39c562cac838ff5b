"""Fit of a request trace: calendar weights, rates, over-dispersion and token lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from diploee.errors import WorkloadError
from diploee.learn.poisson import poisson_limits
from diploee.learn.requests.calendar import (
    StepTimes,
    WeightFit,
    fit_weights,
    well_seen_months,
)
from diploee.learn.requests.fluctuation import FluctuationFit, fit_fluctuation
from diploee.learn.requests.scatter import Dispersion, dispersion_of
from diploee.learn.requests.services import ServiceFit, fit_service
from diploee.learn.seasons import MonthTest, laid_over_stepped
from diploee.learn.week_shape import CalendarChoice, Detail
from diploee.learn.weeks import MONDAY_MS, WeekFit, fit_weeks
from diploee.loads.jobs.rates import line_through_means
from diploee.loads.services.curves import OUTPUT_LENGTHS
from diploee.loads.services.request_trace import RequestTrace
from diploee.tables import Float64Array, Int64Array
from diploee.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
)

MIN_HOURS_OF_SCATTER = 24
"""Hours beyond the fitted weights from which the scatter of hours widens the limits."""


FEWEST_OF_DEAD = 20.0
"""Requests that a gap should have had to be noted: Poisson counts lack them once in 5e8."""


@dataclass(frozen=True, eq=False)
class RequestFit:
    """Fit of the requests of a trace."""

    # Of the trace
    source: str
    trace_format: str
    # Step and length of the trace [ms]
    step_ms: int
    span_ms: int
    n_requests: float  # all requests
    # Mean over the trace, and its highest step [1/s]
    mean_rate_rps: float
    peak_rate_rps: float
    peak_ms: int  # start of that step [ms], counted as `RequestTrace.origin_ms`
    week_rate_rps: float  # mean rate of a whole week in a month of weight 1 [1/s]
    detail: Detail  # which weights the week has
    # Mean Poisson deviance of held-out hours by detail; empty where none were held out
    deviance: dict[Detail, float]
    months: MonthTest | None  # whether months differ; None where that was not asked
    # Mean rate in each hour of the week over that of the week, Monday 00:00 local time first, with
    # confidence limits that take hours as independent
    week_weight: Float64Array
    week_low: Float64Array
    week_high: Float64Array
    week_hours: Float64Array  # how long each hour of the week was seen [h]
    # Weights of the months, January first, mean 1 over the time seen, with limits; 1, without
    # limits (NaN), for a month seen for less than a week. None where fewer than two months were
    # seen for a week, or the trace has no dates.
    month_weight: Float64Array | None
    month_low: Float64Array | None
    month_high: Float64Array | None
    # Scatter of the steps within the hours of the week; a drift within the hour is part of it
    dispersion: Dispersion
    hourly_dispersion: Dispersion  # scatter of whole hours, from one week to the next
    # Of the minutes around the line that a scenario draws through its hours; None unless steps are
    # minutes, and enough of them
    fluctuation: FluctuationFit | None
    weeks: WeekFit | None  # how weeks differ; None where too few were seen
    # Whether the trace counts requests; otherwise it gives rates, whose scatter means little
    is_counted: bool
    # Hours without a request that lie together and should have had `FEWEST_OF_DEAD` or more, and
    # how many such gaps there are
    n_dead_hours: int
    n_gaps: int
    services: tuple[ServiceFit, ...]  # each service


def fit_requests(
    trace: RequestTrace,
    *,
    zero_hour_of_week: float = 0.0,
    months: bool | None = None,
    calendar: CalendarChoice = "auto",
    confidence: float = 0.95,
    output_lengths: tuple[int, ...] = OUTPUT_LENGTHS,
) -> RequestFit:
    """Fit a request trace.

    Parameters
    ----------
    trace : RequestTrace
        Requests per step.
    zero_hour_of_week : float
        Hour of the week at which a trace without dates starts, Monday 00:00 = 0.
    months : bool, optional
        Fit weights of months; by default where the trace supports them.
    calendar : str
        Detail of the week, ``"auto"`` for the most that the trace supports.
    confidence : float
        Level of the limits, 0-1.
    output_lengths : tuple of int
        Lengths of answers that latency curves have [tokens].

    Notes
    -----
    The first and the last step count for the rates alone, for the trace may begin and end within
    them.
    """
    requests = trace.requests_of()
    times = StepTimes.of(trace, zero_hour_of_week)
    counts = requests[1:-1] if requests.size > 2 else requests
    if not counts.sum() > 0:
        raise WorkloadError(
            f"{trace.source}: no requests between the first and the last step of "
            f"{trace.step_ms / MS_PER_S:g} s; read the trace with shorter steps"
        )
    times = times.inner()
    fit = fit_weights(counts, times, months, calendar)
    expected = fit.expected * _season(fit, times)
    since_1970_ms = times.start_ms + (0 if times.has_dates else MONDAY_MS)
    weeks = fit_weeks(since_1970_ms, times.step_ms, counts, expected, confidence)
    steps = dispersion_of(counts, expected, fit.n_weights, confidence)
    hours = _hourly_dispersion(counts, expected, fit, times, confidence)
    # Weights are totals of hours: where hours scatter more than their steps tell, they do too.
    scatter = hours if hours.freedom >= MIN_HOURS_OF_SCATTER else steps
    factor = max(1.0, float(np.nan_to_num(scatter.index, nan=1.0)))
    week, low, high = _week(counts, fit, factor, confidence)
    of_months = _months(counts, fit, times, factor, confidence)
    of_month = 1.0 if of_months is None else _month_scale(fit, times)
    step_s = trace.step_ms / MS_PER_S
    mean_rps = float(requests.sum()) / (trace.span_ms / MS_PER_S)
    # Without weights the whole trace counts, its outer steps too.
    of_week = mean_rps if fit.detail == "uniform" else float(week.mean() * of_month / step_s)
    peak = int(np.argmax(requests))
    return RequestFit(
        source=trace.source,
        trace_format=trace.trace_format,
        step_ms=trace.step_ms,
        span_ms=trace.span_ms,
        n_requests=float(requests.sum()),
        mean_rate_rps=mean_rps,
        peak_rate_rps=float(requests[peak] / step_s),
        peak_ms=trace.origin_ms + peak * trace.step_ms,
        week_rate_rps=of_week,
        detail=fit.detail,
        deviance=fit.shape.deviance,
        months=fit.months,
        week_weight=week / week.mean(),
        week_low=low / week.mean(),
        week_high=high / week.mean(),
        week_hours=_sums(times.hour_of_week, None, HOURS_PER_WEEK) * (trace.step_ms / MS_PER_H),
        month_weight=None if of_months is None else of_months[0],
        month_low=None if of_months is None else of_months[1],
        month_high=None if of_months is None else of_months[2],
        dispersion=steps,
        hourly_dispersion=hours,
        fluctuation=_fluctuation(trace, fit, times, weeks, confidence),
        weeks=weeks,
        **dict(zip(("n_dead_hours", "n_gaps"), _dead_hours(counts, expected, times), strict=True)),
        is_counted=bool((requests == np.rint(requests)).all()),
        services=tuple(
            fit_service(trace, index, output_lengths) for index in range(len(trace.services))
        ),
    )


def trimmed(trace: RequestTrace, start: datetime | None, end: datetime | None) -> RequestTrace:
    """Return the steps of a trace between two local times; its lengths stay those of the whole.

    Of a trace without dates, 1970-01-05 00:00 is its origin, as of a job log.
    """
    if start is None and end is None:
        return trace
    times = StepTimes.of(trace)
    local_ms = times.start_ms + (0 if times.has_dates else MONDAY_MS)
    inside = np.ones(local_ms.size, dtype=bool)
    if start is not None:
        inside &= local_ms >= int(np.datetime64(start, "ms").astype(np.int64))
    if end is not None:
        inside &= local_ms + trace.step_ms <= int(np.datetime64(end, "ms").astype(np.int64))
    steps = np.flatnonzero(inside)
    if not steps.size:
        first, last = (str(np.datetime64(int(ms), "ms"))[:16] for ms in local_ms[[0, -1]])
        raise WorkloadError(
            f"{trace.source}: no step from {start or 'its begin'} to {end or 'its end'}, local "
            f"time; the trace reaches from {first} to {last} (--from, --to)"
        )
    part = slice(int(steps[0]), int(steps[-1]) + 1)
    edges_ms = trace.edges_ms[[part.start, part.stop]]
    return replace(
        trace,
        origin_ms=trace.origin_ms + part.start * trace.step_ms,
        n_requests=trace.n_requests[:, part],
        own_span_ms=None if trace.own_span_ms is None else (int(edges_ms[0]), int(edges_ms[1])),
    )


def _dead_hours(counts: Float64Array, expected: Float64Array, times: StepTimes) -> tuple[int, int]:
    """Return how many whole hours together have no request though many are expected, and gaps.

    An hour of the week that was seen less than three times tells little of itself: then its hour of
    the day does.
    """
    hour = times.hour - times.hour[0]
    whole = np.bincount(hour) == MS_PER_H // times.step_ms
    of_hour, in_hour = (_sums(hour, x, whole.size) for x in (expected, counts))
    if whole.sum() < 3 * HOURS_PER_WEEK:
        of_day = (int(times.hour_of_week[0]) + np.arange(whole.size)) % HOURS_PER_DAY
        seen = np.maximum(np.bincount(of_day[whole], minlength=HOURS_PER_DAY), 1)
        of_hour = (_sums(of_day, in_hour * whole, HOURS_PER_DAY) / seen)[of_day]
    dead = np.concatenate(([False], whole & (in_hour == 0), [False]))
    begins, ends = np.flatnonzero(np.diff(dead.astype(np.int8)) != 0).reshape(-1, 2).T
    until = np.concatenate(([0.0], np.cumsum(of_hour)))
    many = until[ends] - until[begins] >= FEWEST_OF_DEAD
    return int((ends - begins)[many].sum()), int(many.sum())


def _season(fit: WeightFit, times: StepTimes) -> Float64Array:
    """Return the months as a scenario lays them, over those of the fit, at each step."""
    if not fit.has_months:
        return np.ones(fit.group.size)
    # A month that was not seen lies at the mean of the others, as a scenario is given it.
    months = np.full(MONTHS_PER_YEAR, _month_scale(fit, times))
    months[np.unique(fit.group)] = fit.group_factor[np.unique(fit.group)]
    return laid_over_stepped(months, fit.slot_rate, fit.group, times.hour)


def _hourly_dispersion(
    counts: Float64Array,
    expected: Float64Array,
    fit: WeightFit,
    times: StepTimes,
    confidence: float,
) -> Dispersion:
    """Return the scatter of the hours whose steps were all seen."""
    hour = times.hour - times.hour[0]
    whole = np.bincount(hour) == MS_PER_H // times.step_ms
    in_hour, of_hour = (_sums(hour, x, whole.size)[whole] for x in (counts, expected))
    return dispersion_of(in_hour, of_hour, fit.n_weights, confidence)


def _week(
    counts: Float64Array, fit: WeightFit, factor: float, confidence: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the requests per step in each hour of the week, and their limits."""
    n_slots = {"uniform": 1, "hour_of_day": HOURS_PER_DAY}.get(fit.detail, HOURS_PER_WEEK)
    total = _sums(fit.slot % n_slots, counts, n_slots)
    exposure = _sums(fit.slot % n_slots, fit.group_factor[fit.group], n_slots)
    of_week = np.arange(HOURS_PER_WEEK) % n_slots
    low, high = (limit[of_week] for limit in poisson_limits(total, factor, confidence))
    total, exposure = total[of_week], np.where(exposure > 0, exposure, 1.0)[of_week]
    per_count = np.where(total > 0, fit.slot_rate / np.maximum(total, 1e-9), 1 / exposure)
    return fit.slot_rate, low * per_count, high * per_count


def _month_scale(fit: WeightFit, times: StepTimes) -> float:
    """Return the mean factor of the months that were seen for long enough, by time seen."""
    seen = well_seen_months(times)[times.month]
    return float(fit.group_factor[fit.group[seen]].mean())


def _months(
    counts: Float64Array, fit: WeightFit, times: StepTimes, factor: float, confidence: float
) -> tuple[Float64Array, Float64Array, Float64Array] | None:
    if not fit.has_months:
        return None
    month = times.month
    total = _sums(month, counts, MONTHS_PER_YEAR)
    exposure = _sums(month, fit.slot_rate[fit.slot], MONTHS_PER_YEAR)
    seen = well_seen_months(times)
    unit = np.where(seen, exposure, 1.0) * _month_scale(fit, times)
    low, high = poisson_limits(total, factor, confidence)
    nan = float("nan")
    return (
        np.where(seen, total / unit, 1.0),
        np.where(seen, low / unit, nan),
        np.where(seen, high / unit, nan),
    )


def _fluctuation(
    trace: RequestTrace,
    fit: WeightFit,
    times: StepTimes,
    weeks: WeekFit | None,
    confidence: float,
) -> FluctuationFit | None:
    if times.step_ms != MS_PER_MIN:
        return None
    around = np.concatenate([fit.slot_rate[-1:], fit.slot_rate, fit.slot_rate[:1]])
    nodes_ms, at_nodes = line_through_means((np.arange(around.size + 1) - 1) * MS_PER_H, around)
    middle_ms = fit.slot * MS_PER_H + times.start_ms % MS_PER_H + times.step_ms / 2
    lines = np.interp(middle_ms, nodes_ms, at_nodes)
    expected = lines * fit.group_factor[fit.group] * _season(fit, times)
    if weeks is not None and weeks.is_told:  # not to be found again in their minutes
        expected *= weeks.factor
    of_services = trace.n_requests
    of_services = of_services[:, 1:-1] if of_services.shape[1] > 2 else of_services
    share = of_services.sum(axis=1) / of_services.sum()
    freedom = 1 - fit.n_weights / expected.size
    return fit_fluctuation(of_services, share[:, None] * expected, freedom, confidence)


def _sums(index: Int64Array, values: Float64Array | None, size: int) -> Float64Array:
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)
