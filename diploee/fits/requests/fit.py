"""Fit of a request trace: calendar weights, rates, overdispersion, token lengths."""

from __future__ import annotations

from calendar import day_name
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from diploee.base.errors import WorkloadError, one_line
from diploee.base.progress import stage
from diploee.base.tables import BoolArray, Float64Array
from diploee.base.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
)
from diploee.fits.binned_counts import (
    BinnedCounts,
    count_steps,
    local_time_ms,
    sum_by_index,
)
from diploee.fits.calendar import (
    CalendarFit,
    fit_step_calendar,
    month_limits,
    week_limits,
)
from diploee.fits.calendar_output import (
    calendar_dict,
    calendar_figures,
    make_table,
    statistic_with_limits,
    to_plain_data,
)
from diploee.fits.overdispersion import Dispersion, compute_dispersion
from diploee.fits.requests.fluctuation import Estimate, FluctuationFit, fit_fluctuation
from diploee.fits.week_shape import CalendarChoice
from diploee.fits.week_to_week import WeekFit, fit_weeks
from diploee.loads.jobs.rates import line_with_means
from diploee.loads.services.curves import OUTPUT_LENGTHS, nearest_length
from diploee.loads.services.request_trace import RequestTrace, TokenLengths
from diploee.runs.sections import Section, Statistic, as_html

MIN_HOURS_OF_SCATTER = 24
"""Degrees of freedom of hourly counts from which their dispersion sets the limits."""

MAX_LENGTH_RATIO = 2.0
"""Ratio of token lengths above which a note warns of the nearest available length."""

MIN_OF_DEAD = 20.0
"""Expected requests of a gap that is noted; by chance it occurs once in 5e8."""


@dataclass(frozen=True)
class _LengthSummary:
    """Mean and quantiles of a service's token lengths [tokens]."""

    n_requests: int  # requests with a length
    # Mean and quantiles [tokens]
    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class ServiceFit:
    """Fit of one service of a trace."""

    name: str  # name in the trace
    # Number of requests, and fraction of all
    n_requests: float
    share: float
    # Token lengths; None if the trace has none
    input_tokens: _LengthSummary | None
    output_tokens: _LengthSummary | None
    # Available output length that is nearest to the mean, by ratio [tokens]
    output_length: int | None


@dataclass(frozen=True, eq=False)
class RequestFit:
    """Fit of the requests of a trace."""

    trace: RequestTrace
    # Weights and expected counts of all steps but the first and last
    calendar: CalendarFit
    n_requests: float  # number of requests
    # Mean over the trace, and its highest step [1/s]
    mean_rate_rps: float
    peak_rate_rps: float
    peak_ms: int  # start of that step [ms], counted as `RequestTrace.origin_ms`
    week_rate_rps: float  # mean rate of a whole week in a month of weight 1 [1/s]
    # Limits of the weights of the hours of the week
    week_low: Float64Array
    week_high: Float64Array
    week_hours: Float64Array  # observed time of each hour of the week [h]
    # Limits of the weights of months; None if not fitted
    month_low: Float64Array | None
    month_high: Float64Array | None
    # Dispersion of steps, including trends within an hour
    dispersion: Dispersion
    hourly_dispersion: Dispersion  # dispersion of complete hours
    # Fluctuation of minutes about a scenario's smooth rate; None if steps are not
    # minutes, or too few
    fluctuation: FluctuationFit | None
    weeks: WeekFit | None  # differences between weeks; None for too few weeks
    # The trace counts requests; else it has rates, whose dispersion means little
    is_counted: bool
    # Hours in gaps without any of `MIN_OF_DEAD` expected requests, and number of gaps
    n_dead_hours: int
    n_gaps: int
    services: tuple[ServiceFit, ...]  # each service
    confidence: float = 0.95  # level of all limits
    # Specified hour of the week of the origin of a trace without dates
    zero_hour_of_week: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain data; unknown values are None."""
        trace, counts = self.trace, self.trace.counts
        numbers = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, int | float)
        }
        names = ("dispersion", "hourly_dispersion", "fluctuation", "services")
        weights = calendar_dict(
            self.calendar,
            (self.week_low, self.week_high),
            (self.month_low, self.month_high),
            self.weeks,
        )
        weights["hour_of_week"]["hours"] = self.week_hours
        trace_fields = ("source", "trace_format", "step_ms", "span_ms", "is_relative")
        return to_plain_data(
            {name: getattr(trace, name) for name in trace_fields}
            | numbers
            | {name: getattr(self, name) for name in names}
            | weights
            | {
                "utc_offset_min": trace.zone.offset_min(trace.origin_ms),
                "time_zone": trace.zone.name,
                "rows": {
                    "read": counts.n_rows,
                    "kept": counts.n_kept,
                    "dropped": dict(counts.dropped),
                    "repaired": dict(counts.repaired),
                    "noted": dict(counts.noted),
                },
            }
        )

    def sections(self) -> list[Section]:
        """Return the report section: rates, weights, dispersion, services."""
        rows = (
            {"service": service.name, "lengths": kind, **vars(lengths)}
            for service in self.services
            for kind, lengths in (
                ("prompts", service.input_tokens),
                ("answers", service.output_tokens),
            )
            if lengths is not None
        )
        length_rows = (
            {"lengths": f"{row.pop('lengths')} of {one_line(row.pop('service'))}"} | row
            for row in rows
        )
        shares = (
            {
                "service": one_line(service.name),
                "share": service.share,
                "output_length": service.output_length,
            }
            for service in self.services
        )
        tables = (
            make_table("", shares, "service"),
            make_table("", length_rows, "tokens"),
        )
        trace = self.trace
        return [
            Section(
                "requests",
                f"Fitted to {one_line(trace.source)} ({trace.trace_format}), limits at "
                f"{self.confidence:.0%}",
                tuple(self._figures()),
                tuple(table for table in tables if table.figures),
                notes=(*self._notes(), f"Rows: {'; '.join(trace.counts.lines())}"),
            )
        ]

    def _repr_html_(self) -> str:
        return as_html(self.trace.source, self.sections())

    def _figures(self) -> Iterator[Statistic]:
        """Yield the statistics of rates, weights and dispersion."""
        trace, weight = self.trace, self.calendar.week_weight
        step = f"of {trace.step_ms / MS_PER_S:g} s"
        at = f"{self.peak_ms / MS_PER_H:.2f} h after the origin"
        if not trace.is_relative:
            local_ms = int(trace.zone.local_ms(np.array([self.peak_ms]))[0])
            at = str(np.datetime64(local_ms, "ms"))[:16].replace("T", " ")
        rate = partial(Statistic, unit="1/s", pattern="{:.4g}")
        span = f"in {trace.span_ms / MS_PER_DAY:.3g} days"
        yield Statistic("requests", self.n_requests, note=span, pattern="{:,.0f}")
        yield rate("mean rate", self.mean_rate_rps)
        yield rate("mean rate of a whole week", self.week_rate_rps)
        yield rate("highest rate", self.peak_rate_rps, note=f"{step}, {at}")
        yield from calendar_figures(self.calendar, self.weeks)
        if self.calendar.detail != "uniform":
            for name, hour in (
                ("lowest", weight.argmin()),
                ("highest", weight.argmax()),
            ):
                limits = float(self.week_low[hour]), float(self.week_high[hour])
                at = _hour_name(float(hour))
                yield statistic_with_limits(
                    f"{name} weight", float(weight[hour]), *limits, at
                )
        scatter = ((step, self.dispersion), ("of hours", self.hourly_dispersion))
        for kind, result in scatter if self.is_counted else ():
            limits = result.low, result.high
            yield statistic_with_limits(
                f"variance over mean {kind}", result.index, *limits, "1 if Poisson"
            )
        if self.fluctuation is not None:
            for name, value in vars(self.fluctuation).items():
                if isinstance(value, Estimate):
                    item = f"fluctuation of minutes, {name}"
                    yield statistic_with_limits(
                        item, value.value, value.low, value.high
                    )

    def _notes(self) -> Iterator[str]:
        """Yield the assumptions and warnings of the fit."""
        zone, hour = self.trace.zone, self.zero_hour_of_week
        if not self.trace.is_relative:
            yield f"hours are local time, {zone}"
        elif hour is not None:
            yield f"the trace has no dates; its origin was given as {_hour_name(hour)}"
        else:
            yield (
                f"ASSUMPTION: the trace has no dates, its origin is {_hour_name(0)} "
                "local time; see --zero-hour-of-week"
            )
        if not self.is_counted:
            yield "the trace gives rates, not requests: how they scatter is not known"
        if self.n_dead_hours:
            yield (
                f"no request in {self.n_dead_hours} whole hours ({self.n_gaps} gaps) "
                "that should have many: outages, or gaps of the trace; the weights "
                "count them as they are"
            )
        for service in self.services:
            if service.output_tokens is None or service.output_length is None:
                continue
            ratio = max(service.output_tokens.mean, 1e-9) / service.output_length
            if not 1 / MAX_LENGTH_RATIO <= ratio <= MAX_LENGTH_RATIO:
                yield (
                    f"the nearest output length at hand, {service.output_length}, is "
                    f"{max(ratio, 1 / ratio):.2g} times too "
                    f"{'long' if ratio < 1 else 'short'}: latency and capacity are off "
                    "accordingly"
                )


def _hour_name(hour_of_week: float) -> str:
    """Return an hour of the week as text, such as "Monday 08:30"."""
    day, hour = divmod(hour_of_week, HOURS_PER_DAY)
    return f"{day_name[int(day)]} {int(hour):02}:{int(hour % 1 * 60):02}"


@stage("fit")
def fit_requests(
    trace: RequestTrace,
    *,
    zero_hour_of_week: float | None = None,
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
    zero_hour_of_week : float, optional
        Hour of the week at which a trace without dates starts; by default 0, Monday
        00:00.
    months : bool, optional
        Fit weights of months; by default if the trace supports them.
    calendar : str
        Detail of the week; ``"auto"`` selects the detail that predicts best.
    confidence : float
        Confidence level of the limits, 0-1.
    output_lengths : tuple of int
        Output lengths of the available latency curves [tokens].

    Returns
    -------
    RequestFit
        Rates, calendar weights, dispersion, and token lengths of each service.

    Raises
    ------
    WorkloadError
        If the trace has no requests between its first and last step, or its steps do
        not divide the hour.

    Notes
    -----
    The first and the last step are used only for mean rates, as the trace may cover
    them only in part.
    """
    steps = count_steps(trace, zero_hour_of_week or 0.0)
    requests = steps.counts
    steps = steps.inner() if requests.size > 2 else steps
    counts = steps.counts
    if not counts.sum() > 0:
        raise WorkloadError(
            f"{trace.source}: no requests between the first and the last step of "
            f"{trace.step_ms / MS_PER_S:g} s; read the trace with shorter steps"
        )
    fit = fit_step_calendar(steps, not trace.is_relative, months, calendar)
    season = fit.smooth_month_ratio()
    expected = fit.expected * season
    weeks = fit_weeks(steps.start_ms, steps.step_ms, counts, expected, confidence)
    step_dispersion = compute_dispersion(counts, expected, fit.n_parameters, confidence)
    hour_counts, hour_expected, is_complete = _hourly_counts(steps, expected)
    hour_dispersion = compute_dispersion(
        hour_counts[is_complete],
        hour_expected[is_complete],
        fit.n_parameters,
        confidence,
    )
    # Weights are totals of hours: the dispersion of hours applies if it is known
    scatter = (
        hour_dispersion
        if hour_dispersion.freedom >= MIN_HOURS_OF_SCATTER
        else step_dispersion
    )
    factor = max(1.0, float(np.nan_to_num(scatter.index, nan=1.0)))
    week_low, week_high = week_limits(fit, confidence, factor=factor)
    month_low, month_high = month_limits(fit, confidence, factor)
    step_s = trace.step_ms / MS_PER_S
    mean_rps = float(requests.sum()) / (trace.span_ms / MS_PER_S)
    peak = int(np.argmax(requests))
    gaps = _count_gaps(
        hour_counts, hour_expected, is_complete, int(steps.hour_of_week[0])
    )
    seen = sum_by_index(steps.hour_of_week, None, HOURS_PER_WEEK)
    return RequestFit(
        trace=trace,
        calendar=fit,
        n_requests=float(requests.sum()),
        mean_rate_rps=mean_rps,
        peak_rate_rps=float(requests[peak] / step_s),
        peak_ms=trace.origin_ms + peak * trace.step_ms,
        # Without weights, the first and last step count as well
        week_rate_rps=mean_rps if fit.detail == "uniform" else fit.mean_rate / step_s,
        week_low=week_low,
        week_high=week_high,
        week_hours=seen * (trace.step_ms / MS_PER_H),
        month_low=month_low,
        month_high=month_high,
        dispersion=step_dispersion,
        hourly_dispersion=hour_dispersion,
        fluctuation=_fit_minutes(trace, fit, steps, season, weeks, confidence),
        weeks=weeks,
        is_counted=bool((requests == np.rint(requests)).all()),
        n_dead_hours=gaps[0],
        n_gaps=gaps[1],
        services=tuple(
            _fit_service(trace, index, output_lengths)
            for index in range(len(trace.services))
        ),
        confidence=confidence,
        zero_hour_of_week=zero_hour_of_week,
    )


def trim_trace(
    trace: RequestTrace, start: datetime | None, end: datetime | None
) -> RequestTrace:
    """Return the steps of a trace between two local times.

    Token lengths are those of the whole trace. A trace without dates starts at
    1970-01-05 00:00, as a job log does.
    """
    if start is None and end is None:
        return trace
    local_ms = count_steps(trace).start_ms
    first_ms = local_ms.min() if start is None else local_time_ms(start)
    last_ms = local_ms.max() if end is None else local_time_ms(end) - trace.step_ms
    steps = np.flatnonzero((local_ms >= first_ms) & (local_ms <= last_ms))
    if not steps.size:
        reach = "{:%Y-%m-%d %H:%M} to {:%Y-%m-%d %H:%M}".format(
            *local_ms[[0, -1]].astype("datetime64[ms]").tolist()
        )
        raise WorkloadError(
            f"{trace.source}: no step from {start or 'its begin'} to "
            f"{end or 'its end'}, local time; the trace reaches from {reach} (--from, "
            "--to)"
        )
    part = slice(int(steps[0]), int(steps[-1]) + 1)
    edges_ms = trace.edges_ms[[part.start, part.stop]]
    return replace(
        trace,
        origin_ms=trace.origin_ms + part.start * trace.step_ms,
        n_requests=trace.n_requests[:, part],
        own_span_ms=None
        if trace.own_span_ms is None
        else (int(edges_ms[0]), int(edges_ms[1])),
    )


def _hourly_counts(
    steps: BinnedCounts, expected: Float64Array
) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Return counts and expectations of clock hours, and a mask of complete hours."""
    hour = steps.hour - steps.hour[0]
    is_complete: BoolArray = np.bincount(hour) == MS_PER_H // steps.step_ms
    return sum_by_index(hour, steps.counts), sum_by_index(hour, expected), is_complete


def _count_gaps(
    hour_counts: Float64Array,
    hour_expected: Float64Array,
    is_complete: BoolArray,
    first_hour_of_week: int,
) -> tuple[int, int]:
    """Return the number of hours in gaps of the trace, and the number of gaps.

    A gap is a sequence of complete hours without requests in which at least
    `MIN_OF_DEAD` requests were expected. In traces of less than three weeks,
    expectations are means by hour of the day.
    """
    if is_complete.sum() < 3 * HOURS_PER_WEEK:
        of_day = (first_hour_of_week + np.arange(is_complete.size)) % HOURS_PER_DAY
        seen = np.maximum(np.bincount(of_day[is_complete], minlength=HOURS_PER_DAY), 1)
        hour_expected = (
            sum_by_index(of_day, hour_counts * is_complete, HOURS_PER_DAY) / seen
        )[of_day]
    is_empty = np.concatenate(([False], is_complete & (hour_counts == 0), [False]))
    begins, ends = (
        np.flatnonzero(np.diff(is_empty.astype(np.int8)) != 0).reshape(-1, 2).T
    )
    cumulative = np.concatenate(([0.0], np.cumsum(hour_expected)))
    is_gap = cumulative[ends] - cumulative[begins] >= MIN_OF_DEAD
    return int((ends - begins)[is_gap].sum()), int(is_gap.sum())


def _fit_minutes(
    trace: RequestTrace,
    fit: CalendarFit,
    steps: BinnedCounts,
    season: Float64Array,
    weeks: WeekFit | None,
    confidence: float,
) -> FluctuationFit | None:
    """Fit the fluctuation of requests per minute; None unless steps are minutes."""
    if steps.step_ms != MS_PER_MIN:
        return None
    rate, slot = fit.shape.rate, steps.hour_of_week
    around = np.concatenate([rate[-1:], rate, rate[:1]])
    knots_ms, knot_rates = line_with_means(
        (np.arange(around.size + 1) - 1) * MS_PER_H, around
    )
    middle_ms = slot * MS_PER_H + steps.start_ms % MS_PER_H + steps.step_ms / 2
    lines = np.interp(middle_ms, knots_ms, knot_rates)
    expected = lines * fit.month_factor * season
    if (
        weeks is not None and weeks.is_significant
    ):  # not to be found again in their minutes
        expected *= weeks.factor
    requests = trace.n_requests
    requests = requests[:, 1:-1] if requests.shape[1] > 2 else requests
    share = requests.sum(axis=1) / requests.sum()
    freedom = 1 - fit.n_parameters / expected.size
    return fit_fluctuation(requests, share[:, None] * expected, freedom, confidence)


def _fit_service(
    trace: RequestTrace, index: int, lengths: tuple[int, ...]
) -> ServiceFit:
    """Return the requests and token lengths of one service of a trace."""
    n_requests = float(trace.n_requests[index].sum())
    inputs = _summarize_lengths(trace.input_tokens, index)
    outputs = _summarize_lengths(trace.output_tokens, index)
    return ServiceFit(
        name=trace.services[index],
        n_requests=n_requests,
        share=n_requests / float(trace.n_requests.sum()),
        input_tokens=inputs,
        output_tokens=outputs,
        output_length=None
        if outputs is None
        else nearest_length(outputs.mean, lengths),
    )


def _summarize_lengths(
    lengths_by_service: tuple[TokenLengths, ...], index: int
) -> _LengthSummary | None:
    """Return mean and quantiles of a service's token lengths; None without lengths."""
    if not lengths_by_service or not lengths_by_service[index].n_requests.any():
        return None
    lengths = lengths_by_service[index]
    p50, p90, p99 = lengths.quantile([0.5, 0.9, 0.99]).tolist()
    return _LengthSummary(int(lengths.n_requests.sum()), lengths.mean, p50, p90, p99)
