"""Air-cooled chillers with dry-cooler economizers, by dry-bulb temperature.

The coefficient of performance is a fixed fraction of the Carnot limit.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import default, uncertain
from diploee.base.tables import Float64Array
from diploee.facility.cooling import (
    FrostProtection,
    HeatCoolingSpec,
    PartLoad,
    running_fans,
)
from diploee.facility.psychrometrics import ZERO_C_K
from diploee.facility.wse import (
    Efficiency,
    Kelvin,
    Pascal,
    fan_power,
    large_site_value,
    pump_power,
)

MIN_LIFT_K = 5.0
MIN_COP, MAX_COP = 1.5, 12.0


class AirChillerSpec(HeatCoolingSpec, PartLoad, FrostProtection):
    """Air-cooled chillers with dry coolers, as a fraction of Carnot efficiency.

    With q the heat, T_db the dry-bulb temperature and g(q) the part-load curve of fans
    and pumps (`cooling.PartLoad`), the plant's power per design heat is::

        P = q (1 - free) / COP + f_fan g(q) n_fan + frost + pumps(g) + room_fans(g)
        COP = clip(eta T_evap / max(T_cond - T_evap, 5 K), 1.5, 12)
        T_evap = T_water - dT_evap,    T_cond = max(T_db + dT_cond, T_cond_min)
        free = clip((T_water + dT_water - T_db - dT_dry) / dT_water, 0, 1)

    - q heat per design heat, free fraction of heat taken by the dry coolers,
    - eta `carnot_fraction`, T_evap and T_cond evaporator and condenser temperature [K],
    - T_water `chilled_water_c`, dT_water `water_rise_k`,
    - dT_evap, dT_cond and dT_dry `evaporator_approach_k`, `condenser_approach_k` and
      `dry_cooler_approach_k` [K], T_cond_min `min_condensing_c`,
    - f_fan `dry_fan_fraction`, n_fan fraction of fans running (`cooling.running_fans`).

    All values are assumed; use a `cooling_table` for measured values of a site.

    See Also
    --------
    WseSpec : water-cooled chillers.
    CoolingTableSpec : measured cooling power.
    """

    kind: Literal["air_chiller"] = default(
        "air_chiller",
        (
            "Air-cooled chillers with an economizer of dry coolers, by dry-bulb "
            "temperature (a fraction of Carnot efficiency; all values assumed)."
        ),
        assumed=True,
    )
    carnot_fraction: Efficiency = uncertain(
        0.45, "Efficiency of the chillers relative to Carnot, 0-1", (0.35, 0.55)
    )
    chilled_water_c: float = uncertain(
        18.0, "Chilled water supply [deg C]", (14, 22), ge=5, le=35
    )
    evaporator_approach_k: Kelvin = uncertain(
        3.0, "Evaporator temperature below the chilled water [K]", (2, 5)
    )
    condenser_approach_k: Kelvin = uncertain(
        12.0, "Condenser temperature above the dry-bulb temperature [K]", (8, 16)
    )
    min_condensing_c: float = uncertain(
        25.0,
        "Minimum condenser temperature, for the chillers' head pressure [deg C]",
        (20, 35),
        ge=-40,
        le=50,
    )
    dry_cooler_approach_k: Kelvin = uncertain(
        8.0, "Dry-cooler fluid above the dry-bulb temperature [K]", (5, 11)
    )
    dry_fan_fraction: Annotated[float, Field(ge=0, le=0.2)] = uncertain(
        0.02,
        "Power of the dry coolers' fans per design heat while in use",
        (0.01, 0.03),
    )
    min_fluid_c: float = uncertain(
        13.0,
        (
            "Minimum temperature of the dry coolers' fluid, kept by switching off "
            "fans [deg C]"
        ),
        (8, 18),
        ge=-40,
        le=30,
    )
    water_rise_k: Kelvin = uncertain(
        7.5,
        "Temperature rise of the chilled water [K]",
        (5, 10),
        "(large sites, Lei and Masanet)",
    )
    pump_pressure_pa: Pascal = uncertain(
        200e3, "Pressure of the pumps [Pa]", (150e3, 250e3)
    )
    pump_efficiency: Efficiency = uncertain(
        0.7,
        "Efficiency of the pumps, 0-1",
        (0.6, 0.8),
        "(large sites, Lei and Masanet)",
    )
    room_fan_pressure_pa: Pascal = large_site_value(
        500.0, "Pressure rise of the room's fans [Pa]", (400, 600)
    )
    room_fan_efficiency: Efficiency = large_site_value(
        0.775, "Efficiency of the room's fans, 0-1", (0.65, 0.9)
    )
    air_rise_k: Kelvin = large_site_value(
        16.0, "Temperature rise of the air in the room [K]", (13.9, 19.4)
    )

    @property
    def driving_temperature(self) -> Literal["wet_bulb", "dry_bulb"]:
        """Outdoor temperature that determines the power: dry bulb."""
        return "dry_bulb"

    @property
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest dry-bulb temperature [deg C]."""
        return -40.0, 55.0

    @property
    def breakpoints_c(self) -> tuple[float, ...]:
        """Dry-bulb temperatures at which the slope changes or the fans stop [deg C]."""
        ends = self.chilled_water_c + self.water_rise_k - self.dry_cooler_approach_k
        lift = (
            self.chilled_water_c
            - self.evaporator_approach_k
            - self.condenser_approach_k
        )
        lifts_k = [
            self.carnot_fraction * self._evaporator_k / cop
            for cop in (MIN_COP, MAX_COP)
        ]
        return (
            ends - self.water_rise_k,
            ends,
            ends - 1e-9,
            lift + MIN_LIFT_K,
            0.0,
            self.min_condensing_c - self.condenser_approach_k,
            self.min_fluid_c - self.dry_cooler_approach_k,
            *(lift + k for k in lifts_k),
        )

    @property
    def _evaporator_k(self) -> float:
        """Evaporator temperature, below the chilled water [K]."""
        return self.chilled_water_c - self.evaporator_approach_k + ZERO_C_K

    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return the plant's power per design heat."""
        part_load, evaporator_c = (
            self.part_load_power(heat),
            self.chilled_water_c - self.evaporator_approach_k,
        )
        condenser_c = temperature_c + self.condenser_approach_k
        condenser_c = np.maximum(condenser_c, self.min_condensing_c)
        lift_k = np.maximum(condenser_c - evaporator_c, MIN_LIFT_K)
        cop = np.clip(
            self.carnot_fraction * self._evaporator_k / lift_k, MIN_COP, MAX_COP
        )
        return_c = self.chilled_water_c + self.water_rise_k
        free = np.clip(
            (return_c - (temperature_c + self.dry_cooler_approach_k))
            / self.water_rise_k,
            0.0,
            1.0,
        )
        fans = running_fans(temperature_c, self.dry_cooler_approach_k, self.min_fluid_c)
        return np.asarray(
            heat * (1 - free) / cop
            + np.where(free > 0, self.dry_fan_fraction * part_load * fans, 0.0)
            + self.frost_power(temperature_c)
            + pump_power(
                part_load,
                self.pump_pressure_pa,
                self.pump_efficiency,
                self.water_rise_k,
            )
            + fan_power(
                part_load,
                self.room_fan_pressure_pa,
                self.room_fan_efficiency,
                self.air_rise_k,
            )
        )
