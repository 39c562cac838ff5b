"""The logistic curve: fits against the sample and against truth, derivative, inverse."""  # noqa: E501

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import ML_ENERGY, PUBLISHED

from diploee.base.errors import InputError
from diploee.integrations.openg2g import LogisticModel

SAMPLE = PUBLISHED / ML_ENERGY
QUOTED = {  # least squares of others on the same twelve points, in W, ms and tokens/s
    "avg_power_watts": ((868, 0.884, 6.953, 1725), 0.986),
    "median_itl_ms": ((111.62, 1.441, 9.018, 19.68), 0.991),
    "output_throughput_tokens_per_sec": ((8581, 0.562, 7.209, -330.3), 0.998),
}

curves = st.builds(
    LogisticModel,
    span=st.floats(-2e3, 2e3).filter(lambda v: abs(v) > 1e-3),
    steepness=st.floats(0.3, 4),
    midpoint=st.floats(2, 9),
    base=st.floats(-500, 3e3),
)


def assert_fit_is_no_worse(x, y, curve):
    """Compare squared errors with those of a curve that others give for the same
    points."""
    fitted, residual = LogisticModel.fit(x, y), y - curve.eval_x(x)
    assert fitted.n_points == len(x)
    assert fitted.r2 >= 1 - residual @ residual / np.sum((y - y.mean()) ** 2)
    return fitted


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.exists(), reason="the ML.ENERGY sample is not at hand")
def test_fit_of_the_sample_is_at_least_as_good_as_the_quoted_one():
    points = json.loads(SAMPLE.read_text())["configurations"]
    x = np.log2([point["max_num_seqs"] for point in points])
    for column, (coefficients, quoted_r2) in QUOTED.items():
        y = np.array([point[column] for point in points])
        assert (
            round(assert_fit_is_no_worse(x, y, LogisticModel(*coefficients)).r2, 3)
            >= quoted_r2
        )


@pytest.mark.slow
@given(curves, st.integers(0, 99))
@settings(max_examples=4)
def test_fit_of_noisy_points_is_at_least_as_good_as_the_truth(truth, seed):
    x = np.log2([8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024])
    noise = np.random.default_rng(seed).normal(0, 0.02 * abs(truth.span), x.size)
    assert_fit_is_no_worse(x, truth.eval_x(x) + noise, truth)


@pytest.mark.slow
@settings(max_examples=4)
@given(curves)
def test_noiseless_points_are_fitted_exactly(truth):
    x = np.linspace(2, 10, 12)
    y = truth.eval_x(x)
    fitted = LogisticModel.fit(x, y)
    assert np.allclose(fitted.eval_x(x), y, atol=1e-4 * np.ptp(y))
    assert fitted.r2 > 1 - 1e-6


@pytest.mark.slow
def test_coefficients_lie_within_confidence_limits_of_the_truth():
    truth = LogisticModel(span=868.0, steepness=0.884, midpoint=6.95, base=1725.0)
    x = np.log2([8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024])
    noise_w = 5.0
    # Asymptotic covariance of least squares, from the derivatives by each coefficient.
    share = (truth.eval_x(x) - truth.base) / truth.span
    slope = truth.deriv_wrt_x(x)
    columns = [
        share,
        slope / truth.steepness * (x - truth.midpoint),
        -slope,
        np.ones_like(x),
    ]
    jacobian = np.stack(columns, axis=1)
    deviation = noise_w * np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    rng = np.random.default_rng(5)
    fits = [
        LogisticModel.fit(x, truth.eval_x(x) + rng.normal(0, noise_w, 12))
        for _ in range(10)
    ]
    found = np.array([(f.span, f.steepness, f.midpoint, f.base) for f in fits])
    expected = np.array([truth.span, truth.steepness, truth.midpoint, truth.base])
    inside = np.abs(found - expected) < 1.96 * deviation
    # 95 % of 10 limits hold the truth: at least 7 with probability 0.999 each.
    assert (inside.sum(axis=0) >= 7).all()


@pytest.mark.slow
@settings(max_examples=2)
# The deepest valley is a narrow one
@example([24.0, 10.0, 17.0, 1.0, 1.0, 1.0, 1.0, 1.0])
@example([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0])
@given(st.lists(st.floats(1, 1000), min_size=8, max_size=8))
def test_fit_is_never_worse_than_a_grid_search(y):
    x = np.log2([8, 16, 32, 64, 128, 256, 512, 1024])
    y = np.array(y)
    if np.ptp(y) < 1e-6:
        return
    fitted = LogisticModel.fit(x, y)
    best = np.inf
    for steepness in np.geomspace(0.3, 6, 12):
        for midpoint in np.linspace(3, 10, 15):
            share = 1 / (1 + np.exp(-steepness * (x - midpoint)))
            basis = np.stack([np.ones_like(x), share], axis=1)
            solution = np.linalg.lstsq(basis, y, rcond=None)[0]
            if np.abs(solution).max() < 20 * np.ptp(y):
                best = min(best, float(np.sum((y - basis @ solution) ** 2)))
    assert np.sum((y - fitted.eval_x(x)) ** 2) <= best * (1 + 1e-6) + 1e-9


@given(curves, st.floats(0, 12))
def test_derivative_equals_finite_differences(curve, x):
    h = 1e-5
    difference = (curve.eval_x(x + h) - curve.eval_x(x - h)) / (2 * h)
    rounding = 1e-15 * (abs(curve.base) + abs(curve.span)) / h
    assert curve.deriv_wrt_x(x) == pytest.approx(
        difference, rel=1e-6, abs=10 * rounding + 1e-9 * abs(curve.span)
    )


@given(curves.filter(lambda c: c.is_rising), st.floats(0.01, 0.99))
def test_inverse_finds_the_batch_of_a_value(curve, share):
    value = curve.base + share * curve.span
    batch = curve.inverse(value)
    assert float(curve.eval(batch)) == pytest.approx(
        value, rel=1e-6, abs=1e-6 * curve.span
    )


def test_inverse_is_zero_below_the_curve_and_infinite_above():
    curve = LogisticModel(100.0, 1.0, 5.0, 20.0)
    assert curve.inverse([19.0, 20.0, 120.0, 121.0]).tolist() == [0, 0, np.inf, np.inf]


def test_curve_that_falls_has_no_largest_batch():
    x = np.arange(3.0, 11.0)
    falling = LogisticModel.fit(x, 10 - x)
    assert falling.span < 0
    with pytest.raises(InputError, match="does not rise"):
        falling.inverse(3.0)


@pytest.mark.parametrize("n", [2, 3])
def test_few_points_give_a_rise_over_the_measured_sizes(n):
    x = np.linspace(3, 7, n)
    y = 100 + 50 * x
    fitted = LogisticModel.fit(x, y)
    assert np.allclose(fitted.eval_x(x), y, rtol=1e-6)
    assert fitted.is_rising
    assert fitted.midpoint == 5.0
    assert LogisticModel.fit(x, y) == fitted


@pytest.mark.parametrize(("x", "y"), [([3.0], [40.0]), ([3, 4, 5, 6, 7], [40.0] * 5)])
def test_one_point_or_equal_values_give_a_flat_line(x, y):
    fitted = LogisticModel.fit(x, y)
    assert fitted.span == 0
    assert np.allclose(fitted.eval_x([1, 5, 9]), 40)
    assert (fitted.r2, fitted.rmse) == (1, 0)


@pytest.mark.parametrize(
    ("points", "text"),
    [
        (([], []), "a point or more, found none"),
        (([1, 2], [1]), "one x and one y per point"),
        (([1, 2], [1, np.nan]), "one y per point, finite numbers"),
    ],
)
def test_bad_points_are_one_clear_line(points, text):
    with pytest.raises(InputError, match=text):
        LogisticModel.fit(*points)
