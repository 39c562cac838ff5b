"""`zooms/`: the worst windows of a run at 0.1 s, one Parquet file each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from diploee.outputs.facility_file import FacilityFile
from diploee.power import Segments, find_zooms, zoom_blocks
from diploee.power.zooms import BASIS
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.units import MS_PER_S, PROFILE_STEP_MS, W_PER_MW

ZOOMS_FOLDER = "zooms"


def write_zooms(
    folder: Path, scenario: Scenario, library: ProfileLibrary, segments: Segments
) -> dict[str, Any]:
    """Find the worst windows, write each at 0.1 s and return the `zooms` block of the metrics.

    Parameters
    ----------
    folder : pathlib.Path
        Run folder being written.
    scenario : Scenario
        Pools, idle power and clock.
    library : ProfileLibrary
        Profiles that the segments refer to.
    segments : Segments
        Loads of all pools.
    """
    (folder / ZOOMS_FOLDER).mkdir()
    windows = []
    for zoom in find_zooms(segments, scenario, library):
        name = f"{ZOOMS_FOLDER}/{zoom.name}.parquet"
        with FacilityFile(folder / name, scenario, PROFILE_STEP_MS) as file:
            for block in zoom_blocks(zoom, segments, scenario, library):
                file.write(block)
        at = scenario.start_with_zone + timedelta(milliseconds=zoom.at_ms)
        windows.append(
            {
                "name": zoom.name,
                "at": at.isoformat(timespec="seconds"),
                "value_mw": zoom.value_w / W_PER_MW,
                "window_s": (zoom.end_ms - zoom.start_ms) / MS_PER_S,
                "file": name,
            }
        )
    return {"basis": BASIS, "resolution_s": PROFILE_STEP_MS / MS_PER_S, "windows": windows}
