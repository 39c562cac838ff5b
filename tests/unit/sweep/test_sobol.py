"""Shares of the variance against functions whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest

from diploee.sweeps.sobol import SobolIndices, indices_of_metrics


def inputs(n: int, *names: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(n) for name in names}


def sobol_indices(of: dict[str, np.ndarray], metric: np.ndarray) -> SobolIndices | None:
    return indices_of_metrics(of, metric[:, np.newaxis])[0]


def test_linear_function_gives_the_squared_coefficients() -> None:
    x = inputs(2_000, "a", "b", "idle")
    noise = np.random.default_rng(9).standard_normal(2_000)
    indices = sobol_indices(x, 3 * x["a"] + 2 * x["b"] + noise)
    assert indices is not None
    # Expected 9/14, 4/14, 0 and 1/14; the error of a share is near 2 S (1 - S) / sqrt(n) < 0.02.
    for name, expected in {"a": 9 / 14, "b": 4 / 14, "idle": 0}.items():
        assert indices.share[name] == pytest.approx(expected, abs=0.04)
        low, high = indices.interval[name]
        assert low - 0.02 <= expected <= high + 0.02
    assert indices.rest == pytest.approx(1 / 14, abs=0.04)


def test_effect_without_a_trend_is_found_by_the_polynomial() -> None:
    x = inputs(1_000, "curved", "idle")
    indices = sobol_indices(x, x["curved"] ** 2)
    assert indices is not None
    assert indices.degree == 3
    assert indices.share["curved"] == pytest.approx(1, abs=0.02)


def test_product_of_two_parameters_is_left_to_the_rest() -> None:
    x = inputs(2_000, "a", "b")
    indices = sobol_indices(x, x["a"] * x["b"])
    assert indices is not None
    assert indices.rest > 0.95


@pytest.mark.slow
def test_pure_noise_is_not_blamed_on_many_parameters() -> None:
    x = inputs(60, *map(str, range(12)))
    found = []
    for seed in range(15):
        indices = sobol_indices(x, np.random.default_rng(seed + 100).standard_normal(60))
        assert indices is not None
        found.append(indices.rest)
    # Without the correction for chance, 12 parameters would explain 12/59 = 20 % of it.
    assert np.median(found) > 0.93


def test_numbers_of_one_draw_count_together_and_probabilities_are_not_counted_twice() -> None:
    rng = np.random.default_rng(4)
    mix = rng.dirichlet([4, 5, 6], 1_500)
    other = rng.standard_normal(1_500)
    metric = 10 * mix[:, 0] - 4 * mix[:, 2]
    metric = metric / metric.std() + other
    indices = sobol_indices({"mix": mix, "other": other}, metric)
    assert indices is not None
    assert indices.share["mix"] == pytest.approx(0.5, abs=0.05)
    assert indices.rest == pytest.approx(0, abs=0.01)


def test_choice_between_values_counts_by_value_not_by_order() -> None:
    rng = np.random.default_rng(5)
    drawn = rng.integers(3, size=600)
    columns = (drawn[:, None] == np.arange(3)).astype(float)
    indices = sobol_indices({"choice": columns}, np.array([1.0, 5.0, 2.0])[drawn])
    assert indices is not None
    assert indices.share["choice"] == pytest.approx(1)


def test_constant_metric_or_too_few_members_give_no_share() -> None:
    x = inputs(30, "a")
    assert sobol_indices(x, np.full(30, 4.0)) is None
    assert sobol_indices(inputs(5, "a"), np.arange(5.0)) is None
