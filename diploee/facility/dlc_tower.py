"""Direct liquid cooling by warm water and cooling towers, without chillers.

Split of heat and pump power after Frontier in ExaDigiT/RAPS; the tower is that of
`wse`.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.base.model import Share, default, uncertain
from diploee.base.tables import Float64Array
from diploee.facility.cooling import HeatCoolingSpec, PartLoad
from diploee.facility.wse import (
    CONDENSER_C,
    Kelvin,
    Pascal,
    WaterPlant,
    pump_power,
    tower_power,
)


class DlcTowerSpec(HeatCoolingSpec, PartLoad):
    """Direct liquid cooling by warm water and towers, without chillers.

    The heat that stays in the air goes to a `wse` plant. Power per design heat, with q
    heat per design heat and T_wb the wet-bulb temperature::

        P = L (p_loop + p_water + p_tower(T_wb)) g(q) + L frost + (1 - L) P_wse(q, T_wb)

    - L `liquid_fraction`, p_loop `loop_pump_fraction`, p_water facility water pumps
      (`wse.pump_power`), p_tower tower pumps and fans (`wse.tower_power`),
    - g part-load curve (`cooling.PartLoad`), P_wse power of the `rest` plant.

    Weather above the set point is counted, but neither throttles the load nor starts a
    chiller. The measured reference is NREL's ESIF with an annual PUE of 1.036, whose
    meters include no UPS and no transformer: compare it with the PUE of cooling only.

    See Also
    --------
    WseSpec : the plant of the remaining heat.
    """

    default_lags_s = (60.0, 300.0)

    kind: Literal["dlc_tower"] = default(
        "dlc_tower",
        (
            "Direct liquid cooling by warm water and towers; the remaining heat, in "
            "the air, by the plant of wse."
        ),
    )
    liquid_fraction: Share = uncertain(
        0.9,
        "Fraction of the heat removed by liquid, 0-1",
        (0.7, 0.97),
        "(plants; Frontier has 0.945)",
        basis="",
    )
    loop_pump_fraction: Annotated[float, Field(ge=0, le=0.2)] = uncertain(
        0.010,
        "Power of the coolant distribution units' pumps per design heat of the liquid "
        "(Frontier: 25 units of 8.5 kW over about 21 MW)",
        (0.005, 0.015),
    )
    water_pump_pressure_pa: Pascal = uncertain(
        150e3, "Pressure of the facility water pumps [Pa]", (100e3, 200e3)
    )
    water_rise_k: Kelvin = uncertain(
        10.0, "Temperature rise of the facility water [K]", (7, 13)
    )
    tower_rise_k: Kelvin = uncertain(
        8.0, "Temperature rise of the tower water [K]", (6, 10)
    )
    approach_k: Kelvin = uncertain(
        10.0,
        (
            "Coolant supply above the wet-bulb temperature [K]: tower 4, plates 2, "
            "distribution units 4"
        ),
        (7, 13),
    )
    set_point_supply_c: float = uncertain(
        32.0,
        (
            "Maximum supply temperature of the coolant [deg C]; hours above it are "
            "counted"
        ),
        (28, 36),
        ge=10,
        le=60,
    )
    rest: WaterPlant = Field(
        default_factory=WaterPlant,
        description=(
            "Plant for the heat that stays in the air; the liquid's pumps and tower "
            "fans have its efficiencies too."
        ),
    )

    @property
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest wet-bulb temperature [deg C]."""
        return -40.0, CONDENSER_C[1] - self.rest.tower_approach_k

    @property
    def breakpoints_c(self) -> tuple[float, ...]:
        """Wet-bulb temperatures at which the slope changes [deg C]."""
        return self.rest.breakpoints_c

    @property
    def set_point_c(self) -> float | None:
        """Wet-bulb temperature above which the supply exceeds its set point [deg C]."""
        return self.set_point_supply_c - self.approach_k

    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return the plant's power per design heat."""
        at_design = (
            self.loop_pump_fraction
            + pump_power(
                1.0,
                self.water_pump_pressure_pa,
                self.rest.pump_efficiency,
                self.water_rise_k,
            )
            + tower_power(self.rest, self.tower_rise_k, temperature_c)
        )
        frost = self.rest.frost_power(temperature_c)
        liquid_power = self.liquid_fraction * (
            at_design * self.part_load_power(heat) + frost
        )
        return np.asarray(
            liquid_power
            + (1 - self.liquid_fraction) * self.rest.relative_power(heat, temperature_c)
        )
