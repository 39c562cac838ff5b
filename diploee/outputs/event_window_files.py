"""`zooms/`: the worst windows of a run at 0.1 s, one Parquet file each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diploee.clock import RunClock
from diploee.columns import Columns
from diploee.metrics import Causes
from diploee.metrics.changes import Extreme
from diploee.outputs.facility_file import FacilityFile
from diploee.power import EventWindowSearch
from diploee.power.event_windows import BASIS
from diploee.units import MS_PER_S, PROFILE_STEP_MS, W_PER_MW

ZOOMS_FOLDER = "zooms"


def write_event_windows(
    folder: Path,
    search: EventWindowSearch,
    clock: RunClock,
    columns: Columns,
    head: Mapping[str, Any],
    causes: Causes,
) -> dict[str, Any]:
    """Write each window that was found at 0.1 s and return the `zooms` block of the metrics.

    Parameters
    ----------
    folder : pathlib.Path
        Run folder being written.
    search : EventWindowSearch
        What was found.
    clock, columns, head
        As of `FacilityFile`.
    causes : Causes
        Finds why each came about.
    """
    (folder / ZOOMS_FOLDER).mkdir()
    windows = []
    for event, segments, blocks in search.event_windows():
        name = f"{ZOOMS_FOLDER}/{event.name}.parquet"
        with FacilityFile(folder / name, clock, columns, head) as file:
            kept = []
            for block in blocks:
                file.add(block)
                kept.append(block)
        cause = causes.split(Extreme(*event.compared_ms), [segments], kept)
        at = clock.wall.at(event.at_ms)
        windows.append(
            {
                "name": event.name,
                "at": at.isoformat(timespec="seconds"),
                "value_mw": event.value_w / W_PER_MW,
                "window_s": (event.end_ms - event.start_ms) / MS_PER_S,
                "file": name,
                "cause": causes.entry(cause),
            }
        )
    return {"basis": BASIS, "resolution_s": PROFILE_STEP_MS / MS_PER_S, "windows": windows}
