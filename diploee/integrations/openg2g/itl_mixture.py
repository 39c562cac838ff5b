"""`ITLMixtureModel`: inter-token latencies as a shifted mixture of two lognormals.

The steady component is ordinary decoding, the stall component the steps that prefill or
scheduling delays (the mixture of OpenG2G).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy

from diploee.base.errors import InputError, shown
from diploee.base.rng import stream
from diploee.base.tables import Float64Array
from diploee.integrations.openg2g.logistic import FittedModel
from diploee.integrations.openg2g.normal_mixture import (
    Mixture,
    expectation_maximisation,
)

MAX_SAMPLES = 20_000
"""Samples that a fit takes; more are drawn from, at random."""
MIN_SAMPLES = 20
EXACT_REPLICAS = 30
"""Averages of up to this number of replicas are drawn one by one, others from the
normal limit."""
_BISECTIONS = 60

LEAST, LARGEST = 1e-12, 1e6
"""Of the parameters: a picosecond to eleven days, and widths that could be seen."""

LEAST_GAP_S = 1e-6
"""Smallest distance of the location below the smallest sample [s]; OpenG2G always takes
it."""
_START_SPLITS = (0.5, 0.8, 0.95)
_N_GAPS = 12
_COARSE_SAMPLES = 2_000
_COARSE_STEPS, _SEARCH_STEPS, _STEPS = 60, 100, 1_000
_TOLERANCE = 1e-9
"""Gain of log-likelihood per sample at which the iteration ends."""


@dataclass(frozen=True)
class ITLMixtureModel(FittedModel):
    """A mixture of two lognormals above a common location.

    `InputError` if a parameter is not finite or out of its range.
    """

    what = "a latency mixture"
    symbols = MappingProxyType(
        {
            "loc": "location_s",
            "pi_steady": "steady_weight",
            "sigma_steady": "steady_sigma",
            "scale_steady": "steady_scale_s",
            "sigma_stall": "stall_sigma",
            "scale_stall": "stall_scale_s",
        }
    )
    derived = MappingProxyType({"pi_stall": "stall_weight"})
    quality = ("log_likelihood", "n_samples")

    location_s: float  # lies below every sample [s]
    steady_weight: float  # share of the steady component, 0-1; the rest are stalls
    steady_sigma: float  # standard deviation of log(latency - location)
    steady_scale_s: float  # median of latency - location [s]
    stall_sigma: float  # likewise of the stalls
    stall_scale_s: float  # likewise
    # Of the samples; None where parameters were given
    log_likelihood: float | None = None
    n_samples: int = 0  # that were fitted

    def __post_init__(self) -> None:
        for symbol, name in self.symbols.items():
            value = getattr(self, name)
            low, high = {"loc": (0.0, LARGEST), "pi_steady": (0.0, 1.0)}.get(
                symbol, (LEAST, LARGEST)
            )
            if not low <= value <= high:
                raise InputError(
                    f"latency mixture {symbol} ({name}) must be from {low:g} to "
                    f"{high:g}, found {shown(value)}"
                )

    @property
    def stall_weight(self) -> float:
        """Share of the stalls."""
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
        """Mean latency [s]."""
        logs = self._logs
        return self.location_s + float(
            logs.weight @ np.exp(logs.mean + logs.sigma**2 / 2)
        )

    @property
    def variance_s2(self) -> float:
        """Variance of the latency [s^2]."""
        logs = self._logs
        means = np.exp(logs.mean + logs.sigma**2 / 2)
        second = means**2 * np.exp(logs.sigma**2)
        return float(logs.weight @ second) - float(logs.weight @ means) ** 2

    def cdf(self, latency_s: npt.ArrayLike) -> Float64Array:
        """Return the share of latencies at or below values [s], shaped alike."""
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
        """Return the latency [s] that a share `q`, between 0 and 1, does not exceed."""
        q = np.asarray(q, dtype=np.float64)
        if not ((q > 0) & (q < 1)).all():
            raise InputError(
                "quantiles of a latency must lie between 0 and 1, both excluded"
            )
        # Between the components' own quantiles lies the mixture's; 10 sigma hold any q
        # of float64.
        logs = self._logs
        low = np.full(q.shape, float((logs.mean - 10 * logs.sigma).min()))
        high = np.full(q.shape, float((logs.mean + 10 * logs.sigma).max()))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = self.cdf(self.location_s + np.exp(middle)) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(self.location_s + np.exp(high), dtype=np.float64)

    def sample(
        self, size: int | tuple[int, ...], rng: np.random.Generator
    ) -> Float64Array:
        """Draw latencies [s] of the given shape."""
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

        Up to 30 replicas one latency of each is drawn and averaged; above, the average
        comes from its normal limit (mean `mean_s`, variance `variance_s2` / n), never
        below `location_s`.
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
        cls, samples_s: npt.ArrayLike, *, max_samples: int = MAX_SAMPLES, seed: int = 0
    ) -> Self:
        """Fit the mixture by expectation maximisation on log(x - location).

        The location is that of the highest likelihood between 1 us below the smallest
        sample, which is OpenG2G's rule, and 0: so it never fits worse, and recovers the
        parameters that samples were drawn from.

        Parameters
        ----------
        samples_s : array_like, shape (n,)
            Latencies [s], positive.
        max_samples : int
            More samples than these are thinned at random (all of them bound the
            location).
        seed : int
            For the thinning.

        Raises
        ------
        InputError
            If there are fewer than 20 samples, one is not a positive number, or all are
            equal.
        """
        samples = np.asarray(samples_s, dtype=np.float64).ravel()
        _check(samples)
        rng = stream(seed, "benchmark", "itl_mixture")
        smallest = float(samples.min())
        if samples.size > max_samples:
            samples = rng.choice(samples, max_samples, replace=False)
            _check(samples)
        gap_s, found = _fit_location(samples, smallest, rng)
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


def _fit_location(
    samples: Float64Array, smallest: float, coarse_rng: np.random.Generator
) -> tuple[float, Mixture]:
    """Fit two lognormals with a common location."""
    coarse = samples
    if samples.size > _COARSE_SAMPLES:
        coarse = coarse_rng.choice(samples, _COARSE_SAMPLES, replace=False)
    gaps = np.geomspace(min(LEAST_GAP_S, smallest), smallest, _N_GAPS)
    tried = [
        (float(gap), _fit_at(coarse, smallest, float(gap), start, _COARSE_STEPS))
        for gap in gaps
        for start in _starts(_z(coarse, smallest, float(gap)))
    ]
    best_gap, best = max(tried, key=lambda found: found[1].log_likelihood)
    return _refine(samples, smallest, gaps, best_gap, best)


def _refine(
    samples: Float64Array,
    smallest: float,
    gaps: Float64Array,
    best_gap: float,
    start: Mixture,
) -> tuple[float, Mixture]:
    """Search between neighbours of the best gap, and compare with 1 us."""
    at = int(np.argmin(np.abs(gaps - best_gap)))
    bounds = np.log((gaps[max(at - 1, 0)], gaps[min(at + 1, gaps.size - 1)]))
    found: dict[float, Mixture] = {}

    def loss(log_gap: float) -> float:
        gap = float(np.exp(log_gap))
        found[gap] = _fit_at(samples, smallest, gap, start, _SEARCH_STEPS)
        return -found[gap].log_likelihood

    scipy.optimize.minimize_scalar(
        loss, bounds=tuple(bounds), method="bounded", options={"xatol": 1e-3}
    )
    likeliest = max(found, key=lambda gap: found[gap].log_likelihood)
    last = {
        gap: _fit_at(samples, smallest, gap, found.get(gap, start), _STEPS)
        for gap in (likeliest, best_gap, float(gaps[0]))
    }
    return max(last.items(), key=lambda item: item[1].log_likelihood)


def _z(samples: Float64Array, smallest: float, gap_s: float) -> Float64Array:
    # samples - smallest is exact for the smallest one; (smallest - gap) is not.
    return np.asarray(np.log((samples - smallest) + gap_s), dtype=np.float64)


def _fit_at(
    samples: Float64Array, smallest: float, gap_s: float, start: Mixture, n_steps: int
) -> Mixture:
    """Fit at a given location.

    The likelihood is that of the samples, dx = exp(z) dz.
    """
    z = _z(samples, smallest, gap_s)
    # A component of less than one sample ends it: one is enough.
    of_z = expectation_maximisation(
        z, start, n_rounds=n_steps, tolerance=_TOLERANCE, least_held=1.0
    )
    return replace(of_z, log_likelihood=of_z.log_likelihood - float(z.sum()))


def _starts(z: Float64Array) -> list[Mixture]:
    """Split the sorted samples at several shares: few stalls, or two halves."""
    ordered = np.sort(z)
    starts = []
    for share in _START_SPLITS:
        cut = min(max(int(share * z.size), 1), z.size - 1)
        parts = ordered[:cut], ordered[cut:]
        starts.append(
            Mixture(
                np.array([cut / z.size, 1 - cut / z.size]),
                np.array([part.mean() for part in parts]),
                np.array([max(part.std(), 0.1) for part in parts]),
            )
        )
    return starts


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
