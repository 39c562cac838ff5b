"""Whether the distribution of hourly counts, Poisson or gamma-mixed, fits those of a log."""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from diploee.learn.jobs.calendar_fit import fit_calendar, month_factor, week_slots
from diploee.learn.jobs.dispersion import estimate_dispersion
from diploee.learn.jobs.hours import HourCounts
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK

N_BINS = 20
MOST_HOURS = 52 * HOURS_PER_WEEK
"""Hours that the test looks at, from the first on: it stays quick and does not reject trifles."""

N_REPLICATES = 99


def count_model_p_value(hours: HourCounts, gamma: bool, rng: np.random.Generator) -> float | None:
    """Test the distribution of hourly counts about their fitted calendar.

    The place of every count within its fitted distribution (Dunn and Smyth 1996) should be uniform.
    Pearson's chi-square of these places in `N_BINS` bins is compared with those of counts that are
    drawn from the fit and fitted alike: a parametric bootstrap, as the calendar's many parameters
    make the places less uniform than the tables of the test assume.

    Parameters
    ----------
    hours : HourCounts
        The counts; hours that the span covers in part are left out.
    gamma : bool
        Test the gamma mixture instead of Poisson counts.
    rng : numpy.random.Generator
        For the places of discrete counts and the drawn counts.

    Returns
    -------
    float or None
        Probability of a chi-square as large or larger; None where there is too little to tell.
    """
    hours = hours.whole
    shown = None if hours.seen is None else hours.seen[:MOST_HOURS]
    hours = HourCounts(hours.first_hour, hours.counts[:MOST_HOURS], seen=shown)
    fitted = _fit(hours, gamma)
    if fitted is None:
        return None
    expected, dispersion = fitted
    seen = _chi_square(hours, expected, dispersion, rng)
    farther = 0
    for _ in range(N_REPLICATES):
        rate = expected
        if dispersion > 0:
            rate = expected * rng.gamma(1 / dispersion, dispersion, expected.size)
        drawn = HourCounts(hours.first_hour, rng.poisson(rate), seen=shown)
        again = _fit(drawn, gamma)
        farther += again is None or _chi_square(drawn, *again, rng) >= seen
    return (farther + 1) / (N_REPLICATES + 1)


def _fit(hours: HourCounts, gamma: bool) -> tuple[Float64Array, float] | None:
    if not hours.counts.any():
        return None
    fit = fit_calendar(hours)
    if not gamma:
        return fit.expected, 0.0
    exposure = month_factor(hours, fit)
    dispersion = estimate_dispersion(hours.counts, week_slots(hours)[1], exposure)
    return None if dispersion is None else (fit.expected, dispersion)


def _chi_square(
    hours: HourCounts, expected: Float64Array, dispersion: float, rng: np.random.Generator
) -> float:
    used = expected > 0
    n, m = hours.counts[used], expected[used]
    upper, lower = _upto(n, m, dispersion), _upto(n - 1, m, dispersion)
    # F(n - 1) + u (F(n) - F(n - 1)), u uniform, is uniform if F is the distribution of n.
    quantile = lower + rng.random(n.size) * (upper - lower)
    bins = np.clip((quantile * N_BINS).astype(np.int64), 0, N_BINS - 1)
    return float(stats.chisquare(np.bincount(bins, minlength=N_BINS)).statistic)


def _upto(n: Int64Array, m: Float64Array, dispersion: float) -> Float64Array:
    """Return the probability of a count of at most n."""
    if dispersion > 0:
        shape = 1 / dispersion
        # Negative binomial, mean m, shape r = 1 / d: P(N <= n) = I_q(r, n + 1), q = r / (r + m).
        below = special.betainc(shape, np.maximum(n, 0) + 1.0, shape / (shape + m))
    else:
        below = special.pdtr(np.maximum(n, 0), m)
    return np.where(n < 0, 0.0, below)
