"""A few quantiles that stand for all durations of a class, as near as asked."""

from __future__ import annotations

import heapq

import numpy as np

from diploee.scenario import DurationModel
from diploee.tables import Float64Array

LEVEL_TOLERANCE = 0.005
"""Largest error of the share of jobs that last at most any given time."""

TAIL_TOLERANCE = 0.05
"""Largest error of the share that lasts longer, relative to it: of 1 % of the jobs 0.05 %."""

MEAN_TOLERANCE = 5e-4
"""Largest error of the mean duration that one line between two quantiles may add."""

MAX_QUANTILES = 64
MOST_POINTS = 20_000
_LEVEL_DIGITS = 7
_SECONDS_DIGITS = 12


def fit_quantiles(
    duration_s: Float64Array,
    level_tolerance: float = LEVEL_TOLERANCE,
    mean_tolerance: float = MEAN_TOLERANCE,
    max_quantiles: int = MAX_QUANTILES,
) -> DurationModel:
    """Choose quantiles between which log-linear durations stay near those of the jobs.

    Begins with the shortest and the longest job and adds the quantile where the line between its
    neighbours is farthest off, until no line is farther off than the tolerances.
    """
    ordered = np.sort(duration_s)
    level, seconds = _points(ordered)
    log_s = np.log(seconds)
    allowed = np.minimum(level_tolerance, TAIL_TOLERANCE * (1 - level))
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
        if off[at] >= mean_off / mean_tolerance:
            return float(off[at]), i + 1 + at
        line_s = np.interp(level[inner], [level[i], level[j]], [log_s[i], log_s[j]])
        return mean_off / mean_tolerance, i + 1 + int(np.argmax(np.abs(line_s - log_s[inner])))

    chosen = [0, level.size - 1]
    queue = [(-worst(0, level.size - 1)[0], 0, level.size - 1)]
    while queue and len(chosen) < max_quantiles:
        badness, i, j = heapq.heappop(queue)
        if -badness <= 1:
            break
        _, at = worst(i, j)
        chosen.append(at)
        for pair in ((i, at), (at, j)):
            heapq.heappush(queue, (-worst(*pair)[0], *pair))
    return DurationModel(quantiles_s=_rounded(level[sorted(chosen)], seconds[sorted(chosen)]))


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


def _rounded(level: Float64Array, seconds: Float64Array) -> dict[float, float]:
    """Round for reading; of levels that become equal the one with the longest duration stays."""
    rounded = {}
    for p, s in zip(level.tolist(), seconds.tolist(), strict=True):
        rounded[round(p, _LEVEL_DIGITS)] = float(f"{s:.{_SECONDS_DIGITS}g}")
    return rounded
