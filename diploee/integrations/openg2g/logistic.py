"""`LogisticModel`: power, latency or throughput against a replica's batch size.

The four-parameter logistic curve of OpenG2G,
``y = b0 + L * sigmoid(k * (log2(batch) - x0))``, is fitted by least squares: L and b0
by linear regression, k and x0 by SciPy's global optimization (Endres, Sandrock and
Focke 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
import scipy
from pydantic import Field

from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array
from diploee.base.units import MAX_NUMBER

N_PARAMETERS = 4
STEEPNESS = (0.02, 20.0)
"""Bounds of k; the curve is a straight line below, and a step above the bounds."""
MAX_SPAN = 50.0
"""Maximum of |L| per range of the data; the curve is a straight line above."""
MIN_SPREAD = 1e-12
STARTS = 512
"""Number of sampled shapes (k, x0) from which the global search starts."""


Number = Annotated[float, Field(strict=True, ge=-MAX_NUMBER, le=MAX_NUMBER)]


@dataclass(frozen=True)
class LogisticModel(Brief):
    """A logistic curve over the batch size, with four parameters.

    ``y = b0 + L / (1 + exp(-k (x - x0)))`` with ``x = log2(batch size)``.
    """

    # L, upper minus lower asymptote [unit of y]; negative for a falling curve
    span: Annotated[Number, Field(alias="L")]
    steepness: Annotated[Number, Field(alias="k", gt=0)]  # k [1], positive
    # x0, log2 of the batch size at half the span
    midpoint: Annotated[Number, Field(alias="x0")]
    # b0, asymptote at small batches [unit of y]
    base: Annotated[Number, Field(alias="b0")]
    # Coefficient of determination; None for specified coefficients
    r2: Number | None = None
    rmse: Number | None = None  # root mean square of the residuals [unit of y]
    n_points: int = 0  # number of fitted points

    @property
    def is_rising(self) -> bool:
        """True if y increases with the batch size."""
        return self.span > 0

    def eval_x(self, x: npt.ArrayLike) -> Float64Array:
        """Return y at ``x = log2(batch size)``, of the shape of `x`."""
        return self.base + self.span * self._rise_fraction(x)

    def eval(self, batch: npt.ArrayLike) -> Float64Array:
        """Return y at batch sizes above 0, whole or fractional, shaped as `batch`."""
        return self.eval_x(np.log2(np.asarray(batch, dtype=np.float64)))

    def deriv_wrt_x(self, x: npt.ArrayLike) -> Float64Array:
        """Return dy/dx at ``x = log2(batch size)``, the slope per doubling."""
        share = self._rise_fraction(x)
        return self.span * self.steepness * share * (1.0 - share)

    def _rise_fraction(self, x: npt.ArrayLike) -> Float64Array:
        z = self.steepness * (np.asarray(x, dtype=np.float64) - self.midpoint)
        return np.asarray(scipy.special.expit(z), dtype=np.float64)

    def inverse(self, value: npt.ArrayLike) -> Float64Array:
        """Return the largest (fractional) batch size with y at or below values.

        0 for values below the curve, infinity for values above the curve; `InputError`
        if y does not increase with the batch size.
        """
        if not self.is_rising:
            raise InputError(
                f"a logistic with L = {self.span:g} does not rise with the batch "
                "size, so no largest batch keeps a value; check the measurements "
                "behind the fit"
            )
        share = (np.asarray(value, dtype=np.float64) - self.base) / self.span
        is_inside = np.clip(share, 0.0, 1.0)
        with np.errstate(divide="ignore", over="ignore"):
            x = (
                self.midpoint
                + (np.log(is_inside) - np.log1p(-is_inside)) / self.steepness
            )
            return np.asarray(np.exp2(x), dtype=np.float64)

    @classmethod
    def fit(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the curve to measurements by least squares.

        Four or more distinct x determine all coefficients. With two or three, only L
        and b0 are fitted, and steepness and midpoint are fixed so that the curve's rise
        covers the measured x (ASSUMPTION). A single x, or equal y, gives a flat line.

        Parameters
        ----------
        x, y : array_like, shape (n,)
            log2 of the batch sizes, and measured values.

        Raises
        ------
        InputError
            If there is no point, the shapes differ, or a value is not finite.
        """
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or not np.isfinite([x, y]).all():
            raise InputError(
                "a logistic fit needs one x and one y per point, finite numbers"
            )
        if not x.size:
            raise InputError("a logistic fit needs a point or more, found none")
        parameters = _fit_parameters(x, y)
        span, steepness, midpoint, base = (float(value) for value in parameters)
        residual = y - curve(parameters, x)
        total = float(np.sum((y - y.mean()) ** 2))
        squares = float(residual @ residual)
        r2 = 1.0 - squares / total if total > 0 else 1.0
        return cls(
            span,
            steepness,
            midpoint,
            base,
            r2,
            float(np.sqrt(squares / x.size)),
            x.size,
        )


def _fit_parameters(x: Float64Array, y: Float64Array) -> Float64Array:
    """Fit ``(L, k, x0, b0)`` to one or more points, as in `LogisticModel.fit`."""
    distinct, scale = np.unique(x).size, float(np.ptp(y))
    if distinct == 1 or scale == 0:
        return np.array([0.0, 1.0, x.mean(), y.mean()])
    unit = (y - y.min()) / scale
    if distinct < N_PARAMETERS:
        # The rise from 12 % to 88 % of the span lies within the measured x.
        shape = 4.0 / float(np.ptp(x)), float(x.min() + x.max()) / 2
    else:
        margin = max(float(np.ptp(x)), 1.0)
        result = scipy.optimize.shgo(
            lambda point: _residual_sum(x, unit, np.exp(point[0]), point[1]),
            [tuple(np.log(STEEPNESS)), (x.min() - margin, x.max() + margin)],
            n=STARTS,
            sampling_method="sobol",
        )
        shape = float(np.exp(result.x[0])), float(result.x[1])
    span, base = _fit_linear(x, unit, *shape)
    return np.array([span * scale, *shape, y.min() + base * scale])


def curve(parameters: Float64Array, x: Float64Array) -> Float64Array:
    """Return the curve of ``(L, k, x0, b0)`` at x, shape (n,)."""
    span, steepness, midpoint, base = parameters
    return np.asarray(
        base + span * scipy.special.expit(steepness * (x - midpoint)), dtype=np.float64
    )


def _fit_linear(
    x: Float64Array, y: Float64Array, steepness: float, midpoint: float
) -> tuple[float, float]:
    """Fit L and b0 for a given k and x0 by linear regression."""
    share = scipy.special.expit(steepness * (x - midpoint))
    about = share - share.mean()
    spread = float(about @ about)
    # For a curve that is flat over all points, L is undefined: 0.
    span = float(about @ y) / spread if spread > MIN_SPREAD else 0.0
    span = min(max(span, -MAX_SPAN), MAX_SPAN)
    return span, float(y.mean() - span * share.mean())


def _residual_sum(
    x: Float64Array, y: Float64Array, steepness: float, midpoint: float
) -> float:
    """Return the sum of squared residuals of the best curve with a given k and x0."""
    span, base = _fit_linear(x, y, steepness, midpoint)
    off = curve(np.array([span, steepness, midpoint, base]), x) - y
    return float(off @ off)
