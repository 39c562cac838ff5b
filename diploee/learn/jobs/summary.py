"""A fit in words, and as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from diploee.clock import Zone
from diploee.errors import plural
from diploee.learn.jobs.job_log_fit import JobLogFit
from diploee.plain_data import plain
from diploee.units import HOURS_PER_WEEK


def fit_lines(fit: JobLogFit) -> list[str]:
    """Return what was fitted and how well it fits, one statement a line, the origin first."""
    hours, arrivals = fit.arrivals.hours, fit.arrivals
    lines = [
        f"From {Path(fit.source).name} ({fit.log_format}): {plural(fit.n_jobs, 'job')} submitted "
        f"from {_moment(hours.first_hour)} to {_moment(hours.end)} ({_zone(fit)}), "
        f"{hours.covered_hours / HOURS_PER_WEEK:.1f} weeks, asking for "
        f"{fit.mean_busy_nodes:,.1f} busy nodes on average."
    ]
    left_out = ", ".join(
        f"{n:,} {cause} ({fit.left_out_share[cause]:.1%} of the node time)"
        for cause, n in fit.left_out.items()
        if n
    )
    if left_out:
        lines.append(f"Jobs left out: {left_out}.")
    lines.append(f"Import: {'; '.join(fit.import_lines)}.")
    if fit.n_submissions < fit.n_jobs:
        lines.append(
            f"Arrays: the jobs came in {fit.n_submissions:,} submissions; those of one user, kind "
            "and width that follow each other within seconds are taken as submitted together."
        )
    lines.append(arrivals.calendar.shape.line())
    if arrivals.calendar.months is not None:
        lines.append(arrivals.calendar.months.line())
    lines += _scatter_lines(fit)
    if arrivals.weeks is not None:
        lines.append(arrivals.weeks.line())
    widths = fit.node_counts
    most = np.argsort(-widths.share, kind="stable")[:8]
    lines.append(
        f"Node counts: {widths.n_nodes.size}; most frequent "
        + ", ".join(f"{widths.n_nodes[k]:g} ({widths.share[k]:.1%})" for k in most)
        + "."
    )
    return lines + figure_lines(fit) + [f"Note: {note}." for note in fit.notes]


def figure_lines(fit: JobLogFit) -> list[str]:
    """Return the figures as lines of words."""
    if not fit.figures:
        return []
    lines = [
        f"Log ({fit.confidence:.0%} limits) | fragment | {fit.generated_days} generated days, "
        "nodes as if every job began at once:"
    ]
    for f in fit.figures:
        fragment = "-" if f.fragment is None else f"{f.fragment:.4g}"
        limits = f" ({f.low:.3g} to {f.high:.3g})" if np.isfinite(f.high) else ""
        outside = ", beyond the limits of both" if f.differs else ""
        lines.append(f"{f.name}: {f.log:.4g}{limits} | {fragment} | {f.generated:.4g}{outside}")
    return lines


def _scatter_lines(fit: JobLogFit) -> list[str]:
    scatter = fit.arrivals.scatter
    if scatter is None:
        return []
    kind = "Poisson" if fit.arrivals.dispersion is None else "over-dispersed (gamma-mixed)"
    return [
        f"Hourly counts against the weights: chi-square {scatter.chi_square:,.0f} with "
        f"{scatter.freedom:,} degrees of freedom, p {scatter.poisson_p_value:.2g} if they were "
        "Poisson.",
        f"Variance over mean of hourly counts {scatter.index:.3g} ({fit.confidence:.0%} limits "
        f"{scatter.index_low:.3g} to {scatter.index_high:.3g}; Poisson 1), dispersion "
        f"{scatter.dispersion:.3g}: taken as {kind}.",
        f"Dispersion of days {scatter.day:.3g} ({scatter.day_low:.3g} to {scatter.day_high:.3g})"
        f"{'' if fit.arrivals.day_dispersion else ': no more than noise, left out'}.",
    ]


def fit_as_dict(fit: JobLogFit) -> dict[str, Any]:
    """Return all numbers of a fit as plain data for JSON; infinite limits are None."""
    arrivals, widths = fit.arrivals, fit.node_counts
    calendar = arrivals.calendar
    told: dict[str, Any] = {
        "source": fit.source,
        "format": fit.log_format,
        "confidence": fit.confidence,
        "utc_offset_min": fit.utc_offset_min,
        "time_zone": fit.time_zone or None,
        "first_hour": str(arrivals.hours.first_hour),
        "n_hours": arrivals.hours.n_hours,
        "covered_hours": arrivals.hours.covered_hours,
        "n_jobs": fit.n_jobs,
        "n_submissions": fit.n_submissions,
        "left_out": fit.left_out,
        "left_out_share": fit.left_out_share,
        "import": fit.import_lines,
        "mean_busy_nodes": fit.mean_busy_nodes,
        "jobs_per_day": {
            "value": arrivals.jobs_per_day,
            "low": arrivals.jobs_per_day_low,
            "high": arrivals.jobs_per_day_high,
        },
        "hour_of_week": {
            "detail": calendar.detail,
            "deviance": calendar.shape.deviance,
            "weight": calendar.week_weight,
            "low": arrivals.week_low,
            "high": arrivals.week_high,
        },
        "month": None
        if calendar.month_weight is None
        else {
            "weight": calendar.month_weight,
            "low": arrivals.month_low,
            "high": arrivals.month_high,
        },
        "months": calendar.months and vars(calendar.months),
        "arrivals": "poisson" if arrivals.dispersion is None else "gamma",
        "dispersion": arrivals.dispersion,
        "day_dispersion": arrivals.day_dispersion,
        "week_to_week": arrivals.weeks and arrivals.weeks.as_dict(),
        "scatter": None if arrivals.scatter is None else vars(arrivals.scatter),
        "node_counts": [
            {"n_nodes": n.item(), "share": float(s), "low": float(a), "high": float(b)}
            for n, s, a, b in zip(
                widths.n_nodes, widths.share, widths.low, widths.high, strict=True
            )
        ],
        "classes": [
            {
                "workload": c.workload,
                "n_nodes": c.n_nodes,
                **({} if c.n_gpus is None else {"n_gpus": c.n_gpus}),
                "profile_n_nodes": c.profile_n_nodes,
                "n_jobs": c.n_jobs,
                "probability": c.probability,
                "low": c.low,
                "high": c.high,
                "arrays": c.arrays and c.arrays.model_dump(mode="json", exclude_none=True),
                "duration": c.duration
                and {
                    "model": c.duration.model.model_dump(mode="json", exclude_none=True),
                    "n_jobs": c.duration.n_jobs,
                    "mean_s": c.duration.mean_s,
                    "model_mean_s": c.duration.model_mean_s,
                    "ks_distance": c.duration.ks_distance,
                    "ks_p_value": c.duration.ks_p_value,
                },
            }
            for c in fit.classes
        ],
        "generated_days": fit.generated_days,
        "figures": [vars(figure) for figure in fit.figures],
        "notes": fit.notes,
    }
    return {key: plain(value) for key, value in told.items()}


def _moment(hour: np.datetime64) -> str:
    return str(hour.astype("datetime64[m]")).replace("T", " ")


def _zone(fit: JobLogFit) -> str:
    if fit.utc_offset_min is None:
        return "on the log's own clock"
    return str(Zone(fit.time_zone, fit.utc_offset_min))
