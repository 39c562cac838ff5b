"""Least squares of the logistic curve ``b0 + L * sigmoid(k * (x - x0))``, of many starts."""

from __future__ import annotations

import numpy as np
import scipy

from diploee.tables import Float64Array

N_PARAMETERS = 4
STEEPNESS = (0.02, 20.0)
"""Bounds of k: below, the curve is a straight line, above, a step between two measured sizes."""
LARGEST_SPAN = 50.0
"""Bound of |L| and |b0| in ranges of the data; beyond, the measured part is a straight line."""
_GRID = (25, 49)
"""Steepnesses and midpoints at which the search starts; L and b0 are linear and solved for."""
_N_POLISHED = 12
"""Valleys of the grid that are searched to their floor, the deepest first."""
_MAX_EVALUATIONS = 200


def fit_parameters(x: Float64Array, y: Float64Array) -> Float64Array:
    """Fit the curve to points, one or more; `LogisticModel.fit` says how few are handled."""
    distinct = np.unique(x).size
    if distinct == 1 or np.ptp(y) == 0:
        return np.array([0.0, 1.0, x.mean(), y.mean()])
    if distinct < N_PARAMETERS:
        # The rise from 12 % to 88 % of the span lies within the measured x.
        return _with_shape(x, y, 4.0 / float(np.ptp(x)), float(x.min() + x.max()) / 2)
    return _least_squares(x, y)


def curve(parameters: Float64Array, x: Float64Array) -> Float64Array:
    """Return the curve of ``(L, k, x0, b0)`` at x, shape (n,)."""
    span, steepness, midpoint, base = parameters
    return np.asarray(
        base + span * scipy.special.expit(steepness * (x - midpoint)), dtype=np.float64
    )


def _with_shape(
    x: Float64Array, y: Float64Array, steepness: float, midpoint: float
) -> Float64Array:
    """Return the parameters for a given shape: L and b0 by linear least squares."""
    share = scipy.special.expit(steepness * (x - midpoint))
    (base, span), *_ = np.linalg.lstsq(np.stack([np.ones_like(x), share], axis=1), y, rcond=None)
    return np.array([span, steepness, midpoint, base])


def _least_squares(x: Float64Array, y: Float64Array) -> Float64Array:
    """Return the best of all local optima that a grid over k and x0 shows, in the unit of y."""
    low, scale = float(y.min()), float(np.ptp(y))
    unit = (y - low) / scale
    margin = max(float(np.ptp(x)), 1.0)
    lower = np.array([-LARGEST_SPAN, STEEPNESS[0], x.min() - margin, -LARGEST_SPAN])
    upper = np.array([LARGEST_SPAN, STEEPNESS[1], x.max() + margin, LARGEST_SPAN])
    starts = [np.clip(start, lower, upper) for start in _valleys(x, unit, margin)]
    tolerances = {"ftol": 1e-12, "xtol": 1e-12, "gtol": 1e-12}
    found = [
        scipy.optimize.least_squares(
            lambda p: curve(p, x) - unit,
            start,
            jac=lambda p: _jacobian(p, x),
            bounds=(lower, upper),
            x_scale="jac",
            max_nfev=_MAX_EVALUATIONS,
            **tolerances,
        ).x
        for start in starts
    ]
    # A search that was cut may end above its start's neighbours: hold all against each other.
    best = min([*found, *starts], key=lambda p: float(np.sum((curve(p, x) - unit) ** 2)))
    span, steepness, midpoint, base = best
    return np.array([span * scale, steepness, midpoint, low + base * scale])


def _valleys(x: Float64Array, unit: Float64Array, margin: float) -> list[Float64Array]:
    """Return the parameters at the local minima of a grid over k and x0, the deepest first.

    Several starts of the same valley would all end at its floor and leave deeper ones unseen.
    """
    steepness = np.geomspace(*STEEPNESS, _GRID[0])
    midpoint = np.linspace(x.min() - margin, x.max() + margin, _GRID[1])
    share = scipy.special.expit(steepness[:, None, None] * (x - midpoint[None, :, None]))
    mean_share, mean = share.mean(axis=-1), float(unit.mean())
    spread = np.sum((share - mean_share[..., None]) ** 2, axis=-1)
    together = np.sum((share - mean_share[..., None]) * (unit - mean), axis=-1)
    # Where the curve is flat over all points, L is anything: 0.
    # For a given shape the best L is that of a linear regression on the curve's share.
    span = np.divide(together, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    span = np.clip(span, -LARGEST_SPAN, LARGEST_SPAN)
    base = mean - span * mean_share
    fitted = base[..., None] + span[..., None] * share
    squares = np.sum((fitted - unit) ** 2, axis=-1)
    is_lowest = squares <= scipy.ndimage.minimum_filter(squares, size=3, mode="nearest")
    rows, columns = np.nonzero(is_lowest)
    deepest = np.argsort(squares[rows, columns], kind="stable")[:_N_POLISHED]
    return [
        np.array([span[i, j], steepness[i], midpoint[j], base[i, j]])
        for i, j in zip(rows[deepest], columns[deepest], strict=True)
    ]


def _jacobian(parameters: Float64Array, x: Float64Array) -> Float64Array:
    span, steepness, midpoint, _ = parameters
    share = scipy.special.expit(steepness * (x - midpoint))
    slope = span * share * (1.0 - share)
    columns = [share, slope * (x - midpoint), -slope * steepness, np.ones_like(x)]
    return np.stack(columns, axis=1)
