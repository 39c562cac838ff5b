"""Cost of flexibility to the jobs: waits, lost work, deadlines, throughput.

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

MAX_SAMPLED = 24
BEFORE_MS, AFTER_MS = MS_PER_H, 2 * MS_PER_H
"""Actions of the widest jobs are kept from this long before an event's ramp until after
it [ms]."""
STATES = (*KINDS, "capped")


def weighted_performance(
    weight: Float64Array, performance: Float64Array
) -> float | None:
    """Return the mean relative throughput of jobs during an event.

    The weight is 1 less the loss that each job tolerates, as in arXiv:2507.00909.
    Returns None if there are no jobs.
    """
    total = float(weight.sum())
    return float(weight @ performance) / total if total else None


class FlexibleJobs:
    """Accumulator of the controller's effects on jobs, window by window."""

    def __init__(
        self,
        # What each class of jobs tolerates
        flexibility: Sequence[JobFlexibilitySpec | None],
        events: Sequence[RunEvent],
        wall: WallClock,  # for deadlines
        horizon_ms: int,
    ) -> None:
        of_class = [each or JobFlexibilitySpec() for each in flexibility] or [
            JobFlexibilitySpec()
        ]
        self._weight = np.array([each.least_speed for each in of_class])
        self._slack = np.array(
            [np.nan if f.slack is None else f.slack for f in of_class]
        )
        self._due_ms = np.array(
            [wall.time_ms(f.deadline) if f.deadline else -1 for f in of_class]
        )
        self._events, self._horizon_ms = events, horizon_ms
        # Waits [ms] of jobs that only one of two runs has started so far, own and
        # undisturbed.
        self._waits = dict[int, int](), dict[int, int]()
        self._change_h, self._change_ms = Distribution(), 0
        self._node_ms = np.zeros(4, dtype=np.int64)
        self._lost_ms = 0
        self._work_to: dict[int, int] = {}
        self._work = [[dict[int, float](), dict[int, float]()] for _ in events]
        self._class: dict[int, int] = {}
        self._drawn: list[dict[int, list[list[int]]]] = [{} for _ in events]
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
        after = np.rint(np.where(np.isnan(slack), 0, 1 + slack) * jobs.duration_ms)
        by_slack = jobs.submit_ms + after.astype(np.int64)
        return np.where(np.isnan(slack), self._due_ms[jobs.class_id], by_slack)

    def add(self, schedule: Schedule, undisturbed: bool = False) -> None:
        """Add the jobs of a window's schedule, controlled or not."""
        nth, jobs = int(undisturbed), schedule.jobs
        first = schedule.first & (jobs.submit_ms >= 0)
        waits = zip(
            jobs.job_id[first].tolist(), schedule.wait_ms[first].tolist(), strict=True
        )
        self._waits[nth].update(waits)
        due_ms = self._deadline_ms(jobs)
        ended = _has_ended(schedule)
        in_time = ended & (due_ms >= 0) & (due_ms <= self._horizon_ms)
        in_time &= schedule.end_ms <= due_ms
        self._in_time[nth] += int(np.count_nonzero(in_time))
        runs = execution_intervals(schedule)
        if not undisturbed:
            self._count(schedule, runs)
            self._keep_largest(schedule, runs)
        self._add_event_work(schedule, runs, nth)
        own, twin = self._waits
        both = sorted(own.keys() & twin.keys())
        changes_ms = np.array(
            [own.pop(job) - twin.pop(job) for job in both], dtype=np.int64
        )
        self._change_h.add(changes_ms / MS_PER_H)
        self._change_ms += int(changes_ms.sum())

    def _count(self, schedule: Schedule, runs: ExecutionIntervals) -> None:
        """Add node time by kind of interval, and repeated work."""
        inside_ms = np.minimum(runs.end_ms, self._horizon_ms) - np.maximum(
            runs.start_ms, 0
        )
        node_ms = runs.n_nodes * np.maximum(inside_ms, 0)
        self._node_ms += np.bincount(runs.kind, node_ms, minlength=4).astype(np.int64)
        if not isinstance(schedule, PreemptiveSchedule):
            return
        jobs = schedule.jobs
        rows = runs.kind == RUN
        ids, asked = (
            jobs.job_id[runs.job[rows]].tolist(),
            jobs.n_nodes[runs.job[rows]].tolist(),
        )
        spans = zip(
            ids,
            asked,
            runs.work_from_ms[rows].tolist(),
            runs.work_to_ms[rows].tolist(),
            strict=True,
        )
        for job, n_nodes, work_from, work_to in spans:
            self._lost_ms += n_nodes * max(self._work_to.get(job, 0) - work_from, 0)
            self._work_to[job] = work_to
        for job in jobs.job_id[_has_ended(schedule)].tolist():
            self._work_to.pop(job, None)

    def _add_event_work(
        self, schedule: Schedule, runs: ExecutionIntervals, nth: int
    ) -> None:
        """Add the work of each job during each event."""
        for event, works in zip(self._events, self._work, strict=True):
            rows = (runs.kind == RUN) & (runs.end_ms > event.held_ms)
            rows &= runs.start_ms < event.end_ms
            if not rows.any():
                continue
            of = runs.take(rows)
            inside_ms = np.minimum(of.end_ms, event.end_ms) - np.maximum(
                of.start_ms, event.held_ms
            )
            speed = (of.work_to_ms - of.work_from_ms) / np.maximum(
                of.end_ms - of.start_ms, 1
            )
            ids, classes = schedule.jobs.job_id[of.job], schedule.jobs.class_id[of.job]
            done = zip(
                ids.tolist(),
                classes.tolist(),
                (inside_ms * speed).tolist(),
                strict=True,
            )
            for job, class_id, work_ms in done:
                works[nth][job] = works[nth].get(job, 0.0) + work_ms
                self._class[job] = class_id

    def _keep_largest(self, schedule: Schedule, runs: ExecutionIntervals) -> None:
        """Retain the intervals of the largest jobs around each event, for a chart."""
        jobs = schedule.jobs
        for event, kept in zip(self._events, self._drawn, strict=True):
            begin_ms, until_ms = event.ramp_ms - BEFORE_MS, event.over_ms + AFTER_MS
            of = runs.take((runs.end_ms > begin_ms) & (runs.start_ms < until_ms))
            state = np.where((of.kind == RUN) & (of.level > 0), len(KINDS), of.kind)
            rows = zip(
                jobs.job_id[of.job].tolist(),
                of.n_nodes.tolist(),
                np.maximum(of.start_ms, begin_ms).tolist(),
                np.minimum(of.end_ms, until_ms).tolist(),
                state.tolist(),
                strict=True,
            )
            for job, n_nodes, start_ms, end_ms, what in rows:
                spans = kept.setdefault(job, [])
                if spans and spans[-1][1] == start_ms and spans[-1][2] == what:
                    spans[-1][1] = end_ms
                else:
                    spans.append([start_ms, end_ms, what, n_nodes])
            if len(kept) > 2 * MAX_SAMPLED:
                for job in sorted(kept, key=lambda job: _size_key(kept, job))[
                    :-MAX_SAMPLED
                ]:
                    del kept[job]

    def largest_jobs(self) -> list[list[dict[str, Any]]]:
        """Return the intervals of each event's largest jobs, the largest first."""
        result = []
        for event, kept in zip(self._events, self._drawn, strict=True):
            jobs = sorted(kept, key=lambda job: _size_key(kept, job), reverse=True)[
                :MAX_SAMPLED
            ]
            result.append(
                [
                    {
                        "job_id": job,
                        "n_nodes": max(span[3] for span in kept[job]),
                        "from_s": [
                            (span[0] - event.start_ms) / MS_PER_S for span in kept[job]
                        ],
                        "to_s": [
                            (span[1] - event.start_ms) / MS_PER_S for span in kept[job]
                        ],
                        "state": [STATES[span[2]] for span in kept[job]],
                    }
                    for job in jobs
                ]
            )
        return result

    def performance(self) -> list[float | None]:
        """Return the weighted performance during each event."""
        result = []
        for own, twin in self._work:
            jobs = sorted(job for job, work_ms in twin.items() if work_ms > 0)
            done = np.array([min(own.get(job, 0.0) / twin[job], 1.0) for job in jobs])
            classes = np.array([self._class[job] for job in jobs], dtype=np.int64)
            result.append(
                weighted_performance(self._weight[classes], done) if jobs else None
            )
        return result

    def block(self) -> dict[str, Any]:
        """Return the `jobs` entry of the `flexibility` block."""
        node_h = self._node_ms / MS_PER_H
        changed = self._change_h
        # Of whole ms, so that windows of any length give the same.
        mean_h = self._change_ms / MS_PER_H / changed.count if changed.count else None
        return {
            "mean_wait_change_h": mean_h,
            "p95_wait_change_h": changed.percentiles(95)[0] if changed.count else None,
            "lost_node_h": self._lost_ms / MS_PER_H,
            "restart_node_h": float(node_h[CHECKPOINT] + node_h[RESTART]),
            "paused_node_h": float(node_h[PAUSED]),
            "deadlines": self._n_due,
            "deadline_misses": self._n_due - self._in_time[0],
            "twin_deadline_misses": self._n_due - self._in_time[1],
        }


def _size_key(kept: dict[int, list[list[int]]], job: int) -> tuple[int, int]:
    """Return the sort key of a job by node count; ties sort the first job last."""
    return max(span[3] for span in kept[job]), -job


def _has_ended(schedule: Schedule) -> BoolArray:
    """Return a mask of jobs that have ended, or will end within the run."""
    return (schedule.end_ms != NEVER_MS) & (schedule.end_ms <= schedule.horizon_ms)
