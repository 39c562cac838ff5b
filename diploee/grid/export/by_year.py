"""Table by year: demand of a site in each calendar year and step of its build-out.

A row is for one calendar year, one step of the build-out, and one case: all hours, or
those of a seasonal peak. The seasonal peaks are those of ERCOT's batch study: summer
peak, summer net peak and fall peak. ERCOT's load information form (LIF, sheet LCP) and
PJM's large-load workbook are filled from this table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.errors import Brief
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import S_PER_H, W_PER_MW
from diploee.facility.base import POWER
from diploee.grid.export.base import ExportRequest
from diploee.metrics.demand import rated_power
from diploee.runs.formatting import interval
from diploee.scenario.models import Scenario

if TYPE_CHECKING:
    import pandas as pd

ALL_HOURS = "all hours"
PEAK_H = 20
"""ASSUMPTION: hours in a season's peak if no file lists them; studies of coincident
peaks use 4 to 100 hours."""
SEASONS = {
    "summer peak": (range(6, 10), range(24), "June to September"),
    "summer net peak": (
        range(6, 10),
        range(19, 22),
        "June to September from 19:00 to 22:00, when solar power is low",
    ),
    "autumn peak": (range(10, 12), range(24), "October and November"),
}
"""ASSUMPTION: months and hours of the day (local time, northern hemisphere) of each
case, with a description."""
DIGITS = 3  # of MW and Mvar: kW and kvar
NO_FIGURE = "none: the run does not model it"
LCP = (
    "Date",
    "Cumulative Peak MW",
    "Mvar",
    "Upgrade Project",
    "TPIT/RPG Number",
    "In-Service Date",
    "Contract MW",
    "Assumed",
)

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Header and rows of a table."""


@dataclass(frozen=True, eq=False)
class BuildOut(Brief):
    """Table by year, with date and rated power of each step of the build-out."""

    rows: pd.DataFrame  # one for each year, step and case that has hours
    dates: list[date]  # of each step
    rated_mw: Float64Array  # rated power of all nodes installed up to each step
    ratings: str  # description of the rated power

    @property
    def whole(self) -> pd.DataFrame:
        """Rows of the case of all hours: a row for each step in each year."""
        return self.rows[self.rows["case"] == ALL_HOURS]

    def tables(self) -> dict[str, Table]:
        """Return the table by year and the table of ERCOT's sheet LCP, by name."""
        rows = _rounded_rows(self.rows)
        return {
            "by_year": (rows.columns.tolist(), rows.to_numpy().tolist()),
            "lcp": (LCP, [*self._lcp()]),
        }

    def _lcp(self) -> Iterator[list[Any]]:
        """Yield rows of LCP: each step's date and the highest power up to the step."""
        highest = self.whole.sort_values("peak_mw", ascending=False, kind="stable")
        for step in highest["step"].sort_values().unique().tolist():
            so_far = _rounded_rows(highest[highest["step"] <= step])
            peak = so_far.iloc[0]
            now = so_far[so_far["step"] == step].iloc[0]
            assumed = (
                f"MW: {peak['mw_basis']}; Mvar: {peak['mvar_basis']}, at the time of "
                f"the peak; contract: {now['contract_basis']}; empty columns are the "
                "utility's"
            )
            figures = (now["since"], peak["peak_mw"], peak["peak_mvar"])
            yield [*figures, None, None, None, now["contract_mw"], assumed]


def build_out(request: ExportRequest) -> BuildOut:
    """Return the table by year of the site's demand, for an export file."""
    import pandas as pd

    scenario, facility = request.run.scenario, request.run.scenario.facility
    steps_ms, added_w = installed_power(scenario)
    scale, ratings = _scale(request)
    rated_mw = np.cumsum(added_w * scale / W_PER_MW)
    dates = [scenario.clock.wall.at(time_ms).date() for time_ms in steps_ms.tolist()]
    contract_mw, contract_basis = None, "none given: yours to fill in"
    for stage in facility.stages:
        if contract := getattr(stage, "contract", None):
            part = np.cumsum(added_w) / max(facility.nodes_power_w, 1.0)
            contract_mw, contract_basis = contract.amount * part, contract.name
            if facility.has_phases:
                contract_basis += (
                    ", of all nodes; assumed: in the ratio of their ratings"
                )
    cases = [*_cases(request, _hours(request, steps_ms))]
    parts = [case_hours.assign(case=k) for k, (_, _, case_hours) in enumerate(cases)]
    hours, key = pd.concat(parts, ignore_index=True), ["year", "step", "case"]
    groups = hours.groupby(key)
    peaks = hours.loc[groups["mw"].idxmax()].set_index(key)
    columns = {
        "hours": groups.size() * request.step_s / S_PER_H,
        "hours_basis": "",
        "peak_mw": peaks["mw"],
        "peak_mvar": peaks.get("mvar"),
    }
    for name, basis in _bases(request).items():
        for percent in (5, 50) if name == "power_factor" else (50, 95):
            values = groups[name].quantile(percent / 100) if name in hours else None
            columns[f"{name}_p{percent}"] = values
        columns[f"{name}_basis"] = basis
    rows = pd.DataFrame(columns).reset_index()
    step, names = rows["step"] - 1, [(name, basis) for name, basis, _ in cases]
    rows["case"], rows["hours_basis"] = np.take(names, rows["case"], axis=0).T
    rows["rated_mw"], rows["rated_basis"] = rated_mw[step], ratings
    rows["contract_mw"] = None if contract_mw is None else contract_mw[step]
    rows["contract_basis"] = contract_basis
    rows.insert(2, "since", [dates[k].isoformat() for k in step])
    return BuildOut(rows, dates, rated_mw, ratings)


def _rounded_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows rounded to the digits of the files, with None for absent values."""
    rounded = rows.round(DIGITS)
    return rounded.astype(object).where(rounded.notna(), None)


def installed_power(scenario: Scenario) -> tuple[Int64Array, Float64Array]:
    """Return the times of installations [ms], the first at 0, and added rating [W]."""
    added_w: dict[int, float] = {}
    for name, standing in scenario.installed_nodes().items():
        for time_ms, n_nodes in ((0, standing.first), *standing.added):
            more_w = n_nodes * scenario.facility.node_type_of(name).rated_power_w
            added_w[time_ms] = added_w.get(time_ms, 0.0) + more_w
    times_ms = sorted(added_w)
    return np.array(times_ms), np.array([added_w[time_ms] for time_ms in times_ms])


def _scale(request: ExportRequest) -> tuple[float, str]:
    """Return the ratio of rated power to device ratings, and its description."""
    facility = request.run.scenario.facility
    is_at_meter = request.options.column == POWER and (
        facility.stages or facility.has_ac_power
    )
    if is_at_meter and facility.nodes_power_w:
        # ASSUMPTION: the rated power of each step is proportional to its device
        # ratings.
        rated_mw, _ = rated_power(request.run.metrics, facility)
        scale = rated_mw * W_PER_MW / facility.nodes_power_w
        return scale, "rated power where the demand is taken, of the nodes that stand"
    return 1.0, "ratings of the devices that stand"


def _hours(request: ExportRequest, steps_ms: Int64Array) -> pd.DataFrame:
    """Return a row per interval: year, month, hour, build-out step, and quantities."""
    import pandas as pd

    scenario, blocks = request.run.scenario, list(request.blocks())
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    # An interval in which nodes are installed belongs to the later step, as these nodes
    # draw power in it.
    ends_ms = starts_ms - scenario.clock.wall.origin_ms + request.step_ms
    local = pd.to_datetime(starts_ms, unit="ms", utc=True)
    local = local.tz_convert(scenario.facility.zone)
    series = {
        "year": local.year,
        "month": local.month,
        "hour": local.hour,
        "step": np.searchsorted(steps_ms, ends_ms, side="left"),  # from 1 on
        "mw": np.concatenate([block.power_w for block in blocks]) / W_PER_MW,
    }
    for part, columns in _parts(request).items():
        read = request.source.blocks(columns, request.step_ms, request.spans[0])
        sums_w = [np.sum([*block.columns.values()], axis=0) for block in read]
        series[part] = np.concatenate(sums_w) / W_PER_MW
    hours = pd.DataFrame(series)
    if reactive := [block.q_mvar for block in blocks if block.q_mvar is not None]:
        hours["mvar"] = np.concatenate(reactive)
        apparent = (hours["mw"] ** 2 + hours["mvar"] ** 2) ** 0.5
        factor = hours["mw"].abs() / apparent
        hours["power_factor"] = factor.fillna(1.0)  # without any power
    return hours


def _parts(request: ExportRequest) -> dict[str, list[str]]:
    """Return the names of the columns that add up to IT power and cooling power."""
    if request.options.column != POWER:
        return {}
    names = request.source.check()
    it = "it_ac_power_w" if "it_ac_power_w" in names else "it_power_w"
    cooling = [c.name for c in request.run.columns if c.role == "cooling"]
    parts = {"it_mw": [it], "cooling_mw": [name for name in cooling if name in names]}
    return {part: columns for part, columns in parts.items() if columns}


def _bases(request: ExportRequest) -> dict[str, str]:
    """Return the source and the assumptions of each quantity, as text."""
    run, means = request.run, f"simulated means over {interval(request.step_ms)}"
    parts, reactive = _parts(request), f"{NO_FIGURE}, and no power factor is made up"
    if isinstance(request.reactive, str):
        reactive = "modelled, with assumed terms that the sidecar lists"
    elif request.reactive is not None:
        reactive = f"of {request.reactive.path.name} at the mean MW of each step"
    return {
        "mw": f"{means}, {run.boundary(request.options.column)}",
        "mvar": f"{reactive}; above 0 drawn",
        "power_factor": "of MW and Mvar at each step; low is worse, so P5 and not P95",
        **{
            part: f"{means}, {' and '.join(map(run.boundary, parts[part]))}"
            if part in parts
            else NO_FIGURE
            for part in ("it_mw", "cooling_mw")
        },
    }


def _cases(
    request: ExportRequest, hours: pd.DataFrame
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the name, the description and the rows of each case."""
    yield ALL_HOURS, "all of the step in the year", hours
    if request.options.peaks is not None:
        named, n_rows = defaultdict[str, set[int]](set), request.rows_per_step
        for span in request.options.peaks:
            first, end = request.source.rows_of(span)
            named[span.name or "peak"] |= {*range(first // n_rows, -(-end // n_rows))}
        for name, positions in named.items():
            step = interval(request.step_ms)
            how = f"of the file of peaks: whole steps of {step} that its rows touch"
            yield name, how, hours.iloc[sorted(positions)]
        return
    n_highest = max(round(PEAK_H * S_PER_H / request.step_s), 1)
    for name, (months, of_day, when) in SEASONS.items():
        inside = hours[hours["month"].isin(months) & hours["hour"].isin(of_day)]
        highest = inside.sort_values("mw", ascending=False, kind="stable")
        how = f"assumed: at most {PEAK_H} h of the site's own highest load in {when}"
        yield name, how, highest.groupby(["year", "step"]).head(n_highest)
