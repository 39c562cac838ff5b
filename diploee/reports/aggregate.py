"""Aggregation of a year's series to the few hundred values of a chart.

Times are int64 milliseconds of local time since 1970-01-01 00:00. Means, percentiles
and sums are taken over all steps of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_WEEK

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[Any]

_MONDAY_SHIFT_MS = 3 * MS_PER_DAY
"""Shift [ms] that aligns weeks with Mondays, as 1970-01-01 was a Thursday."""


def time_of_week_ms(local_ms: Any) -> Any:
    """Return the time since Monday 00:00 [ms]."""
    return (local_ms + _MONDAY_SHIFT_MS) % MS_PER_WEEK


def block_means(values: Values, every: int) -> Float64Array:
    """Return the means of blocks of `every` values; the last block may be shorter."""
    first = np.arange(0, values.size, every)
    sums = np.add.reduceat(values.astype(np.float64), first)
    return sums / np.diff(np.append(first, values.size))


def day_grid(
    local_ms: Int64Array, values: Values, cell_ms: int
) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.float32]]:
    """Return the days, and mean values in cells of time of day, shape (cells, days).

    Cells without values are NaN.
    """
    first = int(local_ms[0] // MS_PER_DAY)
    n_days, n_cells = (
        int(local_ms[-1] // MS_PER_DAY) - first + 1,
        -(-MS_PER_DAY // cell_ms),
    )
    cell = (local_ms % MS_PER_DAY) // cell_ms * n_days + (
        local_ms // MS_PER_DAY - first
    )
    sums = np.bincount(cell, values, n_cells * n_days)
    counts = np.bincount(cell, minlength=n_cells * n_days)
    result = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(
        np.float32
    )
    days = np.datetime64(first, "D") + np.arange(n_days, dtype="timedelta64[D]")
    return days, result.reshape(n_cells, n_days)


def profile_by_time(
    local_ms: Int64Array,
    values: Values,
    period_ms: int,
    bin_ms: int,
    levels: Sequence[float] = (),
) -> tuple[Int64Array, npt.NDArray[np.float32]]:
    """Return times of day or week [ms], with mean and quantiles as rows.

    Times without values are left out. If the values cover two periods, the last point
    repeats the first. Otherwise it is the end of the last bin.
    """
    import pandas as pd

    shift_ms = _MONDAY_SHIFT_MS if period_ms == MS_PER_WEEK else 0
    bins, n_bins = (local_ms + shift_ms) % period_ms // bin_ms, -(-period_ms // bin_ms)
    groups = pd.Series(values.astype(np.float64)).groupby(bins)
    mean = groups.mean()
    quantiles = groups.quantile(np.array(levels)).to_numpy().reshape(len(mean), -1)
    result = np.column_stack([mean, quantiles] if levels else [mean]).astype(np.float32)
    bin_index = mean.index.to_numpy()
    has_two = int(np.ptp(local_ms)) >= 2 * period_ms - bin_ms
    if (end := np.flatnonzero(bin_index == (0 if has_two else n_bins - 1))).size:
        bin_index, result = (
            np.append(bin_index, n_bins),
            np.vstack([result, result[end]]),
        )
    return bin_index * bin_ms, result.T


def duration_curve(values: Values) -> tuple[Float64Array, Float64Array]:
    """Return fractions of time (0-1), and the value that is exceeded for each.

    The curve has about 1,000 quantiles, denser in the highest hundredth. The first is
    the exact maximum, the last the exact minimum.
    """
    share = np.unique(
        np.concatenate([np.linspace(0, 0.01, 41), np.linspace(0, 1, 1001)])
    )
    quantiles: Float64Array = np.quantile(values, 1 - share)
    return share, quantiles


def histogram(values: Values, edges: Float64Array) -> Float64Array:
    """Return the fraction of values in each bin (0-1)."""
    shares: Float64Array = np.histogram(values, edges)[0] / max(values.size, 1)
    return shares


def round_edges(low: float, high: float, n_bins: int) -> Float64Array:
    """Return the edges of about `n_bins` bins with a round width, from low to high."""
    raw = max(high - low, abs(high) * 1e-6, 1e-12) / n_bins
    power = 10.0 ** np.floor(np.log10(raw))
    width = power * min(
        (f for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999), default=10
    )
    first, last = np.floor(low / width + 1e-9), np.ceil(high / width - 1e-9)
    edges: Float64Array = np.arange(first, max(last, first + 1) + 1) * width
    return edges


def statistics_by_date(local_ms: Int64Array, values: Values, unit: str) -> pd.DataFrame:
    """Return count, mean, min and max of values by day ("D") or month ("M")."""
    import pandas as pd

    starts = (
        local_ms.astype("datetime64[ms]")
        .astype(f"datetime64[{unit}]")
        .astype("datetime64[s]")
    )
    return (
        pd.Series(values.astype(np.float64))
        .groupby(starts)
        .agg(["count", "mean", "min", "max"])
    )
