"""Equipment between the devices and the meter, as stages that a block of power passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.columns import Column as Column
    from diploee.base.errors import StageError as StageError
    from diploee.facility.air_chiller import AirChillerSpec as AirChillerSpec
    from diploee.facility.auxiliary_load import AuxiliaryLoadSpec as AuxiliaryLoadSpec
    from diploee.facility.base import PLACES as PLACES
    from diploee.facility.base import STAGES as STAGES
    from diploee.facility.base import Block as Block
    from diploee.facility.base import Meter as Meter
    from diploee.facility.base import Site as Site
    from diploee.facility.base import Stage as Stage
    from diploee.facility.base import StageSpec as StageSpec
    from diploee.facility.battery import BatterySpec as BatterySpec
    from diploee.facility.constant_loss import ConstantLossSpec as ConstantLossSpec
    from diploee.facility.cooling_table import CoolingTableSpec as CoolingTableSpec
    from diploee.facility.dlc_tower import DlcTowerSpec as DlcTowerSpec
    from diploee.facility.generator import GeneratorSpec as GeneratorSpec
    from diploee.facility.loss_curves import SUPPLIES as SUPPLIES
    from diploee.facility.loss_curves import CurveSpec as CurveSpec
    from diploee.facility.loss_curves import LossCurve as LossCurve
    from diploee.facility.meters import EnergyMeter as EnergyMeter
    from diploee.facility.node_power import AC_POWER as AC_POWER
    from diploee.facility.node_power import AcPowerSpec as AcPowerSpec
    from diploee.facility.pdu import PduSpec as PduSpec
    from diploee.facility.point_of_interconnection import (
        PointOfInterconnectionSpec as PointOfInterconnectionSpec,
    )
    from diploee.facility.ramp_limit import RampLimitSpec as RampLimitSpec
    from diploee.facility.solar import SolarSpec as SolarSpec
    from diploee.facility.transformers import TransformersSpec as TransformersSpec
    from diploee.facility.ups import UpsSpec as UpsSpec
    from diploee.facility.weather import WEATHER as WEATHER
    from diploee.facility.weather import TypicalDaySpec as TypicalDaySpec
    from diploee.facility.weather import Weather as Weather
    from diploee.facility.weather import WeatherFileSpec as WeatherFileSpec
    from diploee.facility.weather import WeatherSpec as WeatherSpec
    from diploee.facility.wse import WseSpec as WseSpec
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
