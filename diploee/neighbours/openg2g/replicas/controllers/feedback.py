"""Batch sizes by online feedback optimization: a primal-dual method on what is measured.

With x = log2 of the batch size, R replicas and the fits P, L and T of a replica's power, latency
and throughput, it looks for the batch sizes of the highest throughput

``maximize sum_i R_i T_i(x_i) / sum_i R_i T_i(x_max,i)``

under the excesses ``g_c`` of the signal's constraints and of the latencies,
``h_i = l_i / deadline_i - 1``, none of which shall be above 0. Once per control interval, with the
g and h that were measured,

``y_c <- [y_c + rho g_c]+``, ``z_i <- [z_i + rho h_i]+``  (dual ascent),

``x_i <- clip(x_i - alpha d_i)`` (projected primal descent) with

``d_i = -w R_i T_i' / sum_j R_j T_j(x_max,j) + sum_c [y_c + kappa g_c]+ (dg_c/dP) R_i P_i'
+ [z_i + kappa h_i]+ L_i' / deadline_i + gamma (x_i - x_i,before)``,

and the feasible size next to 2^x, on the scale of x, is set. The method and its parts are those of
OpenG2G [1]_; all excesses are relative here, so that one set of gains does for a cap and for
voltages, and kappa, the term of an augmented Lagrangian, damps the oscillation of the plain method.
Between two feasible sizes there is no standing still: sizes alternate so that the means
meet the constraints. With `raise_after_s` a larger size waits so long after the last change, x at
the middle between both meanwhile, while smaller ones are taken at once: the means lie below the
constraints then. ASSUMPTION: the gains are our choice [J].

References
----------
.. [1] https://github.com/gpu2grid/openg2g, ``controller/ofo.py`` (Eqs. 4-8 and 18 of its paper)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.neighbours.openg2g.replicas.base import ControlSetting, ControlView
from diploee.scenario.replica_streams import BatchControllerSpec
from diploee.units import S_PER_DAY

Gain = Annotated[float, Field(gt=0, le=1e6)]
Weight = Annotated[float, Field(ge=0, le=1e6)]


class FeedbackSpec(BatchControllerSpec):
    """A primal-dual optimizer of throughput under the signal and the deadlines."""

    kind: Literal["feedback"] = Field(
        default="feedback", description="Online feedback optimization."
    )
    throughput_weight: Weight = Field(default=1.0, description="w, weight of throughput.")
    primal_step: Gain = Field(
        default=0.1, description="alpha, step of log2 of the batch size (assumed where not given)."
    )
    dual_step: Gain = Field(
        default=0.5, description="rho, step of the prices of constraints (assumed where not given)."
    )
    damping: Weight = Field(
        default=20.0, description="kappa, answer to an excess at once (assumed where not given)."
    )
    switching_weight: Weight = Field(
        default=0.0, description="gamma, against going on in the direction of the last step."
    )

    raise_after_s: Annotated[float, Field(ge=0, le=S_PER_DAY)] = Field(
        default=0.0,
        description="Least time at a batch size before a larger one is taken [s]; smaller ones are "
        "taken at once. 0 lets sizes alternate with every control interval.",
    )

    def open(self, setting: ControlSetting) -> Feedback:
        """Return a new one."""
        return Feedback(self, setting)


class Feedback:
    """The optimizer; `x` holds log2 of the batch sizes by model, not only whole ones.

    Parameters
    ----------
    gains : FeedbackSpec
        Weights and steps.
    setting : ControlSetting
        The models.
    """

    def __init__(self, gains: FeedbackSpec, setting: ControlSetting) -> None:
        self._gains, self._models = gains, setting.models
        self.x = {name: float(np.log2(m.batch_size)) for name, m in setting.models.items()}
        self._before = dict(self.x)
        self._size = {name: m.batch_size for name, m in setting.models.items()}
        self._changed_s = dict.fromkeys(setting.models, -np.inf)
        self._price: dict[str, float] = {}
        self._late = dict.fromkeys(setting.models, 0.0)
        self._most_tps = {
            name: float(model.fits.throughput.eval(model.feasible[-1]))
            for name, model in setting.models.items()
        }

    def decide(self, view: ControlView) -> Mapping[str, int]:
        """Take a step and return the feasible batch sizes next to it."""
        gains, seen = self._gains, view.models
        per_w = 0.0
        for constraint in view.constraints:
            price = self._price.get(constraint.name, 0.0) + gains.dual_step * constraint.excess
            self._price[constraint.name] = max(price, 0.0)
            now = max(self._price[constraint.name] + gains.damping * constraint.excess, 0.0)
            per_w += now * constraint.per_w
        most_tps = sum(seen[name].n_replicas * tps for name, tps in self._most_tps.items())
        chosen = {}
        for name, model in self._models.items():
            n, x, fits = seen[name].n_replicas, self.x[name], model.fits
            if n:
                descent = n * per_w * float(fits.power.deriv_wrt_x(x))
                descent -= (
                    gains.throughput_weight * n * float(fits.throughput.deriv_wrt_x(x)) / most_tps
                )
                descent += self._latency_term(name, seen[name].itl_s)
                descent += gains.switching_weight * (x - self._before[name])
                self._before[name] = x
                low, high = np.log2(model.feasible[0]), np.log2(model.feasible[-1])
                self.x[name] = x = float(np.clip(x - gains.primal_step * descent, low, high))
            chosen[name] = self._next_size(name, x, view.time_s)
        return chosen

    def _next_size(self, name: str, x: float, time_s: float) -> int:
        """Return the feasible size next to 2^x, or the present one where a larger one waits."""
        feasible, size = self._models[name].feasible, self._size[name]
        found = feasible[int(np.abs(np.log2(feasible) - x).argmin())]
        if found > size and time_s - self._changed_s[name] < self._gains.raise_after_s:
            # Went x on, it would pass over sizes once it may.
            above = feasible[feasible.index(size) + 1]
            self.x[name] = float(np.log2(size) + np.log2(above)) / 2
            return size
        if found != size:
            self._size[name], self._changed_s[name] = found, time_s
        return found

    def _latency_term(self, name: str, itl_s: float) -> float:
        deadline_s = self._models[name].itl_deadline_s
        if deadline_s is None:
            return 0.0
        excess = itl_s / deadline_s - 1
        self._late[name] = max(self._late[name] + self._gains.dual_step * excess, 0.0)
        now = max(self._late[name] + self._gains.damping * excess, 0.0)
        return now * float(self._models[name].fits.itl.deriv_wrt_x(self.x[name])) / deadline_s
