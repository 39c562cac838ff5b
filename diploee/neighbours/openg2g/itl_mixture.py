"""`ITLMixtureModel`: inter-token latencies as a location plus a mixture of two lognormals.

The steady component is ordinary decoding, the stall component the steps that prefill or scheduling
delays (the mixture of OpenG2G).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy

from diploee.errors import InputError, shown
from diploee.neighbours.openg2g.coefficients import read_coefficients
from diploee.neighbours.openg2g.mixture_em import LEAST_GAP_S, fit_location
from diploee.normal_mixture import Mixture, log_likelihood
from diploee.streams import stream
from diploee.tables import Float64Array

SYMBOLS = {
    "loc": "location_s",
    "pi_steady": "steady_weight",
    "sigma_steady": "steady_sigma",
    "scale_steady": "steady_scale_s",
    "sigma_stall": "stall_sigma",
    "scale_stall": "stall_scale_s",
}
"""Names in OpenG2G's ``itl_fit.json`` and the fields that they stand for."""

MAX_SAMPLES = 20_000
"""Samples that a fit takes; more are drawn from, at random."""
MIN_SAMPLES = 20
EXACT_REPLICAS = 30
"""Averages of up to this number of replicas are drawn one by one, others from the normal limit."""
_BISECTIONS = 60

LEAST, LARGEST = 1e-12, 1e6
"""Of the parameters: a picosecond to eleven days, and widths that could be seen."""

Location = Literal["likelihood", "minimum"]


@dataclass(frozen=True)
class ITLMixtureModel:
    """A mixture of two lognormals above a common location.

    Parameters
    ----------
    location_s : float
        Latency that lies below every sample [s].
    steady_weight : float
        Share of the steady component, 0-1; the rest are stalls.
    steady_sigma, stall_sigma : float
        Standard deviation of log(latency - location) in each component.
    steady_scale_s, stall_scale_s : float
        Median of latency - location in each component [s].
    log_likelihood : float, optional
        Of the samples fitted; None where the parameters were given.
    n_samples : int
        Samples fitted; 0 where the parameters were given.

    Raises
    ------
    InputError
        If a parameter is not finite or out of its range.
    """

    location_s: float
    steady_weight: float
    steady_sigma: float
    steady_scale_s: float
    stall_sigma: float
    stall_scale_s: float
    log_likelihood: float | None = None
    n_samples: int = 0

    def __post_init__(self) -> None:
        for symbol, name in SYMBOLS.items():
            value = getattr(self, name)
            low, high = {"loc": (0.0, LARGEST), "pi_steady": (0.0, 1.0)}.get(
                symbol, (LEAST, LARGEST)
            )
            if not low <= value <= high:
                raise InputError(
                    f"latency mixture {symbol} ({name}) must be from {low:g} to {high:g}, found "
                    f"{shown(value)}"
                )

    @property
    def _weight(self) -> Float64Array:
        return np.array([self.steady_weight, 1.0 - self.steady_weight])

    @property
    def _mean_log(self) -> Float64Array:
        return np.array([math.log(self.steady_scale_s), math.log(self.stall_scale_s)])

    @property
    def _sigma(self) -> Float64Array:
        return np.array([self.steady_sigma, self.stall_sigma])

    @property
    def mean_s(self) -> float:
        """Mean latency [s]."""
        means = np.exp(self._mean_log + self._sigma**2 / 2)
        return self.location_s + float(self._weight @ means)

    @property
    def variance_s2(self) -> float:
        """Variance of the latency [s^2]."""
        means = np.exp(self._mean_log + self._sigma**2 / 2)
        second = means**2 * np.exp(self._sigma**2)
        return float(self._weight @ second) - float(self._weight @ means) ** 2

    def cdf(self, latency_s: npt.ArrayLike) -> Float64Array:
        """Return the share of latencies at or below values [s], of the shape of `latency_s`."""
        above = np.asarray(latency_s, dtype=np.float64) - self.location_s
        with np.errstate(divide="ignore"):
            z = np.log(np.maximum(above, 0.0))[..., None]
        return np.asarray(scipy.special.ndtr((z - self._mean_log) / self._sigma) @ self._weight)

    def quantile(self, q: npt.ArrayLike) -> Float64Array:
        """Return the latency [s] that a share `q` of latencies does not exceed.

        Parameters
        ----------
        q : array_like
            Shares between 0 and 1, both excluded.

        Raises
        ------
        InputError
            If a share lies outside.
        """
        q = np.asarray(q, dtype=np.float64)
        if not ((q > 0) & (q < 1)).all():
            raise InputError("quantiles of a latency must lie between 0 and 1, both excluded")
        # Between the components' own quantiles lies the mixture's; 10 sigma hold any q of float64.
        low = np.full(q.shape, float((self._mean_log - 10 * self._sigma).min()))
        high = np.full(q.shape, float((self._mean_log + 10 * self._sigma).max()))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = self.cdf(self.location_s + np.exp(middle)) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(self.location_s + np.exp(high), dtype=np.float64)

    def log_likelihood_of(self, samples_s: npt.ArrayLike) -> float:
        """Return the log-likelihood of samples [s]; minus infinity if one is not above `loc`."""
        above = np.asarray(samples_s, dtype=np.float64).ravel() - self.location_s
        if not (above > 0).all():
            return -np.inf
        z = np.log(above)
        mixture = Mixture(self._weight, self._mean_log, self._sigma)
        with np.errstate(divide="ignore"):
            return log_likelihood(z, np.ones(z.size), mixture) - float(z.sum())

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Float64Array:
        """Draw latencies [s] of the given shape."""
        stall = (rng.random(size) >= self.steady_weight).astype(np.int64)
        z = self._mean_log[stall] + self._sigma[stall] * rng.standard_normal(size)
        return np.asarray(self.location_s + np.exp(z), dtype=np.float64)

    def sample_avg(
        self, n_replicas: int, rng: np.random.Generator, size: int | None = None
    ) -> Float64Array:
        """Draw the average latency over replicas [s].

        Up to 30 replicas one latency of each is drawn and averaged; above, the average comes from
        its normal limit (mean `mean_s`, variance `variance_s2` / n), never below `location_s`.

        Parameters
        ----------
        n_replicas : int
            Replicas, 1 or more.
        rng : numpy.random.Generator
            Source of the draws.
        size : int, optional
            How many averages; one by default.

        Returns
        -------
        numpy.ndarray
            Of shape ``(size,)``, or a zero-dimensional array (a number) without `size`.

        Raises
        ------
        InputError
            If there is no replica.
        """
        if n_replicas < 1:
            raise InputError(f"an average needs 1 replica or more, found {n_replicas}")
        shape = () if size is None else (size,)
        if n_replicas <= EXACT_REPLICAS:
            return np.asarray(self.sample((*shape, n_replicas), rng).mean(axis=-1))
        deviation_s = float(np.sqrt(self.variance_s2 / n_replicas))
        drawn = self.mean_s + deviation_s * rng.standard_normal(shape)
        return np.maximum(drawn, self.location_s)

    @classmethod
    def fit(
        cls,
        samples_s: npt.ArrayLike,
        *,
        location: Location = "likelihood",
        max_samples: int = MAX_SAMPLES,
        seed: int = 0,
    ) -> Self:
        """Fit the mixture by expectation maximisation on log(x - location).

        Parameters
        ----------
        samples_s : array_like, shape (n,)
            Latencies [s], positive.
        location : {"likelihood", "minimum"}
            ``minimum`` is OpenG2G's rule, 1 us below the smallest sample. ``likelihood`` finds the
            location of the highest likelihood between that one and 0, so that it never fits worse,
            and recovers the parameters that samples were drawn from.
        max_samples : int
            More samples than these are thinned at random (all of them bound the location).
        seed : int
            For the thinning.

        Returns
        -------
        ITLMixtureModel
            With `log_likelihood` and `n_samples`.

        Raises
        ------
        InputError
            If there are fewer than 20 samples, one is not a positive number, or all are equal.
        """
        samples = np.asarray(samples_s, dtype=np.float64).ravel()
        _check(samples)
        rng = stream(seed, "benchmark", "itl_mixture")
        smallest = float(samples.min())
        if samples.size > max_samples:
            samples = rng.choice(samples, max_samples, replace=False)
            _check(samples)
        gap_s = min(LEAST_GAP_S, smallest) if location == "minimum" else None
        gap_s, found = fit_location(samples, smallest, gap_s, rng)
        steady, stall = (0, 1) if found.mean[0] <= found.mean[1] else (1, 0)
        return cls(
            location_s=max(smallest - gap_s, 0.0),
            steady_weight=min(max(float(found.weight[steady]), 0.0), 1.0),
            steady_sigma=float(found.sigma[steady]),
            steady_scale_s=float(np.exp(found.mean[steady])),
            stall_sigma=float(found.sigma[stall]),
            stall_scale_s=float(np.exp(found.mean[stall])),
            log_likelihood=found.log_likelihood,
            n_samples=samples.size,
        )

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the parameters under OpenG2G's names, with the quality of the fit."""
        parameters = {symbol: getattr(self, name) for symbol, name in SYMBOLS.items()}
        quality = {"log_likelihood": self.log_likelihood, "n_samples": self.n_samples}
        return {**parameters, "pi_stall": 1.0 - self.steady_weight, **quality}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a mixture from `to_dict`'s mapping, or from OpenG2G's.

        Raises
        ------
        InputError
            If a parameter is missing, not a number or out of its range.
        """
        quality = ("log_likelihood", "n_samples")
        return cls(**read_coefficients(data, "a latency mixture", SYMBOLS, quality))


def _check(samples: Float64Array) -> None:
    bad = np.flatnonzero(~(np.isfinite(samples) & (samples > 0)))
    if bad.size:
        raise InputError(
            f"latency sample {bad[0]} is {samples[bad[0]]:g} s ({bad.size} such samples), expected "
            "positive numbers; remove them"
        )
    if samples.size < MIN_SAMPLES:
        raise InputError(
            f"{samples.size} latency samples, a mixture needs {MIN_SAMPLES} or more; "
            "measure longer or leave this batch size out"
        )
    if np.ptp(samples) == 0:
        raise InputError(
            f"all {samples.size} latency samples are {samples[0]:g} s, a mixture needs samples "
            "that differ; check the clock of the measurement or leave this batch size out"
        )
