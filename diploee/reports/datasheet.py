"""The data sheet of a load for its interconnection: what planners ask for, on one page.

Figures come from the run's declared metrics where there are such; what a run can't tell stands with
the reason. Fields as they are asked for by Southern's appendix, Ameren, AEP and NERC's guideline of
2026-05 (reference sheet ``grid_requirements.md``, section 1.3; mostly seen in secondary sources).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from diploee.clock import WallClock
from diploee.measures.series import MAX_DAY_POWER_W, ClockSums, Series, to_quanta
from diploee.metric import find_metric, flatten, number
from diploee.metrics.bands import recorded_readings
from diploee.metrics.catalogue import declared_metrics
from diploee.metrics.demand import load_factor, rated_of
from diploee.metrics.limits import Limits, check_limits, load_limits
from diploee.outputs import Run
from diploee.reports.peak_intervals import coincident_demand, read_peak_intervals
from diploee.reports.words import interval, listed, moment, pattern_for
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_MW

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


@dataclass(frozen=True)
class Figure:
    """A figure of the sheet."""

    # Whose it is: a quantity's name, or a row such as a month where there are several quantities
    item: str
    value: float | str | None  # the figure; None where the run can't tell it
    unit: str = ""  # its unit; empty for words and ratios
    note: str = ""  # when or of what means; of what is absent the reason
    quantity: str = ""  # what it is of the item, in sections that are tables

    @property
    def shown(self) -> str:
        """The figure as text, of four digits; power factors of five, as many are near 1."""
        if isinstance(self.value, str):
            return self.value
        if "ower factor" in self.item:
            return number(self.value, "{:.5f}")
        return number(self.value, pattern_for([self.value]))


@dataclass(frozen=True)
class SheetSection:
    """A heading, its figures, and what all of them share."""

    title: str
    figures: tuple[Figure, ...]
    note: str = ""
    is_wide: bool = False

    @property
    def quantities(self) -> dict[str, str]:
        """Unit by quantity, of a section that is a table."""
        return {f.quantity: f.unit for f in self.figures if f.quantity}

    def shown(self, item: str, quantity: str) -> str:
        """Return a cell of a table as text, the numbers of a column with like decimals."""
        found = self.rows[item].get(quantity)
        if found is None or isinstance(found.value, str):
            return found.shown if found else ""
        column = (f.value for f in self.figures if f.quantity == quantity)
        return number(found.value, pattern_for(column))

    @property
    def rows(self) -> dict[str, dict[str, Figure]]:
        """The figures by item and quantity."""
        found: dict[str, dict[str, Figure]] = {}
        for figure in self.figures:
            found.setdefault(figure.item, {})[figure.quantity] = figure
        return found


@dataclass(frozen=True)
class DataSheet:
    """All that a sheet shows."""

    title: str
    subtitle: str
    sections: tuple[SheetSection, ...]
    notes: tuple[str, ...]


def data_sheet(run: Run, limits: Sequence[str] = (), peaks: Path | str | None = None) -> DataSheet:
    """Return the data sheet of a run."""
    scenario = run.scenario
    quarters = _Quarters.of(run)
    at_meter = bool(run.metrics.get("poi"))
    return DataSheet(
        scenario.name,
        f"{scenario.duration} from {scenario.start:%Y-%m-%d}, {interval(scenario.resolution_ms)} "
        f"means, seed {scenario.seed}; power: {run.boundary()}",
        (
            SheetSection("Connection", tuple(_connection(run))),
            SheetSection("Active power", tuple(_active(run, quarters))),
            SheetSection("Reactive power", tuple(_reactive(run))),
            SheetSection(
                "Ramps and swings",
                tuple(_ramps(run)),
                "A ramp is the difference of adjacent means over its length.",
            ),
            SheetSection("Strongest lines of the spectrum", tuple(_lines(run))),
            SheetSection(
                "Share of AI training",
                tuple(_shares(run)),
                "Of the devices' energy. ASSUMPTION [J]: jobs are training, fine-tuning among it, "
                "unless all of a stream's classes are batch inference.",
            ),
            SheetSection("Demand by month or year", tuple(_months(run, quarters))),
            SheetSection(
                "Demand at coincident peaks",
                tuple(_coincident(run, peaks)),
                "Own peak: the largest demand over clock intervals as long, of 15, 30 or 60 min; "
                "else the largest of the run's interval means."
                if peaks
                else "",
            ),
            SheetSection(
                "Build-out and ramp schedule", tuple(_build_out(run, quarters)), BUILD_OUT
            ),
            *(_verdicts(run, load_limits(name)) for name in limits),
            SheetSection("Provenance", tuple(_provenance(run)), is_wide=True),
        ),
        (
            *(() if at_meter else (NO_METER,)),
            *(str(warning) for warning in run.manifest.get("warnings") or ()),
            "Not from a run: ride-through, harmonics, flicker, parameters of dynamic models "
            "(PERC1, composite load); a load record of a named moment: diploee export psse-raw.",
        ),
    )


def _declared(run: Run, key: str, name: str = "", note: str = "", absent: str = "") -> Figure:
    """Return a declared metric as a figure; where the run lacks it, why."""
    metric = find_metric(key, declared_metrics())
    assert metric is not None, key
    value = dict(flatten(run.metrics)).get(key)
    label = name or metric.name
    if not isinstance(value, int | float):
        return Figure(label, None, metric.suffix, absent or _NOT_THERE)
    return Figure(label, value * metric.factor, metric.suffix, note)


def _no_load(run: Run) -> str:
    """Return why a run has no load factor: it draws nothing, or exports more than it draws."""
    peak = (run.metrics.get("grid") or {}).get("peak") or {}
    if run.metrics["power"]["mean_mw"] < 0:
        return "the site exports more than it draws"
    return "there is no load" if peak.get("max_mw") == 0 else ""


def _connection(run: Run) -> Iterator[Figure]:
    facility = run.scenario.facility
    contract = next((c for s in facility.stages if (c := getattr(s, "contract_mva", None))), None)
    yield Figure("Contract", contract, "MVA", "" if contract else "no contract_mva given")
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


def _active(run: Run, quarters: _Quarters) -> Iterator[Figure]:
    means = f"{interval(run.scenario.resolution_ms)} means"
    grid, scenario = run.metrics.get("grid") or {}, run.scenario
    peak = grid.get("peak") or {}
    yield _declared(run, "power.energy_mwh")
    yield _declared(
        run, "grid.peak.max_mw", "Peak", f"{moment(peak.get('time'), scenario.resolution_ms)}"
    )
    yield _declared(
        run,
        "grid.maximum_demand.intervals.15min.max_mw",
        "Maximum demand, 15 min",
        moment(next((d["time"] for d in _demands(run) if d["interval_min"] == 15), None)),
        quarters.absent,
    )
    least = grid.get("minimum") or {}
    yield _declared(
        run, "grid.minimum.min_mw", "Minimum", moment(least.get("time"), scenario.resolution_ms)
    )
    poi = run.metrics.get("poi") or {}
    if poi.get("exported_mwh"):
        yield _declared(
            run, "poi.exported_mwh", "Energy exported", f"in {poi['exported_h']:.3g} h of the run"
        )
    yield _declared(run, "power.median_mw", "Typical (median)", means)
    yield _declared(run, "power.mean_mw", "Mean")
    fills_h = grid.get("transient_h") or 0
    mean_of = f"mean of the whole run, peak without the first {fills_h:.3g} h of filling up"
    filled = mean_of if fills_h else ""
    own = "; ".join(filter(None, (f"peak of {means}", filled)))
    yield _declared(run, "grid.load_factor", "Load factor, of own peak", own, _no_load(run))
    yield _declared(
        run,
        "grid.maximum_demand.intervals.15min.load_factor",
        "Load factor, of 15 min demand",
        filled,
        quarters.absent or _no_load(run),
    )
    (rated_mw, what), phased = rated_of(run.metrics, scenario.facility), " of all phases"
    note = f"{what}{phased if scenario.facility.has_phases else ''}"
    yield _load_factor_of("rated power", run, rated_mw, note)
    contract = ((run.metrics.get("poi") or {}).get("headroom") or {}).get("contract_mva")
    if contract:
        yield _load_factor_of("contract", run, contract, f"{contract:g} MVA at unity power factor")
    for level in QUANTILES:
        yield Figure(
            f"15 min demand, P{level:g}",
            float(np.percentile(quarters.mw, level)) if quarters.mw.size else None,
            "MW",
            quarters.absent,
        )


def _load_factor_of(name: str, run: Run, most_mw: float, note: str) -> Figure:
    """Return the mean power over a power of the same boundary."""
    factor = load_factor(run.metrics["power"]["mean_mw"], most_mw)
    why = _no_load(run) or f"no {name}"
    return Figure(f"Load factor, of {name}", factor, note=why if factor is None else note)


def _reactive(run: Run) -> Iterator[Figure]:
    poi = run.metrics.get("poi") or {}
    if not poi:
        yield Figure(
            "Reactive power",
            None,
            "Mvar",
            "facility.stages have no point_of_interconnection, so none is modelled",
        )
        return
    yield _declared(run, "poi.peak.reactive_mvar", "At the peak", moment(poi["peak"]["time"]))
    for which in ("max", "min"):
        time = moment(poi["reactive"].get(f"{which}_mvar_time"))
        yield _declared(run, f"poi.reactive.{which}_mvar", f"{which.title()}imum", time)
    mean_mvar = (poi["drawn_mvarh"] - poi["supplied_mvarh"]) / (run.scenario.horizon_ms / MS_PER_H)
    yield Figure("Typical (mean)", mean_mvar, "Mvar", "drawn less supplied")
    yield _declared(run, "poi.peak.power_factor", "Power factor at the peak")
    yield _declared(run, "poi.lagging_power_factor", "Power factor, mean lagging")
    yield _declared(run, "poi.leading_power_factor", "Power factor, mean leading")
    yield _declared(run, "poi.apparent.max_mva", "Maximum apparent power")


def _ramps(run: Run) -> Iterator[Figure]:
    grid = run.metrics.get("grid") or {}
    ramps = grid.get("ramps") or {"intervals": [], "absent": []}
    step_ms = run.scenario.resolution_ms
    minute = next((e for e in ramps["intervals"] if e["interval_s"] == 60), None)
    for way in ("up", "down"):
        if minute is None:
            yield Figure(
                f"Largest ramp {way}, 1 min", None, "MW/min", _why(ramps, "interval_s", 60)
            )
        else:
            bound = "; lower bound" if minute.get("lower_bound") else ""
            yield Figure(
                f"Largest ramp {way}, 1 min",
                minute[way]["max_mw_per_min"],
                "MW/min",
                f"{moment(minute[way]['time'], step_ms)}{bound}",
            )
    # The metrics have no ramps over 10 min; limits measure any, this one so strict that it must.
    ramp = {"interval": "600 s", "up_mw_per_min": 1e-9, "down_mw_per_min": 1e-9}
    found = check_limits(run, Limits.model_validate({"ramps": [ramp]}))
    for way, result in zip(("up", "down"), found.results, strict=False):
        when = moment(result.time, step_ms)
        yield Figure(f"Largest ramp {way}, 10 min", result.value, "MW/min", when)
    for _, _, why in found.unchecked:
        yield Figure("Largest ramp up and down, 10 min", None, "MW/min", why)
    swings = grid.get("rolling_range") or {"windows": [], "absent": []}
    for entry in swings["windows"]:
        yield Figure(
            f"Largest swing within {interval(round(entry['window_s'] * MS_PER_S))}",
            entry["max_mw"], "MW", moment(entry["time"], step_ms),
        )  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for entry in swings["absent"]:
        length = interval(round(entry["window_s"] * MS_PER_S))
        reasons.setdefault(entry["reason"], []).append(length)
    for reason, lengths in reasons.items():
        yield Figure(f"Largest swing within {listed(lengths)}", None, "MW", reason)
    for name, window in run.event_windows.items():
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


def _verdicts(run: Run, limits: Limits) -> SheetSection:
    report = check_limits(run, limits)
    figures: list[Figure] = []
    for k, result in enumerate(report.results, start=1):
        item, least = f"{k}. {result.text}", "at least " if result.least else ""
        told = "; ".join(filter(None, (result.note, result.source)))
        worst = f"{number(result.value, pattern_for([result.value]))} {result.unit}".strip()
        figures += [
            Figure(item, result.verdict, quantity="verdict"),
            Figure(item, f"{least}{result.limit:g} {result.unit}".strip(), quantity="limit"),
            Figure(item, worst, quantity="worst"),
            Figure(item, moment(result.time or None, run.scenario.resolution_ms), quantity="when"),
            Figure(item, told, quantity="what is seen, source"),
        ]
    for k, (_, text, why) in enumerate(report.unchecked, start=len(report.results) + 1):
        figures += [
            Figure(f"{k}. {text}", "not assessable", quantity="verdict"),
            Figure(f"{k}. {text}", why, quantity="what is seen, source"),
        ]
    title = f"Limits: {limits.name or 'own'}: {report.verdict}"
    return SheetSection(title, tuple(figures), ". ".join(report.head()[1:]), is_wide=True)


def _provenance(run: Run) -> Iterator[Figure]:
    manifest = run.manifest
    yield Figure("Power boundary", run.boundary())
    profiles = (manifest.get("profiles") or {}).values()
    kinds = Counter(str((entry.get("provenance") or {}).get("kind")) for entry in profiles)
    sources = dict.fromkeys(str((p.get("provenance") or {}).get("source")) for p in profiles)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if told:
        yield Figure("Power profiles", f"{told} (reference: synthesised from published facts)")
        yield Figure("Their sources", "; ".join(sources))
    for key, name in (("curves", "Serving curves"), ("input_files", "Input files")):
        if manifest.get(key):
            yield Figure(name, ", ".join(sorted(manifest[key])))
    readings = recorded_readings(manifest)
    if readings:
        lowest = min(reading.bandwidth_hz for reading in readings)
        yield Figure("Bandwidth", f"nothing above {lowest:g} Hz is in the profiles")
    assumed = manifest.get("assumed")
    if assumed:
        yield Figure("Assumed terms", "; ".join(_grouped(assumed, run)))
    else:
        why = "the run models devices' power alone" if assumed is None else "none"
        yield Figure("Assumed terms", why)
    yield Figure(
        "Run",
        f"scenario SHA-256 {str(manifest.get('scenario_sha256'))[:16]}, seed "
        f"{manifest.get('seed')}, engine {manifest.get('engine')}, "
        f"diploee {manifest.get('diploee_version')}",
    )


def _grouped(keys: Iterable[str], run: Run) -> Iterator[str]:
    """Yield the assumed keys by their part of the facility, stages by their kind."""
    stages = run.scenario.facility.stages
    groups: dict[str, list[str]] = {}
    for key in keys:
        parts = key.removeprefix("facility.").split(".")
        if parts[0] == "stages":
            parts = [stages[int(parts[1])].kind, *parts[2:]]
        elif parts[0] == "node_types":
            parts = [" ".join(parts[1:3]), *parts[3:]]
        groups.setdefault(parts[0], []).append(".".join(parts[1:]))
    for group, names in groups.items():
        yield f"{group}: {', '.join(names)}"
