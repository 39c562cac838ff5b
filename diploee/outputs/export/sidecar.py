"""The sidecar: what an export's numbers are, as most of the formats hold no comments."""

from __future__ import annotations

import hashlib
from typing import Any

from diploee import __version__
from diploee.outputs.export.base import Format, Job, Written
from diploee.outputs.export.reactive import CONVENTION
from diploee.outputs.export.source import Source
from diploee.outputs.reader import Run
from diploee.units import MS_PER_S

NO_FAULT_STUDY = (
    "a playback of P(t) holds no response to voltage or frequency: it supports no fault study, nor "
    "claims on flicker, torsion or harmonics"
)
INTERVAL = "each value is the mean over the step that starts at its stamp or position"


def describe(fmt: Format, job: Job, written: Written, leap_rule: str | None) -> dict[str, Any]:
    """Return the sidecar of a finished export.

    Parameters
    ----------
    fmt : Format
        The format.
    job : Job
        What was exported; its series was streamed to the end.
    written : Written
        What the writer tells of its files.
    leap_rule : str or None
        What became of 29 February, for formats of 8,760 hours.
    """
    series, run = job.series, job.run
    return {
        "format": fmt.name,
        "diploee_version": __version__,
        "files": written.files,
        "column": job.options.column,
        "power_boundary": f"device power; {run.manifest.get('power_boundary', 'no overlay')}",
        "reactive_power": _reactive(job),
        "interval_convention": INTERVAL,
        "step_s": series.step_s,
        "n_steps": series.n_steps,
        "start": series.edge(series.spans[0][0]).isoformat(),
        "end": series.edge(series.spans[-1][1]).isoformat(),
        "utc_offset": run.scenario.facility.utc_offset,
        "time_zone": job.options.time_zone or "none: fixed UTC offset",
        "leap_day": leap_rule or "nothing is left out",
        "energy_mwh": series.totals.energy_mwh,
        "mean_mw": series.totals.energy_mwh * 3600 / (series.n_steps * series.step_s),
        "peak_mw": series.totals.peak_mw,
        "run": _source(series.source),
        "done": _done(job, leap_rule),
        "notes": [*written.notes, NO_FAULT_STUDY, *_bandwidth(run)],
    }


def _reactive(job: Job) -> str:
    if job.reactive is None:
        return "none: the run holds active power only, and no power factor is made up"
    return f"interpolated at each step's mean power in {job.reactive.path.name}; {CONVENTION}"


def _done(job: Job, leap_rule: str | None) -> list[str]:
    series, source = job.series, job.series.source
    done = [
        f"means over {series.rows_per_step} intervals of {source.step_s:g} s; they keep its energy"
        if series.rows_per_step > 1
        else f"the {source.name}'s own step of {source.step_s:g} s"
    ]
    if source.zoom:
        done.insert(0, f"the zoom '{source.zoom}' of the run: one of its worst windows, at 0.1 s")
    if leap_rule is not None:
        done.append(f"one calendar year of 8,760 hours; {leap_rule}")
    elif series.spans != ((0, source.n_rows),):
        done.append(f"a part of the {source.name}, from 'start' to 'end'")
    return done


def _source(source: Source) -> dict[str, Any]:
    run = source.run
    with source.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "scenario": run.scenario.name,
        "scenario_sha256": run.manifest["scenario_sha256"],
        f"{source.path.stem}_parquet_sha256": digest,
        "seed": run.scenario.seed,
        "resolution_s": run.scenario.resolution_ms / MS_PER_S,
    } | ({"zoom": _zoom(source)} if source.zoom else {})


def _zoom(source: Source) -> dict[str, Any]:
    """Return what was searched for, where it was found and how large it is."""
    entry = source.run.zoom_entry(source.zoom)
    found = {key: entry.get(key) for key in ("name", "at", "value_mw")}
    return found | {
        "resolution_s": source.step_s,
        "basis": source.run.metrics["zooms"].get("basis", ""),
    }


def _bandwidth(run: Run) -> list[str]:
    entries = run.manifest.get("profiles", {}).values()
    found = [entry.get("provenance", {}).get("bandwidth_hz") for entry in entries]
    lowest = min((hz for hz in found if hz), default=None)
    if lowest is None:
        return []
    return [f"the power profiles hold no oscillation above {lowest:g} Hz, whatever the step"]
