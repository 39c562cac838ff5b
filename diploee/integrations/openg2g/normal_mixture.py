"""Mixtures of normal distributions, fitted by expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Float64Array

LEAST_SIGMA = 0.02
"""Lower bound of a component's sigma: none collapses onto repeated samples."""
_LEAST_HELD = 1e-12


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal distributions, such as of logarithms."""

    # Shares, means and standard deviations of the components
    weight: Float64Array
    mean: Float64Array
    sigma: Float64Array
    log_likelihood: float = -np.inf  # of the samples that it was fitted to


def expectation_maximisation(
    samples: Float64Array,
    start: Mixture,
    *,
    n_rounds: int,
    tolerance: float,
    least_held: float = 0.0,
) -> Mixture:
    """Raise a mixture's likelihood until it stands still (Dempster et al. 1977)."""
    weight, mean, sigma = start.weight, start.mean, start.sigma
    counted, before = np.ones(samples.size), -np.inf
    for _ in range(n_rounds):
        joint, log_density, likelihood = _densities(
            samples, counted, weight, mean, sigma
        )
        if likelihood - before < tolerance * samples.size:
            break
        before = likelihood
        # E: the share of each sample that each component has. M: their moments.
        share = np.exp(joint - log_density)
        held = np.maximum(share.sum(axis=1), _LEAST_HELD)
        if held.min() < least_held:
            break
        weight, mean = held / samples.size, (share @ samples) / held
        spread = np.sum(share * (samples - mean[:, None]) ** 2, axis=1) / held
        sigma = np.maximum(np.sqrt(spread), LEAST_SIGMA)
    *_, likelihood = _densities(samples, counted, weight, mean, sigma)
    return Mixture(weight, mean, sigma, likelihood)


def log_likelihood(
    samples: Float64Array, count: Float64Array, mixture: Mixture
) -> float:
    """Return the log-likelihood of samples that occur so often each."""
    return _densities(samples, count, mixture.weight, mixture.mean, mixture.sigma)[2]


def _densities(
    samples: Float64Array,
    count: Float64Array,
    weight: Float64Array,
    mean: Float64Array,
    sigma: Float64Array,
) -> tuple[Float64Array, Float64Array, float]:
    """Return log(weight times density), shape (K, n), its log-sum, and likelihood."""
    # log(w_k / (s_k sqrt(2 pi))) - (x - m_k)^2 / (2 s_k^2), summed over k without
    # overflow.
    distance = (samples - mean[:, None]) / sigma[:, None]
    joint = (np.log(weight / sigma) - 0.5 * np.log(2 * np.pi))[
        :, None
    ] - 0.5 * distance**2
    log_density = np.logaddexp.reduce(joint, axis=0)
    return joint, log_density, float(count @ log_density)
