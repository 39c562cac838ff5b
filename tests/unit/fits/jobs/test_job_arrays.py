"""Jobs that were submitted together are found in a log, and what chance brings together
is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import tiny_library
from fit_logs import HOUR_MS, MONDAY_MS, job_log, submissions
from hypothesis import given
from hypothesis import strategies as st

from diploee.fits.jobs.class_fits import (
    find_arrays,
    is_in_array,
    run_time_correlation,
    size_shares,
)
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.scenario import ClassRule

N_HOURS = 8 * 168


def arrays_and_others(
    seed: int = 0, noise: float = 0.3
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Submissions, widths, durations and array of jobs: one in ten submissions is an
    array."""
    rng = np.random.default_rng(seed)
    at_ms = submissions(rng.poisson(4.0, N_HOURS), rng)
    size = np.where(rng.random(at_ms.size) < 0.1, 2 + rng.poisson(18, at_ms.size), 1)
    median_s = np.where(size > 1, 100 * rng.lognormal(0, 1, size.size), 5_000.0)
    array = np.repeat(np.arange(at_ms.size), size)
    duration_s = median_s[array] * rng.lognormal(0, noise, array.size)
    n_nodes = rng.choice([1, 4], at_ms.size)[array]
    return at_ms[array], n_nodes, np.maximum(duration_s, 0.001), array


def test_a_fit_finds_arrays_their_sizes_and_their_run_times() -> None:
    at_ms, n_nodes, duration_s, array = arrays_and_others()
    log, rules = job_log(at_ms, n_nodes, duration_s), [ClassRule(workload="tune")]
    fit = fit_job_log(log, rules, tiny_library())
    assert fit.n_submissions == pytest.approx(array.max() + 1, rel=0.01)
    for c in fit.classes:
        own = n_nodes == c.n_nodes
        together = own & is_in_array(array)
        arrays = c.arrays
        assert arrays is not None and arrays.duration is not None
        assert c.duration is not None
        assert arrays.job_share == pytest.approx(together.sum() / own.sum(), abs=0.01)
        assert arrays.mean_size == pytest.approx(20, abs=1)
        assert arrays.run_time_correlation == pytest.approx(1 / (1 + 0.3**2), abs=0.05)
        for mean_s, of, within in (
            (arrays.duration.mean_s(), together, 0.03),
            (c.duration.mean_s, own & ~together, 0.02),
            (c.model_mean_s, own, 2e-3),
        ):
            assert mean_s == pytest.approx(duration_s[of].mean(), rel=within)
    # Bursts are arrays, not hours that differ.
    assert fit.arrivals.dispersion is None
    assert fit.arrivals.jobs_per_day == pytest.approx(
        24 * at_ms.size / N_HOURS, rel=0.01
    )


def test_stamps_of_whole_minutes_and_chance_make_no_arrays() -> None:
    rng = np.random.default_rng(1)
    # One job in four has another in its second
    at_ms = submissions(np.full(24, 1_000), rng)
    for stamps in (at_ms, at_ms // 60_000 * 60_000):
        log = job_log(stamps)
        class_of = np.zeros(stamps.size, dtype=np.int16)
        found = find_arrays(log.jobs, class_of, 24 * HOUR_MS)
        assert np.unique(found).size == stamps.size


def test_jobs_together_have_one_width_and_one_second() -> None:
    at_ms = MONDAY_MS + np.array([1, 2, 900, 950, 5_000, 5_001, 9_999_999])
    log = job_log(at_ms, [1, 2, 1, 2, 1, 1, 1])
    class_of = np.zeros(7, dtype=np.int16)
    assert find_arrays(log.jobs, class_of, 1e9).tolist() == [0, 1, 0, 1, 4, 4, 6]
    # Users part jobs of one second, and join those of some seconds.
    jobs = replace(log.jobs, user_id=np.array([1, 1, 2, 1, 2, 2, 2], dtype=np.int32))
    assert find_arrays(jobs, class_of, 1e9).tolist() == [0, 1, 2, 1, 2, 2, 6]


def test_arrays_are_found_by_stamps_of_whole_minutes_if_they_are_more_than_chance() -> (
    None
):
    at_ms, n_nodes, duration_s, array = arrays_and_others()
    log = job_log(at_ms // 60_000 * 60_000, n_nodes, duration_s)
    class_of = np.zeros(at_ms.size, dtype=np.int16)
    found = find_arrays(log.jobs, class_of, N_HOURS * HOUR_MS)
    assert np.unique(found).size == pytest.approx(array.max() + 1, rel=0.05)


@given(st.lists(st.integers(2, 5_000), min_size=1, max_size=200))
def test_joined_sizes_keep_the_mean_of_the_arrays(sizes: list[int]) -> None:
    shares = size_shares(np.repeat(np.arange(len(sizes)), sizes))
    assert sum(shares.values()) == pytest.approx(1)
    mean = sum(size * share for size, share in shares.items())
    assert mean == pytest.approx(np.mean(sizes), rel=0.05)
    assert len(shares) < 40


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_run_times_within_arrays_correlate_as_they_were_drawn(noise: float) -> None:
    rng = np.random.default_rng(2)
    array = np.repeat(np.arange(2_000), 5)
    duration_s = np.exp(
        rng.standard_normal(2_000)[array] + noise * rng.standard_normal(10_000)
    )
    wanted = 1 / (1 + noise**2)
    assert run_time_correlation(duration_s, array) == pytest.approx(wanted, abs=0.03)
    assert run_time_correlation(np.ones(10), np.arange(10) // 2) == 1.0
