"""Which share of a metric's variance each drawn parameter causes.

The members draw their parameters independently, so the variance of the part of a metric that one
parameter explains is its first-order (main effect) Sobol index ``V[E(Y|X_i)] / V[Y]``. That part
is estimated from the members as they are, without further runs, by least squares on a polynomial
of each parameter without products between them (Sobol 1993; Sudret, Reliab. Eng. Syst. Saf. 93,
2008): degree 3 where there are at least ten members per coefficient, else 2, else 1 (which is
standardised linear regression). The share is the covariance of that part with the metric over
the metric's variance, less what chance alone would explain (as in the adjusted R²). What is left
is the seed's own randomness with interactions and what the polynomials miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diploee.streams import stream
from diploee.tables import BoolArray, Float64Array

MAX_DEGREE = 3
MEMBERS_PER_COEFFICIENT = 10
SPARE_MEMBERS = 5
"""Members beyond the coefficients below which no share is given."""

N_RESAMPLES = 200


@dataclass(frozen=True)
class SobolIndices:
    """Shares of the variance, 0-1."""

    share: dict[str, float]  # first-order share by parameter
    interval: dict[str, tuple[float, float]]  # its 90 % interval by resampling the members
    rest: float  # share of the seed and of everything that no parameter explains alone
    degree: int  # of the polynomials


def indices_of_metrics(
    inputs: Mapping[str, Float64Array], metrics: Float64Array
) -> list[SobolIndices | None]:
    """Estimate the shares of many metrics of the same members, which are resampled once."""
    n_members, n_metrics = metrics.shape
    columns = {name: _independent(np.asarray(values)) for name, values in inputs.items()}
    n_numbers = sum(values.shape[1] for values in columns.values())
    varying = np.flatnonzero(_vary(metrics))
    found: list[SobolIndices | None] = [None] * n_metrics
    if n_members < n_numbers + SPARE_MEMBERS or not varying.size:
        return found
    metrics = metrics[:, varying]
    affordable = n_members // (MEMBERS_PER_COEFFICIENT * max(n_numbers, 1))
    degree = min(MAX_DEGREE, max(1, affordable))
    design = [_powers(values, degree) for values in columns.values()]
    share = _decompose(design, metrics)
    rng = stream(0, "ensemble", "shares")
    resampled = np.full((N_RESAMPLES, len(design), varying.size), np.nan)
    for k in range(N_RESAMPLES):
        rows = rng.integers(n_members, size=n_members)
        vary = _vary(metrics[rows])
        resampled[k][:, vary] = _decompose([part[rows] for part in design], metrics[rows][:, vary])
    low, high = np.nanpercentile(resampled, [5, 95], axis=0)
    for of_metric, place in enumerate(varying):
        found[place] = SobolIndices(
            {
                name: float(max(s, 0.0))
                for name, s in zip(columns, share[:, of_metric], strict=True)
            },
            {
                name: (float(max(a, 0.0)), float(max(b, 0.0)))
                for name, a, b in zip(columns, low[:, of_metric], high[:, of_metric], strict=True)
            },
            float(min(max(1.0 - share[:, of_metric].sum(), 0.0), 1.0)),
            degree,
        )
    return found


def _vary(metrics: Float64Array) -> BoolArray:
    largest = np.abs(metrics).max(axis=0, initial=0.0)
    return np.asarray(np.ptp(metrics, axis=0) > 1e-12 * largest)


def _independent(values: Float64Array) -> Float64Array:
    """Return the numbers as columns without those that are constant or follow from others."""
    table = values.reshape(values.shape[0], -1)
    spread = np.ptp(table, axis=0) > 0
    table = table[:, spread]
    if table.shape[1] > 1 and np.allclose(table.sum(axis=1), table.sum(axis=1)[0]):
        table = table[:, :-1]  # probabilities: the last one follows from the others
    return table


def _powers(values: Float64Array, degree: int) -> Float64Array:
    """Return the powers of each column, at most one less than the values that it takes."""
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    n_values = np.array([np.unique(column).size for column in scaled.T])
    return np.concatenate([scaled[:, n_values > k] ** k for k in range(1, degree + 1)], axis=1)


def _decompose(design: Sequence[Float64Array], metrics: Float64Array) -> Float64Array:
    """Return the share of each part of the design in each metric, corrected for chance."""
    centred = [part - part.mean(axis=0) for part in design]
    y = metrics - metrics.mean(axis=0)
    weights, _, rank, _ = np.linalg.lstsq(np.concatenate(centred, axis=1), y, rcond=None)
    widths = [part.shape[1] for part in centred]
    parts = np.split(weights, np.cumsum(widths)[:-1])
    explained = [((part @ w) * y).sum(axis=0) for part, w in zip(centred, parts, strict=True)]
    raw = np.array(explained) / (y * y).sum(axis=0)
    spare = metrics.shape[0] - 1 - int(rank)
    if spare <= 0:
        return np.full(raw.shape, np.nan)
    by_chance = (1.0 - raw.sum(axis=0)) * np.array(widths)[:, np.newaxis] / spare
    return np.asarray(raw - by_chance)
