"""Batch size controllers, their inputs and outputs, and replica power limits.

`feedback` is online feedback optimization, a primal-dual method on what is measured.
With x = log2 of the batch size, R replicas and the fits P, L and T of a replica's
power, latency and throughput, it looks for the batch sizes of the highest throughput

``maximize sum_i R_i T_i(x_i) / sum_i R_i T_i(x_max,i)``

under the excesses ``g_c`` of the constraints and of the latencies,
``h_i = l_i / deadline_i - 1``, none of which shall be above 0. Once per control
interval, with the g and h that were measured,

``y_c <- [y_c + rho g_c]+``, ``z_i <- [z_i + rho h_i]+``  (dual ascent),

``x_i <- clip(x_i - alpha d_i)`` (projected primal descent) with

``d_i = -w R_i T_i' / sum_j R_j T_j(x_max,j) + sum_c [y_c + kappa g_c]+ (dg_c/dP) R_i
P_i'
+ [z_i + kappa h_i]+ L_i' / deadline_i + gamma (x_i - x_i,before)``,

and the feasible size next to 2^x, on the scale of x, is set; with `raise_after_s` a
larger one waits, x at the middle between both meanwhile. The method is that of OpenG2G
[1]_; all excesses are relative here, so that one set of gains does for all, and kappa,
the term of an augmented Lagrangian, damps the oscillation of the plain method.
ASSUMPTION: the gains are our choice [J].

References
----------
.. [1] https://github.com/gpu2grid/openg2g, ``controller/ofo.py`` (Eqs. 4-8 and 18 of
   its paper)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field, PositiveInt, PrivateAttr

from diploee.base.model import ImportedKind, Model, Name, default, uncertain
from diploee.base.units import S_PER_DAY
from diploee.integrations.openg2g.replicas.settings import BatchControllerSpec
from diploee.integrations.openg2g.replicas.views import (
    ControlSetting,
    ControlView,
    ModelSetting,
)

Gain = Annotated[float, Field(gt=0, le=1e6)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]


class _Served:
    """A model and what the optimizer knows of it."""

    def __init__(self, setting: ModelSetting) -> None:
        self.setting, self.feasible, self.size = (
            setting,
            setting.feasible,
            setting.batch_size,
        )
        # Not only of whole batch sizes
        self.x = self.before = float(np.log2(self.size))
        self.late = 0.0  # price of the deadline
        self.changed_s = -np.inf
        self.most_tps = float(setting.fits.throughput.eval(self.feasible[-1]))


class FeedbackSpec(BatchControllerSpec):
    """A primal-dual optimizer of throughput under the signal and the deadlines."""

    kind: Literal["feedback"] = default("feedback", "Online feedback optimization.")
    throughput_weight: Weight = default(1.0, "w, weight of throughput.")
    primal_step: Gain = uncertain(
        0.1, "alpha, step of log2 of the batch size", (0.05, 0.2)
    )
    dual_step: Gain = uncertain(
        0.5, "rho, step of the prices of constraints", (0.25, 1)
    )
    damping: Weight = uncertain(20.0, "kappa, answer to an excess at once", (10, 40))
    switching_weight: Weight = default(
        0.0, "gamma, against going on in the direction of the last step."
    )

    raise_after_s: Annotated[float, Field(ge=0, le=S_PER_DAY)] = default(
        0.0,
        (
            "Least time at a batch size before a larger one is taken [s]; smaller ones "
            "are taken at once. 0 lets sizes alternate with every control interval."
        ),
    )
    _served: dict[str, _Served] = PrivateAttr(default_factory=dict)
    _price: dict[str, float] = PrivateAttr(default_factory=dict)

    def _start(self, setting: ControlSetting) -> None:
        self._served = {name: _Served(model) for name, model in setting.models.items()}
        self._price = {}

    @property
    def x(self) -> dict[str, float]:
        """log2 of the batch sizes by model, not only of whole ones."""
        return {name: of.x for name, of in self._served.items()}

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Take a step and return the feasible batch sizes next to it."""
        seen, per_w = view.models, 0.0
        for constraint in view.constraints:
            price = (
                self._price.get(constraint.name, 0.0)
                + self.dual_step * constraint.excess
            )
            self._price[constraint.name] = price = max(price, 0.0)
            per_w += (
                max(price + self.damping * constraint.excess, 0.0) * constraint.per_w
            )
        most_tps = sum(
            seen[name].n_replicas * of.most_tps for name, of in self._served.items()
        )
        chosen = {}
        for name, of in self._served.items():
            n, x, fits = seen[name].n_replicas, of.x, of.setting.fits
            if n:
                descent = n * per_w * float(fits.power.deriv_wrt_x(x))
                descent -= (
                    self.throughput_weight
                    * n
                    * float(fits.throughput.deriv_wrt_x(x))
                    / most_tps
                )
                descent += self._latency_term(of, seen[name].itl_s)
                descent += self.switching_weight * (x - of.before)
                low, high = np.log2(of.feasible[0]), np.log2(of.feasible[-1])
                of.before, of.x = (
                    x,
                    float(np.clip(x - self.primal_step * descent, low, high)),
                )
            chosen[name] = self._next_size(of, view.time_s)
        return chosen

    def _next_size(self, of: _Served, time_s: float) -> int:
        """Return the feasible size next to 2^x, or the present one if it waits."""
        result = of.feasible[int(np.abs(np.log2(of.feasible) - of.x).argmin())]
        if result > of.size and time_s - of.changed_s < self.raise_after_s:
            # Went x on, it would pass over sizes once it may.
            above = of.feasible[of.feasible.index(of.size) + 1]
            of.x = float(np.log2(of.size) + np.log2(above)) / 2
        elif result != of.size:
            of.size, of.changed_s = result, time_s
        return of.size

    def _latency_term(self, of: _Served, itl_s: float) -> float:
        deadline_s = of.setting.itl_deadline_s
        if deadline_s is None:
            return 0.0
        excess = itl_s / deadline_s - 1
        of.late = max(of.late + self.dual_step * excess, 0.0)
        now = max(of.late + self.damping * excess, 0.0)
        return now * float(of.setting.fits.itl.deriv_wrt_x(of.x)) / deadline_s


class FixedSpec(BatchControllerSpec):
    """The batch sizes of the start."""

    kind: Literal["fixed"] = default("fixed", "Batch sizes stay as they are.")


class BatchChange(Model):
    """Batch sizes from a time on."""

    at_s: Seconds = Field(
        description="When, since the start of the run [s]; at the next decision."
    )
    batch_size: dict[Name, PositiveInt] = Field(
        min_length=1, description="The batch sizes from then on, by model."
    )


class ScheduleSpec(BatchControllerSpec):
    """Batch sizes that change at given times."""

    kind: Literal["schedule"] = default("schedule", "Changes at given times.")
    changes: tuple[BatchChange, ...] = Field(
        min_length=1, description="Changes and their times."
    )
    _left: list[BatchChange] = PrivateAttr(default_factory=list)

    def _start(self, setting: ControlSetting) -> None:  # noqa: ARG002
        self._left = sorted(self.changes, key=lambda change: change.at_s)

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Return the batch sizes of the changes since the last decision."""
        result: dict[str, int] = {}
        while self._left and self._left[0].at_s <= view.time_s:
            result |= self._left.pop(0).batch_size
        return result


class OwnSpec(ImportedKind, BatchControllerSpec):
    """A controller of the user's own, made from a `ControlSetting` and keys."""

    model_config = ConfigDict(extra="allow")
