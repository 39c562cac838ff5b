"""Months of a fit: whether they differ by more than chance, and how a scenario lays them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from diploee.loads.jobs.rates import EPOCH_HOUR_OF_WEEK, month_factors
from diploee.scenario import Calendar
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK, MONTHS_PER_YEAR

MONTHS_BELOW = 0.01
"""Probability that months differ so by chance below which they are kept."""


@dataclass(frozen=True)
class MonthTest:
    """Whether months differ: an analysis of variance of weeks, or of months of several years."""

    ratio: float  # mean square between months over that within them (F)
    freedom: tuple[int, int]  # degrees of freedom of both
    p_value: float  # probability of such a ratio or a larger one where months do not differ
    # Reference of the months: the weeks within them, or, where each was seen in two years, the
    # same month of other years
    within: str

    @property
    def differ(self) -> bool:
        """Whether months differ by more than chance."""
        return self.p_value < MONTHS_BELOW

    def line(self) -> str:
        """Return what was taken, and why, in words."""
        kept = "kept, they differ more" if self.differ else "left out, they differ no more"
        weeks = "the weeks within them" if self.within == "weeks" else "one month of several years"
        return (
            f"Months: {kept} than {weeks} (F {self.ratio:.3g} with {self.freedom[0]} and "
            f"{self.freedom[1]} degrees of freedom, p {self.p_value:.2g} if by chance); --months "
            "and --no-months override it."
        )


def months_differ(
    counts: Float64Array, expected: Float64Array, month: Int64Array, hour: Int64Array
) -> MonthTest:
    """Compare months with the weeks within them, or against those of other years.

    Weighted analysis of variance (Fisher 1925) of counts over what a calendar without months
    expects. Weeks that hang together make months differ too: only years tell that apart.
    """
    year = (np.cumsum(np.diff(month, prepend=month[0]) != 0) + month[0]) // MONTHS_PER_YEAR
    of_year = np.unique(year * MONTHS_PER_YEAR + month)
    within = "years" if np.bincount(of_year % MONTHS_PER_YEAR).min() > 1 else "weeks"
    unit = year if within == "years" else (hour + EPOCH_HOUR_OF_WEEK) // HOURS_PER_WEEK
    cells, of_cell = np.unique(unit * MONTHS_PER_YEAR + month, return_inverse=True)
    mean, seen = (np.bincount(of_cell.ravel(), x) for x in (expected, counts))
    used = mean > 0
    mean, ratio, month = mean[used], seen[used] / mean[used], cells[used] % MONTHS_PER_YEAR
    of_month = np.bincount(month, mean * ratio) / np.maximum(np.bincount(month, mean), 1e-300)
    off = ratio - of_month[month]
    freedom = np.unique(month).size - 1, ratio.size - np.unique(month).size
    between = float((mean * (of_month[month] - np.average(ratio, weights=mean)) ** 2).sum())
    inside = float((mean * off**2).sum())
    if min(freedom) < 1:
        return MonthTest(float("nan"), freedom, 1.0, within)
    f = between / freedom[0] / max(inside / freedom[1], 1e-12 * between, 1e-300)
    return MonthTest(f, freedom, float(stats.f.sf(f, *freedom)), within)


def laid_over_stepped(
    month_weight: Float64Array, week_weight: Float64Array, month: Int64Array, hour: Int64Array
) -> Float64Array:
    """Return the months as a scenario lays them over the weights that were fitted."""
    laid = Calendar(hour_of_week=tuple(week_weight), month=tuple(month_weight))
    hours, of_hour = np.unique(hour, return_inverse=True)
    stepped = month_weight[month]
    smooth = month_factors(laid, hours)[of_hour]
    return np.divide(smooth, stepped, out=np.ones_like(stepped), where=stepped > 0)
