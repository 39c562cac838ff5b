"""Models of logged durations, compared with the distributions that the durations come
from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from diploee.fits.jobs.durations import (
    LEVEL_TOLERANCE,
    MAX_QUANTILES,
    fit_durations,
    fit_quantiles,
    ks_distance,
)
from diploee.scenario import DurationModel

TWO_PARTS = DurationModel.model_validate(
    {
        "lognormal": [
            {"weight": 0.4, "median_s": 30, "sigma": 0.6},
            {"weight": 0.6, "median_s": 5_000, "sigma": 1.1},
        ]
    }
)


def drawn(model: DurationModel, n: int, seed: int = 0) -> np.ndarray:
    return model.draw(np.random.default_rng(seed), n)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=300), st.integers(1, 40))
def test_quantiles_stay_near_any_durations(values_ms: list[int], copies: int) -> None:
    duration_s = np.repeat(values_ms, copies) / 1000
    model = fit_quantiles(duration_s)
    assert model.quantiles_s is not None
    assert len(model.quantiles_s) <= MAX_QUANTILES
    low, high = model.quantile([1e-9, 1 - 1e-9])
    np.testing.assert_allclose(
        [low, high], [duration_s.min(), duration_s.max()], rtol=1e-4
    )
    if len(model.quantiles_s) < MAX_QUANTILES and duration_s.size > 300:
        # A job's own step counts half on each side; levels and seconds are rounded.
        assert (
            ks_distance(duration_s, model)
            < LEVEL_TOLERANCE + 1 / duration_s.size + 1e-3
        )


@pytest.mark.parametrize("n", [2_000, 100_000])
def test_quantiles_of_many_jobs_keep_shares_and_mean(n: int) -> None:
    duration_s = drawn(TWO_PARTS, n)
    fit = fit_durations(duration_s)
    assert fit.ks_distance <= 1.5 * LEVEL_TOLERANCE
    assert fit.model_mean_s == pytest.approx(fit.mean_s, rel=0.01)


def test_a_few_distinct_durations_stay_what_they_are() -> None:
    fit = fit_durations(np.repeat([60.0, 600, 3_600], [50, 30, 20]))
    shares = fit.model.cdf([59, 61, 599, 601, 3_599, 3_601])
    np.testing.assert_allclose(shares, [0, 0.5, 0.5, 0.8, 0.8, 1], atol=0.011)


def test_distance_is_that_of_kolmogorov_and_smirnov() -> None:
    duration_s = drawn(TWO_PARTS, 400, seed=9)
    wanted = stats.kstest(duration_s, TWO_PARTS.cdf).statistic
    assert ks_distance(duration_s, TWO_PARTS) == pytest.approx(wanted, abs=1e-6)
