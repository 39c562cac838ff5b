"""The latency mixture: recovery of known parameters, averages over replicas, degenerate
samples."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark_builders import MIXTURE
from scipy import stats

from diploee.base.errors import InputError
from diploee.integrations.openg2g import ITLMixtureModel

FIELDS = (
    "location_s",
    "steady_weight",
    "steady_sigma",
    "steady_scale_s",
    "stall_sigma",
    "stall_scale_s",
)


def parameters(model):
    return np.array([getattr(model, name) for name in FIELDS])


def fits(n_samples, n_fits, **options):
    rng = np.random.default_rng(11)
    drawn = [MIXTURE.sample(n_samples, rng) for _ in range(n_fits)]
    return drawn, [ITLMixtureModel.fit(samples, **options) for samples in drawn]


@pytest.mark.slow
def test_known_parameters_are_recovered_within_confidence_limits():
    n_fits = 10
    _, found = fits(5_000, n_fits)
    values = np.array([parameters(model) for model in found])
    deviation = values.std(axis=0, ddof=1)
    # The mean of the fits: Student's t with 9 degrees of freedom, 99.9 % for all six at
    # once.
    limit = stats.t.ppf(1 - 0.0005 / 6, n_fits - 1) * deviation / np.sqrt(n_fits)
    assert (np.abs(values.mean(axis=0) - parameters(MIXTURE)) < limit).all()
    # And no fit is far off: the limits of a single one stay within a few percent.
    assert (deviation[1:] / parameters(MIXTURE)[1:] < 0.1).all()


def log_likelihood(model, samples):
    """Return the log-likelihood of samples by the densities of scipy."""
    parts = [
        weight * stats.lognorm.pdf(samples, sigma, loc=model.location_s, scale=scale)
        for weight, sigma, scale in (
            (model.steady_weight, model.steady_sigma, model.steady_scale_s),
            (1 - model.steady_weight, model.stall_sigma, model.stall_scale_s),
        )
    ]
    return float(np.log(sum(parts)).sum())


@pytest.mark.slow
def test_fit_is_at_least_as_likely_as_the_truth_by_the_densities_of_scipy():
    drawn, found = fits(2_000, 5)
    for samples, model in zip(drawn, found, strict=True):
        assert model.log_likelihood == pytest.approx(log_likelihood(model, samples))
        assert model.log_likelihood > log_likelihood(MIXTURE, samples) - 0.1


def test_fit_passes_a_test_of_its_distribution():
    (samples,), (model,) = fits(5_000, 1)
    assert stats.kstest(samples, model.cdf).pvalue > 0.01


def test_mean_and_variance_equal_those_of_draws():
    samples = MIXTURE.sample(400_000, np.random.default_rng(2))
    limit = 4 * samples.std() / np.sqrt(samples.size)
    assert abs(samples.mean() - MIXTURE.mean_s) < limit
    squares = (samples - MIXTURE.mean_s) ** 2
    assert abs(squares.mean() - MIXTURE.variance_s2) < 4 * squares.std() / np.sqrt(
        samples.size
    )


def test_quantiles_invert_the_distribution():
    q = np.array([1e-9, 0.01, 0.5, 0.899, 0.9, 0.99, 1 - 1e-9])
    assert np.allclose(MIXTURE.cdf(MIXTURE.quantile(q)), q, rtol=1e-9)
    assert (np.diff(MIXTURE.quantile(q)) > 0).all()
    assert MIXTURE.cdf([0.0, MIXTURE.location_s]).tolist() == [0, 0]
    with pytest.raises(InputError, match="between 0 and 1"):
        MIXTURE.quantile(1.0)


@pytest.mark.parametrize("n_replicas", [1, 3, 30])
def test_average_of_few_replicas_has_the_distribution_of_averaged_draws(n_replicas):
    averages = MIXTURE.sample_avg(n_replicas, np.random.default_rng(3), size=4_000)
    draws = MIXTURE.sample((4_000, n_replicas), np.random.default_rng(4)).mean(axis=1)
    assert averages.shape == (4_000,)
    assert stats.ks_2samp(averages, draws).pvalue > 0.01


@pytest.mark.parametrize("n_replicas", [31, 1_000])
def test_average_of_many_replicas_is_normal_with_the_mixtures_mean_and_variance(
    n_replicas,
):
    averages = MIXTURE.sample_avg(n_replicas, np.random.default_rng(5), size=4_000)
    deviation = np.sqrt(MIXTURE.variance_s2 / n_replicas)
    assert averages.min() >= MIXTURE.location_s
    assert stats.kstest((averages - MIXTURE.mean_s) / deviation, "norm").pvalue > 0.01


def test_one_average_is_a_number_and_no_replica_is_refused():
    assert MIXTURE.sample_avg(5, np.random.default_rng(6)).shape == ()
    assert float(MIXTURE.sample_avg(500, np.random.default_rng(6))) > MIXTURE.location_s
    with pytest.raises(InputError, match="1 replica or more, found 0"):
        MIXTURE.sample_avg(0, np.random.default_rng(6))


@pytest.mark.slow
def test_more_samples_than_the_limit_are_thinned_the_same_way_each_time():
    samples = MIXTURE.sample(5_000, np.random.default_rng(7))
    first = ITLMixtureModel.fit(samples, max_samples=1_000)
    assert first.n_samples == 1_000
    assert first == ITLMixtureModel.fit(samples, max_samples=1_000)
    assert first != ITLMixtureModel.fit(samples, max_samples=1_000, seed=1)
    assert first.location_s < samples.min()


def test_samples_of_a_coarse_clock_are_fitted():
    samples = np.round(MIXTURE.sample(3_000, np.random.default_rng(8)), 3)
    model = ITLMixtureModel.fit(samples)
    assert model.mean_s == pytest.approx(samples.mean(), rel=0.03)


@pytest.mark.slow
def test_samples_of_a_single_lognormal_are_fitted():
    rng = np.random.default_rng(9)
    samples = 0.01 + 0.005 * np.exp(0.3 * rng.standard_normal(2_000))
    model = ITLMixtureModel.fit(samples)
    assert stats.kstest(samples, model.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([], "0 latency samples, a mixture needs 20 or more"),
        ([0.02] * 500, "all 500 latency samples are 0.02 s"),
        ([0.02] * 30 + [0.0], "latency sample 30 is 0 s"),
        ([0.02, -1.0] * 30, "latency sample 1 is -1 s .30 such samples"),
    ],
)
def test_degenerate_samples_are_one_clear_line(samples, text):
    with pytest.raises(InputError, match=text):
        ITLMixtureModel.fit(samples)
