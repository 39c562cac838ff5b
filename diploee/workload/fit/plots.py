"""Pictures of a fit: the week, the scatter of hourly counts, node counts, durations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from diploee.files import whole_file
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, S_PER_H
from diploee.workload.fit.calendar_fit import week_slots
from diploee.workload.fit.class_fits import ClassFit
from diploee.workload.fit.fragment import WEEKDAYS
from diploee.workload.fit.job_log_fit import JobLogFit

MOST_CLASSES = 6
WIDE_RANGE = 10
MOST_POINTS = 2_000
_LOG_COLOUR, _MODEL_COLOUR, _OTHER_COLOUR = "#12395f", "#c4572b", "#7a7a7a"


def plot_fit(fit: JobLogFit, folder: Path) -> list[Path]:
    """Draw a fit as PNG files.

    Parameters
    ----------
    fit : JobLogFit
        What to draw.
    folder : pathlib.Path
        Where ``week.png``, ``scatter.png``, ``node_counts.png`` and, where the fit has durations,
        ``durations.png`` are written; files of these names are replaced.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    OutputError
        If a file can't be written.
    """
    pictures: dict[str, Callable[[JobLogFit], Figure]] = {
        "week.png": week_figure,
        "scatter.png": scatter_figure,
        "node_counts.png": node_count_figure,
    }
    if any(job_class.duration for job_class in fit.classes):
        pictures["durations.png"] = duration_figure
    places = []
    for name, draw in pictures.items():
        figure = draw(fit)
        FigureCanvasAgg(figure)
        with whole_file(folder / name) as partial:
            figure.savefig(partial, format="png", dpi=110)
        places.append(folder / name)
    return places


def week_figure(fit: JobLogFit) -> Figure:
    """Draw the weights of the week as a heat map, and as a course with their limits."""
    calendar, arrivals = fit.arrivals.calendar, fit.arrivals
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    image = upper.imshow(
        calendar.week_weight.reshape(-1, HOURS_PER_DAY),
        aspect="auto",
        cmap="viridis",
        vmin=0,
        extent=(0, HOURS_PER_DAY, len(WEEKDAYS), 0),
    )
    upper.set_yticks(np.arange(len(WEEKDAYS)) + 0.5, WEEKDAYS)
    upper.set(xlabel="local hour", title=f"submissions by hour of the week, {fit.n_jobs:,} jobs")
    figure.colorbar(image, ax=upper, label="weight (mean 1)")
    hour = np.arange(calendar.week_weight.size + 1) / HOURS_PER_DAY
    low, high = (np.append(x, x[-1]) for x in (arrivals.week_low, arrivals.week_high))
    lower.fill_between(
        hour, low, high, step="post", color=_LOG_COLOUR, alpha=0.25, linewidth=0,
        label=f"{fit.confidence:.0%} limits",
    )  # fmt: skip
    weight = np.append(calendar.week_weight, calendar.week_weight[-1])
    lower.step(hour, weight, where="post", color=_LOG_COLOUR, linewidth=1, label="weight")
    lower.set_xticks(np.arange(len(WEEKDAYS)) + 0.5, [name[:3] for name in WEEKDAYS])
    lower.set(ylabel="weight (mean 1)", xlim=(0, len(WEEKDAYS)))
    lower.set_ylim(0, 1.1 * float(max(weight.max(), min(high.max(), 3 * weight.max()))))
    lower.grid(alpha=0.3)
    lower.legend(frameon=False, fontsize=8)
    return figure


def scatter_figure(fit: JobLogFit) -> Figure:
    """Draw variance against mean of the hourly counts by hour of the week, and all counts."""
    hours, calendar = fit.arrivals.hours, fit.arrivals.calendar
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _, slot = week_slots(hours)
    n = np.bincount(slot)
    mean = np.bincount(slot, hours.counts) / n
    residual = (hours.counts - calendar.expected) ** 2
    variance = np.bincount(slot, residual) / np.maximum(n - 1, 1)
    seen = (mean > 0) & (variance > 0)
    left.scatter(mean[seen], variance[seen], s=10, color=_LOG_COLOUR, label="hours of the week")
    at = np.geomspace(max(float(mean[seen].min()), 1e-3), float(mean.max()), 100)
    left.plot(at, at, color=_OTHER_COLOUR, label="Poisson")
    if fit.arrivals.dispersion is not None:
        law = at + fit.arrivals.dispersion * at**2
        label = f"dispersion {fit.arrivals.dispersion:.3g}"
        left.plot(at, law, color=_MODEL_COLOUR, label=label)
    left.set(xlabel="mean jobs per hour", ylabel="variance about the calendar")
    left.set_xscale("log")
    left.set_yscale("log")
    left.grid(alpha=0.3)
    left.legend(frameon=False, fontsize=8)
    starts = np.arange(0, hours.n_hours - HOURS_PER_DAY + 1, HOURS_PER_DAY)
    if starts.size:  # sums of whole days
        day, upto = starts / HOURS_PER_DAY, starts[-1] + HOURS_PER_DAY
        seen_daily = np.add.reduceat(hours.counts[:upto], starts)
        right.plot(day, seen_daily, color=_LOG_COLOUR, linewidth=0.9, label="log")
        expected = np.add.reduceat(calendar.expected[:upto], starts)
        right.plot(day, expected, color=_MODEL_COLOUR, linewidth=0.9, label="calendar")
    right.set(xlabel=f"days since {hours.first_hour}", ylabel="jobs per day")
    right.set_ylim(bottom=0)
    right.grid(alpha=0.3)
    right.legend(frameon=False, fontsize=8)
    return figure


def node_count_figure(fit: JobLogFit) -> Figure:
    """Draw the shares of the node counts with their limits."""
    widths = fit.node_counts
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    below = np.maximum(widths.share - widths.low, 0)
    above = np.maximum(widths.high - widths.share, 0)
    axes.errorbar(
        widths.n_nodes, widths.share, np.stack([below, above]), fmt="o", markersize=4,
        color=_LOG_COLOUR, capsize=2, label=f"log, {fit.confidence:.0%} limits",
    )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="nodes", ylabel="share of the jobs")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def duration_figure(fit: JobLogFit) -> Figure:
    """Draw durations of the largest classes: shares in log and model, quantile against quantile."""
    rows = [k for k, job_class in enumerate(fit.classes) if job_class.duration]
    rows = sorted(sorted(rows, key=lambda k: -fit.classes[k].n_jobs)[:MOST_CLASSES])
    figure = Figure(figsize=(9, 3.2 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 2, squeeze=False)
    for (left, right), row in zip(panels, rows, strict=True):
        _draw_durations(left, right, fit.classes[row], np.sort(fit.durations_s[row]))
    return figure


def _draw_durations(left: Axes, right: Axes, job_class: ClassFit, logged_s: Float64Array) -> None:
    assert job_class.duration is not None
    model = job_class.duration.model
    rows = np.unique(np.linspace(0, logged_s.size - 1, MOST_POINTS).astype(np.int64))
    level, seconds = (rows + 0.5) / logged_s.size, logged_s[rows]
    hours = seconds / S_PER_H
    ends = [float(hours[0]), float(hours[-1])]
    at_h = np.geomspace(0.98 * ends[0], 1.02 * ends[1], MOST_POINTS)
    left.step(hours, level, where="post", color=_LOG_COLOUR, linewidth=1.5, label="log")
    of_model = model.cdf(at_h * S_PER_H)
    left.plot(at_h, of_model, color=_MODEL_COLOUR, linewidth=1, label="model")
    left.set(xlabel="duration [h]", ylabel="share of jobs up to it")
    left.set_title(f"{job_class.workload}/{job_class.n_nodes}, {job_class.n_jobs:,} jobs", size=9)
    right.plot(model.quantile(level) / S_PER_H, hours, ".", markersize=3, color=_LOG_COLOUR)
    right.plot(ends, ends, color=_OTHER_COLOUR, linewidth=1)
    right.set(xlabel="quantile of the model [h]", ylabel="quantile of the log [h]")
    right.set_title(f"Kolmogorov-Smirnov distance {job_class.duration.ks_distance:.2g}", size=9)
    if ends[1] > WIDE_RANGE * ends[0]:
        left.set_xscale("log")
        right.set_xscale("log")
        right.set_yscale("log")
    left.grid(alpha=0.3)
    right.grid(alpha=0.3)
    left.legend(frameon=False, fontsize=8)
