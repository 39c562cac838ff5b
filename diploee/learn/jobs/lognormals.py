"""Mixtures of lognormals by expectation maximisation, their number chosen by BIC."""

from __future__ import annotations

import numpy as np

from diploee.normal_mixture import (
    LEAST_SIGMA,
    Mixture,
    expectation_maximisation,
    log_likelihood,
)
from diploee.scenario import DurationModel
from diploee.scenario.durations import LognormalPart
from diploee.tables import Float64Array

MAX_PARTS = 3
MAX_ROUNDS = 300
TOLERANCE = 1e-6
"""EM ends when a round raises the mean log-likelihood by less."""

MOST_VALUES = 4_096
"""Distinct durations kept apart; more are joined in as many equal steps of the logarithm."""


def bic(mixture: Mixture, n_values: int) -> float:
    """Return the Bayesian information criterion; the smallest is the best (Schwarz 1978)."""
    n_parameters = 3 * mixture.weight.size - 1
    return float(n_parameters * np.log(n_values) - 2 * mixture.log_likelihood)


def fit_lognormals(duration_s: Float64Array, max_parts: int = MAX_PARTS) -> DurationModel:
    """Fit a mixture of 1 to `max_parts` lognormals; BIC tells how many."""
    return as_model(best_mixture(duration_s, max_parts), duration_s)


def best_mixture(duration_s: Float64Array, max_parts: int = MAX_PARTS) -> Mixture:
    """Return the mixture of `fit_lognormals` itself."""
    log_s, count = _distinct(np.log(duration_s))
    best = _single(log_s, count)
    if best.sigma[0] > LEAST_SIGMA:
        for n_parts in range(2, min(max_parts, log_s.size) + 1):
            mixture = _fitted(log_s, count, _start(log_s, count, n_parts))
            if bic(mixture, duration_s.size) < bic(best, duration_s.size):
                best = mixture
    return best


def refitted(duration_s: Float64Array, start: Mixture) -> DurationModel:
    """Fit a mixture of as many parts as another one has, from that one on."""
    log_s, count = _distinct(np.log(duration_s))
    if start.weight.size == 1:
        return as_model(_single(log_s, count), duration_s)
    return as_model(_fitted(log_s, count, start), duration_s)


def as_model(mixture: Mixture, duration_s: Float64Array) -> DurationModel:
    """Return a mixture as a scenario's durations, within the shortest and longest of those given.

    Its parts are in the order of their medians.
    """
    min_s, max_s = float(duration_s.min()), float(duration_s.max())
    order = np.argsort(mixture.mean, kind="stable")
    weight = np.round(mixture.weight[order], 6)
    weight[np.argmax(weight)] += 1 - weight.sum()
    parts = tuple(
        LognormalPart(
            weight=round(float(w), 6), median_s=float(f"{np.exp(mu):.6g}"), sigma=round(float(s), 5)
        )
        for w, mu, s in zip(weight, mixture.mean[order], mixture.sigma[order], strict=True)
    )
    return DurationModel(
        lognormal=parts, min_s=float(f"{min_s:.6g}"), max_s=max(min_s, float(f"{max_s:.6g}"))
    )


def _fitted(log_s: Float64Array, count: Float64Array, start: Mixture) -> Mixture:
    return expectation_maximisation(log_s, start, count, n_rounds=MAX_ROUNDS, tolerance=TOLERANCE)


def _single(log_s: Float64Array, count: Float64Array) -> Mixture:
    mu = float(np.average(log_s, weights=count))
    sigma = float(np.sqrt(np.average((log_s - mu) ** 2, weights=count)))
    single = Mixture(np.ones(1), np.array([mu]), np.array([max(sigma, LEAST_SIGMA)]))
    likelihood = log_likelihood(log_s, count, single)
    return Mixture(single.weight, single.mean, np.array([sigma]), likelihood)


def _start(log_s: Float64Array, count: Float64Array, n_parts: int) -> Mixture:
    """Return equal parts of the data, in the order of their durations."""
    quantile = (np.cumsum(count) - count / 2) / count.sum()
    part = np.minimum((quantile * n_parts).astype(np.int64), n_parts - 1)
    held = np.maximum(np.bincount(part, count, n_parts), 1e-12)
    mu = np.bincount(part, count * log_s, n_parts) / held
    empty = np.bincount(part, minlength=n_parts) == 0
    mu[empty] = np.interp(np.flatnonzero(empty), np.arange(n_parts), np.sort(mu))
    spread = np.bincount(part, count * (log_s - mu[part]) ** 2, n_parts) / held
    sigma = np.maximum(np.sqrt(spread), 5 * LEAST_SIGMA)
    return Mixture(np.full(n_parts, 1 / n_parts), mu, sigma)


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
