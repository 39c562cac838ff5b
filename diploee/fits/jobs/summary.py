"""A fit in words, as data, and as a commented piece of a scenario."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

import yaml

from diploee.base.errors import plural
from diploee.base.model import Model
from diploee.base.plain_data import plain
from diploee.base.version import full_version
from diploee.fits.fragment import (
    WIDTH,
    calendar_lines,
    comments,
    flow,
    limited,
    number,
    word,
)
from diploee.fits.jobs.class_fits import ClassFit
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_lines
from diploee.fits.limits import closed_shares
from diploee.scenario.durations import DurationModel

SHARE_DIGITS = 8


def fit_as_dict(fit: JobLogFit) -> dict[str, Any]:
    """Return all numbers of a fit as plain data for JSON; infinite limits are None."""
    arrivals, calendar = fit.arrivals, fit.arrivals.calendar
    months = {
        "weight": calendar.month_weight,
        "low": arrivals.month_low,
        "high": arrivals.month_high,
    }
    of_widths = [values.tolist() for values in vars(fit.node_counts).values()]
    summary: dict[str, Any] = {
        "source": fit.source,
        "format": fit.log_format,
        "confidence": fit.confidence,
        "utc_offset_min": fit.utc_offset_min,
        "time_zone": fit.time_zone or None,
        "first_hour": str(arrivals.hours.first_hour),
        "n_hours": arrivals.hours.counts.size,
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
        "month": months if calendar.has_months else None,
        "months": calendar.months and vars(calendar.months),
        "arrivals": "poisson" if arrivals.dispersion is None else "gamma",
        "dispersion": arrivals.dispersion,
        "day_dispersion": arrivals.day_dispersion,
        "week_to_week": arrivals.weeks and arrivals.weeks.as_dict(),
        "scatter": arrivals.scatter and vars(arrivals.scatter),
        "node_counts": [
            dict(zip(vars(fit.node_counts), row, strict=True))
            for row in zip(*of_widths, strict=True)
        ],
        "classes": [_class_as_dict(of_class) for of_class in fit.classes],
        "years": "law" if fit.replay is None else "weeks",
        "decision": fit.decision,
        "generated_days": fit.generated_days,
        "figures": [vars(figure) for figure in fit.figures],
        "holdout": [vars(forecast) for forecast in fit.holdout],
        "notes": fit.notes,
    }
    return {key: plain(value) for key, value in summary.items()}


def _class_as_dict(of_class: ClassFit) -> dict[str, Any]:
    values = {
        key: value for key, value in vars(of_class).items() if key != "shares_durations"
    }
    if of_class.n_gpus is None:
        del values["n_gpus"]
    if of_class.arrays is not None:
        values["arrays"] = _model(of_class.arrays)
    if of_class.duration is not None:
        values["duration"] = vars(of_class.duration) | {
            "model": _model(of_class.duration.model)
        }
    return values


def _model(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def fragment_text(fit: JobLogFit, stream: str, pool: str) -> str:
    """Return the stream of a fitted log as YAML with comments."""
    arrivals = fit.arrivals
    level = f"{fit.confidence:.0%} limits"
    per_day = (
        arrivals.jobs_per_day,
        arrivals.jobs_per_day_low,
        arrivals.jobs_per_day_high,
    )
    into = "The stream goes into a scenario that has the pool" + (
        "; jobs_per_day may give way to target_utilization."
        if fit.replay is None
        else "."
    )
    lines = [
        *comments([f"Fitted by diploee {full_version()}.", *fit_lines(fit), into]),
        "streams:",
        f"  {word(stream)}:",
        f"    pool: {word(pool)}",
    ]
    if fit.replay is not None:
        replay = yaml.safe_dump({"replay": fit.replay}, sort_keys=False, width=WIDTH)
        return "\n".join(lines) + "\n" + textwrap.indent(replay, " " * 4)
    lines += [limited("jobs_per_day", level, *per_day, 6, 5)]
    if (scatter := arrivals.scatter) is not None:
        for key, value, low, high in (
            ("dispersion", arrivals.dispersion, scatter.low, scatter.high),
            (
                "day_dispersion",
                arrivals.day_dispersion,
                scatter.day_low,
                scatter.day_high,
            ),
        ):
            if value is not None:
                lines.append(limited(key, level, value, low, high, 5, 3))
    lines += calendar_lines(
        arrivals.calendar.week_weight, arrivals.calendar.month_weight, arrivals.weeks
    )
    lines.append("    classes:")
    tables = Counter(_table(c.duration.model) for c in fit.classes if c.duration)
    named = {
        table: f"table_{k}" for k, (table, n) in enumerate(tables.items(), 1) if n > 1
    }
    written: set[str] = set()
    shares = closed_shares([c.probability for c in fit.classes], SHARE_DIGITS)
    for job_class, probability in zip(fit.classes, shares, strict=True):
        lines += _class_lines(job_class, probability, named, written)
    return "\n".join(lines) + "\n"


def _table(model: DurationModel) -> str:
    """Return quantiles of durations as YAML."""
    return flow(next(iter(model.model_dump(exclude_none=True).values())))


def _class_lines(
    job_class: ClassFit, probability: float, named: dict[str, str], written: set[str]
) -> list[str]:
    """Return a class, its shared table with an anchor where it comes first.

    `named` maps tables to names, `written` are those that were given.
    """
    remark = (
        f"{plural(job_class.n_jobs, 'job')}, share {job_class.low:.3g} to "
        f"{job_class.high:.3g}"
    )
    lines = [
        f"      - workload: {word(job_class.workload)}  # {remark}",
        f"        n_nodes: {job_class.n_nodes}",
        *(
            []
            if job_class.n_gpus is None
            else [f"        n_gpus: {job_class.n_gpus:g}"]
        ),
        f"        probability: {number(probability, SHARE_DIGITS + 1)}",
    ]
    if job_class.profile_n_nodes != job_class.n_nodes:
        lines.append(f"        scale_from_n_nodes: {job_class.profile_n_nodes}")
    if (fit := job_class.duration) is not None:
        whose = (
            f", shape of {plural(fit.n_jobs, 'job')}"
            if job_class.shares_durations
            else ""
        )
        lines.append(
            f"        # durations: mean {fit.mean_s:,.0f} s, here "
            f"{fit.model_mean_s:,.0f} s{whose}; Kolmogorov-Smirnov distance "
            f"{fit.ks_distance:.2g}"
        )
        value, table = flow(fit.model.model_dump(exclude_none=True)), _table(fit.model)
        if (name := named.get(table)) is not None:
            value = value.replace(
                table, f"*{name}" if name in written else f"&{name} {table}", 1
            )
            written.add(name)
        lines += _wrapped(f"duration: {value}")
    if job_class.arrays is not None:
        lines += _wrapped(
            f"arrays: {flow(job_class.arrays.model_dump(exclude_none=True))}"
        )
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * 8,
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )
