"""Constraints on the power of replicas: a cap, or the voltage at their bus."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.model import SCALES, Model
from diploee.neighbours.openg2g.replicas.base import Constraint
from diploee.scenario.replica_streams import ReplicaSignalSpec
from diploee.units import W_PER_MW

Seconds = Annotated[float, Field(ge=0, le=1e10)]
PerUnit = Annotated[float, Field(gt=0, le=2)]


class CapStep(Model):
    """A cap from a time on."""

    since_s: Seconds = Field(description="Since when, from the start of the run [s].")
    mw: Annotated[float, Field(gt=0, le=1e6), SCALES] | None = Field(
        default=None, description="Highest mean power of a control interval [MW]; none if absent."
    )


class CapSpec(ReplicaSignalSpec):
    """A cap on the power of all replicas' GPUs, given in steps."""

    kind: Literal["cap"] = Field(default="cap", description="A cap on power.")
    steps: tuple[CapStep, ...] = Field(min_length=1, description="The cap from when on.")

    @model_validator(mode="after")
    def _rises(self) -> CapSpec:
        _check_order([step.since_s for step in self.steps], "steps")
        return self

    def value(self, time_s: float, power_w: float) -> float:  # noqa: ARG002
        """Return the cap [W] at a time; infinity where there is none."""
        index = np.searchsorted([step.since_s for step in self.steps], time_s, side="right") - 1
        mw = self.steps[index].mw if index >= 0 else None
        return float("inf") if mw is None else mw * W_PER_MW

    def constraints(self, time_s: float, power_w: float) -> tuple[Constraint, ...]:
        """Return ``P / cap - 1`` and what a watt adds to it."""
        cap_w = self.value(time_s, power_w)
        if cap_w == float("inf"):
            return (Constraint("cap", -1.0, 0.0),)
        return (Constraint("cap", power_w / cap_w - 1, 1 / cap_w),)


class VoltagePoint(Model):
    """A voltage at a time."""

    at_s: Seconds = Field(description="When, since the start of the run [s].")
    pu: PerUnit = Field(description="Voltage at the bus without the replicas' power [p.u.].")


class VoltageSpec(ReplicaSignalSpec):
    """The voltage at the bus, which falls with the replicas' power, held within a band.

    ASSUMPTION: it is linear in the power, one bus, all phases alike [J].
    """

    kind: Literal["voltage"] = Field(default="voltage", description="A band of voltage.")
    points: tuple[VoltagePoint, ...] = Field(
        min_length=1, description="The voltage without the replicas, linear between points."
    )
    pu_per_mw: Annotated[float, Field(ge=-1, lt=0)] = Field(
        description="What a megawatt of the replicas adds to it [p.u.], below 0."
    )
    v_min: PerUnit = Field(default=0.95, description="Lower edge of the band [p.u.].")
    v_max: PerUnit = Field(default=1.05, description="Upper edge [p.u.].")

    @model_validator(mode="after")
    def _parts_fit(self) -> VoltageSpec:
        _check_order([point.at_s for point in self.points], "points")
        if self.v_min >= self.v_max:
            raise ValueError(f"v_min is {self.v_min:g}, expected less than v_max, {self.v_max:g}")
        return self

    def value(self, time_s: float, power_w: float) -> float:
        """Return the voltage at the bus [p.u.]."""
        times_s, pu = zip(*((p.at_s, p.pu) for p in self.points), strict=True)
        return float(np.interp(time_s, times_s, pu)) + self.pu_per_mw * power_w / W_PER_MW

    def constraints(self, time_s: float, power_w: float) -> tuple[Constraint, ...]:
        """Return both edges of the band; excesses are over half of its width."""
        voltage, half = self.value(time_s, power_w), (self.v_max - self.v_min) / 2
        per_w = self.pu_per_mw / W_PER_MW / half
        return (
            Constraint("undervoltage", (self.v_min - voltage) / half, -per_w),
            Constraint("overvoltage", (voltage - self.v_max) / half, per_w),
        )


def _check_order(times_s: list[float], key: str) -> None:
    for before, after in pairwise(times_s):
        if after <= before:
            raise ValueError(
                f"{key} must follow each other in time: {after:g} s is behind {before:g} s"
            )
