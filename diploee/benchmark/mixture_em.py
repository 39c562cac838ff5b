"""Expectation maximisation of two normal components, and the location that fits samples best.

Arrays in, numbers out: what `ITLMixtureModel.fit` runs on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from diploee.tables import Float64Array

LEAST_GAP_S = 1e-6
"""Smallest distance of the location below the smallest sample [s], as OpenG2G sets it."""
LEAST_SIGMA = 0.02
"""Lower bound of a component's sigma, so that none collapses onto repeated samples."""
_START_SPLITS = (0.5, 0.8, 0.95)
_N_GAPS = 12
_COARSE_SAMPLES = 2_000
_COARSE_STEPS, _SEARCH_STEPS, _STEPS = 60, 100, 1_000
_TOLERANCE = 1e-9
"""Gain of log-likelihood per sample at which the iteration ends."""


@dataclass(frozen=True)
class Components:
    """Two normal components of z and how well they fit.

    Parameters
    ----------
    weight, mean, sigma : tuple of float
        Of both components.
    log_likelihood : float
        Of all samples: of z, or of x = location + exp(z) where `fit_location` says so.
    """

    weight: tuple[float, float]
    mean: tuple[float, float]
    sigma: tuple[float, float]
    log_likelihood: float


def fit_components(z: Float64Array, start: Components, n_steps: int = _STEPS) -> Components:
    """Improve two normal components by expectation maximisation.

    Parameters
    ----------
    z : numpy.ndarray, shape (n,)
        Samples.
    start : Components
        Where to start.
    n_steps : int
        Steps at most.
    """
    weight, mean, sigma = (np.array(v) for v in (start.weight, start.mean, start.sigma))
    before = -np.inf
    for _ in range(n_steps):
        joint = _log_joint(z, weight, mean, sigma)
        log_density = np.logaddexp(joint[0], joint[1])
        likelihood = float(log_density.sum())
        if likelihood - before < _TOLERANCE * z.size:
            break
        before = likelihood
        share = np.exp(joint - log_density)
        total = share.sum(axis=1)
        if total.min() < 1.0:  # less than one sample is left of a component: one is enough
            break
        weight = total / z.size
        mean = (share @ z) / total
        spread = np.sum(share * (z - mean[:, None]) ** 2, axis=1) / total
        sigma = np.maximum(np.sqrt(spread), LEAST_SIGMA)
    likelihood = float(np.logaddexp(*_log_joint(z, weight, mean, sigma)).sum())
    return Components(tuple(weight), tuple(mean), tuple(sigma), likelihood)


def fit_location(
    samples: Float64Array, smallest: float, gap_s: float | None, coarse_rng: np.random.Generator
) -> tuple[float, Components]:
    """Fit two lognormals with a common location.

    Parameters
    ----------
    samples : numpy.ndarray, shape (n,)
        Samples [s].
    smallest : float
        The smallest latency seen [s], at or below all samples.
    gap_s : float or None
        Distance of the location below the smallest latency [s]; None finds the distance of the
        highest likelihood from 1 us to the smallest latency itself (a location of 0).
    coarse_rng : numpy.random.Generator
        Picks the samples on which the starting point is found.

    Returns
    -------
    gap_s : float
        The distance [s].
    components : Components
        Of z = log(x - location), with the log-likelihood of x.
    """
    coarse = samples
    if samples.size > _COARSE_SAMPLES:
        coarse = coarse_rng.choice(samples, _COARSE_SAMPLES, replace=False)
    gaps = np.geomspace(min(LEAST_GAP_S, smallest), smallest, _N_GAPS)
    if gap_s is not None:
        gaps = np.array([gap_s])
    tried = [
        (float(gap), _fit_at(coarse, smallest, float(gap), start, _COARSE_STEPS))
        for gap in gaps
        for start in _starts(_z(coarse, smallest, float(gap)))
    ]
    best_gap, best = max(tried, key=lambda found: found[1].log_likelihood)
    if gap_s is not None:
        return gap_s, _fit_at(samples, smallest, gap_s, best, _STEPS)
    return _refine(samples, smallest, gaps, best_gap, best)


def _refine(
    samples: Float64Array, smallest: float, gaps: Float64Array, best_gap: float, start: Components
) -> tuple[float, Components]:
    """Search between the neighbours of the best gap, and hold the result against 1 us."""
    at = int(np.argmin(np.abs(gaps - best_gap)))
    bounds = np.log((gaps[max(at - 1, 0)], gaps[min(at + 1, gaps.size - 1)]))
    found: dict[float, Components] = {}

    def loss(log_gap: float) -> float:
        gap = float(np.exp(log_gap))
        found[gap] = _fit_at(samples, smallest, gap, start, _SEARCH_STEPS)
        return -found[gap].log_likelihood

    minimize_scalar(loss, bounds=tuple(bounds), method="bounded", options={"xatol": 1e-3})
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
    samples: Float64Array, smallest: float, gap_s: float, start: Components, n_steps: int
) -> Components:
    """Fit at a given location; the likelihood is that of the samples, dx = exp(z) dz."""
    z = _z(samples, smallest, gap_s)
    of_z = fit_components(z, start, n_steps)
    likelihood = of_z.log_likelihood - float(z.sum())
    return Components(of_z.weight, of_z.mean, of_z.sigma, likelihood)


def _starts(z: Float64Array) -> list[Components]:
    """Split the sorted samples at several shares: few stalls, or two halves."""
    ordered = np.sort(z)
    starts = []
    for share in _START_SPLITS:
        cut = min(max(int(share * z.size), 1), z.size - 1)
        parts = ordered[:cut], ordered[cut:]
        starts.append(
            Components(
                (cut / z.size, 1 - cut / z.size),
                (float(parts[0].mean()), float(parts[1].mean())),
                (max(float(parts[0].std()), 0.1), max(float(parts[1].std()), 0.1)),
                -np.inf,
            )
        )
    return starts


def _log_joint(
    z: Float64Array, weight: Float64Array, mean: Float64Array, sigma: Float64Array
) -> Float64Array:
    """Return the log of weight times density of both components, shape (2, n)."""
    distance = (z - mean[:, None]) / sigma[:, None]
    constant = np.log(weight / sigma) - 0.5 * np.log(2 * np.pi)
    return np.asarray(constant[:, None] - 0.5 * distance**2, dtype=np.float64)
