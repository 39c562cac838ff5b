"""Pictures of a fitted request trace: the weights, the rates over time, the token lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from diploee.files import whole_file
from diploee.tables import Float64Array
from diploee.units import DAYS_PER_WEEK, HOURS_PER_DAY, MONTHS_PER_YEAR, MS_PER_DAY
from diploee.workload.request_calendar import StepTimes
from diploee.workload.request_fit import RequestFit
from diploee.workload.request_trace import RequestTrace, TokenLengths

MOST_SERVICES = 6
MOST_POINTS = 2_000
BINS_PER_DECADE = 20
_TRACE_COLOUR, _MODEL_COLOUR = "#12395f", "#c4572b"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def plot_requests(
    trace: RequestTrace,
    fit: RequestFit,
    folder: Path,
    *,
    utc_offset_min: int = 0,
    zero_hour_of_week: float = 0.0,
    confidence: float = 0.95,
) -> list[Path]:
    """Draw a fitted trace as PNG files.

    Parameters
    ----------
    trace : RequestTrace
        What was fitted.
    fit : RequestFit
        Its fit.
    folder : pathlib.Path
        Where ``week.png``, ``rates.png`` and, where the trace tells lengths, ``tokens.png`` are
        written; files of these names are replaced.
    utc_offset_min : int
        Offset of local time from UTC [min], as it was fitted.
    zero_hour_of_week : float
        Local hour of the week of the origin of a trace without dates, as it was fitted.
    confidence : float
        Level of the fit's limits, 0-1.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    OutputError
        If a file can't be written.
    """
    times = StepTimes.of(trace, utc_offset_min, zero_hour_of_week)
    figures = {
        "week.png": week_figure(fit, confidence),
        "rates.png": rate_figure(trace, fit, times),
    }
    if any(lengths.n_requests.any() for lengths in trace.input_tokens + trace.output_tokens):
        figures["tokens.png"] = token_figure(trace, fit)
    places = []
    for name, figure in figures.items():
        FigureCanvasAgg(figure)
        with whole_file(folder / name) as partial:
            figure.savefig(partial, format="png", dpi=110)
        places.append(folder / name)
    return places


def week_figure(fit: RequestFit, confidence: float) -> Figure:
    """Draw the weights of the week as a heat map and with their limits, and those of months."""
    n_panels = 2 if fit.month_weight is None else 3
    figure = Figure(figsize=(10, 3.2 * n_panels), layout="constrained")
    upper, middle, *lower = figure.subplots(n_panels, 1)
    image = upper.imshow(
        fit.week_weight.reshape(DAYS_PER_WEEK, HOURS_PER_DAY),
        aspect="auto",
        cmap="viridis",
        vmin=0,
        extent=(0, HOURS_PER_DAY, DAYS_PER_WEEK, 0),
    )
    upper.set_yticks(np.arange(DAYS_PER_WEEK) + 0.5, _DAYS)
    detail = {
        "hour_of_week": "by hour of the week",
        "hour_of_day": "by hour of the day, as the trace is shorter than a week",
        "uniform": "without weights, as the trace is shorter than a day",
    }[fit.detail]
    upper.set(xlabel="local hour", title=f"{fit.n_requests:,.0f} requests {detail}")
    figure.colorbar(image, ax=upper, label="weight (mean 1)")
    day = np.arange(fit.week_weight.size + 1) / HOURS_PER_DAY
    weight, low, high = (
        np.append(x, x[-1]) for x in (fit.week_weight, fit.week_low, fit.week_high)
    )
    label = f"{100 * confidence:g}% limits"
    middle.fill_between(
        day, low, high, step="post", color=_TRACE_COLOUR, alpha=0.25, linewidth=0, label=label
    )
    middle.step(day, weight, where="post", color=_TRACE_COLOUR, linewidth=1, label="weight")
    middle.set_xticks(np.arange(DAYS_PER_WEEK) + 0.5, _DAYS)
    middle.set(ylabel="weight (mean 1)", xlim=(0, DAYS_PER_WEEK))
    middle.set_ylim(0, 1.1 * float(max(weight.max(), min(high.max(), 3 * weight.max()))))
    middle.grid(alpha=0.3)
    middle.legend(frameon=False, fontsize=8)
    for axes in lower:
        _draw_months(axes, fit, label)
    return figure


def _draw_months(axes: Axes, fit: RequestFit, label: str) -> None:
    assert fit.month_weight is not None
    assert fit.month_low is not None and fit.month_high is not None
    month, seen = np.arange(1, MONTHS_PER_YEAR + 1), np.isfinite(fit.month_low)
    weight = fit.month_weight[seen]
    spread = np.maximum([weight - fit.month_low[seen], fit.month_high[seen] - weight], 0)
    axes.errorbar(month[seen], weight, spread, fmt="o", color=_TRACE_COLOUR, capsize=2, label=label)
    axes.set_xticks(month)
    axes.set(xlabel="month", ylabel="weight (mean 1)", xlim=(0.5, MONTHS_PER_YEAR + 0.5))
    axes.set_ylim(0, 1.1 * float(fit.month_high[seen].max()))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def rate_figure(trace: RequestTrace, fit: RequestFit, times: StepTimes) -> Figure:
    """Draw the rates of a trace over local time, and what the weights expect of them.

    Of a long trace, means over equal numbers of steps are drawn.
    """
    rate = trace.rate_rps.sum(axis=0)
    model = fit.week_rate_rps * fit.week_weight[times.hour_of_week]
    if fit.month_weight is not None:
        model = model * fit.month_weight[times.month]
    n_together = -(-rate.size // MOST_POINTS)
    start = np.arange(0, rate.size, n_together)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    edge_ms = np.append(start, rate.size) * trace.step_ms
    at: np.ndarray[tuple[int], np.dtype[np.generic]]
    if trace.is_relative:
        at = (trace.origin_ms + edge_ms) / MS_PER_DAY
        axes.set_xlabel("days since the origin of the trace")
    else:
        at = (times.start_ms[0] + edge_ms).astype("datetime64[ms]")
        axes.set_xlabel("local time")
        figure.autofmt_xdate()
    length_s = n_together * trace.step_ms / 1000
    n_steps = np.diff(np.append(start, rate.size))
    lines = ((rate, _TRACE_COLOUR, f"trace, {length_s:g} s"), (model, _MODEL_COLOUR, "weights"))
    for values, colour, label in lines:
        mean = np.add.reduceat(values, start) / n_steps
        axes.step(at, _closed(mean), where="post", color=colour, linewidth=0.9, label=label)
    axes.set(ylabel="requests per second")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def token_figure(trace: RequestTrace, fit: RequestFit) -> Figure:
    """Draw how long prompts and answers are, for the largest services."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    largest = sorted(range(len(fit.services)), key=lambda k: -fit.services[k].share)[:MOST_SERVICES]
    sides = (("prompts", trace.input_tokens), ("answers", trace.output_tokens))
    for axes, (side, of_services) in zip(panels, sides, strict=True):
        for rank, k in enumerate(largest if of_services else ()):
            if of_services[k].n_requests.any():
                _draw_lengths(axes, of_services[k], fit.services[k].name, f"C{rank}")
        if axes.lines:
            axes.set_xscale("log")
            axes.legend(frameon=False, fontsize=8)
        axes.set(xlabel="tokens", ylabel="share per decade", title=side)
        axes.grid(alpha=0.3)
    if len(fit.services) > MOST_SERVICES:
        figure.suptitle(f"{MOST_SERVICES} largest of {len(fit.services)} services", size=9)
    return figure


def _draw_lengths(axes: Axes, lengths: TokenLengths, name: str, colour: str) -> None:
    n, first = lengths.n_requests, lengths.edges[:-1]
    empty = float(n[first == 0].sum() / n.sum())
    longest = int(first[n > 0].max()) + 1
    n_bins = max(2, round(BINS_PER_DECADE * np.log10(longest + 1)))
    # Whole lengths, so that no bin lies between two of them.
    edges = np.unique(np.rint(np.geomspace(1, longest + 1, n_bins)))
    found, _ = np.histogram(first, edges, weights=n.astype(np.float64))
    share = found / n.sum() / np.diff(np.log10(edges))
    label = f"{name}, mean {lengths.mean:,.0f}" + (f", {empty:.1%} empty" if empty else "")
    axes.step(edges, _closed(share), where="post", color=colour, linewidth=1.2, label=label)
    axes.axvline(max(lengths.mean, 1.0), color=colour, linewidth=0.8, linestyle=":")


def _closed(values: Float64Array) -> Float64Array:
    """Return values with the last one twice, so that its step is drawn to its end."""
    return np.append(values, values[-1])
