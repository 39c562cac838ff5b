"""`LogisticModel`: power, latency or throughput of a model replica against its batch size.

The four-parameter logistic of OpenG2G, ``y = b0 + L * sigmoid(k * (log2(batch) - x0))``, fitted by
bounded least squares from many starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy

from diploee.errors import InputError
from diploee.neighbours.openg2g.coefficients import read_coefficients
from diploee.neighbours.openg2g.logistic_fit import curve, fit_parameters
from diploee.tables import Float64Array
from diploee.units import LARGEST_NUMBER

SYMBOLS = {"L": "span", "x0": "midpoint", "k": "steepness", "b0": "base"}
"""Symbols of the equation, as in OpenG2G's files, and the fields that they stand for."""


@dataclass(frozen=True)
class LogisticModel:
    """A logistic curve over ``x = log2(batch size)``.

    Parameters
    ----------
    span : float
        Upper less lower asymptote, L [unit of y]; negative where y falls.
    steepness : float
        k [1], positive.
    midpoint : float
        log2 of the batch size at half the span, x0.
    base : float
        Asymptote at small batches, b0 [unit of y].
    r2 : float, optional
        Coefficient of determination of the fit; None where the coefficients were given.
    rmse : float, optional
        Root mean square of the residuals [unit of y].
    n_points : int
        Points that were fitted; 0 where the coefficients were given.

    Raises
    ------
    InputError
        If a coefficient is not finite, or the steepness not positive.
    """

    span: float
    steepness: float
    midpoint: float
    base: float
    r2: float | None = None
    rmse: float | None = None
    n_points: int = 0

    def __post_init__(self) -> None:
        for symbol, name in SYMBOLS.items():
            value = getattr(self, name)
            if not abs(value) <= LARGEST_NUMBER:
                raise InputError(f"logistic {symbol} ({name}) must be finite, found {value}")
        if self.steepness <= 0:
            raise InputError(
                f"logistic k (steepness) must be above 0, found {self.steepness:g}; "
                "turn the sign of L where the curve falls"
            )

    @property
    def is_rising(self) -> bool:
        """Whether y grows with the batch size."""
        return self.span > 0

    def eval_x(self, x: npt.ArrayLike) -> Float64Array:
        """Return y at ``x = log2(batch size)``, of the shape of `x`."""
        return self.base + self.span * self._share(x)

    def eval(self, batch: npt.ArrayLike) -> Float64Array:
        """Return y at batch sizes (above 0, not only whole ones), of the shape of `batch`."""
        return self.eval_x(np.log2(np.asarray(batch, dtype=np.float64)))

    def deriv_wrt_x(self, x: npt.ArrayLike) -> Float64Array:
        """Return dy/dx at ``x = log2(batch size)``: y gained by doubling the batch, locally."""
        share = self._share(x)
        return self.span * self.steepness * share * (1.0 - share)

    def _share(self, x: npt.ArrayLike) -> Float64Array:
        z = self.steepness * (np.asarray(x, dtype=np.float64) - self.midpoint)
        return np.asarray(scipy.special.expit(z), dtype=np.float64)

    def inverse(self, value: npt.ArrayLike) -> Float64Array:
        """Return the largest batch size (not only whole ones) at which y is at or below values.

        Parameters
        ----------
        value : array_like
            Values of y, such as a latency that must be kept.

        Returns
        -------
        numpy.ndarray
            Batch sizes; 0 for values that no batch is low enough for, infinity for those that the
            curve never reaches.

        Raises
        ------
        InputError
            If the curve does not rise with the batch size.
        """
        if not self.is_rising:
            raise InputError(
                f"a logistic with L = {self.span:g} does not rise with the batch size, so no "
                "largest batch keeps a value; check the measurements behind the fit"
            )
        share = (np.asarray(value, dtype=np.float64) - self.base) / self.span
        inside = np.clip(share, 0.0, 1.0)
        with np.errstate(divide="ignore", over="ignore"):
            x = self.midpoint + (np.log(inside) - np.log1p(-inside)) / self.steepness
            return np.asarray(np.exp2(x), dtype=np.float64)

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the coefficients under their symbols, with the quality of the fit."""
        coefficients = {symbol: getattr(self, name) for symbol, name in SYMBOLS.items()}
        return {**coefficients, "r2": self.r2, "rmse": self.rmse, "n_points": self.n_points}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a model from `to_dict`'s mapping, or from OpenG2G's ``{L, x0, k, b0}``.

        Raises
        ------
        InputError
            If a coefficient is missing or not a number.
        """
        return cls(**read_coefficients(data, "a logistic", SYMBOLS, ("r2", "rmse", "n_points")))

    @classmethod
    def fit(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the curve to measurements by least squares.

        Four distinct x or more determine all coefficients. With two or three, the steepness and
        the midpoint are held so that the curve's rise spans the measured x (ASSUMPTION), and only
        L and b0 are fitted; a single x, or equal y, gives a flat line.

        Parameters
        ----------
        x : array_like, shape (n,)
            log2 of the batch sizes.
        y : array_like, shape (n,)
            Measured values.

        Returns
        -------
        LogisticModel
            With its `r2`, `rmse` and `n_points`.

        Raises
        ------
        InputError
            If there is no point, the shapes differ, or a value is not finite.
        """
        x, y = _points(x, y)
        parameters = fit_parameters(x, y)
        span, steepness, midpoint, base = (float(value) for value in parameters)
        residual = y - curve(parameters, x)
        total = float(np.sum((y - y.mean()) ** 2))
        squares = float(residual @ residual)
        r2 = 1.0 - squares / total if total > 0 else 1.0
        return cls(span, steepness, midpoint, base, r2, float(np.sqrt(squares / x.size)), x.size)


def _points(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Float64Array, Float64Array]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise InputError(
            f"a logistic fit needs one x and one y per point, found shapes {x.shape} and {y.shape}"
        )
    for name, values in (("x", x), ("y", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"{name}[{bad[0]}] is {values[bad[0]]}, expected finite numbers; "
                "leave that batch size out of the fit"
            )
    return x, y
