"""Files for tools of 8,760 hours: SAM and REopt."""

from __future__ import annotations

import json

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.text import CsvFile, in_kw
from diploee.units import MS_PER_H

NO_DAYLIGHT_SAVING = (
    "fixed time all year, at the UTC offset of its start: the first value starts at "
    "1 January 00:00 local time, and no hour is skipped or repeated for daylight saving"
)
REOPT_WEEKDAYS = (
    "REopt aligns tariffs with the weekdays of ElectricLoad.year; after drop-feb29 the values from "
    "1 March on are a weekday off, after drop-last-day they are not"
)


def _write_lines(request: ExportRequest) -> Written:
    with CsvFile(request.path) as file:
        for block in request.series.blocks():
            file.write(in_kw(block.power_w))
    return Written(
        {request.path.name: f"kW, one value a line, no header, {request.series.n_steps:,} lines"},
        (NO_DAYLIGHT_SAVING,),
    )


def _write_reopt_lines(request: ExportRequest) -> Written:
    written = _write_lines(request)
    year = request.series.edge(request.series.spans[0][0]).year
    return Written(
        written.files,
        (
            *written.notes,
            f"for ElectricLoad.path_to_csv; set ElectricLoad.year to {year} and "
            f"Settings.time_steps_per_hour to {MS_PER_H // request.series.step_ms}",
            REOPT_WEEKDAYS,
        ),
    )


def _write_reopt_json(request: ExportRequest) -> Written:
    loads_kw = [value for b in request.series.blocks() for value in in_kw(b.power_w).tolist()]
    content = {
        "ElectricLoad": {
            "loads_kw": loads_kw,
            "year": request.series.edge(request.series.spans[0][0]).year,
        },
        "Settings": {"time_steps_per_hour": MS_PER_H // request.series.step_ms},
    }
    request.path.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return Written(
        {request.path.name: "ElectricLoad.loads_kw: kW; merge the keys into a REopt scenario"},
        (NO_DAYLIGHT_SAVING, REOPT_WEEKDAYS),
    )


HOURS_8760 = Format(
    name="8760",
    summary="one kW value a line for a year of 8,760 hours, also at 30 or 15 min",
    write=_write_lines,
    whole_year=True,
)
SAM = Format(
    name="sam",
    summary="SAM (System Advisor Model): 8,760, 17,520 or 35,040 lines of kW",
    write=_write_lines,
    whole_year=True,
)
REOPT = Format(
    name="reopt",
    summary="REopt CSV for ElectricLoad.path_to_csv: 8,760 x steps per hour, kW",
    write=_write_reopt_lines,
    whole_year=True,
)
REOPT_JSON = Format(
    name="reopt-json",
    summary="REopt JSON: ElectricLoad.loads_kw with year, Settings.time_steps_per_hour",
    write=_write_reopt_json,
    suffixes=(".json",),
    whole_year=True,
)
