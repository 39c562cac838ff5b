"""Water-cooled chillers with cooling towers and a waterside economizer.

Equations, and ranges for large sites, are those of the data center PUE prediction tool
of Lei and Masanet; the part-load exponent is added here (ASSUMPTION).

References
----------
N. Lei and E. Masanet, "Statistical analysis for predicting location-specific data
center PUE and its improvement potential", Energy 201 (2020) 117556.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import PositiveShare, default, uncertain
from diploee.base.tables import Float64Array
from diploee.facility.cooling import (
    FrostProtection,
    HeatCoolingSpec,
    PartLoad,
    running_fans,
)

CP_AIR, CP_WATER, WATER_KG_M3 = 1006.0, 4200.0, 1000.0
"""Specific heat of air and water [J/(kg K)], density of water [kg/m3]."""
CONDENSER_C = (10.0, 35.0)
"""Range of condenser water temperatures of the chillers' regression [deg C]."""
MIN_LOAD_OF_CHILLER, MAX_LOAD_OF_CHILLER = 0.2, 0.9
"""Minimum part load of a chiller, and part load at which the next one starts."""

Kelvin = Annotated[float, Field(gt=0, le=40)]
Pascal = Annotated[float, Field(ge=0, le=1e6)]
Efficiency = PositiveShare


def fan_power(
    heat: Any,
    pressure_pa: float,
    efficiency: float,
    rise_k: float,
    density: Any = 1.16,
    heat_capacity: float = CP_AIR,
) -> Any:
    """Return the power of fans that move heat by air, in the unit of the heat.

    ``P = Q dp / (rho c_p dT eta)``, with heat Q, pressure rise dp [Pa], density rho
    [kg/m3], specific heat c_p [J/(kg K)], temperature rise dT [K] and efficiency eta.
    """
    return heat * pressure_pa / (density * heat_capacity * rise_k * efficiency)


def pump_power(heat: Any, pressure_pa: float, efficiency: float, rise_k: float) -> Any:
    """Return the power of pumps that move heat by water, in the unit of the heat.

    ``P = Q dp / (eta rho_w c_w dT)``, with symbols as in `fan_power`, of water.
    """
    return heat * pressure_pa / (efficiency * WATER_KG_M3 * CP_WATER * rise_k)


def tower_fan_power(
    heat: Any,
    pressure_pa: float,
    efficiency: float,
    rise_k: float,
    water_to_air: float,
    density: Any = 1.16,
) -> Any:
    """Return the power of tower fans, in the unit of the heat.

    ``P = Q / (c_w dT L/G) dp / (rho eta)``: the air flow follows from the water's mass
    flow and the ratio L/G of water to air, `water_to_air`.
    """
    return (
        heat / (CP_WATER * rise_k * water_to_air) * pressure_pa / (density * efficiency)
    )


def return_water_c(
    supply_air_c: float, rise_k: float, effectiveness: float, water_k: float
) -> Any:
    """Return the temperature of chilled water returning from the coils [deg C].

    ``T_return = T_air + dT_air - dT_air / epsilon + dT_water``, with supply air T_air,
    air temperature rise dT_air, coil effectiveness epsilon and water temperature rise
    dT_water.
    """
    return supply_air_c + rise_k - rise_k / effectiveness + water_k


def free_cooling_share(
    wet_bulb_c: Any, return_c: float, approach_k: float, water_k: float
) -> Any:
    """Return the fraction of heat that the economizer removes, 0-1.

    ``clip((T_return - (T_wb + approach)) / dT_water, 0, 1)``.
    """
    return np.clip((return_c - (wet_bulb_c + approach_k)) / water_k, 0.0, 1.0)


def chiller_cop(condenser_c: Any, part_load: Any, relative_error: float) -> Any:
    """Return a chiller's coefficient of performance (Lei and Masanet's regression).

    With condenser water temperature t [deg C], part load x and relative error e::

        COP = (16.798751 + 0.008840 t² - 8.528931 x² + 9.885294 x - 0.760621 t
               + 0.084615 x t) (1 + e)
    """
    t, x = condenser_c, part_load
    cop = 16.798751 + 0.008840 * t**2 - 8.528931 * x**2 + 9.885294 * x - 0.760621 * t
    return (cop + 0.084615 * x * t) * (1 + relative_error)


large_site_value = partial(uncertain, source="(large sites, Lei and Masanet)", basis="")


class WaterPlant(PartLoad, FrostProtection):
    """Chillers, towers, coils and pumps; ranges for large sites (Lei and Masanet)."""

    supply_air_c: float = large_site_value(
        27.0, "Supply air temperature [deg C]", (27, 35), ge=10, le=40
    )
    air_rise_k: Kelvin = large_site_value(
        16.0, "Temperature rise of the air in the room [K]", (13.9, 19.4)
    )
    coil_effectiveness: Efficiency = large_site_value(
        0.8, "Effectiveness of the coils, 0-1", (0.7, 0.9)
    )
    water_rise_k: Kelvin = large_site_value(
        7.5, "Temperature rise of the chilled water [K]", (5, 10)
    )
    tower_rise_k: Kelvin = large_site_value(
        5.0, "Temperature rise of the tower water [K]", (4, 6)
    )
    tower_approach_k: Kelvin = large_site_value(
        4.75, "Tower water above the wet-bulb temperature [K]", (2.8, 6.7)
    )
    min_tower_water_c: float = uncertain(
        18.0,
        (
            "Minimum tower water temperature [deg C]: in colder weather tower fans are "
            "switched off, unless the economizer needs colder water, and a bypass "
            "keeps it for the chillers' head pressure"
        ),
        (13, 21),
        ge=-40,
        le=30,
    )
    exchanger_approach_k: Kelvin = large_site_value(
        2.25, "Approach of the economizer's exchanger [K]", (1.7, 2.8)
    )
    room_fan_pressure_pa: Pascal = large_site_value(
        500.0, "Pressure rise of the room's fans [Pa]", (400, 600)
    )
    room_fan_efficiency: Efficiency = large_site_value(
        0.775, "Efficiency of the room's fans, 0-1", (0.65, 0.9)
    )
    tower_fan_pressure_pa: Pascal = large_site_value(
        250.0, "Pressure rise of the towers' fans [Pa]", (100, 400)
    )
    tower_fan_efficiency: Efficiency = large_site_value(
        0.775, "Efficiency of the towers' fans, 0-1", (0.65, 0.9)
    )
    water_to_air: float = large_site_value(
        2.0, "Mass of water per air in the towers", (1, 3), gt=0, le=10
    )
    chilled_pump_pressure_pa: Pascal = large_site_value(
        143_658.0, "Pressure of the chilled-water pumps [Pa]", (115e3, 172e3)
    )
    tower_pump_pressure_pa: Pascal = large_site_value(
        208_660.0, "Pressure of the tower-water pumps [Pa]", (167e3, 250e3)
    )
    pump_efficiency: Efficiency = large_site_value(
        0.7, "Efficiency of the pumps, 0-1", (0.6, 0.8)
    )
    cop_relative_error: float = large_site_value(
        -0.05,
        (
            "Relative deviation of the chillers' efficiency from its regression; down "
            "to -0.6 at small sites"
        ),
        (-0.11, 0.11),
        gt=-0.9,
        le=1,
    )
    n_chillers: Annotated[int, Field(ge=1, le=100)] = uncertain(
        4, "Chillers of equal size; the next starts at 90 % load", (2, 8)
    )
    air_density_kg_m3: float = default(
        1.16,
        (
            "Density of the air that fans move [kg/m3]: 1.16 near sea level, about "
            "0.96 at Denver's height."
        ),
        ge=0.5,
        le=1.5,
    )

    @property
    def breakpoints_c(self) -> tuple[float, ...]:
        """Wet-bulb temperatures at which the slope changes [deg C].

        The slope changes at the start and end of free cooling, and at the ends of valid
        ranges.
        """
        approach = self.tower_approach_k + self.exchanger_approach_k
        return_c = self.return_c
        water = (*self._condenser_c, self.min_cold_water_c)
        towers = [t - self.tower_approach_k for t in water]
        return (
            return_c - approach - self.water_rise_k,
            return_c - approach,
            0.0,
            *towers,
        )

    @property
    def _condenser_c(self) -> tuple[float, float]:
        """Lowest and highest condenser water temperature [deg C]."""
        return max(self.min_tower_water_c, CONDENSER_C[0]), CONDENSER_C[1]

    @property
    def min_cold_water_c(self) -> float:
        """Minimum tower water temperature in cold weather [deg C].

        Fans are switched off to keep it. It is at most the temperature that the
        economizer needs.
        """
        needed_c = self.return_c - self.water_rise_k - self.exchanger_approach_k
        return min(self.min_tower_water_c, needed_c)

    @property
    def return_c(self) -> float:
        """Temperature of the water returning from the coils [deg C]."""
        return float(
            return_water_c(
                self.supply_air_c,
                self.air_rise_k,
                self.coil_effectiveness,
                self.water_rise_k,
            )
        )

    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return the plant's power per design heat, at a heat per design heat."""
        room_fans = fan_power(
            self.part_load_power(heat),
            self.room_fan_pressure_pa,
            self.room_fan_efficiency,
            self.air_rise_k,
            self.air_density_kg_m3,
        )
        approach_k = self.tower_approach_k + self.exchanger_approach_k
        free = free_cooling_share(
            temperature_c, self.return_c, approach_k, self.water_rise_k
        )
        chilled = heat * (1 - free)
        n = self.n_chillers
        running = np.clip(np.ceil(chilled * n / MAX_LOAD_OF_CHILLER), 1, n)
        part_load = np.clip(chilled * n / running, MIN_LOAD_OF_CHILLER, 1)
        condenser_c = np.clip(temperature_c + self.tower_approach_k, *self._condenser_c)
        chillers = chilled / chiller_cop(
            condenser_c, part_load, self.cop_relative_error
        )
        chilled_pumps = pump_power(
            self.part_load_power(heat),
            self.chilled_pump_pressure_pa,
            self.pump_efficiency,
            self.water_rise_k,
        )
        # The towers also reject the chillers' power
        at_load = tower_power(self, self.tower_rise_k, temperature_c)
        towers = self.part_load_power(heat + chillers) * at_load
        frost = self.frost_power(temperature_c)
        return np.asarray(room_fans + chillers + chilled_pumps + towers + frost)


def tower_power(plant: WaterPlant, rise_k: float, temperature_c: Any) -> Any:
    """Return the power of tower pumps and fans at design heat, per unit of heat."""
    pumps = pump_power(1.0, plant.tower_pump_pressure_pa, plant.pump_efficiency, rise_k)
    fans = tower_fan_power(
        1.0,
        plant.tower_fan_pressure_pa,
        plant.tower_fan_efficiency,
        rise_k,
        plant.water_to_air,
        plant.air_density_kg_m3,
    )
    approach_k, min_water_c = plant.tower_approach_k, plant.min_cold_water_c
    return pumps + fans * running_fans(temperature_c, approach_k, min_water_c)


class WseSpec(WaterPlant, HeatCoolingSpec):
    """Water-cooled chillers with towers and a waterside economizer.

    Power per design heat, with q heat per design heat and T_wb the wet-bulb
    temperature::

        P = fans(g(q)) + q (1 - free) / COP + pumps(g(q))
            + towers(g(q + chillers)) + frost

    - g part-load curve (`cooling.PartLoad`), free fraction of the economizer
      (`free_cooling_share`), COP of the chillers (`chiller_cop`),
    - fans, pumps, towers power of room fans, chilled-water pumps, tower pumps and fans.

    When the number of running chillers changes, power changes over a 128th of the
    design heat rather than in a step. For a site to which the model was not fitted, its
    PUE may be off by more than 0.05. Ramps within a minute, starts of chillers and
    water use are not modelled.

    See Also
    --------
    AirChillerSpec, DlcTowerSpec, CoolingTableSpec : other cooling plants.
    """

    kind: Literal["wse"] = default(
        "wse",
        (
            "Water-cooled chillers with towers and a waterside economizer, by wet-bulb "
            "temperature (Lei and Masanet; part load assumed)."
        ),
        assumed=True,
    )

    @property
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest wet-bulb temperature [deg C].

        At the highest, condenser water has 35 deg C, the limit of the regression.
        """
        return -40.0, CONDENSER_C[1] - self.tower_approach_k
