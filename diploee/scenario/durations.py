"""Distributions of job run times: quantiles of a log, or a mixture of lognormals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Annotated, cast

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, model_validator

from diploee.base.model import Model, Share, check_probabilities, optional, unset
from diploee.base.rng import uniform_from_each
from diploee.base.tables import Float64Array

MAX_DURATION_S = 10 * 366 * 86_400
"""Maximum duration [s]; no run is longer, and larger numbers would overflow
milliseconds."""

TINY_SIGMA = 1e-12
"""Smallest sigma in the equations; a part of sigma 0 is a step."""

SecondsAboveZero = Annotated[float, Field(gt=0, le=MAX_DURATION_S)]


class LognormalPart(Model):
    """One lognormal component of a mixture."""

    weight: Share = Field(description="Fraction of the jobs.")
    median_s: SecondsAboveZero = Field(description="Median duration [s].")
    sigma: Annotated[float, Field(ge=0, le=10)] = Field(
        description="Standard deviation of the natural logarithm of the duration."
    )


def _check_quantiles(quantiles: dict[float, float]) -> dict[float, float]:
    """Return quantiles with increasing levels and non-decreasing durations.

    Other quantiles raise a `ValueError`.
    """
    levels, seconds = list(quantiles), list(quantiles.values())
    if len(levels) < 2 or levels[0] != 0 or levels[-1] != 1:
        raise ValueError(
            "levels must begin with 0 (the shortest) and end with 1 (the longest)"
        )
    if not all(a < b for a, b in pairwise(levels)):
        raise ValueError("levels must rise from 0 to 1")
    for level, (a, b) in zip(levels[1:], pairwise(seconds), strict=True):
        if b < a:
            raise ValueError(
                f"durations must not fall with the level: {b:g} s at {level:g}"
            )
    return quantiles


Quantiles = Annotated[dict[Share, SecondsAboveZero], AfterValidator(_check_quantiles)]


class DurationModel(Model):
    """Run-time distribution of a job class: quantiles, or a lognormal mixture."""

    quantiles_s: Quantiles | None = unset(
        "Durations [s] by level from 0 to 1, log-linear between the levels, such as "
        "{0: 10, 0.5: 600, 1: 86400}; or lognormal."
    )
    lognormal: tuple[LognormalPart, ...] | None = unset(
        "Lognormals whose weights sum to 1; or quantiles_s.", min_length=1
    )
    min_s: SecondsAboveZero | None = unset(
        "Minimum duration, to which shorter ones are raised [s]; none if absent."
    )
    max_s: SecondsAboveZero | None = unset(
        "Maximum duration, to which longer ones are cut [s]; none if absent."
    )
    scale: Annotated[float, Field(gt=0, le=1e6)] | None = optional(
        "Factor on all durations including min_s and max_s, such as for classes that "
        "share a table; 1 if absent."
    )

    @model_validator(mode="after")
    def _check_parts(self) -> DurationModel:
        """Check that there is one kind of distribution, with consistent values."""
        self._need_one("quantiles_s", "lognormal")
        if self.lognormal is not None:
            check_probabilities((part.weight for part in self.lognormal), "lognormals")
        if (
            self.min_s is not None
            and self.max_s is not None
            and self.min_s > self.max_s
        ):
            raise ValueError(f"min_s {self.min_s:g} is above max_s {self.max_s:g}")
        return self

    def draw(self, rng: np.random.Generator, n: int) -> Float64Array:
        """Draw random run times.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers; the count consumed depends on `n` only.
        n : int
            Number of draws.

        Returns
        -------
        numpy.ndarray, shape (n,), float64
            Durations [s], within `min_s` and `max_s`, times `scale`.
        """
        return self.draw_each([rng], [n])

    def draw_each(
        self, rngs: Sequence[np.random.Generator], counts: Collection[int]
    ) -> Float64Array:
        """Return concatenated draws of several generators, as from `draw` [s]."""
        levels = uniform_from_each(rngs, counts)
        if self.quantiles_s is not None:
            return self._limit_and_scale(self._from_level(levels))
        components = self._lognormal_arrays()
        edges = np.cumsum(components[0])
        component = np.searchsorted(edges[:-1] / edges[-1], levels, side="right")
        normal = np.concatenate(
            [g.standard_normal(n) for g, n in zip(rngs, counts, strict=True)]
        )
        return self._limit_and_scale(
            np.exp(components[1][component] + components[2][component] * normal)
        )

    def cdf(self, duration_s: npt.ArrayLike) -> Float64Array:
        """Return the cumulative probability of durations.

        Parameters
        ----------
        duration_s : array_like
            Durations [s].

        Returns
        -------
        numpy.ndarray, float64
            Probabilities, in the shape of `duration_s`.
        """
        unscaled_s = np.asarray(duration_s, dtype=np.float64) / (self.scale or 1.0)
        log_duration = np.log(np.maximum(unscaled_s, np.finfo(float).tiny))
        if self.quantiles_s is not None:
            levels, log_s = self._log_quantiles()
            probability = np.interp(log_duration, log_s, levels, left=0.0)
        else:
            from scipy.special import ndtr

            weight, mu, sigma = self._lognormal_arrays()
            z = (log_duration[..., None] - mu) / np.maximum(sigma, TINY_SIGMA)
            probability = ndtr(np.where((z == 0) & (sigma == 0), np.inf, z)) @ weight
        if self.min_s is not None:
            probability = np.where(unscaled_s < self.min_s, 0.0, probability)
        if self.max_s is not None:
            probability = np.where(unscaled_s >= self.max_s, 1.0, probability)
        return np.asarray(probability, dtype=np.float64)

    def quantile(self, level: npt.ArrayLike) -> Float64Array:
        """Return the quantiles of the duration [s].

        Parameters
        ----------
        level : array_like
            Probabilities above 0 and below 1.

        Returns
        -------
        numpy.ndarray, float64
            Durations [s], in the shape of `level`.
        """
        levels = np.asarray(level, dtype=np.float64)
        if self.quantiles_s is not None:
            return self._limit_and_scale(self._from_level(levels))
        from scipy.special import ndtr, ndtri

        weight, mu, sigma = self._lognormal_arrays()
        # The quantile of a mixture is between those of its components: bisection
        component_quantiles = mu + sigma * ndtri(levels)[..., None]
        low, high = component_quantiles.min(axis=-1), component_quantiles.max(axis=-1)
        spread = np.maximum(sigma, TINY_SIGMA)
        for _ in range(60):
            middle = (low + high) / 2
            is_reached = ndtr((middle[..., None] - mu) / spread) @ weight >= levels
            low, high = (
                np.where(is_reached, low, middle),
                np.where(is_reached, middle, high),
            )
        return self._limit_and_scale(np.exp(high))

    def mean_s(self, limit_s: float = math.inf) -> float:
        """Return the mean of durations clipped at `limit_s` [s].

        Raises
        ------
        ValueError
            If `limit_s` is not positive.
        """
        if limit_s <= 0:
            raise ValueError(f"limit_s must be positive, found {limit_s}")
        scale = self.scale or 1.0
        limit_s /= scale
        low = min(self.min_s or 0.0, limit_s)
        high = min(self.max_s or math.inf, limit_s)
        if self.quantiles_s is not None:
            return scale * _mean_of_quantiles(*self._log_quantiles(), low, high)
        return scale * _mean_of_lognormals(*self._lognormal_arrays(), low, high)

    def _lognormal_arrays(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return weights, logarithms of medians, and sigmas of the lognormals."""
        rows = [(p.weight, math.log(p.median_s), p.sigma) for p in self.lognormal or ()]
        weight, mu, sigma = np.array(rows, dtype=np.float64).T
        return weight / weight.sum(), mu, sigma

    def _log_quantiles(self) -> tuple[Float64Array, Float64Array]:
        """Return the levels and the logarithms of their durations."""
        quantiles = cast("dict[float, float]", self.quantiles_s)
        return np.array(list(quantiles)), np.log(list(quantiles.values()))

    def _from_level(self, level: Float64Array) -> Float64Array:
        """Return the durations at levels, log-linear between the quantiles [s]."""
        levels, log_s = self._log_quantiles()
        return np.exp(np.interp(level, levels, log_s))

    def _limit_and_scale(self, duration_s: Float64Array) -> Float64Array:
        """Clip durations to the limits, then multiply them by `scale` [s].

        The result is at most `MAX_DURATION_S`.
        """
        shortest, longest = self.min_s or 0.0, self.max_s or math.inf
        scaled = np.clip(duration_s, shortest, longest) * (self.scale or 1.0)
        return np.minimum(scaled, MAX_DURATION_S)


def _mean_of_quantiles(
    levels: Float64Array, log_s: Float64Array, low: float, high: float
) -> float:
    """Return the exact mean of durations that are log-linear between quantiles.

    `log_s` are the logarithms of the durations at `levels`; durations are clipped to
    `low` and `high`.
    """
    log_low = math.log(low) if low > 0 else -math.inf
    log_high = math.log(high)
    crossings = np.interp(
        [x for x in (log_low, log_high) if np.isfinite(x)], log_s, levels
    )
    grid = np.unique(np.concatenate([levels, crossings]))
    ends = np.interp(grid, levels, log_s)
    middle = np.interp((grid[:-1] + grid[1:]) / 2, levels, log_s)
    a, b = ends[:-1], ends[1:]
    rise = b - a
    # Mean of exp over a segment is (e^b - e^a) / (b - a), and e^a where it is level.
    segment_mean = np.exp(a) * np.where(
        rise > 0, np.expm1(rise) / np.where(rise > 0, rise, 1.0), 1.0
    )
    value = np.where(
        middle <= log_low, low, np.where(middle >= log_high, high, segment_mean)
    )
    return float(np.sum(np.diff(grid) * value))


def _mean_of_lognormals(
    weight: Float64Array, mu: Float64Array, sigma: Float64Array, low: float, high: float
) -> float:
    """Return the mean of a clipped lognormal mixture, by partial expectations."""
    from scipy.special import ndtr

    spread = np.maximum(sigma, TINY_SIGMA)
    z_low = (math.log(low) - mu) / spread if low > 0 else np.full_like(mu, -np.inf)
    z_high = (
        (math.log(high) - mu) / spread
        if math.isfinite(high)
        else np.full_like(mu, np.inf)
    )
    between = np.exp(mu + sigma**2 / 2) * (ndtr(z_high - sigma) - ndtr(z_low - sigma))
    above_high = high * ndtr(-z_high) if math.isfinite(high) else 0.0
    return float(weight @ (low * ndtr(z_low) + between + above_high))
