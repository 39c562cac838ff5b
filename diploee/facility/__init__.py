"""What stands between the devices and the meter, as stages that a block of power passes."""

from diploee.facility.base import Block, Meter, Stage, Stages, StageSpec
from diploee.facility.kinds import STAGES
from diploee.facility.meters import EnergyMeter, StageMeters

__all__ = [
    "STAGES", "Block", "EnergyMeter", "Meter", "Stage", "StageMeters", "StageSpec", "Stages",
]  # fmt: skip
