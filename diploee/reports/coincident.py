"""Demand at coincident peaks over several runs: by interval, with its spread over seeds."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import InputError, cell, plural
from diploee.files import whole_file
from diploee.metric import NONE
from diploee.metrics.limits import LimitReport, Limits, check_limits
from diploee.outputs import Run, open_run
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.reports.data import run_labels
from diploee.reports.peak_intervals import CoincidentDemand, PeakInterval, coincident_demand
from diploee.reports.sweep_data import RUNS_FOLDER, is_sweep, read_sweep, short_name, value_text
from diploee.reports.words import moment
from diploee.tables import Float64Array

SPREAD = (5, 95)
"""Percentiles over seeds."""


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ by their seed, and what it draws, and their demand at the peaks."""

    label: str  # name by which they differ from others
    runs: tuple[Run, ...]  # the runs
    demands: tuple[tuple[CoincidentDemand, ...], ...]  # of each run, of each interval
    reports: tuple[LimitReport, ...] = ()  # of each run, where it is checked against limits

    @property
    def boundary(self) -> str:
        """Where the power is taken."""
        return self.runs[0].boundary()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each interval and one for the mean of all, in plain types.

        Of several seeds `mw`, `mvar` and those of the own peak are means over them; `mw_p5` and
        `mw_p95` are percentiles over seeds, linear between values.
        """
        first = self.demands[0]
        heads: list[dict[str, Any]] = [
            {"name": d.name, "start": d.start.isoformat(), "end": d.end.isoformat()} for d in first
        ]
        values = {
            "mw": self._values("mw"),
            **({"mvar": self._values("mvar")} if first[0].mvar is not None else {}),
            "own_peak_mw": self._values("own_peak_mw"),
            "share_of_own_peak": self._values("share"),
        }
        # The mean of a run over its intervals comes before the percentile over runs.
        whole = {key: np.column_stack([v, v.mean(axis=1)]) for key, v in values.items()}
        spread = zip(*np.percentile(whole["mw"], SPREAD, axis=0), strict=True)
        rows = []
        for k, (head, (low, high)) in enumerate(
            zip([*heads, {"name": "mean", "start": None, "end": None}], spread, strict=True)
        ):
            row = head | {key: float(v[:, k].mean()) for key, v in whole.items()}
            if len(self.runs) > 1:
                row |= {"mw_p5": float(low), "mw_p95": float(high)}
            rows.append(row)
        return rows

    def _values(self, name: str) -> Float64Array:
        """Return a value of every run (rows) and interval (columns)."""
        return np.array([[getattr(demand, name) for demand in of_run] for of_run in self.demands])

    def lines(self) -> list[str]:
        """Return the demands and the verdicts, one a line."""
        seeds = f" of {plural(len(self.runs), 'seed')}" if len(self.runs) > 1 else ""
        lines = [f"{self.label}{seeds}, power boundary: {self.boundary}"]
        for row in self.rows():
            when = f"{moment(row['start'])} to {moment(row['end'])}" if row["start"] else ""
            spread = f", P5 {row['mw_p5']:.3f}, P95 {row['mw_p95']:.3f}" if "mw_p5" in row else ""
            mvar = f", {row['mvar']:.3f} Mvar" if "mvar" in row else ""
            name = " ".join(filter(None, (row["name"], when))) or NONE
            share = (
                f"{100 * row['share_of_own_peak']:.1f} % of own peak, {row['own_peak_mw']:.3f} MW"
            )
            lines.append(f"  {name}: {row['mw']:.3f} MW{spread}{mvar}, {share}")
        for run, report in zip(self.runs, self.reports, strict=bool(self.reports)):
            of_run = f"seed {run.manifest.get('seed')}: " if seeds else ""
            lines += [f"  {of_run}{line}" for line in report.lines()]
        return lines


def at_peaks(
    folders: Sequence[Path | str], intervals: Sequence[PeakInterval], limits: Limits | None = None
) -> list[SeedGroup]:
    """Return the demand of runs at the peaks; seeds of one scenario, or of a point, together."""
    places = [Path(folder) for folder in folders]
    groups = _alike([open_run(place) for place in places if not is_sweep(place)])
    for place in filter(is_sweep, places):
        groups += _points(place)
    return [
        SeedGroup(
            label,
            tuple(of_group),
            tuple(tuple(coincident_demand(run, intervals)) for run in of_group),
            tuple(check_limits(run, limits) for run in of_group) if limits else (),
        )
        for label, of_group in groups
    ]


def write_demands(
    groups: Sequence[SeedGroup], out: Path, *, force: bool = False, inputs: Sequence[Path] = ()
) -> None:
    """Write the rows of all groups as CSV."""
    rows = [{"run": group.label} | row for group in groups for row in group.rows()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        whole_file(out, force, inputs=inputs) as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)


def _alike(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Return the runs that differ by their seed alone together, with a label."""
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        settings = dict(run.manifest["scenario"]) | {"seed": None}
        of_group = groups.setdefault(json.dumps(settings, sort_keys=True), {})
        if (same := of_group.setdefault(run.scenario.seed, run)) is not run:
            raise InputError(
                f"{run.folder}: the same scenario and seed as {same.folder}; give each once"
            )
    found = [list(of_group.values()) for of_group in groups.values()]
    return list(zip(run_labels([first for first, *_ in found]), found, strict=True))


def _points(folder: Path) -> list[tuple[str, list[Run]]]:
    """Return the finished runs of each point of a sweep; seeds may have drawn further values."""
    sweep = read_sweep(folder)
    groups: dict[str, list[Run]] = {}
    for _, row in sweep.finished.iterrows():
        place = folder / RUNS_FOLDER / str(row["run"])
        if not (place / FACILITY_FILE).is_file():
            raise InputError(
                f"{place}: keeps no power series to find demand in; sweep with 'keep: series'"
            )
        point = ", ".join(f"{short_name(axis)} {value_text(row[axis])}" for axis in sweep.axes)
        groups.setdefault(point or sweep.name, []).append(open_run(place))
    return list(groups.items())
