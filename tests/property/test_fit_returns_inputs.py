"""Fitting a log that the program itself generated returns what the scenario asked for.

Limits are of 95 %, so that of many true values about 95 % must lie within them: neither
far fewer (limits too narrow) nor, over many logs, all (limits that say nothing).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario

from diploee import generate_jobs
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.loads.import_counts import ImportCounts
from diploee.loads.jobs.job_log import MISSING_MS, STATES, JobLog, JobRecords
from diploee.scenario import ClassRule, Scenario, load_scenario
from diploee.schedule.job_table import JobTable

N_WEEKS = 16
JOBS_PER_DAY = 1_500.0
DISPERSION = 0.8
SEEDS = range(3)
RULES = (
    ClassRule(workload="draw", max_nodes=1),
    ClassRule(workload="tune", min_nodes=2),
)


def as_log(jobs: JobTable, scenario: Scenario) -> JobLog:
    """The jobs as a scheduler in the scenario's zone would have logged them."""
    n = len(jobs)
    begin_ms = int(np.datetime64(scenario.start, "ms").astype(np.int64))
    offset_min = int(scenario.facility.zone.utcoffset(None).total_seconds() // 60)
    records = JobRecords(
        submit_ms=jobs.submit_ms + begin_ms - offset_min * 60_000,
        start_ms=np.full(n, MISSING_MS),
        duration_ms=jobs.duration_ms,
        n_nodes=jobs.n_nodes,
        n_gpus=np.full(n, np.nan),
        state_id=np.full(n, STATES.index("completed")),
        type_id=np.zeros(n),
        energy_j=np.full(n, np.nan),
    )
    names = tuple(map(str, range(n)))
    counts = ImportCounts(n, n)
    return JobLog("own.csv", "csv", records, names, ("",), offset_min, False, counts)


def week() -> np.ndarray:
    weights = np.array(
        load_scenario("colocation_10mw").streams["training"].calendar.week_weights()
    )
    return weights / weights.mean()


@cache
def fitted(
    seed: int,
    dispersion: float | None,
    weights: tuple[float, ...] = tuple(week().tolist()),
    jobs_per_day: float = JOBS_PER_DAY,
) -> JobLogFit:
    scenario = tiny_scenario(
        {
            "start": "2018-01-01",
            "duration": f"{N_WEEKS} weeks",
            "seed": seed,
            "facility.utc_offset": "-07:00",
            "streams.training.target_utilization": None,
            "streams.training.jobs_per_day": jobs_per_day,
            "streams.training.calendar": {"hour_of_week": list(weights)},
        }
        | ({"streams.training.dispersion": dispersion} if dispersion else {})
    )
    log = as_log(generate_jobs(scenario, tiny_library()).jobs, scenario)
    return fit_job_log(
        log,
        RULES,
        tiny_library(),
        start=scenario.start,
        end=scenario.start
        + np.timedelta64(N_WEEKS, "W").astype("timedelta64[s]").item(),
    )


both = pytest.mark.parametrize(
    "dispersion", [None, DISPERSION], ids=["poisson", "gamma"]
)


@both
def test_weights_of_the_week_lie_within_their_limits(dispersion: float | None) -> None:
    positive, inside = week() > 0, 0
    for seed in SEEDS:
        arrivals = fitted(seed, dispersion).arrivals
        low, high = arrivals.week_low[positive], arrivals.week_high[positive]
        inside += int(((low <= week()[positive]) & (week()[positive] <= high)).sum())
        assert arrivals.calendar.week_weight[~positive].max() < 0.2
    n = len(SEEDS) * int(positive.sum())
    # A coarser calendar, taken where it predicts as well, is a little off: limits do
    # not tell that.
    assert 0.85 < inside / n < 1


@both
def test_fitted_calendar_generated_and_fitted_again_lies_within_its_limits(
    dispersion: float | None,
) -> None:
    once = fitted(0, dispersion).arrivals
    weights = once.calendar.week_weight
    again = fitted(7, dispersion, tuple(weights.tolist()), once.jobs_per_day).arrivals
    found, busy = again.calendar.week_weight, weights > 0.02
    inside = (once.week_low <= found) & (found <= once.week_high)
    assert inside[busy].mean() > 0.9
    assert once.jobs_per_day_low <= again.jobs_per_day <= once.jobs_per_day_high


@both
def test_daily_count_lies_within_its_limits(dispersion: float | None) -> None:
    fits = [fitted(seed, dispersion).arrivals for seed in SEEDS]
    inside = [
        fit.jobs_per_day_low <= JOBS_PER_DAY <= fit.jobs_per_day_high for fit in fits
    ]
    assert sum(inside) >= len(SEEDS) - 1
    assert all(fit.jobs_per_day_high / fit.jobs_per_day_low < 1.2 for fit in fits)


def test_poisson_submissions_are_distinguished_from_over_dispersed_ones() -> None:
    around_one = 0
    for seed in SEEDS:
        poisson, gamma = fitted(seed, None).arrivals, fitted(seed, DISPERSION).arrivals
        assert poisson.dispersion is None
        assert poisson.scatter is not None and poisson.scatter.index_low < 1.1
        around_one += poisson.scatter.index_low <= 1 <= poisson.scatter.index_high
        assert gamma.dispersion is not None
        assert gamma.scatter is not None and gamma.scatter.index_low > 10
    # The limits hold in 95 of 100 cases.
    assert around_one >= len(SEEDS) - 1


def test_dispersion_is_recovered_within_its_limits() -> None:
    scatters = [fitted(seed, DISPERSION).arrivals.scatter for seed in SEEDS]
    inside = [s is not None and s.low <= DISPERSION <= s.high for s in scatters]
    assert sum(inside) >= len(SEEDS) - 1
    assert all(s is not None and s.high < 2 * s.low for s in scatters)


@both
def test_classes_and_node_counts_lie_within_their_limits(
    dispersion: float | None,
) -> None:
    wanted = {("tune", 2): 0.5, ("tune", 4): 0.25, ("draw", 1): 0.25}
    inside = 0
    for seed in SEEDS:
        fit = fitted(seed, dispersion)
        assert {(c.workload, c.n_nodes) for c in fit.classes} == set(wanted)
        for c in fit.classes:
            inside += c.low <= wanted[c.workload, c.n_nodes] <= c.high
            assert c.high - c.low < 0.03
        assert fit.node_counts.n_nodes.tolist() == [1, 2, 4]
        np.testing.assert_allclose(fit.node_counts.share.sum(), 1)
    assert inside >= 3 * len(SEEDS) - 2


def test_durations_are_those_of_the_profiles() -> None:
    """Classes with one profile have one duration, the others both, half of the jobs
    each."""
    by_size = {c.n_nodes: c.duration for c in fitted(0, None).classes}
    wanted = {1: [5_400, 5_400], 2: [1_800, 2_000], 4: [1_000, 1_000]}
    for n_nodes, duration_s in wanted.items():
        fit = by_size[n_nodes]
        assert fit is not None
        np.testing.assert_allclose(fit.model.quantile([0.4, 0.6]), duration_s)
        assert fit.ks_distance < 0.005
        assert abs(fit.model_mean_s / fit.mean_s - 1) < 0.001


def test_weights_of_the_months_lie_within_their_limits() -> None:
    month = np.array([1.4, 0.6, 0.8, 1.0, 1.2, 1.5, 0.7, 0.9, 1.1, 1.0, 0.5, 1.3])
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    month /= month @ days / 365
    scenario = tiny_scenario(
        {
            "start": "2018-01-01",
            "duration": "1 year",
            "streams.training.target_utilization": None,
            "streams.training.jobs_per_day": 400,
            "streams.training.calendar": {
                "hour_of_week": week().tolist(),
                "month": month.tolist(),
            },
        }
    )
    fit = fit_job_log(
        as_log(generate_jobs(scenario, tiny_library()).jobs, scenario),
        RULES,
        tiny_library(),
        durations="profile",
    ).arrivals
    assert fit.calendar.month_weight is not None
    assert fit.month_low is not None and fit.month_high is not None
    inside = (fit.month_low <= month) & (month <= fit.month_high)
    assert inside.sum() >= 11
    np.testing.assert_allclose(fit.calendar.month_weight @ days / 365, 1)
    assert fit.jobs_per_day_low <= 400 <= fit.jobs_per_day_high
    assert fit.dispersion is None
