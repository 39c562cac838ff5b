"""How the number of a stream's jobs came about, and the occupancy that a list of jobs asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from diploee.schedule.job_table import JobTable
from diploee.tables import Int64Array

Utilization = Callable[[Iterable[JobTable]], float]
"""Schedules the jobs of a stream, span after span (`DRAW_MS`), and returns the mean node occupancy
(0-1) of its pool."""


@dataclass(frozen=True)
class StreamMatch:
    """How a stream's daily job count came about.

    Parameters
    ----------
    stream : str
        Name of the stream.
    jobs_per_day : float
        Daily job count, mean over the span.
    match : {"list", "simulated", "given", "replayed", "recurring", "synchronous"}
        What was matched.
    target_utilization : float or None
        Node occupancy asked for, 0-1.
    matched_utilization : float
        Node occupancy estimated from the list, or simulated where that is matched, 0-1.
    residual : float or None
        Matched less target.
    steps : int
        Evaluations of the bisection.
    counts : mapping of str to int
        Jobs of a log left out or changed, by cause.
    """

    stream: str
    jobs_per_day: float
    match: str
    target_utilization: float | None
    matched_utilization: float
    residual: float | None
    steps: int
    counts: Mapping[str, int] = field(default_factory=dict)


def node_ms(jobs: JobTable, horizon_ms: int) -> Int64Array:
    """Return the node time of each job within the run, as if it started at once [node ms].

    Over nodes and horizon it is Eq. 1 with N(t) from submissions and expected durations (2.3.1).
    """
    end_ms = np.minimum(jobs.submit_ms + jobs.duration_ms, horizon_ms)
    run_ms = np.maximum(end_ms - np.maximum(jobs.submit_ms, 0), 0)
    asked: Int64Array = jobs.n_nodes.astype(np.int64) * run_ms
    return asked
