"""Mixtures of lognormals by expectation maximisation, their number chosen by BIC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.scenario import DurationModel
from diploee.scenario.durations import LognormalPart
from diploee.tables import Float64Array

MAX_PARTS = 3
MAX_ROUNDS = 300
TOLERANCE = 1e-6
"""EM ends when a round raises the mean log-likelihood by less."""

MIN_SIGMA = 0.02
"""A part of a mixture is at least so wide (2 %), or EM would end on a single duration."""

MOST_VALUES = 4_096
"""Distinct durations kept apart; more are joined in as many equal steps of the logarithm."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal distributions of the logarithm.

    Parameters
    ----------
    weight, mu, sigma : numpy.ndarray, shape (K,), float64
        Shares, means and standard deviations of the parts.
    log_likelihood : float
        Of the data that it was fitted to.
    """

    weight: Float64Array
    mu: Float64Array
    sigma: Float64Array
    log_likelihood: float

    def bic(self, n_values: int) -> float:
        """Return the Bayesian information criterion; the smallest is the best (Schwarz 1978)."""
        n_parameters = 3 * self.weight.size - 1
        return float(n_parameters * np.log(n_values) - 2 * self.log_likelihood)


def fit_lognormals(duration_s: Float64Array, max_parts: int = MAX_PARTS) -> DurationModel:
    """Fit a mixture of 1 to `max_parts` lognormals; BIC tells how many.

    Parameters
    ----------
    duration_s : numpy.ndarray, shape (n,), float64
        Durations [s], positive, at least one.
    max_parts : int
        Most parts.

    Returns
    -------
    DurationModel
        The mixture, limited to the shortest and the longest of the durations.
    """
    return as_model(best_mixture(duration_s, max_parts), duration_s)


def best_mixture(duration_s: Float64Array, max_parts: int = MAX_PARTS) -> Mixture:
    """Return the mixture of `fit_lognormals` itself."""
    log_s, count = _distinct(np.log(duration_s))
    best = _single(log_s, count)
    if best.sigma[0] > MIN_SIGMA:
        for n_parts in range(2, min(max_parts, log_s.size) + 1):
            mixture = expectation_maximisation(log_s, count, _start(log_s, count, n_parts))
            if mixture.bic(duration_s.size) < best.bic(duration_s.size):
                best = mixture
    return best


def refitted(duration_s: Float64Array, start: Mixture) -> DurationModel:
    """Fit a mixture of as many parts as another one has, from that one on."""
    log_s, count = _distinct(np.log(duration_s))
    if start.weight.size == 1:
        return as_model(_single(log_s, count), duration_s)
    return as_model(expectation_maximisation(log_s, count, start), duration_s)


def as_model(mixture: Mixture, duration_s: Float64Array) -> DurationModel:
    """Return a mixture as a scenario's durations, within the shortest and longest of those given.

    Its parts are in the order of their medians.
    """
    min_s, max_s = float(duration_s.min()), float(duration_s.max())
    order = np.argsort(mixture.mu, kind="stable")
    weight = np.round(mixture.weight[order], 6)
    weight[np.argmax(weight)] += 1 - weight.sum()
    parts = tuple(
        LognormalPart(
            weight=round(float(w), 6), median_s=float(f"{np.exp(mu):.6g}"), sigma=round(float(s), 5)
        )
        for w, mu, s in zip(weight, mixture.mu[order], mixture.sigma[order], strict=True)
    )
    return DurationModel(
        lognormal=parts, min_s=float(f"{min_s:.6g}"), max_s=max(min_s, float(f"{max_s:.6g}"))
    )


def expectation_maximisation(log_s: Float64Array, count: Float64Array, start: Mixture) -> Mixture:
    """Raise the likelihood of a mixture until it stands still (Dempster, Laird and Rubin 1977).

    Parameters
    ----------
    log_s : numpy.ndarray, shape (n,), float64
        Logarithms of the durations.
    count : numpy.ndarray, shape (n,), float64
        How often each occurs.
    start : Mixture
        Where to begin.

    Returns
    -------
    Mixture
        The mixture with its log-likelihood.
    """
    weight, mu, sigma = start.weight, start.mu, start.sigma
    total, before = float(count.sum()), -np.inf
    for _ in range(MAX_ROUNDS):
        log_joint = _log_density(log_s, mu, sigma) + np.log(weight)
        top = log_joint.max(axis=1, keepdims=True)
        joint = np.exp(log_joint - top)
        of_value = joint.sum(axis=1, keepdims=True)
        log_likelihood = float(count @ (np.log(of_value) + top)[:, 0])
        if log_likelihood - before < TOLERANCE * total:
            break
        before = log_likelihood
        share = joint / of_value * count[:, None]
        held = np.maximum(share.sum(axis=0), 1e-12)
        weight, mu = held / held.sum(), (log_s @ share) / held
        spread = ((log_s[:, None] - mu) ** 2 * share).sum(axis=0) / held
        sigma = np.maximum(np.sqrt(spread), MIN_SIGMA)
    return Mixture(weight, mu, sigma, log_likelihood)


def _log_density(log_s: Float64Array, mu: Float64Array, sigma: Float64Array) -> Float64Array:
    z = (log_s[:, None] - mu) / sigma
    density: Float64Array = -0.5 * z**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    return density


def _single(log_s: Float64Array, count: Float64Array) -> Mixture:
    mu = float(np.average(log_s, weights=count))
    sigma = float(np.sqrt(np.average((log_s - mu) ** 2, weights=count)))
    wide = max(sigma, MIN_SIGMA)
    density = _log_density(log_s, np.array([mu]), np.array([wide]))[:, 0]
    return Mixture(np.ones(1), np.array([mu]), np.array([sigma]), float(count @ density))


def _start(log_s: Float64Array, count: Float64Array, n_parts: int) -> Mixture:
    """Return equal parts of the data, in the order of their durations."""
    place = (np.cumsum(count) - count / 2) / count.sum()
    part = np.minimum((place * n_parts).astype(np.int64), n_parts - 1)
    held = np.maximum(np.bincount(part, count, n_parts), 1e-12)
    mu = np.bincount(part, count * log_s, n_parts) / held
    empty = np.bincount(part, minlength=n_parts) == 0
    mu[empty] = np.interp(np.flatnonzero(empty), np.arange(n_parts), np.sort(mu))
    spread = np.bincount(part, count * (log_s - mu[part]) ** 2, n_parts) / held
    sigma = np.maximum(np.sqrt(spread), 5 * MIN_SIGMA)
    return Mixture(np.full(n_parts, 1 / n_parts), mu, sigma, -np.inf)


def _distinct(log_s: Float64Array) -> tuple[Float64Array, Float64Array]:
    values, n_each = np.unique(log_s, return_counts=True)
    count = n_each.astype(np.float64)
    if values.size > MOST_VALUES:
        edges = np.linspace(values[0], values[-1], MOST_VALUES + 1)
        step = np.clip(np.searchsorted(edges, values, "right") - 1, 0, MOST_VALUES - 1)
        held = np.bincount(step, count, MOST_VALUES)
        total = np.bincount(step, count * values, MOST_VALUES)
        used = held > 0
        return total[used] / held[used], held[used].astype(np.float64)
    return values, count
