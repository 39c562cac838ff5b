"""A ramp limit without storage: a ballast that burns what falls too fast, and curtailing.

The supply asked for is that of a battery that holds ramps, ``clip(load, supply - r dt, supply +
r dt)``, with nothing to store in. On a fall a ballast (resistors, dummy work) draws what lacks, and
all of it is heat. A rise can't be held back by a ballast: it passes and is counted, unless the load
itself can be curtailed, whose work is lost. What is left beyond the ramp is counted as it passes,
interval by interval: the next ramp begins where the supply really is. ASSUMPTION [J]: ballast and
curtailing act within the interval, and reactive power passes unchanged.

References
----------
Sheet "Flexibility and mitigation", section 5 (C3 without a battery).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.columns import Column
from diploee.facility.base import POWER, Block, Site, StageSpec, Values
from diploee.facility.battery import ROUNDING_W, RampRates, Store, hold
from diploee.metric import Metric
from diploee.model import SCALES, optional
from diploee.units import J_PER_MWH, MS_PER_S, W_PER_MW


class RampLimitSpec(StageSpec, RampRates):
    """Ramps held at this place without storage: a ballast on falls, and curtailing on rises."""

    columns = (
        Column("ballast_power_w", "W", "facility", "mean", "at the ballast's terminals",
               "what the ballast draws so that the supply falls no faster than its ramp", "load"),
        Column("curtailed_power_w", "W", "facility", "mean", None,
               "what is held back of the load so that the supply rises no faster than its ramp",
               "hold"),
        Column("ramp_uncovered_w", "W", "facility", "mean", None,
               "by how much the supply misses the ramp from the interval before"),
    )  # fmt: skip
    metrics = (
        Metric("ramp_limit.burnt_mwh", "MWh", "energy that the ballast burnt", "{:,.2f}",
               view="table"),
        Metric("ramp_limit.max_ballast_mw", "MW", "highest power of the ballast", view="table"),
        Metric("ramp_limit.curtailed_mwh", "MWh", "energy held back of the load", "{:,.2f}",
               "its work is lost: jobs do not run longer for it", "table"),
        Metric("ramp_limit.max_curtailed_mw", "MW", "most power held back of the load"),
        Metric("ramp_limit.uncovered_steps", "1", "intervals beyond the ramp", "{:,.0f}",
               view="table"),
        Metric("ramp_limit.uncovered_mwh", "MWh", "energy beyond the ramp, interval by interval"),
        Metric("ramp_limit.max_uncovered_mw", "MW", "most power beyond the ramp"),
    )  # fmt: skip
    boundary = "behind a ramp limit"

    kind: Literal["ramp_limit"] = Field(
        default="ramp_limit",
        description="Ramps held at this place without storage: a ballast burns what falls too "
        "fast; rises pass and are counted, unless the load is curtailed.",
    )
    ballast_mw: Annotated[float | None, Field(ge=0), SCALES] = optional(
        "Most that the ballast draws [MW]; as much as falls ask for if absent."
    )
    curtails: bool = Field(
        default=False,
        description="Whether the load can be held back on a rise; the work lost is counted as "
        "energy and not made up.",
    )

    @model_validator(mode="after")
    def _each_has_its_ramp(self) -> RampLimitSpec:
        if self.ballast_mw is not None and self.down_mw_per_min is None:
            raise ValueError("ballast_mw holds falls alone: give down_mw_per_min, or leave it out")
        if self.curtails and self.up_mw_per_min is None:
            raise ValueError("curtails holds rises alone: give up_mw_per_min, or leave it out")
        return self

    def store(self) -> Store:
        """Return a store that takes what the ballast can, and gives what is curtailed."""
        takes_w = np.inf if self.ballast_mw is None else self.ballast_mw * W_PER_MW
        gives_w = np.inf if self.curtails else 0.0
        return Store(takes_w, -np.inf, np.inf, 0.0, gives_w=gives_w)

    def open(self, site: Site) -> RampLimit:  # noqa: ARG002
        """Return the limit."""
        return RampLimit(self)


_State = tuple[float, float] | None
"""Supply of the interval before [W], and energy burnt less curtailed [J]; None to begin."""


class RampLimit:
    """The stage of a ramp limit without storage.

    Parameters
    ----------
    spec : RampLimitSpec
        What the scenario says.
    """

    kind = "ramp_limit"

    def __init__(self, spec: RampLimitSpec) -> None:
        self._store, self._hold = spec.store(), spec.hold()
        self.columns, self.metrics, self.boundary = spec.columns, spec.metrics, spec.boundary

    def start(self) -> _State:
        """Return no state: the run begins with the load as it is."""
        return None

    def apply(self, block: Block, state: _State) -> tuple[Values, _State]:
        """Hold the ramps of the facility's power as far as can be."""
        load_w = block.columns[POWER]
        before = (float(load_w[0]), 0.0) if state is None else state
        held = hold(load_w, block.dt_ms / MS_PER_S, self._store, self._hold, before)
        columns = {
            "ballast_power_w": np.maximum(-held.battery_w, 0.0),
            "curtailed_power_w": np.maximum(held.battery_w, 0.0),
            "ramp_uncovered_w": held.uncovered_w,
            POWER: held.supply_w,
        }
        return columns, held.state

    def meter(self) -> RampLimitMeter:
        """Return what measures it."""
        return RampLimitMeter()


_OF = {
    "burnt": "ballast_power_w",
    "curtailed": "curtailed_power_w",
    "uncovered": "ramp_uncovered_w",
}
"""Column of each energy."""


class RampLimitMeter:
    """Measures what a ramp limit burns, curtails and leaves over a run."""

    def __init__(self) -> None:
        self._energy_j = dict.fromkeys(_OF, 0.0)
        self._most_w = dict.fromkeys(_OF, 0.0)
        self._steps = 0

    def add(self, block: Block) -> None:
        """Take in a block."""
        for key, name in _OF.items():
            power_w = block.columns[name]
            self._energy_j[key] += float(power_w.sum()) * block.dt_ms / MS_PER_S
            self._most_w[key] = max(self._most_w[key], float(power_w.max()))
        self._steps += int(np.count_nonzero(block.columns["ramp_uncovered_w"] > ROUNDING_W))

    def values(self) -> Mapping[str, float | None]:
        """Return the metrics."""
        most_mw = {key: value / W_PER_MW for key, value in self._most_w.items()}
        return {
            **{f"ramp_limit.{key}_mwh": j / J_PER_MWH for key, j in self._energy_j.items()},
            "ramp_limit.max_ballast_mw": most_mw["burnt"],
            "ramp_limit.max_curtailed_mw": most_mw["curtailed"],
            "ramp_limit.max_uncovered_mw": most_mw["uncovered"],
            "ramp_limit.uncovered_steps": self._steps,
        }
