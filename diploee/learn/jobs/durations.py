"""Durations of the jobs of a class: a model of them, and how well it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.learn.jobs.lognormals import as_model, best_mixture, fit_lognormals, refitted
from diploee.learn.jobs.quantiles import fit_quantiles
from diploee.scenario import DurationModel
from diploee.tables import Float64Array

DurationKind = Literal["quantiles", "lognormal"]

KS_SAMPLE = 500
"""Durations that the test with a refit of the model looks at; with more it rejects any model."""

KS_REPLICATES = 99


@dataclass(frozen=True)
class DurationFit:
    """A model of the durations of some jobs."""

    model: DurationModel  # the model
    n_jobs: int  # jobs that it was fitted to
    # Mean duration of the jobs and of the model [s]
    mean_s: float
    model_mean_s: float
    # Largest difference between the shares of jobs that last at most so long (Kolmogorov-Smirnov)
    # in the log and in the model
    ks_distance: float
    # For lognormals: the share of samples of the model, each with its own fit, that lie farther off
    # than a sample of the log of the same size (at most `KS_SAMPLE` jobs). As the parameters are
    # fitted, the tables of the test do not hold, hence this parametric bootstrap. None for
    # quantiles, which fit as near as was asked.
    ks_p_value: float | None


def fit_durations(
    duration_s: Float64Array, kind: DurationKind, rng: np.random.Generator
) -> DurationFit:
    """Fit a model to durations and compare it with them."""
    model = fit_quantiles(duration_s) if kind == "quantiles" else fit_lognormals(duration_s)
    return DurationFit(
        model=model,
        n_jobs=int(duration_s.size),
        mean_s=float(duration_s.mean()),
        model_mean_s=model.mean_s(),
        ks_distance=ks_distance(duration_s, model),
        ks_p_value=_bootstrap_p_value(duration_s, rng) if kind == "lognormal" else None,
    )


def ks_distance(duration_s: Float64Array, model: DurationModel) -> float:
    """Return the Kolmogorov-Smirnov distance between durations and a model.

    Both may have steps, so it is taken at every duration and just below it.
    """
    values, count = np.unique(duration_s, return_counts=True)
    upto = np.cumsum(count) / duration_s.size
    below = upto - count / duration_s.size
    at = model.cdf(values)
    just_below = model.cdf(values * (1 - 1e-12))  # nearer than any two that milliseconds tell apart
    return float(max(np.abs(at - upto).max(), np.abs(just_below - below).max()))


def _bootstrap_p_value(duration_s: Float64Array, rng: np.random.Generator) -> float | None:
    """Test a lognormal mixture on a sample, refitting it to each of its own samples.

    Their number of parts stays that of the first fit.
    """
    n = min(KS_SAMPLE, duration_s.size)
    if n < 10 or np.ptp(duration_s) == 0:
        return None
    sample = rng.choice(duration_s, n, replace=False) if n < duration_s.size else duration_s
    mixture = best_mixture(sample)
    model = as_model(mixture, sample)
    seen = ks_distance(sample, model)
    # Logged durations are whole seconds, or finer: the samples are rounded alike.
    step_s = _step_s(duration_s)
    farther = 0
    for _ in range(KS_REPLICATES):
        drawn = np.maximum(np.rint(model.draw(rng, n) / step_s), 1) * step_s
        farther += ks_distance(drawn, refitted(drawn, mixture)) >= seen
    return (farther + 1) / (KS_REPLICATES + 1)


def _step_s(duration_s: Float64Array) -> float:
    """Return the step that all durations are multiples of: a second, or a millisecond."""
    return 1.0 if np.all(np.rint(duration_s) == duration_s) else 1e-3
