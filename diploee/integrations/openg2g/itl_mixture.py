"""`ITLMixtureModel`: inter-token latencies as a shifted mixture of two lognormals.

The steady component is ordinary decoding; the stall component is decoding steps delayed
by prefill or scheduling (the mixture of OpenG2G).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
import scipy
from pydantic import Field, computed_field

from diploee.base.errors import Brief, InputError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.integrations.openg2g.logistic import Number

MAX_SAMPLES = 20_000
"""Maximum samples of a fit; a larger set is subsampled at random."""
MIN_SAMPLES = 20
EXACT_REPLICAS = 30
"""Maximum replicas whose latencies are drawn one by one for an average.

Averages over more replicas are drawn from the normal limit."""

LEAST, LARGEST = 1e-12, 1e6
"""Range of scales [s] and sigmas of a mixture: a picosecond to eleven days."""

MIN_GAP_S = 1e-6
"""Minimum distance of the location below the smallest sample [s], used by OpenG2G."""
_START_SPLITS = (0.5, 0.8, 0.95)
_N_GAPS = 12
_COARSE_SAMPLES = 2_000
_COARSE_STEPS, _SEARCH_STEPS, _STEPS = 60, 100, 1_000
_TOLERANCE = 1e-9
"""Gain of log-likelihood per sample below which the iteration ends."""


MIN_SIGMA = 0.02
"""Minimum sigma of a component, so that none collapses onto repeated samples."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal distributions, of the logarithms of latencies."""

    # Weights, means and standard deviations of the components
    weight: Float64Array
    mean: Float64Array
    sigma: Float64Array
    log_likelihood: float = -np.inf  # of the fitted samples


Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Positive = Annotated[float, Field(strict=True, ge=LEAST, le=LARGEST)]


@dataclass(frozen=True)
class ITLMixtureModel(Brief):
    """Inter-token latency as a mixture of two lognormals above a common location.

    ``latency = location + exp(mu_k + sigma_k z)`` with a standard normal z and the
    component k: steady with probability `steady_weight`, else stall. ``exp(mu_k)`` is
    the component's scale [s].
    """

    # Location, below every sample [s]
    location_s: Annotated[float, Field(alias="loc", strict=True, ge=0, le=LARGEST)]
    # Weight of the steady component, 0-1; the rest are stalls
    steady_weight: Annotated[Share, Field(alias="pi_steady")]
    # Standard deviation of log(latency - location)
    steady_sigma: Annotated[Positive, Field(alias="sigma_steady")]
    # Median of latency - location [s]
    steady_scale_s: Annotated[Positive, Field(alias="scale_steady")]
    # Standard deviation and median of the stalls, as above
    stall_sigma: Annotated[Positive, Field(alias="sigma_stall")]
    stall_scale_s: Annotated[Positive, Field(alias="scale_stall")]
    # Log-likelihood of the samples; None for specified parameters
    log_likelihood: Number | None = None
    n_samples: int = 0  # number of fitted samples

    @computed_field(alias="pi_stall")  # type: ignore[prop-decorator]
    @property
    def stall_weight(self) -> float:
        """Weight of the stall component, 0-1."""
        return 1.0 - self.steady_weight

    @cached_property
    def _logs(self) -> Mixture:
        """Normal mixture of log(latency - location)."""
        return Mixture(
            np.array([self.steady_weight, self.stall_weight]),
            np.array([math.log(self.steady_scale_s), math.log(self.stall_scale_s)]),
            np.array([self.steady_sigma, self.stall_sigma]),
        )

    @property
    def mean_s(self) -> float:
        """Mean inter-token latency of the mixture [s]."""
        logs = self._logs
        return self.location_s + float(
            logs.weight @ np.exp(logs.mean + logs.sigma**2 / 2)
        )

    @property
    def variance_s2(self) -> float:
        """Variance of the inter-token latency [s^2]."""
        logs = self._logs
        means = np.exp(logs.mean + logs.sigma**2 / 2)
        second = means**2 * np.exp(logs.sigma**2)
        return float(logs.weight @ second) - float(logs.weight @ means) ** 2

    def cdf(self, latency_s: npt.ArrayLike) -> Float64Array:
        """Return the fraction of latencies at or below each value [s]."""
        above, logs = (
            np.asarray(latency_s, dtype=np.float64) - self.location_s,
            self._logs,
        )
        with np.errstate(divide="ignore"):
            z = np.log(np.maximum(above, 0.0))[..., None]
        return np.asarray(
            scipy.special.ndtr((z - logs.mean) / logs.sigma) @ logs.weight
        )

    def quantile(self, q: npt.ArrayLike) -> Float64Array:
        """Return the `q`-quantile of the latency [s], for q between 0 and 1."""
        q = np.asarray(q, dtype=np.float64)
        if not ((q > 0) & (q < 1)).all():
            raise InputError(
                "quantiles of a latency must lie between 0 and 1, both excluded"
            )
        # The mixture's quantile is between the components' quantiles; 10 sigma contain
        # any q of float64.
        logs = self._logs
        low = float((logs.mean - 10 * logs.sigma).min())
        high = float((logs.mean + 10 * logs.sigma).max())

        def off(log_s: float, share: float) -> float:
            return float(self.cdf(self.location_s + np.exp(log_s))) - share

        def root(share: float) -> float:
            return float(scipy.optimize.brentq(off, low, high, (share,), xtol=1e-14))

        return np.asarray(self.location_s + np.exp(np.vectorize(root)(q)))

    def sample(
        self, size: int | tuple[int, ...], rng: np.random.Generator
    ) -> Float64Array:
        """Draw latencies [s] of a shape."""
        stall, logs = (
            (rng.random(size) >= self.steady_weight).astype(np.int64),
            self._logs,
        )
        z = logs.mean[stall] + logs.sigma[stall] * rng.standard_normal(size)
        return np.asarray(self.location_s + np.exp(z), dtype=np.float64)

    def sample_avg(
        self, n_replicas: int, rng: np.random.Generator, size: int | None = None
    ) -> Float64Array:
        """Draw the average latency over replicas [s]: `size` averages, one by default.

        For up to 30 replicas one latency per replica is drawn; for more, the average is
        drawn from the normal limit (mean `mean_s`, variance `variance_s2` / n), and is
        at least `location_s`.
        """
        if n_replicas < 1:
            raise InputError(f"an average needs 1 replica or more, found {n_replicas}")
        shape = () if size is None else (size,)
        if n_replicas <= EXACT_REPLICAS:
            return np.asarray(self.sample((*shape, n_replicas), rng).mean(axis=-1))
        deviation_s = float(np.sqrt(self.variance_s2 / n_replicas))
        average_s = self.mean_s + deviation_s * rng.standard_normal(shape)
        return np.maximum(average_s, self.location_s)

    @classmethod
    def fit(
        cls, samples_s: npt.ArrayLike, *, max_samples: int = MAX_SAMPLES, seed: int = 0
    ) -> Self:
        """Fit the mixture by expectation maximisation on log(x - location).

        The location with the highest likelihood is searched from 0 to 1 us below the
        smallest sample. The latter is the location of OpenG2G, so the likelihood is
        never lower than that of OpenG2G's fit.

        Parameters
        ----------
        samples_s : array_like, shape (n,)
            Latencies [s], positive.
        max_samples : int
            Maximum number of fitted samples; more are subsampled at random (all samples
            bound the location).
        seed : int
            Seed of the subsampling.

        Raises
        ------
        InputError
            If there are fewer than 20 samples, one is not a positive number, or all are
            equal.
        """
        samples = np.asarray(samples_s, dtype=np.float64).ravel()
        _check(samples)
        rng = named_rng(seed, "benchmark", "itl_mixture")
        smallest = float(samples.min())
        if samples.size > max_samples:
            samples = rng.choice(samples, max_samples, replace=False)
            _check(samples)
        gap_s, result = _fit_location(samples, smallest, rng)
        steady, stall = (0, 1) if result.mean[0] <= result.mean[1] else (1, 0)
        return cls(
            location_s=max(smallest - gap_s, 0.0),
            steady_weight=min(max(float(result.weight[steady]), 0.0), 1.0),
            steady_sigma=float(result.sigma[steady]),
            steady_scale_s=float(np.exp(result.mean[steady])),
            stall_sigma=float(result.sigma[stall]),
            stall_scale_s=float(np.exp(result.mean[stall])),
            log_likelihood=result.log_likelihood,
            n_samples=samples.size,
        )


def _fit_location(
    samples: Float64Array, smallest: float, rng: np.random.Generator
) -> tuple[float, Mixture]:
    """Fit two lognormals, and the location's distance below the smallest sample [s]."""
    coarse = samples
    if samples.size > _COARSE_SAMPLES:
        coarse = rng.choice(samples, _COARSE_SAMPLES, replace=False)

    def fitted(
        values: Float64Array, log_gap: float, start: Mixture | float, n_steps: int
    ) -> Mixture:
        # values - smallest is exact for the smallest one; (smallest - gap) is not.
        z = np.log((values - smallest) + np.exp(log_gap))
        if isinstance(start, float):
            start = _split(z, start)
        result = expectation_maximisation(z, start, n_steps)
        # The likelihood is that of the samples, dx = exp(z) dz.
        return replace(result, log_likelihood=result.log_likelihood - float(z.sum()))

    log_min_gap = np.log(min(MIN_GAP_S, smallest))
    gaps, width = np.linspace(log_min_gap, np.log(smallest), _N_GAPS, retstep=True)
    tried = [
        (gap, fitted(coarse, gap, share, _COARSE_STEPS))
        for gap in gaps.tolist()
        for share in _START_SPLITS
    ]
    best, start = max(tried, key=lambda fit: fit[1].log_likelihood)
    near = scipy.optimize.minimize_scalar(
        lambda gap: -fitted(samples, gap, start, _SEARCH_STEPS).log_likelihood,
        bounds=(max(best - width, gaps[0]), min(best + width, gaps[-1])),
        method="bounded",
        options={"xatol": 1e-3},
    ).x
    last = [
        (float(np.exp(gap)), fitted(samples, gap, start, _STEPS))
        for gap in (near, best, gaps[0])
    ]
    return max(last, key=lambda fit: fit[1].log_likelihood)


def _split(z: Float64Array, share: float) -> Mixture:
    """Return a start mixture: the lowest fraction of the samples, and the others."""
    cut = min(max(int(share * z.size), 1), z.size - 1)
    parts = np.split(np.sort(z), [cut])
    return Mixture(
        np.array([cut / z.size, 1 - cut / z.size]),
        np.array([part.mean() for part in parts]),
        np.array([max(part.std(), 0.1) for part in parts]),
    )


def expectation_maximisation(
    samples: Float64Array, start: Mixture, n_rounds: int
) -> Mixture:
    """Fit a mixture by expectation maximisation until the likelihood is constant.

    Each round has an E step, the components' probabilities of each sample, and an M
    step, their weights, means and standard deviations (Dempster, Laird and Rubin 1977).
    """
    result, previous = start, -np.inf
    for k in range(n_rounds):
        # E: each component's probability for each sample. M: the components' moments.
        off = (samples - result.mean[:, None]) / result.sigma[:, None]
        height = np.log(result.weight / (result.sigma * np.sqrt(2 * np.pi)))
        joint = height[:, None] - 0.5 * off**2
        log_density = np.logaddexp.reduce(joint, axis=0)
        likelihood = float(log_density.sum())
        result = replace(result, log_likelihood=likelihood)
        share = np.exp(joint - log_density)
        count = share.sum(axis=1)
        gain, previous = likelihood - previous, likelihood
        if k == n_rounds - 1 or gain < _TOLERANCE * samples.size or count.min() < 1:
            break
        mean = share @ samples / count
        spread = (share * (samples - mean[:, None]) ** 2).sum(axis=1) / count
        sigma = np.maximum(np.sqrt(spread), MIN_SIGMA)
        result = Mixture(count / samples.size, mean, sigma)
    return result


def _check(samples: Float64Array) -> None:
    bad = np.flatnonzero(~(np.isfinite(samples) & (samples > 0)))
    if bad.size:
        raise InputError(
            f"latency sample {bad[0]} is {samples[bad[0]]:g} s ({bad.size} such "
            "samples), expected positive numbers; remove them"
        )
    if samples.size < MIN_SAMPLES:
        raise InputError(
            f"{samples.size} latency samples, a mixture needs {MIN_SAMPLES} or more; "
            "measure longer or leave this batch size out"
        )
    if np.ptp(samples) == 0:
        raise InputError(
            f"all {samples.size} latency samples are {samples[0]:g} s, a mixture "
            "needs samples that differ; check the clock of the measurement or leave "
            "this batch size out"
        )
