"""Plain CSV: ``timestamp,<column>`` in W, the stamps with their UTC offset."""

from __future__ import annotations

import numpy as np

from diploee.clock import named_zone
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.stamps import local_stamps
from diploee.outputs.export.text import CsvFile


def _write(request: ExportRequest) -> Written:
    facility = request.run.scenario.facility
    name = request.options.time_zone or facility.time_zone
    zone = named_zone(name) if name else facility.zone
    with CsvFile(request.path, ("timestamp", request.options.column)) as file:
        for block in request.series.blocks():
            stamps = local_stamps(block.starts_ms, zone, request.series.in_milliseconds)
            file.write(stamps, np.round(block.power_w, 3))
    notes = (
        (
            f"the stamps are local time of {name} with the UTC offset in force: the hour that a "
            "spring change skips has no stamps, the one that an autumn change repeats has them "
            "twice, with different offsets; each moment occurs once",
        )
        if name
        else ()
    )
    return Written(
        {request.path.name: f"timestamp: ISO 8601 with UTC offset; {request.options.column}: W"},
        notes,
    )


CSV = Format(
    name="csv",
    summary="plain CSV: timestamp with its UTC offset, power in W",
    write=_write,
    options=frozenset({"time_zone"}),
)
