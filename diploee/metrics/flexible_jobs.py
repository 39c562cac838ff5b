"""Cost of flexibility to the jobs: waiting times, lost work, deadlines, throughput.

Each job is compared with itself in the run's baseline without the controller.

See also: docs/models/flexibility.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import Distribution
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_S
from diploee.scenario.flexibility import JobFlexibilitySpec, RunEvent
from diploee.schedule.execution_intervals import (
    CHECKPOINT,
    KINDS,
    PAUSED,
    RESTART,
    RUN,
    ExecutionIntervals,
    PreemptiveSchedule,
    execution_intervals,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import NEVER_MS, Schedule

# Number of the largest jobs whose intervals around an event are stored
MAX_SAMPLED = 24
BEFORE_MS, AFTER_MS = MS_PER_H, 2 * MS_PER_H
"""Time before an event's ramp and after the event in which these are stored [ms]."""
# States of jobs in the stored intervals
STATES = (*KINDS, "capped")


def weighted_performance(
    weight: Float64Array, performance: Float64Array
) -> float | None:
    """Return the mean relative throughput of jobs during an event.

    The weight of a job is 1 minus the loss that it tolerates, as in arXiv:2507.00909.
    The result is None if there are no jobs.
    """
    total = float(weight.sum())
    return float(weight @ performance) / total if total else None


class FlexibleJobs:
    """Accumulator of the controller's effects on jobs, window by window."""

    def __init__(
        self,
        # Flexibility of each job class
        flexibility: Sequence[JobFlexibilitySpec | None],
        events: Sequence[RunEvent],
        wall: WallClock,  # for deadlines
        horizon_ms: int,
    ) -> None:
        flexibility_by_class = [
            class_flexibility or JobFlexibilitySpec()
            for class_flexibility in flexibility
        ] or [JobFlexibilitySpec()]
        self._weight = np.array(
            [
                class_flexibility.least_speed
                for class_flexibility in flexibility_by_class
            ]
        )
        self._slack = np.array(
            [
                np.nan if class_flexibility.slack is None else class_flexibility.slack
                for class_flexibility in flexibility_by_class
            ]
        )
        self._due_ms = np.array(
            [
                wall.time_ms(class_flexibility.deadline)
                if class_flexibility.deadline
                else -1
                for class_flexibility in flexibility_by_class
            ]
        )
        self._events, self._horizon_ms = events, horizon_ms
        # Waiting times [ms] of jobs that only the run or only the baseline has started
        self._waits_ms = dict[int, int](), dict[int, int]()
        self._change_h, self._change_ms = Distribution(), 0
        self._node_ms = np.zeros(4, dtype=np.int64)
        self._lost_ms = 0
        self._work_to: dict[int, int] = {}
        self._work = [[dict[int, float](), dict[int, float]()] for _ in events]
        self._class: dict[int, int] = {}
        self._largest: list[dict[int, list[list[int]]]] = [{} for _ in events]
        self._n_due = 0
        self._in_time = [0, 0]

    def submit(self, jobs: JobTable) -> None:
        """Add the jobs submitted in a window."""
        due_ms = self._deadline_ms(jobs)
        self._n_due += int(
            np.count_nonzero((due_ms >= 0) & (due_ms <= self._horizon_ms))
        )

    def _deadline_ms(self, jobs: JobTable) -> Int64Array:
        """Return deadlines of jobs [ms]; negative if none or before the run."""
        slack = self._slack[jobs.class_id]
        slack_ms = np.rint(np.where(np.isnan(slack), 0, 1 + slack) * jobs.duration_ms)
        by_slack_ms = jobs.submit_ms + slack_ms.astype(np.int64)
        return np.where(np.isnan(slack), self._due_ms[jobs.class_id], by_slack_ms)

    def add(self, schedule: Schedule, is_baseline: bool = False) -> None:
        """Add the jobs of a window's schedule, controlled or not."""
        run_index, jobs = int(is_baseline), schedule.jobs
        has_started = schedule.first & (jobs.submit_ms >= 0)
        new_waits = zip(
            jobs.job_id[has_started].tolist(),
            schedule.wait_ms[has_started].tolist(),
            strict=True,
        )
        self._waits_ms[run_index].update(new_waits)
        due_ms = self._deadline_ms(jobs)
        ended = _has_ended(schedule)
        is_in_time = ended & (due_ms >= 0) & (due_ms <= self._horizon_ms)
        is_in_time &= schedule.end_ms <= due_ms
        self._in_time[run_index] += int(np.count_nonzero(is_in_time))
        intervals = execution_intervals(schedule)
        if not is_baseline:
            self._count(schedule, intervals)
            self._store_largest(schedule, intervals)
        self._add_event_work(schedule, intervals, run_index)
        run_waits, baseline_waits = self._waits_ms
        common_jobs = sorted(run_waits.keys() & baseline_waits.keys())
        changes_ms = np.array(
            [run_waits.pop(job) - baseline_waits.pop(job) for job in common_jobs],
            dtype=np.int64,
        )
        self._change_h.add(changes_ms / MS_PER_H)
        self._change_ms += int(changes_ms.sum())

    def _count(self, schedule: Schedule, intervals: ExecutionIntervals) -> None:
        """Add node time by kind of interval, and repeated work."""
        in_run_ms = np.minimum(intervals.end_ms, self._horizon_ms) - np.maximum(
            intervals.start_ms, 0
        )
        node_ms = intervals.n_nodes * np.maximum(in_run_ms, 0)
        self._node_ms += np.bincount(intervals.kind, node_ms, minlength=4).astype(
            np.int64
        )
        if not isinstance(schedule, PreemptiveSchedule):
            return
        jobs = schedule.jobs
        rows = intervals.kind == RUN
        ids, n_requested = (
            jobs.job_id[intervals.job[rows]].tolist(),
            jobs.n_nodes[intervals.job[rows]].tolist(),
        )
        works = zip(
            ids,
            n_requested,
            intervals.work_from_ms[rows].tolist(),
            intervals.work_to_ms[rows].tolist(),
            strict=True,
        )
        for job, n_nodes, work_from, work_to in works:
            self._lost_ms += n_nodes * max(self._work_to.get(job, 0) - work_from, 0)
            self._work_to[job] = work_to
        for job in jobs.job_id[_has_ended(schedule)].tolist():
            self._work_to.pop(job, None)

    def _add_event_work(
        self, schedule: Schedule, intervals: ExecutionIntervals, run_index: int
    ) -> None:
        """Add the work of each job during each event."""
        for event, works in zip(self._events, self._work, strict=True):
            rows = (intervals.kind == RUN) & (intervals.end_ms > event.held_ms)
            rows &= intervals.start_ms < event.end_ms
            if not rows.any():
                continue
            in_event = intervals.take(rows)
            overlap_ms = np.minimum(in_event.end_ms, event.end_ms) - np.maximum(
                in_event.start_ms, event.held_ms
            )
            speed = (in_event.work_to_ms - in_event.work_from_ms) / np.maximum(
                in_event.end_ms - in_event.start_ms, 1
            )
            ids, classes = (
                schedule.jobs.job_id[in_event.job],
                schedule.jobs.class_id[in_event.job],
            )
            rows_done = zip(
                ids.tolist(),
                classes.tolist(),
                (overlap_ms * speed).tolist(),
                strict=True,
            )
            for job, class_id, work_ms in rows_done:
                works[run_index][job] = works[run_index].get(job, 0.0) + work_ms
                self._class[job] = class_id

    def _store_largest(self, schedule: Schedule, intervals: ExecutionIntervals) -> None:
        """Store the intervals of the largest jobs around each event, for a chart."""
        jobs = schedule.jobs
        for event, stored in zip(self._events, self._largest, strict=True):
            begin_ms, until_ms = event.ramp_ms - BEFORE_MS, event.over_ms + AFTER_MS
            around_event = intervals.take(
                (intervals.end_ms > begin_ms) & (intervals.start_ms < until_ms)
            )
            state = np.where(
                (around_event.kind == RUN) & (around_event.level > 0),
                len(KINDS),
                around_event.kind,
            )
            rows = zip(
                jobs.job_id[around_event.job].tolist(),
                around_event.n_nodes.tolist(),
                np.maximum(around_event.start_ms, begin_ms).tolist(),
                np.minimum(around_event.end_ms, until_ms).tolist(),
                state.tolist(),
                strict=True,
            )
            for job, n_nodes, start_ms, end_ms, state_id in rows:
                job_intervals = stored.setdefault(job, [])
                if (
                    job_intervals
                    and job_intervals[-1][1] == start_ms
                    and job_intervals[-1][2] == state_id
                ):
                    job_intervals[-1][1] = end_ms
                else:
                    job_intervals.append([start_ms, end_ms, state_id, n_nodes])
            if len(stored) > 2 * MAX_SAMPLED:
                for job in sorted(stored, key=lambda job: _size_key(stored, job))[
                    :-MAX_SAMPLED
                ]:
                    del stored[job]

    def largest_jobs(self) -> list[list[dict[str, Any]]]:
        """Return the intervals of each event's largest jobs, the largest first."""
        result = []
        for event, stored in zip(self._events, self._largest, strict=True):
            jobs = sorted(stored, key=lambda job: _size_key(stored, job), reverse=True)[
                :MAX_SAMPLED
            ]
            result.append(
                [
                    {
                        "job_id": job,
                        "n_nodes": max(interval[3] for interval in stored[job]),
                        "from_s": [
                            (interval[0] - event.start_ms) / MS_PER_S
                            for interval in stored[job]
                        ],
                        "to_s": [
                            (interval[1] - event.start_ms) / MS_PER_S
                            for interval in stored[job]
                        ],
                        "state": [STATES[interval[2]] for interval in stored[job]],
                    }
                    for job in jobs
                ]
            )
        return result

    def performance(self) -> list[float | None]:
        """Return the weighted performance during each event."""
        result = []
        for run_work, baseline_work in self._work:
            jobs = sorted(job for job, work_ms in baseline_work.items() if work_ms > 0)
            relative = np.array(
                [min(run_work.get(job, 0.0) / baseline_work[job], 1.0) for job in jobs]
            )
            classes = np.array([self._class[job] for job in jobs], dtype=np.int64)
            result.append(
                weighted_performance(self._weight[classes], relative) if jobs else None
            )
        return result

    def block(self) -> dict[str, Any]:
        """Return the `jobs` entry of the `flexibility` block."""
        node_h = self._node_ms / MS_PER_H
        wait_changes = self._change_h
        # From whole ms, so that the result does not depend on the windows
        mean_h = (
            self._change_ms / MS_PER_H / wait_changes.count
            if wait_changes.count
            else None
        )
        return {
            "mean_wait_change_h": mean_h,
            "p95_wait_change_h": wait_changes.percentiles(95)[0]
            if wait_changes.count
            else None,
            "lost_node_h": self._lost_ms / MS_PER_H,
            "restart_node_h": float(node_h[CHECKPOINT] + node_h[RESTART]),
            "paused_node_h": float(node_h[PAUSED]),
            "deadlines": self._n_due,
            "deadline_misses": self._n_due - self._in_time[0],
            "twin_deadline_misses": self._n_due - self._in_time[1],
        }


def _size_key(stored: dict[int, list[list[int]]], job: int) -> tuple[int, int]:
    """Return the sort key of a job: by node count, then from later to earlier jobs."""
    return max(interval[3] for interval in stored[job]), -job


def _has_ended(schedule: Schedule) -> BoolArray:
    """Return a mask of jobs that have ended, or will end within the run."""
    return (schedule.end_ms != NEVER_MS) & (schedule.end_ms <= schedule.horizon_ms)
