"""Durations of the jobs of a class: quantiles or lognormals of them, and how well these fit."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.learn.limits import closed_shares
from diploee.normal_mixture import (
    LEAST_SIGMA,
    Mixture,
    expectation_maximisation,
    log_likelihood,
)
from diploee.scenario import DurationModel
from diploee.scenario.durations import LognormalPart
from diploee.tables import Float64Array

DurationKind = Literal["quantiles", "lognormal"]

LEVEL_TOLERANCE = 0.005
"""Largest error of the share of jobs that last at most any given time."""

TAIL_TOLERANCE = 0.05
"""Largest error of the share that lasts longer, relative to it: of 1 % of the jobs 0.05 %."""

MEAN_TOLERANCE = 5e-4
"""Largest error of the mean duration that one line between two quantiles may add."""

MAX_QUANTILES = 64
MOST_POINTS = 20_000

MAX_PARTS = 3
MAX_ROUNDS = 300
TOLERANCE = 1e-6
"""EM ends when a round raises the mean log-likelihood by less."""

MOST_VALUES = 4_096
"""Distinct durations kept apart; more are joined in as many equal steps of the logarithm."""

KS_SAMPLE = 500
"""Durations that the test with a refit of the model looks at; with more it rejects any model."""

KS_REPLICATES = 99


@dataclass(frozen=True)
class DurationFit:
    """A model of the durations of some jobs."""

    model: DurationModel  # the model
    n_jobs: int  # jobs that it was fitted to
    # Mean duration of the jobs and of the model [s]
    mean_s: float
    model_mean_s: float
    # Largest difference between the shares of jobs that last at most so long (Kolmogorov-Smirnov)
    # in the log and in the model
    ks_distance: float
    # For lognormals: the share of samples of the model, each with its own fit, that lie farther off
    # than a sample of the log of the same size (at most `KS_SAMPLE` jobs). As the parameters are
    # fitted, the tables of the test do not hold, hence this parametric bootstrap. None for
    # quantiles, which fit as near as was asked.
    ks_p_value: float | None


def fit_durations(
    duration_s: Float64Array, kind: DurationKind, rng: np.random.Generator
) -> DurationFit:
    """Return a model of durations, and how well it fits."""
    model = fit_quantiles(duration_s) if kind == "quantiles" else fit_lognormals(duration_s)
    return DurationFit(
        model=model,
        n_jobs=int(duration_s.size),
        mean_s=float(duration_s.mean()),
        model_mean_s=model.mean_s(),
        ks_distance=ks_distance(duration_s, model),
        ks_p_value=_bootstrap_p_value(duration_s, rng) if kind == "lognormal" else None,
    )


def ks_distance(duration_s: Float64Array, model: DurationModel) -> float:
    """Return the Kolmogorov-Smirnov distance between durations and a model.

    Both may have steps, so it is taken at every duration and just below it.
    """
    values, count = np.unique(duration_s, return_counts=True)
    upto = np.cumsum(count) / duration_s.size
    below = upto - count / duration_s.size
    at = model.cdf(values)
    just_below = model.cdf(values * (1 - 1e-12))  # nearer than any two that milliseconds tell apart
    return float(max(np.abs(at - upto).max(), np.abs(just_below - below).max()))


def _bootstrap_p_value(duration_s: Float64Array, rng: np.random.Generator) -> float | None:
    """Test a lognormal mixture on a sample, refitting it to each of its own samples.

    Their number of parts stays that of the first fit.
    """
    n = min(KS_SAMPLE, duration_s.size)
    if n < 10 or np.ptp(duration_s) == 0:
        return None
    sample = rng.choice(duration_s, n, replace=False) if n < duration_s.size else duration_s
    mixture = _best_mixture(sample)
    model = _as_model(mixture, sample)
    seen = ks_distance(sample, model)
    # Logged durations are whole seconds, or milliseconds: the samples are rounded alike.
    step_s = 1.0 if np.all(np.rint(duration_s) == duration_s) else 1e-3
    farther = 0
    for _ in range(KS_REPLICATES):
        drawn = np.maximum(np.rint(model.draw(rng, n) / step_s), 1) * step_s
        farther += ks_distance(drawn, _refitted(drawn, mixture)) >= seen
    return (farther + 1) / (KS_REPLICATES + 1)


def fit_quantiles(duration_s: Float64Array) -> DurationModel:
    """Choose quantiles between which log-linear durations stay near those of the jobs.

    Begins with the shortest and the longest job and adds the quantile where the line between its
    neighbours is farthest off, until no line is farther off than the tolerances.
    """
    ordered = np.sort(duration_s)
    level, seconds = _points(ordered)
    log_s = np.log(seconds)
    allowed = np.minimum(LEVEL_TOLERANCE, TAIL_TOLERANCE * (1 - level))
    allowed = np.maximum(allowed, 1 / ordered.size)  # a job more or less
    # Mean duration up to each point, from the durations themselves.
    rises = np.diff(level) * (seconds[:-1] + seconds[1:]) / 2
    filled = np.concatenate([[0.0], np.cumsum(rises)])
    total = filled[-1] or 1.0

    def worst(i: int, j: int) -> tuple[float, int]:
        """Return how far the line from point i to j is off, in tolerances, and where."""
        if j - i < 2 or log_s[i] == log_s[j]:
            return 0.0, i
        inner = slice(i + 1, j)
        on_line = np.interp(log_s[inner], [log_s[i], log_s[j]], [level[i], level[j]])
        off = np.abs(on_line - level[inner]) / allowed[inner]
        at = int(np.argmax(off))
        rise = log_s[j] - log_s[i]
        # Mean of exp(x) for x uniform from log a to log b: (b - a) / (log b - log a).
        line_mean = seconds[i] * np.expm1(rise) / rise * (level[j] - level[i])
        mean_off = abs(line_mean - (filled[j] - filled[i])) / total
        if off[at] >= mean_off / MEAN_TOLERANCE:
            return float(off[at]), i + 1 + at
        line_s = np.interp(level[inner], [level[i], level[j]], [log_s[i], log_s[j]])
        return mean_off / MEAN_TOLERANCE, i + 1 + int(np.argmax(np.abs(line_s - log_s[inner])))

    chosen = [0, level.size - 1]
    queue = [(-worst(0, level.size - 1)[0], 0, level.size - 1)]
    while queue and len(chosen) < MAX_QUANTILES:
        badness, i, j = heapq.heappop(queue)
        if -badness <= 1:
            break
        _, at = worst(i, j)
        chosen.append(at)
        for pair in ((i, at), (at, j)):
            heapq.heappush(queue, (-worst(*pair)[0], *pair))
    # Rounded for reading; of levels that become equal the one with the longest duration stays.
    quantiles = zip(level[sorted(chosen)].tolist(), seconds[sorted(chosen)].tolist(), strict=True)
    return DurationModel(quantiles_s={round(p, 7): float(f"{s:.12g}") for p, s in quantiles})


def _points(ordered: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return levels and durations of the jobs: each at the middle of its step, and both ends."""
    n = ordered.size
    rows = np.arange(n)
    if n > MOST_POINTS:  # all of both tails, and evenly between
        tail = MOST_POINTS // 10
        even = np.linspace(0, n - 1, MOST_POINTS).astype(np.int64)
        rows = np.unique(np.concatenate([rows[:tail], even, rows[-tail:]]))
    level = np.concatenate([[0.0], (rows + 0.5) / n, [1.0]])
    return level, ordered[np.concatenate([[0], rows, [n - 1]])]


def fit_lognormals(duration_s: Float64Array) -> DurationModel:
    """Fit a mixture of 1 to `MAX_PARTS` lognormals."""
    return _as_model(_best_mixture(duration_s), duration_s)


def _best_mixture(duration_s: Float64Array) -> Mixture:
    """Return the mixture of the least Bayesian information criterion (Schwarz 1978)."""
    log_s, count = _distinct(np.log(duration_s))

    def criterion(mixture: Mixture) -> float:
        n_parameters = 3 * mixture.weight.size - 1
        return float(n_parameters * np.log(duration_s.size) - 2 * mixture.log_likelihood)

    best = _single(log_s, count)
    if best.sigma[0] > LEAST_SIGMA:
        for n_parts in range(2, min(MAX_PARTS, log_s.size) + 1):
            mixture = _fitted(log_s, count, _start(log_s, count, n_parts))
            if criterion(mixture) < criterion(best):
                best = mixture
    return best


def _refitted(duration_s: Float64Array, start: Mixture) -> DurationModel:
    """Fit a mixture of as many parts as another one has, from that one on."""
    log_s, count = _distinct(np.log(duration_s))
    if start.weight.size == 1:
        return _as_model(_single(log_s, count), duration_s)
    return _as_model(_fitted(log_s, count, start), duration_s)


def _as_model(mixture: Mixture, duration_s: Float64Array) -> DurationModel:
    """Return a mixture as a scenario's durations, within the shortest and longest of those given.

    Its parts are in the order of their medians.
    """
    min_s, max_s = float(duration_s.min()), float(duration_s.max())
    order = np.argsort(mixture.mean, kind="stable")
    shares = closed_shares(mixture.weight[order], 6)
    parts = tuple(
        LognormalPart(weight=w, median_s=float(f"{np.exp(mu):.6g}"), sigma=round(float(sigma), 5))
        for w, mu, sigma in zip(shares, mixture.mean[order], mixture.sigma[order], strict=True)
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
