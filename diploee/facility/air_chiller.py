"""Air-cooled chillers with an economizer of dry coolers (the sheet's 3.3)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.facility.cooling import HeatCoolingSpec, PartLoad
from diploee.facility.psychrometrics import ZERO_C_K
from diploee.facility.wse import Efficiency, Kelvin, Pascal, fan_power, pump_power
from diploee.tables import Float64Array

LEAST_LIFT_K = 5.0
LEAST_COP, MOST_COP = 1.5, 12.0


class AirChillerSpec(HeatCoolingSpec, PartLoad):
    """Air-cooled chillers with an economizer of dry coolers, as a part of Carnot's efficiency.

    All its values are assumed: measured ones of a site belong into a `cooling_table`.
    """

    kind: Literal["air_chiller"] = Field(
        default="air_chiller",
        description="Air-cooled chillers with an economizer of dry coolers, by dry-bulb "
        "temperature (a part of Carnot's efficiency; all values assumed).",
    )
    carnot_fraction: Efficiency = Field(
        default=0.45, description="Efficiency of the chillers over Carnot's, 0-1 (assumed)."
    )
    chilled_water_c: float = Field(
        default=18.0, ge=5, le=35, description="Chilled water supply [deg C] (assumed)."
    )
    evaporator_approach_k: Kelvin = Field(
        default=3.0, description="Evaporator below the chilled water [K] (assumed)."
    )
    condenser_approach_k: Kelvin = Field(
        default=12.0, description="Condenser above the dry-bulb temperature [K] (assumed)."
    )
    dry_cooler_approach_k: Kelvin = Field(
        default=8.0, description="Dry cooler above the dry-bulb temperature [K] (assumed)."
    )
    dry_fan_fraction: Annotated[float, Field(ge=0, le=0.2)] = Field(
        default=0.02,
        description="Power of the dry coolers' fans over the design heat while they help "
        "(assumed).",
    )
    water_rise_k: Kelvin = Field(
        default=7.5, description="Rise of the chilled water's temperature [K] (assumed)."
    )
    pump_pressure_pa: Pascal = Field(
        default=200e3, description="Pressure of the pumps [Pa] (assumed)."
    )
    pump_efficiency: Efficiency = Field(
        default=0.7, description="Efficiency of the pumps, 0-1 (assumed)."
    )
    room_fan_pressure_pa: Pascal = Field(
        default=500.0, description="Pressure rise of the room's fans [Pa]; range 400-600."
    )
    room_fan_efficiency: Efficiency = Field(
        default=0.775, description="Efficiency of the room's fans, 0-1; range 0.65-0.9."
    )
    air_rise_k: Kelvin = Field(
        default=16.0, description="Rise of the air's temperature in the room [K]; range 14-19."
    )

    @property
    def follows(self) -> Literal["wet_bulb", "dry_bulb"]:
        """The temperature that it follows."""
        return "dry_bulb"

    @property
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest dry-bulb temperature."""
        return -40.0, 55.0

    @property
    def breaks_c(self) -> tuple[float, ...]:
        """Dry-bulb temperatures at which the slope changes, or the dry coolers' fans stop."""
        ends = self.chilled_water_c + self.water_rise_k - self.dry_cooler_approach_k
        lift = self.chilled_water_c - self.evaporator_approach_k - self.condenser_approach_k
        of_cops = [self.carnot_fraction * self._evaporator_k / cop for cop in (LEAST_COP, MOST_COP)]
        return (
            ends - self.water_rise_k, ends, ends - 1e-9, lift + LEAST_LIFT_K,
            *(lift + k for k in of_cops),
        )  # fmt: skip

    @property
    def _evaporator_k(self) -> float:
        return self.chilled_water_c - self.evaporator_approach_k + ZERO_C_K

    def relative_power(self, heat: Float64Array, temperature_c: Float64Array) -> Float64Array:
        """Return the plant's power over its design heat."""
        g, evaporator_c = self.turned_down(heat), self.chilled_water_c - self.evaporator_approach_k
        lift_k = np.maximum(temperature_c + self.condenser_approach_k - evaporator_c, LEAST_LIFT_K)
        cop = np.clip(self.carnot_fraction * self._evaporator_k / lift_k, LEAST_COP, MOST_COP)
        return_c = self.chilled_water_c + self.water_rise_k
        free = np.clip(
            (return_c - (temperature_c + self.dry_cooler_approach_k)) / self.water_rise_k, 0.0, 1.0
        )
        return np.asarray(
            heat * (1 - free) / cop
            + np.where(free > 0, self.dry_fan_fraction * g, 0.0)
            + pump_power(g, self.pump_pressure_pa, self.pump_efficiency, self.water_rise_k)
            + fan_power(g, self.room_fan_pressure_pa, self.room_fan_efficiency, self.air_rise_k)
        )
