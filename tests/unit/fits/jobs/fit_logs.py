"""Small job logs for the tests of this folder: ``from fit_logs import job_log``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.loads.import_counts import ImportCounts
from diploee.loads.jobs.job_log import MISSING_MS, STATES, JobLog, JobRecords

HOUR_MS = 3_600_000
MONDAY_MS = 1_514_764_800_000
"""2018-01-01 00:00 UTC, a Monday."""


def job_log(
    submit_ms: Sequence[int] | np.ndarray,
    n_nodes: Sequence[int] | np.ndarray | int = 1,
    duration_s: Sequence[float] | np.ndarray | float = 600,
    types: tuple[str, ...] = ("",),
    type_id: Sequence[int] | np.ndarray | int = 0,
    utc_offset_min: int | None = 0,
) -> JobLog:
    """A log of jobs, sorted by submission; without an offset its times have no date."""
    n = len(submit_ms)
    order = np.argsort(submit_ms, kind="stable")

    def column(values: object) -> np.ndarray:
        return np.broadcast_to(np.asarray(values), n)[order]

    records = JobRecords(
        submit_ms=column(submit_ms),
        start_ms=np.full(n, MISSING_MS),
        duration_ms=np.rint(column(duration_s) * 1000),
        n_nodes=column(n_nodes),
        n_gpus=np.full(n, np.nan),
        state_id=np.full(n, STATES.index("completed")),
        type_id=column(type_id),
        energy_j=np.full(n, np.nan),
    )
    names = tuple(map(str, range(n)))
    counts = ImportCounts(n, n)
    relative = utc_offset_min is None
    return JobLog(
        "made.csv", "csv", records, names, types, utc_offset_min, relative, counts
    )


def submissions(
    counts: np.ndarray, rng: np.random.Generator, first_ms: int = MONDAY_MS
) -> np.ndarray:
    """Submission times with the given count in each hour."""
    hour = np.repeat(np.arange(counts.size), counts)
    return (
        first_ms + hour * HOUR_MS + (rng.random(hour.size) * HOUR_MS).astype(np.int64)
    )
