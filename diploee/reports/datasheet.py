"""Data sheet of a load for an interconnection request, on one page.

Statistics are the run's declared metrics; a missing one has a reason instead. The
fields are those of the forms of Southern, Ameren and AEP and of NERC's guideline of
2026-05 (mostly seen in secondary sources).

See also: docs/meter.md
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diploee.base.clock import NamedSpan
from diploee.base.errors import InputError, plural
from diploee.base.files import check_output_file, whole_file
from diploee.base.measures.streaming import (
    MAX_DAY_POWER_W,
    ClockSums,
    MeasureRunner,
    to_quanta,
)
from diploee.base.progress import stage
from diploee.base.units import (
    MEGAWATT,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    W_PER_MW,
)
from diploee.grid.dynamics.ride_through_study import ride_through
from diploee.grid.export.by_year import installed_power
from diploee.grid.export.csv_writer import write_rows
from diploee.grid.limits.file import load_limits
from diploee.grid.limits.report import COVERAGE, get_reports, limits_section
from diploee.metrics.at_step import PEAK_MS, RAMP_MS
from diploee.metrics.attribution import ComponentKind
from diploee.metrics.demand import load_factor, rated_power
from diploee.metrics.load_changes import CHANGE
from diploee.metrics.spectral_bands import FLAGGED_STEPS
from diploee.reports.build import (
    Report,
    is_page_of,
    period_text,
    report_page,
    scenarios_text,
)
from diploee.reports.coincident import UNITS, coincident_demand
from diploee.reports.run_sections import reactive_notes, voltage_notes
from diploee.runs.folder import check_not_in_run, run_files
from diploee.runs.formatting import interval, listed
from diploee.runs.lower_bounds import data_limits_note, is_lower_bound
from diploee.runs.metric_labels import LABELS
from diploee.runs.metric_order import SPECTRAL_LINES, SWINGS
from diploee.runs.provenance import provenance
from diploee.runs.reader import RunFolder
from diploee.runs.run_view import RunView
from diploee.runs.sections import COLUMNS, Section, SectionTable, Statistic, long_rows

if TYPE_CHECKING:
    import pandas as pd

TEN_MIN_MS, QUARTER_MS = 10 * MS_PER_MIN, 15 * MS_PER_MIN
MAX_MONTHS = 24
PEAKS_OVER = tuple(sorted({*PEAK_MS, TEN_MIN_MS, QUARTER_MS}))
RAMPS_OVER = tuple(sorted({*RAMP_MS, TEN_MIN_MS, QUARTER_MS}))
"""Averaging times of peaks and of ramps [ms]."""
SHARES = (
    "Of the devices' energy. Assumed: jobs are training, fine-tuning among it, unless "
    "all of a stream's classes are batch inference."
)
BUILD_OUT = (
    "Demand: the largest until the next step; it and the rated power are taken where "
    "the sheet's power is. Assumed: the rated power of a step is the site's in the "
    "ratio of the nodes' ratings."
)
PEAKS = (
    "Own peak: the largest demand over clock intervals as long, of 15, 30 or 60 min; "
    "else the largest of the run's interval means."
)
NO_METER = (
    "The run ends before the grid's meter: this is not what a utility sees.",
    "Up to the meter: give ac_power of the nodes, and facility.stages up to a "
    "point_of_interconnection.",
)
NOT_FROM_A_RUN = (
    "Not from a run: harmonics; ride-through without facility.ride_through; voltage "
    "changes without site.short_circuit_mva, x_over_r and a step of 0.1 s. Load and "
    "dynamic records: diploee export psse."
)
_VOLTAGE = {
    "grid.voltage_change.largest_percent": "Largest, settled",
    "grid.voltage_change.within_percent": "Largest within it",
    "grid.voltage_change.steps.1%.most_per_hour": "Most steps of 1 % in an hour",
    "grid.voltage_change.flicker_pst": "Flicker of separate steps, estimate",
}
_NOT_THERE = "not in the run's metrics"
_DEMAND = "grid.maximum_demand.intervals.15min"
_CHANGES = tuple(f"grid.{{}}.600s.{way}.max_mw" for way in CHANGE)
_ACTIVE = (
    "power.energy_mwh",
    "power.max_mw",
    f"{_DEMAND}.max_mw",
    *_CHANGES,
    "grid.minimum.min_mw",
    "poi.exported_mwh",
    "power.median_mw",
    "power.mean_mw",
    "power.load_factor",
    f"{_DEMAND}.load_factor",
)
_FACTORS = (
    "poi.peak.power_factor",
    "poi.lagging_power_factor",
    "poi.leading_power_factor",
)
_REACTIVE = (
    "poi.peak.reactive_mvar",
    "poi.reactive.max_mvar",
    "poi.reactive.min_mvar",
    *_FACTORS,
    "poi.apparent.max_mva",
)

Entry = Mapping[str, Any]


def data_sheet(
    run: RunFolder, limits: Sequence[str] = (), peaks: Sequence[NamedSpan] = ()
) -> Report:
    """Return the data sheet of a run, with limits and coincident peaks."""
    view, (quarters, why) = RunView(run, MEGAWATT), _interval_means_mw(run, QUARTER_MS)
    grid: Entry = run.metrics.get("grid") or {}
    swings = tuple(filter(None, map(view.table, (SWINGS, SPECTRAL_LINES))))
    averaging = [*_peaks_and_ramps(view)]
    sections = [
        _section("site", "Site and applicant", _site_statistics(run)),
        _section("connection", "Connection", _connection_statistics(run)),
        _section("active", "Active power", _active_power(view, quarters, why)),
        _section(
            "averaging",
            "Peak and ramps by averaging time",
            averaging,
            _averaging_note(view, averaging),
        ),
        _section(
            "reactive",
            "Reactive power",
            _reactive_power(view),
            " ".join(reactive_notes(run)[:1]),
        ),
        Section("swings", "Swings and spectral lines", (), swings),
        _section("shares", "Share of AI training", _energy_fractions(run), SHARES),
        _section(
            "months",
            f"Demand by {_table_period(grid)}",
            _monthly_statistics(run, quarters, why),
        ),
        _section(
            "peaks", "Demand at coincident peaks", _coincident_peaks(run, peaks), PEAKS
        ),
        _section(
            "build-out",
            "Build-out and ramp schedule",
            _build_out_steps(run, quarters, why),
            BUILD_OUT,
        ),
    ]
    if "grid.voltage_change.largest_percent" in view.values:
        figures = filter(
            None, (view.statistic(key, name) for key, name in _VOLTAGE.items())
        )
        sections.append(
            _section(
                "voltage",
                "Rapid voltage changes",
                figures,
                " ".join(voltage_notes(view)),
            )
        )
    if run.scenario.facility.ride_through:
        sections.append(_ride_through_section(run))
    if verdicts := get_reports(run, map(load_limits, limits)):
        sections.append(limits_section([(report, "") for report in verdicts]))
    return Report(
        run.scenario.name,
        f"{period_text(run)}; power: {run.boundary()}",
        (*filter(None, map(_for_print, sections)), _sources_section(run, sections)),
        kind="Interconnection data sheet",
        notes=(
            *((run.bands.note,) if run.bands else ()),
            *(() if run.metrics.get("poi") else NO_METER[:1]),
        ),
        is_sheet=True,
    )


_SECTIONS_WITH_NOTES = ("averaging", "reactive", "voltage")
"""Sections whose notes are printed next to their statistics."""


def _for_print(section: Section) -> Section:
    """Return a section for printing, without charts and most notes."""
    tables = tuple(
        replace(
            t, note="", figures=tuple(f for f in t.figures if f.quantity != COVERAGE)
        )
        for t in section.tables
    )
    return replace(
        section,
        tables=tables,
        charts=(),
        notes=section.notes if section.id in _SECTIONS_WITH_NOTES else (),
    )


def _sources_section(run: RunFolder, sections: Sequence[Section]) -> Section:
    """Return the section on sources, assumptions, warnings, and missing data."""
    tables = tuple(
        replace(t, figures=tuple(f for f in t.figures if f.quantity == COVERAGE))
        for section in sections
        for t in section.tables
        if any(f.quantity == COVERAGE for f in t.figures)
    )
    grid, warnings = run.metrics.get("grid"), run.manifest.get("warnings") or ()
    notes = (
        *(f"Warning: {warning}" for warning in warnings),
        *(
            f"{s.title}: {note}"
            for s in sections
            if s.id not in _SECTIONS_WITH_NOTES
            for note in s.notes
        ),
        *reactive_notes(run)[1:],
        *((data_limits_note(grid),) if grid else ()),
        *(() if run.metrics.get("poi") else NO_METER[1:]),
        NOT_FROM_A_RUN,
    )
    warnings_text = f" and {plural(len(warnings), 'warning')}" if warnings else ""
    title = (
        f"Sources, assumptions{warnings_text}"
        if warnings_text
        else "Sources and assumptions"
    )
    return replace(
        provenance(run, in_brief=True), title=title, tables=tables, notes=notes
    )


def _section(
    id_: str, title: str, statistics: Iterable[Statistic], note: str = ""
) -> Section:
    """Return a section of statistics: a table if they have columns, else a list."""
    figures, notes = tuple(statistics), (note,) if note else ()
    if any(figure.quantity for figure in figures):
        return Section(id_, title, (), (SectionTable("", figures),), notes=notes)
    return Section(id_, title, figures, notes=notes)


def _ride_through_section(run: RunFolder) -> Section:
    """Return the section on the default event, with its table of curves."""
    result = ride_through(run)
    return replace(result.section(), tables=(result.verdict_table(),), charts=())


_UNITS = {"kv": "kV", "mva": "MVA", "percent": "%", "s": "s"}
_FORM = {"ups_ride_through": "UPS ride-through", "x_over_r": "X/R"}


def _site_statistics(run: RunFolder) -> Iterator[Statistic]:
    """Yield the fields of the scenario's `site`; unspecified fields are empty."""
    for key in type(run.scenario.site).model_fields:
        name, _, last = key.rpartition("_")
        label = name if last in _UNITS else key
        label = _FORM.get(label) or label.replace("_", " ").capitalize()
        value = getattr(run.scenario.site, key)
        yield Statistic(label, "" if value is None else value, _UNITS.get(last, ""))


def _connection_statistics(run: RunFolder) -> Iterator[Statistic]:
    """Yield contract, rated power, time zone, nodes and weather of the site."""
    facility = run.scenario.facility
    contracts = [c for s in facility.stages if (c := getattr(s, "contract", None))]
    if not contracts:
        yield Statistic("Contract", None, "MW", "none given")
    for amount, what, unit in contracts:
        yield Statistic("Contract", amount, unit, what)
    rated_mw, what = rated_power(run.metrics, facility)
    yield Statistic(
        "Rated power", rated_mw or None, "MW", what if rated_mw else _NOT_THERE
    )
    if facility.stages or facility.has_ac_power:
        devices = "before supplies, losses and cooling"
        yield Statistic(
            "Device rating", facility.rated_power_w / W_PER_MW, "MW", devices
        )
    yield Statistic("Time zone", facility.time_zone or f"UTC{facility.utc_offset}")
    pools = (f"{pool.n_nodes:,} in {name}" for name, pool in facility.pools.items())
    yield Statistic("Nodes", "; ".join(pools))
    weather = facility.weather
    yield Statistic(
        "Weather", weather.kind.replace("_", " ") if weather else "none given"
    )


def _declared_statistics(
    view: RunView, keys: Iterable[str], notes: Entry
) -> Iterator[Statistic]:
    """Yield declared metrics as statistics, with notes by key.

    A metric that the run lacks has no value, and the reason as its note.
    """
    for key in keys:
        metric, note, name = view.metric(key), notes.get(key, ""), LABELS[key].name
        assert metric is not None, key
        figure = view.statistic(key, name, view.time_text(key) or note)
        yield figure or Statistic(
            view.display_name(metric, name), None, metric.suffix, note or _NOT_THERE
        )


def _active_power(
    view: RunView, quarters: pd.Series[float], why: str
) -> Iterator[Statistic]:
    """Yield the statistics of active power: energy, peaks, load factors, quantiles."""
    run, values = view.run, view.values
    mean_mw, facility = run.metrics["power"]["mean_mw"], run.scenario.facility
    fills_h = run.transient_h
    no_load = "there is no load" if values.get("grid.peak.max_mw") == 0 else ""
    no_load = "the site exports more than it draws" if mean_mw < 0 else no_load
    filled = "mean of the whole run, peak without the first "
    filled = f"{filled}{fills_h:.3g} h of filling up" if fills_h else ""
    of_steps = (
        "at_step.changes" if "grid.at_step.step_s" in values else "changes.windows"
    )
    keys = (
        key.format(of_steps)
        for key in _ACTIVE
        if key != "poi.exported_mwh" or values.get(key)
    )
    yield from _declared_statistics(
        view,
        keys,
        {
            "poi.exported_mwh": (
                f"in {values.get('poi.exported_h') or 0:.3g} h of the run"
            ),
            f"{_DEMAND}.max_mw": why,
            "power.load_factor": no_load,
            f"{_DEMAND}.load_factor": why or no_load or filled,
        },
    )
    rated_mw, what = rated_power(run.metrics, facility)
    of = [
        ("rated", rated_mw, f"{what}{' of all phases' if facility.has_phases else ''}")
    ]
    contracts = (getattr(each, "contract", None) for each in facility.stages)
    of += [("contract", result.amount, result.name) for result in contracts if result]
    for name, most_mw, note in of:
        factor = load_factor(mean_mw, most_mw)
        absent, label = (
            no_load or f"no {name} power",
            LABELS[f"{name}.load_factor"].name,
        )
        yield Statistic(label, factor, note=absent if factor is None else note)
    for level in (50, 90, 99, 99.9):
        most = float(quarters.quantile(level / 100)) if len(quarters) else None
        yield Statistic(LABELS["demand.percentile"].name.format(level), most, "MW", why)


def _reactive_power(view: RunView) -> Iterator[Statistic]:
    """Yield the statistics of reactive power and power factor."""
    poi = view.run.metrics.get("poi") or {}
    if not poi:
        why = "the run ends before the point of interconnection, so none is modelled"
        yield Statistic("Reactive power", None, "Mvar", why)
        return
    when = {"poi.peak.reactive_mvar": view.time_text("poi.peak.max_mw")}
    result = {
        figure.key: figure for figure in _declared_statistics(view, _REACTIVE, when)
    }
    factors = [result[key] for key in _FACTORS if key in result]
    if len(factors) == len(_FACTORS) and len({(f.shown, f.band) for f in factors}) == 1:
        least = min(factors, key=lambda f: f.value or 0.0)
        name, key = LABELS["poi.power_factor"].name, _FACTORS[0]
        result[key] = replace(least, item=name, note="at the peak and in the mean")
        result = {k: f for k, f in result.items() if k == key or k not in _FACTORS}
    yield from result.values()
    typical = (
        (poi["drawn_mvarh"] - poi["supplied_mvarh"])
        * MS_PER_H
        / view.run.scenario.horizon_ms
    )
    yield Statistic(
        LABELS["poi.reactive.mean_mvar"].name, typical, "Mvar", "drawn less supplied"
    )


def _peaks_and_ramps(view: RunView) -> Iterator[Statistic]:
    """Yield peaks and ramps by averaging time, in a column for each time.

    All ramps are computed from the finest step of the run. Averaging times without data
    are left out and named in the section's note.
    """
    values, tens = view.values, _interval_means_mw(view.run, TEN_MIN_MS)[0]
    ramp = "grid.ramps.intervals.{}.{}.max_mw_per_min"
    if "grid.at_step.step_s" in values:
        ramp = "grid.at_step.ramps.{}.{}_mw_per_min"
    windows = {
        name: abs(window["value_mw"]) for name, window in view.run.event_windows.items()
    }
    peaks = {
        MS_PER_S: windows.get("peak"),
        view.step_ms: values.get("grid.peak.max_mw"),
        TEN_MIN_MS: float(tens.max()) if len(tens) else None,
        QUARTER_MS: values.get(f"{_DEMAND}.max_mw"),
    }
    for length_ms in sorted({*PEAKS_OVER, *RAMPS_OVER}):
        name, quantity = f"{length_ms / MS_PER_S:g}s", _means_heading(length_ms)
        mw = peaks.get(length_ms)
        if length_ms < view.step_ms:
            mw = values.get(f"grid.at_step.peaks.{name}.max_mw", mw)
        if mw is not None:
            yield Statistic(LABELS["averaging.peak"].name, mw, quantity=quantity)
        for way, kind in (
            (("up", "rise"), ("down", "drop")) if length_ms in RAMPS_OVER else ()
        ):
            rate = values.get(ramp.format(name, way))
            if rate is None and f"{kind}_{name}" in windows:
                rate = windows[f"{kind}_{name}"] * MS_PER_MIN / length_ms
            if rate is not None:
                yield Statistic(
                    LABELS[f"averaging.{way}"].name, rate, quantity=quantity
                )


def _ramp_source(view: RunView) -> str:
    """Return the source of ramps and changes as text: the finest step of the run."""
    if (step_s := view.values.get("grid.at_step.step_s")) is None:
        return _means_heading(view.step_ms)
    return f"steps of {step_s:g} s"


def _means_heading(length_ms: int) -> str:
    """Return the column heading of an averaging time, such as "15 min means"."""
    return f"{interval(length_ms)} means"


def _averaging_note(view: RunView, statistics: Sequence[Statistic]) -> str:
    """Return a note on definitions, missing averaging times, and lower bounds."""
    present_columns = {figure.quantity for figure in statistics}
    finer, bounds = [], list[str]()
    for kind, key, of in (
        ("ramps", "ramps.{:g}s.", RAMPS_OVER),
        ("peaks", "peaks.{:g}s.max_mw", PEAKS_OVER),
    ):
        shown = [n for n in of if _means_heading(n) in present_columns]
        finer = [interval(n) for n in of if n not in shown and n < view.step_ms]
        keys = {n: f"grid.{key.format(n / MS_PER_S)}" for n in shown}
        least = [interval(n) for n in shown if is_lower_bound(view.values, keys[n])]
        bounds += [f"{kind} over {listed(least)}"] if least else []
    sentences = [
        (
            "Peaks: the largest of consecutive means; ramps: of adjacent ones, from "
            f"{_ramp_source(view)}."
        )
    ]
    if view.run.event_windows:
        sentences.append("1 s means: of the event windows, in steps of 0.1 s.")
    if finer:
        sentences.append(
            f"Means of {listed(finer)} need a finer step; what is faster is not shown."
        )
    if highest_hz := _highest_modelled_hz(view):
        sentences.append(f"Nothing above {highest_hz:.2g} Hz is modelled.")
    if bounds:
        records_s = view.values.get("grid.bandwidth.interpolated_s")
        why = (
            f"clouds are not seen within {records_s:g} s"
            if records_s
            else "readings smear them"
        )
        sentences.append(f"Lower bounds: {listed(bounds)}, as {why}.")
    return " ".join(sentences)


def _highest_modelled_hz(view: RunView) -> float | None:
    """Return the highest modelled frequency [Hz]; None if unknown."""
    values = view.values
    highest_hz: float | None = values.get("grid.bandwidth.flagged_hz")
    if highest_hz is None or (step_s := values.get("grid.at_step.step_s")) is None:
        return highest_hz
    profiles = view.run.metrics["grid"]["bandwidth"].get("of_profiles") or ()
    readings_hz: list[float] = [
        profile["flagged_hz"]
        for profile in profiles
        if profile.get("flagged_hz") is not None
    ]
    return min([FLAGGED_STEPS / float(step_s), *readings_hz])


def _energy_fractions(run: RunFolder) -> Iterator[Statistic]:
    """Yield the fractions of training, inference and idle in the devices' energy.

    A second column has the fractions of power at the peak.
    """
    cause = ((run.metrics.get("grid") or {}).get("peak") or {}).get("cause") or {}
    device_kinds = (
        ComponentKind.JOBS,
        ComponentKind.INSTANCES,
        ComponentKind.REPLICAS,
        ComponentKind.IDLE_NODES,
    )
    parts = [part for part in cause.get("parts") or () if part["what"] in device_kinds]
    if not parts or not sum(part["mean_mw"] for part in parts):
        yield Statistic(
            "AI training", None, "%", "the run's metrics do not split its energy"
        )
        return

    training, inference, idle = kinds = "AI training", "Inference", "Idle nodes"

    def kind(part: Entry) -> str:
        classes = getattr(run.scenario.streams.get(part.get("of", "")), "classes", ())
        infers = bool(classes) and all(c.batch_inference for c in classes)
        return {
            ComponentKind.IDLE_NODES: idle,
            ComponentKind.JOBS: inference if infers else training,
        }.get(part["what"], inference)

    for quantity, key in (("of the energy", "mean_mw"), ("at the peak", "mw")):
        total_mw = sum(part[key] for part in parts)
        for name in kinds:
            parts_of_kind = [part for part in parts if kind(part) == name]
            share = (
                100 * sum(part[key] for part in parts_of_kind) / total_mw
                if total_mw
                else None
            )
            of = listed(
                list(dict.fromkeys(p["of"] for p in parts_of_kind if p.get("of")))
            )
            yield Statistic(name, share, "%", of, quantity)


def _interval_means_mw(
    run: RunFolder, length_ms: int, with_warm_up: bool = False
) -> tuple[pd.Series[float], str]:
    """Return means of clock intervals [MW] by start [ms], and the reason if empty.

    The warm-up of the run is left out unless `with_warm_up` is set.
    """
    import pandas as pd

    clock = run.scenario.written_clock.wall
    if reason := clock.alignment_problem(length_ms):
        return pd.Series(dtype=float), f"{interval(length_ms)}: {reason}"
    sums, at_ms = ClockSums(clock, length_ms), 0
    series = MeasureRunner(clock.step_ms, [sums])
    filled_ms = 0 if with_warm_up else round(run.transient_h * MS_PER_H)
    for block in run.blocks(["facility_power_w"]):
        quanta = to_quanta(block.columns["facility_power_w"], MAX_DAY_POWER_W)
        series.add(at_ms, quanta, filled_ms)
        at_ms += quanta.size * clock.step_ms
    result = sums.result()
    reason = (
        ""
        if result.counts.size
        else f"{interval(length_ms)}: the run holds no whole interval"
    )
    return pd.Series(result.mean_mw, result.starts_ms, dtype=float), reason


def _table_period(grid: Entry) -> str:
    """Return the unit of the demand table: "month", or "year" for many months."""
    return "month" if len(grid.get("monthly_peaks") or ()) <= MAX_MONTHS else "year"


def _monthly_statistics(
    run: RunFolder, quarters: pd.Series[float], why: str
) -> Iterator[Statistic]:
    """Yield peak, demand, load factor and reactive power of each month or year."""
    import pandas as pd

    grid: Entry = run.metrics.get("grid") or {}
    if not grid.get("monthly_peaks"):
        yield Statistic("Demand by month", None, "MW", _NOT_THERE)
        return
    digits = len("2018-01" if _table_period(grid) == "month" else "2018")
    series, wall = run.series(), run.scenario.clock.wall

    def by_period(values: pd.Series[float]) -> Any:
        return values.groupby([wall.month(int(ms))[:digits] for ms in values.index])

    all_quarters = (
        _interval_means_mw(run, QUARTER_MS, with_warm_up=True)[0]
        if run.transient_h
        else quarters
    )
    peaks = {month: entry["max_mw"] for month, entry in grid["monthly_peaks"].items()}
    reactive = {
        month["month"]: demand["max_mvar"]
        for month in (run.metrics.get("billing") or {}).get("months") or ()
        for demand in month["demand"]
        if demand["interval_min"] == 15
    }
    peak, most_mvar = (
        pd.Series(of, dtype=float).dropna().groupby(lambda month: month[:digits]).max()
        for of in (peaks, reactive)
    )
    demand, mean = by_period(quarters).max(), by_period(all_quarters).mean()
    edges = {
        f"{at:%Y-%m}"[:digits]
        for at in (series.start, series.end)
        if at.isoformat()[digits:19] != "2018-01-01T00:00:00"[digits:]
    }
    warm_up_end = series.start + timedelta(hours=run.transient_h)
    means = f"{interval(run.scenario.resolution_ms)} means"
    for name, peak_mw in zip(map(str, peak.index), peak, strict=True):
        note = "in part" if name in edges else ""
        factor = load_factor(mean[name], demand[name]) if name in demand else None
        starts, ends = f"{series.start:%Y-%m}"[:digits], f"{name}-01"
        is_filling = starts <= name and warm_up_end.isoformat() > ends
        about = ""
        if run.transient_h and is_filling:
            about = "mean of all of it, demand without the time of filling up"
        if factor is None:
            is_source = name in demand and mean[name] < 0
            about = "more is exported than drawn" if is_source else "there is no load"
        cells = {
            "peak": (peak_mw, "MW", note),
            "demand": (demand.get(name), "MW", why),
            "load_factor": (factor, "", why or about),
            "reactive": (most_mvar.get(name), "Mvar", note),
        }
        for key, (value, unit, of) in cells.items():
            quantity = LABELS[f"month.{key}"].name
            if key == "peak":
                quantity = f"{quantity}, {means}"
            if reactive or key != "reactive":
                yield Statistic(name, value, unit, of, quantity)


def _coincident_peaks(
    run: RunFolder, peaks: Sequence[NamedSpan]
) -> Iterator[Statistic]:
    """Yield the demand at each coincident peak, and its mean."""
    if not peaks:
        return
    table = coincident_demand(run, peaks)
    table.loc["mean"] = table.mean()
    rows: Any = table.to_dict("index")
    for item, row in rows.items():
        for quantity, value in row.items():
            yield Statistic(item, value, UNITS[quantity], "", quantity)


def _build_out_steps(
    run: RunFolder, quarters: pd.Series[float], why: str
) -> Iterator[Statistic]:
    """Yield the steps of the build-out, with added power, interval and demand."""
    facility, clock = run.scenario.facility, run.scenario.clock
    if not facility.has_phases:
        text = (
            f"none: all {facility.n_nodes:,} nodes are there from the start, in one "
            "step"
        )
        yield Statistic("Phases", text)
        return
    steps_ms, added_w = installed_power(run.scenario)
    rated_mw, _ = rated_power(run.metrics, facility)
    steps_mw = added_w * (rated_mw / facility.nodes_power_w if rated_mw else 0.0)
    installed, after_d = run.scenario.installed_nodes().values(), None
    spans = pairwise([*steps_ms.tolist(), run.scenario.horizon_ms])
    for k, (begin_ms, end_ms) in enumerate(spans):
        nodes = sum(float(pool.at(steps_ms[k : k + 1])[0]) for pool in installed)
        step_quarters = quarters.loc[begin_ms : end_ms - 1]
        cells = {
            "nodes": (nodes, "", ""),
            "rated": (float(steps_mw[: k + 1].sum()), "MW", ""),
            "step": (float(steps_mw[k]), "MW", ""),
            "after": (after_d, "d", ""),
            "15 min demand": (
                step_quarters.max() if len(step_quarters) else None,
                "MW",
                why,
            ),
        }
        for quantity, (value, unit, note) in cells.items():
            item = f"{clock.wall.at(begin_ms):%Y-%m-%d}"
            yield Statistic(item, value, unit, note, quantity)
        after_d = (end_ms - begin_ms) / MS_PER_DAY


@stage("data sheet")
def write_datasheet(
    folder: Path | str,
    out: Path | str = "datasheet.html",
    *,
    csv_file: Path | None = None,
    limits: Sequence[str] = (),
    peaks: Sequence[NamedSpan] = (),
    bands: Path | str | None = None,
    force: bool = False,
) -> list[Path]:
    """Write the data sheet of a run.

    Parameters
    ----------
    folder : path
        Run folder.
    out : path
        Page to write.
    csv_file : pathlib.Path, optional
        CSV table of the statistics to write.
    limits : sequence of str
        Names of presets or files of limits to check, in addition to those of the run.
    peaks : sequence of NamedSpan
        Peak intervals of a utility, as `diploee.datasheet` reads them from a file.
    bands : path, optional
        Folder of an ensemble of the run's scenario; the data sheet shows its P5 and
        P95.
    force : bool
        Replace existing files.

    Returns
    -------
    list of pathlib.Path
        The written files.

    Raises
    ------
    InputError
        If the folder is no run folder, or an output path is taken or is an input.
    OutputError
        If a file can't be written.
    """
    run = RunFolder.open(folder)
    if bands is not None:
        run = run.with_bands(bands)
    inputs = [*run_files(run.folder), *{peak.path for peak in peaks}]
    source = scenarios_text([run.folder])
    replaces = partial(is_page_of, source)
    check_output_file(out, force, inputs=inputs, replaces=replaces)  # before any work
    if csv_file is not None:
        if os.path.realpath(csv_file) == os.path.realpath(out):
            raise InputError(
                f"--csv: {csv_file} is that of --out; give each a place of its own"
            )
        check_output_file(csv_file, force, inputs=inputs, option="--csv")
        check_not_in_run(csv_file, run.folder, "--csv")
    sheet = data_sheet(run, limits, peaks)
    page = report_page(replace(sheet, source=source))
    with whole_file(out, force, inputs=inputs, replaces=replaces) as path:
        path.write_text(page, encoding="utf-8")
    if csv_file is not None:
        with whole_file(csv_file, force, inputs=inputs, option="--csv") as path:
            write_csv(sheet, path)
    return [Path(out)] if csv_file is None else [Path(out), csv_file]


def write_csv(sheet: Report, path: Path) -> None:
    """Write a CSV row for each statistic, in full precision."""
    write_rows(path, (COLUMNS, *long_rows(sheet.sections)))
