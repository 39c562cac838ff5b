"""Power metrics of racks, rows and halls over a run.

Metrics are extremes, percentiles, hours above the rating, and coincidence by level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int32Array
from diploee.base.units import MS_PER_H, W_PER_MW

N_BINS = 1 << 10
"""Number of bins of the power of a rack, row or hall: percentiles are exact to a
thousandth of the peak."""

# Indices into the statistics of a rack, row or hall
MIN, MAX, SUM, ABOVE = range(4)


class LayoutMetrics:
    """Accumulator of the power of all racks, rows or halls of one level.

    `rating_w` is the rated power of each [W], or None.
    """

    def __init__(self, n_parts: int, rating_w: float | None, step_ms: int) -> None:
        self._rating_w, self._step_h = rating_w, step_ms / MS_PER_H
        self._counts = np.zeros((n_parts, N_BINS), dtype=np.int32)
        self._width_w = np.ones(n_parts)
        self._statistics = np.tile([np.inf, -np.inf, 0.0, 0.0], (n_parts, 1))
        self._peak_of_sum_w, self._n_values = -np.inf, 0
        self._transient_w, self._n_transient = np.zeros(n_parts), 0

    def add(self, power_w: Float64Array, n_transient: int = 0) -> None:
        """Add intervals of power [W], shape (racks, rows or halls; B).

        The first `n_transient` intervals are included in the mean only.
        """
        self._transient_w += power_w[:, :n_transient].sum(axis=1)
        self._n_transient += min(n_transient, power_w.shape[1])
        power_w = np.ascontiguousarray(power_w[:, n_transient:])
        rating_w = np.inf if self._rating_w is None else self._rating_w
        _count_values(power_w, rating_w, self._counts, self._width_w, self._statistics)
        self._peak_of_sum_w = max(
            self._peak_of_sum_w, float(power_w.sum(axis=0).max(initial=-np.inf))
        )
        self._n_values += power_w.shape[1]

    def columns(self) -> dict[str, Float64Array]:
        """Return mean, minimum, P99, maximum [W], and hours above each rating."""
        low, high, total, above = self._statistics.T
        is_above = np.cumsum(self._counts, axis=1) > 0.99 * (self._n_values - 1)
        p99_w = np.clip((is_above.argmax(axis=1) + 0.5) * self._width_w, low, high)
        mean_w = (self._transient_w + total) / (self._n_transient + self._n_values)
        result = {"mean_w": mean_w, "min_w": low, "p99_w": p99_w, "max_w": high}
        return (
            result
            if self._rating_w is None
            else result | {"above_rating_h": above * self._step_h}
        )

    def block(self) -> dict[str, Any]:
        """Return the level's entry of the `layout` block."""
        columns = self.columns()
        peaks_w, mean_w = columns["max_w"].sum(), columns["mean_w"].sum()
        above_h = columns.get("above_rating_h")
        return {
            "count": len(columns["max_w"]),
            "mean_mw": columns["mean_w"].mean() / W_PER_MW,
            "p99_mw": columns["p99_w"].max() / W_PER_MW,
            "max_mw": columns["max_w"].max() / W_PER_MW,
            "peak_to_average": peaks_w / mean_w if mean_w > 0 else None,
            "coincidence_factor": self._peak_of_sum_w / peaks_w
            if peaks_w > 0
            else None,
            "above_rating": None if above_h is None else int(np.count_nonzero(above_h)),
            "above_rating_h": None if above_h is None else float(above_h.sum()),
        }


@njit()
def _count_values(
    power_w: Float64Array,
    rating_w: float,
    counts: Int32Array,
    width_w: Float64Array,
    statistics: Float64Array,
) -> None:
    """Count values in power bins and update statistics.

    The bin widths double if a value exceeds the last bin.
    """
    for k in range(power_w.shape[0]):
        for value in power_w[k]:
            while value >= width_w[k] * N_BINS:
                for b in range(N_BINS // 2):
                    counts[k, b] = counts[k, 2 * b] + counts[k, 2 * b + 1]
                counts[k, N_BINS // 2 :] = 0
                width_w[k] *= 2
            counts[k, max(int(value / width_w[k]), 0)] += 1
            statistics[k, MIN] = min(statistics[k, MIN], value)
            statistics[k, MAX] = max(statistics[k, MAX], value)
            statistics[k, SUM] += value
            statistics[k, ABOVE] += value > rating_w
