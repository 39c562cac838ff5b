"""Transformers in series, from the nodes' side to the point of interconnection.

They need a model of the nodes' AC power.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from functools import cached_property
from math import sqrt
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from diploee.base.model import SCALES, Model, default, optional, uncertain
from diploee.base.tables import Float64Array
from diploee.base.units import W_PER_MW
from diploee.facility.base import POWER, REACTIVE, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.stage_meters import LoadMeter


class Losses(NamedTuple):
    """Losses of a transformer, in per unit of its rating."""

    p0: float  # no-load loss
    p_k: float  # load loss at rated current
    i0: float  # no-load current
    u_k: float  # short-circuit voltage


PRESETS = {
    # ASSUMPTION: 99.53 % at half load, the maximum; u_k 6 %.
    "mv_lv": Losses(0.0012, 0.0047, 0.005, 0.06),
    # 99.28 % at 35 % load, 1000 kVA (10 CFR 431.196); ASSUMPTION: half is no-load loss.
    "dry_type": Losses(0.00127, 0.01036, 0.010, 0.05),
    # ASSUMPTION: 20-60 MVA.
    "hv_mv": Losses(0.0004, 0.0030, 0.0015, 0.10),
}
"""Losses of the preset transformers."""

INSTALLED = 1.6
"""Default rating per rated power of the nodes, sufficient for cooling and losses too
(ASSUMPTION: 16 MVA for a site of 10 MW)."""

Part = Annotated[float | None, Field(ge=0, le=1)]


class Transformer(Model):
    """All transformers of one voltage level, as one."""

    preset: Literal["mv_lv", "dry_type", "hv_mv"] | None = optional(
        (
            "Parameters of a medium to low voltage, a dry-type PDU or a high to medium "
            "voltage transformer (assumed); explicit parameters override them."
        ),
        assumed=True,
    )
    rated_mva: Annotated[PositiveFloat | None, SCALES] = uncertain(
        None,
        (
            "Installed apparent power [MVA]; 1.6 times the rated power of the nodes if "
            "absent"
        ),
        (1.3, 2.2),
        per_rating=True,
    )
    p0: Part = optional("No-load loss per rating.")
    p_k: Part = optional("Load loss at rated current per rating.")
    i0: Part = optional("No-load current per rated current.")
    u_k: Part = optional("Short-circuit voltage per rated voltage.")

    def unused_keys(self) -> tuple[str, ...]:
        """Return `preset` as unused if all of its parameters are set."""
        values = [getattr(self, key) for key in Losses._fields]
        return () if None in values else ("preset",)

    @property
    def losses(self) -> Losses:
        """Loss parameters; set ones override the preset."""
        # Optional keys that are None are absent from the dump
        parameters = self.model_dump(include=set(Losses._fields))
        return (
            PRESETS[self.preset]._replace(**parameters)
            if self.preset
            else Losses(**parameters)
        )

    @model_validator(mode="after")
    def _check_possible(self) -> Transformer:
        """Refuse missing parameters, `p0` above `i0`, and `p_k` above `u_k`."""
        missing = [key for key in Losses._fields if getattr(self, key) is None]
        if self.preset is None and missing:
            raise ValueError(
                f"give {', '.join(missing)}, or a preset (have: {', '.join(PRESETS)})"
            )
        p0, p_k, i0, u_k = self.losses
        for loss, bound, key, bound_key in (
            (p0, i0, "p0", "i0"),
            (p_k, u_k, "p_k", "u_k"),
        ):
            if loss > bound:
                raise ValueError(
                    f"{bound_key} must be {key} ({loss:g}) or more, found {bound:g}"
                )
        return self


class TransformersSpec(StageSpec):
    """Transformers in order from the nodes to the grid, at constant voltage.

    Each transformer consumes, beyond the power at its secondary side::

        dP = S (p0 + p_k s²),    s² = (P² + Q²) / S²
        dQ = S (sqrt(i0² - p0²) + sqrt(u_k² - p_k²) s²)

    with P and Q at the secondary [W, var], S rating [VA], s load [per unit], p0 no-load
    loss, p_k load loss, i0 no-load current, and u_k short-circuit voltage, all in per
    unit. Dry types have the minimum efficiency of 10 CFR 431.196; see docs/meter.md.

    See Also
    --------
    PduSpec, UpsSpec : the other devices of the electrical chain.
    """

    columns = COLUMNS["transformers"]
    metrics = METRICS["transformers"]
    boundary = "behind transformers"
    place = "transformers"

    kind: Literal["transformers"] = default(
        "transformers", "Losses and reactive power of the transformers."
    )
    units: tuple[Transformer, ...] = default(
        (Transformer(preset="mv_lv"),),
        (
            "Transformers of each voltage level, from the nodes on; one level from "
            "medium to low voltage if absent (assumed)."
        ),
        min_length=1,
        assumed=True,
    )

    def open(self, site: SiteView) -> TransformersSpec:
        """Return the stage with its ratings set."""
        rated_mva = INSTALLED * site.design_mw(self.kind)
        units = [
            unit.model_copy(update={"rated_mva": unit.rated_mva or rated_mva})
            for unit in self.units
        ]
        return self.model_copy(update={"units": tuple(units)})

    @cached_property
    def _parameters(self) -> Float64Array:
        """Rating [VA], no-load and load terms of dP and dQ [pu], by transformer."""
        return np.array(
            [
                [
                    (unit.rated_mva or 0.0) * W_PER_MW,
                    p0,
                    p_k,
                    sqrt(i0**2 - p0**2),
                    sqrt(u_k**2 - p_k**2),
                ]
                for unit in self.units
                for p0, p_k, i0, u_k in (unit.losses,)
            ]
        )

    def meter(self) -> LoadMeter:
        """Return the meter of loss and load."""
        return LoadMeter("transformers", "transformer_loss_w", "transformer_load")

    def apply(self, block: Block, state: None) -> tuple[Values, None]:  # noqa: ARG002
        """Add the transformers' losses and reactive power."""
        power_w, reactive_var = block.columns[POWER], block.columns[REACTIVE]
        rows = _transform(power_w, reactive_var, self._parameters)
        names = (POWER, REACTIVE, "transformer_loss_w", "transformer_load")
        return dict(zip(names, rows, strict=True)), None


def _transform(
    power_w: Float64Array, reactive_var: Float64Array, parameters: Float64Array
) -> tuple[Float64Array, ...]:
    """Return P, Q, loss and the highest load after all transformers."""
    p_w, q_var = power_w, reactive_var
    loss_w, load = np.zeros(p_w.size), np.zeros(p_w.size)
    for rated_va, p0, p_k, q0, q_k in parameters.tolist():
        per_va = 1 / rated_va
        p, q = p_w * per_va, q_var * per_va
        square = p * p + q * q
        load = np.maximum(load, square)
        unit_loss_w = rated_va * (p0 + p_k * square)
        p_w, loss_w = p_w + unit_loss_w, loss_w + unit_loss_w
        q_var = q_var + rated_va * (q0 + q_k * square)
    return p_w, q_var, loss_w, np.sqrt(load)
