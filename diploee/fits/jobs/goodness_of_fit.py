"""Comparison of a log with its fit and with generated years.

Whether what was learned gives the log again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from diploee.base.progress import stage
from diploee.base.tables import Float64Array, Int64Array, concat
from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H, S_PER_H
from diploee.fits.confidence_limits import jackknife_error
from diploee.fits.jobs.job_log_fit import JobLogFit, LoggedJobs, LogStatistic
from diploee.fits.jobs.summary import job_stream
from diploee.importers.inputs import load_inputs
from diploee.loads.jobs.rates import hour_weights
from diploee.loads.jobs.streams import JobStreams
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.loading import scenario_from_dict
from diploee.simulation.steps import WINDOW_DRAWS

YEAR_D = 364
N_YEARS = 3
MAX_JOBS = 2_000_000
"""Jobs that are generated at most; a stream of more gives years of fewer days."""

MEAN = "busy nodes, mean"
MEDIAN, P99 = "busy nodes, P50 of hours", "busy nodes, P99 of hours"
LIKE = {MEAN: 0.02, MEDIAN: 0.07, P99: 0.15}
"""Relative differences from the log up to which generated years are like it."""

ROUNDING = 1e-3
"""Relative difference of two figures that is none."""

N_PARTS = 10
"""Parts of the log that are left out in turn for the limits."""

LEVELS = (0.5, 0.9, 0.99)
SCALES_H = {"hours": 1, "days": HOURS_PER_DAY, "weeks": HOURS_PER_WEEK}
WIDTH_STEP = 4
"""Widths 1, 2 to 4, 5 to 16, 17 to 64 and so on are looked at together."""


@stage("compare")
def with_generated_years(fit: JobLogFit, library: ProfileLibrary) -> JobLogFit:
    """Return a fit with statistics of its log, its snippet and generated years.

    Busy nodes are those that the jobs ask for, as if each started when it was
    submitted: how long they wait is the scheduler's. Dispersion is the variance over
    mean of the jobs' counts about the calendar.
    """
    n_days = min(YEAR_D, int(MAX_JOBS / N_YEARS / fit.arrivals.jobs_per_day))
    if n_days < 1:
        return fit
    widest = max(
        max(c.n_nodes for c in fit.classes), int(np.ceil(fit.jobs.n_nodes.max()))
    )
    generated, weight = _generated(fit, library, n_days * N_YEARS, widest)
    arrivals = fit.arrivals
    widths = [1]
    while widths[-1] < widest:
        widths.append(widths[-1] * WIDTH_STEP)
    n_hours = arrivals.hours.counts.size
    of_log = _figures(fit.jobs, n_hours, arrivals.calendar.expected, widths)
    of_years = []
    for of_year in np.arange(weight.size).reshape(N_YEARS, -1):
        own = (generated.submit_h >= of_year[0]) & (
            generated.submit_h < of_year[-1] + 1
        )
        jobs = LoggedJobs(*(x[own] for x in vars(generated).values()))
        jobs.submit_h[:] -= of_year[0]
        of_years.append(_figures(jobs, of_year.size, weight[of_year], widths))
    shares = {_share(widths, k) for k in range(len(widths))}
    expected = {name: 0.0 for name in of_log if name in shares}
    for c in fit.classes:
        expected[_share(widths, int(np.searchsorted(widths, c.n_nodes)))] += (
            c.probability
        )
    if None not in (means := [c.model_mean_s for c in fit.classes]):
        nodes = [
            c.n_nodes if c.n_gpus is None else c.n_gpus / fit.gpus_per_node
            for c in fit.classes
        ]
        of_jobs = zip(fit.classes, nodes, means, strict=True)
        node_s = sum(c.probability * n * (mean_s or 0.0) for c, n, mean_s in of_jobs)
        expected[MEAN] = arrivals.jobs_per_day / HOURS_PER_DAY * node_s / S_PER_H
    z = float(stats.t.isf((1 - fit.confidence) / 2, N_PARTS - 1))
    figures = []
    for name, (value, *parts) in of_log.items():
        error = float(jackknife_error(np.array(parts)))
        limits = max(0.0, value - z * error), value + z * error
        # A share; there are no durations of no jobs
        absent = [0.0] if name in expected else []
        drawn = np.array(
            [x for of_year in of_years for x in of_year.get(name, absent)[:1]]
        )
        if not drawn.size:
            figures.append(LogStatistic(name, value, *limits, None, None, None, False))
            continue
        scatter = float(drawn.std())
        # Both have a sampling error; that of the generated years is not below the log's
        # by length.
        drawn_error = max(
            error * np.sqrt(n_hours / weight.size), scatter / np.sqrt(N_YEARS)
        )
        allowed = z * np.hypot(error, drawn_error) + ROUNDING * value
        differs = bool(abs(drawn.mean() - value) > allowed)
        figures.append(
            LogStatistic(
                name,
                value,
                *limits,
                expected.get(name),
                float(drawn.mean()),
                scatter,
                differs,
            )
        )
    return replace(fit, figures=tuple(figures), generated_days=n_days)


def generated_busy_nodes(fit: JobLogFit, library: ProfileLibrary) -> Float64Array:
    """Return the hourly busy nodes of generated years, starting on a Monday.

    Without a warm-up week.
    """
    n_days = max(
        min(YEAR_D, int(MAX_JOBS / N_YEARS / fit.arrivals.jobs_per_day)) // 7 * 7, 14
    )
    widest = max(
        max(c.n_nodes for c in fit.classes), int(np.ceil(fit.jobs.n_nodes.max()))
    )
    jobs, weight = _generated(fit, library, n_days * N_YEARS, widest)
    return hourly_busy_nodes(jobs, weight.size)[HOURS_PER_WEEK:]


def errors_of(fit: JobLogFit) -> dict[str, float]:
    """Return ratios of generated to logged mean, median and P99 busy nodes."""
    return {
        f.name: f.generated / f.log - 1
        for f in fit.figures
        if f.name in LIKE and f.log > 0 and f.generated is not None
    }


def worst_error(fit: JobLogFit) -> float:
    """Return the largest of these errors as a multiple of what `LIKE` allows.

    Up to 1 is like.
    """
    return max(
        (abs(error) / LIKE[name] for name, error in errors_of(fit).items()), default=0.0
    )


def _generated(
    fit: JobLogFit, library: ProfileLibrary, n_days: int, n_nodes: int
) -> tuple[LoggedJobs, Float64Array]:
    """Return generated jobs of the stream, and the fitted weights of their hours."""
    node_type = {
        "n_gpus": fit.gpus_per_node or 1,
        "gpu_tdp_w": 1,
        "n_cpus": 0,
        "cpu_tdp_w": 0,
        "idle_power_w": 0,
    }
    pool = {
        "node_type": "node",
        "n_nodes": n_nodes,
        "allocate": "gpus" if fit.gpus_per_node else "nodes",
        "scale_profiles": "by_tdp",  # nobody looks at the power
    }
    site = {
        "name": "generated",
        "start": "2018-01-01",
        "duration": f"{n_days} d",
        "resolution": "1 h",
        "facility": {"node_types": {"node": node_type}, "pools": {"main": pool}},
    }
    scenario, fitted = (
        scenario_from_dict(site | {"streams": {"jobs": job_stream(one, "main")}})
        for one in (fit, replace(fit, replay=None))
    )
    # The log is not read again: what its import took as the width of a job holds here
    # as well.
    streams = JobStreams(
        scenario, replace(load_inputs(fitted, library), logs={"jobs": fit.log})
    )
    streams.set_job_counts({})
    jobs = concat(list(streams.windows(WINDOW_DRAWS)))
    first = int(np.datetime64(scenario.start, "h").astype(np.int64))
    hours = first + np.arange(n_days * HOURS_PER_DAY)
    n_nodes_each = jobs.n_nodes / scenario.facility.slots_per_node("main")
    return (
        LoggedJobs(
            jobs.submit_ms / MS_PER_H, n_nodes_each, jobs.duration_ms / MS_PER_H
        ),
        hour_weights(fitted.streams["jobs"].calendar, hours),
    )


def _share(widths: list[int], group: int) -> str:
    return f"share of jobs on {_range(widths, group)}"


def _range(widths: list[int], group: int) -> str:
    if group == 0:
        return "1 node"
    return f"{widths[group - 1] + 1} to {widths[group]} nodes"


def _figures(
    jobs: LoggedJobs, n_hours: int, weight: Float64Array, widths: list[int]
) -> dict[str, list[float]]:
    """Compute each statistic of all jobs, and without each part of the span in turn."""
    result: dict[str, list[float]] = {}
    part_of_hour = np.arange(n_hours) * N_PARTS // n_hours
    part = part_of_hour[np.clip(jobs.submit_h.astype(np.int64), 0, n_hours - 1)]
    busy = hourly_busy_nodes(jobs, n_hours)

    def add(
        name: str,
        values: npt.NDArray[Any],
        of_part: Int64Array,
        figure: Callable[[npt.NDArray[Any]], float],
    ) -> None:
        rest = [values, *(values[of_part != k] for k in range(N_PARTS))]
        result[name] = [float(figure(x)) if x.size else float("nan") for x in rest]

    add(MEAN, busy, part_of_hour, np.mean)
    for name, level in ((MEDIAN, LEVELS[0]), (P99, LEVELS[-1])):
        add(name, busy, part_of_hour, partial(np.quantile, q=level))
    group = np.searchsorted(widths, jobs.n_nodes)
    for k in np.unique(group).tolist():
        own = group == k
        add(_share(widths, k), own, part, np.mean)
        for level in LEVELS:
            name = f"duration on {_range(widths, k)}, P{100 * level:g} [h]"
            add(name, jobs.duration_h[own], part[own], partial(np.quantile, q=level))
    counts = np.bincount(jobs.submit_h.astype(np.int64), minlength=n_hours)[:n_hours]
    expected = weight * (counts.sum() / weight.sum())
    for scale, length in SCALES_H.items():
        n = n_hours // length
        if n < N_PARTS:
            continue
        seen, mean = (
            x[: n * length].reshape(n, length).sum(axis=1) for x in (counts, expected)
        )
        pairs = np.column_stack([(seen - mean) ** 2, mean])
        name = f"variance over mean of {scale}"
        add(
            name,
            pairs,
            np.arange(n) * N_PARTS // n,
            lambda x: x[:, 0].sum() / x[:, 1].sum(),
        )
    return result


def hourly_busy_nodes(jobs: LoggedJobs, n_hours: int) -> Float64Array:
    """Return the hourly mean of requested nodes, if each job started on submission."""
    edges = np.arange(n_hours + 1.0)
    node_hours = np.zeros(n_hours + 1)
    # Up to time x jobs have had the sum of nodes * max(0, x - start), less that of
    # their ends.
    for sign, at in ((1.0, jobs.submit_h), (-1.0, jobs.submit_h + jobs.duration_h)):
        order = np.argsort(at, kind="stable")
        ordered, nodes = at[order], sign * jobs.n_nodes[order]
        upto = np.searchsorted(ordered, edges)
        begun, moments = (
            np.append(0.0, np.cumsum(x))[upto] for x in (nodes, nodes * ordered)
        )
        node_hours += edges * begun - moments
    return np.diff(node_hours)
