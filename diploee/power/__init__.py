"""Power: loads lower to segments, segments sum to power blocks with exact energy."""

from diploee.power.blocks import PowerBlock, power_blocks
from diploee.power.lowering import job_energy_j, job_segments, lower_jobs
from diploee.power.segments import Segments
from diploee.power.series import power_series
from diploee.power.serving import ServingLoad, serving_segments
from diploee.power.zooms import Zoom, find_zooms, zoom_blocks

__all__ = [
    "PowerBlock",
    "Segments",
    "ServingLoad",
    "Zoom",
    "find_zooms",
    "job_energy_j",
    "job_segments",
    "lower_jobs",
    "power_blocks",
    "power_series",
    "serving_segments",
    "zoom_blocks",
]
