"""The `jobs` block of the metrics: submitted jobs, waiting jobs and waiting times."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.base.tables import Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H
from diploee.schedule.started import Schedule


class QueueMetrics:
    """Queue statistics of the whole facility or of one pool, added window by window.

    The block is empty if no stream submits jobs (`has_streams` is false).
    """

    def __init__(self, horizon_ms: int, has_streams: bool = True) -> None:
        self._horizon_ms, self.has_streams = horizon_ms, has_streams
        self.submitted, self.started, self.node_ms = 0, 0, 0
        self.n_from_warm_up = 0  # jobs submitted in the warm-up, started in the run
        self._queued, self._wait_ms, self._longest_ms = 0, 0, 0

    def add(self, n_submitted: int, started: Schedule) -> None:
        """Add a window's submitted jobs and the jobs that started or ran in the window.

        The waiting time of a requeued job ends at its first start. Jobs submitted
        before the run are included in the node time only.
        """
        self.submitted += n_submitted
        self.node_ms += int(started.node_ms.sum())
        start_ms, submit_ms = (
            started.start_ms[started.first],
            started.jobs.submit_ms[started.first],
        )
        self.n_from_warm_up += int(np.count_nonzero((submit_ms < 0) & (start_ms >= 0)))
        wait_ms = started.wait_ms[started.first & (started.jobs.submit_ms >= 0)]
        if not wait_ms.size:
            return
        self.started += wait_ms.size
        self._queued += int(np.count_nonzero(wait_ms))
        self._wait_ms += int(wait_ms.sum())
        self._longest_ms = max(self._longest_ms, int(wait_ms.max()))

    @property
    def unstarted(self) -> int:
        """Number of jobs that never started."""
        return self.submitted - self.started

    def block(self) -> dict[str, Any]:
        """Return the `jobs` block of the metrics.

        A job is queued if it started later than it was submitted. Undefined values are
        None.
        """
        started = self.started
        return {
            "submitted": self.submitted,
            "submitted_per_day": self.submitted / (self._horizon_ms / MS_PER_DAY),
            "queued_fraction": self._queued / started if started else None,
            "mean_queue_time_queued_h": _mean_h(self._wait_ms, self._queued),
            "mean_queue_time_all_h": _mean_h(self._wait_ms, started),
            "max_queue_time_h": self._longest_ms / MS_PER_H if started else None,
            "unstarted": self.unstarted,
        }


class QueueLength:
    """Counter of waiting jobs at increasing times."""

    def __init__(self) -> None:
        self._submit_ms = self._start_ms = np.empty(0, dtype=np.int64)
        self._waiting = 0  # waiting jobs before the first stored time

    def add(self, submit_ms: Int64Array, start_ms: Int64Array) -> None:
        """Add a window's submissions and starts [ms], in any order.

        A requeued job counts as another submission, and its next start as another
        start.
        """
        self._submit_ms = np.concatenate([self._submit_ms, np.sort(submit_ms)])
        self._start_ms = np.concatenate([self._start_ms, np.sort(start_ms)])

    def at(self, times_ms: Int64Array) -> Int64Array:
        """Return the number of submitted but unstarted jobs at each time [ms].

        Times must not decrease between calls and must lie within the added windows.
        """
        submitted = np.searchsorted(self._submit_ms, times_ms, side="right")
        started = np.searchsorted(self._start_ms, times_ms, side="right")
        waiting: Int64Array = self._waiting + submitted - started
        if times_ms.size:
            self._waiting = int(waiting[-1])
            self._submit_ms = self._submit_ms[submitted[-1] :]
            self._start_ms = self._start_ms[started[-1] :]
        return waiting


def _mean_h(wait_ms: int, n_jobs: int) -> float | None:
    """Return the mean waiting time per job [h]; None without jobs."""
    return wait_ms / n_jobs / MS_PER_H if n_jobs else None
