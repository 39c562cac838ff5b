"""The `synchronous` block of the metrics: time use of large training jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from diploee.base.units import MS_PER_H
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.training_phases import TrainingPhase
from diploee.schedule.execution_intervals import (
    RUN,
    ExecutionIntervals,
    execution_intervals,
)
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import Schedule

# Training phases of each metric of lost node hours
_HOURS: dict[str, tuple[TrainingPhase, ...]] = {
    "redone": (TrainingPhase.REDO,),
    "checkpoint": (TrainingPhase.CHECKPOINT,),
    "hung": (TrainingPhase.HUNG,),
    "restart": (
        TrainingPhase.RESCHEDULE,
        TrainingPhase.PLANNED,
        TrainingPhase.LOAD,
        TrainingPhase.END,
    ),
    "waiting": (TrainingPhase.WAIT,),
}
STOPPED = len(TrainingPhase)
"""Index after the phases: nodes occupied while a policy suspends, saves or restarts a
job."""


class SynchronousMetrics:
    """Accumulator of the synchronous jobs' phases within the run, by window."""

    def __init__(self, streams: JobStreams, names: Iterable[str]) -> None:
        self._streams = streams
        zero = np.zeros(len(TrainingPhase) + 1, dtype=np.int64)
        self._reached_ms: dict[int, int] = {}
        self._node_ms = {name: zero.copy() for name in names}
        self._n_begun = {name: zero.copy() for name in names}

    def add(self, started: Schedule) -> None:
        """Add the jobs that started in a window, or their execution intervals."""
        started = started.take(started.jobs.synchronous_id > 0)
        intervals = execution_intervals(started)
        for row in range(len(intervals)):
            self._add(
                started.jobs, intervals.take(slice(row, row + 1)), started.horizon_ms
            )

    def _add(self, jobs: JobTable, run: ExecutionIntervals, horizon_ms: int) -> None:
        """Add the phases of a job between the work at an interval's start and end."""
        row, start_ms, end_ms = (
            int(run.job[0]),
            int(run.start_ms[0]),
            int(run.end_ms[0]),
        )
        work_from_ms, work_to_ms = int(run.work_from_ms[0]), int(run.work_to_ms[0])
        source = self._streams.synchronous(int(jobs.class_id[row]))
        node_ms, n_nodes = self._node_ms[source.name], int(run.n_nodes[0])
        if run.kind[0] != RUN:
            in_run_ms = min(end_ms, horizon_ms) - max(start_ms, 0)
            node_ms[STOPPED] += n_nodes * max(in_run_ms, 0)
            return
        phases = source.phases(int(jobs.synchronous_id[row]))
        # Work that a killed job repeats is no progress
        job_id = int(jobs.job_id[row])
        reached_ms = self._reached_ms.get(job_id, 0)
        self._reached_ms[job_id] = max(reached_ms, work_to_ms)
        for low_ms, high_ms, is_redone in (
            (work_from_ms, min(work_to_ms, max(reached_ms, work_from_ms)), True),
            (min(work_to_ms, max(reached_ms, work_from_ms)), work_to_ms, False),
        ):
            if low_ms >= high_ms:
                continue
            high = int(np.searchsorted(phases.into_ms, high_ms))
            low = max(int(np.searchsorted(phases.into_ms, low_ms, side="right")) - 1, 0)
            phase = phases.phase[low:high]
            if is_redone:
                phase = np.where(
                    phase == TrainingPhase.TRAIN, TrainingPhase.REDO, phase
                )
            edges_ms = np.append(np.maximum(phases.into_ms[low:high], low_ms), high_ms)
            edges_ms -= work_from_ms
            # A slowed job takes longer for the same work
            if end_ms - start_ms != work_to_ms - work_from_ms:
                edges_ms = edges_ms * (end_ms - start_ms) // (work_to_ms - work_from_ms)
            edges_ms += start_ms
            in_run_ms = np.diff(np.clip(edges_ms, 0, horizon_ms))
            has_begun = (
                (phases.into_ms[low:high] >= low_ms)
                & (edges_ms[:-1] >= 0)
                & (in_run_ms > 0)
            )
            self._n_begun[source.name] += np.bincount(
                phase[has_begun], minlength=len(TrainingPhase) + 1
            )
            np.add.at(node_ms, phase, n_nodes * in_run_ms)

    def block(self) -> dict[str, Any]:
        """Return the `synchronous` block of the metrics."""
        return {
            "synchronous": {name: self._job_metrics(name) for name in self._node_ms}
        }

    def _job_metrics(self, name: str) -> dict[str, Any]:
        """Return the metrics of one stream."""
        node_ms, n_begun = self._node_ms[name], self._n_begun[name]
        total, progress = int(node_ms.sum()), int(node_ms[TrainingPhase.TRAIN])
        return {
            "ettr": progress / total if total else None,
            "failures": int(n_begun[TrainingPhase.HUNG]),
            "planned_interruptions": int(n_begun[TrainingPhase.PLANNED]),
            "checkpoints": int(n_begun[TrainingPhase.CHECKPOINT]),
            "node_h": total / MS_PER_H,
            "stopped_node_h": int(node_ms[STOPPED]) / MS_PER_H,
            "lost_node_h": (total - progress) / MS_PER_H,
            **{
                f"{key}_node_h": int(node_ms[list(phases)].sum()) / MS_PER_H
                for key, phases in _HOURS.items()
            },
        }
