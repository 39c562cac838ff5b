"""Ride-through settings: disconnection of load by voltage dips, and its return.

A block of load has voltage stages, a recovery and a dip counter.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from functools import partial
from math import exp, inf, log, log1p
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, model_validator

from diploee.base.model import (
    Model,
    PositiveShare,
    Share,
    default,
    optional,
    with_preset,
)
from diploee.scenario.yaml_lines import presets

Seconds = Annotated[float, Field(ge=0, le=86_400)]
PerUnit = Annotated[float, Field(ge=0, le=2)]
Side = Literal["under", "over"]


def shortest_dip_s(
    level_pu: float, time_s: float, residual_pu: float, tau_s: float
) -> float:
    """Return the shortest dip from 1 pu to a residual voltage that trips a stage [s].

    As the filtered voltage lags behind, a stage may trip after the end of the dip. The
    same applies to over-voltages. The result is infinite if the residual does not cross
    the level.
    """
    if (1 - level_pu) * (level_pu - residual_pu) < 0 or level_pu == residual_pu:
        return inf
    ratio = (1 - level_pu) / (level_pu - residual_pu)
    if tau_s == 0:
        return time_s
    if time_s / tau_s > 500:  # only the exponential is significant
        return time_s + tau_s * log(ratio) if ratio else 0.0
    return tau_s * log1p(ratio * exp(time_s / tau_s))


class VoltageStage(Model):
    """Stage of a voltage curve: a fraction that transfers after a time delay."""

    voltage_pu: PerUnit = Field(
        description="Voltage below (or above) which the stage picks up [pu]."
    )
    time_s: Seconds = Field(
        description="Uninterrupted time beyond that voltage until the stage trips [s]."
    )
    fraction: Share = default(
        1.0,
        "Fraction of the block that the stage transfers, 0-1; the largest of all "
        "tripped stages applies.",
    )
    side: Side = default("under", "Undervoltage or overvoltage stage.")

    @model_validator(mode="after")
    def _leaves_nominal_alone(self) -> VoltageStage:
        if self.voltage_pu > 1 if self.side == "under" else self.voltage_pu < 1:
            raise ValueError(
                f"the stage {self.side} {self.voltage_pu:g} pu is beyond it at 1 pu, "
                f"too; give {'1 or less' if self.side == 'under' else '1 or more'}, "
                "or the other side"
            )
        return self


class Recovery(Model):
    """Conditions and ramp of a block's return to the grid."""

    voltage_pu: Share = Field(
        description="Voltage at or above which the recovery time runs [pu]."
    )
    time_s: Seconds = Field(
        description=(
            "Uninterrupted time at that voltage, without any stage picked up, until "
            "the block returns [s]."
        )
    )
    ramp_s: Seconds | None = optional(
        "Length of the linear ramp [s]; or ramp_mw_per_min."
    )
    ramp_mw_per_min: PositiveFloat | None = optional("Slope of the ramp [MW/min].")
    fraction: Share = default(
        1.0, "Fraction of the transferred load that returns, 0-1."
    )
    automatic: bool = default(
        True,
        "Whether the block returns by itself; if false, it returns manual_reset_s "
        "after disconnection, or never.",
    )

    @model_validator(mode="after")
    def _one_ramp(self) -> Recovery:
        self._need_one("ramp_s", "ramp_mw_per_min")
        return self


class DipCounter(Model):
    """Rule that transfers a block permanently after several dips."""

    n: Annotated[int, Field(ge=1, le=1_000)] = Field(
        description="Number of dips that lock the block out."
    )
    window_s: Seconds = Field(description="Time window of the count [s].")
    voltage_pu: PerUnit = Field(description="Voltage below which a dip begins [pu].")
    hold_s: Seconds = default(0.0, "Minimum length of a counted dip [s].")
    merge_s: Seconds = default(
        0.0,
        "Minimum time since the end of the previous dip [s]; an earlier dip is not "
        "counted.",
    )


class RideThrough(Model):
    """Ride-through settings of a block of load, such as all load of one UPS type."""

    of: str | None = optional(
        "Load to which the block belongs: a pool, it (all pools with their power "
        "supplies), motors (cooling) or rest; the block's name if absent."
    )
    share: PositiveShare = default(1.0, "Fraction of that load in the block, 0-1.")
    preset: (
        Literal["perc1", "oem_like", "four_stages", "counter_3_in_60s", "rides_ercot"]
        | None
    ) = optional(
        "Name of a preset of generic settings for studies (assumed); other keys "
        "override it.",
        assumed=True,
    )
    stages: tuple[VoltageStage, ...] = default((), "Stages of the voltage curve.")
    recovery: Recovery | None = optional("Return to the grid; none if absent.")
    counter: DipCounter | None = optional("Rule for repeated dips; none if absent.")
    delay_s: Seconds = default(
        0.0,
        "Delay from a trip to disconnection, even if the voltage recovers "
        "meanwhile [s].",
    )
    manual_reset_s: Seconds | None = optional(
        "Time from disconnection or lockout to a manual reset [s]; no reset if absent."
    )
    filter_s: Annotated[float, Field(ge=0, le=10)] = default(
        0.02, "Time constant of the voltage measurement [s]; 0 for none."
    )
    source: str | None = optional("Source of the settings.")

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: object) -> object:
        return with_preset(values, partial(presets, "ride_through"))

    @model_validator(mode="after")
    def _goes_together(self) -> RideThrough:
        if not self.stages and self.counter is None:
            raise ValueError("has neither stages nor a counter; give one, or a preset")
        self._need("manual_reset_s", "recovery")
        if self.recovery is None:
            return self
        under = (stage.voltage_pu for stage in self.stages if stage.side == "under")
        back = self.recovery.voltage_pu
        if above := [low for low in under if low > back]:
            raise ValueError(
                f"the stage at {above[0]:g} pu is above the recovery's {back:g} pu; "
                "raise recovery.voltage_pu"
            )
        return self
