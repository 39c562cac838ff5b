"""Models of logged durations, compared with the distributions that the durations come from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from diploee.learn.jobs.durations import (
    LEVEL_TOLERANCE,
    MAX_QUANTILES,
    fit_durations,
    fit_lognormals,
    fit_quantiles,
    ks_distance,
)
from diploee.normal_mixture import Mixture, expectation_maximisation
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
    np.testing.assert_allclose([low, high], [duration_s.min(), duration_s.max()], rtol=1e-4)
    if len(model.quantiles_s) < MAX_QUANTILES and duration_s.size > 300:
        # A job's own step counts half on each side; levels and seconds are rounded.
        assert ks_distance(duration_s, model) < LEVEL_TOLERANCE + 1 / duration_s.size + 1e-3


@pytest.mark.parametrize("n", [2_000, 100_000])
def test_quantiles_of_many_jobs_keep_shares_and_mean(n: int) -> None:
    duration_s = drawn(TWO_PARTS, n)
    fit = fit_durations(duration_s, "quantiles", np.random.default_rng(0))
    assert fit.ks_distance <= 1.5 * LEVEL_TOLERANCE
    assert fit.model_mean_s == pytest.approx(fit.mean_s, rel=0.01)
    assert fit.ks_p_value is None


def test_a_few_distinct_durations_stay_what_they_are() -> None:
    fit = fit_durations(
        np.repeat([60.0, 600, 3_600], [50, 30, 20]), "quantiles", np.random.default_rng()
    )
    shares = fit.model.cdf([59, 61, 599, 601, 3_599, 3_601])
    np.testing.assert_allclose(shares, [0, 0.5, 0.5, 0.8, 0.8, 1], atol=0.011)


def test_expectation_maximisation_recovers_a_mixture() -> None:
    n = 20_000
    fit = fit_lognormals(drawn(TWO_PARTS, n))
    assert fit.lognormal is not None and TWO_PARTS.lognormal is not None
    assert len(fit.lognormal) == 2
    for found, wanted in zip(fit.lognormal, TWO_PARTS.lognormal, strict=True):
        error = wanted.sigma / np.sqrt(n * wanted.weight)
        assert abs(np.log(found.median_s / wanted.median_s)) < 5 * error
        assert abs(found.sigma - wanted.sigma) < 5 * error
        assert abs(found.weight - wanted.weight) < 5 * np.sqrt(0.24 / n)


@pytest.mark.parametrize("seed", range(3))
def test_one_lognormal_needs_one_part(seed: int) -> None:
    single = DurationModel.model_validate(
        {"lognormal": [{"weight": 1, "median_s": 700, "sigma": 1.3}]}
    )
    fit = fit_lognormals(drawn(single, 3_000, seed))
    assert fit.lognormal is not None and len(fit.lognormal) == 1


def test_a_round_never_lowers_the_likelihood() -> None:
    log_s = np.log(drawn(TWO_PARTS, 500))
    count = np.ones(log_s.size)
    reached = []
    start = Mixture(np.full(2, 0.5), np.array([2.0, 6.0]), np.array([2.0, 2.0]))
    for n_rounds in range(1, 30):
        mixture = expectation_maximisation(log_s, start, count, n_rounds=n_rounds, tolerance=1e-6)
        reached.append(mixture.log_likelihood)
    assert np.all(np.diff(reached) >= -1e-9)
    assert reached[-1] > reached[0]


@settings(max_examples=40)
@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=60))
def test_any_durations_have_a_mixture(values: list[int]) -> None:
    model = fit_lognormals(np.array(values, dtype=np.float64))
    assert model.lognormal is not None
    assert model.min_s is not None and model.max_s is not None
    again = drawn(model, 100)
    assert again.min() >= min(values) * (1 - 1e-5)
    assert again.max() <= max(values) * (1 + 1e-5)


def test_the_test_of_a_mixture_keeps_its_level_and_finds_what_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("diploee.learn.jobs.durations.KS_REPLICATES", 19)
    rng = np.random.default_rng(4)
    own = [
        fit_durations(drawn(TWO_PARTS, 200, seed), "lognormal", rng).ks_p_value for seed in range(6)
    ]
    assert sum(p is not None and p <= 0.1 for p in own) <= 3  # 10 % of 6, at 0.1 %
    # Half of the jobs end at a time limit: no lognormals.
    limited = np.minimum(drawn(TWO_PARTS, 300), 3_000)
    found = fit_durations(limited, "lognormal", rng)
    assert found.ks_p_value == 1 / 20
    assert found.ks_distance > 0.05


def test_distance_is_that_of_kolmogorov_and_smirnov() -> None:
    duration_s = drawn(TWO_PARTS, 400, seed=9)
    wanted = stats.kstest(duration_s, TWO_PARTS.cdf).statistic
    assert ks_distance(duration_s, TWO_PARTS) == pytest.approx(wanted, abs=1e-6)
