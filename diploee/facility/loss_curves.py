"""Converter losses (power supplies, UPS) as a function of load.

A converter with output x, in per unit of its rating, draws ``x + loss(x)``, so that its
efficiency is ``x / (x + loss(x))``. The loss is ``a0 + a1 x + a2 x²``, with
coefficients in per unit of the rating, from a preset or fitted to a user's measured
efficiencies.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy
from pydantic import Field, model_validator

from diploee.base.errors import Brief
from diploee.base.model import Kind, Kinds, default
from diploee.base.tables import Float64Array

WORST_FIT = 0.005
"""Maximum error of a fitted efficiency: half a percentage point."""


@dataclass(frozen=True, eq=False)
class LossCurve(Brief):
    """A loss in per unit of the rating, piecewise quadratic in the load."""

    coefficients: Float64Array  # a0, a1 and a2 of each piece, shape (3, n)
    edges: Float64Array  # loads at which the next piece begins, ascending

    def __call__(self, load: Any) -> Any:
        """Return the loss at a load (scalar or array), in per unit of the rating."""
        piece = (
            np.searchsorted(self.edges, load, side="right") if self.edges.size else 0
        )
        a0, a1, a2 = self.coefficients[:, piece]
        return np.maximum(a0 + load * (a1 + load * a2), 0.0)

    def loss_w(self, power_w: Float64Array, rating_w: float) -> Float64Array:
        """Return the losses [W] at output powers [W], shape (n,)."""
        load = np.abs(power_w) / rating_w  # reverse power has the same loss
        return rating_w * self(load)


def quadratic_loss(a0: float, a1: float, a2: float) -> LossCurve:
    """Return the loss curve ``a0 + a1 x + a2 x²``."""
    return LossCurve(np.array([[a0], [a1], [a2]], dtype=np.float64), np.empty(0))


class CurveSpec(Kind):
    """Base class of the loss settings of a converter."""

    @property
    @abstractmethod
    def curve(self) -> LossCurve:
        """Loss curve in per unit of the rating."""


class TitaniumTypSpec(CurveSpec):
    """A typical 80 PLUS Titanium power supply."""

    # ASSUMPTION: 92.4, 95.1, 95.9 and 94.6 % at 10, 20, 50 and 100 % load [M].
    kind: Literal["titanium_typ"] = default(
        "titanium_typ",
        "A typical 80 PLUS Titanium power supply (assumed: 95.9 % at half load).",
        assumed=True,
    )

    @cached_property
    def curve(self) -> LossCurve:
        """Loss curve in per unit of the rating."""
        return quadratic_loss(0.0070, 0.0080, 0.0420)


class Orv3Spec(CurveSpec):
    """Loss settings of a rack power shelf of Open Rack V3."""

    # ASSUMPTION: "over 97.5 %" at its peak (a secondary source), 94.1 % at 10 % load.
    kind: Literal["orv3"] = default(
        "orv3",
        "An Open Rack V3 power shelf (assumed: 97.6 % at half load).",
        assumed=True,
    )

    @cached_property
    def curve(self) -> LossCurve:
        """Loss curve in per unit of the rating."""
        return quadratic_loss(0.0060, 0.0005, 0.0240)


class MeasuredSpec(CurveSpec):
    """Base class of measured efficiencies at some loads."""

    efficiency: dict[float, float] = Field(
        description=(
            "Efficiency (output per input, 0-1) by load (output per rating, 0-1)."
        )
    )

    @model_validator(mode="after")
    def _check_possible(self) -> MeasuredSpec:
        """Refuse values outside 0-1, and an input power that falls with load."""
        for load, efficiency in self.efficiency.items():
            if not 0 < load <= 1:
                raise ValueError(
                    f"a load must be above 0 and at most 1, found {load:g}"
                )
            if not 0 < efficiency <= 1:
                raise ValueError(
                    "an efficiency must be above 0 and at most 1, found "
                    f"{efficiency:g} at load {load:g}"
                )
        load, efficiency = self._points
        inputs = load / efficiency
        if (np.diff(inputs) <= 0).any():
            rise = int(np.argmax(np.diff(inputs) <= 0))
            raise ValueError(
                f"from load {load[rise]:g} to {load[rise + 1]:g} the efficiency rises "
                f"so steeply, from {efficiency[rise]:g} to {efficiency[rise + 1]:g}, "
                "that less is drawn for more"
            )
        _ = self.curve
        return self

    @property
    @abstractmethod
    def curve(self) -> LossCurve:
        """Loss curve in per unit of the rating."""

    @property
    def _points(self) -> Float64Array:
        """Loads and efficiencies, sorted by load, shape (2, n)."""
        return np.array(sorted(self.efficiency.items()), dtype=np.float64).T.reshape(
            2, -1
        )

    def _check_n_points(self, n: int) -> None:
        """Raise an error if there are fewer than n points."""
        if len(self.efficiency) < n:
            raise ValueError(
                f"'{self.kind}' needs efficiencies at {n} loads or more, found "
                f"{len(self.efficiency)}"
            )


class PointsSpec(MeasuredSpec):
    """A quadratic loss ``a0 + a1 x + a2 x²`` fitted to measured efficiencies.

    Coefficients ``a >= 0`` minimize the squared errors of ``x (1 / efficiency - 1)``
    with weights 1 / x (non-negative least squares). A fit with an error above half a
    percentage point is refused, as the values are then not those of one converter, but
    for example the minimum efficiencies of 80 PLUS.
    """

    kind: Literal["points"] = default(
        "points",
        "A quadratic loss fitted to measured efficiencies, with an error of at most "
        "half a percentage point.",
    )

    @cached_property
    def curve(self) -> LossCurve:
        """Fitted loss curve in per unit of the rating."""
        self._check_n_points(3)
        load, efficiency = self._points
        terms = load ** np.array([[-1.0], [0.0], [1.0]])  # of the loss over the load
        a, _ = scipy.optimize.nnls(terms.T, 1 / efficiency - 1)
        errors = 1 / (1 + a @ terms) - efficiency
        worst = int(np.argmax(np.abs(errors)))
        if abs(errors[worst]) > WORST_FIT:
            raise ValueError(
                "no loss a0 + a1 x + a2 x^2 with a >= 0 has these efficiencies: the "
                f"nearest one misses {efficiency[worst]:g} at load {load[worst]:g} by "
                f"{100 * abs(errors[worst]):.2f} points, at most {100 * WORST_FIT:g} "
                "are allowed; mend the point, or use 'table' for straight lines "
                "between points"
            )
        return quadratic_loss(*a)


class TableSpec(MeasuredSpec):
    """Measured efficiencies with the loss interpolated linearly between them.

    The loss is extrapolated to no load and overload, but not below zero.
    """

    kind: Literal["table"] = default(
        "table", "Measured efficiencies, with the loss linear between them."
    )

    @cached_property
    def curve(self) -> LossCurve:
        """Interpolated loss curve in per unit of the rating."""
        self._check_n_points(2)
        load, efficiency = self._points
        loss = load * (1 / efficiency - 1)
        slope = np.diff(loss) / np.diff(load)
        at_zero = loss[:-1] - slope * load[:-1]
        return LossCurve(np.array([at_zero, slope, np.zeros_like(slope)]), load[1:-1])


_HOME = "diploee.facility.loss_curves"

SUPPLIES: Kinds[CurveSpec] = Kinds("power supply", CurveSpec, _HOME)  # type: ignore[type-abstract]
"""Registry of power supplies of nodes."""

MEASURED: Kinds[MeasuredSpec] = Kinds("loss curve", MeasuredSpec, _HOME)  # type: ignore[type-abstract]
"""Registry of measured loss curves."""
