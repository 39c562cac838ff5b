"""The sidecar: what an export's numbers are, as most of the formats hold no comments."""

from __future__ import annotations

import hashlib
from typing import Any

from diploee import __version__
from diploee.metrics.bands import recorded_readings
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.series import CONVENTION, REACTIVE_OF
from diploee.outputs.reader import Run
from diploee.outputs.series import RunSeries
from diploee.units import MS_PER_S

NO_FAULT_STUDY = (
    "a playback of P(t) holds no response to voltage or frequency: it supports no fault study, nor "
    "claims on flicker, torsion or harmonics"
)
FIXED_OFFSET = "none: fixed UTC offset"
INTERVAL = "each value is the mean over the step that starts at its stamp or position"


def describe(
    fmt: Format, request: ExportRequest, written: Written, leap_rule: str | None
) -> dict[str, Any]:
    """Return the sidecar of a finished export."""
    series, run = request.series, request.run
    return {
        "format": fmt.name,
        "diploee_version": __version__,
        "files": written.files,
        "column": request.options.column,
        "power_boundary": run.boundary(request.options.column),
        "reactive_power": _reactive(fmt, request),
        "interval_convention": INTERVAL,
        "step_s": series.step_s,
        "n_steps": series.n_steps,
        "start": series.edge(series.spans[0][0]).isoformat(),
        "end": series.edge(series.spans[-1][1]).isoformat(),
        "utc_offset": series.edge(series.spans[0][0]).isoformat()[-6:],
        "time_zone": request.options.time_zone or run.scenario.facility.time_zone or FIXED_OFFSET,
        "leap_day": leap_rule or "nothing is left out",
        "energy_mwh": series.totals.energy_mwh,
        "mean_mw": series.totals.energy_mwh * 3600 / (series.n_steps * series.step_s),
        "peak_mw": series.totals.peak_mw,
        "run": _source(series.source),
        "done": _done(request, leap_rule),
        "notes": [*written.notes, NO_FAULT_STUDY, *_bandwidth(run)],
    }


def _reactive(fmt: Format, request: ExportRequest) -> str:
    column, found = request.options.column, request.series.reactive
    if "q_table" not in fmt.options:
        return "none: the format holds active power alone"
    if found is None:
        return f"none: the run holds none of '{column}', and no power factor is made up"
    if isinstance(found, str):
        assumed = request.run.manifest.get("assumed")
        terms = f"; assumed terms: {', '.join(assumed)}" if assumed else ""
        return f"modelled, the run's '{found}' ({request.run.boundary(found)}){terms}; {CONVENTION}"
    own = REACTIVE_OF.get(column)
    instead = f", in place of the run's own '{own}'" if own in request.series.source.check() else ""
    return f"interpolated at each step's mean power in {found.path.name}{instead}; {CONVENTION}"


def _done(request: ExportRequest, leap_rule: str | None) -> list[str]:
    series, source = request.series, request.series.source
    done = [
        f"means over {series.rows_per_step} intervals of {source.step_s:g} s; they keep its energy"
        if series.rows_per_step > 1
        else f"the {source.name}'s own step of {source.step_s:g} s"
    ]
    if source.event_window:
        done.insert(0, f"the event window '{source.event_window}' of the run, at 0.1 s")
    if leap_rule is not None:
        done.append(f"one calendar year of 8,760 hours; {leap_rule}")
    elif series.spans != ((0, source.n_rows),):
        done.append(f"a part of the {source.name}, from 'start' to 'end'")
    return done


def _source(source: RunSeries) -> dict[str, Any]:
    run = source.run
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "scenario": run.scenario.name,
        "scenario_sha256": run.manifest["scenario_sha256"],
        f"{source.path.stem}_parquet_sha256": digest,
        "seed": run.scenario.seed,
        "resolution_s": run.scenario.resolution_ms / MS_PER_S,
    } | ({"zoom": _event_window(source)} if source.event_window else {})


def _event_window(source: RunSeries) -> dict[str, Any]:
    """Return what was searched for, where it was found and how large it is."""
    entry = source.run.event_window_entry(source.event_window)
    found = {key: entry.get(key) for key in ("name", "at", "value_mw")}
    return found | {
        "resolution_s": source.step_s,
        "basis": source.run.metrics["zooms"].get("basis", ""),
    }


def _bandwidth(run: Run) -> list[str]:
    readings = recorded_readings(run.manifest)
    lowest = min((reading.bandwidth_hz for reading in readings), default=None)
    if lowest is None:
        return []
    return [f"the power profiles hold no oscillation above {lowest:g} Hz, whatever the step"]
