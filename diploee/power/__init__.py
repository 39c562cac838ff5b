"""Power: loads lower to segments, segments sum to power blocks with exact energy."""

from diploee.power.block_source import (
    AC_COLUMNS,
    PHASE_COLUMNS,
    POWER_COLUMNS,
    PowerBlock,
    PowerModel,
)
from diploee.power.blocks import power_stream
from diploee.power.event_windows import EventWindow, EventWindowSearch, device_block
from diploee.power.node_ac import with_ac_profiles
from diploee.power.occupancy import absent_nodes
from diploee.power.segments import Segments

__all__ = [
    "AC_COLUMNS",
    "PHASE_COLUMNS",
    "POWER_COLUMNS",
    "EventWindow",
    "EventWindowSearch",
    "PowerBlock",
    "PowerModel",
    "Segments",
    "absent_nodes",
    "device_block",
    "power_stream",
    "with_ac_profiles",
]
