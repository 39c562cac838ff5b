"""Expectation maximisation finds the normals that samples come from."""

from __future__ import annotations

import numpy as np

from diploee.integrations.openg2g.itl_mixture import (
    Mixture,
    expectation_maximisation,
)


def test_expectation_maximisation_recovers_a_mixture_and_climbs():
    n, rng = 20_000, np.random.default_rng(0)
    weight, mean, sigma = (
        np.array([0.4, 0.6]),
        np.array([3.4, 8.5]),
        np.array([0.6, 1.1]),
    )
    part = rng.choice(2, n, p=weight)
    samples = rng.normal(mean[part], sigma[part])
    start, reached = Mixture(np.full(2, 0.5), np.array([2.0, 6.0]), np.full(2, 2.0)), []
    for n_rounds in range(1, 30):
        found = expectation_maximisation(samples, start, n_rounds)
        reached.append(found.log_likelihood)
    assert np.all(np.diff(reached) >= -1e-9 * abs(reached[0]))
    assert reached[-1] > reached[0]
    error = sigma / np.sqrt(n * weight)
    assert np.all(np.abs(found.mean - mean) < 5 * error)
    assert np.all(np.abs(found.sigma - sigma) < 5 * error)
    assert np.all(np.abs(found.weight - weight) < 5 * np.sqrt(0.24 / n))
