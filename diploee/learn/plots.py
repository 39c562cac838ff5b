"""Pictures of fitted logs and traces: weeks, scatter, node counts, durations, rates, lengths."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from diploee.drawing.charts import (
    MONDAY,
    MUTED,
    PALETTE,
    Array,
    Axis,
    Band,
    Carpet,
    Chart,
    Line,
    Panel,
    closed,
    colour,
    log_axis,
    since_monday,
)
from diploee.drawing.pictures import write_pictures
from diploee.files import Writing
from diploee.learn.counts import Counts, steps_of
from diploee.learn.jobs.class_fits import ClassFit
from diploee.learn.jobs.job_log_fit import JobLogFit
from diploee.learn.requests.fit import RequestFit
from diploee.learn.week_shape import IN_WORDS
from diploee.loads.services.request_trace import RequestTrace, TokenLengths
from diploee.tables import Float64Array
from diploee.units import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    MONTHS_PER_YEAR,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_WEEK,
    S_PER_H,
)

MOST_CLASSES = MOST_SERVICES = 6
WIDE_RANGE = 10
MOST_POINTS = 2_000
BINS_PER_DECADE = 20
_SEEN_COLOUR, _MODEL_COLOUR, _OTHER_COLOUR = PALETTE[0], PALETTE[1], MUTED
_DAYS = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])


def plot_fit(
    fit: JobLogFit, folder: Path, force: bool = False, joins: Writing | None = None
) -> list[Path]:
    """Draw a fit as PNG files."""
    charts = [_job_week_chart(fit), _scatter_chart(fit), _node_count_chart(fit)]
    if any(job_class.duration for job_class in fit.classes):
        charts.append(duration_chart(fit))
    return write_pictures({chart.id: chart for chart in charts}, folder, force=force, joins=joins)


def _job_week_chart(fit: JobLogFit) -> Chart:
    """Return the weights of the week."""
    arrivals = fit.arrivals
    panels = _week_panels(
        arrivals.calendar.week_weight, arrivals.week_low, arrivals.week_high, fit.confidence
    )
    title = f"Submissions by hour of the week, {fit.n_jobs:,} jobs"
    return Chart("week", title, "", panels)


def _scatter_chart(fit: JobLogFit) -> Chart:
    """Return variance against mean of the hourly counts by hour of the week, and all counts."""
    hours, calendar = fit.arrivals.hours, fit.arrivals.calendar
    slot = hours.hour_of_week
    n = np.bincount(slot)
    mean = np.bincount(slot, hours.counts) / n
    residual = (hours.counts - calendar.expected) ** 2
    variance = np.bincount(slot, residual) / np.maximum(n - 1, 1)
    seen = (mean > 0) & (variance > 0)
    at = np.geomspace(max(float(mean[seen].min()), 1e-3), float(mean.max()), 100)
    laws = [
        Line(mean[seen], variance[seen], "hours of the week", _SEEN_COLOUR, markers_only=True),
        Line(at, at, "Poisson", _OTHER_COLOUR),
    ]
    if fit.arrivals.dispersion is not None:
        name = f"dispersion {fit.arrivals.dispersion:.3g}"
        laws.append(Line(at, at + fit.arrivals.dispersion * at**2, name, _MODEL_COLOUR))
    of_laws = Panel(
        log_axis("mean submissions per hour", at),
        log_axis("variance about the calendar", *(law.y for law in laws)),
        tuple(laws),
    )
    starts = np.arange(0, hours.counts.size - HOURS_PER_DAY + 1, HOURS_PER_DAY)
    day, upto = starts / HOURS_PER_DAY, starts.size * HOURS_PER_DAY  # sums of whole days
    daily = tuple(
        Line(day, np.add.reduceat(values[:upto], starts), name, main, width=1.2)
        for values, name, main in (
            (hours.counts, "log", _SEEN_COLOUR), (calendar.expected, "calendar", _MODEL_COLOUR)
        )
        if starts.size
    )  # fmt: skip
    days = Axis(f"days since {hours.first_hour}")
    of_days = Panel(days, Axis("submissions per day", from_zero=True), daily)
    return Chart("scatter", "Scatter of the submissions", "", (of_laws, of_days))


def _node_count_chart(fit: JobLogFit) -> Chart:
    """Return the shares of the node counts with their limits."""
    widths = fit.node_counts
    name = f"log, {_limits_name(fit.confidence)}"
    shares = Line(
        widths.n_nodes, widths.share, name, _SEEN_COLOUR, markers_only=True,
        limits=(widths.low, widths.high),
    )  # fmt: skip
    axes = log_axis("nodes", widths.n_nodes), log_axis("share of the jobs", widths.low, widths.high)
    return Chart("node_counts", f"Node counts, {name}", "", (Panel(*axes, (shares,)),))


def duration_chart(fit: JobLogFit) -> Chart:
    """Return durations of the largest classes: shares in log and model, quantile on quantile."""
    rows = [k for k, job_class in enumerate(fit.classes) if job_class.duration]
    rows = sorted(sorted(rows, key=lambda k: -fit.classes[k].n_jobs)[:MOST_CLASSES])
    panels = [
        panel
        for row in rows
        for panel in _duration_panels(fit.classes[row], np.sort(fit.durations_s[row]))
    ]
    return Chart("durations", "Durations of the largest classes", "", tuple(panels))


def _duration_panels(job_class: ClassFit, logged_s: Float64Array) -> tuple[Panel, Panel]:
    assert job_class.duration is not None
    model = job_class.duration.model
    rows = np.unique(np.linspace(0, logged_s.size - 1, MOST_POINTS).astype(np.int64))
    level, hours = (rows + 0.5) / logged_s.size, logged_s[rows] / S_PER_H
    modelled = model.quantile(level) / S_PER_H
    ends = hours[[0, -1]]
    at_h = np.geomspace(0.98 * ends[0], 1.02 * ends[1], MOST_POINTS)
    shares = (
        Line(hours, level, "log", _SEEN_COLOUR, steps=True),
        Line(at_h, model.cdf(at_h * S_PER_H), "model", _MODEL_COLOUR, width=1.4),
    )
    quantiles = (
        Line(modelled, hours, "quantiles", _SEEN_COLOUR, markers_only=True, legend=False),
        Line(ends, ends, "equal", _OTHER_COLOUR, width=1.4, legend=False),
    )
    names = ("duration [h]", "quantile of the model [h]", "quantile of the log [h]")
    axes = [Axis(name) for name in names]
    if ends[1] > WIDE_RANGE * ends[0]:
        axes = [log_axis(n, v) for n, v in zip(names, (at_h, modelled, hours), strict=True)]
    distance = f"Kolmogorov-Smirnov distance {job_class.duration.ks_distance:.2g}"
    title = f"{job_class.name}, {job_class.n_jobs:,} jobs"
    return (
        Panel(axes[0], Axis("share of jobs up to it"), shares, title),
        Panel(axes[1], axes[2], quantiles, distance),
    )


def plot_requests(
    trace: RequestTrace,
    fit: RequestFit,
    folder: Path,
    zero_hour_of_week: float = 0.0,
    confidence: float = 0.95,
    force: bool = False,
    joins: Writing | None = None,
) -> list[Path]:
    """Draw a fitted trace as PNG files."""
    steps = steps_of(trace, zero_hour_of_week)
    charts = [_request_week_chart(fit, confidence), rate_chart(trace, fit, steps)]
    if any(lengths.n_requests.any() for lengths in trace.input_tokens + trace.output_tokens):
        charts.append(token_chart(trace, fit))
    return write_pictures({chart.id: chart for chart in charts}, folder, force=force, joins=joins)


def _request_week_chart(fit: RequestFit, confidence: float) -> Chart:
    """Return the weights of the week as a heat map and with their limits, and those of months."""
    panels = [*_week_panels(fit.week_weight, fit.week_low, fit.week_high, confidence)]
    if fit.month_weight is not None:
        panels.append(_months_panel(fit, confidence))
    title = f"{fit.n_requests:,.0f} requests, {IN_WORDS[fit.detail]}"
    return Chart("week", title, "", tuple(panels))


def _months_panel(fit: RequestFit, confidence: float) -> Panel:
    assert fit.month_weight is not None
    assert fit.month_low is not None and fit.month_high is not None
    name = f"Months, {_limits_name(confidence)}"
    weights = Line(
        np.array([f"{date(1, month, 1):%b}" for month in range(1, MONTHS_PER_YEAR + 1)]),
        np.where(np.isfinite(fit.month_low), fit.month_weight, np.nan), name, _SEEN_COLOUR,
        markers_only=True, limits=(fit.month_low, fit.month_high),
    )  # fmt: skip
    reach = Axis("weight (mean 1)", range=(0, 1.1 * float(np.nanmax(fit.month_high))))
    return Panel(Axis("month", "category"), reach, (weights,), name, wide=True)


def rate_chart(trace: RequestTrace, fit: RequestFit, steps: Counts) -> Chart:
    """Return the rates of a trace over local time, and what the weights expect of them.

    Of a long trace, means over equal numbers of steps are drawn.
    """
    rate = trace.rate_rps.sum(axis=0)
    model = fit.week_rate_rps * fit.week_weight[steps.hour_of_week]
    if fit.month_weight is not None:
        model = model * fit.month_weight[steps.month]
    n_together = -(-rate.size // MOST_POINTS)
    start = np.arange(0, rate.size, n_together)
    edge_ms = np.append(start, rate.size) * trace.step_ms
    at: Array = (steps.start_ms[0] + edge_ms).astype("datetime64[ms]")
    axis = Axis("local time", "date")
    if trace.is_relative:
        at = (trace.origin_ms + edge_ms) / MS_PER_DAY
        axis = Axis("days since the origin of the trace")
    n_steps = np.diff(np.append(start, rate.size))
    length_s = n_together * trace.step_ms / 1000
    lines = tuple(
        Line(at, closed(np.add.reduceat(values, start) / n_steps), name, main, "1/s", width=1.2,
             steps=True)
        for values, name, main in (
            (rate, f"trace, {length_s:g} s", _SEEN_COLOUR), (model, "weights", _MODEL_COLOUR)
        )
    )  # fmt: skip
    panel = Panel(axis, Axis("requests per second", from_zero=True), lines)
    return Chart("rates", "Rate of the requests", "", (panel,))


def token_chart(trace: RequestTrace, fit: RequestFit) -> Chart:
    """Return how long prompts and answers are, for the largest services."""
    largest = sorted(range(len(fit.services)), key=lambda k: -fit.services[k].share)[:MOST_SERVICES]
    panels = []
    for side, of_services in (("prompts", trace.input_tokens), ("answers", trace.output_tokens)):
        lines: list[Line] = []
        for rank, k in enumerate(largest if of_services else ()):
            if of_services[k].n_requests.any():
                name = f"{fit.services[k].name}: {side}"
                lines += _length_lines(of_services[k], name, colour(rank))
        tokens = log_axis("tokens", *(line.x for line in lines)) if lines else Axis("tokens")
        panels.append(Panel(tokens, Axis("share per decade"), tuple(lines), side))
    cut = len(fit.services) > MOST_SERVICES
    of_all = f", {MOST_SERVICES} largest of {len(fit.services)} services" if cut else ""
    return Chart("tokens", f"Lengths of prompts and answers{of_all}", "", tuple(panels))


def _length_lines(lengths: TokenLengths, name: str, main: str) -> tuple[Line, Line]:
    """Return the distribution of lengths, and an upright line at their mean."""
    n, first = lengths.n_requests, lengths.edges[:-1]
    empty = float(n[first == 0].sum() / n.sum())
    longest = int(first[n > 0].max()) + 1
    n_bins = max(2, round(BINS_PER_DECADE * np.log10(longest + 1)))
    # Whole lengths, so that no bin lies between two of them.
    edges = np.unique(np.rint(np.geomspace(1, longest + 1, n_bins)))
    found, _ = np.histogram(first, edges, weights=n.astype(np.float64))
    share = found / n.sum() / np.diff(np.log10(edges))
    label = f"{name}, mean {lengths.mean:,.0f}" + (f", {empty:.1%} empty" if empty else "")
    mean = np.full(2, max(lengths.mean, 1.0))
    height = np.array([0.0, share.max()])
    return (
        Line(edges, closed(share), label, main, width=1.6, steps=True),
        Line(mean, height, f"{name}: mean", main, width=1.1, dash="dot", legend=False),
    )


def _week_panels(
    weight: Float64Array, low: Float64Array, high: Float64Array, confidence: float
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
            edges, closed(low), closed(high), _limits_name(confidence), PALETTE[0], 0.25, steps=True
        ),
        Line(edges, closed(weight), "weight", PALETTE[0], width=1.4, steps=True),
    )
    week = Axis("local time", "time of week", (MONDAY, since_monday(MS_PER_WEEK)))
    # Limits of hours that were hardly seen would press the weights down.
    reach = Axis("weight (mean 1)", range=(0, 1.1 * max(top, min(float(high.max()), 3 * top))))
    return (
        Panel(day, Axis("", "category"), (heat,), wide=True),
        Panel(week, reach, course, wide=True),
    )


def _limits_name(confidence: float) -> str:
    """Return the name of confidence limits."""
    return f"{100 * confidence:g}% limits"
