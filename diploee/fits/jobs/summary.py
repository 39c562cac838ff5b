"""Scenario stream of a fitted log."""

from __future__ import annotations

from typing import Any

from diploee.base.version import full_version
from diploee.fits.confidence_limits import closed_shares
from diploee.fits.fit_tables import calendar_entry, rounded
from diploee.fits.jobs.class_fits import ClassFit
from diploee.fits.jobs.job_log_fit import JobLogFit
from diploee.runs.sections import as_lines

SHARE_DIGITS = 8


def job_stream(fit: JobLogFit, pool: str) -> dict[str, Any]:
    """Return an entry of `streams` as plain data."""
    if fit.replay is not None:
        return {"pool": pool, "replay": fit.replay}
    arrivals = fit.arrivals
    stream = {"pool": pool, "jobs_per_day": rounded(arrivals.jobs_per_day, 6)}
    for key in ("dispersion", "day_dispersion"):
        if (value := getattr(arrivals, key)) is not None:
            stream[key] = rounded(value, 5)
    stream |= calendar_entry(arrivals.calendar, arrivals.weeks)
    shares = closed_shares([c.probability for c in fit.classes], SHARE_DIGITS)
    tables: dict[str, Any] = {}  # which classes share stand once in the YAML
    classes = zip(fit.classes, shares, strict=True)
    return stream | {"classes": [_class(of, share, tables) for of, share in classes]}


def _class(of: ClassFit, share: float, tables: dict[str, Any]) -> dict[str, Any]:
    entry = {"workload": of.workload, "n_nodes": of.n_nodes, "probability": share}
    if of.n_gpus is not None:
        entry["n_gpus"] = of.n_gpus
    if of.profile_n_nodes != of.n_nodes:
        entry["scale_from_n_nodes"] = of.profile_n_nodes
    if of.duration is not None:
        model = of.duration.model.model_dump(exclude_none=True)
        entry["duration"] = {
            key: tables.setdefault(str(value), value) for key, value in model.items()
        }
    if of.arrays is not None:
        entry["arrays"] = of.arrays.model_dump(exclude_none=True)
    return entry


def head_of(fit: JobLogFit) -> list[str]:
    """Return the comments of a fitted stream."""
    into = "The stream goes into a scenario that has the pool" + (
        "; jobs_per_day may give way to target_utilization."
        if fit.replay is None
        else "."
    )
    return [f"Fitted by diploee {full_version()}.", *as_lines(fit.sections()), into]
