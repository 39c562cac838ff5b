"""Equipment between the devices and the meter, as stages that a block of power passes."""

from diploee.facility.base import STAGES, Block, Meter, Site, Stage, StageMeters, Stages, StageSpec
from diploee.facility.meters import EnergyMeter
from diploee.facility.weather import WEATHER, Weather, WeatherSpec

__all__ = [
    "STAGES", "WEATHER", "Block", "EnergyMeter", "Meter", "Site", "Stage", "StageMeters",
    "StageSpec", "Stages", "Weather", "WeatherSpec",
]  # fmt: skip
