"""Entry of a scenario's `streams` for a fitted job log, with comments."""

from __future__ import annotations

from typing import Any

from diploee.base.version import full_version
from diploee.fits.calendar_output import calendar_entry, round_digits
from diploee.fits.confidence_limits import round_shares
from diploee.fits.jobs.class_fits import ClassFit
from diploee.fits.jobs.job_log_fit import JobLogFit
from diploee.runs.sections import as_lines

SHARE_DIGITS = 8


def job_stream(fit: JobLogFit, pool: str) -> dict[str, Any]:
    """Return the entry of `streams` as plain data."""
    if fit.replay is not None:
        return {"pool": pool, "replay": fit.replay}
    arrivals = fit.arrivals
    stream = {"pool": pool, "jobs_per_day": round_digits(arrivals.jobs_per_day, 6)}
    for key in ("dispersion", "day_dispersion"):
        if (value := getattr(arrivals, key)) is not None:
            stream[key] = round_digits(value, 5)
    stream |= calendar_entry(arrivals.calendar, arrivals.weeks)
    shares = round_shares([c.probability for c in fit.classes], SHARE_DIGITS)
    tables: dict[str, Any] = {}  # tables that classes share appear once in the YAML
    classes = zip(fit.classes, shares, strict=True)
    return stream | {
        "classes": [_class_entry(fit, share, tables) for fit, share in classes]
    }


def _class_entry(fit: ClassFit, share: float, tables: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a class; equal duration tables are one object."""
    entry = {"workload": fit.workload, "n_nodes": fit.n_nodes, "probability": share}
    if fit.n_gpus is not None:
        entry["n_gpus"] = fit.n_gpus
    if fit.profile_n_nodes != fit.n_nodes:
        entry["scale_from_n_nodes"] = fit.profile_n_nodes
    if fit.duration is not None:
        model = fit.duration.model.model_dump(exclude_none=True)
        entry["duration"] = {
            key: tables.setdefault(str(value), value) for key, value in model.items()
        }
    if fit.arrays is not None:
        entry["arrays"] = fit.arrays.model_dump(exclude_none=True)
    return entry


def stream_comments(fit: JobLogFit) -> list[str]:
    """Return the comments of a fitted stream, one string per comment."""
    usage = "The stream goes into a scenario that has the pool" + (
        "; jobs_per_day may give way to target_utilization."
        if fit.replay is None
        else "."
    )
    return [f"Fitted by diploee {full_version()}.", *as_lines(fit.sections()), usage]
