"""How hourly counts scatter about their calendar: as Poisson, or more, gamma-mixed.

Under the gamma mixture an hour's count n is negative binomial around its expectation m: n (n - 1)
has the expectation (1 + d) m**2, where d is the dispersion of a scenario's job stream, 0 for a
Poisson process. m**2 in turn is the expectation of the product of two counts of one hour of the
week in different weeks. The ratio of the sums of both over the week gives 1 + d, without the bias
that fitted expectations would bring where an hour of the week was seen but a few times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from diploee.tables import Float64Array, Int64Array

MAX_DISPERSION = 1_000.0
"""Largest dispersion that is searched; the limit of scenarios."""

FIRST_STEP = 1e-5


@dataclass(frozen=True)
class DispersionFit:
    """Scatter of hourly counts about their calendar.

    Parameters
    ----------
    index, index_low, index_high : float
        Variance over mean of the hourly counts given the weights, with its limits; 1 for Poisson,
        below 1 for submissions more regular than that.
    dispersion, low, high : float
        Variance of the hours' random factor, with its limits; infinite where nothing bounds it.
    chi_square : float
        Pearson's chi-square of the hourly counts against the weights.
    freedom : int
        Its degrees of freedom.
    poisson_p_value : float
        Probability of a chi-square as large or larger if the counts were Poisson.
    lag_correlation : float
        Correlation of the standardised residuals of successive hours. Limits and tests take hours
        as independent: where it is well above 0, they are too narrow.
    """

    index: float
    index_low: float
    index_high: float
    dispersion: float
    low: float
    high: float
    chi_square: float
    freedom: int
    poisson_p_value: float
    lag_correlation: float


def fit_dispersion(
    counts: Int64Array,
    expected: Float64Array,
    slot: Int64Array,
    exposure: Float64Array,
    n_parameters: int,
    confidence: float = 0.95,
) -> DispersionFit | None:
    """Estimate the dispersion of hourly counts, and test whether they are Poisson.

    Parameters
    ----------
    counts : numpy.ndarray, shape (H,), int64
        Jobs submitted in each hour.
    expected : numpy.ndarray, shape (H,), float64
        Expectations fitted to them.
    slot : numpy.ndarray, shape (H,), int64
        Which hours share an expectation, up to their exposure: the hour of the week.
    exposure : numpy.ndarray, shape (H,), float64
        Weight of the hour's month.
    n_parameters : int
        Parameters that were fitted.
    confidence : float
        Level of the limits.

    Returns
    -------
    DispersionFit or None
        None where there are too few hours or jobs to tell.
    """
    used = expected > 0
    n, m = counts[used].astype(np.float64), expected[used]
    freedom = int(m.size) - n_parameters
    if freedom < 1:
        return None
    found = _Moments.of(counts.astype(np.float64), slot, exposure)
    if found.product <= 0:
        return None
    z = float(stats.norm.isf((1 - confidence) / 2))
    estimate = found.pairs / found.product - 1
    dispersion = max(0.0, estimate)
    low, high = found.limit(estimate, z), found.limit(estimate, -z)
    # Pearson: sum of (n - m)^2 / m, on average its degrees of freedom if counts are Poisson.
    chi_square = float(((n - m) ** 2 / m).sum())
    # The squared residual over m has the variance 2 + 1 / m if the count is Poisson.
    spread = float(np.sqrt((2 + 1 / m).sum()))
    mean = float(expected.mean())
    half = z * found.standard_error(0.0)  # below a dispersion of 0, where the index is below 1
    return DispersionFit(
        index=1 + estimate * mean,
        index_low=max(0.0, 1 + (low or estimate - half) * mean),
        index_high=1 + (high or estimate + half) * mean,
        dispersion=dispersion,
        low=low,
        high=high,
        chi_square=chi_square,
        freedom=freedom,
        poisson_p_value=float(stats.norm.sf((chi_square - freedom) / spread)),
        lag_correlation=_lag_correlation((n - m) / np.sqrt(m + dispersion * m**2)),
    )


def estimate_dispersion(
    counts: Int64Array, slot: Int64Array, exposure: Float64Array
) -> float | None:
    """Return the dispersion alone, arguments and None as of `fit_dispersion`."""
    found = _Moments.of(counts.astype(np.float64), slot, exposure)
    return max(0.0, found.pairs / found.product - 1) if found.product > 0 else None


@dataclass(frozen=True)
class _Moments:
    """Sums over the slots of the week of n (n - 1), of products of two counts, and their scatter.

    `powers` are the sums over the hours of w**2 m**k for k = 2 to 4, where m is the hour's
    expectation and w the factor with which its n (n - 1) enters.
    """

    pairs: float
    product: float
    powers: tuple[float, float, float]

    @classmethod
    def of(cls, n: Float64Array, slot: Int64Array, exposure: Float64Array) -> _Moments:
        per_exposure = np.divide(1.0, exposure, out=np.zeros_like(exposure), where=exposure > 0)
        of_n, of_square, of_exposure, of_exposure_square = (
            np.bincount(slot, x) for x in (n, n**2, exposure, exposure**2)
        )
        # Week slot s: sum of n (n - 1) / e over sum of e, against ((sum n)^2 - sum n^2) over
        # ((sum e)^2 - sum e^2), the mean product of two counts of the slot per unit of exposure e.
        # Divided by the exposure, pairs vary with the count as the products do: both cancel.
        of_pairs = np.bincount(slot, n * (n - 1) * per_exposure)
        others = of_exposure**2 - of_exposure_square
        used = others > 0
        share = np.divide(1.0, of_exposure, out=np.zeros_like(of_n), where=used)
        m, w = (of_n * share)[slot] * exposure, share[slot] * per_exposure
        second, third, fourth = (float((w**2 * m**k).sum()) for k in (2, 3, 4))
        return cls(
            pairs=float((of_pairs * share).sum()),
            product=float(((of_n**2 - of_square)[used] / others[used]).sum()),
            powers=(second, third, fourth),
        )

    def standard_error(self, dispersion: float) -> float:
        """Return the standard error of the estimate if a dispersion held (delta method).

        With the negative binomial's factorial moments, m**k times (1 + j d) for j = 0 to k - 1, and
        the slope 2 (1 + d) m by which the products vary with the count, the variance of an hour's
        n (n - 1) less that slope times n is 2 (1 + d) m**2 (1 + d m)**2.
        """
        d, (second, third, fourth) = dispersion, self.powers
        variance = 2 * (1 + d) * (second + 2 * d * third + d**2 * fourth)
        return float(np.sqrt(variance)) / self.product

    def limit(self, estimate: float, z: float) -> float:
        """Return the first dispersion that lies z of its own standard errors below the estimate.

        With a negative z above it; infinite where none does.
        """

        def beyond(dispersion: float) -> bool:
            return estimate - dispersion <= z * self.standard_error(dispersion)

        if beyond(0.0):
            return 0.0
        # For a lower limit, estimate - d falls and z se(d) rises with d: they cross once. For an
        # upper one se(d), which grows as d**1.5, may outrun d: then nothing bounds it.
        low, high = 0.0, FIRST_STEP
        while not beyond(high):
            low, high = high, 2 * high
            if low > MAX_DISPERSION:
                return float("inf")
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return high


def _lag_correlation(residuals: Float64Array) -> float:
    if residuals.size < 3 or np.ptp(residuals) == 0:
        return 0.0
    return float(np.corrcoef(residuals[:-1], residuals[1:])[0, 1])
