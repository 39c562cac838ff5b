"""The `jobs` block of the metrics: what was submitted, what waited and for how long."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.schedule import Schedule
from diploee.units import MS_PER_DAY, MS_PER_H


def queue_metrics(schedule: Schedule) -> dict[str, Any]:
    """Return the `jobs` block.

    Queued means started later than submitted, among the started jobs. Values that no job defines
    are None.

    Parameters
    ----------
    schedule : Schedule
        All jobs of the facility or of one pool.
    """
    wait_ms = schedule.wait_ms[schedule.started]
    queued_ms = wait_ms[wait_ms > 0]
    n_jobs, n_started = len(schedule.jobs), wait_ms.size
    return {
        "submitted": n_jobs,
        "submitted_per_day": n_jobs / (schedule.horizon_ms / MS_PER_DAY),
        "queued_fraction": queued_ms.size / n_started if n_started else None,
        "mean_queue_time_queued_h": _mean_h(queued_ms),
        "mean_queue_time_all_h": _mean_h(wait_ms),
        "max_queue_time_h": float(wait_ms.max()) / MS_PER_H if n_started else None,
        "unstarted": n_jobs - n_started,
    }


def _mean_h(wait_ms: np.ndarray[Any, np.dtype[np.int64]]) -> float | None:
    return float(wait_ms.mean()) / MS_PER_H if wait_ms.size else None
