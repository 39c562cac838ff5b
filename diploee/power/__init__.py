"""Power: loads lower to segments, segments sum to power blocks with exact energy."""

from diploee.power.blocks import (
    AC_COLUMNS,
    PHASE_COLUMNS,
    POWER_COLUMNS,
    PowerBlock,
    PowerModel,
    device_block,
    power_stream,
)
from diploee.power.event_windows import EventWindow, EventWindowSearch
from diploee.power.node_ac import with_ac_profiles
from diploee.power.segments import Segments, absent_nodes

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
