"""Exports to a single file: timestamped CSV, 8,760 hours, playback, OpenG2G, REopt."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import chain

import numpy as np

from diploee.base.clock import named_zone
from diploee.base.errors import InputError
from diploee.base.units import MS_PER_H
from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.grid.export.csv_writer import csv_file, local_stamps, naive_stamps, to_kw
from diploee.scenario.models import Facility


def write_plain(request: ExportRequest) -> WrittenFiles:
    """Write a CSV of power [W] with timestamps and their UTC offset."""
    facility = request.run.scenario.facility
    name = request.options.time_zone or facility.time_zone
    zone = named_zone(name) if name else facility.zone
    with csv_file(request.path, ("timestamp", request.options.column)) as write:
        for block in request.blocks():
            stamps = local_stamps(block.starts_ms, zone, request.needs_milliseconds)
            write(stamps, np.round(block.power_w, 3))
    notes = (
        (
            (
                f"the stamps are local time of {name} with the UTC offset in force: "
                "the hour that a spring change skips has no stamps, the one that an "
                "autumn change repeats has them twice, with different offsets; each "
                "moment occurs once"
            ),
        )
        if name
        else ()
    )
    return WrittenFiles(
        {
            request.path.name: (
                f"timestamp: ISO 8601 with UTC offset; {request.options.column}: W"
            )
        },
        notes,
    )


def write_facility(request: ExportRequest) -> WrittenFiles:
    """Write the three columns of the published data sets of facilities' years."""
    of_pool = f"utilization.{request.options.column.partition('.')[2]}"
    occupancy = of_pool if of_pool in request.source.check() else "utilization"
    offset = request.start.utcoffset() or timedelta()
    shares = chain.from_iterable(
        request.source.blocks([occupancy], request.step_ms, span)
        for span in request.spans
    )
    with csv_file(request.path, ("timestamp", "power_W", "utilization")) as write:
        for block, share in zip(request.blocks(), shares, strict=True):
            at_ms = block.starts_ms + offset // timedelta(milliseconds=1)
            write(
                naive_stamps(at_ms, request.needs_milliseconds),
                np.round(block.power_w, 3),
                np.round(share.columns[occupancy], 6),
            )
    return WrittenFiles(
        {
            request.path.name: (
                f"timestamp: local; power_W: {request.options.column}, W; utilization: "
                f"{occupancy}, busy over all nodes, 0 to 1"
            )
        },
        (
            "stamps without a zone, as in the published files: local time at the UTC "
            "offset of the first, with no hour skipped or repeated",
            "the published files have a last row at the next 1 January, this one ends "
            "with the last step's start",
        ),
    )


def write_playback(request: ExportRequest) -> WrittenFiles:
    """Write a CSV of time [s], power [MW] and, if available, reactive power [Mvar]."""
    header = ("t_s", "p_mw", "q_mvar") if request.has_reactive else ("t_s", "p_mw")
    with csv_file(request.path, header) as write:
        for block in request.blocks():
            write(block.time_s, *block.columns)
    units = "t_s: s since the first step's start; p_mw: MW"
    return WrittenFiles(
        {request.path.name: units + ("; q_mvar: Mvar" if request.has_reactive else "")},
        (
            (
                "hold each value until the next t_s: it is a mean over the step, no "
                "sample at its start"
            ),
        ),
    )


def write_per_gpu(request: ExportRequest, header: tuple[str, str]) -> WrittenFiles:
    """Write a CSV of time [s] and the mean power per GPU [W]."""
    if request.run.scenario.facility.has_phases:
        raise InputError(
            f"{request.run.folder}: GPUs are added in the course of the run (phases "
            "of a pool), so there is no power per GPU of all; export 'openg2g-load' "
            "or 'playback'"
        )
    n_gpus = _count_gpus(request.run.scenario.facility, request.options.column)
    if not n_gpus:
        raise InputError(
            f"{request.run.folder}: no node behind '{request.options.column}' has a "
            "GPU, so there is no power per GPU; export 'playback'"
        )
    if request.n_steps < 2:
        raise InputError(
            f"{request.run.folder}: OpenG2G needs two samples or more, choose a finer "
            "--step"
        )
    with csv_file(request.path, header) as write:
        for block in request.blocks():
            write(block.time_s, np.round(block.power_w / n_gpus, 6))
    return WrittenFiles(
        {
            request.path.name: (
                f"{header[0]}: s since the first step's start; {header[1]}: W per GPU"
            )
        },
        (
            (
                f"the power over all {n_gpus:,} GPUs, busy or idle, with the CPU "
                f"packages' share: times {n_gpus:,} it is the column's power"
            ),
            (
                "OpenG2G repeats the trace, interpolates between its samples and "
                "rescales its peak to the power per GPU that its user asks for"
            ),
        ),
    )


def _count_gpus(facility: Facility, column: str) -> int:
    """Return the number of GPUs behind a power column: those of its pool, or all."""
    pool_name = column.partition(".")[2]
    return sum(
        pool.n_nodes * facility.node_type_of(name).n_gpus
        for name, pool in facility.pools.items()
        if name == pool_name or not pool_name
    )


def write_load(request: ExportRequest) -> WrittenFiles:
    """Write a CSV of time [s] and the power of the facility [kW]."""
    with csv_file(request.path, ("t_s", "p_kw")) as write:
        for block in request.blocks():
            write(block.time_s, to_kw(block.power_w))
    return WrittenFiles(
        {
            request.path.name: (
                "t_s: s since the first step's start; p_kw: kW of the facility"
            )
        },
        ("OpenG2G interpolates between the rows and holds the last",),
    )


NO_DAYLIGHT_SAVING = (
    "fixed time all year, at the UTC offset of its start: the first value starts at "
    "1 January 00:00 local time, and no hour is skipped or repeated for daylight saving"
)
REOPT_WEEKDAYS = (
    "REopt aligns tariffs with the weekdays of ElectricLoad.year; after drop-feb29 "
    "the values from 1 March on are a weekday off, after drop-last-day they are not"
)


def write_lines(request: ExportRequest) -> WrittenFiles:
    """Write one value per line [kW], without a header."""
    with csv_file(request.path) as write:
        for block in request.blocks():
            write(to_kw(block.power_w))
    return WrittenFiles(
        {
            request.path.name: (
                f"kW, one value a line, no header, {request.n_steps:,} lines"
            )
        },
        (NO_DAYLIGHT_SAVING,),
    )


def write_reopt_lines(request: ExportRequest) -> WrittenFiles:
    """Write one value per line [kW], with notes for REopt."""
    written = write_lines(request)
    year = request.start.year
    return WrittenFiles(
        written.files,
        (
            *written.notes,
            f"for ElectricLoad.path_to_csv; set ElectricLoad.year to {year} and "
            f"Settings.time_steps_per_hour to {MS_PER_H // request.step_ms}",
            REOPT_WEEKDAYS,
        ),
    )


def write_reopt_json(request: ExportRequest) -> WrittenFiles:
    """Write a JSON file with the load keys of a REopt scenario [kW]."""
    loads_kw = [value for b in request.blocks() for value in to_kw(b.power_w).tolist()]
    content = {
        "ElectricLoad": {
            "loads_kw": loads_kw,
            "year": request.start.year,
        },
        "Settings": {"time_steps_per_hour": MS_PER_H // request.step_ms},
    }
    request.path.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return WrittenFiles(
        {
            request.path.name: (
                "ElectricLoad.loads_kw: kW; merge the keys into a REopt scenario"
            )
        },
        (NO_DAYLIGHT_SAVING, REOPT_WEEKDAYS),
    )
