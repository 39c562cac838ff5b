"""Losses of converters by their load: power supplies and UPS.

A converter that gives a part x of its rating draws x plus a loss, both in parts of its
rating; its efficiency is ``x / (x + loss)``. The loss is ``a0 + a1 x + a2 x^2`` as of a
preset, or of a user's own measured efficiencies.

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
"""Largest miss of an efficiency: half a percentage point."""


@dataclass(frozen=True, eq=False)
class LossCurve(Brief):
    """A loss in parts of the rating, quadratic in the load between edges."""

    coefficients: Float64Array  # a0, a1 and a2 of each part
    edges: Float64Array  # loads at which the next part begins, rising

    def __call__(self, load: Any) -> Any:
        """Return the loss at a load, scalar or array, in parts of the rating."""
        part = np.searchsorted(self.edges, load, side="right") if self.edges.size else 0
        a0, a1, a2 = self.coefficients[:, part]
        return np.maximum(a0 + load * (a1 + load * a2), 0.0)

    def loss_w(self, power_w: Float64Array, rating_w: float) -> Float64Array:
        """Return the losses [W] at powers given out [W], shape (n,)."""
        load = np.abs(power_w) / rating_w  # what flows back is lost in part as well
        return rating_w * self(load)


def quadratic(a0: float, a1: float, a2: float) -> LossCurve:
    """Return the loss ``a0 + a1 x + a2 x^2``."""
    return LossCurve(np.array([[a0], [a1], [a2]], dtype=np.float64), np.empty(0))


class CurveSpec(Kind):
    """Base of what a scenario says of a converter's loss."""

    @property
    @abstractmethod
    def curve(self) -> LossCurve:
        """The loss in parts of the rating."""


class TitaniumTypSpec(CurveSpec):
    """A typical power supply of the class 80 PLUS Titanium."""

    # ASSUMPTION: 92.4, 95.1, 95.9 and 94.6 % at 10, 20, 50 and 100 % load [M].
    kind: Literal["titanium_typ"] = default(
        "titanium_typ",
        "A typical supply of 80 PLUS Titanium (assumed: 95.9 % at half load).",
        assumed=True,
    )

    @cached_property
    def curve(self) -> LossCurve:
        """The loss in parts of the rating."""
        return quadratic(0.0070, 0.0080, 0.0420)


class Orv3Spec(CurveSpec):
    """A rack's power shelf of Open Rack V3."""

    # ASSUMPTION: "over 97.5 %" at its peak (a secondary source), 94.1 % at 10 % load.
    kind: Literal["orv3"] = default(
        "orv3",
        "A power shelf of Open Rack V3 (assumed: 97.6 % at half load).",
        assumed=True,
    )

    @cached_property
    def curve(self) -> LossCurve:
        """The loss in parts of the rating."""
        return quadratic(0.0060, 0.0005, 0.0240)


class MeasuredSpec(CurveSpec):
    """Base of a user's own: efficiencies at loads."""

    efficiency: dict[float, float] = Field(
        description=(
            "Efficiency (output over input, 0-1) by load (output over rating, 0-1)."
        )
    )

    @model_validator(mode="after")
    def _possible(self) -> MeasuredSpec:
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
            at = int(np.argmax(np.diff(inputs) <= 0))
            raise ValueError(
                f"from load {load[at]:g} to {load[at + 1]:g} the efficiency rises so "
                f"steeply, from {efficiency[at]:g} to {efficiency[at + 1]:g}, that "
                "less is drawn for more"
            )
        _ = self.curve
        return self

    @property
    @abstractmethod
    def curve(self) -> LossCurve:
        """The loss in parts of the rating."""

    @property
    def _points(self) -> Float64Array:
        return np.array(sorted(self.efficiency.items()), dtype=np.float64).T.reshape(
            2, -1
        )

    def _at_least(self, n: int) -> None:
        if len(self.efficiency) < n:
            raise ValueError(
                f"'{self.kind}' needs efficiencies at {n} loads or more, found "
                f"{len(self.efficiency)}"
            )


class PointsSpec(MeasuredSpec):
    """Measured efficiencies as the nearest loss ``a0 + a1 x + a2 x^2``.

    ``a >= 0`` by least squares of ``x (1 / efficiency - 1)`` with weights 1 / x. What
    no such loss meets within half a percentage point is refused: limits, as of 80 PLUS,
    are no curve.
    """

    kind: Literal["points"] = default(
        "points",
        "A quadratic loss fitted to measured efficiencies, to half a percentage point.",
    )

    @cached_property
    def curve(self) -> LossCurve:
        """The fitted loss."""
        self._at_least(3)
        load, efficiency = self._points
        terms = load ** np.array([[-1.0], [0.0], [1.0]])  # of the loss over the load
        a, _ = scipy.optimize.nnls(terms.T, 1 / efficiency - 1)
        missed = 1 / (1 + a @ terms) - efficiency
        worst = int(np.argmax(np.abs(missed)))
        if abs(missed[worst]) > WORST_FIT:
            raise ValueError(
                "no loss a0 + a1 x + a2 x^2 with a >= 0 has these efficiencies: the "
                f"nearest one misses {efficiency[worst]:g} at load {load[worst]:g} by "
                f"{100 * abs(missed[worst]):.2f} points, at most {100 * WORST_FIT:g} "
                "are allowed; mend the point, or use 'table' for straight lines "
                "between points"
            )
        return quadratic(*a)


class TableSpec(MeasuredSpec):
    """Measured efficiencies with the loss on straight lines between them.

    The outer lines go on beyond the points, to no load and to overload, but not below
    no loss.
    """

    kind: Literal["table"] = default(
        "table", "Straight lines of the loss between measured efficiencies."
    )

    @cached_property
    def curve(self) -> LossCurve:
        """The loss from point to point."""
        self._at_least(2)
        load, efficiency = self._points
        loss = load * (1 / efficiency - 1)
        slope = np.diff(loss) / np.diff(load)
        at_zero = loss[:-1] - slope * load[:-1]
        return LossCurve(np.array([at_zero, slope, np.zeros_like(slope)]), load[1:-1])


_HOME = "diploee.facility.loss_curves"

SUPPLIES: Kinds[CurveSpec] = Kinds("power supply", CurveSpec, _HOME)  # type: ignore[type-abstract]
"""Power supplies of nodes by name."""

MEASURED: Kinds[MeasuredSpec] = Kinds("loss curve", MeasuredSpec, _HOME)  # type: ignore[type-abstract]
"""Those of them that a user measured."""
