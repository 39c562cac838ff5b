from .air_chiller import AirChillerSpec as AirChillerSpec
from .auxiliary_load import AuxiliaryLoadSpec as AuxiliaryLoadSpec
from .base import PLACES as PLACES
from .base import STAGES as STAGES
from .base import Block as Block
from .base import Meter as Meter
from .base import SiteView as SiteView
from .base import Stage as Stage
from .base import StageSpec as StageSpec
from .battery import BatterySpec as BatterySpec
from .constant_loss import ConstantLossSpec as ConstantLossSpec
from .cooling_table import CoolingTableSpec as CoolingTableSpec
from .dlc_tower import DlcTowerSpec as DlcTowerSpec
from .generator import GeneratorSpec as GeneratorSpec
from .loss_curves import SUPPLIES as SUPPLIES
from .loss_curves import CurveSpec as CurveSpec
from .loss_curves import LossCurve as LossCurve
from .node_power import AC_POWER as AC_POWER
from .node_power import AcPowerSpec as AcPowerSpec
from .pdu import PduSpec as PduSpec
from .point_of_interconnection import (
    PointOfInterconnectionSpec as PointOfInterconnectionSpec,
)
from .ramp_limit import RampLimitSpec as RampLimitSpec
from .solar import SolarSpec as SolarSpec
from .stage_meters import EnergyMeter as EnergyMeter
from .transformers import TransformersSpec as TransformersSpec
from .ups import UpsSpec as UpsSpec
from .weather import WEATHER as WEATHER
from .weather import TypicalDaySpec as TypicalDaySpec
from .weather import Weather as Weather
from .weather import WeatherFileSpec as WeatherFileSpec
from .weather import WeatherSpec as WeatherSpec
from .wse import WseSpec as WseSpec
