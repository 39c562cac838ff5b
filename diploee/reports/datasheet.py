"""The data sheet of a load for its interconnection: what planners ask for, on one page.

Figures come from the run's declared metrics where there are such; what a run does not support is
given with the reason. Fields as they are asked for by Southern's appendix, Ameren, AEP and NERC's
guideline of 2026-05 (mostly seen in secondary sources).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from diploee.clock import WallClock
from diploee.errors import InputError, cell, printable
from diploee.files import check_file, writing
from diploee.measures.series import MAX_DAY_POWER_W, ClockSums, Series, to_quanta
from diploee.metrics.at_step import PEAK_MS, RAMP_MS
from diploee.metrics.demand import load_factor, rated_of
from diploee.outputs import Run, open_run
from diploee.outputs.folder import refuse_in_run, run_files
from diploee.outputs.ranked import RunView, limits_section, provenance
from diploee.outputs.sections import COLUMNS, Figure, Section, Table, long_rows
from diploee.outputs.words import interval, listed, moment
from diploee.progress import stage
from diploee.reports.build import Report, period
from diploee.reports.page import is_report, report_page
from diploee.reports.peak_intervals import coincident_demand, read_peak_intervals
from diploee.tables import Float64Array, Int64Array
from diploee.units import MEGAWATT, MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_MW

NO_TIME = b"1980-01-01T00:00:00Z"
QUARTER_MS = 15 * MS_PER_MIN
QUANTILES = (50.0, 90.0, 99.0, 99.9)
MOST_LINES = 5
MOST_MONTHS = 24
BUILD_OUT = (
    "Demand: the largest until the next step; it and the rated power are taken where the sheet's "
    "power is. ASSUMPTION [J]: the rated power of a step is the site's in the ratio of the nodes' "
    "ratings."
)
NO_METER = (
    "The run ends before the grid's meter: give ac_power of the nodes and facility.stages up to a "
    "point_of_interconnection to have what a utility sees."
)
_NOT_THERE = "not in the run's metrics"

Entry = Mapping[str, Any]


def data_sheet(run: Run, limits: Sequence[str] = (), peaks: Path | str | None = None) -> Report:
    """Return the data sheet of a run."""
    view, quarters = RunView(run, MEGAWATT), _Quarters.of(run)
    demands = [run.limits(name) for name in limits]
    sections = [
        Section("site", "Site and applicant", tuple(_site(run))),
        Section("connection", "Connection", tuple(_connection(run))),
        Section("active", "Active power", tuple(_active(view, quarters))),
        _tabular("averaging", "Peak and ramps by averaging time", _by_averaging(view), AVERAGING),
        Section("reactive", "Reactive power", tuple(_reactive(view))),
        Section(
            "ramps", "Ramps and swings", tuple(_ramps(view)),
            notes=("A ramp is the difference of adjacent means over its length.",),
        ),
        _tabular("lines", "Strongest lines of the spectrum", _lines(run)),
        _tabular(
            "shares", "Share of AI training", _shares(run),
            "Of the devices' energy. ASSUMPTION [J]: jobs are training, fine-tuning among it, "
            "unless all of a stream's classes are batch inference.",
        ),
        _tabular("months", "Demand by month or year", _months(run, quarters)),
        _tabular(
            "peaks", "Demand at coincident peaks", _coincident(run, peaks),
            "Own peak: the largest demand over clock intervals as long, of 15, 30 or 60 min; "
            "else the largest of the run's interval means."
            if peaks
            else "",
        ),
        _tabular("build-out", "Build-out and ramp schedule", _build_out(run, quarters), BUILD_OUT),
    ]  # fmt: skip
    if limits:
        checked = limits_section([(run, report, "") for report in demands])
        sections.append(replace(checked, charts=()))
    metered = bool(run.metrics.get("poi"))
    return Report(
        run.scenario.name,
        f"{period(run)}; power: {run.boundary()}",
        (*sections, provenance(run)),
        kind="Interconnection data sheet",
        notes=(
            *(() if metered else (NO_METER,)),
            *(str(warning) for warning in run.manifest.get("warnings") or ()),
            "Not from a run: ride-through, harmonics, flicker, parameters of dynamic models "
            "(PERC1, composite load); a load record of a named moment: diploee export psse-raw.",
        ),
        is_sheet=True,
    )


def _tabular(id_: str, title: str, found: Iterator[Figure], note: str = "") -> Section:
    """Return a section of a table where the figures have quantities, else of plain figures."""
    figures, notes = tuple(found), (note,) if note else ()
    if any(figure.quantity for figure in figures):
        return Section(id_, title, (), (Table("", figures),), notes=notes)
    return Section(id_, title, figures, notes=notes)


_UNITS = {"kv": "kV", "mva": "MVA", "percent": "%", "s": "s"}


def _site(run: Run) -> Iterator[Figure]:
    """Yield the blanks of a form: what a scenario's `site` gives, empty lines for the rest."""
    for key in type(run.scenario.site).model_fields:
        name, _, last = key.rpartition("_")
        unit = _UNITS.get(last, "")
        label = (name if unit else key).replace("_", " ").replace("ups ride", "UPS ride-")
        label = label.replace("- through", "-through").replace("x over r", "X/R")
        value = getattr(run.scenario.site, key)
        yield Figure(f"{label[:1].upper()}{label[1:]}", "" if value is None else value, unit)


def _no_load(run: Run) -> str:
    """Return why a run has no load factor: it draws nothing, or exports more than it draws."""
    peak = (run.metrics.get("grid") or {}).get("peak") or {}
    if run.metrics["power"]["mean_mw"] < 0:
        return "the site exports more than it draws"
    return "there is no load" if peak.get("max_mw") == 0 else ""


def _connection(run: Run) -> Iterator[Figure]:
    facility = run.scenario.facility
    contracts = [c for s in facility.stages if (c := getattr(s, "contract", None))]
    amount, what = contracts[0] if contracts else (None, "no contract_mw or contract_mva given")
    yield Figure("Contract", amount, "MVA" if "MVA" in what else "MW", what)
    rated_mw, what = rated_of(run.metrics, facility)
    yield Figure("Rated power", rated_mw or None, "MW", what if rated_mw else _NOT_THERE)
    if facility.stages or facility.has_ac_power:
        given = "rated_power_mw" if facility.rated_power_mw is not None else "the nodes' ratings"
        devices = f"{given}, before supplies, losses and cooling"
        yield Figure("Device rating", facility.rated_power_w / W_PER_MW, "MW", devices)
    yield Figure("Time zone", facility.time_zone or f"UTC{facility.utc_offset}")
    pools = (f"{pool.n_nodes:,} in {name}" for name, pool in facility.pools.items())
    yield Figure("Nodes", "; ".join(pools))
    weather = facility.weather
    yield Figure("Weather", weather.kind.replace("_", " ") if weather else "none given")


def _declared(view: RunView, key: str, name: str = "", note: str = "", absent: str = "") -> Figure:
    """Return a declared metric as a figure; where the run lacks it, why."""
    metric = view.metric(key)
    assert metric is not None, key
    found = view.figure(key, name, note)
    return found or Figure(name or metric.name, None, metric.suffix, absent or _NOT_THERE)


def _active(view: RunView, quarters: _Quarters) -> Iterator[Figure]:
    run, values = view.run, view.values
    scenario, means = run.scenario, f"{interval(view.step_ms)} means"
    fills_h = values.get("grid.transient_h") or 0
    mean_of = f"mean of the whole run, peak without the first {fills_h:.3g} h of filling up"
    filled = mean_of if fills_h else ""
    peak_of = "; ".join(filter(None, (f"peak of {means}", filled)))
    demand = "grid.maximum_demand.intervals.15min"
    why, exported_h = quarters.absent, values.get("poi.exported_h")
    for key, name, note, absent in (
        ("power.energy_mwh", "", "", ""),
        ("grid.peak.max_mw", "Peak", view.when("grid.peak.max_mw"), ""),
        (f"{demand}.max_mw", "Maximum demand, 15 min", view.when(f"{demand}.max_mw"), why),
        ("grid.minimum.min_mw", "Minimum", view.when("grid.minimum.min_mw"), ""),
        ("poi.exported_mwh", "Energy exported", f"in {exported_h or 0:.3g} h of the run", ""),
        ("power.median_mw", "Typical (median)", means, ""),
        ("power.mean_mw", "Mean", "", ""),
        ("grid.load_factor", "Load factor, of own peak", peak_of, _no_load(run)),
        (f"{demand}.load_factor", "Load factor, of 15 min demand", filled, why or _no_load(run)),
    ):
        if key != "poi.exported_mwh" or values.get(key):
            yield _declared(view, key, name, note, absent)
    (rated_mw, what), phased = rated_of(run.metrics, scenario.facility), " of all phases"
    note = f"{what}{phased if scenario.facility.has_phases else ''}"
    yield _load_factor_of("rated power", run, rated_mw, note)
    for each in scenario.facility.stages:
        if contract := getattr(each, "contract", None):
            yield _load_factor_of("contract", run, *contract)
    for level in QUANTILES:
        most = float(np.percentile(quarters.mw, level)) if quarters.mw.size else None
        yield Figure(f"15 min demand, P{level:g}", most, "MW", why)


def _load_factor_of(name: str, run: Run, most_mw: float, note: str) -> Figure:
    """Return the mean power over a power of the same boundary."""
    factor = load_factor(run.metrics["power"]["mean_mw"], most_mw)
    why = _no_load(run) or f"no {name}"
    return Figure(f"Load factor, of {name}", factor, note=why if factor is None else note)


def _reactive(view: RunView) -> Iterator[Figure]:
    poi = view.run.metrics.get("poi") or {}
    if not poi:
        why = "facility.stages have no point_of_interconnection, so none is modelled"
        yield Figure("Reactive power", None, "Mvar", why)
        return
    hours = view.run.scenario.horizon_ms / MS_PER_H
    typical = (poi["drawn_mvarh"] - poi["supplied_mvarh"]) / hours
    yield _declared(view, "poi.peak.reactive_mvar", "At the peak", view.when("poi.peak.max_mw"))
    for which in ("max", "min"):
        key = f"poi.reactive.{which}_mvar"
        yield _declared(view, key, f"{which.title()}imum", view.when(key))
    yield Figure("Typical (mean)", typical, "Mvar", "drawn less supplied")
    for key, name in (
        ("poi.peak.power_factor", "Power factor at the peak"),
        ("poi.lagging_power_factor", "Power factor, mean lagging"),
        ("poi.leading_power_factor", "Power factor, mean leading"),
        ("poi.apparent.max_mva", "Maximum apparent power"),
    ):
        yield _declared(view, key, name)


AVERAGING = (
    "Peaks are the largest of consecutive means, ramps of adjacent ones. What is empty needs a run "
    "at a finer step, such as --set 'step=0.1 s'."
)


def _by_averaging(view: RunView) -> Iterator[Figure]:
    """Yield peak and ramps in one row each, from the steps of the run where these are finer."""
    values, at_step = view.values, "grid.at_step"
    for length_ms in sorted({*PEAK_MS, *RAMP_MS}):
        name, quantity = f"{length_ms / MS_PER_S:g}s", f"{interval(length_ms)} means"
        if length_ms in PEAK_MS:
            peak_mw = values.get(f"{at_step}.peaks.{name}.max_mw")
            if peak_mw is None and length_ms == view.step_ms:
                peak_mw = values.get("grid.peak.max_mw")
            if peak_mw is None and length_ms == QUARTER_MS:
                peak_mw = values.get("grid.maximum_demand.intervals.15min.max_mw")
            yield Figure("Peak [MW]", peak_mw, quantity=quantity)
        for way in ("up", "down") if length_ms in RAMP_MS else ():
            rate = values.get(f"{at_step}.ramps.{name}.{way}_mw_per_min")
            if rate is None:
                rate = values.get(f"grid.ramps.intervals.{name}.{way}.max_mw_per_min")
            yield Figure(f"Largest ramp {way} [MW/min]", rate, quantity=quantity)


def _ramps(view: RunView) -> Iterator[Figure]:
    grid = view.run.metrics.get("grid") or {}
    ramps = grid.get("ramps") or {"intervals": [], "absent": []}
    bounds = {e["interval_s"]: e.get("lower_bound") for e in ramps["intervals"]}
    for length_s, length in ((60, "1 min"), (600, "10 min")):
        for way in ("up", "down"):
            key = f"grid.ramps.intervals.{length_s}s.{way}.max_mw_per_min"
            when = moment(view.values.get(f"{key.rpartition('.')[0]}.time"), view.step_ms)
            note = f"{when}; lower bound" if bounds.get(length_s) else when
            why = _why(ramps, "interval_s", length_s)
            yield _declared(view, key, f"Largest ramp {way}, {length}", note, why)
    swings = grid.get("rolling_range") or {"windows": [], "absent": []}
    for entry in swings["windows"]:
        yield Figure(
            f"Largest swing within {interval(round(entry['window_s'] * MS_PER_S))}",
            entry["max_mw"], "MW", moment(entry["time"], view.step_ms),
        )  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for entry in swings["absent"]:
        length = interval(round(entry["window_s"] * MS_PER_S))
        reasons.setdefault(entry["reason"], []).append(length)
    for reason, lengths in reasons.items():
        yield Figure(f"Largest swing within {listed(lengths)}", None, "MW", reason)
    for name, window in view.run.event_windows.items():
        kind, _, length = name.partition("_")
        if length:
            yield Figure(
                f"Largest {kind}, {length.removesuffix('s')} s means",
                abs(window["value_mw"]), "MW", moment(window["at"], MS_PER_S),
            )  # fmt: skip


def _why(block: Entry, key: str, length_s: float) -> str:
    found = (entry["reason"] for entry in block["absent"] if entry[key] == length_s)
    return next(found, _NOT_THERE)


def _lines(run: Run) -> Iterator[Figure]:
    spectrum = (run.metrics.get("grid") or {}).get("spectrum") or {}
    lines = sorted(spectrum.get("lines") or (), key=lambda line: -line["rms_mw"])
    for line in lines[:MOST_LINES]:
        name = f"{line['frequency_hz']:.4f} Hz"
        note = "flagged: above what the profiles are trusted for" if line["flagged"] else ""
        yield Figure(name, line["period_s"], "s", note, "period")
        yield Figure(name, line["rms_mw"], "MW", note, "rms")
        yield Figure(name, line["over_floor"], "", line.get("reason", note), "over the floor")
    if not lines:
        bands = spectrum.get("bands")
        reasons = Counter(entry["reason"] for entry in spectrum.get("absent") or ())
        why = "no line stands out" if bands else next(iter(reasons), _NOT_THERE)
        yield Figure("Lines", None, "", why)


def _shares(run: Run) -> Iterator[Figure]:
    """Yield the parts of the devices' energy, which the cause of the peak holds as means."""
    cause = ((run.metrics.get("grid") or {}).get("peak") or {}).get("cause") or {}
    of_devices = ("jobs", "instances", "replicas", "idle nodes")
    parts = [part for part in cause.get("parts") or () if part["what"] in of_devices]
    if not parts or not sum(part["mean_mw"] for part in parts):
        yield Figure("AI training", None, "%", "the run's metrics do not split its energy")
        return
    streams = run.scenario.streams
    kinds: dict[str, list[Entry]] = {"AI training": [], "Inference": [], "Idle nodes": []}
    for part in parts:
        classes = getattr(streams.get(part.get("of", "")), "classes", ())
        offline = bool(classes) and all(c.batch_inference for c in classes)
        kind = (
            "Idle nodes" if part["what"] == "idle nodes"
            else "Inference" if part["what"] in ("instances", "replicas") or offline
            else "AI training"
        )  # fmt: skip
        kinds[kind].append(part)
    for quantity, key in (("of the energy", "mean_mw"), ("at the peak", "mw")):
        whole = sum(part[key] for part in parts)
        for kind, of_kind in kinds.items():
            share = 100 * sum(part[key] for part in of_kind) / whole if whole else None
            names = listed(list(dict.fromkeys(p["of"] for p in of_kind if p.get("of"))))
            yield Figure(kind, share, "%", names, quantity)


@dataclass(frozen=True)
class _Quarters:
    """Whole clock quarters of an hour, without the time in which the run filled up."""

    mw: Float64Array
    starts_ms: Int64Array
    clock: WallClock
    absent: str = ""

    def months(self) -> list[str]:
        """Return the local month of each."""
        return [self.clock.month(int(ms)) for ms in self.starts_ms]

    @classmethod
    def of(cls, run: Run) -> _Quarters:
        """Return them, streamed from the run's series; without any, why."""
        clock = run.scenario.clock.wall
        if reason := clock.why_not_aligned(QUARTER_MS):
            return cls(np.empty(0), np.empty(0, np.int64), clock, f"15 min: {reason}")
        sums, at_ms = ClockSums(clock, QUARTER_MS), 0
        series = Series(clock.step_ms, [sums])
        filled_ms = round((run.metrics.get("grid") or {}).get("transient_h", 0) * MS_PER_H)
        for block in run.blocks(["facility_power_w"]):
            quanta = to_quanta(block.columns["facility_power_w"], MAX_DAY_POWER_W)
            series.add(at_ms, quanta, filled_ms)
            at_ms += quanta.size * clock.step_ms
        found = sums.result()
        why = "" if found.counts.size else "15 min: the run holds no whole interval"
        return cls(found.mean_mw, found.starts_ms, clock, why)


def _demands(run: Run) -> list[Entry]:
    demand = (run.metrics.get("grid") or {}).get("maximum_demand") or {}
    return list(demand.get("intervals") or ())


def _months(run: Run, quarters: _Quarters) -> Iterator[Figure]:
    """Yield demand and load factor of every month, of many months of every year."""
    grid: Entry = run.metrics.get("grid") or {}
    peaks: Entry = grid.get("monthly_peaks") or {}
    of_quarters: Entry = next((d["monthly"] for d in _demands(run) if d["interval_min"] == 15), {})
    reactive = {
        month["month"]: demand["max_mvar"]
        for month in (run.metrics.get("billing") or {}).get("months") or ()
        for demand in month["demand"]
        if demand["interval_min"] == 15
    }
    digits = len("2018-01") if len(peaks) <= MOST_MONTHS else len("2018")
    names = np.array([month[:digits] for month in quarters.months()])
    partial = _in_part(run, digits)

    start = run.series().start
    filled = start + timedelta(hours=grid.get("transient_h") or 0)

    def largest(values: Mapping[str, float], name: str) -> float | None:
        return max((mw for month, mw in values.items() if month[:digits] == name), default=None)

    for name in dict.fromkeys(month[:digits] for month in peaks):
        note = "in part" if name in partial else ""
        demand = largest({month: entry["max_mw"] for month, entry in of_quarters.items()}, name)
        found = quarters.mw[names == name]
        factor = load_factor(float(found.mean()), demand) if demand and found.size else None
        fills_up = f"{start:%Y-%m}"[:digits] <= name and filled.isoformat() > f"{name}-01"
        without = "without the time of filling up" if filled > start and fills_up else ""
        exports = found.size and found.mean() < 0
        no_load = "more is exported than drawn" if exports else "there is no load"
        why = quarters.absent or (no_load if factor is None else without)
        peak = largest({month: entry["max_mw"] for month, entry in peaks.items()}, name)
        yield Figure(name, peak, "MW", note, "peak")
        yield Figure(name, demand, "MW", quarters.absent, "15 min demand")
        yield Figure(name, factor, "", why, "load factor")
        if reactive:
            yield Figure(name, largest(reactive, name), "Mvar", note, "15 min reactive")
    if not peaks:
        yield Figure("Demand by month", None, "MW", _NOT_THERE)


def _in_part(run: Run, digits: int) -> set[str]:
    """Return the months, or years, that the run covers in part."""
    series = run.series()
    begin = "2018-01-01T00:00:00"[digits:]
    return {
        f"{edge:%Y-%m}"[:digits]
        for edge in (series.start, series.end)
        if edge.isoformat()[digits:19] != begin
    }


def _coincident(run: Run, peaks: Path | str | None) -> Iterator[Figure]:
    if peaks is None:
        yield Figure("Coincident demand", None, "MW", "no intervals of a system's peaks given")
        return
    demands = coincident_demand(run, read_peak_intervals(peaks))
    rows = {f"{d.name} {moment(d.start.isoformat())}".strip(): [d] for d in demands}
    for item, of_item in {**rows, "mean": demands}.items():
        yield Figure(item, float(np.mean([d.mw for d in of_item])), "MW", "", "demand")
        mvar = [d.mvar for d in of_item if d.mvar is not None]
        if mvar:
            yield Figure(item, float(np.mean(mvar)), "Mvar", "", "reactive")
        yield Figure(item, float(np.mean([d.own_peak_mw for d in of_item])), "MW", "", "own peak")
        share = float(np.mean([d.share for d in of_item]))
        yield Figure(item, 100 * share, "%", "", "of own peak")


def _build_out(run: Run, quarters: _Quarters) -> Iterator[Figure]:
    """Yield every step of the nodes that stand, its cadence, and the demand up to the next."""
    facility, clock = run.scenario.facility, run.scenario.clock
    standing = {name: pool.standing(clock) for name, pool in facility.pools.items()}
    ratings_w = {name: facility.node_type_of(name).rated_power_w for name in facility.pools}
    steps_ms = sorted({0, *(ms for nodes in standing.values() for ms, _ in nodes.added)})
    if not facility.has_phases:
        text = f"none: all {facility.n_nodes:,} nodes are there from the start, in one step"
        yield Figure("Phases", text)
        return
    whole_w = sum(facility.pool_rated_power_w(name) for name in facility.pools)
    scale = rated_of(run.metrics, facility)[0] * W_PER_MW / whole_w if whole_w else 0.0
    before_mw, before_ms = 0.0, 0
    for begin_ms, end_ms in pairwise([*steps_ms, run.scenario.horizon_ms]):
        item = f"{clock.wall.at(begin_ms):%Y-%m-%d}"
        at_ms = np.array([begin_ms])
        nodes = {name: float(of_pool.at(at_ms)[0]) for name, of_pool in standing.items()}
        rated_mw = scale * sum(ratings_w[name] * n for name, n in nodes.items()) / W_PER_MW
        inside = (quarters.starts_ms >= begin_ms) & (quarters.starts_ms < end_ms)
        demand = float(quarters.mw[inside].max()) if inside.any() else None
        cadence = (begin_ms - before_ms) / MS_PER_DAY if begin_ms else None
        yield Figure(item, sum(nodes.values()), "", "", "nodes")
        yield Figure(item, rated_mw, "MW", "", "rated")
        yield Figure(item, rated_mw - before_mw, "MW", "", "step")
        yield Figure(item, cadence, "d", "", "after")
        yield Figure(item, demand, "MW", quarters.absent, "15 min demand")
        before_mw, before_ms = rated_mw, begin_ms


@stage("data sheet")
def write_datasheet(
    folder: Path | str,
    out: Path | str = "datasheet.html",
    *,
    csv_file: Path | None = None,
    xlsx: Path | None = None,
    limits: Sequence[str] = (),
    peaks: Path | None = None,
    force: bool = False,
) -> list[Path]:
    """Write the data sheet of a run; return the files.

    Parameters
    ----------
    folder : path
        Run folder.
    out : path
        Page to write.
    csv_file, xlsx : pathlib.Path, optional
        Table and workbook of its figures.
    limits : sequence of str
        Files or names of limits to check.
    peaks : pathlib.Path, optional
        CSV file of a utility's peak intervals.
    force : bool
        Replace existing files.
    """
    run = open_run(folder)
    if xlsx is not None and find_spec("openpyxl") is None:
        raise InputError(
            "--xlsx: workbooks need the package openpyxl; pip install 'diploee[xlsx]', or take "
            "--csv"
        )
    inputs = [*run_files(run.folder), *([peaks] if peaks else [])]
    places = {"--csv": csv_file, "--xlsx": xlsx}
    check_file(out, force, inputs=inputs, replaces=is_report)  # before any work
    taken = {Path(out).resolve(): "--out"}
    for option, place in places.items():
        if place is not None:
            if (other := taken.setdefault(Path(place).resolve(), option)) != option:
                raise InputError(
                    f"{option}: {place} is that of {other}; give each a place of its own"
                )
            check_file(place, force, inputs=inputs, option=option)
            refuse_in_run(place, run.folder, option)
    sheet = data_sheet(run, limits, peaks)
    page = report_page(sheet)
    with writing(force, inputs) as files:
        files.file(out, replaces=is_report).write_text(page, encoding="utf-8")
        if csv_file is not None:
            write_csv(sheet, files.file(csv_file, option="--csv"))
        if xlsx is not None:
            write_workbook(sheet, files.file(xlsx, option="--xlsx"))
    return [Path(out), *(place for place in places.values() if place is not None)]


def write_csv(sheet: Report, path: Path) -> None:
    """Write a row for each figure, in full precision."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(cell, row) for row in long_rows(sheet.sections))


def write_workbook(sheet: Report, path: Path) -> None:
    """Write a workbook: the sheet as the page has it, and all figures as the CSV has them."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font

    book = Workbook()
    view, bold, wrap = book.active, Font(bold=True), Alignment(wrap_text=True, vertical="top")
    view.title = "Data sheet"

    def append(tab: Any, values: Iterable[float | str | None], font: Any = None) -> None:
        row = tab.max_row + 1 if tab.max_row > 1 or tab.cell(1, 1).value is not None else 1
        for column, value in enumerate(values, start=1):
            cell = tab.cell(row, column)
            cell.value = printable(value) if isinstance(value, str) else value
            if isinstance(value, str):
                cell.data_type = "s"  # a name that begins with = is no formula
            elif value is not None:
                cell.number_format = "#,##0.000"
            cell.alignment = wrap
            if font is not None:
                cell.font = font

    append(view, [f"Interconnection data sheet: {sheet.title}"], Font(bold=True, size=14))
    append(view, [sheet.subtitle])
    for section in sheet.sections:
        append(view, [" "])
        append(view, [section.title], bold)
        for k, row in enumerate(_grid(section)):
            append(view, row, bold if k == 0 else None)
        for note in section.notes:
            append(view, [note])
    for note in ("", *sheet.notes):
        append(view, [note or " "])
    view.column_dimensions["A"].width = 34
    for letter in "BCDEF":
        view.column_dimensions[letter].width = 18
    view.page_setup.paperSize, view.page_setup.fitToHeight = view.PAPERSIZE_A4, 0
    view.sheet_properties.pageSetUpPr.fitToPage = True
    figures = book.create_sheet("Figures")
    append(figures, COLUMNS, bold)
    for row in long_rows(sheet.sections):
        append(figures, row)
    figures.auto_filter.ref, figures.freeze_panes = figures.dimensions, "A2"
    for letter, width in zip("ABCDEF", (24, 34, 18, 18, 10, 50), strict=True):
        figures.column_dimensions[letter].width = width
    # The same sheet has the same bytes: neither the workbook nor its archive has the time.
    book.properties.created = book.properties.modified = datetime(1980, 1, 1)
    made = BytesIO()
    book.save(made)
    with ZipFile(made) as archive, ZipFile(path, "w", ZIP_DEFLATED) as same:
        for name in archive.namelist():
            entry = ZipInfo(name)
            entry.compress_type = ZIP_DEFLATED
            content = archive.read(name)
            if name == "docProps/core.xml":  # saving sets the time of the change
                content = re.sub(rb"(<dcterms:modified[^>]*>)[^<]*", rb"\g<1>" + NO_TIME, content)
            same.writestr(entry, content)


def _grid(section: Section) -> list[tuple[float | str | None, ...]]:
    """Return headers and rows of a section."""
    found: list[tuple[float | str | None, ...]] = []
    if section.figures:
        found.append(("", "Value", "Unit", "When, of what, or why not available"))
        found += [(f.item, f.value, f.unit, f.note) for f in section.figures]
    for table in section.tables:
        found.append((table.title, *table.heads))
        for item, cells in table.rows.items():
            values = (cells[name].value if name in cells else None for name in table.units)
            found.append((item, *values))
    return found
