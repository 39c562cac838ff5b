"""Table by year: what a planner asks of each step of a build-out in each year.

A row is a step of the build-out within a calendar year, in one case: all its hours, or
those of a peak. ERCOT's batch study takes a summer peak, a summer net peak and a fall
peak of each year. Its load information form (LIF, sheet LCP) and PJM's large-load
workbook are views of the table.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from diploee.base.clock import local_ms
from diploee.base.errors import Brief, spreadsheet_cell
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import S_PER_H, W_PER_MW
from diploee.facility.base import POWER
from diploee.grid.export.base import ExportRequest
from diploee.metrics.demand import rated_power
from diploee.runs.formatting import interval
from diploee.scenario.models import Scenario

ALL_HOURS = "all hours"
PEAK_H = 20
"""ASSUMPTION: hours of a season's peak where no file gives them; studies of coincident
peaks take 4 to 100."""
SEASONS = {
    "summer peak": (range(6, 10), range(24), "June to September"),
    "summer net peak": (
        range(6, 10),
        range(19, 22),
        "June to September from 19:00 to 22:00, when solar power is low",
    ),
    "autumn peak": (range(10, 12), range(24), "October and November"),
}
"""ASSUMPTION: local months and hours of each case, of the northern hemisphere, and
their description."""
LEVELS = (50, 95)
DIGITS = 3  # of MW and Mvar: kW and kvar
NO_CONTRACT = "none given: yours to fill in"
NO_FIGURE = "none: the run does not model it"

Row = dict[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Header and rows of a table."""


@dataclass(frozen=True, eq=False)
class BuildOut(Brief):
    """Table by year, with the steps of the build-out."""

    rows: list[Row]  # one for each year, step and case
    dates: list[date]  # of each step
    added_mw: Float64Array  # rated power that each step adds
    rated_mw: Float64Array  # of all that stands from a step on
    ratings: str  # what the rated power is of

    @property
    def whole(self) -> list[Row]:
        """Rows of all hours, one for each step in each year."""
        return [row for row in self.rows if row["case"] == ALL_HOURS]

    def tables(self) -> dict[str, Table]:
        """Return the table, and the columns of ERCOT's LCP, by name."""
        lcp = (
            "Date",
            "Cumulative Peak MW",
            "Mvar",
            "Upgrade Project",
            "TPIT/RPG Number",
            "In-Service Date",
            "Contract MW",
            "Assumed",
        )
        rows = [[*map(_digits, row.values())] for row in self.rows]
        return {"by_year": ([*self.rows[0]], rows), "lcp": (lcp, [*self._lcp()])}

    def _lcp(self) -> Iterator[list[Any]]:
        """Yield the rows of LCP: each step's date, with the highest power so far."""
        whole = sorted(self.whole, key=itemgetter("step"))
        peak = whole[0]
        for _, of_step in groupby(whole, itemgetter("step")):
            now, *later = of_step
            peak = max(peak, now, *later, key=itemgetter("peak_mw"))
            assumed = (
                f"MW: {peak['mw_basis']}; Mvar: {peak['mvar_basis']}, at the time of "
                f"the peak; contract: {now['contract_basis']}; empty columns are the "
                "utility's"
            )
            figures = (peak["peak_mw"], peak["peak_mvar"], *[None] * 3)
            figures = (now["since"], *figures, now["contract_mw"], assumed)
            yield [*map(_digits, figures)]


def build_out(request: ExportRequest) -> BuildOut:
    """Return the table by year of an export's power."""
    scenario, facility = request.run.scenario, request.run.scenario.facility
    steps_ms, added_w = _steps(scenario)
    scale, ratings = _scale(request)
    added_mw = added_w * scale / W_PER_MW
    rated_mw = np.cumsum(added_mw)
    contracts = [c for s in facility.stages if (c := getattr(s, "contract", None))]
    contract_mw, contract_basis = np.full(rated_mw.size, np.nan), NO_CONTRACT
    if contracts and facility.nodes_power_w:
        part = rated_mw / (facility.nodes_power_w * scale / W_PER_MW)
        contract_mw, contract_basis = contracts[0].amount * part, contracts[0].name
        if facility.has_phases:
            contract_basis += ", of all nodes; assumed: in the ratio of their ratings"
    dates = [scenario.clock.wall.at(time_ms).date() for time_ms in steps_ms.tolist()]
    values, times = _read(request, steps_ms)
    bases = _bases(request)
    rows = []
    for year, step in np.unique([times["year"], times["step"]], axis=1).T.tolist():
        period = np.flatnonzero((times["year"] == year) & (times["step"] == step))
        for case, inside, hours_basis in _cases(request, period, times, values["mw"]):
            row = {
                "year": year,
                "step": step + 1,
                "since": dates[step].isoformat(),
                "case": case,
                "hours": inside.size * request.step_s / S_PER_H,
                "hours_basis": hours_basis,
                **_figures({name: of[inside] for name, of in values.items()}, bases),
                "rated_mw": rated_mw[step],
                "rated_basis": ratings,
                "contract_mw": contract_mw[step] if contracts else None,
                "contract_basis": contract_basis,
            }
            rows.append(row)
    return BuildOut(rows, dates, added_mw, rated_mw, ratings)


def _digits(value: Any) -> Any:
    """Return a figure with the digits that are written."""
    return round(float(value), DIGITS) if isinstance(value, float) else value


def write_csv_files(request: ExportRequest, tables: Mapping[str, Table]) -> None:
    """Write each table to a CSV file of its name."""
    for name, (header, rows) in tables.items():
        path = request.path / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(map(spreadsheet_cell, row) for row in (header, *rows))


def _steps(scenario: Scenario) -> tuple[Int64Array, Float64Array]:
    """Return the installation times of nodes [ms], the first at 0, and ratings [W]."""
    added_w: dict[int, float] = {}
    for name, standing in scenario.standing_nodes().items():
        for time_ms, n_nodes in ((0, standing.first), *standing.added):
            more_w = n_nodes * scenario.facility.node_type_of(name).rated_power_w
            added_w[time_ms] = added_w.get(time_ms, 0.0) + more_w
    times_ms = sorted(added_w)
    return np.array(times_ms), np.array([added_w[time_ms] for time_ms in times_ms])


def _scale(request: ExportRequest) -> tuple[float, str]:
    """Return what the devices' ratings are multiplied by, and what results."""
    facility = request.run.scenario.facility
    is_at_meter = request.options.column == POWER and (
        facility.stages or facility.has_ac_power
    )
    if is_at_meter and facility.nodes_power_w:
        # ASSUMPTION [J]: the rated power of a step is the site's in the ratio of the
        # ratings.
        rated_mw, _ = rated_power(request.run.metrics, facility)
        scale = rated_mw * W_PER_MW / facility.nodes_power_w
        return scale, "rated power where the demand is taken, of the nodes that stand"
    return 1.0, "ratings of the devices that stand"


def _read(
    request: ExportRequest, steps_ms: Int64Array
) -> tuple[dict[str, Float64Array], dict[str, Int64Array]]:
    """Return the series of each quantity, and year, month, hour and step of a time."""
    scenario, blocks = request.run.scenario, list(request.blocks())
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    mw = np.concatenate([block.power_w for block in blocks]) / W_PER_MW
    values = {"mw": mw}
    if reactive := [block.q_mvar for block in blocks if block.q_mvar is not None]:
        values["mvar"] = mvar = np.concatenate(reactive)
        # Without any power the factor is 1
        apparent = np.where(mvar, np.hypot(mw, mvar), np.abs(mw) + (mw == 0))
        values["power_factor"] = np.where(mvar, np.abs(mw), apparent) / apparent
    for part, names in _parts(request).items():
        read = request.source.blocks(names, request.step_ms, request.spans[0])
        sums_w = [np.sum([*block.columns.values()], axis=0) for block in read]
        values[part] = np.concatenate(sums_w) / W_PER_MW
    local = local_ms(starts_ms, scenario.facility.zone).astype("datetime64[ms]")
    # An hour in which nodes come to stand is of the time behind the step, as they draw
    # in it.
    ends_ms = starts_ms - scenario.clock.wall.origin_ms + request.step_ms
    return values, {
        "year": local.astype("datetime64[Y]").astype(int) + 1970,
        "month": local.astype("datetime64[M]").astype(int) % 12 + 1,
        "hour": local.astype("datetime64[h]").astype(int) % 24,
        "step": np.searchsorted(steps_ms, ends_ms, side="left") - 1,
    }


def _parts(request: ExportRequest) -> dict[str, list[str]]:
    """Return the columns of IT and of cooling within the facility's power."""
    if request.options.column != POWER:
        return {}
    names = request.source.check()
    of_it = [name for name in ("it_ac_power_w", "it_power_w") if name in names]
    cooling = [c.name for c in request.run.columns if c.role == "cooling"]
    cooling = [name for name in cooling if name in names]
    return {"it_mw": of_it[:1]} | ({"cooling_mw": cooling} if cooling else {})


def _bases(request: ExportRequest) -> dict[str, str]:
    """Return what the figures of each quantity are, and what is assumed."""
    run, means = request.run, f"simulated means over {interval(request.step_ms)}"
    parts, reactive = _parts(request), f"{NO_FIGURE}, and no power factor is made up"
    if isinstance(request.reactive, str):
        n_assumed = len(run.manifest.get("assumed", ()))
        reactive = f"modelled, with {n_assumed} assumed terms that the sidecar lists"
    elif request.reactive is not None:
        reactive = f"of {request.reactive.path.name} at the mean MW of each step"
    return {
        "mw": f"{means}, {run.boundary(request.options.column)}",
        "mvar": f"{reactive}; above 0 drawn",
        "power_factor": "of MW and Mvar at each step; low values are the worse ones"
        if request.has_reactive
        else reactive,
        **{
            part: f"{means}, {' and '.join(map(run.boundary, parts[part]))}"
            if part in parts
            else NO_FIGURE
            for part in ("it_mw", "cooling_mw")
        },
    }


def _cases(
    request: ExportRequest,
    period: Int64Array,
    times: Mapping[str, Int64Array],
    mw: Float64Array,
) -> Iterator[tuple[str, Int64Array, str]]:
    """Yield the cases of a period: name, positions in the series, and their choice."""
    yield ALL_HOURS, period, "all of the step in the year"
    if request.options.peaks is not None:
        for name, positions in _named_positions(request).items():
            yield name, np.intersect1d(period, positions), "from the file of peaks"
        return
    n_highest = max(round(PEAK_H * S_PER_H / request.step_s), 1)
    for name, (months, hours, when) in SEASONS.items():
        is_inside = np.isin(times["month"], months) & np.isin(times["hour"], hours)
        inside = period[is_inside[period]]
        highest = inside[np.argsort(-mw[inside], kind="stable")[:n_highest]]
        how = f"assumed: at most {PEAK_H} h of the site's own highest load in {when}"
        yield name, highest, how


def _named_positions(request: ExportRequest) -> dict[str, Int64Array]:
    """Return the positions in which the intervals of a file lie, by their names."""
    result: dict[str, Int64Array] = {}
    n_rows = request.rows_per_step
    for span in request.options.peaks or ():
        first, end = request.source.rows_of(span)
        of_span = np.arange(first // n_rows, -(-end // n_rows))
        name = span.name or "peak"
        result[name] = np.union1d(result.get(name, of_span), of_span)
    return result


def _figures(
    values: Mapping[str, Float64Array], bases: Mapping[str, str]
) -> dict[str, float | str | None]:
    """Return peak and levels of each quantity, and its basis; None without hours."""
    mw, row = values["mw"], dict[str, float | str | None]()
    for name, basis in bases.items():
        of = values.get(name, mw[:0])
        if name in ("mw", "mvar"):
            row[f"peak_{name}"] = of[np.argmax(mw)] if of.size else None
        for level in LEVELS:
            row[f"{name}_p{level}"] = np.percentile(of, level) if of.size else None
        row[f"{name}_basis"] = basis
    return row
