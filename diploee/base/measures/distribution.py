"""Distributions of values: percentiles, extremes, and time beyond a limit.

The histogram of signed integers is log-linear and needs no range in advance: each
octave of magnitude has 512 bins, so the relative error of a quantile is at most 1/1024
(Masson, Rim and Lee 2019, DDSketch; HdrHistogram). Counts are integers, so the result
does not depend on how a series is cut into blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import J_PER_MWH, MS_PER_H, MS_PER_S

EXACT_VALUES = 1 << 22
"""Number of values up to which percentiles are exact (numpy's linear ones); 32 MB."""

N_BINS = 1 << 20


class Distribution:
    """Moments, extremes and percentiles of values that are added in blocks.

    Above `EXACT_VALUES` values, the values are replaced by a histogram, and percentiles
    are off by at most `percentile_error`. Mean, standard deviation and extremes stay
    exact.
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
        self._zero = 0  # number of bins below 0; none until a negative value is added

    def add(self, values: Float64Array) -> None:
        """Add a block of values to moments, extremes and percentiles."""
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
        """Population standard deviation of all values."""
        return math.sqrt(self._squares / self.count)

    @property
    def percentile_error(self) -> float:
        """Maximum error of a percentile, in the unit of the values; 0 if exact."""
        return self._bin_width

    def percentiles(self, *percents: float) -> list[float]:
        """Return percentiles by numpy's linear definition."""
        if self._bins is None:
            result = np.percentile(np.concatenate(self._exact), percents)
            return [float(value) for value in result]
        reached = np.cumsum(self._bins)
        ranks = np.array(percents) / 100 * (self.count - 1)
        low_values, high_values = (
            (np.searchsorted(reached, rank, side="right") - self._zero + 0.5)
            * self._bin_width
            for rank in (np.floor(ranks), np.ceil(ranks))
        )
        values = low_values + (ranks - np.floor(ranks)) * (high_values - low_values)
        return [float(value) for value in np.clip(values, self.min, self.max)]

    def _add_moments(self, count: int, mean: float, sum_sq_dev: float) -> None:
        """Combine counts, means and sums of squared deviations (Chan et al. 1983)."""
        total = self.count + count
        mean_diff = mean - self.mean
        self._squares += sum_sq_dev + mean_diff**2 * self.count * count / total
        self.mean += mean_diff * count / total
        self.count = total

    def _start_histogram(self) -> None:
        """Replace the stored values by a histogram."""
        # A power of two, so that a wider bin later merges whole bins
        largest = max(self.max, -self.min, 1e-6)
        self._bin_width = 2.0 ** math.ceil(math.log2(largest / N_BINS))
        self._bins = np.zeros(N_BINS, dtype=np.int64)
        exact_blocks, self._exact = self._exact, []
        for values in exact_blocks:
            self._add_to_histogram(values)

    def _add_to_histogram(self, values: Float64Array) -> None:
        """Count values in the histogram, and widen its bins if necessary."""
        assert self._bins is not None
        if self.min < 0 and not self._zero:
            self._bins = np.concatenate([np.zeros(N_BINS, dtype=np.int64), self._bins])
            self._zero = N_BINS
        while max(self.max, -self.min) / N_BINS > self._bin_width:
            spare = (self._zero // 2, N_BINS // 2)
            self._bins = np.pad(self._bins.reshape(-1, 2).sum(axis=1), spare)
            self._bin_width *= 2
        bins = np.floor(values / self._bin_width).astype(np.int64) + self._zero
        self._bins += np.bincount(
            np.minimum(bins, self._bins.size - 1), minlength=self._bins.size
        )


_MANTISSA_BITS = 9
_SHIFT = 52 - _MANTISSA_BITS
_BASE = 1023 << _MANTISSA_BITS  # bits of 1.0 after the shift
_N_SIGNED_BINS = (63 << _MANTISSA_BITS) + 2

RELATIVE_ERROR = 2.0 ** -(_MANTISSA_BITS + 1)
"""Maximum relative error of a quantile."""


class SignedHistogram:
    """A log-linear histogram of signed integers, with exact extremes.

    The position of each extreme is stored: the first position if several values equal
    it.
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, _N_SIGNED_BINS), dtype=np.int64)
        self._extremes = np.array(
            [np.iinfo(np.int64).max, -1, np.iinfo(np.int64).min, -1]
        )
        self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()
        self.count = 0

    def add(self, values: Int64Array, first: int, stride: int = 1) -> None:
        """Add values; the position of value k is ``first + k * stride``."""
        if values.size:
            _count(values, first, stride, self._counts, self._extremes)
            self.count += values.size
            self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()

    def percentile(self, percent: float) -> float:
        """Return a percentile: the middle of the bin with the value of its rank.

        The rank is ``ceil(percent / 100 * n)``, as in the nearest-rank definition.
        """
        ordered = np.concatenate([self._counts[0, ::-1], self._counts[1]])
        rank = max(int(np.ceil(percent / 100 * self.count)), 1)
        bin_ = int(np.searchsorted(np.cumsum(ordered), rank))
        value = (
            -_bin_middle(_N_SIGNED_BINS - 1 - bin_)
            if bin_ < _N_SIGNED_BINS
            else _bin_middle(bin_ - _N_SIGNED_BINS)
        )
        return float(min(max(value, self.min), self.max))


def _bin_middle(bin_: int) -> float:
    """Return the middle of the value range of a bin; bin 0 counts zeros."""
    if bin_ == 0:
        return 0.0
    edges = (np.array([bin_ - 1, bin_], dtype=np.int64) + _BASE) << _SHIFT
    low, high = edges.view(np.float64)
    return float(np.floor((low + high) / 2)) if high - low > 1 else float(np.ceil(low))


@njit()
def _count(
    values: Int64Array,
    first: int,
    stride: int,
    counts: Int64Array,
    extremes: Int64Array,
) -> None:
    lowest, lowest_at = extremes[0], extremes[1]
    highest, highest_at = extremes[2], extremes[3]
    for k in range(values.size):
        value = values[k]
        if value < lowest:
            lowest, lowest_at = value, first + k * stride
        if value > highest:
            highest, highest_at = value, first + k * stride
        # A double holds the exponent, then the mantissa: its leading bits count
        # octaves, each in equal parts.
        bin_ = int(np.float64(abs(value)).view(np.int64) >> _SHIFT) - _BASE + 1
        counts[int(value >= 0), max(bin_, 0)] += 1
    extremes[0], extremes[1], extremes[2], extremes[3] = (
        lowest,
        lowest_at,
        highest,
        highest_at,
    )


class FirstMaximum:
    """The first maximum of a series, with the simultaneous values of other series."""

    def __init__(self) -> None:
        self.value, self.at_ms = -np.inf, 0
        self.companions: tuple[float, ...] = ()

    def add(
        self, values: Float64Array, t0_ms: int, step_ms: int, *companions: Float64Array
    ) -> None:
        """Add consecutive values from `t0_ms` on, and other series' values."""
        if not values.size:
            return
        k = int(np.argmax(values))
        if values[k] > self.value:
            self.value, self.at_ms = float(values[k]), t0_ms + k * step_ms
            self.companions = tuple(float(other[k]) for other in companions)

    def result(self) -> tuple[Any, ...]:
        """Return the maximum, its time [ms], and the other series' values then."""
        return self.value, self.at_ms, *self.companions


class Energy:
    """The energy of a power series, as a running total [MWh]."""

    def __init__(self) -> None:
        self._energy_j = 0.0

    def add(self, power_w: Float64Array, dt_ms: int) -> None:
        """Add mean powers [W] over intervals of `dt_ms`."""
        self._energy_j += float(power_w.sum(dtype="float64")) * dt_ms / MS_PER_S

    def result(self) -> float:
        """Return the energy [MWh]."""
        return self._energy_j / J_PER_MWH


class Mean:
    """The time-weighted mean of values."""

    def __init__(self) -> None:
        self._sum, self._ms = 0.0, 0

    def add(self, values: Float64Array, dt_ms: int) -> None:
        """Add values over intervals of `dt_ms`."""
        self._sum, self._ms = (
            self._sum + float(values.sum()) * dt_ms,
            self._ms + len(values) * dt_ms,
        )

    def result(self) -> float:
        """Return the mean, or NaN without values."""
        return self._sum / self._ms if self._ms else np.nan


class RunningMaximum:
    """The maximum of values and an initial value, divided by a unit factor."""

    def __init__(self, initial: float = 0.0, divisor: float = 1.0) -> None:
        self._max, self._divisor = initial, divisor

    def add(self, values: Float64Array, dt_ms: int) -> None:  # noqa: ARG002
        """Add values; the length of their intervals does not matter."""
        self._max = max(self._max, float(values.max(initial=-np.inf)))

    def result(self) -> float:
        """Return the maximum in the converted unit."""
        return self._max / self._divisor


class CountAbove:
    """The number of values above a bound."""

    def __init__(self, bound: float) -> None:
        self._bound, self._n, self._above_ms = bound, 0, 0

    def add(self, values: Float64Array, dt_ms: int) -> None:
        """Add values over intervals of `dt_ms`."""
        n = int(np.count_nonzero(values > self._bound))
        self._n, self._above_ms = self._n + n, self._above_ms + n * dt_ms

    def result(self) -> float:
        """Return the number of values above the bound."""
        return self._n


class HoursAbove(CountAbove):
    """The time that values spend above a bound [h]."""

    def result(self) -> float:
        """Return the time that values were above the bound [h]."""
        return self._above_ms / MS_PER_H


N_WORST = 5

ROUNDING = 1e-9
"""Relative tolerance of a limit: rounding errors are no violation."""


@dataclass(frozen=True)
class _Excess:
    """One contiguous interval above the limit, with its highest value and its time."""

    begin_ms: int
    end_ms: int
    worst: float
    worst_ms: int

    def sort_key(self) -> tuple[float, int]:
        """Return the sort key of events, worst first."""
        return -self.worst, self.begin_ms

    def merged_with(self, later: _Excess) -> _Excess:
        """Return this event merged with the event that follows it directly."""
        worst = max((self, later), key=lambda event: (event.worst, -event.worst_ms))
        return _Excess(self.begin_ms, later.end_ms, worst.worst, worst.worst_ms)


class Exceedance:
    """Violation events of a limit, in values added in consecutive blocks.

    A value is a violation if it is above the limit by more than rounding. It counts as
    `stride_ms` of violation.
    """

    def __init__(self, limit: float, stride_ms: int) -> None:
        self.limit = limit
        self._beyond = limit + abs(limit) * ROUNDING
        self.stride_ms = stride_ms
        self._open: _Excess | None = None
        self._worst: list[_Excess] = []
        self._n_closed = 0
        self.n_values = 0
        self.n_beyond = 0
        self.largest, self.largest_ms = -np.inf, 0

    def add(
        self, values: Float64Array, first_ms: int, edges_ms: Int64Array | None = None
    ) -> None:
        """Add values from `first_ms` on.

        Value k covers one stride, or `edges_ms` k to k + 1 if given.
        """
        self.n_values += values.size
        if values.size and (largest := float(values.max())) > self.largest:
            k = int(values.argmax())
            self.largest = largest
            self.largest_ms = first_ms + k * self.stride_ms
            if edges_ms is not None:
                self.largest_ms = int(edges_ms[k])
        is_beyond = values > self._beyond
        n_beyond = int(np.count_nonzero(is_beyond))
        self.n_beyond += n_beyond
        is_continued = self._open is not None and self._open.end_ms == first_ms
        if values.size and not (is_continued and is_beyond[0]):
            self._extend_or_close(None)
        if not n_beyond:
            return
        if edges_ms is None:
            edges_ms = first_ms + np.arange(values.size + 1) * self.stride_ms
        spans = np.flatnonzero(np.diff(is_beyond, prepend=False, append=False)).reshape(
            -1, 2
        )
        # The first event may continue the open one, the last stays open; of the others
        # only the worst are kept.
        self._extend_or_close(self._event(values, edges_ms, spans[0]))
        inner = spans[1:-1]
        if len(inner):
            self._n_closed += len(inner)
            worst = np.maximum.reduceat(values, inner.ravel())[::2]
            by_rank = np.lexsort((inner[:, 0], -worst))[:N_WORST]
            self._keep_worst(
                *(self._event(values, edges_ms, inner[k]) for k in by_rank)
            )
        if len(spans) > 1:
            self._extend_or_close(self._event(values, edges_ms, spans[-1]))

    def _event(
        self, values: Float64Array, edges_ms: Int64Array, span: Int64Array
    ) -> _Excess:
        """Return the event of a span of rows."""
        begin, end = span
        worst = int(begin + np.argmax(values[begin:end]))
        begin_ms, end_ms, worst_ms = (int(edges_ms[k]) for k in (begin, end, worst))
        return _Excess(begin_ms, end_ms, float(values[worst]), worst_ms)

    def _extend_or_close(self, event: _Excess | None) -> None:
        """Extend the open event by an adjacent event, or close it and open another."""
        if self._open is not None:
            if event is not None and self._open.end_ms == event.begin_ms:
                event = self._open.merged_with(event)
            else:
                self._n_closed += 1
                self._keep_worst(self._open)
        self._open = event

    def _keep_worst(self, *events: _Excess) -> None:
        """Keep closed events that are among the worst."""
        self._worst = sorted([*self._worst, *events], key=_Excess.sort_key)[:N_WORST]

    @property
    def n_events(self) -> int:
        """Number of contiguous intervals above the limit."""
        return self._n_closed + (self._open is not None)

    @property
    def duration_ms(self) -> int:
        """Total time beyond the limit [ms]."""
        return self.n_beyond * self.stride_ms

    def worst(self) -> list[_Excess]:
        """Return the worst events, the worst first."""
        open_events = [] if self._open is None else [self._open]
        return sorted([*self._worst, *open_events], key=_Excess.sort_key)[:N_WORST]
