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
from diploee.power.lowering import JobLoad, absent_nodes, lower_jobs
from diploee.power.node_ac import with_twins
from diploee.power.segments import Segments
from diploee.power.serving import ServingLoad, serving_segments
from diploee.power.stretches import lower_runs, with_levels

__all__ = [
    "AC_COLUMNS",
    "PHASE_COLUMNS",
    "POWER_COLUMNS",
    "EventWindow",
    "EventWindowSearch",
    "JobLoad",
    "PowerBlock",
    "PowerModel",
    "Segments",
    "ServingLoad",
    "absent_nodes",
    "device_block",
    "lower_jobs",
    "lower_runs",
    "power_stream",
    "serving_segments",
    "with_levels",
    "with_twins",
]
