"""A fit as a piece of a scenario: YAML whose comments tell limits, goodness of fit and origin."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from diploee import __version__
from diploee.errors import plural
from diploee.learn.jobs.class_fits import ClassFit
from diploee.learn.jobs.job_log_fit import JobLogFit
from diploee.learn.jobs.summary import fit_lines
from diploee.learn.weeks import WeekFit
from diploee.scenario import DurationModel
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WIDTH = 100
_INDENT = " " * 6
_SHARE_DIGITS = 8


def fragment_text(fit: JobLogFit, stream: str, pool: str) -> str:
    """Return the stream of a fitted log as YAML with comments."""
    arrivals = fit.arrivals
    level = f"{fit.confidence:.0%} limits"
    limits = (arrivals.jobs_per_day_low, arrivals.jobs_per_day_high)
    lines = [
        *_comment(f"Fitted by diploee {__version__}. {fit_lines(fit)[0]}"),
        *(line for text in fit_lines(fit)[1:] for line in _comment(text)),
        *_comment(
            "The stream goes into a scenario that has the pool; jobs_per_day may give way to "
            "target_utilization."
        ),
        "streams:",
        f"  {_word(stream)}:",
        f"    pool: {_word(pool)}",
        f"    jobs_per_day: {number_text(arrivals.jobs_per_day, 6)}  # {level} "
        f"{number_text(limits[0], 5)} to {number_text(limits[1], 5)}",
    ]
    if arrivals.dispersion is not None and arrivals.scatter is not None:
        lines.append(
            f"    dispersion: {number_text(arrivals.dispersion, 5)}  # {level} "
            f"{number_text(arrivals.scatter.low, 3)} to {number_text(arrivals.scatter.high, 3)}"
        )
    if arrivals.day_dispersion is not None and arrivals.scatter is not None:
        lines.append(
            f"    day_dispersion: {number_text(arrivals.day_dispersion, 5)}  # {level} "
            f"{number_text(arrivals.scatter.day_low, 3)} to "
            f"{number_text(arrivals.scatter.day_high, 3)}"
        )
    lines += calendar_lines(
        arrivals.calendar.week_weight, arrivals.calendar.month_weight, arrivals.weeks
    )
    lines.append("    classes:")
    tables = Counter(_table(c.duration.model) for c in fit.classes if c.duration)
    named = {table: f"table_{k}" for k, (table, n) in enumerate(tables.items(), 1) if n > 1}
    written: set[str] = set()
    for job_class, probability in zip(fit.classes, _probabilities(fit.classes), strict=True):
        lines += _class_lines(job_class, probability, named, written)
    return "\n".join(lines) + "\n"


def calendar_lines(
    week_weight: Float64Array, month_weight: Float64Array | None, weeks: WeekFit | None = None
) -> list[str]:
    """Return a stream's ``calendar`` as lines of YAML, one row of numbers for half a day."""
    days = week_weight.reshape(len(WEEKDAYS), HOURS_PER_DAY)
    rows = []
    if np.ptp(week_weight) > 0:
        of_hour, of_day = days.mean(axis=0), days.mean(axis=1)
        if np.allclose(days, np.outer(of_day, of_hour), rtol=1e-9, atol=1e-12):
            rows += [f"{_INDENT}hour_of_day: [", *_rows(of_hour), f"{_INDENT}]"]
            if not np.allclose(of_day, 1):
                numbers = ", ".join(number_text(weight, 5) for weight in of_day)
                rows.append(f"{_INDENT}day_of_week: [{numbers}]  # Monday first")
        else:
            rows.append(f"{_INDENT}hour_of_week: [")
            for name, day in zip(WEEKDAYS, days, strict=True):
                rows += [f"{_INDENT}  # {name}", *_rows(day)]
            rows.append(f"{_INDENT}]")
    if month_weight is not None:
        numbers = ", ".join(number_text(weight, 5) for weight in month_weight)
        rows.append(f"{_INDENT}month: [{numbers}]")
    if weeks is not None and weeks.is_told:
        rows.append(f"{_INDENT}week_to_week: {_flow(weeks.entry)}")
    return ["    calendar:", *rows] if rows else []


def duration_yaml(model: DurationModel) -> str:
    """Return a distribution of durations as a value of YAML on one line."""
    return _flow(model.model_dump(exclude_none=True))


def _table(model: DurationModel) -> str:
    """Return quantiles or lognormals of durations as YAML."""
    return _flow(next(iter(model.model_dump(exclude_none=True).values())))


def _class_lines(
    job_class: ClassFit, probability: float, named: dict[str, str], written: set[str]
) -> list[str]:
    """Return a class; a table that several have is given a name (an anchor) where it comes first.

    `named` maps tables to names, `written` are those that were given.
    """
    remark = f"{plural(job_class.n_jobs, 'job')}, share {job_class.low:.3g} to {job_class.high:.3g}"
    lines = [
        f"      - workload: {_word(job_class.workload)}  # {remark}",
        f"        n_nodes: {job_class.n_nodes}",
        *([] if job_class.n_gpus is None else [f"        n_gpus: {job_class.n_gpus:g}"]),
        f"        probability: {number_text(probability, _SHARE_DIGITS + 1)}",
    ]
    if job_class.profile_n_nodes != job_class.n_nodes:
        lines.append(f"        scale_from_n_nodes: {job_class.profile_n_nodes}")
    if (fit := job_class.duration) is not None:
        test = "" if fit.ks_p_value is None else f", p {fit.ks_p_value:.2g}"
        whose = f", shape of {plural(fit.n_jobs, 'job')}" if job_class.shares_durations else ""
        lines.append(
            f"        # durations: mean {fit.mean_s:,.0f} s, here {fit.model_mean_s:,.0f} s{whose};"
            f" Kolmogorov-Smirnov distance {fit.ks_distance:.2g}{test}"
        )
        value, table = duration_yaml(fit.model), _table(fit.model)
        if (name := named.get(table)) is not None:
            value = value.replace(table, f"*{name}" if name in written else f"&{name} {table}", 1)
            written.add(name)
        lines += _wrapped(f"duration: {value}")
    if job_class.arrays is not None:
        lines += _wrapped(f"arrays: {_flow(job_class.arrays.model_dump(exclude_none=True))}")
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


def _probabilities(classes: Sequence[ClassFit]) -> list[float]:
    """Return rounded shares that sum to 1: the largest takes what rounding left over."""
    share = np.round([c.probability for c in classes], _SHARE_DIGITS)
    share[np.argmax(share)] += 1 - share.sum()
    return [round(float(value), _SHARE_DIGITS) for value in share]


def _word(text: str) -> str:
    """Return a text as YAML, quoted where it could be read as something else."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) and yaml.safe_load(text) == text
    return text if plain else json.dumps(text)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ")


def _rows(weights: Float64Array) -> list[str]:
    halves = weights.reshape(2, -1)
    return [f"{_INDENT}  {', '.join(number_text(w, 5) for w in half)}," for half in halves]


def number_text(value: float, digits: int) -> str:
    """Return a number as YAML 1.1 reads it: no exponent without a point and a sign."""
    text = np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")
    return text if np.isfinite(value) else "infinity"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return value if isinstance(value, str) else number_text(float(value), 12)
