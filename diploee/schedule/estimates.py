"""How long jobs are thought to run when they are submitted: what a scheduler knows of run times.

A job that runs longer than its estimate keeps its nodes; it counts as ending the next ms.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from diploee.errors import shown
from diploee.model import Model
from diploee.scenario import SchedulerSpec
from diploee.scenario.spans import SpanMs
from diploee.schedule.job_table import JobTable
from diploee.tables import Int64Array

EXACT: Literal["exact"] = "exact"


class EstimateByFactor(Model):
    """The true run time, times a factor."""

    factor: float = Field(gt=0, le=1e6, description="Factor on the true run time.")


class EstimateByClasses(Model):
    """The shortest of some lengths that the run time fits into."""

    classes: tuple[SpanMs, ...] = Field(
        min_length=1,
        description="Lengths of which a job asks for the shortest that holds its run time, the "
        "longest where none does.",
    )


def _read(value: Any) -> Any:
    """Return an estimate as one of its forms, so that what is wrong is said of that one alone."""
    if isinstance(value, dict) and set(value) == {"factor"}:
        return EstimateByFactor.model_validate(value)
    if isinstance(value, dict) and set(value) == {"classes"}:
        return EstimateByClasses.model_validate(value)
    if value in ("exact", "logged") or isinstance(value, EstimateByFactor | EstimateByClasses):
        return value
    raise ValueError(
        "must be 'exact', 'logged', {factor: 2} or {classes: [30 min, 4 h]}, found " + shown(value)
    )


Estimate = Annotated[
    Literal["exact", "logged"] | EstimateByFactor | EstimateByClasses, BeforeValidator(_read)
]
"""A policy's rule for the estimates of its jobs."""


class EstimatingSpec(SchedulerSpec):
    """A queue discipline that looks at how long jobs are thought to run."""

    estimate: Estimate = Field(
        default=EXACT,
        description="How long a job is thought to run: exact, its run time times a factor, the "
        "shortest of some classes that holds it, or logged, what its user asked for in the log, "
        "its run time where the log has no such time. A job that runs longer keeps its nodes.",
    )


def estimated_ms(estimate: Estimate, jobs: JobTable) -> Int64Array:
    """Return how long jobs are thought to run."""
    run_ms: Int64Array = jobs.duration_ms
    match estimate:
        case EstimateByFactor(factor=factor):
            run_ms = np.maximum(np.rint(run_ms * factor), 1).astype(np.int64)
        case EstimateByClasses(classes=classes):
            lengths_ms = np.sort(np.array(classes, dtype=np.int64))
            fitting = np.searchsorted(lengths_ms, run_ms)
            run_ms = lengths_ms[np.minimum(fitting, lengths_ms.size - 1)]
        case "logged":
            run_ms = np.where(jobs.requested_ms > 0, jobs.requested_ms, run_ms)
    return run_ms
