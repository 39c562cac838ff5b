"""`LogisticModel`: power, latency or throughput against a replica's batch size.

The four-parameter logistic of OpenG2G,
``y = b0 + L * sigmoid(k * (log2(batch) - x0))``, fitted by bounded least squares from
many starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from diploee.base.errors import Brief, InputError, one_of, shown
from diploee.base.metric import is_plain_number
from diploee.base.tables import Float64Array
from diploee.base.units import LARGEST_NUMBER

N_PARAMETERS = 4
STEEPNESS = (0.02, 20.0)
"""Bounds of k: below, the curve is a straight line, above, a step between two measured
sizes."""
LARGEST_SPAN = 50.0
"""Bound of |L| and |b0| in ranges of the data; beyond, the measured part is a straight
line."""
_GRID = (25, 49)
"""Steepnesses and midpoints at which the search starts; L and b0 are linear and solved
for."""
N_POLISHED = 12
"""Valleys of the grid that are searched to their floor, the deepest first."""
_MAX_EVALUATIONS = 200


class FittedModel(Brief):
    """A model of a few numbers, which files have under the symbols of its equation."""

    what: ClassVar[str]
    # As in OpenG2G's files, and the fields that they mean
    symbols: ClassVar[Mapping[str, str]]
    derived: ClassVar[Mapping[str, str]] = {}  # written only
    quality: ClassVar[tuple[str, ...]]  # of a fit; may be absent

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the numbers under OpenG2G's names, with the quality of the fit."""
        names = {
            **self.symbols,
            **self.derived,
            **{name: name for name in self.quality},
        }
        return {key: getattr(self, name) for key, name in names.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a model from `to_dict`'s mapping, or from OpenG2G's.

        `InputError` if a number is missing, something else or out of its range.
        """
        missing = [symbol for symbol in cls.symbols if symbol not in data]
        if missing:
            raise InputError(
                f"{cls.what} needs {one_of(cls.symbols)}, missing: {one_of(missing)} "
                f"(found: {one_of(data)})"
            )
        given = [name for name in cls.quality if data.get(name) is not None]
        for symbol in (*cls.symbols, *given):
            if not is_plain_number(data[symbol]):
                raise InputError(
                    f"{cls.what}'s {symbol} must be a number, found "
                    f"{shown(data[symbol])}"
                )
        return cls(
            **{cls.symbols.get(key, key): data[key] for key in (*cls.symbols, *given)}
        )


@dataclass(frozen=True)
class LogisticModel(FittedModel):
    """A logistic curve over ``x = log2(batch size)``.

    `InputError` if a coefficient is not finite, or the steepness not positive.
    """

    what = "a logistic"
    symbols = MappingProxyType(
        {"L": "span", "x0": "midpoint", "k": "steepness", "b0": "base"}
    )
    quality = ("r2", "rmse", "n_points")

    span: float  # L, upper less lower asymptote [unit of y]; negative where y falls
    steepness: float  # k [1], positive
    midpoint: float  # x0, log2 of the batch size at half the span
    base: float  # b0, asymptote at small batches [unit of y]
    # Coefficient of determination; None where coefficients were given
    r2: float | None = None
    rmse: float | None = None  # root mean square of the residuals [unit of y]
    n_points: int = 0  # that were fitted

    def __post_init__(self) -> None:
        for symbol, name in self.symbols.items():
            value = getattr(self, name)
            if not abs(value) <= LARGEST_NUMBER:
                raise InputError(
                    f"logistic {symbol} ({name}) must be finite, found {value}"
                )
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
        """Return y at batch sizes (above 0, also fractional), shaped as `batch`."""
        return self.eval_x(np.log2(np.asarray(batch, dtype=np.float64)))

    def deriv_wrt_x(self, x: npt.ArrayLike) -> Float64Array:
        """Return dy/dx at ``x = log2(batch size)``.

        Y gained by doubling the batch, locally.
        """
        share = self._share(x)
        return self.span * self.steepness * share * (1.0 - share)

    def _share(self, x: npt.ArrayLike) -> Float64Array:
        z = self.steepness * (np.asarray(x, dtype=np.float64) - self.midpoint)
        return np.asarray(scipy.special.expit(z), dtype=np.float64)

    def inverse(self, value: npt.ArrayLike) -> Float64Array:
        """Return the largest (fractional) batch size with y at or below values.

        0 for values that no batch is low enough for, infinity for those that the curve
        never reaches; `InputError` if it does not rise with the batch size.
        """
        if not self.is_rising:
            raise InputError(
                f"a logistic with L = {self.span:g} does not rise with the batch "
                "size, so no largest batch keeps a value; check the measurements "
                "behind the fit"
            )
        share = (np.asarray(value, dtype=np.float64) - self.base) / self.span
        inside = np.clip(share, 0.0, 1.0)
        with np.errstate(divide="ignore", over="ignore"):
            x = self.midpoint + (np.log(inside) - np.log1p(-inside)) / self.steepness
            return np.asarray(np.exp2(x), dtype=np.float64)

    @classmethod
    def fit(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the curve to measurements by least squares.

        Four distinct x or more determine all coefficients. With two or three, the
        steepness and the midpoint are held so that the curve's rise spans the measured
        x (ASSUMPTION), and only L and b0 are fitted; a single x, or equal y, gives a
        flat line.

        Parameters
        ----------
        x, y : array_like, shape (n,)
            log2 of the batch sizes, and measured values.

        Raises
        ------
        InputError
            If there is no point, the shapes differ, or a value is not finite.
        """
        x, y = _points(x, y)
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


def _points(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Float64Array, Float64Array]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise InputError(
            f"a logistic fit needs one x and one y per point, found shapes {x.shape} "
            f"and {y.shape}"
        )
    for name, values in (("x", x), ("y", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"{name}[{bad[0]}] is {values[bad[0]]}, expected finite numbers; "
                "leave that batch size out of the fit"
            )
    return x, y


def _fit_parameters(x: Float64Array, y: Float64Array) -> Float64Array:
    """Fit the curve to points, one or more.

    `LogisticModel.fit` says how few are handled.
    """
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
    (base, span), *_ = np.linalg.lstsq(
        np.stack([np.ones_like(x), share], axis=1), y, rcond=None
    )
    return np.array([span, steepness, midpoint, base])


def _least_squares(x: Float64Array, y: Float64Array) -> Float64Array:
    """Return the best local optimum that a grid over k and x0 shows."""
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
    # A search that was cut may end above its start's neighbours: compare all of them.
    best = min(
        [*found, *starts], key=lambda p: float(np.sum((curve(p, x) - unit) ** 2))
    )
    span, steepness, midpoint, base = best
    return np.array([span * scale, steepness, midpoint, low + base * scale])


def _valleys(x: Float64Array, unit: Float64Array, margin: float) -> list[Float64Array]:
    """Return parameters at local minima of a grid over k and x0, deepest first.

    Several starts of the same valley would all end at its floor and leave deeper ones
    unseen.
    """
    steepness = np.geomspace(*STEEPNESS, _GRID[0])
    midpoint = np.linspace(x.min() - margin, x.max() + margin, _GRID[1])
    share = scipy.special.expit(
        steepness[:, None, None] * (x - midpoint[None, :, None])
    )
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
    deepest = np.argsort(squares[rows, columns], kind="stable")[:N_POLISHED]
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
