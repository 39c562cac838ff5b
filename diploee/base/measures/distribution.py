"""How values are distributed.

Percentiles, extremes, and for how long they are beyond a limit. The histogram of signed
integers is log-linear and needs no range beforehand: every octave of magnitude has 512
bins, so a quantile is off by at most 1/1024 of itself, whatever the range (Masson, Rim
and Lee 2019, DDSketch; HdrHistogram). Counts are integers: the result does not depend
on blocks or order. Numba rather than NumPy, because six passes of `searchsorted` or
`bincount` over 315 million values would dominate.
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
"""Up to this number of values, percentiles are exact (numpy's linear ones); 32 MB."""

N_BINS = 1 << 20


class Distribution:
    """Accumulates values in blocks.

    Beyond `EXACT_VALUES` the values go to a histogram of at least 2**19 used bins; its
    percentiles are off by no more than `percentile_error`. Mean, standard deviation and
    extremes stay exact.
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
            result = np.percentile(np.concatenate(self._exact), percents)
            return [float(value) for value in result]
        reached = np.cumsum(self._bins)
        ranks = np.array(percents) / 100 * (self.count - 1)
        below, above = (
            (np.searchsorted(reached, rank, side="right") - self._zero + 0.5)
            * self._bin_width
            for rank in (np.floor(ranks), np.ceil(ranks))
        )
        values = below + (ranks - np.floor(ranks)) * (above - below)
        return [float(value) for value in np.clip(values, self.min, self.max)]

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        """Combine counts, means and squared distances (Chan et al. 1983)."""
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
        self._bins += np.bincount(
            np.minimum(at, self._bins.size - 1), minlength=self._bins.size
        )


_MANTISSA_BITS = 9
_SHIFT = 52 - _MANTISSA_BITS
_BASE = 1023 << _MANTISSA_BITS  # bits of 1.0 after the shift
_N_SIGNED_BINS = (63 << _MANTISSA_BITS) + 2

RELATIVE_ERROR = 2.0 ** -(_MANTISSA_BITS + 1)
"""Largest error of a quantile, relative to it."""


class SignedHistogram:
    """Counts signed integers.

    Keeps the extremes exactly, with the place of the first of each.
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, _N_SIGNED_BINS), dtype=np.int64)
        self._extremes = np.array(
            [np.iinfo(np.int64).max, -1, np.iinfo(np.int64).min, -1]
        )
        self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()
        self.count = 0

    def add(self, values: Int64Array, first: int, stride: int = 1) -> None:
        """Add values; the k-th is at position ``first + k * stride``."""
        if values.size:
            _count(values, first, stride, self._counts, self._extremes)
            self.count += values.size
            self.min, self.min_at, self.max, self.max_at = self._extremes.tolist()

    def percentile(self, percent: float) -> float:
        """Return a percentile: the value of rank ``ceil(percent/100 n)`` in its bin."""
        ordered = np.concatenate([self._counts[0, ::-1], self._counts[1]])
        rank = max(int(np.ceil(percent / 100 * self.count)), 1)
        at = int(np.searchsorted(np.cumsum(ordered), rank))
        value = (
            -_middle(_N_SIGNED_BINS - 1 - at)
            if at < _N_SIGNED_BINS
            else _middle(at - _N_SIGNED_BINS)
        )
        return float(min(max(value, self.min), self.max))


def _middle(bin_: int) -> float:
    """Return the middle of a bin; bin 0 holds the zeros."""
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
    """The first largest value of a series, and what is beside it then."""

    def __init__(self) -> None:
        self.value, self.at_ms = -np.inf, 0
        self.beside: tuple[float, ...] = ()

    def add(
        self, values: Float64Array, t0_ms: int, step_ms: int, *beside: Float64Array
    ) -> None:
        """Add consecutive values from `t0_ms` on, and others of the same times."""
        if not values.size:
            return
        k = int(np.argmax(values))
        if values[k] > self.value:
            self.value, self.at_ms = float(values[k]), t0_ms + k * step_ms
            self.beside = tuple(float(of[k]) for of in beside)

    def result(self) -> tuple[Any, ...]:
        """Return value, time [ms], and what is beside it."""
        return self.value, self.at_ms, *self.beside


class Energy:
    """The energy of a power [MWh]."""

    def __init__(self) -> None:
        self._energy_j = 0.0

    def add(self, power_w: Float64Array, dt_ms: int) -> None:
        """Add mean powers [W] over intervals of a length."""
        self._energy_j += float(power_w.sum(dtype="float64")) * dt_ms / MS_PER_S

    def result(self) -> float:
        """Return the energy [MWh]."""
        return self._energy_j / J_PER_MWH


class Mean:
    """The mean of values over time."""

    def __init__(self) -> None:
        self._sum, self._ms = 0.0, 0

    def add(self, values: Float64Array, dt_ms: int) -> None:
        """Add values of intervals of a length."""
        self._sum, self._ms = (
            self._sum + float(values.sum()) * dt_ms,
            self._ms + len(values) * dt_ms,
        )

    def result(self) -> float:
        """Return the mean; NaN of nothing."""
        return self._sum / self._ms if self._ms else np.nan


class RunningMaximum:
    """The largest of values and of a first one, in another unit."""

    def __init__(self, first: float = 0.0, per: float = 1.0) -> None:
        self._most, self._per = first, per

    def add(self, values: Float64Array, dt_ms: int) -> None:  # noqa: ARG002
        """Add values."""
        self._most = max(self._most, float(values.max(initial=-np.inf)))

    def result(self) -> float:
        """Return the largest."""
        return self._most / self._per


class CountAbove:
    """The number of values above a bound."""

    def __init__(self, bound: float) -> None:
        self._bound, self._n, self._above_ms = bound, 0, 0

    def add(self, values: Float64Array, dt_ms: int) -> None:
        """Add values of intervals of a length."""
        n = int(np.count_nonzero(values > self._bound))
        self._n, self._above_ms = self._n + n, self._above_ms + n * dt_ms

    def result(self) -> float:
        """Return the number."""
        return self._n


class HoursAbove(CountAbove):
    """The time in which values are above a bound [h]."""

    def result(self) -> float:
        """Return the time [h]."""
        return self._above_ms / MS_PER_H


N_WORST = 5

ROUNDING = 1e-9
"""A value just at the limit keeps it, whatever the last digit of a quotient."""


@dataclass(frozen=True)
class _Excess:
    """One unbroken stretch of values beyond the limit, its largest and its time."""

    begin_ms: int
    end_ms: int
    worst: float
    worst_ms: int

    def rank(self) -> tuple[float, int]:
        """Return what orders events, the worst first."""
        return -self.worst, self.begin_ms

    def joined(self, later: _Excess) -> _Excess:
        """Return this event and the one that goes on where it ends as one."""
        worst = max((self, later), key=lambda event: (event.worst, -event.worst_ms))
        return _Excess(self.begin_ms, later.end_ms, worst.worst, worst.worst_ms)


class Exceedance:
    """Counts events in values that come in consecutive blocks, one every `stride_ms`.

    A value above the limit by more than rounding is a violation, and counts for one
    stride.
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
        """Add values, the first at `first_ms`.

        From edge to edge where they are not one stride.
        """
        self.n_values += values.size
        if values.size and (largest := float(values.max())) > self.largest:
            at = int(values.argmax())
            self.largest = largest
            self.largest_ms = first_ms + at * self.stride_ms
            if edges_ms is not None:
                self.largest_ms = int(edges_ms[at])
        beyond = values > self._beyond
        n_beyond = int(np.count_nonzero(beyond))
        self.n_beyond += n_beyond
        goes_on = self._open is not None and self._open.end_ms == first_ms
        if values.size and not (goes_on and beyond[0]):
            self._go_on(None)
        if not n_beyond:
            return
        if edges_ms is None:
            edges_ms = first_ms + np.arange(values.size + 1) * self.stride_ms
        spans = np.flatnonzero(np.diff(beyond, prepend=False, append=False)).reshape(
            -1, 2
        )
        # The first may go on an open event, the last stays open; of the rest the worst
        # matter.
        self._go_on(self._event(values, edges_ms, spans[0]))
        inner = spans[1:-1]
        if len(inner):
            self._n_closed += len(inner)
            worst = np.maximum.reduceat(values, inner.ravel())[::2]
            of_inner = np.lexsort((inner[:, 0], -worst))[:N_WORST]
            self._keep(*(self._event(values, edges_ms, inner[k]) for k in of_inner))
        if len(spans) > 1:
            self._go_on(self._event(values, edges_ms, spans[-1]))

    def _event(
        self, values: Float64Array, edges_ms: Int64Array, span: Int64Array
    ) -> _Excess:
        begin, end = span
        worst = int(begin + np.argmax(values[begin:end]))
        begin_ms, end_ms, worst_ms = (int(edges_ms[k]) for k in (begin, end, worst))
        return _Excess(begin_ms, end_ms, float(values[worst]), worst_ms)

    def _go_on(self, event: _Excess | None) -> None:
        """Join an event to the open one it adjoins, or close that and open this."""
        if self._open is not None:
            if event is not None and self._open.end_ms == event.begin_ms:
                event = self._open.joined(event)
            else:
                self._n_closed += 1
                self._keep(self._open)
        self._open = event

    def _keep(self, *events: _Excess) -> None:
        """Keep closed events that are among the worst."""
        self._worst = sorted([*self._worst, *events], key=_Excess.rank)[:N_WORST]

    @property
    def n_events(self) -> int:
        """Number of events."""
        return self._n_closed + (self._open is not None)

    @property
    def duration_ms(self) -> int:
        """Total time beyond the limit [ms]."""
        return self.n_beyond * self.stride_ms

    def worst(self) -> list[_Excess]:
        """Return the worst events, the worst first."""
        opened = [] if self._open is None else [self._open]
        return sorted([*self._worst, *opened], key=_Excess.rank)[:N_WORST]
