"""Two lognormals with a common location: the location that fits samples best.

Arrays in, numbers out: what `ITLMixtureModel.fit` runs on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from diploee.normal_mixture import Mixture, expectation_maximisation
from diploee.tables import Float64Array

LEAST_GAP_S = 1e-6
"""Smallest distance of the location below the smallest sample [s], as OpenG2G sets it."""
_START_SPLITS = (0.5, 0.8, 0.95)
_N_GAPS = 12
_COARSE_SAMPLES = 2_000
_COARSE_STEPS, _SEARCH_STEPS, _STEPS = 60, 100, 1_000
_TOLERANCE = 1e-9
"""Gain of log-likelihood per sample at which the iteration ends."""


def fit_location(
    samples: Float64Array, smallest: float, gap_s: float | None, coarse_rng: np.random.Generator
) -> tuple[float, Mixture]:
    """Fit two lognormals with a common location."""
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
    samples: Float64Array, smallest: float, gaps: Float64Array, best_gap: float, start: Mixture
) -> tuple[float, Mixture]:
    """Search between the neighbours of the best gap, and hold the result against 1 us."""
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
    """Fit at a given location; the likelihood is that of the samples, dx = exp(z) dz."""
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
