"""Batch size controllers of replicas: fixed, scheduled, or feedback optimization.

`feedback` is online feedback optimization, a primal-dual method with measured
constraint violations. With x = log2 of the batch size, R replicas, and the fits P, L
and T of a replica's power, latency and throughput, it maximizes the throughput

``maximize sum_i R_i T_i(x_i) / sum_i R_i T_i(x_max,i)``

subject to ``g_c <= 0`` for the relative excess of each power constraint and
``h_i <= 0`` for the relative excess of each latency,
``h_i = l_i / deadline_i - 1``. Once per control interval, with the measured g and h:

``y_c <- [y_c + rho g_c]+``, ``z_i <- [z_i + rho h_i]+``  (dual ascent),

``x_i <- clip(x_i - alpha d_i)`` (projected primal descent) with

``d_i = -w R_i T_i' / sum_j R_j T_j(x_max,j) + sum_c [y_c + kappa g_c]+ (dg_c/dP) R_i
P_i' + [z_i + kappa h_i]+ L_i' / deadline_i + gamma (x_i - x_i,before)``.

Each model is then set to the feasible batch size nearest to 2^x on a log scale. With
`raise_after_s`, an increase is delayed; meanwhile x stays halfway between the two
sizes. The method is OpenG2G's [1]_; here all excesses are relative, so that one set of
gains suits all, and kappa, the term of an augmented Lagrangian, damps the oscillation
of the plain method. w, alpha, rho, kappa and gamma are the gains of `FeedbackSpec`; l_i
is the measured latency and x_i,before the x of the step before. ASSUMPTION (judgement):
the gains are our choice.

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


class _ModelState:
    """Optimizer state of one served model: batch size, log2 of it, and price."""

    def __init__(self, setting: ModelSetting) -> None:
        self.setting, self.feasible, self.size = (
            setting,
            setting.feasible,
            setting.batch_size,
        )
        # log2 of the batch size, not rounded to feasible sizes
        self.x = self.before = float(np.log2(self.size))
        self.late = 0.0  # price of the deadline
        self.changed_s = -np.inf
        self.most_tps = float(setting.fits.throughput.eval(self.feasible[-1]))


class FeedbackSpec(BatchControllerSpec):
    """Primal-dual optimizer of throughput under a power cap and latency deadlines."""

    kind: Literal["feedback"] = default("feedback", "Online feedback optimization.")
    throughput_weight: Weight = default(1.0, "Weight w of throughput.")
    primal_step: Gain = uncertain(
        0.1, "Step size alpha of the logarithm (base 2) of the batch size", (0.05, 0.2)
    )
    dual_step: Gain = uncertain(
        0.5, "Step size rho of the dual variables of the constraints", (0.25, 1)
    )
    damping: Weight = uncertain(
        20.0, "Gain kappa of the immediate response to a violation", (10, 40)
    )
    switching_weight: Weight = default(
        0.0, "Weight gamma of a penalty on a further step in the same direction."
    )

    raise_after_s: Annotated[float, Field(ge=0, le=S_PER_DAY)] = default(
        0.0,
        (
            "Minimum time at a batch size before an increase [s]; decreases are "
            "immediate. With 0, sizes may alternate in every control interval."
        ),
    )
    _served: dict[str, _ModelState] = PrivateAttr(default_factory=dict)
    _price: dict[str, float] = PrivateAttr(default_factory=dict)

    def _start(self, setting: ControlSetting) -> None:
        self._served = {
            name: _ModelState(model) for name, model in setting.models.items()
        }
        self._price = {}

    @property
    def x(self) -> dict[str, float]:
        """log2 of the unrounded batch sizes by model name."""
        return {name: served.x for name, served in self._served.items()}

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Take an optimization step, and return the nearest feasible batch sizes."""
        observed, per_w = view.models, 0.0
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
            observed[name].n_replicas * served.most_tps
            for name, served in self._served.items()
        )
        chosen = {}
        for name, served in self._served.items():
            n, x, fits = observed[name].n_replicas, served.x, served.setting.fits
            if n:
                descent = n * per_w * float(fits.power.deriv_wrt_x(x))
                descent -= (
                    self.throughput_weight
                    * n
                    * float(fits.throughput.deriv_wrt_x(x))
                    / most_tps
                )
                descent += self._latency_term(served, observed[name].itl_s)
                descent += self.switching_weight * (x - served.before)
                low, high = np.log2(served.feasible[0]), np.log2(served.feasible[-1])
                served.before, served.x = (
                    x,
                    float(np.clip(x - self.primal_step * descent, low, high)),
                )
            chosen[name] = self._next_size(served, view.time_s)
        return chosen

    def _next_size(self, served: _ModelState, time_s: float) -> int:
        """Return the feasible size nearest to 2^x, or the current one in a delay."""
        sizes = served.feasible
        size = sizes[int(np.abs(np.log2(sizes) - served.x).argmin())]
        if size > served.size and time_s - served.changed_s < self.raise_after_s:
            # A larger x would skip sizes after the wait.
            above = sizes[sizes.index(served.size) + 1]
            served.x = float(np.log2(served.size) + np.log2(above)) / 2
        elif size != served.size:
            served.size, served.changed_s = size, time_s
        return served.size

    def _latency_term(self, served: _ModelState, itl_s: float) -> float:
        deadline_s = served.setting.itl_deadline_s
        if deadline_s is None:
            return 0.0
        excess = itl_s / deadline_s - 1
        served.late = max(served.late + self.dual_step * excess, 0.0)
        now = max(served.late + self.damping * excess, 0.0)
        return now * float(served.setting.fits.itl.deriv_wrt_x(served.x)) / deadline_s


class FixedSpec(BatchControllerSpec):
    """Controller that keeps the batch sizes of the start."""

    kind: Literal["fixed"] = default("fixed", "Constant batch sizes.")


class BatchChange(Model):
    """A scheduled change of batch sizes at a time [s]."""

    at_s: Seconds = Field(
        description="Time since the start of the run [s]; the change takes effect at "
        "the next decision."
    )
    batch_size: dict[Name, PositiveInt] = Field(
        min_length=1, description="New batch sizes by model."
    )


class ScheduleSpec(BatchControllerSpec):
    """Controller that changes batch sizes at scheduled times."""

    kind: Literal["schedule"] = default(
        "schedule", "Changes of batch sizes at specified times."
    )
    changes: tuple[BatchChange, ...] = Field(
        min_length=1, description="Changes and their times."
    )
    _left: list[BatchChange] = PrivateAttr(default_factory=list)

    def _start(self, setting: ControlSetting) -> None:  # noqa: ARG002
        self._left = sorted(self.changes, key=lambda change: change.at_s)

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Return the scheduled batch sizes since the last decision by model name."""
        result: dict[str, int] = {}
        while self._left and self._left[0].at_s <= view.time_s:
            result |= self._left.pop(0).batch_size
        return result


class OwnSpec(ImportedKind, BatchControllerSpec):
    """A user's custom controller, created from a `ControlSetting` and YAML keys."""

    model_config = ConfigDict(extra="allow")
