"""Mean, spread and percentiles of a long series: streamed, exact where it fits."""

from __future__ import annotations

import math

import numpy as np

from diploee.tables import Float64Array, Int64Array

EXACT_VALUES = 1 << 22
"""Up to so many values, percentiles are exact (numpy's linear ones); 32 MB."""

N_BINS = 1 << 20


class Distribution:
    """Accumulates values in blocks.

    Beyond `EXACT_VALUES` the values go to a histogram of at least 2**19 used bins; its percentiles
    are off by no more than `percentile_error`. Mean, standard deviation and extremes stay exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared distances from the mean
        self.min = math.inf
        self.max = -math.inf
        self._exact: list[Float64Array] = []
        self._bins: Int64Array | None = None
        self._bin_width = 0.0
        self._zero = 0  # bins below 0, none until such a value comes

    def add(self, values: Float64Array) -> None:
        """Add a block of values."""
        if not values.size:
            return
        mean = float(values.mean())
        self._add_moments(values.size, mean, float(np.square(values - mean).sum()))
        self.min = min(self.min, float(values.min()))
        self.max = max(self.max, float(values.max()))
        if self._bins is None:
            self._exact.append(values.astype(np.float64, copy=True))
            if self.count > EXACT_VALUES:
                self._start_histogram()
        else:
            self._add_to_histogram(values)

    @property
    def std(self) -> float:
        """Population standard deviation."""
        return math.sqrt(self._squares / self.count)

    @property
    def percentile_error(self) -> float:
        """Largest error of a percentile; 0 where the values fit in memory."""
        return self._bin_width

    def percentiles(self, *percents: float) -> list[float]:
        """Return percentiles (numpy's linear definition)."""
        if self._bins is None:
            found = np.percentile(np.concatenate(self._exact), percents)
            return [float(value) for value in found]
        reached = np.cumsum(self._bins)
        ranks = np.array(percents) / 100 * (self.count - 1)
        below, above = (
            (np.searchsorted(reached, rank, side="right") - self._zero + 0.5) * self._bin_width
            for rank in (np.floor(ranks), np.ceil(ranks))
        )
        values = below + (ranks - np.floor(ranks)) * (above - below)
        return [float(value) for value in np.clip(values, self.min, self.max)]

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        """Combine counts, means and squared distances (Chan, Golub and LeVeque 1983)."""
        total = self.count + count
        distance = mean - self.mean
        self._squares += squares + distance**2 * self.count * count / total
        self.mean += distance * count / total
        self.count = total

    def _start_histogram(self) -> None:
        # A power of two: a wider bin holds whole ones.
        largest = max(self.max, -self.min, 1e-6)
        self._bin_width = 2.0 ** math.ceil(math.log2(largest / N_BINS))
        self._bins = np.zeros(N_BINS, dtype=np.int64)
        kept, self._exact = self._exact, []
        for values in kept:
            self._add_to_histogram(values)

    def _add_to_histogram(self, values: Float64Array) -> None:
        assert self._bins is not None
        if self.min < 0 and not self._zero:
            self._bins = np.concatenate([np.zeros(N_BINS, dtype=np.int64), self._bins])
            self._zero = N_BINS
        while max(self.max, -self.min) / N_BINS > self._bin_width:
            spare = (self._zero // 2, N_BINS // 2)
            self._bins = np.pad(self._bins.reshape(-1, 2).sum(axis=1), spare)
            self._bin_width *= 2
        at = np.floor(values / self._bin_width).astype(np.int64) + self._zero
        self._bins += np.bincount(np.minimum(at, self._bins.size - 1), minlength=self._bins.size)
