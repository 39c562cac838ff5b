"""Export of a build-out for planners: PJM's large-load workbook, and a ramp schedule.

The workbook's rows and AEP's ramp schedule were seen in secondary sources [S2].
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from diploee.base.clock import local_ms
from diploee.base.errors import spreadsheet_cell
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import W_PER_MW
from diploee.facility.base import POWER
from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.grid.export.text import to_mw
from diploee.metrics.demand import rated_power
from diploee.scenario.models import Scenario

PLACE = ("ZONENAME", "AREANAME")


def write_pjm_lla(request: ExportRequest) -> WrittenFiles:
    """Write tables of demand and capacity by year, and a schedule of added capacity."""
    scenario, options = request.run.scenario, request.options
    steps_ms, added_w = _installations(scenario)
    facility, ratings = scenario.facility, "ratings of the devices that stand, MW"
    is_at_meter = request.options.column == POWER and (
        facility.stages or facility.has_ac_power
    )
    if is_at_meter and facility.nodes_power_w:
        # ASSUMPTION (judgement): added nodes share the site's rated power in the
        # ratio of their ratings.
        rated_mw, _ = rated_power(request.run.metrics, facility)
        added_w = added_w * (rated_mw * W_PER_MW / facility.nodes_power_w)
        ratings = "rated power where the demand is taken, of the nodes that stand, MW"
    peak_by_year, phase_w = _yearly_peaks(request, steps_ms)
    installed_w = np.cumsum(added_w)
    capacity_by_year: dict[int, float] = {}
    for year in peak_by_year:
        midnight = scenario.start.replace(year + 1, 1, 1, 0, 0, 0, 0)
        end_ms = min(scenario.clock.wall.time_ms(midnight), scenario.horizon_ms)
        capacity_by_year[year] = float(
            installed_w[np.searchsorted(steps_ms, end_ms) - 1]
        )
    place = (options.zone, options.area)
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]] = {}
    for name, values in (("demand", peak_by_year), ("capacity", capacity_by_year)):
        row = [*place, *(_to_mw(value) for value in values.values())]
        tables[f"{name}.csv"] = ((*PLACE, *map(str, peak_by_year)), [row])
    demand_w, capacity_w = max(peak_by_year.values()), max(capacity_by_year.values())
    note = (
        "simulated: highest demand is "
        f"{demand_w / capacity_w if capacity_w else 0.0:.1%} of the capacity, which "
        "is what the nodes' ratings make where the demand is taken"
    )
    tables["summary.csv"] = (
        (*PLACE, "Capacity", "Demand", "Industry", "Note"),
        [[*place, _to_mw(capacity_w), _to_mw(demand_w), "data center", note]],
    )
    dates = [scenario.clock.wall.at(time_ms).date() for time_ms in steps_ms.tolist()]
    tables["ramp_schedule.csv"] = (
        ("date", "days_since_step", "step_mw", "capacity_mw", "demand_until_next_mw"),
        [
            [date.isoformat(), (date - last).days, *map(_to_mw, powers_w)]
            for date, last, *powers_w in zip(
                dates, [dates[0], *dates], added_w, installed_w, phase_w, strict=False
            )
        ],
    )
    for name, (header, rows) in tables.items():
        with (request.path / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(map(spreadsheet_cell, row) for row in (header, *rows))
    step = (
        f"largest mean over {request.step_s:g} s in the calendar year (local time), MW"
    )
    return WrittenFiles(
        {
            "demand.csv": f"sheet DEMAND Requests, a column a year: {step}",
            "capacity.csv": f"sheet CAPACITY Requests: {ratings}, at the year's end",
            "summary.csv": "sheet summary: the highest of both over the years",
            "ramp_schedule.csv": f"step_mw and capacity_mw: {ratings}; demand: {step}",
        },
        (
            (
                "names of zone and area, non-firm shares and the contracted MW are "
                "yours to fill in"
            ),
            (
                "a first or last year that the run covers in part has the demand of "
                "that part"
            ),
            (
                "reconnect thresholds and delays, which AEP asks for as well, are not "
                "modelled"
            ),
            "the workbook was seen in a secondary source: check it before you file",
        ),
    )


def _yearly_peaks(
    request: ExportRequest, steps_ms: Int64Array
) -> tuple[dict[int, float], Float64Array]:
    """Return peak power by local year [W], and between installations of nodes [W]."""
    clock, zone = request.run.scenario.clock, request.run.scenario.facility.zone
    peak_by_year: dict[int, float] = {}
    phase_w = np.zeros(steps_ms.size)
    for block in request.blocks():
        local_times = local_ms(block.starts_ms, zone).astype("datetime64[ms]")
        local_year = local_times.astype("datetime64[Y]").astype(int) + 1970
        for year in np.unique(local_year).tolist():
            highest_w = float(block.power_w[local_year == year].max())
            peak_by_year[year] = max(peak_by_year.get(year, 0.0), highest_w)
        # A step in which nodes are installed belongs to the time after, as they draw
        # power in it.
        ends_ms = block.starts_ms - clock.wall.origin_ms + request.step_ms
        phase = np.searchsorted(steps_ms, ends_ms, side="left") - 1
        np.maximum.at(phase_w, phase[phase >= 0], block.power_w[phase >= 0])
    return peak_by_year, phase_w


def _installations(scenario: Scenario) -> tuple[Int64Array, Float64Array]:
    """Return times [ms] at which nodes are installed, and their rated power [W]."""
    added_w: dict[int, float] = {}
    for name, installed in scenario.installed_nodes().items():
        for time_ms, n_nodes in ((0, installed.first), *installed.added):
            rating_w = n_nodes * scenario.facility.node_type_of(name).rated_power_w
            added_w[time_ms] = added_w.get(time_ms, 0.0) + rating_w
    times_ms = sorted(added_w)
    return np.array(times_ms), np.array([added_w[time_ms] for time_ms in times_ms])


def _to_mw(power_w: float) -> float:
    """Convert a power from W to MW, rounded to 1 mW."""
    return float(to_mw(np.array(power_w)))
