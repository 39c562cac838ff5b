"""Export of the build-out for planners.

Rows of PJM's large-load workbook, and a ramp schedule as AEP asks for; both were seen
in secondary sources [S2].
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
from diploee.grid.export.text import in_mw
from diploee.metrics.demand import rated_power
from diploee.scenario.models import Scenario

PLACE = ("ZONENAME", "AREANAME")


def write_pjm_lla(request: ExportRequest) -> WrittenFiles:
    """Write tables of demand, capacity and a ramp schedule."""
    scenario, options = request.run.scenario, request.options
    steps_ms, added_w = _steps(scenario)
    facility, ratings = scenario.facility, "ratings of the devices that stand, MW"
    is_at_meter = request.options.column == POWER and (
        facility.stages or facility.has_ac_power
    )
    if is_at_meter and facility.nodes_power_w:
        # ASSUMPTION [J]: the rated power of a step is the site's in the ratio of the
        # ratings.
        rated_mw, _ = rated_power(request.run.metrics, facility)
        added_w = added_w * (rated_mw * W_PER_MW / facility.nodes_power_w)
        ratings = "rated power where the demand is taken, of the nodes that stand, MW"
    years, phase_w = _yearly_peaks(request, steps_ms)
    standing_w = np.cumsum(added_w)
    end_of: dict[int, float] = {}
    for year in years:
        midnight = scenario.start.replace(year + 1, 1, 1, 0, 0, 0, 0)
        end_ms = min(scenario.clock.wall.time_ms(midnight), scenario.horizon_ms)
        end_of[year] = float(standing_w[np.searchsorted(steps_ms, end_ms) - 1])
    place = (options.zone, options.area)
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]] = {}
    for name, values in (("demand", years), ("capacity", end_of)):
        row = [*place, *(_mw(value) for value in values.values())]
        tables[f"{name}.csv"] = ((*PLACE, *map(str, years)), [row])
    demand_w, capacity_w = max(years.values()), max(end_of.values())
    note = (
        "simulated: highest demand is "
        f"{demand_w / capacity_w if capacity_w else 0.0:.1%} of the capacity, which "
        "is what the nodes' ratings make where the demand is taken"
    )
    tables["summary.csv"] = (
        (*PLACE, "Capacity", "Demand", "Industry", "Note"),
        [[*place, _mw(capacity_w), _mw(demand_w), "data center", note]],
    )
    dates = [scenario.clock.wall.at(time_ms).date() for time_ms in steps_ms.tolist()]
    tables["ramp_schedule.csv"] = (
        ("date", "days_since_step", "step_mw", "capacity_mw", "demand_until_next_mw"),
        [
            [date.isoformat(), (date - last).days, *map(_mw, powers_w)]
            for date, last, *powers_w in zip(
                dates, [dates[0], *dates], added_w, standing_w, phase_w, strict=False
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
    """Return the peak powers [W] of local calendar years, and between steps."""
    clock, zone = request.run.scenario.clock, request.run.scenario.facility.zone
    years: dict[int, float] = {}
    phase_w = np.zeros(steps_ms.size)
    for block in request.blocks():
        local = local_ms(block.starts_ms, zone).astype("datetime64[ms]")
        number = local.astype("datetime64[Y]").astype(int) + 1970
        for year in np.unique(number).tolist():
            highest_w = float(block.power_w[number == year].max())
            years[year] = max(years.get(year, 0.0), highest_w)
        # An hour in which nodes come to stand is of the time behind the step, as they
        # draw in it.
        ends_ms = block.starts_ms - clock.wall.origin_ms + request.step_ms
        phase = np.searchsorted(steps_ms, ends_ms, side="left") - 1
        np.maximum.at(phase_w, phase[phase >= 0], block.power_w[phase >= 0])
    return years, phase_w


def _steps(scenario: Scenario) -> tuple[Int64Array, Float64Array]:
    """Return the installation times of nodes [ms], the first at 0, and ratings [W]."""
    added_w: dict[int, float] = {}
    for name, standing in scenario.installed_nodes().items():
        for time_ms, n_nodes in ((0, standing.first), *standing.added):
            more_w = n_nodes * scenario.facility.node_type_of(name).rated_power_w
            added_w[time_ms] = added_w.get(time_ms, 0.0) + more_w
    times_ms = sorted(added_w)
    return np.array(times_ms), np.array([added_w[time_ms] for time_ms in times_ms])


def _mw(power_w: float) -> float:
    return float(in_mw(np.array(power_w)))
