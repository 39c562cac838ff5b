"""A year of a fit gives the log again: node time, durations by width, scatter at all
scales."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

import numpy as np
import pytest
from builders import tiny_data, tiny_library
from fit_logs import HOUR_MS, MONDAY_MS, job_log, submissions

from diploee import generate_jobs
from diploee.fits.jobs.goodness_of_fit import hourly_busy_nodes, with_generated_years
from diploee.fits.jobs.job_log_fit import (
    JobLogFit,
    LoggedJobs,
    fit_job_log,
)
from diploee.fits.jobs.scenario_entry import job_stream
from diploee.scenario import ClassRule, scenario_from_dict

RULES = (ClassRule(workload="tune"),)
WIDTHS = {
    1: 0.4,
    2: 0.15,
    3: 0.03,
    4: 0.12,
    6: 0.02,
    8: 0.1,
    12: 0.03,
    16: 0.09,
    32: 0.05,
    64: 0.01,
}
N_WEEKS = 52
WEEK_H = 168


@cache
def made(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Submissions [ms], widths and durations [s] of a year.

    Wide jobs run long, one in fourteen submissions of narrow ones is an array with run
    times of its own, and hours, days and weeks differ at random.
    """
    rng = np.random.default_rng(seed)
    by_hour = 1 + 0.6 * np.sin((np.arange(24) - 6) / 24 * 2 * np.pi)
    by_day = [1.1, 1.2, 1.2, 1.1, 1.0, 0.5, 0.4]
    rate = 8 * np.tile(np.outer(by_day, by_hour).ravel(), N_WEEKS)
    for variance, length in ((0.5, 1), (0.2, 24), (0.05, WEEK_H)):
        rate *= np.repeat(
            rng.gamma(1 / variance, variance, rate.size // length), length
        )
    at_ms = submissions(rng.poisson(rate), rng)
    n_nodes = rng.choice(list(WIDTHS), at_ms.size, p=list(WIDTHS.values()))
    is_array = (rng.random(at_ms.size) < 0.1) & (n_nodes <= 4)
    size = np.where(is_array, 2 + rng.geometric(1 / 30, at_ms.size), 1)
    run_s = np.where(is_array, 200, 600 * np.sqrt(n_nodes))
    run_s = run_s * rng.lognormal(0, np.where(is_array, 0.8, 1.3))
    within = np.where(is_array, 0.1, 0.0).repeat(size)
    duration_s = run_s.repeat(size) * rng.lognormal(0, within)
    return at_ms.repeat(size), n_nodes.repeat(size), np.maximum(duration_s, 0.001)


def test_busy_nodes_are_those_of_a_sum_job_by_job() -> None:
    rng = np.random.default_rng(0)
    jobs = LoggedJobs(
        rng.uniform(0, 30, 50), rng.integers(1, 9, 50), rng.lognormal(0, 2, 50)
    )
    end_h = jobs.submit_h + jobs.duration_h
    wanted = [
        (
            jobs.n_nodes
            * np.clip(np.minimum(end_h, k + 1) - np.maximum(jobs.submit_h, k), 0, 1)
        ).sum()
        for k in range(24)
    ]
    np.testing.assert_allclose(hourly_busy_nodes(jobs, 24), wanted, atol=1e-9)


@pytest.mark.slow
def test_log_fragment_and_year_are_side_by_side_and_differences_are_reported() -> None:
    log = job_log(MONDAY_MS + np.arange(0, 8 * WEEK_H, 2) * HOUR_MS + 7, 3, 3_600)
    fit = with_generated_years(fit_job_log(log, RULES, tiny_library()), tiny_library())
    figures = {figure.name: figure for figure in fit.figures}
    busy = figures["busy nodes, mean"]
    assert (busy.log, busy.fragment) == (
        pytest.approx(1.5, rel=0.01),
        pytest.approx(1.5, rel=0.01),
    )
    assert busy.generated == pytest.approx(1.5, rel=0.1)
    assert figures["share of jobs on 2 to 4 nodes"].generated == 1
    # One job every other hour is more regular than Poisson submissions can be.
    hours = figures["variance over mean of hours"]
    assert hours.high < hours.generated == pytest.approx(1, abs=0.1)
    table = fit.sections()[0].tables[0]
    assert table.rows["variance over mean of hours"]["differs"].value == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_generated_year_is_like_the_log_within_its_own_sampling_error(
    seed: int,
) -> None:
    allowed = {
        "busy nodes, mean": 0.02,
        "busy nodes, P99 of hours": 0.1,
        "variance": 0.25,
    }
    # Weeks differ by node time
    allowed = {"variance over mean of weeks": 0.6} | allowed
    at_ms, n_nodes, duration_s = made(seed)
    fit = fit_job_log(
        job_log(at_ms, n_nodes, duration_s), RULES, tiny_library(), months=False
    )
    assert fit.arrivals.dispersion == pytest.approx(0.5, rel=0.2)
    weeks = fit.arrivals.weeks
    assert weeks is not None
    # Weeks that are not significant are within the days' variance
    of_weeks = weeks.relative_std**2 if weeks.is_significant else 0.0
    assert (fit.arrivals.day_dispersion or 0) + of_weeks == pytest.approx(
        0.25, rel=0.25
    )
    figures = with_generated_years(fit, tiny_library()).figures
    assert len(figures) == 3 + 4 * 4 + 3
    for figure in figures:
        near = next(
            (v for key, v in allowed.items() if figure.name.startswith(key)), 0.05
        )
        error = (figure.high - figure.low) / 2
        assert abs(figure.generated - figure.log) <= max(near * figure.log, error), (
            figure.name
        )
        if figure.name == "busy nodes, mean":
            assert figure.fragment == pytest.approx(figure.log, rel=0.02)


def generated_busy(fit: JobLogFit, seed: int) -> np.ndarray:
    given = {"start": "2018-01-01", "duration": f"{N_WEEKS // 2} weeks", "seed": seed}
    data = tiny_data(given | {"facility.pools.main.n_nodes": 64})
    data |= {"streams": {"jobs": job_stream(fit, "main")}}
    jobs = generate_jobs(scenario_from_dict(data), tiny_library()).jobs
    on_clock = LoggedJobs(
        jobs.submit_ms / HOUR_MS, jobs.n_nodes, jobs.duration_ms / HOUR_MS
    )
    return hourly_busy_nodes(on_clock, N_WEEKS // 2 * WEEK_H)[WEEK_H:].reshape(
        -1, WEEK_H
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_half_of_a_log_predicts_the_busy_nodes_of_the_other_half(seed: int) -> None:
    at_ms, n_nodes, duration_s = made(seed)
    middle = datetime(2018, 1, 1) + timedelta(weeks=N_WEEKS // 2)
    fit = fit_job_log(
        job_log(at_ms, n_nodes, duration_s), RULES, tiny_library(), end=middle
    )
    low, high = np.quantile(
        np.concatenate([generated_busy(fit, k) for k in range(3)]), [0.05, 0.95], axis=0
    )
    jobs = LoggedJobs((at_ms - MONDAY_MS) / HOUR_MS, n_nodes, duration_s / 3_600)
    seen = hourly_busy_nodes(jobs, N_WEEKS * WEEK_H).reshape(-1, WEEK_H)[N_WEEKS // 2 :]
    inside = ((low <= seen) & (seen <= high)).mean()
    assert 0.85 <= inside <= 0.95
