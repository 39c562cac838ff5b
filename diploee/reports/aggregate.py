"""From a year of intervals to the few hundred numbers of a figure: pure functions over arrays.

Times are int64 milliseconds of local time since 1970-01-01 00:00; every result that is a mean, a
percentile or a sum is taken over whole intervals of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_WEEK

Values = npt.NDArray[Any]

_MONDAY_SHIFT_MS = 3 * MS_PER_DAY
"""1970-01-01 was a Thursday: three days on, weeks start on Monday."""


@dataclass(frozen=True)
class _Grid:
    """Means on a grid of days and times of day."""

    first_day: np.datetime64  # day of the first column
    # Mean of the intervals that start within each cell; NaN where there is none
    means: npt.NDArray[np.float32]


def day_grid(local_ms: Int64Array, values: Values, cell_ms: int) -> _Grid:
    """Return the means by day and time of day."""
    first_day = int(local_ms[0] // MS_PER_DAY)
    n_days = int(local_ms[-1] // MS_PER_DAY) - first_day + 1
    n_cells = -(-MS_PER_DAY // cell_ms)
    cell = (local_ms % MS_PER_DAY) // cell_ms * n_days + (local_ms // MS_PER_DAY - first_day)
    means = _group_means(cell, values, n_cells * n_days).astype(np.float32)
    return _Grid(np.datetime64(first_day, "D"), means.reshape(n_cells, n_days))


def percentiles_by_time(
    local_ms: Int64Array,
    values: Values,
    period_ms: int,
    bin_ms: int,
    percentiles: tuple[float, ...],
) -> Float64Array:
    """Return the percentiles of all intervals by time of day or of week."""
    groups = _groups(_bins(local_ms, period_ms, bin_ms), values, -(-period_ms // bin_ms))
    result = np.full((len(percentiles), len(groups) + 1), np.nan)
    sizes = np.array([group.size for group in groups])
    for size in np.unique(sizes[sizes > 0]):  # few, as most times come as often
        alike = np.flatnonzero(sizes == size)
        stacked = np.stack([groups[index] for index in alike])
        result[:, alike] = np.percentile(stacked, percentiles, axis=1)
    result[:, -1] = result[:, 0 if _has_two(local_ms, period_ms) else -2]
    return result


def means_by_time(
    local_ms: Int64Array, values: Values, period_ms: int, bin_ms: int
) -> Float64Array:
    """Return the means by time of day or of week; the last repeats as in `percentiles_by_time`."""
    n_bins = -(-period_ms // bin_ms)
    means = _group_means(_bins(local_ms, period_ms, bin_ms), values, n_bins)
    return np.append(means, means[0 if _has_two(local_ms, period_ms) else -1])


def _has_two(local_ms: Int64Array, period_ms: int) -> bool:
    """Tell whether two periods are covered, so that the end of one is the start of another."""
    step_ms = int(local_ms[1] - local_ms[0]) if local_ms.size > 1 else 0
    return int(local_ms[-1] - local_ms[0]) + step_ms >= 2 * period_ms


def duration_curve(values: Values) -> tuple[Float64Array, Float64Array]:
    """Return shares of time (0-1) and the values that are reached or exceeded for so long.

    About 1,000 quantiles, denser in the highest hundredth; the first is the exact maximum and the
    last the exact minimum.
    """
    share = np.unique(np.concatenate([np.linspace(0, 0.01, 41), np.linspace(0, 1, 1001)]))
    quantiles: Float64Array = np.quantile(values, 1 - share)
    return share, quantiles


def histogram(values: Values, edges: Float64Array) -> Float64Array:
    """Return the share of the values in each bin (0-1)."""
    counts, _ = np.histogram(values, edges)
    shares: Float64Array = counts / max(values.size, 1)
    return shares


def round_edges(low: float, high: float, n_bins: int) -> Float64Array:
    """Return edges of about `n_bins` bins of a round width that cover low to high."""
    raw = max(high - low, abs(high) * 1e-6, 1e-12) / n_bins
    power = 10.0 ** np.floor(np.log10(raw))
    width = power * min((f for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999), default=10)
    first, last = np.floor(low / width + 1e-9), np.ceil(high / width - 1e-9)
    edges: Float64Array = np.arange(first, max(last, first + 1) + 1) * width
    return edges


@dataclass(frozen=True)
class Months:
    """Energy, mean and peak by calendar month."""

    month: npt.NDArray[np.datetime64]
    energy_j: Float64Array
    mean_w: Float64Array
    max_w: Float64Array
    complete: npt.NDArray[np.bool_]


def by_month(local_ms: Int64Array, power_w: Values, step_ms: int) -> Months:
    """Return energy, mean and highest interval mean by calendar month of local time."""
    month = local_ms.astype("datetime64[ms]").astype("datetime64[M]")
    first = np.flatnonzero(np.append(True, month[1:] != month[:-1]))
    n_intervals = np.diff(np.append(first, local_ms.size))
    energy_j = np.add.reduceat(power_w.astype(np.float64), first) * (step_ms / 1000)
    names = month[first]
    begins_ms = names.astype("datetime64[ms]").astype(np.int64)
    ends_ms = (names + np.timedelta64(1, "M")).astype("datetime64[ms]").astype(np.int64)
    last_ms = local_ms[np.append(first[1:], local_ms.size) - 1] + step_ms
    return Months(
        month=names,
        energy_j=energy_j,
        mean_w=energy_j / (n_intervals * step_ms / 1000),
        max_w=np.maximum.reduceat(power_w, first).astype(np.float64),
        complete=(local_ms[first] <= begins_ms) & (last_ms >= ends_ms),
    )


@dataclass(frozen=True)
class Days:
    """Mean, lowest and highest value by calendar day."""

    day: npt.NDArray[np.datetime64]
    mean: Float64Array
    low: Float64Array
    high: Float64Array


def by_day(local_ms: Int64Array, values: Values) -> Days:
    """Return mean, minimum and maximum by calendar day of local time."""
    day = local_ms // MS_PER_DAY
    first = np.flatnonzero(np.append(True, day[1:] != day[:-1]))
    n_intervals = np.diff(np.append(first, day.size))
    return Days(
        day=day[first].astype("datetime64[D]"),
        mean=np.add.reduceat(values.astype(np.float64), first) / n_intervals,
        low=np.minimum.reduceat(values, first).astype(np.float64),
        high=np.maximum.reduceat(values, first).astype(np.float64),
    )


def peak_week(local_ms: Int64Array, values: Values) -> slice:
    """Return the intervals of the calendar week, Monday to Sunday, with the highest value."""
    week = (local_ms + _MONDAY_SHIFT_MS) // MS_PER_WEEK
    wanted = week[int(np.argmax(values))]
    first, last = np.searchsorted(week, [wanted, wanted + 1])
    return slice(int(first), int(last))


def week_ms(local_ms: Int64Array) -> Int64Array:
    """Return the time since Monday 00:00 [ms]."""
    result: Int64Array = (local_ms + _MONDAY_SHIFT_MS) % MS_PER_WEEK
    return result


def waits_by_hour_of_week(
    submit_ms: Int64Array, wait_s: Values
) -> tuple[Float64Array, Float64Array]:
    """Return mean and 95th percentile of the queue time by hour of the week of submission.

    Over all started jobs, also those that did not wait; the first hour is repeated at the end.
    """
    groups = _groups(_bins(submit_ms, MS_PER_WEEK, MS_PER_H), wait_s, MS_PER_WEEK // MS_PER_H)
    mean = np.array([g.mean() if g.size else np.nan for g in groups])
    p95 = np.array([np.percentile(g, 95) if g.size else np.nan for g in groups])
    return np.append(mean, mean[0]), np.append(p95, p95[0])


def _bins(local_ms: Int64Array, period_ms: int, bin_ms: int) -> Int64Array:
    shift_ms = _MONDAY_SHIFT_MS if period_ms == MS_PER_WEEK else 0
    result: Int64Array = (local_ms + shift_ms) % period_ms // bin_ms
    return result


def _groups(index: Int64Array, values: Values, n_groups: int) -> list[Values]:
    order = np.argsort(index.astype(np.uint16 if n_groups < 1 << 16 else np.int64), kind="stable")
    edges = np.cumsum(np.bincount(index, minlength=n_groups))[:-1]
    return np.split(values[order], edges)


def _group_means(index: Int64Array, values: Values, n_groups: int) -> Float64Array:
    sums = np.bincount(index, weights=values, minlength=n_groups)
    counts = np.bincount(index, minlength=n_groups)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
