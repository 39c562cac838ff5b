"""Jobs that come in arrays, and days that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from scipy import stats

from diploee.errors import ScenarioError
from diploee.scenario import JobArrays
from diploee.schedule.context import JobTable
from diploee.steps import generate_jobs

SHORT = {"lognormal": [{"weight": 1.0, "median_s": 60, "sigma": 1.0}]}
LONG = {"lognormal": [{"weight": 1.0, "median_s": 6_000, "sigma": 0.5}]}
SIZES = {2: 0.5, 20: 0.4, 100: 0.1}


def drawn(arrays: dict[str, Any] | None, changes: dict[str, Any] | None = None) -> JobTable:
    one = {"workload": "draw", "n_nodes": 1, "probability": 0.8, "duration": LONG}
    if arrays is not None:
        one["arrays"] = {"job_share": 0.5, "sizes": SIZES} | arrays
    other = {"workload": "tune", "n_nodes": 2, "probability": 0.2, "duration": SHORT}
    given = {
        "duration": "100 d",
        "streams.training.classes": [one, other],
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 500,
    }
    return generate_jobs(tiny_scenario(given | (changes or {})), tiny_library()).jobs


def sizes_of(jobs: JobTable) -> np.ndarray:
    """Number of jobs of the class with arrays that are submitted with each of them."""
    one = jobs.submit_ms[jobs.n_nodes == 1]
    _, inverse, counts = np.unique(one, return_inverse=True, return_counts=True)
    return counts[inverse]


@pytest.mark.slow
def test_jobs_of_arrays_have_their_share_and_sizes_and_the_count_of_jobs_stays() -> None:
    jobs = drawn({})
    assert len(jobs) == pytest.approx(50_000, rel=0.1)
    assert (jobs.n_nodes == 1).mean() == pytest.approx(0.8, abs=0.04)
    sizes = sizes_of(jobs)
    assert (sizes > 1).mean() == pytest.approx(0.5, abs=0.06)
    n_arrays = np.array([(sizes == size).sum() / size for size in SIZES])
    assert np.abs(n_arrays / n_arrays.sum() - list(SIZES.values())).max() < 0.06
    assert JobArrays(job_share=0.5, sizes=SIZES).mean_size == pytest.approx(19)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.6, pytest.param(1.0, marks=pytest.mark.slow)])
def test_run_times_are_alike_within_an_array_as_far_as_asked(correlation: float) -> None:
    jobs = drawn({"run_time_correlation": correlation, "duration": SHORT})
    one = jobs.take(jobs.n_nodes == 1)
    pairs = np.flatnonzero((np.diff(one.submit_ms) == 0) & (np.diff(sizes_of(jobs)) == 0))
    score = np.log(one.duration_ms / 60_000)  # normal, standard deviation 1
    found = np.mean(score[pairs] * score[pairs + 1])
    assert found == pytest.approx(correlation, abs=0.15)
    alone = one.duration_ms[sizes_of(jobs) == 1] / 1000
    assert np.median(alone) == pytest.approx(6_000, rel=0.05)


@pytest.mark.slow
def test_a_target_is_met_with_arrays_as_without() -> None:
    target = {
        "streams.training.target_utilization": 0.6,
        "streams.training.jobs_per_day": None,
        "facility.pools.main.n_nodes": 60,
    }
    jobs = drawn({}, target)
    node_s = (jobs.n_nodes * np.minimum(jobs.duration_ms, 100 * 86_400_000 - jobs.submit_ms)).sum()
    assert node_s / (60 * 100 * 86_400_000) == pytest.approx(0.6, abs=2e-3)


@pytest.mark.slow
def test_days_that_differ_have_the_variance_asked_for_and_hours_none_of_their_own() -> None:
    jobs = drawn(None, {"streams.training.day_dispersion": 0.25, "duration": "2 years"})
    per_day = np.bincount(jobs.submit_ms // 86_400_000, minlength=730)
    assert (per_day.var() - per_day.mean()) / 500**2 == pytest.approx(0.25, rel=0.25)
    per_hour = np.bincount(jobs.submit_ms // 3_600_000, minlength=730 * 24).reshape(730, 24)
    within = ((per_hour - per_day[:, None] / 24) ** 2).sum() / per_hour.sum() * 24 / 23
    assert stats.chi2.cdf(within * 23 * 730, 23 * 730) == pytest.approx(0.5, abs=0.499)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"sizes": {2: 0.5}}, "sizes of arrays.*sum to 1"),
        ({"sizes": {1: 1.0}}, "greater than or equal to 2|at least 2|2 or more"),
        ({"job_share": 0}, "job_share"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(arrays: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        drawn(arrays)
    bare = {"workload": "draw", "n_nodes": 1, "probability": 1}
    bare["arrays"] = {"job_share": 1, "sizes": {2: 1}, "duration": SHORT}
    with pytest.raises(ScenarioError, match=r"arrays\.duration needs duration"):
        tiny_scenario({"streams.training.classes": [bare]})
