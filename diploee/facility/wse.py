"""Water-cooled chillers with towers and a waterside economizer.

Equations and ranges of large sites as in the data center PUE prediction tool of Lei and
Masanet; the exponent of part load is added here [J].

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import PositiveShare, default, uncertain
from diploee.base.tables import Float64Array
from diploee.facility.cooling import HeatCoolingSpec, PartLoad, Winter, staged_fans

CP_AIR, CP_WATER, WATER_KG_M3 = 1006.0, 4200.0, 1000.0
"""Heat capacities of air and water [J/(kg K)], density of water [kg/m3]."""
CONDENSER_C = (10.0, 35.0)
"""Condenser water temperatures that the chillers' efficiency holds for [deg C]."""
MIN_LOAD_OF_CHILLER, MAX_LOAD_OF_CHILLER = 0.2, 0.9
"""Part load down to which a chiller runs, and at which the next one starts."""

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
    """Return the power of fans that move heat by air, in the heat's unit."""
    return heat * pressure_pa / (density * heat_capacity * rise_k * efficiency)


def pump_power(heat: Any, pressure_pa: float, efficiency: float, rise_k: float) -> Any:
    """Return the power of pumps that move heat by water, in the heat's unit."""
    return heat * pressure_pa / (efficiency * WATER_KG_M3 * CP_WATER * rise_k)


def tower_fan_power(
    heat: Any,
    pressure_pa: float,
    efficiency: float,
    rise_k: float,
    water_to_air: float,
    density: Any = 1.16,
) -> Any:
    """Return the power of tower fans, in the heat's unit.

    Air by the water's mass flow.
    """
    return (
        heat / (CP_WATER * rise_k * water_to_air) * pressure_pa / (density * efficiency)
    )


def return_water_c(
    supply_air_c: float, rise_k: float, effectiveness: float, water_k: float
) -> Any:
    """Return the temperature of chilled water back from the coils [deg C]."""
    return supply_air_c + rise_k - rise_k / effectiveness + water_k


def free_cooling_share(
    wet_bulb_c: Any, return_c: float, approach_k: float, water_k: float
) -> Any:
    """Return the share of heat that the economizer takes, 0-1."""
    return np.clip((return_c - (wet_bulb_c + approach_k)) / water_k, 0.0, 1.0)


def chiller_cop(condenser_c: Any, part_load: Any, relative_error: float) -> Any:
    """Return a chiller's coefficient of performance (Lei and Masanet's regression)."""
    t, x = condenser_c, part_load
    cop = 16.798751 + 0.008840 * t**2 - 8.528931 * x**2 + 9.885294 * x - 0.760621 * t
    return (cop + 0.084615 * x * t) * (1 + relative_error)


of_large_sites = partial(uncertain, source="of large sites, Lei and Masanet", basis="")


class WaterPlant(PartLoad, Winter):
    """Chillers, towers, coils and pumps.

    Ranges are those of large sites (Lei and Masanet).
    """

    supply_air_c: float = of_large_sites(
        27.0, "Supply air temperature [deg C]", (27, 35), ge=10, le=40
    )
    air_rise_k: Kelvin = of_large_sites(
        16.0, "Rise of the air's temperature in the room [K]", (13.9, 19.4)
    )
    coil_effectiveness: Efficiency = of_large_sites(
        0.8, "Effectiveness of the coils, 0-1", (0.7, 0.9)
    )
    water_rise_k: Kelvin = of_large_sites(
        7.5, "Rise of the chilled water's temperature [K]", (5, 10)
    )
    tower_rise_k: Kelvin = of_large_sites(
        5.0, "Rise of the tower water's temperature [K]", (4, 6)
    )
    tower_approach_k: Kelvin = of_large_sites(
        4.75, "Tower water above the wet-bulb temperature [K]", (2.8, 6.7)
    )
    min_tower_water_c: float = uncertain(
        18.0,
        (
            "Coldest tower water [deg C]: in colder weather tower fans are switched "
            "off to hold it, unless the economizer needs colder, and chillers get "
            "none colder by a bypass, as their head pressure needs"
        ),
        (13, 21),
        ge=-40,
        le=30,
    )
    exchanger_approach_k: Kelvin = of_large_sites(
        2.25, "Approach of the economizer's exchanger [K]", (1.7, 2.8)
    )
    room_fan_pressure_pa: Pascal = of_large_sites(
        500.0, "Pressure rise of the room's fans [Pa]", (400, 600)
    )
    room_fan_efficiency: Efficiency = of_large_sites(
        0.775, "Efficiency of the room's fans, 0-1", (0.65, 0.9)
    )
    tower_fan_pressure_pa: Pascal = of_large_sites(
        250.0, "Pressure rise of the towers' fans [Pa]", (100, 400)
    )
    tower_fan_efficiency: Efficiency = of_large_sites(
        0.775, "Efficiency of the towers' fans, 0-1", (0.65, 0.9)
    )
    water_to_air: float = of_large_sites(
        2.0, "Mass of water per air in the towers", (1, 3), gt=0, le=10
    )
    chilled_pump_pressure_pa: Pascal = of_large_sites(
        143_658.0, "Pressure of the chilled-water pumps [Pa]", (115e3, 172e3)
    )
    tower_pump_pressure_pa: Pascal = of_large_sites(
        208_660.0, "Pressure of the tower-water pumps [Pa]", (167e3, 250e3)
    )
    pump_efficiency: Efficiency = of_large_sites(
        0.7, "Efficiency of the pumps, 0-1", (0.6, 0.8)
    )
    cop_relative_error: float = of_large_sites(
        -0.05,
        (
            "How far the chillers' efficiency is off its regression, as a part of it; "
            "small sites' down to -0.6"
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
    def breaks_c(self) -> tuple[float, ...]:
        """Wet-bulb temperatures where free cooling ends and begins, and of the fit."""
        approach = self.tower_approach_k + self.exchanger_approach_k
        returns = self.return_c
        water = (*self._condenser_c, self.held_water_c)
        towers = [t - self.tower_approach_k for t in water]
        return (
            returns - approach - self.water_rise_k,
            returns - approach,
            0.0,
            *towers,
        )

    @property
    def _condenser_c(self) -> tuple[float, float]:
        return max(self.min_tower_water_c, CONDENSER_C[0]), CONDENSER_C[1]

    @property
    def held_water_c(self) -> float:
        """Tower water that fans hold in the cold.

        None colder than the economizer needs.
        """
        needed_c = self.return_c - self.water_rise_k - self.exchanger_approach_k
        return min(self.min_tower_water_c, needed_c)

    @property
    def return_c(self) -> float:
        """Temperature of the water that comes back from the coils."""
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
        """Return the plant's power over its design heat, of heat over design heat."""
        room_fans = fan_power(
            self.turned_down(heat),
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
            self.turned_down(heat),
            self.chilled_pump_pressure_pa,
            self.pump_efficiency,
            self.water_rise_k,
        )
        # The towers also take away what the chillers draw.
        at_load = tower_power(self, self.tower_rise_k, temperature_c)
        towers = self.turned_down(heat + chillers) * at_load
        frost = self.frost_power(temperature_c)
        return np.asarray(room_fans + chillers + chilled_pumps + towers + frost)


def tower_power(plant: WaterPlant, rise_k: float, temperature_c: Any) -> Any:
    """Return design power of tower pumps and fans over the heat, in a weather."""
    pumps = pump_power(1.0, plant.tower_pump_pressure_pa, plant.pump_efficiency, rise_k)
    fans = tower_fan_power(
        1.0,
        plant.tower_fan_pressure_pa,
        plant.tower_fan_efficiency,
        rise_k,
        plant.water_to_air,
        plant.air_density_kg_m3,
    )
    approach_k, held_c = plant.tower_approach_k, plant.held_water_c
    return pumps + fans * staged_fans(temperature_c, approach_k, held_c)


class WseSpec(WaterPlant, HeatCoolingSpec):
    """Water-cooled chillers with towers and a waterside economizer.

    The equations of Lei and Masanet with part load added (assumed). From one number of
    running chillers to the next, power goes over within a 128th of the design heat
    rather than in a step. Not for the PUE of a site that it was not fitted to within
    0.05, nor for ramps within a minute, starts of chillers or water use.
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
        """Lowest and highest wet-bulb temperature.

        Up to the regression's 35 deg C of water.
        """
        return -40.0, CONDENSER_C[1] - self.tower_approach_k
