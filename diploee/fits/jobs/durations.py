"""Quantile tables of job durations, with their goodness of fit."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Float64Array
from diploee.scenario.durations import DurationModel

LEVEL_TOLERANCE = 0.005
"""Largest error of the share of jobs that last at most any given time."""

TAIL_TOLERANCE = 0.05
"""Largest relative error of the share of jobs that last longer: a share of 1 % may be
off by 0.05 percentage points."""

MEAN_TOLERANCE = 5e-4
"""Largest error that each line between two quantiles may add to the mean, as a share of
that mean; the errors of lines can add up."""

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
    # Largest difference between the shares of jobs that last at most so long
    # (Kolmogorov-Smirnov) in the log and in the model
    ks_distance: float


def fit_durations(duration_s: Float64Array) -> DurationFit:
    """Fit quantiles of durations, and measure their goodness of fit."""
    model = fit_quantiles(duration_s)
    return DurationFit(
        model=model,
        n_jobs=int(duration_s.size),
        mean_s=float(duration_s.mean()),
        model_mean_s=model.mean_s(),
        ks_distance=ks_distance(duration_s, model),
    )


def ks_distance(duration_s: Float64Array, model: DurationModel) -> float:
    """Return the Kolmogorov-Smirnov distance between durations and a model.

    Both may have steps, so it is taken at every duration and just below it.
    """
    values, count = np.unique(duration_s, return_counts=True)
    upto = np.cumsum(count) / duration_s.size
    below = upto - count / duration_s.size
    at = model.cdf(values)
    # Nearer than any two that milliseconds tell apart
    just_below = model.cdf(values * (1 - 1e-12))
    return float(max(np.abs(at - upto).max(), np.abs(just_below - below).max()))


def fit_quantiles(duration_s: Float64Array) -> DurationModel:
    """Choose quantiles between which log-linear durations stay near those of the jobs.

    Begins with the shortest and the longest job and adds the quantile where the line
    between its neighbours is farthest off, until every line is within the tolerances,
    or there are `MAX_QUANTILES` points. Durations are above 0.
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
        """Return how far the line from point i to j is off (tolerances), and where."""
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
        return mean_off / MEAN_TOLERANCE, i + 1 + int(
            np.argmax(np.abs(line_s - log_s[inner]))
        )

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
    # Rounded for reading; of levels that become equal the one with the longest duration
    # stays.
    quantiles = zip(
        level[sorted(chosen)].tolist(), seconds[sorted(chosen)].tolist(), strict=True
    )
    return DurationModel(
        quantiles_s={round(p, 7): float(f"{s:.12g}") for p, s in quantiles}
    )


def _points(ordered: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return levels and durations of the jobs.

    Each at the middle of its step, and both ends.
    """
    n = ordered.size
    rows = np.arange(n)
    if n > MAX_POINTS:  # all of both tails, and evenly between
        tail = MAX_POINTS // 10
        even = np.linspace(0, n - 1, MAX_POINTS).astype(np.int64)
        rows = np.unique(np.concatenate([rows[:tail], even, rows[-tail:]]))
    level = np.concatenate([[0.0], (rows + 0.5) / n, [1.0]])
    return level, ordered[np.concatenate([[0], rows, [n - 1]])]
