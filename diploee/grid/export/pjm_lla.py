"""Exports of yearly demand: tables for ERCOT, PJM and AEP, or PJM's workbook.

The column names of the workbook and of AEP's ramp schedule come from secondary sources.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.grid.export.by_year import BuildOut, Table, build_out
from diploee.grid.export.csv_writer import write_rows
from diploee.grid.export.workbook import openpyxl, write_workbook

PLACE = ("ZONENAME", "AREANAME")
NOTES = (
    (
        "names of zone and area, non-firm shares and the contracted MW are yours to "
        "fill in"
    ),
    "a first or last year that the run covers in part has the demand of that part",
    ("reconnect thresholds and delays, which AEP asks for as well, are not modelled"),
    "the workbook was seen in a secondary source: check it before you file",
)


def write_pjm_lla(request: ExportRequest) -> WrittenFiles:
    """Write PJM's tables of demand and capacity, and AEP's ramp schedule."""
    build = build_out(request)
    _write(request, _tables(request, build))
    return WrittenFiles(_files(request, build), NOTES)


def write_by_year(request: ExportRequest) -> WrittenFiles:
    """Write the table by year, and tables for the forms of ERCOT, PJM and AEP."""
    if request.options.excel:
        openpyxl()  # before any work
    build = build_out(request)
    tables = build.tables() | _tables(request, build)
    files = {
        "by_year.csv": (
            "MW and Mvar of each step of the build-out in each calendar year and case; "
            "a *_basis says of the figures before it what they are and what is assumed"
        ),
        "lcp.csv": "sheet LCP of ERCOT's load information form, a row a step",
        **_files(request, build),
    }
    _write(request, tables)
    if request.options.excel:
        write_workbook(request.path / "by_year.xlsx", tables)
        files["by_year.xlsx"] = "the same tables, a sheet each"
    return WrittenFiles(files, NOTES)


def _write(request: ExportRequest, tables: Mapping[str, Table]) -> None:
    for name, (header, rows) in tables.items():
        write_rows(request.path / f"{name}.csv", (header, *rows))


def _tables(request: ExportRequest, build: BuildOut) -> dict[str, Table]:
    """Return the sheets of the workbook and the ramp schedule, by name."""
    place = (request.options.zone, request.options.area)
    by_year, by_step = build.whole.groupby("year"), build.whole.groupby("step")
    demand, capacity = by_year["peak_mw"].max(), by_year["rated_mw"].max()
    steps = range(1, len(build.dates) + 1)
    until_next = by_step["peak_mw"].max().reindex(steps, fill_value=0.0)
    demand_mw, capacity_mw = demand.max(), capacity.max()
    note = (
        "simulated: highest demand is "
        f"{demand_mw / capacity_mw if capacity_mw else 0.0:.1%} of the capacity, which "
        "is what the nodes' ratings make where the demand is taken"
    )
    tables: dict[str, Table] = {
        name: ((*PLACE, *map(str, column.index)), [[*place, *map(_mw, column)]])
        for name, column in (("demand", demand), ("capacity", capacity))
    }
    tables["summary"] = (
        (*PLACE, "Capacity", "Demand", "Industry", "Note"),
        [[*place, _mw(capacity_mw), _mw(demand_mw), "data center", note]],
    )
    tables["ramp_schedule"] = (
        ("date", "days_since_step", "step_mw", "capacity_mw", "demand_until_next_mw"),
        [
            [day.isoformat(), (day - last).days, *map(_mw, figures)]
            for day, last, *figures in zip(
                build.dates,
                (build.dates[0], *build.dates),
                np.diff(build.rated_mw, prepend=0.0),
                build.rated_mw,
                until_next,
                strict=False,
            )
        ],
    )
    return tables


def _files(request: ExportRequest, build: BuildOut) -> dict[str, str]:
    """Return a description of each file of the workbook."""
    step = (
        f"largest mean over {request.step_s:g} s in the calendar year (local time), MW"
    )
    ratings = f"{build.ratings}, MW"
    return {
        "demand.csv": f"sheet DEMAND Requests, a column a year: {step}",
        "capacity.csv": f"sheet CAPACITY Requests: {ratings}, at the year's end",
        "summary.csv": "sheet summary: the highest of both over the years",
        "ramp_schedule.csv": f"step_mw and capacity_mw: {ratings}; demand: {step}",
    }


def _mw(power_mw: float) -> float:
    return float(np.round(power_mw, 9))
