"""Goodness of fit of a job log: statistics of the log, the fit, and generated years."""

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
from diploee.fits.jobs.scenario_entry import job_stream
from diploee.importers.input_reader import load_inputs
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.rates import hour_weights
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.loading import scenario_from_dict
from diploee.simulation.steps import WINDOW_DRAWS

YEAR_D = 364
N_YEARS = 3
MAX_JOBS = 2_000_000
"""Maximum number of generated jobs; a stream with more generates shorter years."""

MEAN = "busy nodes, mean"
MEDIAN, P99 = "busy nodes, P50 of hours", "busy nodes, P99 of hours"
TOLERANCES = {MEAN: 0.02, MEDIAN: 0.07, P99: 0.15}
"""Tolerances of generated years: relative errors of busy nodes."""

ROUNDING = 1e-3
"""Relative difference below which two statistics are equal."""

N_PARTS = 10
"""Number of parts of the log for the jackknife."""

LEVELS = (0.5, 0.9, 0.99)
SCALES_H = {"hours": 1, "days": HOURS_PER_DAY, "weeks": HOURS_PER_WEEK}
WIDTH_STEP = 4
"""Ratio of node-count groups: 1, 2 to 4, 5 to 16, 17 to 64 and so on."""


@stage("compare")
def with_generated_years(fit: JobLogFit, library: ProfileLibrary) -> JobLogFit:
    """Return a fit with statistics of its log, of the fit, and of generated years.

    Busy nodes are requested nodes, as if each job started at submission, because
    waiting depends on the scheduler. Dispersion is the variance of counts about the
    calendar over their mean.
    """
    n_days = min(YEAR_D, int(MAX_JOBS / N_YEARS / fit.arrivals.jobs_per_day))
    if n_days < 1:
        return fit
    max_job_nodes = max(
        max(c.n_nodes for c in fit.classes), int(np.ceil(fit.jobs.n_nodes.max()))
    )
    generated, weight = _generate_jobs(fit, library, n_days * N_YEARS, max_job_nodes)
    arrivals = fit.arrivals
    max_nodes = [1]
    while max_nodes[-1] < max_job_nodes:
        max_nodes.append(max_nodes[-1] * WIDTH_STEP)
    n_hours = arrivals.hours.counts.size
    log_values = _statistics(fit.jobs, n_hours, arrivals.calendar.expected, max_nodes)
    values_by_year = []
    for year_hours in np.arange(weight.size).reshape(N_YEARS, -1):
        in_year = (generated.submit_h >= year_hours[0]) & (
            generated.submit_h < year_hours[-1] + 1
        )
        jobs = LoggedJobs(*(x[in_year] for x in vars(generated).values()))
        jobs.submit_h[:] -= year_hours[0]
        values_by_year.append(
            _statistics(jobs, year_hours.size, weight[year_hours], max_nodes)
        )
    shares = {_node_group_label(max_nodes, k) for k in range(len(max_nodes))}
    expected = {name: 0.0 for name in log_values if name in shares}
    for c in fit.classes:
        expected[
            _node_group_label(max_nodes, int(np.searchsorted(max_nodes, c.n_nodes)))
        ] += c.probability
    if None not in (means := [c.model_mean_s for c in fit.classes]):
        nodes = [
            c.n_nodes if c.n_gpus is None else c.n_gpus / fit.gpus_per_node
            for c in fit.classes
        ]
        class_values = zip(fit.classes, nodes, means, strict=True)
        node_s = sum(
            c.probability * n * (mean_s or 0.0) for c, n, mean_s in class_values
        )
        expected[MEAN] = arrivals.jobs_per_day / HOURS_PER_DAY * node_s / S_PER_H
    z = float(stats.t.isf((1 - fit.confidence) / 2, N_PARTS - 1))
    figures = []
    for name, (value, *parts) in log_values.items():
        error = float(jackknife_error(np.array(parts)))
        limits = max(0.0, value - z * error), value + z * error
        # Years without such jobs have a fraction of 0, but no durations
        absent = [0.0] if name in expected else []
        year_values = np.array(
            [
                x
                for year_hours in values_by_year
                for x in year_hours.get(name, absent)[:1]
            ]
        )
        if not year_values.size:
            figures.append(LogStatistic(name, value, *limits, None, None, None, False))
            continue
        scatter = float(year_values.std())
        # Both have a sampling error; for the generated years it is at least the log's,
        # scaled to their length
        year_error = max(
            error * np.sqrt(n_hours / weight.size), scatter / np.sqrt(N_YEARS)
        )
        allowed = z * np.hypot(error, year_error) + ROUNDING * value
        differs = bool(abs(year_values.mean() - value) > allowed)
        figures.append(
            LogStatistic(
                name,
                value,
                *limits,
                expected.get(name),
                float(year_values.mean()),
                scatter,
                differs,
            )
        )
    return replace(fit, figures=tuple(figures), generated_days=n_days)


def generated_busy_nodes(fit: JobLogFit, library: ProfileLibrary) -> Float64Array:
    """Return the hourly busy nodes of generated years, starting on a Monday.

    The first week, a warm-up, is left out.
    """
    n_days = max(
        min(YEAR_D, int(MAX_JOBS / N_YEARS / fit.arrivals.jobs_per_day)) // 7 * 7, 14
    )
    max_job_nodes = max(
        max(c.n_nodes for c in fit.classes), int(np.ceil(fit.jobs.n_nodes.max()))
    )
    jobs, weight = _generate_jobs(fit, library, n_days * N_YEARS, max_job_nodes)
    return hourly_busy_nodes(jobs, weight.size)[HOURS_PER_WEEK:]


def generated_errors(fit: JobLogFit) -> dict[str, float]:
    """Return relative errors of generated mean, median and P99 busy nodes, by name."""
    return {
        f.name: f.generated / f.log - 1
        for f in fit.figures
        if f.name in TOLERANCES and f.log > 0 and f.generated is not None
    }


def worst_error(fit: JobLogFit) -> float:
    """Return the largest error of generated years in multiples of its tolerance."""
    return max(
        (
            abs(error) / TOLERANCES[name]
            for name, error in generated_errors(fit).items()
        ),
        default=0.0,
    )


def _generate_jobs(
    fit: JobLogFit, library: ProfileLibrary, n_days: int, n_nodes: int
) -> tuple[LoggedJobs, Float64Array]:
    """Return jobs generated by the fitted stream, and calendar weights of hours."""
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
        "scale_profiles": "by_tdp",  # the power is not used
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
    # The log is not read again, so that its import's node counts are kept
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


def _node_group_label(max_nodes: list[int], group: int) -> str:
    """Return the label of a statistic: the fraction of jobs in a node-count group.

    `max_nodes` has the largest node count of each group.
    """
    return f"share of jobs on {_range_text(max_nodes, group)}"


def _range_text(max_nodes: list[int], group: int) -> str:
    """Return a group of node counts as text, such as "2 to 4 nodes"."""
    if group == 0:
        return "1 node"
    return f"{max_nodes[group - 1] + 1} to {max_nodes[group]} nodes"


def _statistics(
    jobs: LoggedJobs, n_hours: int, weight: Float64Array, max_nodes: list[int]
) -> dict[str, list[float]]:
    """Return values of each statistic: for all jobs, then without each part of time."""
    result: dict[str, list[float]] = {}
    part_of_hour = np.arange(n_hours) * N_PARTS // n_hours
    part = part_of_hour[np.clip(jobs.submit_h.astype(np.int64), 0, n_hours - 1)]
    busy = hourly_busy_nodes(jobs, n_hours)

    def add(
        name: str,
        values: npt.NDArray[Any],
        part_index: Int64Array,
        figure: Callable[[npt.NDArray[Any]], float],
    ) -> None:
        rest = [values, *(values[part_index != k] for k in range(N_PARTS))]
        result[name] = [float(figure(x)) if x.size else float("nan") for x in rest]

    add(MEAN, busy, part_of_hour, np.mean)
    for name, level in ((MEDIAN, LEVELS[0]), (P99, LEVELS[-1])):
        add(name, busy, part_of_hour, partial(np.quantile, q=level))
    group = np.searchsorted(max_nodes, jobs.n_nodes)
    for k in np.unique(group).tolist():
        in_group = group == k
        add(_node_group_label(max_nodes, k), in_group, part, np.mean)
        for level in LEVELS:
            name = f"duration on {_range_text(max_nodes, k)}, P{100 * level:g} [h]"
            add(
                name,
                jobs.duration_h[in_group],
                part[in_group],
                partial(np.quantile, q=level),
            )
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
    """Return the hourly mean of requested nodes, if each job starts at submission."""
    edges = np.arange(n_hours + 1.0)
    node_hours = np.zeros(n_hours + 1)
    # Node hours until x: the sum of nodes * max(0, x - start), minus the same sum with
    # end times
    for sign, times in ((1.0, jobs.submit_h), (-1.0, jobs.submit_h + jobs.duration_h)):
        order = np.argsort(times, kind="stable")
        ordered, nodes = times[order], sign * jobs.n_nodes[order]
        upto = np.searchsorted(ordered, edges)
        begun, weighted_times = (
            np.append(0.0, np.cumsum(x))[upto] for x in (nodes, nodes * ordered)
        )
        node_hours += edges * begun - weighted_times
    return np.diff(node_hours)
