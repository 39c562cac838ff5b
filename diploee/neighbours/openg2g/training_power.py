"""The power of a GPU in training, synthesised after OpenG2G's description.

Order: plateaus, noise, moving average, dips, warm-up ramp (OpenG2G 0.2, `TrainingTraceParams`).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, field_validator, model_validator

from diploee.model import Model, documented
from diploee.scenario.loading import MAX_POWER_W, MAX_SEED
from diploee.streams import stream
from diploee.tables import BoolArray, Float64Array
from diploee.units import whole_ms

MAX_SAMPLES = 100_000_000

Positive = Annotated[float, Field(gt=0, le=1e9)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_POWER_W)]
Range = tuple[NonNegative, NonNegative]


@documented
class TrainingTraceParams(Model):
    """Shape of the trace of one GPU; the defaults are OpenG2G's.

    Raises
    ------
    pydantic.ValidationError
        If a parameter is unknown, out of range, or at odds with another.
    """

    duration_s: Positive = Field(default=1000.0, description="Length of the trace [s].")
    dt_s: Positive = Field(default=0.1, description="Step [s], a whole number of ms.")
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = Field(
        default=2, description="Seed of all draws."
    )
    high_power_w: NonNegative = Field(default=225.0, description="Power of high plateaus [W].")
    low_power_w: NonNegative = Field(
        default=175.0, description="Power of low plateaus [W]; not above the high."
    )
    high_noise_w: NonNegative = Field(
        default=50.0,
        description="Standard deviation of the noise in high plateaus, before smoothing [W].",
    )
    low_noise_w: NonNegative = Field(
        default=50.0,
        description="Standard deviation of the noise in low plateaus, before smoothing [W].",
    )
    high_plateau_s: Range = Field(
        default=(35.0, 40.0), description="Shortest and longest high plateau [s]."
    )
    low_plateau_s: Range = Field(
        default=(10.0, 15.0), description="Shortest and longest low plateau [s]."
    )
    dips_per_s: NonNegative = Field(default=0.01, description="Mean number of dips per second.")
    dip_depth_w: Range = Field(
        default=(120.0, 125.0), description="Least and greatest depth of a dip [W]."
    )
    dip_duration_s: Range = Field(
        default=(0.06, 0.14),
        description="Shortest and longest dip [s], rounded to whole steps.",
    )
    smoothing_s: NonNegative = Field(
        default=0.3, description="Window of the moving average [s]; 0 for none."
    )
    ramp_s: NonNegative = Field(
        default=18.0, description="Time from ramp_from_w to high_power_w [s]; 0 for none."
    )
    ramp_from_w: NonNegative = Field(default=50.0, description="Power at the start [W].")

    @field_validator("dt_s")
    @classmethod
    def _whole_ms(cls, dt_s: float) -> float:
        whole_ms(dt_s)
        return dt_s

    @model_validator(mode="after")
    def _parts_fit(self) -> TrainingTraceParams:
        for name in ("high_plateau_s", "low_plateau_s", "dip_depth_w", "dip_duration_s"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be [least, greatest], found [{low:g}, {high:g}]")
        if self.low_power_w > self.high_power_w:
            raise ValueError(
                f"low_power_w is {self.low_power_w:g}, expected at most high_power_w, "
                f"{self.high_power_w:g}"
            )
        shortest_s = self.high_plateau_s[0] + self.low_plateau_s[0]
        if shortest_s < self.dt_s:
            raise ValueError(
                f"a high and a low plateau may last {shortest_s:g} s together, expected at least "
                f"one step of {self.dt_s:g} s"
            )
        if not 1 <= self.n_samples <= MAX_SAMPLES:
            raise ValueError(
                f"{self.duration_s:g} s in steps of {self.dt_s:g} s are {self.n_samples} samples, "
                f"expected 1 to {MAX_SAMPLES:,}"
            )
        return self

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return round(self.duration_s / self.dt_s)


def training_power_w(params: TrainingTraceParams) -> Float64Array:
    """Synthesise the power of one GPU over each step [W], shape (n,)."""
    rng = stream(params.seed, "benchmark", "training_trace")
    n = params.n_samples
    is_high = _plateaus(params, rng)
    power_w = np.where(is_high, params.high_power_w, params.low_power_w)
    power_w += np.where(is_high, params.high_noise_w, params.low_noise_w) * rng.standard_normal(n)
    power_w = _smoothed(power_w, max(1, round(params.smoothing_s / params.dt_s)))
    power_w -= _dips_w(params, rng)
    n_ramp = min(n, round(params.ramp_s / params.dt_s))
    ramp_w = np.linspace(params.ramp_from_w, params.high_power_w, n_ramp)
    power_w[:n_ramp] = np.minimum(power_w[:n_ramp], ramp_w)
    return np.maximum(power_w, 0.0)


def _plateaus(params: TrainingTraceParams, rng: np.random.Generator) -> BoolArray:
    """Return which samples lie in high plateaus; high and low ones alternate, high first."""
    shortest_s = params.high_plateau_s[0] + params.low_plateau_s[0]
    n_pairs = int(params.duration_s / shortest_s) + 2
    low, high = np.array([params.high_plateau_s, params.low_plateau_s]).T
    lengths_s = rng.uniform(low, high, (n_pairs, 2)).ravel()
    edges = np.rint(np.cumsum(lengths_s) / params.dt_s)
    plateau = np.searchsorted(edges, np.arange(params.n_samples), side="right")
    return np.asarray(plateau % 2 == 0)


def _smoothed(power_w: Float64Array, width: int) -> Float64Array:
    """Return the moving average; at the ends it is over the samples that there are."""
    kernel = np.ones(width)
    sums = np.convolve(power_w, kernel, mode="full")
    counts = np.convolve(np.ones_like(power_w), kernel, mode="full")
    begin = (width - 1) // 2
    return np.asarray((sums / counts)[begin : begin + power_w.size], dtype=np.float64)


def _dips_w(params: TrainingTraceParams, rng: np.random.Generator) -> Float64Array:
    """Return how far dips lower each sample [W]."""
    n_dips = int(rng.poisson(params.dips_per_s * params.duration_s))
    begin = rng.integers(0, params.n_samples, n_dips)
    length = np.rint(rng.uniform(*params.dip_duration_s, n_dips) / params.dt_s).astype(np.int64)
    depth_w = rng.uniform(*params.dip_depth_w, n_dips)
    steps = np.zeros(params.n_samples + 1)
    np.add.at(steps, begin, depth_w)
    np.add.at(steps, np.minimum(begin + length, params.n_samples), -depth_w)
    lowered: Float64Array = np.cumsum(steps)[:-1]
    return np.maximum(lowered, 0.0)  # sums of opposite steps may leave a rounding
