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
"""No run is longer; larger numbers would overflow milliseconds."""

TINY_SIGMA = 1e-12
"""Stands for no spread: the distribution is a step."""

SecondsAboveZero = Annotated[float, Field(gt=0, le=MAX_DURATION_S)]


class LognormalPart(Model):
    """One lognormal component of a mixture."""

    weight: Share = Field(description="Fraction of the jobs.")
    median_s: SecondsAboveZero = Field(description="Median duration [s].")
    sigma: Annotated[float, Field(ge=0, le=10)] = Field(
        description="Standard deviation of the natural logarithm of the duration."
    )


def _check_quantiles(quantiles: dict[float, float]) -> dict[float, float]:
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
    def _parts_fit(self) -> DurationModel:
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
            return self._clip(self._from_level(levels))
        parts = self._parts()
        edges = np.cumsum(parts[0])
        part = np.searchsorted(edges[:-1] / edges[-1], levels, side="right")
        normal = np.concatenate(
            [g.standard_normal(n) for g, n in zip(rngs, counts, strict=True)]
        )
        return self._clip(np.exp(parts[1][part] + parts[2][part] * normal))

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
        at = np.asarray(duration_s, dtype=np.float64) / (self.scale or 1.0)
        logs = np.log(np.maximum(at, np.finfo(float).tiny))
        if self.quantiles_s is not None:
            levels, log_s = self._log_quantiles()
            below = np.interp(logs, log_s, levels, left=0.0)
        else:
            from scipy.special import ndtr

            weight, mu, sigma = self._parts()
            z = (logs[..., None] - mu) / np.maximum(sigma, TINY_SIGMA)
            below = ndtr(np.where((z == 0) & (sigma == 0), np.inf, z)) @ weight
        if self.min_s is not None:
            below = np.where(at < self.min_s, 0.0, below)
        if self.max_s is not None:
            below = np.where(at >= self.max_s, 1.0, below)
        return np.asarray(below, dtype=np.float64)

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
            return self._clip(self._from_level(levels))
        from scipy.special import ndtr, ndtri

        weight, mu, sigma = self._parts()
        # A mixture's quantile lies between those of its parts; bisection narrows it
        # down.
        of_parts = mu + sigma * ndtri(levels)[..., None]
        low, high = of_parts.min(axis=-1), of_parts.max(axis=-1)
        spread = np.maximum(sigma, TINY_SIGMA)
        for _ in range(60):
            middle = (low + high) / 2
            reached = ndtr((middle[..., None] - mu) / spread) @ weight >= levels
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return self._clip(np.exp(high))

    def mean_s(self, longest_s: float = math.inf) -> float:
        """Return the mean of durations clipped at `longest_s` [s].

        Raises
        ------
        ValueError
            If `longest_s` is not positive.
        """
        if longest_s <= 0:
            raise ValueError(f"longest_s must be positive, found {longest_s}")
        scale = self.scale or 1.0
        longest_s /= scale
        low = min(self.min_s or 0.0, longest_s)
        high = min(self.max_s or math.inf, longest_s)
        if self.quantiles_s is not None:
            return scale * _mean_of_quantiles(*self._log_quantiles(), low, high)
        return scale * _mean_of_lognormals(*self._parts(), low, high)

    def _parts(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return weights, log medians and sigmas of the lognormals."""
        rows = [(p.weight, math.log(p.median_s), p.sigma) for p in self.lognormal or ()]
        weight, mu, sigma = np.array(rows, dtype=np.float64).T
        return weight / weight.sum(), mu, sigma

    def _log_quantiles(self) -> tuple[Float64Array, Float64Array]:
        quantiles = cast("dict[float, float]", self.quantiles_s)
        return np.array(list(quantiles)), np.log(list(quantiles.values()))

    def _from_level(self, level: Float64Array) -> Float64Array:
        levels, log_s = self._log_quantiles()
        return np.exp(np.interp(level, levels, log_s))

    def _clip(self, drawn_s: Float64Array) -> Float64Array:
        shortest, longest = self.min_s or 0.0, self.max_s or math.inf
        scaled = np.clip(drawn_s, shortest, longest) * (self.scale or 1.0)
        return np.minimum(scaled, MAX_DURATION_S)


def _mean_of_quantiles(
    levels: Float64Array, log_s: Float64Array, low: float, high: float
) -> float:
    """Return the mean of exp(interpolated log_s), clipped to low and high.

    Exact within each segment.
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
    inside = np.exp(a) * np.where(
        rise > 0, np.expm1(rise) / np.where(rise > 0, rise, 1.0), 1.0
    )
    value = np.where(middle <= log_low, low, np.where(middle >= log_high, high, inside))
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
    inside = np.exp(mu + sigma**2 / 2) * (ndtr(z_high - sigma) - ndtr(z_low - sigma))
    above = high * ndtr(-z_high) if math.isfinite(high) else 0.0
    return float(weight @ (low * ndtr(z_low) + inside + above))
