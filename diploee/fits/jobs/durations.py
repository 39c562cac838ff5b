"""Quantile tables of job durations, and their goodness of fit."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Float64Array
from diploee.scenario.durations import DurationModel

LEVEL_TOLERANCE = 0.005
"""Tolerance of the fraction of jobs that are shorter than any duration."""

TAIL_TOLERANCE = 0.05
"""Relative tolerance of the fraction of longer jobs: 1 % of jobs may be wrong by 0.05
percentage points."""

MEAN_TOLERANCE = 5e-4
"""Tolerance of the error of the mean by each segment between two quantiles, as a
fraction of the mean; errors of segments can add up."""

MAX_QUANTILES = 64
MAX_POINTS = 20_000


@dataclass(frozen=True)
class DurationFit:
    """Fitted distribution of job durations."""

    model: DurationModel  # the model
    n_jobs: int  # jobs that it was fitted to
    # Mean duration of the jobs and of the model [s]
    mean_s: float
    model_mean_s: float
    # Largest difference between the cumulative distributions of log and model
    # (Kolmogorov-Smirnov)
    ks_distance: float


def fit_durations(duration_s: Float64Array) -> DurationFit:
    """Fit a quantile table to durations [s], and measure its goodness of fit."""
    model = fit_quantiles(duration_s)
    return DurationFit(
        model=model,
        n_jobs=int(duration_s.size),
        mean_s=float(duration_s.mean()),
        model_mean_s=model.mean_s(),
        ks_distance=ks_distance(duration_s, model),
    )


def ks_distance(duration_s: Float64Array, model: DurationModel) -> float:
    """Return the Kolmogorov-Smirnov distance between durations [s] and a model.

    Both can have steps, so the difference is taken at and just below each duration.
    """
    values, count = np.unique(duration_s, return_counts=True)
    upto = np.cumsum(count) / duration_s.size
    below = upto - count / duration_s.size
    model_upto = model.cdf(values)
    # Less than any difference in milliseconds
    just_below = model.cdf(values * (1 - 1e-12))
    return float(max(np.abs(model_upto - upto).max(), np.abs(just_below - below).max()))


def fit_quantiles(duration_s: Float64Array) -> DurationModel:
    """Fit a quantile table, log-linear between its quantiles, to durations above 0 s.

    It starts from the shortest and longest job. The quantile with the largest error is
    added until all segments are within the tolerances, or the table has `MAX_QUANTILES`
    points.
    """
    ordered = np.sort(duration_s)
    level, seconds = _empirical_levels(ordered)
    log_s = np.log(seconds)
    allowed = np.minimum(LEVEL_TOLERANCE, TAIL_TOLERANCE * (1 - level))
    allowed = np.maximum(allowed, 1 / ordered.size)  # one job more or less
    # Mean duration up to each point, from the durations themselves.
    rises = np.diff(level) * (seconds[:-1] + seconds[1:]) / 2
    mean_upto = np.concatenate([[0.0], np.cumsum(rises)])
    total = mean_upto[-1] or 1.0

    def worst(i: int, j: int) -> tuple[float, int]:
        """Return the largest error between points i and j, and its index."""
        if j - i < 2 or log_s[i] == log_s[j]:
            return 0.0, i
        inner = slice(i + 1, j)
        on_line = np.interp(log_s[inner], [log_s[i], log_s[j]], [level[i], level[j]])
        error = np.abs(on_line - level[inner]) / allowed[inner]
        index = int(np.argmax(error))
        rise = log_s[j] - log_s[i]
        # Mean of exp(x) for x uniform from log a to log b: (b - a) / (log b - log a).
        line_mean = seconds[i] * np.expm1(rise) / rise * (level[j] - level[i])
        mean_error = abs(line_mean - (mean_upto[j] - mean_upto[i])) / total
        if error[index] >= mean_error / MEAN_TOLERANCE:
            return float(error[index]), i + 1 + index
        line_s = np.interp(level[inner], [level[i], level[j]], [log_s[i], log_s[j]])
        return mean_error / MEAN_TOLERANCE, i + 1 + int(
            np.argmax(np.abs(line_s - log_s[inner]))
        )

    chosen = [0, level.size - 1]
    queue = [(-worst(0, level.size - 1)[0], 0, level.size - 1)]
    while queue and len(chosen) < MAX_QUANTILES:
        badness, i, j = heapq.heappop(queue)
        if -badness <= 1:
            break
        _, index = worst(i, j)
        chosen.append(index)
        for pair in ((i, index), (index, j)):
            heapq.heappush(queue, (-worst(*pair)[0], *pair))
    # Rounded for readability; of levels that become equal the longest duration stays
    quantiles = zip(
        level[sorted(chosen)].tolist(), seconds[sorted(chosen)].tolist(), strict=True
    )
    return DurationModel(
        quantiles_s={round(p, 7): float(f"{s:.12g}") for p, s in quantiles}
    )


def _empirical_levels(ordered: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return levels and durations [s] of the jobs, each at the middle of its step."""
    n = ordered.size
    rows = np.arange(n)
    if n > MAX_POINTS:  # all of both tails, and evenly between them
        tail = MAX_POINTS // 10
        even = np.linspace(0, n - 1, MAX_POINTS).astype(np.int64)
        rows = np.unique(np.concatenate([rows[:tail], even, rows[-tail:]]))
    level = np.concatenate([[0.0], (rows + 0.5) / n, [1.0]])
    return level, ordered[np.concatenate([[0], rows, [n - 1]])]
