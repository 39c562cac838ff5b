"""Pictures of a fitted request trace: the weights, the rates over time, the token lengths."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from diploee.drawing.charts import (
    PALETTE,
    Array,
    Axis,
    Chart,
    Line,
    Panel,
    closed,
    colour,
    log_axis,
)
from diploee.drawing.pictures import write_pictures
from diploee.files import Writing
from diploee.learn.requests.calendar import StepTimes
from diploee.learn.requests.fit import RequestFit
from diploee.learn.week_panels import limits_name, week_panels
from diploee.learn.week_shape import IN_WORDS
from diploee.loads.services.request_trace import RequestTrace, TokenLengths
from diploee.units import MONTHS_PER_YEAR, MS_PER_DAY

MOST_SERVICES = 6
MOST_POINTS = 2_000
BINS_PER_DECADE = 20
_TRACE_COLOUR, _MODEL_COLOUR = PALETTE[:2]


def plot_requests(
    trace: RequestTrace,
    fit: RequestFit,
    folder: Path,
    *,
    zero_hour_of_week: float = 0.0,
    confidence: float = 0.95,
    force: bool = False,
    joins: Writing | None = None,
) -> list[Path]:
    """Draw a fitted trace as PNG files."""
    times = StepTimes.of(trace, zero_hour_of_week)
    charts = [week_chart(fit, confidence), rate_chart(trace, fit, times)]
    if any(lengths.n_requests.any() for lengths in trace.input_tokens + trace.output_tokens):
        charts.append(token_chart(trace, fit))
    return write_pictures({chart.id: chart for chart in charts}, folder, force=force, joins=joins)


def week_chart(fit: RequestFit, confidence: float) -> Chart:
    """Return the weights of the week as a heat map and with their limits, and those of months."""
    panels = [*week_panels(fit.week_weight, fit.week_low, fit.week_high, confidence, "")]
    if fit.month_weight is not None:
        panels.append(_months_panel(fit, confidence))
    title = f"{fit.n_requests:,.0f} requests, {IN_WORDS[fit.detail]}"
    return Chart("week", title, "", tuple(panels))


def _months_panel(fit: RequestFit, confidence: float) -> Panel:
    assert fit.month_weight is not None
    assert fit.month_low is not None and fit.month_high is not None
    name = f"Months, {limits_name(confidence)}"
    weights = Line(
        np.array([f"{date(1, month, 1):%b}" for month in range(1, MONTHS_PER_YEAR + 1)]),
        np.where(np.isfinite(fit.month_low), fit.month_weight, np.nan), name, _TRACE_COLOUR,
        markers_only=True, limits=(fit.month_low, fit.month_high),
    )  # fmt: skip
    reach = Axis("weight (mean 1)", range=(0, 1.1 * float(np.nanmax(fit.month_high))))
    return Panel(Axis("month", "category"), reach, (weights,), name, wide=True)


def rate_chart(trace: RequestTrace, fit: RequestFit, times: StepTimes) -> Chart:
    """Return the rates of a trace over local time, and what the weights expect of them.

    Of a long trace, means over equal numbers of steps are drawn.
    """
    rate = trace.rate_rps.sum(axis=0)
    model = fit.week_rate_rps * fit.week_weight[times.hour_of_week]
    if fit.month_weight is not None:
        model = model * fit.month_weight[times.month]
    n_together = -(-rate.size // MOST_POINTS)
    start = np.arange(0, rate.size, n_together)
    edge_ms = np.append(start, rate.size) * trace.step_ms
    at: Array = (times.start_ms[0] + edge_ms).astype("datetime64[ms]")
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
            (rate, f"trace, {length_s:g} s", _TRACE_COLOUR), (model, "weights", _MODEL_COLOUR)
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
