"""When the jobs of an observed load were submitted, by non-negative least squares.

The busy nodes of a facility without queueing are linear in the rate of submissions: the
rate of every hour times what the mean job keeps busy in the hours after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.signal import fftconvolve

from diploee.base.errors import Brief, WorkloadError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import (
    HOURS_PER_DAY,
    HOURS_PER_WEEK,
    MONTHS_PER_YEAR,
    MS_PER_H,
    MS_PER_S,
    S_PER_H,
)
from diploee.fits.calendar import DAYS_OF_MONTH, wants_months
from diploee.fits.limits import jackknife_error
from diploee.importers.inputs import load_inputs
from diploee.loads.jobs.rates import hour_of_week, line_through_means, month_of_year
from diploee.loads.jobs.streams import JobStreams
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.models import Scenario

PARTS_PER_H = 12
"""Parts of an hour by which a line of rates is followed; an even number, as it bends
midway."""

MIN_WEEKS = 2
MOST_BLOCKS = 52
MAX_ROUNDS = 20
TOLERANCE = 1e-5
_STEP = 1e-6

_LEVELS, _START_LEVELS = ((np.arange(n) + 0.5) / n for n in (4_096, 64))
_LONGEST_H = 28 * HOURS_PER_DAY
_REST = 1e-3
"""Share of the mean job's node time that may lie beyond the hours that are looked at."""  # noqa: E501

_RIDGE = 1e-10
"""Keeps the equations solvable where the load of two hours can't be distinguished."""


@dataclass(frozen=True, eq=False)
class RecoveredWeights(Brief):
    """Submissions recovered from an observed load, with jackknife limits."""

    # Weights of the hours of the week, Monday 00:00 first, mean 1; and their limits
    hour_of_week: Float64Array
    hour_of_week_low: Float64Array
    hour_of_week_high: Float64Array
    # Of the months, mean 1 over 365 days; None where not covered
    month: Float64Array | None
    # Mean daily count over a week and a year, and its limits
    jobs_per_day: float
    jobs_per_day_low: float
    jobs_per_day_high: float
    fitted: Float64Array  # busy nodes of each hour of the load, as the rates give them
    # First hour that was fitted; those before may hold jobs from before the load
    first: int


def mean_job(scenario: Scenario, library: ProfileLibrary) -> Float64Array:
    """Return what the mean job of a scenario's mix keeps busy after its submission.

    Parameters
    ----------
    scenario : Scenario
        Its only stream gives the mix of jobs and their start-up times.
    library : ProfileLibrary
        Power profiles of the jobs; they last as long where the mix draws no durations.

    Returns
    -------
    ndarray
        Busy nodes in the part of an hour (of `PARTS_PER_H`) in which a job is
        submitted, at any moment of it, and in those that follow, while the job starts
        at once.

    Raises
    ------
    WorkloadError
        If the scenario has other streams, or its stream replays a log.
    """
    streams = [*scenario.streams.values()]
    others = scenario.request_streams or scenario.replica_streams
    if len(streams) != 1 or others or streams[0].replay is not None:
        raise WorkloadError(
            f"scenario '{scenario.name}': expected one stream of jobs with mix or "
            "classes and no other, as the load can't be shared out; leave others and "
            "replays out"
        )
    n_gpus, startup = (
        scenario.facility.node_type_of(streams[0].pool).n_gpus,
        streams[0].startup,
    )
    jobs = JobStreams(scenario, load_inputs(scenario, library))
    classes, profiles = jobs.classes, jobs.library
    busy_s, weights = [], []
    for c in classes:
        job = c.job_class
        of_class = np.array([profiles[k].duration_ms / MS_PER_S for k in c.profile_ids])
        if job.duration is not None:
            of_class = job.duration.quantile(_LEVELS)
        if startup is not None:
            of_class = np.add.outer(of_class, startup.quantile(_START_LEVELS)).ravel()
        n_nodes = (
            job.n_nodes if job.n_gpus is None else job.n_nodes * job.n_gpus / n_gpus
        )
        busy_s.append(of_class)
        weights.append(
            np.full(of_class.size, job.probability * n_nodes / of_class.size)
        )
    order = np.argsort(times := np.concatenate(busy_s))
    # A job of duration D has used min(D, t) by time t, and the integral of that up to t
    # is D t - D^2 / 2 from its end on and t^2 / 2 before. Second differences of the
    # mean over jobs are means over the part of the submission and over the part that is
    # observed.
    run_s, weight = times[order], np.concatenate(weights)[order]
    ended = [np.append(0.0, np.cumsum(weight * x)) for x in (1.0, run_s, run_s**2 / 2)]
    at_s = np.arange(_LONGEST_H * PARTS_PER_H + 1) * (S_PER_H / PARTS_PER_H)
    upto = np.searchsorted(run_s, at_s)
    share, linear, square = (x[upto] for x in ended)
    used = at_s * linear - square + (ended[0][-1] - share) * at_s**2 / 2
    parts = np.diff(np.append(0.0, used), 2) / at_s[1] ** 2
    lasting = np.cumsum(parts) * at_s[1] < (1 - _REST) * ended[1][-1]
    return np.asarray(parts[: -(-int(lasting.sum() + 1) // PARTS_PER_H) * PARTS_PER_H])


def expected_load(rate_per_h: Float64Array, job: Float64Array) -> Float64Array:
    """Return the mean busy nodes of each hour at a scenario's lines of rates."""
    nodes_ms, rates = line_through_means(
        np.arange(rate_per_h.size + 1) * MS_PER_H, rate_per_h
    )
    edges_ms = np.arange(rate_per_h.size * PARTS_PER_H + 1) * (MS_PER_H // PARTS_PER_H)
    line = np.interp(edges_ms, nodes_ms, rates)
    of_parts = (line[1:] + line[:-1]) / 2 / PARTS_PER_H
    load = fftconvolve(of_parts, job)[: of_parts.size]
    return np.asarray(load.reshape(-1, PARTS_PER_H).mean(axis=1))


def recover_weights(
    busy_nodes: Float64Array,
    first_hour: np.datetime64,
    job: Float64Array,
    months: bool | None = None,
    confidence: float = 0.95,
) -> RecoveredWeights:
    """Recover when jobs were submitted from the load that they caused.

    The first hours, as many as the mix's jobs run, are left out: jobs from before may
    run in them. The facility should not have been full: jobs that queue are seen late.

    Parameters
    ----------
    busy_nodes : ndarray
        Mean busy nodes of each clock hour: utilization times nodes, or power above that
        of an idle facility over that of a busy node.
    first_hour : datetime64
        The first of them, local time.
    job : ndarray
        What `mean_job` returns.
    months : bool, optional
        Recover weights of the months; by default where the load covers all twelve.
    confidence : float
        Level of the limits, 0-1; weeks are taken as independent.

    Returns
    -------
    RecoveredWeights
        Weights and daily count.

    Raises
    ------
    WorkloadError
        If the load is too short, has gaps, is nowhere above 0, or lacks months that
        were asked for.
    """
    n, first = busy_nodes.size, job.size // PARTS_PER_H + 1
    if n - first < MIN_WEEKS * HOURS_PER_WEEK:
        raise WorkloadError(
            f"a load of {n / HOURS_PER_DAY:.1f} days, of which the first "
            f"{first / HOURS_PER_DAY:.1f} may hold jobs from before; expected at least "
            f"{MIN_WEEKS} weeks besides; give a longer one"
        )
    if not (np.isfinite(busy_nodes).all() and (busy_nodes[first:] > 0).any()):
        raise WorkloadError(
            "a load without busy nodes, or with gaps; give the busy nodes of every "
            "hour, fill gaps"
        )
    hours = first_hour.astype("datetime64[h]") + np.arange(n, dtype="timedelta64[h]")
    slot, month = hour_of_week(hours), month_of_year(hours)
    with_months = wants_months(month[first:], np.ones(n - first), months)
    of_month, rate, seen = np.ones(MONTHS_PER_YEAR), np.ones(n), busy_nodes[first:]
    for _ in range(MAX_ROUNDS):
        before, by_week = rate, _design(rate, slot, of_month[month], job)[first:]
        of_week = _solved(by_week, seen)
        rate = of_week[slot] * of_month[month]
        if with_months:
            of_month = _solved(_design(rate, month, of_week[slot], job)[first:], seen)
            rate = of_week[slot] * of_month[month]
        if np.abs(rate - before).max() <= TOLERANCE * rate.max():
            break
    n_weeks = -(-(n - first) // HOURS_PER_WEEK)
    block = np.arange(n - first) // (HOURS_PER_WEEK * -(-n_weeks // MOST_BLOCKS))
    without = np.stack(
        [_solved(by_week[block != k], seen[block != k]) for k in range(block[-1] + 1)]
    )
    year = float(of_month @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())
    mean, means = float(of_week.mean()), without.mean(axis=1)
    z = float(special.stdtrit(len(without) - 1, (1 + confidence) / 2))
    half = z * jackknife_error(without / means[:, None])
    per_day, half_day = (
        x * year * HOURS_PER_DAY for x in (mean, z * float(jackknife_error(means)))
    )
    return RecoveredWeights(
        hour_of_week=of_week / mean,
        hour_of_week_low=np.maximum(of_week / mean - half, 0.0),
        hour_of_week_high=of_week / mean + half,
        month=of_month / year if with_months else None,
        jobs_per_day=per_day,
        jobs_per_day_low=max(0.0, per_day - half_day),
        jobs_per_day_high=per_day + half_day,
        fitted=expected_load(rate, job),
        first=first,
    )


def _design(
    rate: Float64Array, group: Int64Array, factor: Float64Array, job: Float64Array
) -> Float64Array:
    """Return what each group's rate adds to each hour's load, (n, n_groups).

    Lines are linear in the rates but for which of two hours sets the rate at their
    edge: that is as at the given rates.
    """
    load, step = expected_load(rate, job), _STEP * float(rate.mean())
    more = (rate + step * factor * (group == k) for k in range(int(group.max()) + 1))
    return np.column_stack([(expected_load(x, job) - load) / step for x in more])


def _solved(design: Float64Array, seen: Float64Array) -> Float64Array:
    """Return the rates, 0 or more, that explain a load best."""
    squares = design.T @ design
    # With A^T A = L L^T, |A x - b|^2 = |L^T x - L^-1 A^T b|^2 + what x does not change.
    ridge = _RIDGE * float(squares.trace()) * np.eye(squares.shape[0])
    lower = np.linalg.cholesky(squares + ridge)
    return np.asarray(
        nnls(lower.T, solve_triangular(lower, design.T @ seen, lower=True))[0]
    )
