"""Pictures of a fit: the week, the scatter of hourly counts, node counts, durations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diploee.drawing.charts import MUTED, PALETTE, Axis, Chart, Line, Panel, log_axis
from diploee.drawing.pictures import write_pictures
from diploee.files import Writing
from diploee.learn.jobs.class_fits import ClassFit
from diploee.learn.jobs.job_log_fit import JobLogFit
from diploee.learn.week_panels import limits_name, week_panels
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, S_PER_H

MOST_CLASSES = 6
WIDE_RANGE = 10
MOST_POINTS = 2_000
_LOG_COLOUR, _MODEL_COLOUR, _OTHER_COLOUR = PALETTE[0], PALETTE[1], MUTED


def plot_fit(
    fit: JobLogFit, folder: Path, force: bool = False, joins: Writing | None = None
) -> list[Path]:
    """Draw a fit as PNG files."""
    charts = [week_chart(fit), scatter_chart(fit), node_count_chart(fit)]
    if any(job_class.duration for job_class in fit.classes):
        charts.append(duration_chart(fit))
    return write_pictures({chart.id: chart for chart in charts}, folder, force=force, joins=joins)


def week_chart(fit: JobLogFit) -> Chart:
    """Return the weights of the week."""
    arrivals = fit.arrivals
    panels = week_panels(
        arrivals.calendar.week_weight, arrivals.week_low, arrivals.week_high, fit.confidence, ""
    )
    title = f"Submissions by hour of the week, {fit.n_jobs:,} jobs"
    return Chart("week", title, "", panels)


def scatter_chart(fit: JobLogFit) -> Chart:
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
        Line(mean[seen], variance[seen], "hours of the week", _LOG_COLOUR, markers_only=True),
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
    starts = np.arange(0, hours.n_hours - HOURS_PER_DAY + 1, HOURS_PER_DAY)
    day, upto = starts / HOURS_PER_DAY, starts.size * HOURS_PER_DAY  # sums of whole days
    daily = tuple(
        Line(day, np.add.reduceat(values[:upto], starts), name, colour, width=1.2)
        for values, name, colour in (
            (hours.counts, "log", _LOG_COLOUR), (calendar.expected, "calendar", _MODEL_COLOUR)
        )
        if starts.size
    )  # fmt: skip
    days = Axis(f"days since {hours.first_hour}")
    of_days = Panel(days, Axis("submissions per day", from_zero=True), daily)
    return Chart("scatter", "Scatter of the submissions", "", (of_laws, of_days))


def node_count_chart(fit: JobLogFit) -> Chart:
    """Return the shares of the node counts with their limits."""
    widths = fit.node_counts
    name = f"log, {limits_name(fit.confidence)}"
    shares = Line(
        widths.n_nodes, widths.share, name, _LOG_COLOUR, markers_only=True,
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
        Line(hours, level, "log", _LOG_COLOUR, steps=True),
        Line(at_h, model.cdf(at_h * S_PER_H), "model", _MODEL_COLOUR, width=1.4),
    )
    quantiles = (
        Line(modelled, hours, "quantiles", _LOG_COLOUR, markers_only=True, legend=False),
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
